// Trains in WebAssembly and by the program, and compares both: the weights after the last step to the last bit, the metrics of every
// step to five digits. Means that are logged (loss, entropy) may differ in the digits after that, which changes no gradient.
//   node playground/check.mjs MODULE.wasm TEALIGHT [STEPS]
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { open } from "./module.mjs";

const [file, program, steps = "4"] = process.argv.slice(2);
const RUNS = [
  { divergence: "none", weight: null },
  { divergence: "reverse-kl", weight: 0.1 },
  { divergence: "forward-kl", weight: 0.1 },
];
// Times, and what the program alone adds to a row.
const isCompared = (name) => !/time|rounding|per_second|memory/.test(name);

/** The hash of the weights in a safetensors file, as the module has it: names and values in the order of names. */
function hashOf(weights) {
  const bytes = readFileSync(weights);
  const length = Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, 8 + length).toString());
  delete header.__metadata__;
  const hash = createHash("sha256");
  for (const name of Object.keys(header).sort()) {
    assert.equal(header[name].dtype, "F32");
    const [from, to] = header[name].data_offsets;
    hash.update(name).update(bytes.subarray(8 + length + from, 8 + length + to));
  }
  return hash.digest("hex");
}

const folder = mkdtempSync(path.join(tmpdir(), "tealight-playground-"));
try {
  for (const run of RUNS) {
    const settings = { ...run, learning_rate: 2e-4, seed: 7, max_steps: Number(steps) };
    const { ask, isFused } = await open(file);
    const { objective } = ask({ call: "create", settings });
    const started = performance.now();
    const rows = Array.from({ length: settings.max_steps }, () => ask({ call: "step" }).metrics);
    const seconds = (performance.now() - started) / 1000;
    const { weights } = ask({ call: "hash" });
    const config = path.join(folder, "playground.toml");
    writeFileSync(config, ask({ call: "export", settings }).toml);
    const output = path.join(folder, run.divergence);
    const environment = { ...process.env, RAYON_NUM_THREADS: "1" };
    execFileSync(program, ["train", "--config", config, "--device", "cpu", "--quiet", "--output", output], { env: environment, stdio: ["ignore", "ignore", "inherit"] });
    const lines = readFileSync(path.join(output, "metrics.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
    assert.equal(lines.length, rows.length);
    rows.forEach((row, index) => {
      for (const [name, value] of Object.entries(row).filter(([name]) => isCompared(name))) {
        const own = lines[index][name] ?? null;
        const isClose = typeof own === "number" && Math.abs(own - value) <= 1e-5 * Math.max(1e-3, Math.abs(value));
        if (!isClose) assert.deepEqual(own, value, `${objective}, step ${index + 1}: ${name}`);
      }
    });
    assert.equal(weights, hashOf(path.join(output, "final", "model.safetensors")), `${objective}: the weights differ`);
    console.log(`${objective}: ${rows.length} steps, the same weights ${weights.slice(0, 16)}, metrics to five digits; products ${isFused ? "by relaxed multiply-adds" : "emulated"}; ${(rows.length / seconds).toFixed(2)} steps a second`);
  }
} finally {
  rmSync(folder, { recursive: true, force: true });
}
