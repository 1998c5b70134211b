//! A short run has the same bits on every processor and with every instruction set, but for bfloat16 with AMX: they are
//! in `tests/fixtures/recorded.txt`.

use std::path::Path;

use tealight_matmul::{InstructionSet, VARIABLE};

use crate::ranks::train_alone;
use crate::support::binary::{Folder, stderr_of, tealight_in};
use crate::support::hub::sha256;
use crate::support::recorded::assert_recorded;

/// The files of the runs: the training of all weights and of an adapter from samples in 8 bits, with their optimizers'
/// states; an evaluation's samples; the adapter merged; the training of all weights in bfloat16.
const FILES: [&str; 7] = [
    "run/final/model.safetensors",
    "run/checkpoint-4/optimizer.safetensors",
    "eval/samples/countdown-train.jsonl",
    "adapter/final/adapter_model.safetensors",
    "adapter/checkpoint-2/optimizer.safetensors",
    MERGED,
    "half/final/model.safetensors",
];

const MERGED: &str = "merged/model.safetensors";

const COMMANDS: [&str; 5] = [
    "train --objective kl-full:0.1 --max-steps 4 --prompts-per-step 4 --num-generations 4 --max-samples 16 \
     --learning-rate 1e-3 --quiet --output run",
    "train --objective js --use-peft --max-steps 2 --prompts-per-step 4 --num-generations 4 --max-samples 16 \
     --learning-rate 1e-3 --rollout-dtype int8 --quiet --output adapter",
    "eval --model run/final --dataset countdown/train --max-samples 8 -n 8 -k 1,8 --quiet --output eval",
    "export --model adapter/final --merge --output merged",
    "train --dtype bfloat16 --objective kl-full:0.1 --max-steps 4 --prompts-per-step 4 --num-generations 4 \
     --max-samples 16 --learning-rate 1e-3 --quiet --output half",
];

/// Runs the commands on one instruction set, and compares their files; of adapters where asked.
fn check(set: InstructionSet, with_adapters: bool) {
    let folder = Folder::new();
    let is_due = |text: &str| with_adapters || !text.contains("adapter");
    for line in COMMANDS.into_iter().filter(|line| is_due(line)) {
        let done = tealight_in(folder.0.path(), &[(VARIABLE, set.name())], line);
        assert!(done.status.success(), "{} {line}: {}", set.name(), stderr_of(&done));
    }
    let files = FILES.iter().filter(|file| is_due(file) && (with_adapters || **file != MERGED));
    files.for_each(|file| check_file(&folder, file, set));
}

/// Compares a file with the recorded one. AMX sums products of bfloat16 in another order: its hash is the emulation's.
fn check_file(folder: &Folder, file: &str, set: InstructionSet) {
    let bytes = std::fs::read(folder.path(file)).expect("a file of the run");
    let hash = sha256(&bytes);
    let is_apart = set == InstructionSet::Amx && file.starts_with("half/");
    let name = format!("same_bits/{file}{}", if is_apart { "/amx" } else { "" });
    assert_recorded(&name, &hash, set.name());
}

#[test]
fn a_run_has_the_same_bits_with_every_fast_instruction_set() {
    for set in InstructionSet::ALL {
        if set != InstructionSet::Portable && set.is_available() {
            check(set, true);
        }
    }
}

#[test]
fn a_run_has_the_same_bits_without_vector_instructions() {
    check(InstructionSet::Portable, false);
}

/// Of those of adapters, which take longest, and all others.
#[test]
#[ignore = "needs half a minute; .ci/nightly runs it"]
fn adapters_have_the_same_bits_without_vector_instructions() {
    check(InstructionSet::Portable, true);
}

/// The last of the commands, in this process.
#[test]
fn training_in_bfloat16_has_the_recorded_bits() {
    let folder = Folder::new();
    let line = COMMANDS[4].strip_prefix("train ").expect("a training run");
    let line = line.strip_suffix(" --quiet --output half").expect("in a folder");
    train_alone(&folder.0.path().join("half"), line);
    check_file(&folder, FILES[6], InstructionSet::in_use());
}

/// What computes with bfloat16 in this process, again with AMX, whose instructions are emulated where the processor
/// lacks them.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[test]
fn bfloat16_with_amx_has_the_recorded_bits_in_every_batch() {
    if !crate::amx::can_run() {
        return;
    }
    let mut tests = std::process::Command::new(std::env::current_exe().expect("this program"));
    tests.env(VARIABLE, InstructionSet::Amx.name()).args([
        "--exact",
        "layers::sliding_windows_free_old_keys_without_changing_outputs",
        "layers::rows_that_continue_one_prompt_decode_as_if_each_had_its_own",
        "layers::completions_that_share_their_prompt_are_computed_as_if_they_did_not",
        "layers::a_sequence_has_the_same_bits_in_every_batch",
        "rounded::rounded_samples_are_near_and_the_same_in_every_batch",
        "same_bits::training_in_bfloat16_has_the_recorded_bits",
    ]);
    let out = tests.output().expect("tests");
    let text = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && text.contains("6 passed"), "{text}");
}

#[test]
fn an_instruction_set_that_is_not_there_is_refused() {
    let done = tealight_in(Path::new("."), &[(VARIABLE, "mmx")], "doctor");
    let errors = stderr_of(&done);
    assert_eq!(done.status.code(), Some(2), "{errors}");
    assert!(errors.contains("TEALIGHT_SIMD=mmx") && errors.contains("portable"), "{errors}");
}
