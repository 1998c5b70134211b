//! Datasets as commands use them: what is printed before anything runs, test sets that are held out, sets by name.

use std::path::Path;

use assert_cmd::Command;

use crate::support::binary::{
    Folder, command, ok, refusal, refused, stderr_of, stdout_of, succeeded,
};
use crate::support::embedded::roomy_model;
use crate::support::runs::json;

/// A model whose tokenizer has tokens for the letters of `question`, in place of digits.
fn model_with_words(folder: &Folder) -> String {
    let place = roomy_model(folder);
    let file = Path::new(&place).join("tokenizer.json");
    let mut text = std::fs::read_to_string(&file).expect("there");
    for (digit, letter) in ('2'..='9').zip("questino".chars()) {
        text = text.replace(&format!("\"{digit}\":"), &format!("\"{letter}\":"));
    }
    std::fs::write(&file, text).expect("written");
    place
}

/// Problems of one token each.
fn numbers(count: usize) -> String {
    (0..count).map(|n| format!("{{\"question\": \"{n}+0=\", \"answer\": \"{n}\"}}\n")).collect()
}

#[test]
fn columns_first_problem_and_left_out_problems_are_printed_before_anything_runs() {
    let folder = Folder::new();
    let model = roomy_model(&folder);
    let rows = "{\"problem\": \"5+9?\", \"answer\": \"14\", \"solution\": \"x\"}\n\
                {\"problem\": \"Prove it.\", \"answer\": \"proof\", \"solution\": \"x\"}\n\
                {\"problem\": \"Find it.\", \"answer\": null, \"solution\": \"x\"}\n";
    let data = folder.write("q.jsonl", rows);
    let run = |more: &[&str]| {
        ok(&[&["train", "--model", &model, "--dataset", &data, "--dry-run"][..], more].concat())
    };
    let text = run(&["--instruction", ""]);
    for words in [
        "columns: prompt = `problem`, answer = `answer`",
        "1 of 3 problems left out: a proof is asked for",
        "1 of 3 problems left out: there is no answer",
        "first problem: `5+9?`, gold answer `14`",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(run(&[]).contains("first problem: `5+9? Please reason step by step"));
    let countdown = folder.write("c.jsonl", "{\"target\": 24, \"nums\": [3, 8, 1]}\n");
    let done = succeeded(&["train", "--model", &model, "--dataset", &countdown, "--dry-run"]);
    let text = stderr_of(&done);
    assert!(text.contains("checked by `countdown`") && text.contains("numbers = `nums`"), "{text}");
    assert!(stdout_of(&done).contains("answer `3,8,1=24`"));
}

#[test]
fn a_language_model_needs_a_named_dataset() {
    let folder = Folder::new();
    let model = model_with_words(&folder);
    let output = folder.path("out");
    let small = ["-n", "1", "-k", "1", "--max-samples", "1", "--max-completion-length", "2"];
    let text = refusal(&[&["eval", "--model", &model, "--output", &output][..], &small].concat());
    assert!(text.contains("--dataset") && text.contains("--suite"), "{text}");
    refused!("study --model {model} --output {output}" => "--dataset", "--task");
    assert!(!Path::new(&output).exists(), "nothing was written");
    // Named, it is what was asked for.
    let named = ["eval", "--model", &model, "--dataset", "countdown/test", "--no-greedy"];
    assert!(ok(&[&named[..], &small].concat()).contains("dataset countdown/test: 1 problem,"));
}

#[test]
fn a_study_holds_problems_out_where_no_test_set_is_named() {
    let folder = Folder::new();
    let data = folder.write("q.jsonl", numbers(10));
    let output = folder.path("study");
    let small = "--objectives grpo --seeds 0 --max-steps 1 --prompts-per-step 2 --num-generations 2 -n 2 -k 1 \
                 --max-completion-length 3 --no-greedy --no-baselines --instruction = --device cpu \
                 --eval-steps 0";
    let small: Vec<&str> = small.split_whitespace().collect();
    let study = ["study", "--dataset", &data, "--output", &output];
    let text = ok(&[&study[..], &small].concat());
    assert!(text.contains("2 of the 10 problems of") && text.contains("are held out"), "{text}");
    assert!(!text.contains("countdown/"), "{text}");
    let study = json(folder.path("study/results.json"));
    let sets = study["datasets"].as_array().expect("datasets");
    let name = sets[0]["name"].as_str().expect("a name");
    assert!(sets.len() == 1 && name.ends_with("(held out)"), "{name}");
    let held_out = sets[0]["questions"].as_array().map(Vec::len);
    assert_eq!((held_out, study["prompts"].as_u64()), (Some(2), Some(8)));
    // One prompt cannot be on both sides.
    let one = folder.write("one.jsonl", numbers(1));
    refused!("study --dataset {one} --output {}", folder.path("other") => "--test-dataset");
}

#[test]
fn a_set_is_the_same_by_its_file_or_by_its_name() {
    let folder = Folder::new();
    let data = folder.write("a.jsonl", numbers(3));
    let other = folder.write("b.jsonl", numbers(3));
    let evaluate = |dataset: &str, output: &str, more: &[&str]| {
        let mut command = Command::cargo_bin("tealight").expect("the binary");
        command.current_dir(folder.0.path()).args(command!(
            "eval --dataset {dataset} --output {output} -n 2 -k 1 --max-completion-length 3 --no-greedy --instruction ="
        ));
        command.args(more).output().expect("runs")
    };
    for (dataset, output, more) in [
        (&*data, "whole", &[][..]),
        ("./a.jsonl", "dotted", &[]),
        ("b.jsonl", "other", &[]),
        (&*other, "named", &["--name", "numbers"]),
        ("a.jsonl", "named-too", &["--name", "numbers"]),
    ] {
        let done = evaluate(dataset, output, more);
        assert!(done.status.success(), "{output}: {}", stderr_of(&done));
    }
    let compare = |a: &str, b: &str| [folder.path(a), folder.path(b)];
    let [a, b] = compare("whole", "dotted");
    ok(&["compare", &a, &b, "--output", &folder.path("page")]);
    let [a, b] = compare("named", "named-too");
    ok(&["compare", &a, &b]);
    let [a, b] = compare("whole", "other");
    let warned = ok(&["compare", &a, &b]);
    assert!(warned.contains("called b.jsonl") && warned.contains("the same problems"), "{warned}");
    assert_eq!(json(folder.path("named/results.json"))["sets"][0]["name"], "numbers");
    // A name is of one set.
    let done = evaluate("a.jsonl,b.jsonl", "two", &["--name", "numbers"]);
    assert!(
        stderr_of(&done).contains("--name numbers is the name of one set"),
        "{}",
        stderr_of(&done)
    );
}
