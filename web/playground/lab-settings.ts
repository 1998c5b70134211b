// What the view of toy tasks is set to, and the address that says so.

export const WORLDS: [name: string, label: string][] = [
  ["ends", "ends: five tokens, correct if the last is the first"],
  ["dyck", "dyck: eight brackets, correct if balanced"],
];

export const CLASSES: [name: string, label: string][] = [
  ["bigram", "bigram: sees the previous token"],
  ["trigram", "trigram: sees two tokens"],
  ["full", "full: every policy"],
];

/** The positions of the sliders: further to the right, the objective asks for less coverage. */
export const BETAS = [2, 1.5, 1, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.37, 0.35, 0.32, 0.3, 0.28, 0.25, 0.22, 0.2, 0.17, 0.15, 0.12, 0.1, 0.08, 0.06, 0.04, 0.03, 0.02];
export const ALPHAS = Array.from({ length: 20 }, (_, index) => (5 * index) / 100);

export interface LabSettings {
  world: string;
  policies: string;
  beta: number;
  alpha: number;
}

/** The value that is known by this name; the first where none is. */
function known(values: [name: string, label: string][], name: string | null): string {
  return (values.find(([one]) => one === name) ?? values[0])?.[0] ?? "";
}

/** The position that is nearest to a number of the address. */
function nearest(positions: number[], text: string | null, usual: number): number {
  const value = text ? Number(text) : NaN;
  if (!Number.isFinite(value)) return usual;
  return positions.reduce((best, one) => (Math.abs(one - value) < Math.abs(best - value) ? one : best));
}

/** Reads an address; what it does not say, or says wrongly, is as usual. */
export function fromAddress(hash: string): LabSettings {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  return {
    world: known(WORLDS, given.get("world")),
    policies: known(CLASSES, given.get("class")),
    beta: nearest(BETAS, given.get("beta"), 0.1),
    alpha: nearest(ALPHAS, given.get("alpha"), 0.5),
  };
}

export function toAddress({ world, policies, beta, alpha }: LabSettings): string {
  return `#lab&world=${world}&class=${policies}&beta=${beta}&alpha=${alpha}`;
}

/** The command that prints the same numbers. */
export function command({ world, policies, beta, alpha }: LabSettings): string {
  return `tealight lab ${world} --class ${policies} --beta ${beta} --alpha ${alpha}`;
}
