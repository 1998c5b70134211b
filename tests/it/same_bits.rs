//! A short run has the same bits on every processor and with every instruction set: they are in this file.

use crate::support::binary::Folder;
use std::path::Path;

use assert_cmd::Command;
use sha2::{Digest, Sha256};
use tealight_matmul::{InstructionSet, VARIABLE};

/// The files of the runs: the training of all weights and of an adapter from samples in 8 bits, with their optimizers'
/// states; an evaluation's samples; the adapter merged.
const FILES: [(&str, &str); 6] = [
    (
        "run/final/model.safetensors",
        "eafd848bd2ba06fac2eec35fdb29b45cef96d96c3ed2db008cf2abd1516b237c",
    ),
    (
        "run/checkpoint-4/optimizer.safetensors",
        "a78f11e8c2d4d139e0b8dde6888ccc3621b8d4a672c154bbdc7ef9ea1739373b",
    ),
    (
        "eval/samples/countdown-train.jsonl",
        "c696584784d4d2a1fcd5367b0018ec222c683002ebf1a0fb9dd71fd42b14c5b3",
    ),
    (
        "adapter/final/adapter_model.safetensors",
        "dd524127ab436a3fdced97364308420df0671ca7d520f7caac0ddcea3b4d2e1e",
    ),
    (
        "adapter/checkpoint-2/optimizer.safetensors",
        "e9c8ebd7bf98d8efb4f39c62842f2d4bf729ccd75639a5b144672fd0e1857741",
    ),
    (
        "merged/model.safetensors",
        "2aa7b7e00ec09ea1e9cf1e303afe3a7c2c92237a9a05a23d298ef3cac68818b4",
    ),
];

const COMMANDS: [&str; 4] = [
    "train --objective kl-full:0.1 --max-steps 4 --prompts-per-step 4 --num-generations 4 --max-samples 16 \
     --learning-rate 1e-3 --quiet --output run",
    "train --objective js --use-peft --max-steps 2 --prompts-per-step 4 --num-generations 4 --max-samples 16 \
     --learning-rate 1e-3 --rollout-dtype int8 --quiet --output adapter",
    "eval --model run/final --max-samples 8 -n 8 -k 1,8 --quiet --output eval",
    "export --model adapter/final --merge --output merged",
];

fn run_all(set: InstructionSet, folder: &Path) {
    for line in COMMANDS {
        let mut command = Command::cargo_bin("tealight").expect("the binary");
        command.env(VARIABLE, set.name()).env("RUST_BACKTRACE", "0").current_dir(folder);
        let done = command.args(line.split_whitespace()).output().expect("runs");
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.success(), "{} {line}: {errors}", set.name());
    }
}

fn hash(file: &Path) -> String {
    let bytes = std::fs::read(file).expect("a file of the run");
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Runs all on one instruction set.
fn check(set: InstructionSet) {
    let folder = Folder::new();
    run_all(set, folder.0.path());
    let hashes = FILES.map(|(name, _)| (name, hash(&folder.0.path().join(name))));
    let hashes = hashes.each_ref().map(|(name, hash)| (*name, hash.as_str()));
    assert_eq!(hashes, FILES, "with {}", set.name());
}

#[test]
fn a_run_has_the_same_bits_with_every_fast_instruction_set() {
    for set in InstructionSet::ALL {
        if set != InstructionSet::Portable && set.is_available() {
            check(set);
        }
    }
}

#[test]
fn a_run_has_the_same_bits_without_vector_instructions() {
    check(InstructionSet::Portable);
}

#[test]
fn an_instruction_set_that_is_not_there_is_refused() {
    let mut command = Command::cargo_bin("tealight").expect("the binary");
    let done = command.env(VARIABLE, "mmx").arg("doctor").output().expect("runs");
    let errors = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{errors}");
    assert!(errors.contains("TEALIGHT_SIMD=mmx") && errors.contains("portable"), "{errors}");
}
