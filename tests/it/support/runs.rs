//! Short runs of `train`, and reading what they wrote.

use std::path::Path;
use std::process::Output;

use serde_json::Value;

use super::binary::{Folder, stderr_of, succeeded};

/// The JSON in a file.
pub(crate) fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

/// The measures of the first set of an evaluation.
pub(crate) fn summary(output: &str) -> Value {
    json(format!("{output}/results.json"))["sets"][0]["summary"].clone()
}

/// The samples of an evaluation of `countdown/test`.
pub(crate) fn samples(output: &str) -> Vec<Value> {
    let path = format!("{output}/samples/countdown-test.jsonl");
    let text = std::fs::read_to_string(path).expect("samples");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// Settings of a run that ends in seconds.
pub(crate) const SMALL: &str = "--max-completion-length 20 --prompts-per-step 4 --num-generations 8 \
                                --learning-rate 3e-4 --device cpu";

/// Settings of a run of two steps.
pub(crate) const SHORT: &str = "--max-steps 2 --prompts-per-step 2 --num-generations 4 --max-samples 8 \
                                --max-completion-length 20 --device cpu";

/// Options of an evaluation of four problems, briefly.
pub(crate) const FEW: &str = "--max-samples 4 --max-completion-length 20 --device cpu";

/// Runs `train` with [`SMALL`], which must succeed.
#[track_caller]
pub(crate) fn trained(output: &str, more: &str) -> Output {
    succeeded(&format!("train --output {output} {SMALL} {more}"))
}

/// Trains an adapter for four steps, and again with a stop in the middle, which must come to the same: what the first
/// run said, and the folders of both.
pub(crate) fn resumed_adapter(folder: &Folder, settings: &str) -> (String, [String; 2]) {
    let [whole, parts] = ["whole", "parts"].map(|name| folder.path(name));
    let run = |output: &str, more: &str| {
        let adapter = format!("--use-peft --lora-r 4 --max-samples 8 {settings} {more}");
        stderr_of(&trained(output, &adapter))
    };
    let stderr = run(&whole, "--max-steps 4");
    run(&parts, "--max-steps 2");
    run(&parts, "--max-steps 4 --resume");
    let matrices = |run: &str| {
        std::fs::read(format!("{run}/final/adapter_model.safetensors")).expect("an adapter")
    };
    assert_eq!(matrices(&whole), matrices(&parts));
    (stderr, [whole, parts])
}
