// The view in which models are trained: settings from the address, runs in workers, panels and charts.

import { copy, download, h, select } from "../src/dom";
import { Controls } from "./controls";
import { curve, type Line } from "./curves";
import { Engine } from "./engine";
import { Panel } from "./panel";
import { Run, type Point } from "./run";
import { fromAddress, label, ofRun, toAddress, type PageSettings } from "./settings";
import type { View } from "./view";

const settings: PageSettings = fromAddress(location.hash);
/** Lines of runs that were restarted. */
const earlier: { name: string; path: Point[] }[] = [];
let runs: Run[] = [];
let panels: Panel[] = [];
let isRunning = false;
/** Counts restarts: a step that ends after one belongs to no run. */
let generation = 0;
let busy: Promise<void> | null = null;

const plane = curve("Pass@8 against Pass@1", ["Pass@1", "Pass@8"], [0.08, 0.04], "Exact means over 8 problems that are not trained on. Grey: earlier runs of this page.");
const distinct = curve("Distinct solutions", ["step", "distinct in 32 samples"], [10, 1], "Expected number of distinct correct answers among 32 samples, mean over the 8 problems.");
const panelsBox = h("div.panels");
const problemBox = h("div.problem-choice");
const message = h("p.warning", { hidden: true, role: "alert" });

const controls = new Controls(settings, {
  changed: () => void restart(),
  start: () => void (isRunning ? pause() : play()),
  step: () => void (pause(), advance()),
  restart: () => void restart(),
  share: () => void copy(location.href),
  save: () => void save(),
});

function lines(value: (point: Point) => [number, number]): Line[] {
  const past = earlier.map(({ name, path }): Line => ({ name, kind: "earlier", points: path.map(value) }));
  const now = runs.map((run, index): Line => ({ name: run.label, kind: `run-${index}`, points: run.path.map(value) }));
  return [...past, ...now].filter((line) => line.points.length);
}

function draw(): void {
  runs.forEach((run, index) => panels[index]?.show(run, settings.problem));
  plane.update(lines((point) => [point.pass_1, point.pass_8]));
  distinct.update(lines((point) => [point.step, point.distinct_32]));
}

function fail(error: unknown): void {
  pause();
  message.hidden = false;
  message.textContent = error instanceof Error ? error.message : String(error);
}

function pause(): void {
  isRunning = false;
  controls.running(false);
}

/** One step of every run that has one left; the next call waits for it. */
async function advance(): Promise<void> {
  const own = generation;
  if (busy) await busy.catch(() => undefined);
  if (own !== generation) return;
  const left = runs.filter((run) => !run.isDone);
  busy = Promise.all(left.map((run) => run.advance(settings.problem))).then(() => undefined);
  try {
    await busy;
    if (own === generation) draw();
  } catch (error) {
    if (own === generation) fail(error);
  } finally {
    busy = null;
  }
}

async function play(): Promise<void> {
  const own = generation;
  isRunning = true;
  controls.running(true);
  while (isRunning && own === generation && runs.some((run) => !run.isDone)) await advance();
  if (own === generation) pause();
}

/** Ends the runs and makes new ones of the settings. */
async function restart(): Promise<void> {
  const own = ++generation;
  pause();
  message.hidden = true;
  history.replaceState(null, "", toAddress(settings));
  for (const run of runs) {
    if (run.path.length > 1) earlier.push({ name: run.label, path: run.path });
    run.engine.end();
  }
  busy = null;
  runs = settings.choices.map((choice) => new Run(label(choice), ofRun(settings, choice)));
  panels = runs.map((run, index) => new Panel(`run-${index}`, run.label));
  panelsBox.replaceChildren(...panels.map((panel) => panel.element));
  for (const panel of panels) panel.say("Loading the model\u2026");
  busy = Promise.all(runs.map((run) => run.start(settings.problem))).then(() => undefined);
  try {
    await busy;
    if (own !== generation) return;
    chooseProblem();
    draw();
    document.body.dataset.ready = String(Math.round(performance.now()));
    // The charts begin at the base: the first step waits for it.
    busy = Promise.all(runs.map((run) => run.measureAll())).then(() => undefined);
    await busy;
    if (own === generation) draw();
  } catch (error) {
    if (own === generation) fail(error);
  } finally {
    if (own === generation) busy = null;
  }
}

function chooseProblem(): void {
  const problems = runs[0]?.problems ?? [];
  settings.problem = Math.min(settings.problem, problems.length - 1);
  const options = problems.map(({ statement, answers }, index): [string, string] => [String(index), `${statement} (${answers.length} answers)`]);
  const chosen = select("Problem", options, String(settings.problem), async (index) => {
    settings.problem = Number(index);
    history.replaceState(null, "", toAddress(settings));
    if (busy) await busy;
    await Promise.all(runs.map((run) => run.measure(settings.problem)));
    draw();
  });
  problemBox.replaceChildren(chosen);
}

/** Saves the settings of every run as a file of `tealight train`. */
async function save(): Promise<void> {
  const engine = new Engine();
  try {
    for (const [index, choice] of settings.choices.entries()) {
      const { toml } = await engine.export(ofRun(settings, choice));
      download(`playground-${index + 1}.toml`, toml, "text/plain");
    }
  } catch (error) {
    fail(error);
  } finally {
    engine.end();
  }
}

const element = h(
  "main",
  {},
  h("h1", {}, "Watch a model collapse"),
  h(
    "p.lead",
    {},
    "A language model of one million parameters is trained here, in this tab, to colour graphs so that neighbours differ; each dot is a correct answer, as large as the model\u2019s exact probability of it. ",
    "Reinforcement learning makes correct answers more likely and, left alone, only a few of them: the others go out. ",
    "A divergence from the base model can keep them; choose one and its strength, and press Start.",
  ),
  controls.element,
  message,
  problemBox,
  panelsBox,
  h("section.card", {}, h("div.charts", {}, plane.element, distinct.element)),
  h("footer", {}, "The code is that of ", h("code", {}, "tealight train"), ", compiled to WebAssembly: the same settings give the same weights to the last bit. Nothing leaves this page."),
);

/** Training: the runs start when the view is opened for the first time, and again with an address of other settings. */
export const training: View = {
  element,
  address: () => toAddress(settings),
  open(hash) {
    const given = fromAddress(hash);
    if (runs.length && toAddress(given) === toAddress(settings)) return;
    Object.assign(settings, given);
    controls.draw();
    void restart();
  },
};
