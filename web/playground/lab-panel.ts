// A policy of a toy task: the slider of its objective, its numbers, and the probability of every correct output.

import { h } from "../src/dom";
import type { Policy, World } from "./engine";
import { entry } from "./panel";
import { svg } from "./svg";

const [WIDTH, HEIGHT, LEFT, BOTTOM, TOP] = [420, 190, 38, 22, 8];
const TICKS = [0.01, 0.1, 0.5, 1];

export class PolicyPanel {
  readonly element: HTMLElement;
  private readonly slider: HTMLInputElement;
  private readonly value = h("output");
  private readonly numbers = h("dl.numbers");
  private readonly picture = h("div.curve");

  constructor(
    private readonly kind: string,
    private readonly symbol: "beta" | "alpha",
    title: string,
    private readonly positions: number[],
    moved: (value: number, isReleased: boolean) => void,
  ) {
    const slider = h("input", { type: "range", min: 0, max: positions.length - 1, step: 1 }) as HTMLInputElement;
    this.slider = slider;
    const now = (): number => positions[Number(slider.value)] ?? 0;
    slider.addEventListener("input", () => moved(now(), false));
    slider.addEventListener("change", () => moved(now(), true));
    this.element = h(
      "section.card.panel",
      { "aria-label": title },
      h("h2", {}, h(`i.swatch.${kind}`), title),
      h("label.slider", {}, `${symbol} `, slider, this.value),
      this.numbers,
      this.picture,
    );
  }

  /** Puts the slider at a value whose optimum is not known yet. */
  place(value: number): void {
    this.slider.value = String(this.positions.indexOf(value));
    this.value.textContent = String(value);
    this.slider.setAttribute("aria-valuetext", `${this.symbol} ${value}`);
    this.element.setAttribute("aria-busy", "true");
  }

  /** The same with the optimum. */
  show(value: number, policy: Policy, world: World): void {
    this.place(value);
    this.element.setAttribute("aria-busy", "false");
    const { validity, effective_valid, max_mass, unique_valid_256 } = policy.measures;
    const share = effective_valid / world.pstar.measures.effective_valid;
    this.slider.setAttribute("aria-valuetext", `${this.symbol} ${value}: validity ${validity.toFixed(3)}, N_eff ${effective_valid.toFixed(2)}`);
    this.numbers.replaceChildren(
      entry("validity", validity.toFixed(3)),
      entry("N_eff", effective_valid.toFixed(2)),
      entry("of p*\u2019s N_eff", `${(100 * share).toFixed(0)} %`),
      entry("likeliest output", max_mass.toFixed(3)),
      entry("distinct in 256 samples", unique_valid_256.toFixed(1)),
    );
    this.picture.replaceChildren(this.bars(policy, world));
  }

  /** A bar for each correct output, in the order of p*, which is drawn as a line. */
  private bars(policy: Policy, world: World): SVGElement {
    const target = world.pstar.probabilities;
    const correct = target.map((_, index) => index).filter((index) => world.is_correct[index]);
    correct.sort((a, b) => (target[b] ?? 0) - (target[a] ?? 0));
    const width = (WIDTH - LEFT) / correct.length;
    // On a scale of square roots one output with nearly all probability leaves the others visible.
    const y = (probability: number): number => HEIGHT - BOTTOM - Math.sqrt(probability) * (HEIGHT - BOTTOM - TOP);
    const likeliest = correct.reduce((best, one) => ((policy.probabilities[one] ?? 0) > (policy.probabilities[best] ?? 0) ? one : best));
    const name = `Probabilities of ${correct.length} correct outputs; the likeliest is ${world.outputs[likeliest]} with ${(policy.probabilities[likeliest] ?? 0).toFixed(3)}`;
    const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": name });
    for (const tick of TICKS) {
      picture.append(
        svg("line.grid", { x1: LEFT, x2: WIDTH, y1: y(tick), y2: y(tick) }),
        svg("text.tick", { x: LEFT - 5, y: y(tick) + 4, "text-anchor": "end" }, String(tick)),
      );
    }
    correct.forEach((index, place) => {
      const probability = policy.probabilities[index] ?? 0;
      const top = y(probability);
      const bar = svg("rect", { x: LEFT + place * width, y: top, width: 0.8 * width, height: HEIGHT - BOTTOM - top });
      bar.append(svg("title", {}, `${world.outputs[index]}: ${probability.toPrecision(3)}`));
      picture.append(svg(`g.bars.${this.kind}`, {}, bar));
    });
    const steps = correct.map((index, place) => {
      const [x, height] = [LEFT + place * width, y(target[index] ?? 0)];
      return `${x.toFixed(1)},${height.toFixed(1)} ${(x + width).toFixed(1)},${height.toFixed(1)}`;
    });
    picture.append(
      svg("polyline.target", { points: steps.join(" ") }),
      svg("text.axis", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, "probability of each correct output; line: p*"),
    );
    return picture;
  }
}
