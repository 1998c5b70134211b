// The view of toy tasks: the optimum of reverse KL at a beta beside that of a divergence to p* at an alpha.

import { button, copy, h, select } from "../src/dom";
import { curve, type Line } from "./curves";
import { Engine, type Policy, type Target, type World } from "./engine";
import { PolicyPanel } from "./lab-panel";
import { ALPHAS, BETAS, CLASSES, WORLDS, command, fromAddress, toAddress, type LabSettings } from "./lab-settings";
import type { View } from "./view";

class Laboratory implements View {
  readonly element: HTMLElement;
  private readonly settings: LabSettings = fromAddress("");
  private engine: Engine | undefined;
  private readonly worlds = new Map<string, World>();
  /** Optima by world, class and target. */
  private readonly optima = new Map<string, Policy>();
  private isWorking = false;
  private readonly choices = h("div.fields");
  private readonly summary = h("p.summary");
  private readonly command = h("code");
  private readonly message = h("p.warning", { hidden: true, role: "alert" });
  private readonly plane = curve(
    "N_eff against validity",
    ["validity", "N_eff"],
    [0.1, 2],
    "The optima along both sliders. Where the two lines coincide, the objective only decides where on the line training ends: at equal validity, neither keeps more correct outputs.",
  );
  private readonly panels = {
    beta: new PolicyPanel("run-0", "beta", "Reward with a reverse KL penalty", BETAS, (beta, isReleased) => this.moved({ beta }, isReleased)),
    alpha: new PolicyPanel("run-1", "alpha", "Alpha divergence to p*", ALPHAS, (alpha, isReleased) => this.moved({ alpha }, isReleased)),
  };

  constructor() {
    this.element = h(
      "main",
      { hidden: true },
      h("h1", {}, "Where the objectives lead"),
      h(
        "p.lead",
        {},
        "All outputs of this toy task are listed, so the best policy for each objective is computed instead of trained. ",
        "p* is the base given a correct output: always correct, no correct output lost. ",
        "Policies that cannot represent p* give up correct outputs to be correct more often: move a slider to the right, and choose the policies that can.",
      ),
      h("form.card.knobs", { "aria-label": "Toy task", onsubmit: (event) => event.preventDefault() }, this.choices, this.summary),
      this.message,
      h("div.panels", {}, this.panels.beta.element, this.panels.alpha.element),
      h("section.card", {}, h("div.charts", {}, this.plane.element, this.reading())),
    );
  }

  /** What the numbers mean, and the command that prints them. */
  private reading(): HTMLElement {
    return h(
      "div.reading",
      {},
      h("h3", {}, "What is computed"),
      h("p", {}, "Validity is the probability of a correct output. N_eff, the effective number of correct outputs, is the exponential of the entropy of the policy given a correct output."),
      h("p", {}, "Beta is the coefficient of the reverse KL penalty from the base. Alpha 0 is forward KL to p*; towards alpha 1 the divergence becomes reverse KL, which is infinite to p*. Every optimum is found from the base by gradient descent on the exact objective, as in this command:"),
      h("p", {}, this.command),
      h("div.buttons", {}, button("Copy command", () => void copy(command(this.settings))), button("Copy link", () => void copy(location.href))),
      h("p.note", {}, "After arXiv 2605.02375 (Dymetman, 2026), whose own toy is not public: the tasks are Tealight\u2019s."),
    );
  }

  address(): string {
    return toAddress(this.settings);
  }

  open(hash: string): void {
    Object.assign(this.settings, fromAddress(hash));
    history.replaceState(null, "", this.address());
    this.changed();
  }

  private moved(change: Partial<LabSettings>, isReleased: boolean): void {
    Object.assign(this.settings, change);
    // Browsers limit how often an address changes.
    if (isReleased) history.replaceState(null, "", this.address());
    this.draw();
    void this.work();
  }

  /** Draws the choices too, and computes what is missing. */
  private changed(): void {
    const choose = (change: Partial<LabSettings>): void => {
      Object.assign(this.settings, change);
      history.replaceState(null, "", this.address());
      this.changed();
    };
    this.choices.replaceChildren(
      select("Task", WORLDS, this.settings.world, (world) => choose({ world })),
      select("Policies", CLASSES, this.settings.policies, (policies) => choose({ policies })),
    );
    this.draw();
    void this.work();
  }

  private key(target: Target): string {
    return `${this.settings.world} ${this.settings.policies} ${JSON.stringify(target)}`;
  }

  /** What is missing, the positions of the sliders first and then their neighbours. */
  private missing(): Target | undefined {
    const { beta, alpha } = this.settings;
    const from = (positions: number[], value: number): number[] => {
      const place = positions.indexOf(value);
      return [...positions].sort((a, b) => Math.abs(positions.indexOf(a) - place) - Math.abs(positions.indexOf(b) - place));
    };
    const betas = from(BETAS, beta).map((beta): Target => ({ beta }));
    const alphas = from(ALPHAS, alpha).map((alpha): Target => ({ alpha }));
    const all = betas.flatMap((target, index) => [target, alphas[index] ?? target]);
    return all.find((target) => !this.optima.has(this.key(target)));
  }

  /** Computes one optimum after the other until none is missing; only one call of this works at a time. */
  private async work(): Promise<void> {
    if (this.isWorking) return;
    this.isWorking = true;
    this.message.hidden = true;
    try {
      this.engine ??= new Engine();
      for (;;) {
        const { world } = this.settings;
        if (!this.worlds.has(world)) this.worlds.set(world, await this.engine.world(world));
        const target = this.missing();
        if (!target) break;
        const key = this.key(target);
        this.optima.set(key, await this.engine.optimum(this.settings.world, this.settings.policies, target));
        this.draw();
      }
    } catch (error) {
      this.message.hidden = false;
      this.message.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      this.isWorking = false;
    }
  }

  private draw(): void {
    const { beta, alpha } = this.settings;
    this.command.textContent = command(this.settings);
    this.panels.beta.place(beta);
    this.panels.alpha.place(alpha);
    const world = this.worlds.get(this.settings.world);
    if (!world) {
      this.summary.textContent = "Loading\u2026";
      return;
    }
    const [reverse, aimed] = [this.optima.get(this.key({ beta })), this.optima.get(this.key({ alpha }))];
    const { base, pstar } = world;
    const correct = world.is_correct.filter(Boolean).length;
    this.summary.textContent =
      `${correct} of ${world.outputs.length} outputs are correct. Base: validity ${base.measures.validity.toFixed(3)}, N_eff ${base.measures.effective_valid.toFixed(2)}. ` +
      `p*: validity 1, N_eff ${pstar.measures.effective_valid.toFixed(2)}.`;
    if (reverse) this.panels.beta.show(beta, reverse, world);
    if (aimed) this.panels.alpha.show(alpha, aimed, world);
    const at = ({ measures }: Policy): [number, number] => [measures.validity, measures.effective_valid];
    const line = (name: string, kind: string, targets: Target[], now: Policy | undefined): Line => {
      const known = targets.flatMap((target) => this.optima.get(this.key(target)) ?? []);
      return now ? { name, kind, points: known.map(at), mark: at(now) } : { name, kind, points: known.map(at) };
    };
    const lines = [
      line(`alpha ${alpha}`, "run-1", ALPHAS.map((alpha) => ({ alpha })), aimed),
      line(`beta ${beta}`, "run-0", BETAS.map((beta) => ({ beta })), reverse),
      { name: "base", kind: "earlier", points: [at(base)], text: "base" },
      { name: "p*", kind: "earlier", points: [at(pstar)], text: "p*" },
    ];
    this.plane.update(lines.filter(({ points }) => points.length));
  }
}

export const laboratory: View = new Laboratory();
