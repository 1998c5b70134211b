// The document that a page carries, as eval/src/report/view.rs writes it, and the samples as samples.rs packs them.

export type Point = [x: number, y: number];
export type Band = [x: number, low: number, high: number];

export interface Line {
  name: string;
  points: Point[];
  band?: Band[];
  mark?: Point;
}

export interface Chart {
  title: string;
  caption: string;
  x: string;
  y: string;
  kind: "lines" | "runs" | "points";
  is_log: boolean;
  y_range: [number, number] | null;
  lines: Line[];
}

export type Cell = string | [text: string, hint: string];

export interface Table {
  title: string;
  note: string;
  rows: Cell[][];
  is_folded?: boolean;
}

export type Block = { text: string } | { table: Table } | { charts: Chart[] };

export interface Section {
  heading: string;
  is_folded?: boolean;
  is_training?: boolean;
  blocks: Block[];
}

export interface Recipe {
  command: string;
  file: string;
  settings: string | null;
  version: string;
}

export interface Step {
  run: string;
  step: number;
}

export interface Page {
  title: string;
  made: string;
  lead: string[];
  verdict: string[];
  statistics: string[];
  warnings: string[];
  models: string[];
  top: Chart[];
  sections: Section[];
  reproduce: Recipe[];
  footer: string[];
  samples?: { size: number; is_beside: boolean };
  steps: Step[];
}

/** Correct samples, all of them, truncated, without an answer, not judged. */
export type Counts = [correct: number, all: number, truncated: number, silent: number, unjudged: number, distinct: number];

export type Problem = [
  id: string,
  prompt: string,
  answer: string,
  counts: Counts[],
  turns?: [role: string, text: string][],
];

export interface ProblemSet {
  name: string;
  split: string;
  problems: Problem[];
}

export interface Problems {
  models: string[];
  sets: ProblemSet[];
}

export type Verdict = "correct" | "incorrect" | "no answer" | "unreadable" | "unjudged";

export type Sample = [
  text: string,
  verdict: Verdict,
  why: string,
  tokens: number,
  truncated: 0 | 1,
  greedy: 0 | 1,
  times: number,
  found?: [rule: string, before: string, answer: string, after: string],
];

export type Completion = [
  prompt: string,
  text: string,
  reward: number | null,
  advantage: number | null,
  verdict: Verdict,
  tokens: number | null,
  truncated: 0 | 1,
];
