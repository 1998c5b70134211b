//! The binary as a user runs it: what it prints and writes, and how it stops and continues.

use std::path::Path;

use crate::support::binary::{
    Folder, command, has, ok, printed, refused, stderr_of, tealight, words,
};
use crate::support::metrics::{number, rows};
use crate::support::processes::{binary, signal, wait_for_steps, weights};
use crate::support::root;
use crate::support::runs::{SMALL, json, trained};
use serde_json::Value;

/// A report has curves and a part of its samples, and fetches nothing.
pub(crate) fn opens_without_a_network(output: &str, chunk: &str) {
    let page = std::fs::read_to_string(format!("{output}/report.html")).expect("page");
    assert!(page.contains("\"title\":\"Pass@k") && page.contains(chunk));
    for fetched in ["src=\"", "href=\"http", "url(h", "unsafe-inline"] {
        assert!(!page.contains(fetched), "the page must open without a network: {fetched}");
    }
}

#[test]
fn a_study_compares_objectives_and_writes_everything() {
    let folder = Folder::new();
    let output = folder.path("study");
    let study = format!(
        "study --output {output} --objectives none,js:0.4 --max-samples 8 --max-steps 6 --num-presamples 8 -n 8 -k 1,8 \
         --seeds 0..1 --test-dataset countdown/test,countdown/test-3 --ood-dataset countdown/test-5 \
         --max-test-samples 8 --eval-temperature 0.7 --eval-steps 3 {SMALL}"
    );
    let table = printed(&study);
    has(&table, &words("base greedy pass@8 \u{b1} gradients"));
    has(&table, &["No curves: distinct@8 is known of 8 problems", "among 4", "temperature 0.7"]);
    has(&table, &["over seeds and problems"]);
    let results = json(folder.0.path().join("study/results.json"));
    let runs = results["training"].as_array().expect("runs");
    // Six steps of 32 completions each, and 64 of the base on top.
    assert_eq!(runs.len(), 4);
    assert_eq!(runs[0]["completions"], 192);
    assert_eq!(runs[1]["completions"], 192 + 64);
    // Those of groups that are all right or all wrong have none.
    let gradients = runs[0]["gradients"].as_u64().expect("a count");
    assert!((96..192).contains(&gradients), "{gradients}");
    assert_eq!(runs[0]["rehearsed"], 0);
    assert!(runs[1]["rehearsed"].as_u64() > Some(0));
    let sets = results["datasets"].as_array().expect("sets");
    assert_eq!(sets.len(), 3);
    assert_eq!([&sets[0]["domain"], &sets[2]["domain"]], ["in", "out"]);
    assert_eq!(sets[1]["contrasts"].as_array().map(Vec::len), Some(2));
    assert_eq!(sets[1]["contrasts"][0][1]["pass"][0][1]["seeds"], 2);
    for file in [
        "report.html",
        "config.toml",
        "base/samples-countdown-test.greedy.jsonl",
        "none-seed0/metrics.jsonl",
        "presamples-seed0/presamples.jsonl",
        "js-0.4-seed0/samples-countdown-test.jsonl",
        "js-0.4-seed0/final/model.safetensors",
        "js-0.4-seed0/final/tokenizer.json",
    ] {
        assert!(folder.0.path().join("study").join(file).exists(), "{file}");
    }
    opens_without_a_network(&output, "chunk-1-0");
    // `report` writes the page of a study again, from what lies in its folder.
    let place = folder.0.path().join("study");
    std::fs::remove_file(place.join("report.html")).expect("removed");
    ok(command!("report {output}"));
    let again = std::fs::read_to_string(place.join("report.html")).expect("page");
    assert!(again.contains("chunk-1-0") && again.contains("\"command\":\"tealight study --config"));
    let samples =
        std::fs::read_to_string(folder.0.path().join("study/base/samples-countdown-test.jsonl"));
    assert_eq!(samples.expect("samples").lines().count(), 64);
    refused!("{study}" => "holds files already");
}

#[test]
fn every_run_of_a_study_has_as_many_optimizer_steps() {
    let folder = Folder::new();
    let output = folder.path("updates");
    ok(command!(
        "study --task countdown --output {output} --objectives none,none:steps-per-generation=2,js --eval-steps 0 \
         --seeds 0 --max-samples 8 --max-test-samples 2 -n 2 --no-greedy --max-steps 6 --num-presamples 8 --quiet {SMALL}"
    ));
    let results = json(format!("{output}/results.json"));
    let count = |what: &str| -> Vec<u64> {
        let runs = results["training"].as_array().expect("runs");
        runs.iter().map(|run| run[what].as_u64().expect("a count")).collect()
    };
    assert_eq!((count("updates"), count("steps")), (vec![6, 6, 6], vec![6, 3, 6]));
}

#[test]
fn an_evaluation_can_be_read_by_machines() {
    let folder = Folder::new();
    let output = folder.path("eval");
    let done = tealight(command!(
        "eval --max-samples 4 -n 8 -k 1,8 --max_completion_length=20 --device cpu --json \
         --quiet --output {output}"
    ));
    assert!(done.stderr.is_empty(), "{}", stderr_of(&done));
    let shown: Value = serde_json::from_slice(&done.stdout).expect("JSON on stdout");
    let saved = json(folder.0.path().join("eval/results.json"));
    let set = &saved["sets"][0];
    assert_eq!(shown["sets"][0]["summary"], set["summary"]);
    assert_eq!(set["problems"].as_array().expect("tallies").len(), 4);
    let pass = &set["summary"]["pass@k"]["8"];
    assert!(pass["low"].as_f64() <= pass["value"].as_f64());
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let folder = Folder::new();
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    for objective in [
        "js",
        "dapo",
        "entropy-target:1",
        "alpha-dpg:0.5:partition=cumulative",
        // Its advantages depend on the step.
        "grpo:advantage=(1-progress)*(r-mean(r))+0.1*(step>1)*(correct-c/n)",
    ] {
        let (whole, parts) = (format!("{whole}-{objective}"), format!("{parts}-{objective}"));
        // Few prompts: the second step has those of the first.
        let run = |output: &str, more: &str| {
            let few = "--max-samples 4 --num-presamples 8 --max-steps 2";
            trained(output, &format!("--objective {objective} {few} {more}"));
        };
        run(&whole, "");
        run(&parts, "--save-steps 1");
        // As if it had been killed after the checkpoint of the first step.
        std::fs::remove_dir_all(Path::new(&parts).join("final")).expect("removed");
        run(&parts, "--resume checkpoint-1");
        assert_eq!(weights(&whole), weights(&parts), "{objective}");
        assert_eq!(rows(Path::new(&parts)).len(), 2);
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_after_the_step_saves_and_exits_130() {
    let folder = Folder::new();
    let output = folder.path("run");
    for (name, code) in [("INT", 130), ("TERM", 143)] {
        let output = format!("{output}-{name}");
        let mut child = binary(&format!("train --output {output} --max-steps 100000 {SMALL}"))
            .stderr(std::fs::File::create(folder.path(name)).expect("a file"))
            .spawn()
            .expect("starts");
        wait_for_steps(Path::new(&output), 1);
        signal(&format!("-{name}"), child.id());
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(code));
        let stderr = std::fs::read_to_string(folder.path(name)).expect("what it said");
        let answer = "stopping after the current step, whose results are saved. Press Ctrl-C again to stop at once";
        has(&stderr, &[answer]);
        let rows = rows(Path::new(&output)).len();
        let checkpoint = Path::new(&output).join(format!("checkpoint-{rows}"));
        assert!(checkpoint.join("trainer_state.json").exists(), "{}", checkpoint.display());
        assert!(checkpoint.join("config.json").exists());
        trained(&output, &format!("--resume --max-steps {}", rows + 1));
    }
}

#[test]
fn supervised_training_imitates_and_saves_a_model_that_loads() {
    let folder = Folder::new();
    let (sft, eval) = (folder.path("sft"), folder.path("eval"));
    let scratch = root().join("models/countdown").display().to_string();
    let mut config = json(format!("{scratch}/config.json"));
    config["num_hidden_layers"] = 1.into();
    let config = folder.write("arch.json", config.to_string());
    ok(command!(
        "sft --from-scratch {config} --tokenizer {scratch} --dataset countdown/sft --max-steps \
         12 --learning-rate 3e-3 --output {sft} --device cpu"
    ));
    let losses: Vec<f64> = rows(Path::new(&sft)).iter().map(|row| number(row, "loss")).collect();
    assert!(losses[11] < losses[0] - 0.3, "{losses:?}");
    let model = format!("{sft}/final");
    ok(command!(
        "eval --model {model} --max-samples 2 -n 2 -k 1 --output {eval} \
         --max-completion-length 20"
    ));
}
