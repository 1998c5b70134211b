//! A study's curves: configurations of equal number, paths of checkpoints, baselines, and the plan before them.

use std::path::{Path, PathBuf};

use serde_json::Value;

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
    let curves = results["curves"].as_array().expect("curves");
    let measures: Vec<&Value> = curves.iter().map(|one| &one["measure"]).collect();
    let known = serde_json::json!([{ "pass_at_k": 8 }, { "distinct": 8 }]);
    assert_eq!(serde_json::json!(measures), known);
    assert_eq!(curves[0]["problems"], 12);
    // One configuration of each objective with two checkpoints; an average and the end; one temperature.
    let shown: Vec<&str> = results["objectives"]
        .as_array()
        .expect("labels")
        .iter()
        .filter_map(|one| one[0].as_str())
        .collect();
    for (name, seeds, points, is_baseline) in [
        ("none", 2, 2, false),
        ("kl-full", 2, 2, false),
        ("none averaged with the base", 2, 2, true),
        ("base at lower temperatures", 0, 1, true),
    ] {
        let all = curves[0]["curves"].as_array().expect("objectives");
        let one =
            all.iter().find(|one| one["objective"] == name).unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((&one["seeds"], &one["is_baseline"]), (&seeds.into(), &is_baseline.into()));
        assert_eq!(one["points"].as_array().map(Vec::len), Some(points), "{name}");
        // The curve is that of the configuration which the tables show.
        let configuration = one["configuration"].as_str().expect("a name");
        assert!(seeds == 0 || shown.contains(&configuration), "{configuration} {shown:?}");
    }
    // The average ends where the run does.
    let last_pass_at_1 = |name: &str| {
        let all = curves[0]["curves"].as_array().expect("objectives");
        let one = all.iter().find(|one| one["objective"] == name).expect("an objective");
        one["points"][1]["pass@1"].clone()
    };
    assert_eq!(last_pass_at_1("none"), last_pass_at_1("none averaged with the base"));
    // One objective is tested against the reference; baselines are described, and so are distinct answers.
    let tested = |curves: &Value| -> Vec<String> {
        let all = curves["comparisons"].as_array().expect("comparisons");
        let is_tested = |one: &&Value| !one["p_value"].is_null() || !one["missing"].is_null();
        all.iter().filter(is_tested).map(|one| one["first"].to_string()).collect()
    };
    assert_eq!(curves[0]["reference"], "none");
    assert!(tested(&curves[0]).contains(&"\"kl-full\"".to_owned()), "{}", curves[0]);
    let described = curves[1]["comparisons"].as_array().expect("comparisons");
    assert!(described.iter().all(|one| one["p_value"].is_null()));
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

/// Where the answers are few, curves are the probabilities of all of them: without samples of checkpoints, and equal to
/// what `eval --exact` computes.
#[test]
fn curves_are_exact_where_answers_can_be_listed() {
    let folder = Folder::new();
    let output = folder.path("study");
    let arguments = words(
        "study --quiet --no-greedy --task paths --seeds 0,1 --objectives grpo,js:2.4 --max-samples 8 \
         --max-test-samples 12 -n 32 -k 1,8 --max-steps 2 --eval-steps 1 --prompts-per-step 4 --num-generations 8 \
         --learning-rate 1e-3 --eval-max-samples 12 --eval-num-samples 4 --base-temperature 0.6 --average-share 0.5 \
         --match updates --temperatures 0.5 --output",
    );
    let done = succeeded(&[&arguments[..], &[&output]].concat());
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(text.contains("exact, from the probability of every correct answer"), "{text}");
    let results = json(format!("{output}/results.json"));
    assert_eq!(results["curves"][0]["is_exact"], true);
    // The base at both temperatures, and two checkpoints of each objective too.
    let choices = results["choices"]["objectives"].as_array().expect("choices");
    let candidates: Vec<&Value> = choices.iter().map(|one| &one["candidates"]).collect();
    assert_eq!(candidates, [2, 6, 6]);
    let place = Path::new(&output);
    let on_the_way = place.join("grpo-seed0/path/step-000001");
    assert!(on_the_way.join("answers-paths-test.jsonl").exists());
    assert!(!on_the_way.join("samples-paths-test.jsonl").exists(), "nothing is sampled");
    let colder = place.join("base/temperature-0.6");
    assert!(colder.join("answers-paths-test.jsonl").exists());
    // The end of a run, by the other command.
    let mean = |model: &str| -> f64 {
        let evaluated = folder.path(&model.replace('/', "-"));
        let model = format!("{output}/{model}/final");
        succeeded(&[
            "eval",
            "--quiet",
            "--model",
            &model,
            "--dataset",
            "paths/test",
            "--max-samples",
            "12",
            "-n",
            "1",
            "-k",
            "1",
            "--exact",
            "--max-completion-length",
            "32",
            "--output",
            &evaluated,
        ]);
        let results = json(format!("{evaluated}/results.json"));
        results["sets"][0]["summary"]["exact"]["pass@k"]["1"]["value"].as_f64().expect("a number")
    };
    let ends = (mean("grpo-seed0") + mean("grpo-seed1")) / 2.0;
    let ours = results["curves"][0]["curves"][0]["points"][1]["pass@1"].as_f64().expect("a number");
    assert!((ends - ours).abs() < 1e-6, "{ends} {ours}");
}

#[test]
fn unequal_tuning_is_refused_unless_it_is_meant() {
    let folder = Folder::new();
    let output = folder.path("study");
    let unequal =
        ["study", "--output", &output, "--objectives", "grpo@{learning-rate=1e-5,1e-4},js"];
    let error = refusal(&unequal);
    assert!(error.contains("`grpo` has 2 configurations and `js` 1"), "{error}");
    assert!(!Path::new(&output).exists());
    let meant =
        [&unequal[..], &["--allow-unequal-tuning", "--plan", "--plan-rate", "1e4"]].concat();
    ok(&meant);
    let long =
        ["study", "--output", &output, "--objectives", "grpo@{max-steps=9}", "--max-steps", "8"];
    let error = refusal(&long);
    assert!(error.contains("9 steps") && error.contains("raise --max-steps"), "{error}");
    let usage = tealight(&["study", "--output", &output, "--objectives", "grpo@{1,2}"]);
    let stderr = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.status.code() == Some(2) && stderr.contains("learning-rate=1"), "{stderr}");
}

#[test]
fn a_plan_lists_the_runs_without_running_them() {
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
    // half of them on the test problems too; two averages a seed and one temperature, on the test problems alone.
    assert_eq!(row("train none@learning-rate=1e-4 (4 steps)")[..2], ["2", "256"]);
    assert_eq!(row("evaluate ends")[..2], ["9".to_owned(), (9 * 12 * 8).to_string()]);
    let checkpoints = 17 * 12 * 8 + 8 * 12 * 8;
    assert_eq!(row("evaluate checkpoints")[..2], ["16".to_owned(), checkpoints.to_string()]);
    assert_eq!(row("evaluate baselines")[..2], ["5".to_owned(), (5 * 12 * 8).to_string()]);
    assert!(text.contains("as stated") && text.contains("probability .8"), "{text}");
    // The time is measured where it is not stated.
    let measured = planned(&more);
    assert!(measured.contains("measured now"), "{measured}");
    assert!(!Path::new(&output).exists());
}
