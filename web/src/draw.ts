// The marks of a chart, on a canvas or as SVG: bands, lines, marks of one shape a model.

import type { Series } from "./series";
import { dash, key, shape } from "./theme";
import type { Chart, Point } from "./types";

/** What a canvas has of this, and `svg.ts` writes as paths. */
export type Pen = Pick<
  CanvasRenderingContext2D,
  | "globalAlpha" | "fillStyle" | "strokeStyle" | "lineWidth" | "lineJoin" | "setLineDash" | "beginPath" | "closePath" | "moveTo" | "lineTo"
  | "arc" | "rect" | "clip" | "fill" | "stroke" | "fillRect" | "save" | "restore"
>;

/** Where marks go, in units of the pen, `ratio` of them a pixel. */
export interface Frame {
  pen: Pen;
  box: { left: number; top: number; width: number; height: number };
  ratio: number;
  to: (at: Point) => Point;
  colour: (name: string) => string;
}

/** Bands over each other are grey on grey: with more than so many, those of the highest lines are drawn. */
const BANDS = 6;
const HIGHEST = 2;

function path({ pen, to }: Frame, points: Point[]): void {
  pen.beginPath();
  points.forEach((at, index) => {
    const [x, y] = to(at);
    if (index) pen.lineTo(x, y);
    else pen.moveTo(x, y);
  });
}

/** A mark of about the area of a disc of `radius`. */
export function mark(pen: Pen, [x, y]: Point, radius: number, corners: number): void {
  pen.beginPath();
  if (!corners) pen.arc(x, y, radius, 0, 2 * Math.PI);
  // A triangle stands, a square lies, a diamond is a square that stands.
  const turn = corners === 4 ? Math.PI / 4 : -Math.PI / 2;
  const sides = corners === 5 ? 4 : corners;
  for (let side = 0; side < sides; side += 1) {
    const angle = turn + (2 * Math.PI * side) / sides;
    const at: Point = [x + 1.3 * radius * Math.cos(angle), y + 1.3 * radius * Math.sin(angle)];
    if (side) pen.lineTo(...at);
    else pen.moveTo(...at);
  }
  pen.closePath();
  pen.fill();
}

/** The lines whose bands are drawn: the one that is pointed at, or all, or of many the highest. */
export function banded(shown: Series[], strong: string | null): Series[] {
  const all = shown.filter((one) => one.band.length > 1);
  if (strong !== null) return all.filter((one) => key(one.name) === strong);
  const height = (one: Series): number => one.points.reduce((sum, at) => sum + at[1], 0) / one.points.length;
  return all.length <= BANDS ? all : [...all].sort((a, b) => height(b) - height(a)).slice(0, HIGHEST);
}

export function draw(frame: Frame, chart: Chart, shown: Series[], strong: string | null): void {
  const { pen, box } = frame;
  pen.save();
  pen.beginPath();
  pen.rect(box.left, box.top, box.width, box.height);
  pen.clip();
  pen.lineJoin = "round";
  for (const one of banded(shown, strong)) band(frame, one);
  for (const one of shown) {
    pen.globalAlpha = strong === null || strong === key(one.name) ? 1 : 0.35;
    lines(frame, chart, one);
  }
  pen.restore();
}

function band(frame: Frame, one: Series): void {
  const { pen, ratio } = frame;
  const above = one.band.map(([x, , high]): Point => [x, high]);
  const below = one.band.map(([x, low]): Point => [x, low]).reverse();
  path(frame, [...above, ...below]);
  pen.closePath();
  pen.fillStyle = pen.strokeStyle = frame.colour(one.name);
  pen.globalAlpha = 0.13;
  pen.fill();
  pen.globalAlpha = 0.45;
  pen.lineWidth = 0.8 * ratio;
  for (const edge of [above, below]) {
    path(frame, edge);
    pen.stroke();
  }
}

function lines(frame: Frame, chart: Chart, one: Series): void {
  const { pen, ratio, to } = frame;
  const alpha = pen.globalAlpha;
  const corners = shape(one.name);
  pen.strokeStyle = pen.fillStyle = frame.colour(one.name);
  if (chart.kind === "points") {
    pen.globalAlpha = alpha * 0.55;
    for (const at of one.singles.flat()) mark(pen, to(at), 3 * ratio, corners);
    pen.globalAlpha = alpha;
    for (const at of one.points) mark(pen, to(at), 6.5 * ratio, corners);
    return;
  }
  pen.lineWidth = (one.name === "base" ? 2.6 : 2) * ratio;
  pen.setLineDash(dash(one.name).map((length) => length * ratio));
  path(frame, one.points);
  pen.stroke();
  pen.lineWidth = 1.2 * ratio;
  pen.globalAlpha = alpha * 0.8;
  for (const run of one.singles) {
    path(frame, run);
    pen.stroke();
  }
  pen.globalAlpha = alpha;
  pen.setLineDash([]);
  if (one.points.length <= 40) for (const at of one.points) mark(pen, to(at), 3 * ratio, corners);
  for (const at of one.marks) mark(pen, to(at), 5 * ratio, corners);
}
