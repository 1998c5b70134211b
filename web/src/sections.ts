// Sections of the document: paragraphs, tables, charts with one legend.

import { chart, type Drawn } from "./chart";
import { h } from "./dom";
import { legend } from "./legend";
import { table } from "./table";
import { explained } from "./words";
import type { Chart, Section } from "./types";

/** What `charts` puts on a page: the charts and a legend of all their names. */
export interface Group {
  element: HTMLElement;
  drawn: Drawn[];
}

export function charts(all: Chart[]): Group {
  const drawn = all.map(chart);
  const names = all.flatMap((one) => one.lines.map((line) => line.name));
  const element = h(
    "div.charts-group",
    {},
    new Set(names).size > 1 ? legend(names) : null,
    h("div.charts", {}, ...drawn.map((one) => one.element)),
  );
  return { element, drawn };
}

/** A section; on a phone all but the first are folded. */
export function section(data: Section, models: Set<string>, isLater = false): HTMLElement {
  const make = (): HTMLElement[] => data.blocks.map((block) => {
    if ("text" in block) return h("p", {}, ...explained(block.text));
    if ("table" in block) return table(block.table, data.heading, models);
    return charts(block.charts).element;
  });
  const isFolded = data.is_folded || (isLater && matchMedia("(max-width: 640px)").matches);
  if (!isFolded) return h("section.card", {}, h("h2", {}, ...explained(data.heading)), ...make());
  const made = h("details.card.fold", {}, h("summary", {}, h("h2", {}, data.heading)));
  // A page of sixteen models has many of these: each is made when it is opened.
  made.addEventListener("toggle", () => made.childElementCount === 1 && made.append(...make()));
  return made;
}
