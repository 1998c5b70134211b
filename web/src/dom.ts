// Elements made from text, never from markup: whatever a model wrote becomes a text node.

type Child = Node | string | null | undefined | false;
type Attributes = Record<string, string | number | boolean | ((event: Event) => void)>;

/** An element with a class (`div.card.wide`), attributes, listeners (`onclick`) and children. */
export function h(name: string, attributes: Attributes = {}, ...children: Child[]): HTMLElement {
  const [tag, ...classes] = name.split(".");
  const made = document.createElement(tag || "div");
  if (classes.length) made.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") made.addEventListener(key.slice(2), value);
    else if (typeof value === "boolean") made.toggleAttribute(key, value);
    else made.setAttribute(key, String(value));
  }
  made.append(...children.filter((child): child is Node | string => !!child || child === ""));
  return made;
}

export function button(text: string, act: () => void, attributes: Attributes = {}): HTMLElement {
  return h("button", { type: "button", onclick: act, ...attributes }, text);
}

export function select(
  label: string,
  options: [value: string, text: string][],
  chosen: string,
  act: (value: string) => void,
  attributes: Attributes = {},
): HTMLElement {
  const made = h("select", { ...attributes, onchange: () => act((made as HTMLSelectElement).value) });
  for (const [value, text] of options) made.append(h("option", { value, selected: value === chosen }, text));
  return h("label", {}, `${label} `, made);
}

let said: HTMLElement | undefined;
let silence = 0;

/** A word at the bottom of the window that goes away again. */
export function say(text: string): void {
  said ??= document.body.appendChild(h("div.said", { role: "status" }));
  said.textContent = text;
  said.classList.add("on");
  clearTimeout(silence);
  silence = window.setTimeout(() => said?.classList.remove("on"), 1600);
}

export async function copy(text: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // A page opened from disk may not have the clipboard: the selection does.
    const area = h("textarea.offscreen") as HTMLTextAreaElement;
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
  }
  say(`Copied ${text.length > 40 ? `${text.slice(0, 40)}\u2026` : text}`);
}

export function download(name: string, contents: BlobPart, type: string): void {
  const url = URL.createObjectURL(new Blob([contents], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

/** Rows as CSV. A cell that a spreadsheet would run as a formula is preceded by a quote; numbers stay. */
export function csv(rows: string[][]): string {
  const cell = (text: string): string => {
    const safe = /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.]/.test(text) ? `'${text}` : text;
    return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  return `${rows.map((row) => row.map(cell).join(",")).join("\r\n")}\r\n`;
}

/** A file name made of a title. */
export function slug(title: string): string {
  return title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 60) || "table";
}

export function format(value: number): string {
  if (!Number.isFinite(value)) return "";
  const size = Math.abs(value);
  if (value === 0 || (Number.isInteger(value) && size < 1e6)) return String(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(2);
  return value.toFixed(size >= 100 ? 1 : size >= 10 ? 2 : 3);
}
