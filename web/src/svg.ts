// A chart as SVG for a paper: white, fonts named, models told apart by colour, dash and mark.

import { draw, mark, type Frame, type Pen } from "./draw";
import type { Series } from "./series";
import { dash, onPaper, shape } from "./theme";
import type { Chart, Point } from "./types";

const WIDTH = 480;
const HEIGHT = 320;
const BOX = { left: 52, top: 12, width: WIDTH - 64, height: HEIGHT - 56 };
const FONT = "font-family=\"Helvetica, Arial, sans-serif\"";

/** Ticks of a logarithmic axis: powers of two for numbers of samples, of ten elsewhere. */
export function powers(low: number, high: number): number[] {
  const base = low >= 0.5 ? 2 : 10;
  const first = Math.ceil(Math.log(low) / Math.log(base) - 1e-9);
  const last = Math.floor(Math.log(high) / Math.log(base) + 1e-9);
  const step = Math.max(1, Math.ceil((last - first) / 8));
  const all = Array.from({ length: Math.max(0, Math.floor((last - first) / step) + 1) }, (_, index) => base ** (first + step * index));
  return all.length > 1 ? all : [low, high];
}

/** About five round numbers. */
function round(low: number, high: number): number[] {
  const power = 10 ** Math.floor(Math.log10((high - low) / 5));
  const step = power * ([1, 2, 5, 10].find((times) => (high - low) / (times * power) <= 6) ?? 10);
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, index) => (first + index) * step);
}

const escaped = (text: string): string => text.replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
const short = (value: number): string => String(+value.toFixed(2));

/** The calls of a canvas as elements. */
class Paper implements Pen {
  globalAlpha = 1;
  fillStyle: string | CanvasGradient | CanvasPattern = "";
  strokeStyle: string | CanvasGradient | CanvasPattern = "";
  lineWidth = 1;
  lineJoin: CanvasLineJoin = "round";
  readonly elements: string[] = [];
  private steps: string[] = [];
  private dashes: number[] = [];

  setLineDash(dashes: Iterable<number>): void {
    this.dashes = [...dashes];
  }
  beginPath(): void {
    this.steps = [];
  }
  closePath(): void {
    this.steps.push("Z");
  }
  moveTo(x: number, y: number): void {
    this.steps.push(`M${short(x)} ${short(y)}`);
  }
  lineTo(x: number, y: number): void {
    this.steps.push(`L${short(x)} ${short(y)}`);
  }
  /** A whole circle, the only arc of a chart. */
  arc(x: number, y: number, radius: number): void {
    const turn = `a${short(radius)} ${short(radius)} 0 1 0`;
    this.steps.push(`M${short(x - radius)} ${short(y)}${turn} ${short(2 * radius)} 0${turn} ${short(-2 * radius)} 0`);
  }
  rect(): void {}
  clip(): void {}
  save(): void {}
  restore(): void {}
  fill(): void {
    this.elements.push(`<path d="${this.steps.join("")}" fill="${this.fillStyle}" fill-opacity="${this.globalAlpha}"/>`);
  }
  fillRect(x: number, y: number, width: number, height: number): void {
    this.elements.push(`<rect x="${short(x)}" y="${short(y)}" width="${short(width)}" height="${short(height)}" fill="${this.fillStyle}"/>`);
  }
  stroke(): void {
    const dashes = this.dashes.length ? ` stroke-dasharray="${this.dashes.join(" ")}"` : "";
    this.elements.push(`<path d="${this.steps.join("")}" fill="none" stroke="${this.strokeStyle}" stroke-width="${short(this.lineWidth)}" stroke-opacity="${this.globalAlpha}" stroke-linejoin="round"${dashes}/>`);
  }
}

/** What is shown of a chart between two corners. */
export function svg(chart: Chart, shown: Series[], at: { x: [number, number]; y: [number, number] }): string {
  const scale = chart.is_log ? Math.log : (value: number): number => value;
  const share = (value: number, [low, high]: [number, number]): number => (value - low) / (high - low || 1);
  const to = ([x, y]: Point): Point => [
    BOX.left + BOX.width * share(scale(x), [scale(at.x[0]), scale(at.x[1])]),
    BOX.top + BOX.height * (1 - share(y, at.y)),
  ];
  const pen = new Paper();
  const frame: Frame = { pen, box: BOX, ratio: 1, to, colour: onPaper };
  draw(frame, chart, shown, null);
  const text = (x: number, y: number, words: string, more = "text-anchor=\"middle\""): string =>
    `<text x="${short(x)}" y="${short(y)}" ${more}>${escaped(words)}</text>`;
  const [right, bottom] = [BOX.left + BOX.width, BOX.top + BOX.height];
  const across = chart.is_log ? powers(...at.x) : round(...at.x);
  const grid = [
    ...across.map((x) => {
      const [place] = to([x, at.y[0]]);
      return `<path d="M${short(place)} ${BOX.top}V${bottom}" stroke="#ddd"/>${text(place, bottom + 15, String(+x.toPrecision(3)))}`;
    }),
    ...round(...at.y).map((y) => {
      const [, place] = to([at.x[0], y]);
      return `<path d="M${BOX.left} ${short(place)}H${right}" stroke="#ddd"/>${text(BOX.left - 6, place + 4, String(+y.toPrecision(6)), "text-anchor=\"end\"")}`;
    }),
  ];
  // The legend below the plot: one entry a line, with the dash and the mark that stand in the plot.
  const legend = new Paper();
  const names = shown.map((one, index) => {
    const y = HEIGHT + 10 + 18 * index;
    legend.strokeStyle = legend.fillStyle = onPaper(one.name);
    legend.lineWidth = 2;
    legend.setLineDash(dash(one.name));
    legend.beginPath();
    legend.moveTo(BOX.left, y);
    legend.lineTo(BOX.left + 26, y);
    if (chart.kind !== "points") legend.stroke();
    mark(legend, [BOX.left + 13, y], 3.5, shape(one.name));
    return text(BOX.left + 34, y + 4, one.name, "");
  });
  const height = HEIGHT + 18 * shown.length + 6;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}" ${FONT} font-size="12" fill="#222">
<title>${escaped(chart.title)}</title><rect width="100%" height="100%" fill="#fff"/>
<clipPath id="plot"><rect x="${BOX.left}" y="${BOX.top}" width="${BOX.width}" height="${BOX.height}"/></clipPath>
${grid.join("\n")}
<g clip-path="url(#plot)">${pen.elements.join("\n")}</g>
${text(BOX.left + BOX.width / 2, bottom + 34, chart.x)}
${text(0, 0, chart.y, `text-anchor="middle" transform="translate(14 ${BOX.top + BOX.height / 2}) rotate(-90)"`)}
${legend.elements.join("\n")}${names.join("\n")}
</svg>
`;
}
