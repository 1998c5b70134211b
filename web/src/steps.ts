// Completions by training step: a run, a step, and what was sampled there with its reward.

import { button, format, h, select } from "./dom";
import { completions } from "./store";
import { block, completion } from "./text";
import type { Completion, Step } from "./types";

const FIRST = 12;

export class StepsView {
  readonly element = h("section.card.steps", { id: "steps" });
  private all: Step[] = [];
  private run = "";
  private place = 0;
  private ticket = 0;
  private key = "";
  private readonly head = h("div.controls");
  private readonly list = h("div.step-list");

  constructor() {
    this.element.append(h("h2", {}, "Completions by step"), this.head, this.list);
  }

  show(all: Step[]): void {
    const before = this.of();
    const wasLast = this.place === before.length - 1;
    this.all = all;
    if (!all.some((one) => one.run === this.run)) this.run = all[0]?.run ?? "";
    const own = this.of();
    // Whoever looks at the newest step goes on to the next one.
    if (!before.length || wasLast) this.place = own.length - 1;
    this.draw();
  }

  private of(): { step: Step; index: number }[] {
    return this.all.map((step, index) => ({ step, index })).filter(({ step }) => step.run === this.run);
  }

  private draw(): void {
    const own = this.of();
    const here = own[this.place];
    if (!here) return;
    const runs = [...new Set(this.all.map((one) => one.run))];
    const go = (place: number): void => {
      this.place = Math.min(own.length - 1, Math.max(0, place));
      this.draw();
    };
    const slider = h("input", { type: "range", min: 0, max: own.length - 1, value: this.place, "aria-label": "Step", id: "step", oninput: () => go(Number((slider as HTMLInputElement).value)) });
    this.head.replaceChildren(
      runs.length > 1 ? select("Run", runs.map((run) => [run, run]), this.run, (run) => ((this.run = run), (this.place = this.of().length - 1), this.draw())) : "",
      button("\u2190", () => go(this.place - 1), { "aria-label": "Earlier step" }),
      slider,
      button("\u2192", () => go(this.place + 1), { "aria-label": "Later step" }),
      h("b", {}, `step ${here.step.step}`),
      h("span.note", {}, `${this.place + 1} of ${own.length} stored steps`),
    );
    void this.open(here.index, `${this.run} ${here.step.step}`);
  }

  private async open(index: number, key: string): Promise<void> {
    if (key === this.key) return;
    const ticket = (this.ticket += 1);
    try {
      const found = await completions(index);
      if (ticket !== this.ticket) return;
      this.key = key;
      const order = [...found].sort((a, b) => (b[2] ?? 0) - (a[2] ?? 0));
      const groups = new Map<string, Completion[]>();
      for (const one of order) groups.set(one[0], [...(groups.get(one[0]) ?? []), one]);
      const made = [...groups].map(([text, some]) => this.group(text, some));
      this.list.replaceChildren(...made.slice(0, FIRST));
      if (made.length > FIRST) {
        const more = button(`${made.length - FIRST} more prompts`, () => more.replaceWith(...made.slice(FIRST)));
        this.list.append(more);
      }
    } catch (error) {
      if (ticket === this.ticket) this.list.replaceChildren(h("p.note", {}, String(error)));
    }
  }

  private group(text: string, some: Completion[]): HTMLElement {
    const reading = { tex: true, words: "" };
    const cards = some.map(([, said, reward, advantage, verdict, tokens, truncated]) =>
      h(
        `article.sample.${verdict.replace(" ", "-")}`,
        {},
        h(
          "div.sample-head",
          {},
          h(`span.badge.${verdict.replace(" ", "-")}`, {}, verdict || "reward"),
          truncated ? h("span.badge.cut", {}, "truncated") : null,
          h("small", {}, [`reward ${format(reward ?? NaN)}`, advantage === null ? "" : `advantage ${format(advantage)}`, tokens ? `${tokens} tokens` : ""].filter(Boolean).join(" \u00b7 ")),
        ),
        completion(said, reading),
      ),
    );
    return h("div.step-group", {}, h("div.prompt", {}, block(text.trim(), reading)), h("div.columns.small", {}, ...cards));
  }
}
