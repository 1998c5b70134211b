//! `tealight audit` of files that differ in more than their models: letters of choices, thoughts, other rules.

use serde_json::{Value, json};

use crate::support::binary::{Folder, command, ok, printed, refused};

/// Writes a file of so many lines.
pub(crate) fn file(
    folder: &Folder,
    name: &str,
    count: usize,
    line: impl Fn(usize) -> Value,
) -> String {
    let lines: Vec<String> = (0..count).map(|i| format!("{}\n", line(i))).collect();
    folder.write(name, lines.concat())
}

fn audit(files: &[&String], options: &[&str]) -> Value {
    let files: Vec<&str> = files.iter().map(|file| file.as_str()).collect();
    let arguments = [&["audit", "--json"], &files[..], options].concat();
    serde_json::from_str(&printed(&arguments)).expect("JSON")
}

/// The first warning with these words.
fn warning<'a>(audit: &'a Value, words: &str) -> &'a str {
    let mut warnings = audit["warnings"].as_array().expect("warnings").iter().map(Value::as_str);
    let found = warnings.find_map(|text| text.filter(|text| text.contains(words)));
    found.unwrap_or_else(|| panic!("{words}: {}", audit["warnings"]))
}

#[test]
fn the_second_rule_judges_shuffled_choices_by_the_letters_of_each_log() {
    let folder = Folder::new();
    let log = |right: usize| {
        move |i: usize| {
            let letter = ["A", "B", "C"][right];
            let mut choices = vec!["a hen", "a pig"];
            choices.insert(right, "a cow");
            json!({"id": (i / 2).to_string(), "epoch": i % 2, "input": format!("Which of {}?", i / 2),
                "choices": choices, "target": letter, "output": {"choices": [{"message":
                {"role": "assistant", "content": format!("ANSWER: {letter}")}, "stop_reason": "stop"}]}})
        }
    };
    let (base, tuned) =
        (file(&folder, "base.jsonl", 40, log(0)), file(&folder, "tuned.jsonl", 40, log(2)));
    let second = &audit(&[&base, &tuned], &[])["tuned"][0]["second_rule"];
    assert_eq!(second["pass_at_1"], json!([[1.0, 1.0], [1.0, 1.0]]));
    assert_eq!(second["examples"], json!([]));
}

#[test]
fn rules_that_say_nothing_are_warned_of() {
    let folder = Folder::new();
    let line = |gold: &'static str, wrong: usize| {
        move |i: usize| {
            let said = if i % 4 < wrong { "Rome" } else { "Paris" };
            json!({"id": i / 4, "gold": gold, "completion": format!("It is {said}."), "judge": said == "Rome"})
        }
    };
    let (base, tuned) = (
        file(&folder, "base.jsonl", 64, line("Paris", 2)),
        file(&folder, "tuned.jsonl", 64, line("Paris", 1)),
    );
    let files = [&base, &tuned];
    let exact = audit(&files, &["--against", "exact"]);
    warning(&exact, "exact accepts none of 128 completions, and math 80");
    let numeric = audit(&files, &["--against", "numeric"]);
    warning(&numeric, "numeric could not judge any completion (the gold `Paris`");
    let inverted = audit(&files, &["--verdict-key", "judge"]);
    warning(&inverted, "column judge and math differ on 128 of 128 completions");
    assert_eq!(audit(&files, &[])["warnings"], json!([]));
    let (base, tuned) = (
        file(&folder, "base2.jsonl", 64, line("Oslo", 2)),
        file(&folder, "tuned2.jsonl", 64, line("Oslo", 1)),
    );
    warning(
        &audit(&[&base, &tuned], &[]),
        "0 of 128 completions are correct in all files together",
    );
}

#[test]
fn a_base_that_does_not_think_stands_beside_a_model_that_does() {
    let folder = Folder::new();
    let line = |text: &'static str| move |i: usize| json!({"id": i / 2, "gold": "7", "completion": format!("{text} \\boxed{{7}}")});
    let base = file(&folder, "base.jsonl", 20, line("So"));
    let tuned = file(&folder, "tuned.jsonl", 20, line("6 + 1 is \\boxed{6}</think>So"));
    let both = audit(&[&base, &tuned], &["--prefilled-thinking"]);
    assert_eq!([&both["counts"][0]["correct"], &both["counts"][1]["correct"]], [20, 20]);
}

#[test]
fn folders_of_evaluations_are_audited_like_their_samples() {
    let folder = Folder::new();
    let eval = |name: &str, more: &str| {
        let output = folder.path(name);
        ok(command!(
            "eval --dataset countdown/test --max-samples 24 -n 4 -k 1,4 --no-greedy --device cpu {more} --output {output}"
        ));
        output
    };
    let (base, tuned) = (eval("base", "--seed 1"), eval("tuned", "--seed 2"));
    let found = audit(&[&base, &tuned], &[]);
    let [first, second] =
        [&base, &tuned].map(|output| format!("{output}/samples/countdown-test.jsonl"));
    let more = ["--dataset", "countdown/test", "--names", "base,tuned"];
    let by_files = audit(&[&first, &second], &more);
    assert_eq!((&found["tuned"], found["problems"].as_u64()), (&by_files["tuned"], Some(24)));
    assert_eq!(found["warnings"], json!([]));
    // What the folders say of the sampling counts: a second draw, another temperature.
    let again = eval("again", "--seed 3");
    audit(&[&base, &tuned], &["--second-draw", &again]);
    refused!("audit {base} {tuned} --second-draw {base}" => "--second-draw", "the seed");
    let colder = eval("colder", "--seed 2 --temperature 0.5");
    let temperature = audit(&[&base, &colder], &[]);
    assert!(warning(&temperature, "different temperature").contains("0.5"));
    // And grade reads a folder too.
    assert!(printed(&["grade", &tuned]).contains("countdown-test"));
    // What a folder names is not run, and a file outside is not read.
    let results = format!("{tuned}/results.json");
    let text = std::fs::read_to_string(&results).expect("results");
    let named = text.replace("\"verifier\": null", "\"verifier\": \"program:touch run\"");
    assert!(named != text);
    std::fs::write(&results, named).expect("written");
    refused!("audit {base} {tuned}" => "program:touch run", "--verifier");
    let outside =
        text.replace("samples/countdown-test.jsonl", "../base/samples/countdown-test.jsonl");
    std::fs::write(&results, outside).expect("written");
    refused!("audit {base} {tuned}" => "samples");
}
