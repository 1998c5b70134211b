// What the page is set to, and the address that says so.

import type { RunSettings } from "./engine";

/** A member of the family of divergences. */
export interface Member {
  name: string;
  label: string;
  /** The weight that it begins with; none where it has none. */
  weight: number | null;
}

export const MEMBERS: Member[] = [
  { name: "none", label: "none", weight: null },
  { name: "reverse-kl", label: "reverse KL", weight: 0.1 },
  { name: "forward-kl", label: "forward KL", weight: 0.1 },
  { name: "js", label: "Jensen-Shannon", weight: 0.4 },
  { name: "hellinger", label: "Hellinger", weight: 0.4 },
  { name: "alpha-dpg", label: "alpha to p* (alpha-DPG)", weight: 0.5 },
];

/** A divergence with its weight. */
export interface Choice {
  divergence: string;
  weight: number | null;
}

export interface PageSettings {
  /** The divergence of each run. */
  choices: Choice[];
  learningRate: number;
  seed: number;
  steps: number;
  /** The index of the problem that is drawn. */
  problem: number;
}

/** The run beside the first. */
export const SECOND: Choice = { divergence: "reverse-kl", weight: 0.1 };

export const DEFAULT: PageSettings = {
  choices: [
    { divergence: "none", weight: null },
    SECOND,
  ],
  // That of the default study (recipes/default-study.toml). docs/how-to/playground.md compares rates.
  learningRate: 7e-5,
  seed: 0,
  steps: 60,
  problem: 0,
};

export function member(name: string): Member {
  return MEMBERS.find((one) => one.name === name) ?? (MEMBERS[0] as Member);
}

function number(text: string | null, low: number, high: number, usual: number): number {
  const value = text === null || text === "" ? NaN : Number(text);
  return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : usual;
}

/** Reads an address; what it does not say, or says wrongly, is as usual. */
export function fromAddress(hash: string): PageSettings {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const runs = given.getAll("run").slice(0, 2);
  const choices = runs.map((run): Choice => {
    const [name = "", weight = ""] = run.split(":");
    const known = member(name);
    return { divergence: known.name, weight: known.weight === null ? null : number(weight, 0, 10, known.weight) };
  });
  return {
    choices: choices.length ? choices : DEFAULT.choices.map((choice) => ({ ...choice })),
    learningRate: number(given.get("lr"), 1e-6, 1e-2, DEFAULT.learningRate),
    seed: Math.round(number(given.get("seed"), 0, 1e9, DEFAULT.seed)),
    steps: Math.round(number(given.get("steps"), 1, 1000, DEFAULT.steps)),
    problem: Math.round(number(given.get("problem"), 0, 7, DEFAULT.problem)),
  };
}

export function toAddress(settings: PageSettings): string {
  const given = new URLSearchParams();
  for (const { divergence, weight } of settings.choices) given.append("run", weight === null ? divergence : `${divergence}:${weight}`);
  given.set("lr", String(settings.learningRate));
  given.set("seed", String(settings.seed));
  given.set("steps", String(settings.steps));
  given.set("problem", String(settings.problem));
  return `#${given.toString().replaceAll("%3A", ":")}`;
}

export function ofRun(settings: PageSettings, choice: Choice): RunSettings {
  return {
    divergence: choice.divergence,
    weight: choice.weight,
    learning_rate: settings.learningRate,
    seed: settings.seed,
    max_steps: settings.steps,
  };
}

export function label(choice: Choice): string {
  return choice.weight === null ? `divergence: ${member(choice.divergence).label}` : `${member(choice.divergence).label}, weight ${choice.weight}`;
}
