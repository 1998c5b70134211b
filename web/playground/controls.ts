// The knobs: what the runs are, and the buttons that start and stop them.

import { button, h, select } from "../src/dom";
import { MEMBERS, SECOND, member, type PageSettings } from "./settings";

export interface Actions {
  /** The settings were changed. */
  changed(): void;
  start(): void;
  step(): void;
  restart(): void;
  share(): void;
  save(): void;
}

export class Controls {
  readonly element = h("form.card.knobs", { "aria-label": "Settings", onsubmit: (event) => event.preventDefault() });
  private readonly startButton: HTMLElement;
  private readonly fields = h("div.fields");

  constructor(
    private readonly settings: PageSettings,
    private readonly actions: Actions,
  ) {
    this.startButton = button("Start", () => actions.start(), { class: "main" });
    const buttons = h(
      "div.buttons",
      {},
      this.startButton,
      button("One step", () => actions.step()),
      button("Restart", () => actions.restart(), { title: "Both runs from the base again; what they did stays in the charts" }),
      button("Copy link", () => actions.share(), { title: "An address with these settings" }),
      button("Save TOML", () => actions.save(), { title: "The same run as a settings file of tealight train" }),
    );
    this.element.append(this.fields, buttons);
    this.draw();
  }

  running(isRunning: boolean): void {
    this.startButton.textContent = isRunning ? "Pause" : "Start";
    this.startButton.setAttribute("aria-pressed", String(isRunning));
  }

  private number(label: string, value: number, limits: [low: number, high: number, step: string], set: (value: number) => void): HTMLElement {
    const [min, max, step] = limits;
    const input = h("input", { type: "number", value, min, max, step, inputmode: "decimal" }) as HTMLInputElement;
    input.addEventListener("change", () => {
      const given = Number(input.value);
      if (!Number.isFinite(given) || given < min || given > max) input.value = String(value);
      else {
        set(given);
        this.actions.changed();
      }
    });
    return h("label", {}, `${label} `, input);
  }

  /** Draws the fields anew. */
  draw(): void {
    const settings = this.settings;
    const options = MEMBERS.map(({ name, label }): [string, string] => [name, label]);
    const runs = settings.choices.map((choice, index) => {
      const chosen = select("Divergence", options, choice.divergence, (name) => {
        settings.choices[index] = { divergence: name, weight: member(name).weight };
        this.draw();
        this.actions.changed();
      });
      const weight = choice.weight === null ? null : this.number("strength", choice.weight, [0, 10, "any"], (value) => (choice.weight = value));
      return h("fieldset", {}, h("legend", {}, h(`i.swatch.run-${index}`), settings.choices.length > 1 ? `Run ${index + 1}` : "Run"), chosen, weight);
    });
    const both = h("input", { type: "checkbox", checked: settings.choices.length > 1 }) as HTMLInputElement;
    both.addEventListener("change", () => {
      settings.choices = both.checked ? [...settings.choices, { ...SECOND }] : settings.choices.slice(0, 1);
      this.draw();
      this.actions.changed();
    });
    const common = h(
      "fieldset",
      {},
      h("legend", {}, "Both"),
      this.number("learning rate", settings.learningRate, [1e-6, 1e-2, "any"], (value) => (settings.learningRate = value)),
      this.number("seed", settings.seed, [0, 1e9, "1"], (value) => (settings.seed = Math.round(value))),
      this.number("steps", settings.steps, [1, 1000, "1"], (value) => (settings.steps = Math.round(value))),
      h("label.check", {}, both, " two runs side by side"),
    );
    this.fields.replaceChildren(...runs, common);
  }
}
