// The view of training: metrics against steps with a smoothing slider, and completions by step.

import { h } from "./dom";
import { charts, section, type Group } from "./sections";
import { StepsView } from "./steps";
import type { Page, Section } from "./types";

export class TrainingView {
  readonly element = h("div.training");
  private look = { window: 0, each: false };
  private groups: Group[] = [];
  private steps: StepsView | null = null;
  private readonly sections = h("div");

  constructor() {
    const state = h("output", {}, "off");
    const slider = h("input", {
      type: "range",
      id: "smoothing",
      min: 0,
      max: 100,
      step: 1,
      value: 0,
      oninput: () => {
        const window = Number((slider as HTMLInputElement).value);
        state.textContent = window ? `mean over ${window} steps, centred` : "off";
        this.look = { ...this.look, window };
        this.apply();
      },
    });
    const each = h("input", {
      type: "checkbox",
      id: "each",
      onchange: () => {
        this.look = { ...this.look, each: (each as HTMLInputElement).checked };
        this.apply();
      },
    });
    this.element.append(
      h("div.controls", {}, h("label", {}, "Smoothing ", slider, " ", state), h("label", {}, each, " every run instead of mean and range")),
      this.sections,
    );
  }

  private apply(): void {
    this.groups.forEach((group) => group.drawn.forEach((one) => one.look(this.look)));
  }

  /** Shows the sections of a page; again, when a run has gone on. */
  show(page: Page, sections: Section[]): void {
    this.groups = [];
    const models = new Set(page.models);
    const made = sections.map((one) => {
      const card = h("section.card", {}, h("h2", {}, one.heading));
      for (const block of one.blocks) {
        if (!("charts" in block)) {
          const other = section({ heading: "", blocks: [block] }, models);
          card.append(...[...other.childNodes].slice(1));
          continue;
        }
        const group = charts(block.charts);
        this.groups.push(group);
        card.append(group.element);
      }
      return card;
    });
    this.sections.replaceChildren(...made);
    this.apply();
    if (!page.steps.length) return;
    if (!this.steps) {
      this.steps = new StepsView();
      this.element.append(this.steps.element);
    }
    this.steps.show(page.steps);
  }
}
