// Which problems are listed, and in which order.

import type { Counts, Problem, Problems } from "./types";

/** What is asked for: all of it stands in the address, so that a list can be sent. */
export interface Query {
  /** Number of the set, or "all". */
  set: string;
  show: string;
  /** The model that is compared with the base, and that rates are of. */
  model: number;
  low: number;
  high: number;
  sort: string;
  words: string;
}

export interface Item {
  set: number;
  problem: number;
}

export const SHOWN: [value: string, text: string][] = [
  ["all", "all problems"],
  ["changed", "changed from base"],
  ["lost", "lost: solved by the base, never by the model"],
  ["gained", "gained: solved by the model, never by the base"],
  ["worse", "lower pass rate than base"],
  ["better", "higher pass rate than base"],
  ["never", "solved by no model"],
  ["always", "solved by every model"],
  ["truncated", "with truncated samples"],
  ["silent", "with samples without an answer"],
  ["unjudged", "with unjudged samples"],
];

export const SORTS: [value: string, text: string][] = [
  ["order", "dataset order"],
  ["rate", "pass rate, lowest first"],
  ["rate-down", "pass rate, highest first"],
  ["fall", "largest fall from base first"],
  ["solutions", "most distinct solutions lost first"],
  ["rise", "largest rise from base first"],
  ["truncated", "most truncated first"],
  ["silent", "most without an answer first"],
];

export const rate = (counts: Counts | undefined): number => (counts?.[1] ? counts[0] / counts[1] : 0);

function keeps(show: string, counts: Counts[], model: number): boolean {
  const [base, own] = [counts[0], counts[model]];
  if (!base || !own) return false;
  switch (show) {
    case "changed":
      return counts.some((one) => one[0] * base[1] !== base[0] * one[1]);
    case "lost":
      return base[0] > 0 && own[0] === 0;
    case "gained":
      return base[0] === 0 && own[0] > 0;
    case "worse":
      return rate(own) < rate(base);
    case "better":
      return rate(own) > rate(base);
    case "never":
      return counts.every((one) => one[0] === 0);
    case "always":
      return counts.every((one) => one[0] > 0);
    case "truncated":
      return counts.some((one) => one[2] > 0);
    case "silent":
      return counts.some((one) => one[3] > 0);
    case "unjudged":
      return counts.some((one) => one[4] > 0);
    default:
      return true;
  }
}

/** The problems of a query but for its words. */
export function chosen(data: Problems, query: Query): Item[] {
  const items: Item[] = [];
  data.sets.forEach((set, index) => {
    if (query.set !== "all" && query.set !== String(index)) return;
    set.problems.forEach(([, , , counts], problem) => {
      const share = 100 * rate(counts[query.model]);
      const isWithin = share >= query.low - 1e-9 && share <= query.high + 1e-9;
      if (isWithin && keeps(query.show, counts, query.model)) items.push({ set: index, problem });
    });
  });
  return ordered(data, query, items);
}

export function ordered(data: Problems, query: Query, items: Item[]): Item[] {
  const counts = (item: Item): Counts[] => (data.sets[item.set] as { problems: Problem[] }).problems[item.problem]?.[3] ?? [];
  const share = (item: Item, place: 2 | 3): number => {
    const own = counts(item)[query.model];
    return own ? own[place] / Math.max(1, own[1]) : 0;
  };
  const own = (item: Item): number => rate(counts(item)[query.model]);
  const change = (item: Item): number => own(item) - rate(counts(item)[0]);
  const keys: Record<string, (item: Item) => number> = {
    rate: own,
    "rate-down": (item) => -own(item),
    fall: change,
    rise: (item) => -change(item),
    solutions: (item) => (counts(item)[query.model]?.[5] ?? 0) - (counts(item)[0]?.[5] ?? 0),
    truncated: (item) => -share(item, 2),
    silent: (item) => -share(item, 3),
  };
  const key = keys[query.sort];
  const inOrder = (a: Item, b: Item): number => a.set - b.set || a.problem - b.problem;
  return items.sort((a, b) => (key ? key(a) - key(b) : 0) || inOrder(a, b));
}

/** How far the answers of a model are from the base's: distinct answers lost count most, then the pass rate. */
function apart(base: Counts | undefined, own: Counts | undefined): number {
  if (!base || !own) return 0;
  return Math.max(0, base[5] - own[5]) + Math.abs(rate(own) - rate(base));
}

/** The problem that a reader sees first, and the model: where the answers of a model collapsed most. */
export function telling(data: Problems, items: Item[]): { item: Item; model: number } | undefined {
  const all = items.flatMap((item) => {
    const counts = data.sets[item.set]?.problems[item.problem]?.[3] ?? [];
    // Problems that the model still solves show the same answer again and again, which says more than failure.
    return counts.map((own, model) => ({ item, model, by: apart(counts[0], own) * (own[0] ? 2 : 1) }));
  });
  return all.length ? all.reduce((most, one) => (one.by > most.by ? one : most)) : undefined;
}

export function says(problem: Problem, words: string): boolean {
  const turns = problem[4]?.map((turn) => turn[1]) ?? [];
  return [problem[0], problem[1], problem[2], ...turns].some((text) => text.toLowerCase().includes(words));
}
