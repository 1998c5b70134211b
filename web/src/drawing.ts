// Graphs of the tasks `colouring` and `paths`: the prompt, and an answer in it, as SVG.

const SPACE = "http://www.w3.org/2000/svg";
/** Three colours that differ in grey, and a fourth. */
const FILLS = ["#ffd23f", "#5db7f2", "#7a1282", "#2fb37a"];

interface Graph {
  edges: string[];
  nodes: string;
  colours: number;
  ends: string;
}

/** The graph of a prompt such as `c3|ab,ac:` or `pa>b|ac,bc:`. */
export function graph(prompt: string): Graph | null {
  const found = /^(?:c(\d)|p([a-z])>([a-z]))\|((?:[a-z]{2},)*[a-z]{2}):?$/.exec(prompt.trim());
  if (!found) return null;
  const edges = (found[4] ?? "").split(",");
  const nodes = [...new Set(edges.join(""))].sort().join("");
  return { edges, nodes, colours: Number(found[1] ?? 0), ends: (found[2] ?? "") + (found[3] ?? "") };
}

function part(name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  return made;
}

/** The graph with an answer in it: node colours, or the way of a path; what breaks a rule is red and dashed. */
export function drawn(of: Graph, answer: string): SVGElement | null {
  const { edges, nodes, colours, ends } = of;
  const isAnswer = answer !== "";
  const isColouring = colours > 0;
  if (isAnswer && !(isColouring ? /^[1-9]+$/ : /^[a-z]+$/).test(answer)) return null;
  if (isColouring && isAnswer && answer.length !== nodes.length) return null;
  const svg = part("svg", { viewBox: "0 0 120 104", class: "graph", role: "img", "aria-label": isAnswer ? `${answer} in the graph` : "the graph" });
  const at = new Map(
    [...nodes].map((node, index) => {
      const angle = (2 * Math.PI * index) / nodes.length - Math.PI / 2;
      return [node, [60 + 44 * Math.cos(angle), 52 + 40 * Math.sin(angle)] as const];
    }),
  );
  const colour = (node: string): string => answer[nodes.indexOf(node)] ?? "";
  const steps = isColouring ? [] : [...answer].slice(1).map((node, index) => `${answer[index]}${node}`);
  const same = (a: string, b: string): boolean => a === b || a === `${b[1]}${b[0]}`;
  const line = (edge: string, kind: string): void => {
    const [from, to] = [at.get(edge[0] ?? ""), at.get(edge[1] ?? "")];
    if (from && to) svg.append(part("line", { x1: from[0], y1: from[1], x2: to[0], y2: to[1], class: kind }));
  };
  for (const edge of edges) {
    const isBroken = isColouring && isAnswer && colour(edge[0] ?? "") === colour(edge[1] ?? "");
    line(edge, isBroken ? "broken" : steps.some((step) => same(step, edge)) ? "way" : "edge");
  }
  for (const step of steps) if (!edges.some((edge) => same(step, edge))) line(step, "broken");
  for (const [node, [x, y]] of at) {
    const number = Number(colour(node));
    const fill = isColouring && isAnswer ? FILLS[number - 1] : undefined;
    const dot = part("circle", { cx: x, cy: y, r: 11, class: ends.includes(node) ? "end" : "node" });
    if (fill) dot.setAttribute("fill", fill);
    const words = isColouring && isAnswer ? `${node}${number}` : node;
    svg.append(dot, part("text", { x, y: y + 4, ...(fill ? { fill: number === 3 ? "#fff" : "#111" } : {}) }, words));
  }
  return svg;
}
