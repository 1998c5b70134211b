// Lines of a chart as they are drawn: runs of one name as mean and range, smoothed by steps where that is asked for.

import type { Band, Chart, Line, Point } from "./types";

export interface Series {
  name: string;
  points: Point[];
  band: Band[];
  marks: Point[];
  /** Single runs beside their mean. */
  singles: Point[][];
}

export interface Look {
  /** Steps of the window that values are averaged over; 0 for none. */
  window: number;
  /** Every run instead of mean and range. */
  each: boolean;
}

export const PLAIN: Look = { window: 0, each: false };

/** The mean over a window of so many steps, centred on each point. */
export function smooth(points: Point[], window: number): Point[] {
  if (window <= 0) return points;
  const half = window / 2;
  let [first, last, sum] = [0, 0, 0];
  return points.map(([x]) => {
    for (; last < points.length && (points[last] as Point)[0] <= x + half; last += 1) sum += (points[last] as Point)[1];
    for (; (points[first] as Point)[0] < x - half; first += 1) sum -= (points[first] as Point)[1];
    return [x, sum / (last - first)];
  });
}

/** Mean and range of runs, at every x that all of them have; where these are too few, at every x that one has. */
function together(runs: Point[][]): { points: Point[]; band: Band[] } {
  const values = new Map<number, number[]>();
  for (const [x, y] of runs.flat()) values.set(x, [...(values.get(x) ?? []), y]);
  const sorted = [...values].sort(([a], [b]) => a - b);
  const common = sorted.filter(([, ys]) => ys.length === runs.length);
  const all = common.length > 1 ? common : sorted;
  return {
    points: all.map(([x, ys]) => [x, ys.reduce((sum, y) => sum + y, 0) / ys.length]),
    band: all.map(([x, ys]) => [x, Math.min(...ys), Math.max(...ys)]),
  };
}

export function series(chart: Chart, look: Look): Series[] {
  const groups = new Map<string, Line[]>();
  for (const line of chart.lines) groups.set(line.name, [...(groups.get(line.name) ?? []), line]);
  return [...groups].map(([name, lines]): Series => {
    const marks = lines.flatMap((line) => (line.mark ? [line.mark] : []));
    const points = lines.map((line) => (chart.kind === "runs" ? smooth(line.points, look.window) : line.points));
    if (chart.kind === "points") {
      const all = points.flat();
      const mean = (place: 0 | 1): number => all.reduce((sum, at) => sum + at[place], 0) / all.length;
      return { name, points: [[mean(0), mean(1)]], band: [], marks, singles: all.length > 1 ? all.map((at) => [at]) : [] };
    }
    const [first = []] = points;
    if (points.length === 1) return { name, points: first, band: lines[0]?.band ?? [], marks, singles: [] };
    if (chart.kind === "runs" && !look.each) return { name, ...together(points), marks, singles: [] };
    return { name, points: [], band: [], marks, singles: points };
  });
}

/** Lowest and highest of x and y. Bands widen y by at most twice the curves' own range, so that curves stay readable. */
export function domain(all: Series[], chart: Chart): { x: [number, number]; y: [number, number] } {
  const points = all.flatMap((one) => [...one.points, ...one.singles.flat(), ...one.marks]);
  const range = (values: number[]): [number, number] =>
    values.length
      ? [values.reduce((a, b) => Math.min(a, b)), values.reduce((a, b) => Math.max(a, b))]
      : [0, 1];
  let x = range(points.map((at) => at[0]));
  let y = range(points.map((at) => at[1]));
  const room = Math.max(2 * (y[1] - y[0]), Math.abs(y[1]) * 0.02, 1e-9);
  const bands = all.flatMap((one) => one.band);
  y = [
    Math.max(range([y[0], ...bands.map((at) => at[1])])[0], y[0] - room),
    Math.min(range([y[1], ...bands.map((at) => at[2])])[1], y[1] + room),
  ];
  const pad = (at: [number, number], share: number): [number, number] => {
    const span = at[1] - at[0] || Math.abs(at[1]) || 1;
    return [at[0] - span * share, at[1] + span * share];
  };
  if (chart.is_log) {
    const factor = (x[1] / x[0]) ** 0.03 || 1.1;
    x = x[0] === x[1] ? [x[0] / 2, x[1] * 2] : [x[0] / factor, x[1] * factor];
  } else {
    x = pad(x, chart.kind === "runs" ? 0.01 : 0.05);
  }
  const padded = pad(y, 0.06);
  // What is never negative begins little below zero, for the width of its line.
  if (y[0] >= 0 && padded[0] < 0) padded[0] = -0.02 * padded[1];
  return { x, y: chart.y_range ? pad(chart.y_range, 0.02) : padded };
}
