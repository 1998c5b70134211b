// A chart: uPlot's axes, scales and zoom, our marks, a tooltip and buttons.

import uPlot from "uplot";
import { csv, download, format, h, slug } from "./dom";
import { draw } from "./draw";
import { powers, svg } from "./svg";
import { isHidden, onVisible, point, strong } from "./legend";
import { domain, PLAIN, series, type Look, type Series } from "./series";
import { colour, onTheme, swatch } from "./theme";
import { explained } from "./words";
import type { Chart, Point } from "./types";

const zooms = new Map<string, { x: [number, number]; y: [number, number] }>();

export interface Drawn {
  element: HTMLElement;
  look(look: Look): void;
}

function variable(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export function chart(data: Chart): Drawn {
  let look = PLAIN;
  let all: Series[] = [];
  let plot: uPlot | undefined;
  const holder = h("div.plot", { role: "img", title: "Drag to zoom, double-click to reset", "aria-label": `${data.title}: ${data.y} over ${data.x}` });
  const tip = h("div.chart-tip", { hidden: true });
  const halo = h("div.halo", { hidden: true });
  const reset = h("button", { type: "button", hidden: true, onclick: () => zoom(null) }, "Reset zoom");
  const tools = h(
    "div.tools",
    {},
    reset,
    h("button", { type: "button", title: "The values as CSV", onclick: () => save() }, "CSV"),
    h("button", { type: "button", title: "The picture as SVG, for a paper", onclick: () => vector() }, "SVG"),
    h("button", { type: "button", title: "The picture as PNG", onclick: () => picture() }, "PNG"),
  );
  const element = h(
    "figure.chart",
    { "data-title": data.title },
    h("div.chart-head", {}, h("h3", {}, data.title), tools),
    h("div.plot-box", {}, holder, halo, tip),
    h("figcaption", {}, ...explained(data.caption)),
  );

  const shown = (): Series[] => all.filter((one) => !isHidden(one.name));
  const full = (): { x: [number, number]; y: [number, number] } => domain(all, data);
  const zoom = (to: { x: [number, number]; y: [number, number] } | null): void => {
    if (to) zooms.set(data.title, to);
    else zooms.delete(data.title);
    reset.hidden = !to;
    const at = to ?? full();
    plot?.batch(() => {
      plot?.setScale("x", { min: at.x[0], max: at.x[1] });
      plot?.setScale("y", { min: at.y[0], max: at.y[1] });
    });
  };
  const save = (): void => {
    const rows = all.flatMap((one) => {
      const bands = new Map(one.band.map(([x, low, high]) => [x, [low, high]]));
      const row = ([x, y]: Point, run: string): string[] =>
        [one.name, run, x, y, ...(bands.get(x) ?? ["", ""])].map(String);
      const singles = one.singles.flatMap((run, index) => run.map((at) => row(at, String(index))));
      return [...one.points.map((at) => row(at, "")), ...singles];
    });
    download(`${slug(data.title)}.csv`, csv([["name", "run", data.x, data.y, "low", "high"], ...rows]), "text/csv");
  };
  const vector = (): void => {
    download(`${slug(data.title)}.svg`, svg(data, shown(), zooms.get(data.title) ?? full()), "image/svg+xml");
  };
  const picture = (): void => {
    const from = plot?.ctx.canvas;
    if (!from) return;
    const to = document.createElement("canvas");
    [to.width, to.height] = [from.width, from.height];
    const context = to.getContext("2d");
    if (!context) return;
    context.fillStyle = variable("--card");
    context.fillRect(0, 0, to.width, to.height);
    context.drawImage(from, 0, 0);
    to.toBlob((blob) => blob && download(`${slug(data.title)}.png`, blob, "image/png"));
  };

  const hover = (u: uPlot): void => {
    const { left, top } = u.cursor;
    tip.hidden = halo.hidden = true;
    if (left === undefined || top === undefined || left < 0) return point(null);
    const near = nearest(u, shown(), left, top, data.kind === "points");
    point(near?.name ?? null);
    if (!near) return;
    tip.replaceChildren(
      h("div.tip-x", {}, `${data.x} ${format(near.x)}`),
      ...near.rows.map((row) =>
        h(
          `div.tip-row${row.name === near.name ? ".near" : ""}`,
          {},
          swatch(row.name),
          h("span", {}, row.name),
          h("b", {}, format(row.y)),
          row.band ? h("small", {}, `${format(row.band[0])} to ${format(row.band[1])}`) : null,
        ),
      ),
    );
    tip.hidden = halo.hidden = false;
    const box = u.over;
    const [px, py] = [u.valToPos(near.x, "x") + box.offsetLeft, u.valToPos(near.y, "y") + box.offsetTop];
    halo.style.transform = `translate(${px}px, ${py}px)`;
    halo.style.borderColor = colour(near.name);
    const width = tip.offsetWidth;
    const room = holder.clientWidth;
    // Beside the point; where neither side has room, below the plot, which the tooltip would hide.
    const [isRight, isLeft] = [px + 16 + width < room, px - 16 - width >= 0];
    const x = isRight ? px + 16 : isLeft ? px - 16 - width : Math.max(0, Math.min(px - width / 2, room - width));
    const y = isRight || isLeft ? Math.max(0, Math.min(py - 20, holder.clientHeight - tip.offsetHeight)) : holder.clientHeight + 4;
    tip.style.transform = `translate(${x}px, ${y}px)`;
  };

  const build = (): void => {
    plot?.destroy();
    const at = zooms.get(data.title) ?? full();
    reset.hidden = !zooms.has(data.title);
    const font = "12px system-ui, sans-serif";
    const axis = { stroke: () => variable("--muted"), font, labelFont: font, grid: { stroke: () => variable("--grid"), width: 1 }, ticks: { show: false } };
    const same = (_: uPlot, min: number | null, max: number | null): uPlot.Range.MinMax => [min ?? 0, max ?? 1];
    plot = new uPlot(
      {
        width: Math.max(240, holder.clientWidth),
        height: holder.clientWidth < 420 ? 250 : 300,
        padding: [10, 14, 0, 0],
        legend: { show: false },
        cursor: {
          drag: { x: true, y: true, uni: 24, setScale: false },
          points: { show: false },
          bind: { dblclick: () => () => (zoom(null), null) },
        },
        scales: {
          x: { time: false, range: same, distr: data.is_log ? 3 : 1, log: at.x[0] >= 0.5 ? 2 : 10, min: at.x[0], max: at.x[1] },
          y: { range: same, min: at.y[0], max: at.y[1] },
        },
        series: [{}, { show: false }],
        axes: [
          {
            ...axis,
            label: data.x,
            labelSize: 20,
            size: 30,
            ...(data.is_log ? { splits: (_u: uPlot, _i: number, low: number, high: number) => powers(low, high) } : {}),
            filter: (_u, splits) => splits,
            values: (_u, splits) => splits.map((split) => String(+split.toPrecision(3))),
          },
          { ...axis, label: data.y, labelSize: 20, size: (_u, values) => Math.max(46, 12 + 7 * Math.max(0, ...(values ?? []).map((value) => value.length))), values: (_u, splits) => splits.map((split) => String(+split.toPrecision(6))) },
        ],
        hooks: {
          draw: [
            (u) => {
              const to = ([x, y]: Point): Point => [u.valToPos(x, "x", true), u.valToPos(y, "y", true)];
              draw({ pen: u.ctx, box: u.bbox, ratio: devicePixelRatio || 1, to, colour }, data, shown(), strong());
            },
          ],
          setCursor: [hover],
          setSelect: [
            (u) => {
              if (u.select.width < 8 && u.select.height < 8) return;
              const [x, y] = [u.select, u.scales];
              const across = x.width >= 8 ? [u.posToVal(x.left, "x"), u.posToVal(x.left + x.width, "x")] : [y.x?.min ?? 0, y.x?.max ?? 1];
              const up = x.height >= 8 ? [u.posToVal(x.top + x.height, "y"), u.posToVal(x.top, "y")] : [y.y?.min ?? 0, y.y?.max ?? 1];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              zoom({ x: across as [number, number], y: up as [number, number] });
            },
          ],
        },
      },
      [at.x, [null, null]] as uPlot.AlignedData,
      holder,
    );
    zoom(zooms.get(data.title) ?? null);
  };

  const apply = (next: Look): void => {
    look = next;
    all = series(data, look);
    if (!plot) return;
    if (zooms.has(data.title)) plot.redraw(false);
    else zoom(null);
    plot.redraw(false);
  };
  apply(look);
  const redraw = (): void => plot?.redraw(false);
  onVisible(element, redraw);
  onTheme(element, redraw);
  // Built when it first has a width, and fitted whenever that changes.
  new ResizeObserver(() => {
    const width = holder.clientWidth;
    if (!width) return;
    if (!plot) build();
    else if (Math.abs(plot.width - width) > 1) plot.setSize({ width, height: width < 420 ? 250 : 300 });
  }).observe(holder);
  return { element, look: apply };
}

interface Near {
  x: number;
  y: number;
  name: string;
  rows: { name: string; y: number; band?: [number, number] }[];
}

/** The point nearest to the pointer, and what the other lines have at its x. */
function nearest(u: uPlot, shown: Series[], left: number, top: number, isScatter: boolean): Near | null {
  let best: { distance: number; at: Point; name: string } | null = null;
  for (const one of shown) {
    for (const at of [...one.points, ...one.singles.flat()]) {
      const [dx, dy] = [u.valToPos(at[0], "x") - left, u.valToPos(at[1], "y") - top];
      // Along a line the horizontal distance decides.
      const distance = isScatter ? dx * dx + dy * dy : dx * dx * 16 + dy * dy;
      if (!best || distance < best.distance) best = { distance, at, name: one.name };
    }
  }
  if (!best || (isScatter && best.distance > 1600)) return null;
  const { at, name } = best;
  const rows = shown.flatMap((one) => {
    const found = one.points.find(([x]) => x === at[0]) ?? (one.name === name ? at : undefined);
    if (!found || (isScatter && one.name !== name)) return [];
    const band = one.band.find(([x]) => x === at[0]);
    return [{ name: one.name, y: found[1], ...(band ? { band: [band[1], band[2]] as [number, number] } : {}) }];
  });
  rows.sort((a, b) => b.y - a.y);
  return { x: at[0], y: at[1], name, rows };
}
