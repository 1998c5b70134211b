// Colours: those of the page are in style.css, those of models here, by their order in the document.

import { Listeners } from "./listeners";

// Two colours of a theme differ by at least 15 (CIE 1976) as people with protanopia, deuteranopia or tritanopia see them,
// and from the background by a contrast of at least 3 : 1.
const LIGHT = ["#0b6fb8", "#e87500", "#00a058", "#7a1282", "#c081a8", "#d3163c", "#3d22d8", "#701a10"];
const DARK = ["#5db7f2", "#ffd23f", "#2fe08a", "#e45cc0", "#f23a24", "#8b7bff", "#8f9f62", "#b9607c"];
const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3], [14, 4]];
/** Corners of the marks, 0 for a disc and 5 for a square on its corner: with the dashes, models differ in grey too. */
const SHAPES = [0, 4, 3, 5];

const order: string[] = [];
let models: string[] = [];
const changed = new Listeners();
const media = matchMedia("(prefers-color-scheme: dark)");

/** Names in the order of their colours; the base has the colour of text. */
export function name(all: string[]): void {
  models = all;
  for (const model of all) if (!order.includes(key(model))) order.push(key(model));
}

/**
 * What models share a colour and an entry of the legend by: runs of one objective, and an objective's curve with the one
 * configuration of it that tables show (`grpo` and `grpo@learning-rate=1e-4`).
 */
export function key(model: string): string {
  const family = model.replace(/ seed \d+$/, "");
  const short = family.split(/[@:]/)[0] ?? family;
  if (short === family) return family;
  const alike = models.filter((other) => other.split(/[@: ]/)[0] === short);
  return alike.length === 1 ? short : family;
}

export function isDark(): boolean {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : media.matches;
}

function place(model: string): number {
  const own = key(model);
  if (!order.includes(own)) order.push(own);
  return order.filter((other) => other !== "base").indexOf(own);
}

/** The colour of a model on white and on black. */
function colours(model: string): [light: string, dark: string] {
  if (model === "base" || model === "closed form" || model === "p*") return ["#20262d", "#e8eaed"];
  const at = place(model) % LIGHT.length;
  return [LIGHT[at] ?? "#777", DARK[at] ?? "#777"];
}

export function colour(model: string): string {
  return colours(model)[isDark() ? 1 : 0];
}

/** Gives an element the colour of a model in either theme, as `--c`. */
export function paint(element: HTMLElement, model: string): HTMLElement {
  const [light, dark] = colours(model);
  element.classList.add("painted");
  element.style.setProperty("--l", light);
  element.style.setProperty("--d", dark);
  return element;
}

export function swatch(model: string): HTMLElement {
  const made = document.createElement("i");
  made.className = "swatch";
  return paint(made, model);
}

/** The colour on white paper. */
export const onPaper = (model: string): string => colours(model)[0];

const isPlain = (model: string): boolean => model === "base" || model === "p*";

export function dash(model: string): number[] {
  return isPlain(model) ? [] : (DASHES[place(model) % DASHES.length] ?? []);
}

export function shape(model: string): number {
  return isPlain(model) ? 0 : (SHAPES[(place(model) + 1) % SHAPES.length] ?? 0);
}

export function onTheme(owner: Element, act: () => void): void {
  changed.add(owner, act);
}

export function cycleTheme(): string {
  const next = { light: "dark", dark: "" }[document.documentElement.dataset.theme ?? ""] ?? "light";
  if (next) document.documentElement.dataset.theme = next;
  else delete document.documentElement.dataset.theme;
  changed.tell();
  return next || "auto";
}

media.addEventListener("change", () => changed.tell());
