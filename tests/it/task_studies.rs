//! A study on several tasks: one study each in a folder of its own, and a comparison over tasks.

use std::path::Path;

use serde_json::Value;

use crate::support::binary::{Folder, refusal, succeeded, words};
use crate::support::runs::json;

/// A study of seconds on two tasks with the embedded model of all tasks.
fn study(output: &str, more: &[&str]) -> Vec<String> {
    let fixed = words(
        "study --quiet --no-greedy --tasks countdown,paths --objectives none,kl-full:0.1 --seeds 0,1 \
         --max-samples 8 --max-test-samples 12 -n 8 -k 1,8 --max-steps 2 --prompts-per-step 4 \
         --num-generations 4 --eval-steps 1 --eval-max-samples 12 --eval-num-samples 4 \
         --average-share 0.5 --base-temperature 0.6 --output",
    );
    [&fixed[..], &[output], more].concat().iter().map(ToString::to_string).collect()
}

fn run(arguments: &[String]) -> String {
    let done = succeeded(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
    String::from_utf8_lossy(&done.stdout).into_owned()
}

#[test]
fn tasks_are_studied_alike_and_compared() {
    let folder = Folder::new();
    let output = folder.path("study");
    let shown = run(&study(&output, &[]));
    let results = json(format!("{output}/results.json"));
    let tasks = results["tasks"].as_array().expect("tasks");
    let names: Vec<&Value> = tasks.iter().map(|task| &task["task"]).collect();
    assert_eq!(names, ["countdown", "paths"]);
    // Each task has its own problems and its own base: Pass@1 of the two is not one number.
    let base = |task: usize| tasks[task]["fronts"]["base"]["pass@1"]["value"].as_f64();
    assert!(base(0).is_some_and(|value| value > 0.0) && base(0) != base(1));
    // The fronts are those of each task's own results.
    for task in ["countdown", "paths"] {
        let own = json(format!("{output}/{task}/results.json"));
        let place = names.iter().position(|name| *name == task).expect("a task");
        assert_eq!(own["fronts"][0], tasks[place]["fronts"]);
        assert_eq!(own["datasets"][0]["name"], format!("{task}/test"));
        assert_eq!(own["model"], "tasks");
        assert!(Path::new(&output).join(task).join("report.html").exists());
    }
    let pairs = results["across"]["pairs"].as_array().expect("pairs");
    assert!(!pairs.is_empty());
    for pair in pairs {
        let on: Vec<f64> =
            (0..2).filter_map(|task| pair["tasks"][task]["difference"]["value"].as_f64()).collect();
        let mean = pair["mean"]["value"].as_f64().expect("a mean");
        assert!((mean - on.iter().sum::<f64>() / on.len() as f64).abs() < 1e-12);
    }
    let text = results["across"]["text"].as_str().expect("a conclusion");
    assert!(shown.contains(text) && shown.contains("mean over tasks"), "{shown}");
    let written = std::fs::read_to_string(format!("{output}/results.md")).expect("results.md");
    assert!(written.contains(text) && written.contains("paths/report.html"), "{written}");
    // A resumed study trains nothing again, and says the same.
    let trained = Path::new(&output).join("paths/none-seed1/final/model.safetensors");
    let time = || std::fs::metadata(&trained).expect("a model").modified().expect("a time");
    let before = time();
    let again = run(&study(&output, &["--resume"]));
    assert_eq!((again, time()), (shown, before));
    let said = refusal_of(&study(&output, &["--resume", "--learning-rate", "1e-3"]));
    assert!(said.contains("begun with other settings"), "{said}");
    assert!(refusal_of(&study(&output, &[])).contains("holds files already"));
}

fn refusal_of(arguments: &[String]) -> String {
    refusal(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn tasks_that_do_not_exist_or_do_not_fit_are_refused_before_anything_runs() {
    let folder = Folder::new();
    let output = folder.path("study");
    let said = |more: &[&str]| refusal(&[&["study", "--output", &output][..], more].concat());
    assert!(said(&["--tasks", "countdown,hanoi"]).contains("--tasks hanoi: no such task"));
    assert!(said(&["--tasks", "paths,sat,paths"]).contains("names paths twice"));
    assert!(said(&["--tasks", "paths"]).contains("use --task paths"));
    let other = said(&["--tasks", "paths,sat", "--eval-dataset", "sat/test"]);
    assert!(other.contains("leave --task, --test-suite and --eval-dataset out"), "{other}");
    let file = folder.write("suite.toml", "test_suite = \"tasks\"\n");
    let other = said(&["--tasks", "paths,sat", "--config", &file]);
    assert!(other.contains("in --config files"), "{other}");
    // The last task's settings are looked at before the first is studied: its test set stands there twice.
    let late = said(&["--tasks", "paths,sat", "--ood-dataset", "sat/test"]);
    assert!(late.contains("sat-test"), "{late}");
    let one_task = said(&["--tasks", "paths,sat", "--model", "countdown"]);
    assert!(one_task.contains("trained on countdown only; use --model tasks"), "{one_task}");
    assert!(said(&["--tasks", "paths,sat", "--plan"]).contains("--plan is for one task"));
    assert!(!Path::new(&output).join("paths").exists());
}
