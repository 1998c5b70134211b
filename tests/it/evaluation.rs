//! Evaluations as their users run them: killed and continued, judged again, graded, compared, batched.

use std::path::Path;

use crate::cli::opens_without_a_network;
use crate::support::binary::{Folder, command, has, ok, printed, refused};
use crate::support::processes::spawned;
use crate::support::runs::{json, samples, summary};
use serde_json::{Value, json};

const SMALL: &str = "--max-samples 12 --max-completion-length 20 --device cpu";

/// Evaluates; what was said on standard error.
#[track_caller]
fn eval(output: &str, more: &str) -> String {
    ok(command!("eval --output {output} {SMALL} {more}"))
}

#[cfg(unix)]
#[test]
fn a_killed_evaluation_goes_on_and_ends_like_an_undisturbed_one() {
    let folder = Folder::new();
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    let how = "-n 32 -k 1,32 --max-num-seqs 32";
    eval(&whole, how);
    let file = Path::new(&parts).join("samples/countdown-test.jsonl");
    let length = || std::fs::metadata(&file).map_or(0, |file| file.len());
    let mut kills = 0;
    for _ in 0..3 {
        let before = length();
        let mut child = spawned(&format!("eval --output {parts} {SMALL} {how}"));
        // As soon as it has written something more.
        while length() <= before && child.try_wait().expect("a child").is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        kills += usize::from(child.try_wait().expect("a child").is_none());
        child.kill().expect("killed");
        child.wait().expect("waited for");
    }
    assert!(kills > 0, "it was never disturbed");
    // As a crash in the middle of a line leaves it.
    let mut text = std::fs::read_to_string(&file).expect("samples");
    text.push_str("{\"problem\":\"1,2,3");
    std::fs::write(&file, text).expect("written");
    has(&eval(&parts, how), &["cut off by a crash"]);
    assert_eq!(samples(&whole), samples(&parts));
    let numbers = |output: &str| json(format!("{output}/results.json"))["sets"].clone();
    assert_eq!(numbers(&whole), numbers(&parts));
}

#[test]
fn another_verifier_or_k_judges_again_without_sampling() {
    let folder = Folder::new();
    let output = folder.path("eval");
    eval(&output, "-n 8 -k 1,8");
    let texts = || samples(&output).iter().map(|row| row["completion"].clone()).collect::<Vec<_>>();
    let before = texts();
    let first = json(format!("{output}/results.json"));
    let stderr = eval(&output, "-n 8 -k 1,2,4 --verifier regex:(.*)");
    assert!(!stderr.contains("12/12"), "nothing is drawn: {stderr}");
    let second = json(format!("{output}/results.json"));
    assert_eq!(second["sets"][0]["verifier"], "regex");
    assert_eq!(second["sets"][0]["summary"]["pass@k"]["1"]["value"], 0.0);
    assert!(second["sets"][0]["summary"]["pass@k"]["4"].is_object());
    assert_eq!(before, texts());
    eval(&output, "-n 8 -k 1,8");
    assert_eq!(json(format!("{output}/results.json"))["sets"], first["sets"]);
}

#[test]
fn samples_are_kept_and_never_mistaken_for_others() {
    let folder = Folder::new();
    let output = folder.path("eval");
    eval(&output, "-n 4 -k 4");
    let all = samples(&output);
    // A run over fewer problems keeps the samples of the others for later.
    let fewer = SMALL.replace("12", "3");
    ok(command!("eval --output {output} -n 4 -k 4 {fewer}"));
    assert_eq!(all.len(), samples(&output).len());
    let results = json(format!("{output}/results.json"));
    assert_eq!(results["sets"][0]["problems"].as_array().map(Vec::len), Some(3));
    eval(&output, "-n 4 -k 4");
    assert_eq!(all, samples(&output));
    // Another prompt under an id is refused.
    let asked = |text: &str| folder.write("q.jsonl", format!("{{\"id\":\"a\",{text}}}\n"));
    let file = asked("\"prompt\":[{\"role\":\"user\",\"content\":\"1+1=\"}],\"answer\":\"2\"");
    let other = folder.path("other");
    eval(&other, &format!("-n 2 -k 1 --dataset {file}"));
    asked("\"prompt\":[{\"role\":\"user\",\"content\":\"2+0=\"}],\"answer\":\"2\"");
    refused!(
        "eval --output {other} -n 2 -k 1 --max-completion-length 20 --dataset {file}"
        => "the prompt of problem `a`"
    );
}

#[test]
fn a_suite_has_several_sets_and_temperatures() {
    let folder = Folder::new();
    let suite = "[[set]]\ndataset = \"countdown/train\"\ndomain = \"in\"\n[[set]]\nname = \"three\"\ndataset = \"countdown/test-3\"\ndomain = \"out\"\n";
    let suite = folder.write("suite.toml", suite);
    let output = folder.path("eval");
    eval(&output, &format!("--suite {suite} -n 4 -k 1,4 --temperature 0.5,1"));
    let results = json(format!("{output}/results.json"));
    let sets = results["sets"].as_array().expect("sets");
    let names: Vec<&str> = sets.iter().filter_map(|set| set["name"].as_str()).collect();
    assert_eq!(names, ["countdown/train@t0.5", "countdown/train@t1", "three@t0.5", "three@t1"]);
    assert_eq!(results["sets"][2]["domain"], "out");
    let csv = std::fs::read_to_string(format!("{output}/results.csv")).expect("CSV");
    assert!(csv.contains("countdown,three@t1,out,1,pass@k,4,"), "{csv}");
    let markdown = std::fs::read_to_string(format!("{output}/results.md")).expect("Markdown");
    assert!(markdown.contains("| three@t0.5 |"));
    opens_without_a_network(&output, "chunk-0-0");
}

#[test]
fn graded_completions_of_other_programs_get_the_same_report() {
    let folder = Folder::new();
    // An evaluation's samples, graded as another program's completions, count the same.
    let output = folder.path("eval");
    eval(&output, "-n 8 -k 1,8 --no-greedy");
    let line = |row: &Value| {
        format!("{}\n", json!({"id": row["problem"], "completion": row["completion"]}))
    };
    let lines: String = samples(&output).iter().map(line).collect();
    let file = folder.write("strangers.jsonl", lines);
    let graded = folder.path("graded");
    ok(command!("grade {file} --dataset countdown/test --output {graded} -k 1,8"));
    let [ours, theirs] = [&output, &graded].map(|output| summary(output));
    for key in ["pass@k", "unique_correct@k", "maj@k", "no_answer"] {
        assert_eq!(ours[key], theirs[key], "{key}");
    }
    // Different numbers of completions: each problem's own estimate, k up to the fewest.
    let mixed = folder.write(
        "mixed.jsonl",
        "{\"id\":1,\"completions\":[\"7\",\"8\",\"7\",\"9\"],\"gold\":7}\n{\"id\":2,\"completions\":[\"1\",\"2\"],\"gold\":1}\n{\"id\":3,\"comp",
    );
    let output = folder.path("mixed");
    has(
        &ok(command!("grade {mixed} --output {output} --json --quiet")),
        &["the last line was cut off"],
    );
    let found = summary(&output);
    assert_eq!((&found["pass@k"]["1"]["value"], &found["n"]), (&json!(0.5), &json!(2)));
    refused!("grade {mixed} --output {} -k 4", folder.path("k") => "problem `2` has 2 samples");
}

#[test]
fn evaluations_are_compared_problem_by_problem() {
    let folder = Folder::new();
    let (one, two, three) = (folder.path("one"), folder.path("two"), folder.path("three"));
    eval(&one, "-n 8 -k 1,8 --no-greedy");
    eval(&two, "-n 8 -k 1,8 --no-greedy --seed 5");
    let output = folder.path("compared");
    let table = printed(command!("compare {one} {two} --output {output}"));
    has(&table, &["pass@8", "Lost: ", "Gained: ", "resampling noise", "--second-draw"]);
    assert!(!table.contains("by chance alone"), "{table}");
    for measure in ["pass@1", "pass@8", "distinct@8"] {
        let is_row = |line: &&str| line.trim_start().starts_with(measure) && line.contains(" to ");
        assert!(table.lines().any(|line| is_row(&line)), "{measure} with an interval: {table}");
    }
    let change =
        |output: &str| json(format!("{output}/compare.json"))["sets"][0]["changes"][0].clone();
    assert_eq!(change(&output)["beyond_chance"], Value::Null);
    // With the base drawn again they are there.
    let (again, more) = (folder.path("again"), folder.path("more"));
    eval(&again, "-n 8 -k 1,8 --no-greedy --seed 9");
    let table = printed(command!("compare {one} {two} --second-draw {again} --output {more}"));
    has(&table, &["Lost in 8 attempts: ", "Gained in 8 attempts: ", "by chance alone"]);
    assert_eq!(change(&more)["beyond_chance"]["has_second_draw"], true);
    let page = std::fs::read_to_string(folder.path("more/report.html")).expect("a page");
    assert!(page.contains("by chance alone"), "the same on the page");
    // Not with a draw that has the random numbers of a run.
    refused!("compare {one} {two} --second-draw {two}" => "has the seed of", "--seed");
    assert!(Path::new(&output).join("report.html").exists());
    ok(command!("eval --output {three} -n 8 -k 1,8 {}", SMALL.replace("12", "5")));
    refused!("compare {one} {three}" => "7 only in the first", "--intersect");
    ok(command!("compare {one} {three} --intersect"));
}
