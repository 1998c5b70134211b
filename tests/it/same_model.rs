//! Weights, samples and runs go on with the model that they are of, and with no other one of its name or shape.

use crate::support::binary::{Folder, command, ok, refused};

const SAT: &str = "--dataset sat/train --max-samples 4 --prompts-per-step 2 --num-generations 2 --max-completion-length 20 \
                   --max-steps 1 --quiet --device cpu";

/// Replaces the one place of a text in a file.
fn change(file: &str, from: &str, to: &str) {
    let text = std::fs::read_to_string(file).expect("a file");
    assert_eq!(text.matches(from).count(), 1, "{file}: {from}");
    std::fs::write(file, text.replace(from, to)).expect("written");
}

/// Weights of the same shapes mean something else with another configuration or another vocabulary.
#[test]
fn another_model_of_the_same_shape_is_refused() {
    let folder = Folder::new();
    let (model, rope, words) = (folder.path("model"), folder.path("rope"), folder.path("words"));
    for copy in [&model, &rope, &words] {
        ok(command!("export --model tasks --output {copy}"));
    }
    ok(command!("train --model {model} {SAT} --initial-policy {rope} --dry-run"));
    change(&format!("{rope}/config.json"), "\"rope_theta\": 10000.0", "\"rope_theta\": 5000.0");
    change(&format!("{words}/tokenizer.json"), "\"<eos>\": 1", "\"<end>\": 1");
    for (other, why) in [(&rope, "differs (rope_theta)"), (&words, "other tokens than")] {
        refused!("train --model {model} {SAT} --initial-policy {other} --dry-run" => "--initial-policy", why);
        refused!("export --model {model} --average {other} --output {model}-mean" => "--average", why);
    }
}

#[test]
fn samples_of_a_model_are_not_continued_with_another_one_at_its_place() {
    let folder = Folder::new();
    let (model, output) = (folder.path("model"), folder.path("eval"));
    ok(command!("export --model tasks --output {model}"));
    let line = format!(
        "eval --model {model} --dataset sat/test --max-samples 2 -k 1 --quiet --device cpu --output {output}"
    );
    ok(command!("{line} -n 2"));
    ok(command!("{line} -n 3"));
    change(&format!("{model}/config.json"), "\"rope_theta\": 10000.0", "\"rope_theta\": 5000.0");
    refused!("{line} -n 3" => "the model's weights, configuration, tokenizer or chat template have changed");
}

#[test]
fn a_run_starts_from_an_adapter_of_its_own_settings() {
    let folder = Folder::new();
    let run = folder.path("run");
    let line = format!("train --model tasks {SAT}");
    ok(command!("{line} --use-peft --lora-r 4 --lora-alpha 8 --output {run}"));
    let start = format!("--initial-policy {run}/final --dry-run");
    ok(command!("{line} {start} --use-peft --lora-r 4 --lora-alpha 8"));
    for (more, why) in [
        ("", "an adapter: add --use-peft"),
        ("--use-peft --lora-r 4", "give --lora-alpha 8"),
        ("--use-peft --lora-r 8 --lora-alpha 8", "give --lora-r 4"),
        (
            "--use-peft --lora-r 4 --lora-alpha 8 --lora-target-modules q_proj",
            "give --lora-target-modules",
        ),
    ] {
        refused!("{line} {start} {more}" => why);
    }
    refused!("{line} --initial-policy {run} --dry-run" => "name its model", "final");
}
