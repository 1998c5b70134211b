// Tables: a click sorts by a column, a click on a number copies it, a button saves all as CSV.

import { button, copy, csv, download, h, slug } from "./dom";
import { swatch } from "./theme";
import { explained, meaning } from "./words";
import type { Cell, Table } from "./types";

const text = (cell: Cell): string => (typeof cell === "string" ? cell : cell[0]);

/** The number that a cell begins with: `.83 (.88)` is .83, `31.2 %` is 31.2. */
export function number(cell: string): number {
  const found = /^[^\d.+-]*([+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)/i.exec(cell.replaceAll("\u2212", "-"));
  return found?.[1] ? Number(found[1]) : NaN;
}

function isNumber(cell: string): boolean {
  return /^[+\-.]?\d/.test(cell.trim());
}

export function table(data: Table, name: string, models: Set<string>): HTMLElement {
  const [header = [], ...rows] = data.rows;
  const numeric = header.map((_, column) => rows.some((row) => isNumber(text(row[column] ?? ""))));
  const body = h("tbody");
  let sorted: { column: number; isUp: boolean } | null = null;
  const cell = (one: Cell, column: number): HTMLElement => {
    const words = text(one);
    const hint = typeof one === "string" ? undefined : one[1];
    const isModel = column === 0 && models.has(words);
    const made = h(column ? "td" : "th", column ? {} : { scope: "row" });
    if (numeric[column] && isNumber(words)) {
      // A difference or a value stands out from its interval.
      const [, first = words, rest = ""] = /^(\S+)(\s[\s\S]*)?$/.exec(words) ?? [];
      made.append(
        h("button.number", { type: "button", ...(hint ? { "data-tip": hint } : {}), "data-copy": words, "aria-label": `Copy ${words}` }, first, rest ? h("small", {}, rest) : null),
      );
      if (/\*/.test(words)) made.classList.add("significant");
    } else {
      if (isModel) made.append(swatch(words));
      if (words.length > 60) made.classList.add("long");
      const means = column || !words ? undefined : isModel ? undefined : meaning(words);
      // Names of objectives break after a colon.
      const parts = words.split(/(?<=:)/).flatMap((part, place) => (place ? [h("wbr"), part] : [part]));
      made.append(...(means ? [h("span.word", { "data-tip": means, tabindex: 0 }, words)] : parts));
      if (hint) made.setAttribute("data-tip", hint);
    }
    if (numeric[column]) made.classList.add("right");
    return made;
  };
  const heads = header.map((one, column) => {
    const words = text(one);
    const means = meaning(words);
    const sort = (): void => {
      sorted = { column, isUp: sorted?.column === column ? !sorted.isUp : !numeric[column] };
      fill();
    };
    const attributes: Record<string, string> = means ? { "data-tip": means } : {};
    const made = h("th", { scope: "col" }, button(words, sort, { class: `sort${means ? " word" : ""}`, ...attributes }));
    if (numeric[column]) made.classList.add("right");
    return made;
  });
  const fill = (): void => {
    const order = [...rows];
    if (sorted) {
      const { column, isUp } = sorted;
      const sign = isUp ? 1 : -1;
      order.sort((a, b) => {
        const [x, y] = [text(a[column] ?? ""), text(b[column] ?? "")];
        const [left, right] = [number(x), number(y)];
        if (!numeric[column]) return sign * x.localeCompare(y);
        // Cells without a number come last, whichever way.
        if (Number.isNaN(left) || Number.isNaN(right)) return Number(Number.isNaN(left)) - Number(Number.isNaN(right));
        return sign * (left - right);
      });
    }
    heads.forEach((head, column) => {
      const state = sorted?.column === column ? (sorted.isUp ? "ascending" : "descending") : "none";
      head.setAttribute("aria-sort", state);
    });
    body.replaceChildren(...order.map((row) => h("tr", {}, ...row.map(cell))));
  };
  fill();
  body.addEventListener("click", (event) => {
    const target = event.target instanceof Element ? event.target.closest("[data-copy]") : null;
    if (target) void copy(target.getAttribute("data-copy") ?? "");
  });
  const save = button("CSV", () => download(`${slug(data.title || name)}.csv`, csv(data.rows.map((row) => row.map(text))), "text/csv"), {
    class: "tool",
    title: "This table as CSV",
  });
  const shown = h("div.wide", { tabindex: 0, role: "region", "aria-label": data.title || name }, h(header.length > 9 ? "table.dense" : "table", {}, h("thead", {}, h("tr", {}, ...heads)), body));
  const note = data.note ? h("p.note", {}, ...explained(data.note)) : null;
  if (!data.title && !data.is_folded) {
    const about = h("div.table-head", {}, h("div.about", {}, note), save);
    return h("div.table", {}, about, shown);
  }
  if (data.is_folded) return h("details.fold", {}, h("summary", {}, data.title || name), note, h("div.table-tools", {}, save), shown);
  return h("div.table", {}, h("div.table-head", {}, h("h3", {}, data.title), save), note, shown);
}
