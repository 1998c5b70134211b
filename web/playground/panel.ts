// What one run shows: its numbers, the graph and the answers.

import { h } from "../src/dom";
import { alive, dots, graph, type Dots } from "./graph";
import type { Run } from "./run";

/** A number with its name, in a list of numbers. */
export function entry(name: string, value: string): HTMLElement {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

const percent = (value: number): string => `${(100 * value).toFixed(value < 0.1 ? 1 : 0)} %`;

export class Panel {
  readonly element: HTMLElement;
  private readonly state = h("p.state", { role: "status" });
  private readonly numbers = h("dl.numbers");
  private readonly picture = h("div.picture");
  private readonly pointed = h("p.pointed");
  private answers: Dots | undefined;
  private drawn = "";

  constructor(kind: string, title: string) {
    const head = h("h2", {}, h(`i.swatch.${kind}`), title);
    this.element = h("section.card.panel", { "aria-label": title }, head, this.state, this.numbers, this.picture, this.pointed);
    this.state.textContent = "Press Start.";
  }

  say(text: string): void {
    this.state.textContent = text;
  }

  /** Draws a run as it is now. */
  show(run: Run, index: number): void {
    const [problem, measured] = [run.problems[index], run.measured[index]];
    if (!problem || !measured) return;
    if (this.drawn !== problem.statement) {
      this.drawn = problem.statement;
      const holder = h("div.graph-box");
      this.answers = dots(problem, (answer, probability) => {
        holder.replaceChildren(graph(problem, answer));
        this.pointed.textContent = `Answer ${answer}: probability ${percent(probability)}`;
      });
      this.picture.replaceChildren(holder, this.answers.element);
    }
    this.answers?.update(measured.probabilities);
    const rate = run.secondsPerStep ? `, ${run.secondsPerStep.toFixed(2)} s a step` : "";
    const reward = run.reward === null ? "" : `, mean reward ${run.reward.toFixed(2)}`;
    this.state.textContent = `Step ${run.step} of ${run.settings.max_steps}${reward}${rate}${run.isDone ? ". Done." : ""}`;
    this.numbers.replaceChildren(
      entry("Pass@1", percent(measured.pass_1)),
      entry("Pass@8", percent(measured.pass_8)),
      entry("distinct in 32 samples", measured.distinct_32.toFixed(1)),
      entry("answers left", `${alive(measured.probabilities)} of ${problem.answers.length}`),
    );
  }
}
