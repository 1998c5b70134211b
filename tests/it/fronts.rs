//! A study's fronts: configurations of equal number, paths of checkpoints, baselines, and the plan before them.

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor};
use serde_json::Value;
use tealight::nn::model::weights::{Weights, between, mean};

use crate::support::binary::{Folder, ok, refusal, succeeded, tealight, words};
use crate::support::runs::{SMALL, json};

/// A study of seconds: two objectives in two configurations.
fn study(output: &str, more: &[&str]) -> Vec<String> {
    let fixed = words(
        "study --quiet --no-greedy --seeds 0,1 \
         --objectives none@{learning-rate=1e-4,3e-4},kl-full@{0.03,0.3} \
         --max-samples 8 --max-test-samples 12 -n 8 -k 1,8 --eval-dataset countdown/valid \
         --eval-max-samples 12 --eval-num-samples 4 --average-share 0.5 --base-temperature 0.6 --output",
    );
    [&fixed[..], &[output], &SMALL, more].concat().iter().map(ToString::to_string).collect()
}

fn run(arguments: &[String]) -> String {
    ok(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

fn samples(path: PathBuf) -> Vec<u8> {
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn every_run_is_a_path_and_baselines_are_objectives() {
    let folder = Folder::new();
    let output = folder.path("study");
    let arguments = study(&output, &["--max-steps", "4", "--eval-steps", "2"]);
    run(&arguments);
    let results = json(format!("{output}/results.json"));
    // Tables show one configuration of each objective, results hold all.
    assert_eq!(results["objectives"].as_array().map(Vec::len), Some(2));
    assert_eq!(results["training"].as_array().map(Vec::len), Some(8));
    assert_eq!(results["datasets"][0]["tuned"].as_array().map(Vec::len), Some(8));
    for training in results["training"].as_array().expect("runs") {
        let held_out = training["held_out"].as_array().expect("evaluations");
        let steps: Vec<&Value> = held_out.iter().map(|found| &found["step"]).collect();
        assert_eq!(steps, [0, 2, 4]);
    }
    let fronts = results["fronts"].as_array().expect("fronts");
    let of = |fronts: &Value, name: &str| -> Value {
        let all = fronts["fronts"].as_array().expect("objectives");
        let found = all.iter().find(|front| front["objective"] == name);
        found.unwrap_or_else(|| panic!("no {name} in {all:?}")).clone()
    };
    let first = &fronts[0];
    assert_eq!((&first["valid_problems"], &first["test_problems"]), (&12.into(), &12.into()));
    // Two configurations with two checkpoints each; one average of each; one temperature.
    for (name, seeds, candidates) in [
        ("none", 2, 4),
        ("kl-full", 2, 4),
        ("none averaged with the base", 2, 2),
        ("base at lower temperatures", 0, 1),
    ] {
        let front = of(first, name);
        assert_eq!((&front["seeds"], &front["candidates"]), (&seeds.into(), &candidates.into()));
    }
    let place = Path::new(&output);
    for file in [
        "base/samples-countdown-valid.jsonl",
        "base/temperature-0.6/samples-countdown-test.jsonl",
        "none-learning-rate-1e-4-seed0/path/step-000002/samples-countdown-valid.jsonl",
        "none-learning-rate-1e-4-seed0/path/step-000002/samples-countdown-test.jsonl",
        "none-learning-rate-3e-4-seed1/average-0.5/samples-countdown-test.jsonl",
        "kl-full-0.03-seed1/path/step-000004/samples-countdown-valid.jsonl",
        "kl-full-0.3-seed0/samples-countdown-test.jsonl",
    ] {
        assert!(place.join(file).exists(), "{file}");
    }
    assert!(!place.join("kl-full-0.03-seed1/average-0.5").exists());
    // Weights on the way are gone, their samples are those of a run that ends there.
    let run_folder = "none-learning-rate-3e-4-seed0";
    assert!(!place.join(run_folder).join("path/step-000002/model").exists());
    let shorter = folder.path("shorter");
    run(&study(&shorter, &["--max-steps", "2", "--eval-steps", "2"]));
    let file = "samples-countdown-test.jsonl";
    let on_the_way = samples(place.join(run_folder).join("path/step-000002").join(file));
    let end = samples(Path::new(&shorter).join(run_folder).join(file));
    assert!(on_the_way == end, "a checkpoint is the model of a run that ends there");
    assert!(on_the_way != samples(place.join(run_folder).join(file)), "and not its end's");
}

#[test]
fn averages_lie_on_the_line_from_the_base_to_the_run() {
    let weights = |values: [f32; 2]| -> Weights {
        let tensor = Tensor::new(&values, &Device::Cpu).expect("a tensor");
        Weights::from([("w".to_owned(), tensor)])
    };
    let values =
        |weights: &Weights| -> Vec<f32> { weights["w"].to_vec1().expect("values of a tensor") };
    let (base, run) = (weights([1.0, -2.0]), weights([3.0, 4.0]));
    assert_eq!(values(&between(&base, &run, 0.25).expect("an average")), [1.5, -0.5]);
    let half = between(&base, &run, 0.5).expect("an average");
    assert_eq!(values(&half), values(&mean(&[base.clone(), run]).expect("a mean")));
    let other = Weights::from([("v".to_owned(), base["w"].clone())]);
    assert!(between(&base, &other, 0.5).is_err());
}

#[test]
fn unequal_tuning_is_refused_unless_it_is_meant() {
    let folder = Folder::new();
    let output = folder.path("study");
    let unequal =
        ["study", "--output", &output, "--objectives", "grpo@{learning-rate=1e-5,1e-4},js"];
    let said = refusal(&unequal);
    assert!(said.contains("`grpo` has 2 configurations and `js` 1"), "{said}");
    assert!(!Path::new(&output).exists());
    let meant =
        [&unequal[..], &["--allow-unequal-tuning", "--plan", "--plan-rate", "1e4"]].concat();
    ok(&meant);
    let long =
        ["study", "--output", &output, "--objectives", "grpo@{max-steps=9}", "--max-steps", "8"];
    let said = refusal(&long);
    assert!(said.contains("9 steps") && said.contains("raise --max-steps"), "{said}");
    let usage = tealight(&["study", "--output", &output, "--objectives", "grpo@{1,2}"]);
    let said = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.status.code() == Some(2) && said.contains("learning-rate=1"), "{said}");
}

#[test]
fn a_plan_says_what_would_run_and_runs_nothing() {
    let folder = Folder::new();
    let output = folder.path("study");
    let more = ["--max-steps", "4", "--eval-steps", "2", "--plan"];
    let planned = |more: &[&str]| -> String {
        let arguments = study(&output, more);
        let done = succeeded(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let text = planned(&[&more[..], &["--plan-rate", "1000"]].concat());
    assert!(!Path::new(&output).exists(), "nothing is written");
    let row = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.trim_start().starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        let numbers = line.split_whitespace().rev().take(3).map(str::to_owned);
        numbers.collect::<Vec<_>>().into_iter().rev().collect()
    };
    // Two seeds of 4 steps with 32 completions; 9 models on 12 problems; 16 checkpoints and the base on 12 problems,
    // half of them on the test problems too; two averages a seed and one temperature.
    assert_eq!(row("train none@learning-rate=1e-4 (4 steps)")[..2], ["2", "256"]);
    assert_eq!(row("evaluate ends")[..2], ["9".to_owned(), (9 * 12 * 8).to_string()]);
    let checkpoints = 17 * 12 * 8 + 8 * 12 * 8;
    assert_eq!(row("evaluate checkpoints")[..2], ["16".to_owned(), checkpoints.to_string()]);
    assert_eq!(row("evaluate baselines")[..2], ["5".to_owned(), (5 * 24 * 8).to_string()]);
    assert!(text.contains("as stated") && text.contains("probability .8"), "{text}");
    // The time is measured where it is not stated.
    let measured = planned(&more);
    assert!(measured.contains("measured now"), "{measured}");
    assert!(!Path::new(&output).exists());
}
