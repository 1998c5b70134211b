// Charts of runs, drawn as SVG: one line for each run, and grey lines for earlier runs.

import { h } from "../src/dom";
import { svg } from "./svg";

export interface Line {
  name: string;
  /** `run-0`, `run-1`, or `earlier`. */
  kind: string;
  points: [x: number, y: number][];
  /** Where its circle is; at the last point unless given. */
  mark?: [x: number, y: number];
  /** A text beside the circle. */
  text?: string;
}

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP, RIGHT] = [420, 260, 58, 40, 12, 14];

/** Ticks at round numbers, about five. */
function ticks(low: number, high: number): number[] {
  const raw = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= raw) ?? raw;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => Number(((first + index) * step).toPrecision(6)));
}

function range(values: number[], least: number): [number, number] {
  const [low, high] = [Math.min(...values), Math.max(...values)];
  const pad = Math.max(least - (high - low), (high - low) * 0.12) / 2;
  return [low >= 0 ? Math.max(0, low - pad) : low - pad, high + pad];
}

export interface Curve {
  element: HTMLElement;
  update(lines: Line[]): void;
}

/** A chart; `least` are the smallest widths of its axes. */
export function curve(title: string, axes: [x: string, y: string], least: [number, number], caption: string): Curve {
  const holder = h("div.curve");
  const element = h("figure.chart", {}, h("h3", {}, title), holder, h("figcaption", {}, caption));
  const update = (lines: Line[]): void => {
    const all = lines.flatMap((line) => line.points);
    if (!all.length) return holder.replaceChildren();
    const [x0, x1] = range(all.map(([x]) => x), least[0]);
    const [y0, y1] = range(all.map(([, y]) => y), least[1]);
    const x = (value: number): number => LEFT + ((value - x0) / (x1 - x0)) * (WIDTH - LEFT - RIGHT);
    const y = (value: number): number => HEIGHT - BOTTOM - ((value - y0) / (y1 - y0)) * (HEIGHT - BOTTOM - TOP);
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": described(title, axes, lines) });
    for (const tick of ticks(x0, x1)) {
      picture.append(
        svg("line.grid", { x1: x(tick), x2: x(tick), y1: TOP, y2: HEIGHT - BOTTOM }),
        svg("text.tick", { x: x(tick), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, String(tick)),
      );
    }
    for (const tick of ticks(y0, y1)) {
      picture.append(
        svg("line.grid", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
        svg("text.tick", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, String(tick)),
      );
    }
    picture.append(
      svg("text.axis", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, axes[0]),
      svg("text.axis", { x: 12, y: (TOP + HEIGHT - BOTTOM) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(TOP + HEIGHT - BOTTOM) / 2})` }, axes[1]),
    );
    // Earlier runs first, so that the others lie above them.
    for (const line of [...lines].sort((a, b) => Number(b.kind === "earlier") - Number(a.kind === "earlier"))) {
      const place = line.points.map(([px, py]) => `${x(px).toFixed(1)},${y(py).toFixed(1)}`).join(" ");
      const drawn = svg(`g.line.${line.kind}`, {}, svg("title", {}, line.name), svg("polyline", { points: place }));
      const mark = line.mark ?? line.points.at(-1);
      if (mark) {
        const [cx, cy] = [x(mark[0]), y(mark[1])];
        drawn.append(svg("circle", { cx, cy, r: line.kind === "earlier" ? 3 : 5 }));
        const isRight = cx > WIDTH / 2;
        if (line.text) drawn.append(svg("text.mark", { x: cx + (isRight ? -7 : 7), y: cy - 5, "text-anchor": isRight ? "end" : "start" }, line.text));
      }
      picture.append(drawn);
    }
    holder.replaceChildren(picture);
  };
  return { element, update };
}

function described(title: string, axes: [string, string], lines: Line[]): string {
  const ends = lines.map(({ name, points, mark }) => {
    const [x = 0, y = 0] = mark ?? points.at(-1) ?? [];
    return `${name}: ${axes[0]} ${x.toPrecision(3)}, ${axes[1]} ${y.toPrecision(3)}`;
  });
  return `${title}. ${ends.join("; ")}`;
}
