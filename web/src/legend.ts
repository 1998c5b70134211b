// One legend for many charts: a click hides or shows a model everywhere, a pointer on it brings it forward.

import { button, h } from "./dom";
import { Listeners } from "./listeners";
import { key, swatch } from "./theme";

const hidden = new Set<string>();
const listeners = new Listeners();
let pointed: string | null = null;

export function onVisible(owner: Element, act: () => void): void {
  listeners.add(owner, act);
}

/** Whether a model is hidden, by any of its names. */
export function isHidden(model: string): boolean {
  return hidden.has(key(model));
}

/** Brings a model forward in every chart; none with null. */
export function point(model: string | null): void {
  const next = model === null ? null : key(model);
  if (next === pointed) return;
  pointed = next;
  tell();
}

export function strong(): string | null {
  return pointed !== null && !hidden.has(pointed) ? pointed : null;
}

function tell(): void {
  listeners.tell();
}

/** The names of a group of charts, one entry for those that go together. A double click shows one alone. */
export function legend(all: string[]): HTMLElement {
  const names = [...new Set(all.map(key))];
  const alone = (name: string): void => {
    const isAlone = names.every((other) => other === name || hidden.has(other));
    for (const other of names) {
      if (isAlone || other === name) hidden.delete(other);
      else hidden.add(other);
    }
    tell();
  };
  const entries = names.map((name) => {
    const entry = button("", () => {}, {
      class: "entry",
      title: "Click hides or shows; double-click shows it alone",
      onclick: (event) => {
        if ((event as MouseEvent).altKey) return alone(name);
        if (hidden.has(name)) hidden.delete(name);
        else hidden.add(name);
        tell();
      },
      ondblclick: () => alone(name),
      onpointerenter: () => point(name),
      onpointerleave: () => point(null),
    });
    entry.append(swatch(name), name);
    const update = (): void => entry.setAttribute("aria-pressed", String(!hidden.has(name)));
    update();
    onVisible(entry, update);
    return entry;
  });
  return h("div.legend", { role: "group", "aria-label": "Models" }, ...entries, h("span.hint", {}, "Click hides a model, double-click shows it alone; drag in a chart to zoom"));
}
