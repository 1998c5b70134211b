// The marks of a chart on uPlot's canvas: bands, lines, dots, bars.

import type uPlot from "uplot";
import type { Series } from "./series";
import { colour, dash, key } from "./theme";
import type { Chart, Point } from "./types";

type Pixels = (at: Point) => Point;

function path(context: CanvasRenderingContext2D, points: Point[], to: Pixels): void {
  context.beginPath();
  points.forEach((at, index) => {
    const [x, y] = to(at);
    if (index) context.lineTo(x, y);
    else context.moveTo(x, y);
  });
}

function dot(context: CanvasRenderingContext2D, at: Point, radius: number): void {
  context.beginPath();
  context.arc(at[0], at[1], radius, 0, 2 * Math.PI);
  context.fill();
}

/** The lines whose bands are drawn: the one that is pointed at, or the only one. Bands over each other are grey on grey. */
export function banded(shown: Series[], strong: string | null): Series[] {
  const all = shown.filter((one) => one.band.length > 1);
  return all.length === 1 ? all : all.filter((one) => key(one.name) === strong);
}

export function draw(plot: uPlot, chart: Chart, shown: Series[], strong: string | null): void {
  const context = plot.ctx;
  const ratio = devicePixelRatio || 1;
  const to: Pixels = ([x, y]) => [plot.valToPos(x, "x", true), plot.valToPos(y, "y", true)];
  context.save();
  context.beginPath();
  context.rect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
  context.clip();
  context.lineJoin = "round";
  if (chart.kind === "bars") bars(context, shown, to);
  else {
    for (const one of banded(shown, strong)) band(context, one, to, ratio);
    for (const one of shown) {
      context.globalAlpha = strong === null || strong === key(one.name) ? 1 : 0.35;
      lines(context, chart, one, to, ratio);
    }
  }
  context.restore();
}

function band(context: CanvasRenderingContext2D, one: Series, to: Pixels, ratio: number): void {
  const above = one.band.map(([x, , high]): Point => [x, high]);
  const below = one.band.map(([x, low]): Point => [x, low]).reverse();
  path(context, [...above, ...below], to);
  context.closePath();
  context.fillStyle = context.strokeStyle = colour(one.name);
  context.globalAlpha = 0.1;
  context.fill();
  context.globalAlpha = 0.5;
  context.lineWidth = ratio;
  for (const edge of [above, below]) {
    path(context, edge, to);
    context.stroke();
  }
}

function lines(context: CanvasRenderingContext2D, chart: Chart, one: Series, to: Pixels, ratio: number): void {
  const alpha = context.globalAlpha;
  context.strokeStyle = context.fillStyle = colour(one.name);
  if (chart.kind === "points") {
    context.globalAlpha = alpha * 0.55;
    for (const at of one.singles.flat()) dot(context, to(at), 3 * ratio);
    context.globalAlpha = alpha;
    for (const at of one.points) dot(context, to(at), 6.5 * ratio);
    return;
  }
  context.lineWidth = (one.name === "base" ? 2.6 : 2) * ratio;
  context.setLineDash(dash(one.name).map((length) => length * ratio));
  path(context, one.points, to);
  context.stroke();
  context.lineWidth = 1.2 * ratio;
  context.globalAlpha = alpha * 0.8;
  for (const run of one.singles) {
    path(context, run, to);
    context.stroke();
  }
  context.globalAlpha = alpha;
  context.setLineDash([]);
  if (one.points.length <= 40) for (const at of one.points) dot(context, to(at), 2.6 * ratio);
  for (const at of one.marks) dot(context, to(at), 5 * ratio);
}

function bars(context: CanvasRenderingContext2D, shown: Series[], to: Pixels): void {
  const width = 0.8 / Math.max(1, shown.length);
  shown.forEach((one, index) => {
    context.fillStyle = colour(one.name);
    for (const [x, y] of one.points) {
      const [left, top] = to([x - 0.4 + index * width, Math.max(y, 0)]);
      const [right, bottom] = to([x - 0.4 + (index + 0.92) * width, Math.min(y, 0)]);
      context.fillRect(left, top, right - left, bottom - top);
    }
  });
}
