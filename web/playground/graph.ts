// A graph to colour, and its correct answers as dots whose area is their probability.

import { h } from "../src/dom";
import type { Problem } from "./engine";
import { svg } from "./svg";

/** A probability below which an answer is drawn as lost: one of a thousand samples. */
const LOST = 1e-3;

/** The parts of a statement: `c3|ab,ac`. */
export function parsed(statement: string): { colours: number; edges: [number, number][]; nodes: number } {
  const [head = "", tail = ""] = statement.split("|");
  const index = (letter: string | undefined): number => (letter ?? "a").charCodeAt(0) - 97;
  const edges = tail.split(",").map((edge): [number, number] => [index(edge[0]), index(edge[1])]);
  return { colours: Number(head.replace(/\D/g, "")), edges, nodes: 1 + Math.max(...edges.flat()) };
}

/** The graph on a circle, its nodes in the colours of an answer. */
export function graph(problem: Problem, answer: string): SVGElement {
  const { edges, nodes } = parsed(problem.statement);
  const at = (node: number): [number, number] => {
    const angle = (2 * Math.PI * node) / nodes - Math.PI / 2;
    return [100 + 70 * Math.cos(angle), 100 + 70 * Math.sin(angle)];
  };
  const lines = edges.map(([from, to]) => {
    const [[x1, y1], [x2, y2]] = [at(from), at(to)];
    return svg("line.edge", { x1, y1, x2, y2 });
  });
  const circles = Array.from({ length: nodes }, (_, node) => {
    const [cx, cy] = at(node);
    const letter = svg("text.letter", { x: cx, y: cy + 5.5, "text-anchor": "middle" }, String.fromCharCode(97 + node));
    return svg("g", {}, svg(`circle.node.colour-${answer[node] ?? "0"}`, { cx, cy, r: 19 }), letter);
  });
  const name = `The graph with edges ${problem.statement.split("|")[1] ?? ""}, coloured ${answer}`;
  return svg("svg.graph", { viewBox: "0 0 200 200", role: "img", "aria-label": name }, ...lines, ...circles);
}

export interface Dots {
  element: HTMLElement;
  update(probabilities: number[]): void;
}

/** Every correct answer as a dot; pointing at one, or choosing it by keyboard, hands it to `look`. */
export function dots(problem: Problem, look: (answer: string, probability: number) => void): Dots {
  const side = 22;
  const columns = Math.ceil(Math.sqrt(problem.answers.length * 1.9));
  const rows = Math.ceil(problem.answers.length / columns);
  let known: number[] = [];
  let chosen = 0;
  const circles = problem.answers.map((_, index) => {
    const centre = { cx: side * ((index % columns) + 0.5), cy: side * (Math.floor(index / columns) + 0.5) };
    return { ring: svg("circle.place", { ...centre, r: side / 2 - 1 }), dot: svg("circle.dot", { ...centre, r: 0 }) };
  });
  const show = (index: number): void => {
    chosen = Math.max(0, Math.min(problem.answers.length - 1, index));
    circles.forEach(({ ring }, place) => ring.classList.toggle("chosen", place === chosen));
    look(problem.answers[chosen] ?? "", known[chosen] ?? 0);
  };
  circles.forEach(({ ring, dot }, index) => {
    for (const circle of [ring, dot]) circle.addEventListener("pointerenter", () => show(index));
  });
  const picture = svg("svg.dots", { viewBox: `0 0 ${columns * side} ${rows * side}`, "aria-hidden": "true" });
  for (const { ring, dot } of circles) picture.append(ring, dot);
  const element = h("div.dots-box", { tabindex: 0, role: "img" });
  element.append(picture);
  element.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    show(chosen + by);
  });
  return {
    element,
    update(probabilities) {
      known = probabilities;
      // The area of all dots together is the probability of a correct answer: one answer of probability 1 fills a row's height.
      const largest = Math.max(0.15, ...probabilities);
      circles.forEach(({ ring, dot }, index) => {
        const probability = probabilities[index] ?? 0;
        dot.setAttribute("r", String((side / 2 - 1) * Math.sqrt(probability / largest)));
        ring.classList.toggle("lost", probability < LOST);
      });
      const left = probabilities.filter((probability) => probability >= LOST).length;
      element.setAttribute("aria-label", `${left} of ${probabilities.length} correct answers have a probability of at least 0.1 %`);
      show(chosen);
    },
  };
}

/** How many answers are not lost. */
export function alive(probabilities: number[]): number {
  return probabilities.filter((probability) => probability >= LOST).length;
}
