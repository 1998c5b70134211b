//! A study on several tasks: one study each in a folder of its own, and a comparison over tasks.

use std::path::Path;

use serde_json::Value;

use crate::support::binary::{Folder, refusal, succeeded, words};
use crate::support::runs::json;

/// A study of seconds on two tasks with the embedded model of all tasks; long enough that Pass@1 rises on `paths`, or
/// no curve is compared.
fn study(output: &str, more: &[&str]) -> Vec<String> {
    let fixed = words(
        "study --quiet --no-greedy --tasks countdown,paths --objectives none,kl-full:0.1 --seeds 0,1 \
         --max-samples 24 --max-test-samples 12 -n 8 -k 1,8 --max-steps 6 --prompts-per-step 8 \
         --num-generations 8 --eval-steps 3 --eval-max-samples 12 --eval-num-samples 4 \
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
    let base = |task: usize| tasks[task]["curves"]["base"]["pass@1"]["value"].as_f64();
    assert!(base(0).is_some_and(|value| value > 0.0) && base(0) != base(1));
    // The curves are those of each task's own results.
    for task in ["countdown", "paths"] {
        let own = json(format!("{output}/{task}/results.json"));
        let place = names.iter().position(|name| *name == task).expect("a task");
        assert_eq!(own["curves"][0], tasks[place]["curves"]);
        assert_eq!(own["datasets"][0]["name"], format!("{task}/test"));
        assert_eq!(own["model"], "tasks");
        assert!(Path::new(&output).join(task).join("report.html").exists());
    }
    let pairs = results["across"]["pairs"].as_array().expect("pairs");
    assert!(!pairs.is_empty());
    for pair in pairs {
        let on: Vec<f64> =
            (0..2).filter_map(|task| pair["tasks"][task]["difference"]["value"].as_f64()).collect();
        if on.len() == 1 {
            assert!(pair["mean"].is_null(), "{pair}");
            continue;
        }
        let mean = pair["mean"]["value"].as_f64().expect("a mean");
        assert!((mean - on.iter().sum::<f64>() / on.len() as f64).abs() < 1e-12);
    }
    let text = results["across"]["text"].as_str().expect("a conclusion");
    assert!(shown.contains(text) && shown.contains("mean over tasks"), "{shown}");
    let written = std::fs::read_to_string(format!("{output}/results.md")).expect("results.md");
    assert!(written.contains(text) && written.contains("paths/report.html"), "{written}");
    one_page(&output, text);
    // Distinct answers are described beside, on every task and over tasks.
    let distinct = results["distinct"]["text"].as_str().expect("a conclusion");
    assert!(distinct.contains("among 8 samples") && shown.contains(distinct), "{distinct}");
    assert!(distinct.contains("not tested") && written.contains(distinct), "{written}");
    // A resumed study trains nothing again, and says the same. Its recorded settings are accepted.
    let trained = Path::new(&output).join("paths/none-seed1/final/model.safetensors");
    let time = || std::fs::metadata(&trained).expect("a model").modified().expect("a time");
    let before = time();
    let config = format!("{output}/config.toml");
    let resumed = ["study", "--quiet", "--config", &config, "--output", &output, "--resume"];
    let again = run(&resumed.map(str::to_owned));
    assert_eq!((again, time()), (shown, before));
    let error = refusal_of(&study(&output, &["--resume", "--learning-rate", "1e-3"]));
    assert!(error.contains("begun with other settings"), "{error}");
    assert!(refusal_of(&study(&output, &[])).contains("holds files already"));
}

/// The page over all tasks: the comparison first, every task's curves and samples in it; `report` writes it again.
fn one_page(output: &str, conclusion: &str) {
    let path = format!("{output}/report.html");
    let read = || std::fs::read_to_string(&path).expect("a page");
    let page = read();
    let json =
        page.split("id=\"document\">").nth(1).and_then(|rest| rest.split("</script>").next());
    let document: Value = serde_json::from_str(json.expect("a document")).expect("JSON");
    let title = document["title"].as_str().expect("a title");
    assert!(title.starts_with("countdown, paths: 2 objectives"), "{title}");
    assert_eq!(document["statistics"][0], conclusion);
    assert_eq!(document["models"], serde_json::json!(["base", "none", "kl-full:0.1"]));
    let titles: Vec<&str> = document["top"]
        .as_array()
        .expect("charts")
        .iter()
        .map(|chart| chart["title"].as_str().expect("a title"))
        .collect();
    let title = |task: &str| format!("{task}: Curves: pass@8 at equal pass@1");
    assert_eq!(titles, [title("countdown"), title("paths")]);
    let sections = document["sections"].as_array().expect("sections");
    for heading in ["Tasks", "countdown: countdown/test (12", "paths: paths/test (12"] {
        let found = sections.iter().find(|section| {
            section["heading"].as_str().is_some_and(|own| own.starts_with(heading))
        });
        assert!(found.is_some_and(|found| found["is_folded"].is_null()), "{heading}");
    }
    // The samples of both tasks.
    assert!(page.contains("id=\"chunk-0-0\"") && page.contains("id=\"chunk-1-0\""));
    std::fs::remove_file(&path).expect("removed");
    succeeded(&["report", output]);
    assert_eq!(read(), page);
}

#[test]
fn the_default_study_is_of_one_task_and_every_task_of_several_is_planned() {
    let folder = Folder::new();
    let output = folder.path("study");
    let fixed = words("study --plan --plan-rate 1e4 --seeds 0,1 --output");
    let planned = |more: &[&str]| {
        let done = succeeded(&[&fixed[..], &[&output], more].concat());
        String::from_utf8_lossy(&done.stdout).into_owned()
    };
    let tasks = ["--tasks", "countdown,colouring,paths"];
    let text = planned(&tasks);
    for task in ["countdown", "colouring", "paths"] {
        assert!(text.lines().any(|line| line == task), "{text}");
    }
    assert_eq!(text.matches("evaluate checkpoints").count(), 3, "{text}");
    assert!(text.contains("minutes for all 3 tasks"), "{text}");
    let least = |text: &str| -> f64 {
        let after = text.split("mean difference of ").nth(1).expect("a power line");
        format!("0{}", after.split(' ').next().expect("a number")).parse().expect("a number")
    };
    // Three objectives are tested against the reference on each task; fewer tests find smaller differences.
    assert!(text.contains("9 tests in all"), "{text}");
    let fewer = planned(&["--tasks", "colouring,paths"]);
    assert!(least(&fewer) < least(&text) && fewer.contains("6 tests in all"), "{fewer}");
    // Two objectives are tested in the default study, and in that of another task.
    for more in [&[][..], &["--model", "tasks"], &["--task", "paths"]] {
        let one = planned(more);
        assert_eq!(one.matches("evaluate checkpoints").count(), 1, "{one}");
        assert!(one.contains("2 tests in all") && one.contains("distinct answers"), "{one}");
        assert!(least(&one) > 0.1, "in answers: {one}");
    }
    let one = planned(&["--task", "countdown"]);
    assert!(one.contains("pass@32"), "{one}");
    assert!(!Path::new(&output).exists());
}

fn refusal_of(arguments: &[String]) -> String {
    refusal(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
}

#[test]
fn tasks_that_do_not_exist_or_do_not_fit_are_refused_before_anything_runs() {
    let folder = Folder::new();
    let output = folder.path("study");
    let error_of = |more: &[&str]| refusal(&[&["study", "--output", &output][..], more].concat());
    assert!(error_of(&["--tasks", "countdown,hanoi"]).contains("--tasks hanoi: no such task"));
    assert!(error_of(&["--tasks", "paths,sat,paths"]).contains("names paths twice"));
    assert!(error_of(&["--tasks", "paths"]).contains("use --task paths"));
    let other = error_of(&["--tasks", "paths,sat", "--eval-dataset", "sat/test"]);
    assert!(other.contains("--test-suite and --eval-dataset out"), "{other}");
    let file = folder.write("suite.toml", "test_suite = \"tasks\"\n");
    let other = error_of(&["--tasks", "paths,sat", "--config", &file]);
    assert!(other.contains("in --config files"), "{other}");
    for line in ["dataset = \"sat/train\"", "test_dataset = [\"sat/test\"]"] {
        let file = folder.write("dataset.toml", line);
        let other = error_of(&["--tasks", "paths,sat", "--config", &file]);
        assert!(other.contains("leave --task, --dataset, --test-dataset"), "{other}");
    }
    // The last task's settings are looked at before the first is studied: its test set stands there twice.
    let late = error_of(&["--tasks", "paths,sat", "--ood-dataset", "sat/test"]);
    assert!(late.contains("sat-test"), "{late}");
    let one_task = error_of(&["--tasks", "paths,sat", "--model", "countdown"]);
    assert!(one_task.contains("trained on countdown only; use --model tasks"), "{one_task}");
    assert!(error_of(&["--task", "hanoi"]).contains("--task hanoi: no such task"));
    assert!(!Path::new(&output).join("paths").exists());
}
