//! A short run has the same bits on every processor and with every instruction set: they are in this file.

use crate::support::binary::Folder;
use std::path::Path;

use assert_cmd::Command;
use sha2::{Digest, Sha256};
use tealight_matmul::{InstructionSet, VARIABLE};

/// The files of the runs: the training of all weights and of an adapter from samples in 8 bits, with their optimizers'
/// states; an evaluation's samples; the adapter merged; the training of all weights in bfloat16.
const FILES: [(&str, &str); 7] = [
    (
        "run/final/model.safetensors",
        "fe6f379f92b3a694a53eb95f35e03615c74922536f63ac828cd18665430e3138",
    ),
    (
        "run/checkpoint-4/optimizer.safetensors",
        "7413cdcb75d97176f6374f69171af43fbc4590ec8405c29be4e5d6374d14e9ce",
    ),
    (
        "eval/samples/countdown-train.jsonl",
        "afe3d297b411d3cea8a76bf44c573fb1f91a3349a8aae272e85a0230cafd0a07",
    ),
    (
        "adapter/final/adapter_model.safetensors",
        "b4c1309b0fe1aa8995df73f5b947f5779b0a9f0f0cb94b961331ac38101ac685",
    ),
    (
        "adapter/checkpoint-2/optimizer.safetensors",
        "8aa473243d3dc15f79e76415537dffa5b0e9da88e585647c14216a1d2b395b4e",
    ),
    (
        "merged/model.safetensors",
        "0e5cfc418e5283682364c92b02f28aa6c80c92a8b3eddbfff01f6511ad433aff",
    ),
    (
        "half/final/model.safetensors",
        "409e59b0732bdde56448e4c69ded6cbd2f5f344a0cf3a37de578b2d369f0586f",
    ),
];

const COMMANDS: [&str; 5] = [
    "train --objective kl-full:0.1 --max-steps 4 --prompts-per-step 4 --num-generations 4 --max-samples 16 \
     --learning-rate 1e-3 --quiet --output run",
    "train --objective js --use-peft --max-steps 2 --prompts-per-step 4 --num-generations 4 --max-samples 16 \
     --learning-rate 1e-3 --rollout-dtype int8 --quiet --output adapter",
    "eval --model run/final --max-samples 8 -n 8 -k 1,8 --quiet --output eval",
    "export --model adapter/final --merge --output merged",
    "train --dtype bfloat16 --objective kl-full:0.1 --max-steps 4 --prompts-per-step 4 --num-generations 4 \
     --max-samples 16 --learning-rate 1e-3 --quiet --output half",
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
