// A run: its engine, what it has measured, and one step after the other.

import { Engine, type Measured, type Problem, type RunSettings } from "./engine";

/** Steps between measurements of all problems. */
export const EVERY = 5;

/** Means over all problems after a step. */
export interface Point {
  step: number;
  pass_1: number;
  pass_8: number;
  distinct_32: number;
}

export class Run {
  readonly engine = new Engine();
  readonly path: Point[] = [];
  problems: Problem[] = [];
  /** The last measures of each problem, and the step that they are of. */
  measured: Measured[] = [];
  step = 0;
  reward: number | null = null;
  secondsPerStep = 0;
  isDone = false;

  constructor(
    readonly label: string,
    readonly settings: RunSettings,
  ) {}

  /** Loads the model and measures the problem that is shown. */
  async start(problem: number): Promise<void> {
    this.problems = (await this.engine.create(this.settings)).problems;
    await this.measure(Math.min(problem, this.problems.length - 1));
  }

  /** Does a step and measures the problem that is shown; all of them from time to time. */
  async advance(problem: number): Promise<void> {
    const started = performance.now();
    const { metrics, is_done } = await this.engine.step();
    const seconds = (performance.now() - started) / 1000;
    this.secondsPerStep = this.secondsPerStep ? 0.8 * this.secondsPerStep + 0.2 * seconds : seconds;
    this.step += 1;
    this.reward = metrics.reward ?? null;
    this.isDone = is_done;
    if (this.step % EVERY === 0 || is_done) await this.measureAll();
    else await this.measure(problem);
  }

  async measure(problem: number): Promise<void> {
    const [measured] = (await this.engine.measure(problem)).problems;
    if (measured) this.measured[problem] = measured;
  }

  /** Measures all problems and adds their means to the path. */
  async measureAll(): Promise<void> {
    this.measured = (await this.engine.measure(null)).problems;
    const mean = (value: (one: Measured) => number): number =>
      this.measured.reduce((sum, one) => sum + value(one), 0) / this.measured.length;
    this.path.push({
      step: this.step,
      pass_1: mean((one) => one.pass_1),
      pass_8: mean((one) => one.pass_8),
      distinct_32: mean((one) => one.distinct_32),
    });
  }
}
