//! `--kernels candle`: a run by Candle's own operations, in any build and on the CPU too, is the run of our kernels to
//! rounding.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

use crate::support::binary::{Folder, stderr_of};
use crate::support::metrics::rows;

/// The rows of metrics of a short run.
fn run(folder: &Folder, kernels: &str) -> Vec<Value> {
    let output = folder.path(kernels);
    let done = Command::cargo_bin("tealight")
        .expect("the binary")
        .args(["train", "--device", "cpu", "--kernels", kernels, "--output", &output])
        .args(["--max-steps", "2", "--prompts-per-step", "2", "--num-generations", "4"])
        .args(["--max-samples", "8", "--learning-rate", "1e-4"])
        .output()
        .expect("runs");
    assert!(done.status.success(), "{}", stderr_of(&done));
    let is_shown = stderr_of(&done).contains("by Candle's operations");
    assert_eq!(is_shown, kernels == "candle", "{}", stderr_of(&done));
    rows(Path::new(&output))
}

#[test]
fn a_run_by_candles_operations_is_the_run_of_the_kernels() {
    let folder = Folder::new();
    let (ours, candles) = (run(&folder, "tealight"), run(&folder, "candle"));
    let (ours, candles) = (&ours[0], &candles[0]);
    assert_eq!(ours["reward"], candles["reward"]);
    assert_eq!(ours["completions/mean_length"], candles["completions/mean_length"]);
    for name in ["entropy", "grad_norm"] {
        let [one, other] = [ours, candles].map(|row| row[name].as_f64().expect("a number"));
        assert!(one > 0.0 && (one - other).abs() < 1e-5 * one, "{name}: {one} and {other}");
    }
}
