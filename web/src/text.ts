// What a model wrote, as elements: thoughts and turns folded, mathematics drawn, search words marked, lengths bounded.

import { button, h } from "./dom";

/** Longest piece of mathematics that is drawn, in characters, and most pieces of one text. */
const MAX_TEX = 1500;
const MAX_PIECES = 150;
/** Letters of a text that are shown before it is opened. */
const FIRST = 1600;

export interface Reading {
  /** Draw mathematics. */
  tex: boolean;
  /** Words to mark. */
  words: string;
}

// Dollars that open or close nothing (prices) are left alone: no space inside them, no digit behind them.
const TEX =
  /\$\$([^$]+)\$\$|\\\[([\s\S]+?)\\\]|\\\(([\s\S]+?)\\\)|\$(?![\s$])((?:\\.|[^$\\\n])+?)(?<!\s)\$(?!\d)|(\\boxed\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\})/g;

function marked(text: string, words: string): Node[] {
  if (!words) return [document.createTextNode(text)];
  const parts: Node[] = [];
  const small = text.toLowerCase();
  let from = 0;
  for (let at = small.indexOf(words); at >= 0 && parts.length < 400; at = small.indexOf(words, from)) {
    parts.push(document.createTextNode(text.slice(from, at)), h("mark", {}, text.slice(at, at + words.length)));
    from = at + words.length;
  }
  parts.push(document.createTextNode(text.slice(from)));
  return parts;
}

/** A stretch of text with its mathematics. */
export function inline(text: string, reading: Reading): Node[] {
  const render = reading.tex ? window.tealightMathematics : undefined;
  if (!render) return marked(text, reading.words);
  const parts: Node[] = [];
  let [from, pieces] = [0, 0];
  for (const match of text.matchAll(TEX)) {
    if ((pieces += 1) > MAX_PIECES) break;
    const [whole, dollars, brackets, parentheses, single, boxed] = match;
    const tex = dollars ?? brackets ?? parentheses ?? single ?? boxed ?? "";
    const drawn = tex.length <= MAX_TEX ? render(tex, dollars !== undefined || brackets !== undefined) : null;
    if (!drawn) continue;
    parts.push(...marked(text.slice(from, match.index), reading.words), drawn);
    from = match.index + whole.length;
  }
  parts.push(...marked(text.slice(from), reading.words));
  return parts;
}

/** A block of text; what is long is opened on demand. */
export function block(text: string, reading: Reading): HTMLElement {
  const made = h("div.text");
  const isFound = reading.words !== "" && text.toLowerCase().indexOf(reading.words, FIRST) >= 0;
  if (text.length <= FIRST * 1.25 || isFound) {
    made.append(...inline(text, reading));
    return made;
  }
  made.append(...inline(text.slice(0, FIRST), reading));
  const rest = text.length - FIRST;
  const more = button(`\u2026 ${rest.toLocaleString("en")} more characters`, () => {
    more.remove();
    made.replaceChildren(...inline(text, reading));
  });
  made.append(more);
  return made;
}

function folded(title: string, text: string, reading: Reading): HTMLElement {
  const isFound = reading.words !== "" && text.toLowerCase().includes(reading.words);
  const length = `${text.trim().length.toLocaleString("en")} characters`;
  const made = h("details.turn", { open: isFound }, h("summary", {}, title, h("small", {}, length)));
  // Made when it is opened: a thought may be the longest part of a page.
  const fill = (): void => {
    if (made.childElementCount === 1) made.append(block(text.trim(), reading));
  };
  if (isFound) fill();
  made.addEventListener("toggle", fill);
  return made;
}

const THOUGHT = /<(think|thinking|reasoning)>([\s\S]*?)(?:<\/\1>|$)/g;
const TURN = /<\|im_start\|>(\w+)\n([\s\S]*?)(?:<\|im_end\|>|$)/g;

/** A completion: its thoughts and turns folded, the answer open. */
export function completion(text: string, reading: Reading): HTMLElement {
  const made = h("div.completion");
  // A thought that the prompt began ends without a beginning.
  const end = /<\/(think|thinking|reasoning)>/.exec(text);
  const isInside = end && !text.slice(0, end.index).includes(`<${end[1]}>`);
  let rest = text;
  if (isInside) {
    made.append(folded("Thought", text.slice(0, end.index), reading));
    rest = text.slice(end.index + end[0].length);
  }
  let from = 0;
  const plain = (part: string): void => {
    if (part.trim()) made.append(block(part.replace(/^\n+|\s+$/g, ""), reading));
  };
  const pieces = [...rest.matchAll(THOUGHT), ...rest.matchAll(TURN)].sort((a, b) => a.index - b.index);
  for (const piece of pieces.slice(0, 100)) {
    if (piece.index < from) continue;
    plain(rest.slice(from, piece.index));
    const isTurn = piece[0].startsWith("<|im_start|>");
    made.append(folded(isTurn ? `Turn: ${piece[1]}` : "Thought", piece[2] ?? "", reading));
    from = piece.index + piece[0].length;
  }
  plain(rest.slice(from));
  if (!made.childElementCount) made.append(h("div.text.empty", {}, "(empty)"));
  return made;
}

/** A prompt: turns folded but for the last. */
export function prompt(text: string, turns: [role: string, text: string][] | undefined, reading: Reading): HTMLElement {
  if (!turns?.length) return block(text.trim() || "(the prompt is not stored)", reading);
  const made = h("div.completion");
  turns.forEach(([role, said], index) => {
    if (index < turns.length - 1) made.append(folded(`Turn: ${role}`, said, reading));
    else made.append(h("div.role", {}, role), block(said, reading));
  });
  return made;
}
