//! `--kernels candle`: a run by Candle's own operations, in any build and on the CPU too, is the run of our kernels to
//! rounding.

use std::path::Path;

use crate::support::binary::{Folder, command, ok};
use crate::support::metrics::{number, rows};

#[test]
fn a_run_by_candles_operations_is_the_run_of_the_kernels() {
    let folder = Folder::new();
    let [ours, candles] = ["tealight", "candle"].map(|kernels| {
        let (output, small) =
            (folder.path(kernels), "--max-steps 2 --prompts-per-step 2 --num-generations 4");
        let how = format!("--device cpu --kernels {kernels} --max-samples 8 --learning-rate 1e-4");
        let stderr = ok(command!("train {how} {small} --output {output}"));
        assert_eq!(stderr.contains("by Candle's operations"), kernels == "candle", "{stderr}");
        rows(Path::new(&output)).remove(0)
    });
    assert_eq!(ours["reward"], candles["reward"]);
    assert_eq!(ours["completions/mean_length"], candles["completions/mean_length"]);
    for name in ["entropy", "grad_norm"] {
        let [one, other] = [&ours, &candles].map(|row| number(row, name));
        assert!(one > 0.0 && (one - other).abs() < 1e-5 * one, "{name}: {one} and {other}");
    }
}
