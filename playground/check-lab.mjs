// Compares the toy tasks of the module with `tealight lab` of the same arguments.
//   node playground/check-lab.mjs MODULE.wasm TEALIGHT
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { open } from "./module.mjs";

const [file, program] = process.argv.slice(2);
/** A world, a class of policies, betas and alphas. */
const CASES = [
  ["ends", "bigram", [2, 0.3, 0.1, 0.02], [0, 0.5, 0.95]],
  ["ends", "trigram", [0.2], [0.5]],
  ["ends", "full", [0.3], [0.2]],
  ["dyck", "bigram", [0.2], [0, 0.5]],
];
const NAMES = ["validity", "effective_valid", "max_mass", "unique_valid_256"];

const { ask } = await open(file);
let [largest, slowest] = [0, 0];
/** Compares measures; the programs follow the gradient of one objective by two formulas, and stop where 6000 steps end. */
function compare(own, theirs, what) {
  for (const name of NAMES) {
    const difference = Math.abs(own[name] / theirs[name] - 1);
    assert.ok(difference < 1e-5, `${what}: ${name} is ${own[name]}, and ${theirs[name]} by tealight lab`);
    largest = Math.max(largest, difference);
  }
}
for (const [world, policies, betas, alphas] of CASES) {
  const words = ["lab", world, "--class", policies, "--beta", betas.join(), "--alpha", alphas.join(), "--json", "--quiet"];
  const rows = execFileSync(program, words, { encoding: "utf8" }).trim().split("\n").map((line) => JSON.parse(line));
  const { base, pstar } = ask({ call: "world", world });
  compare(base.measures, rows[0].base, `${world}, base`);
  compare(pstar.measures, rows[0].pstar, `${world}, p*`);
  const targets = [...betas.map((beta) => ({ beta })), ...alphas.map((alpha) => ({ alpha }))];
  assert.equal(rows.length, targets.length);
  targets.forEach((target, index) => {
    const started = performance.now();
    const { measures } = ask({ call: "optimum", world, class: policies, target });
    slowest = Math.max(slowest, performance.now() - started);
    compare(measures, rows[index], `${world}, ${policies}, ${JSON.stringify(target)}`);
  });
}
console.log(`toy tasks: the measures of tealight lab, largest relative difference ${largest.toExponential(1)}; at most ${slowest.toFixed(0)} ms an optimum`);
