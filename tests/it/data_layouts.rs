//! Datasets as commands use them: what is printed before anything runs, test sets that are held out, sets by name.

use std::path::Path;

use crate::support::binary::{
    Folder, command, has, ok, refused, stderr_of, stdout_of, succeeded, tealight_in,
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
    let run = |more: &str| ok(command!("train --model {model} --dataset {data} --dry-run {more}"));
    has(
        &run("--instruction="),
        &[
            "columns: prompt = `problem`, answer = `answer`",
            "1 of 3 problems left out: a proof is asked for",
            "1 of 3 problems left out: there is no answer",
            "first problem: `5+9?`, gold answer `14`",
        ],
    );
    assert!(run("").contains("first problem: `5+9? Please reason step by step"));
    let countdown = folder.write("c.jsonl", "{\"target\": 24, \"nums\": [3, 8, 1]}\n");
    let done = succeeded(command!("train --model {model} --dataset {countdown} --dry-run"));
    let text = stderr_of(&done);
    assert!(text.contains("checked by `countdown`") && text.contains("numbers = `nums`"), "{text}");
    assert!(stdout_of(&done).contains("answer `3,8,1=24`"));
}

#[test]
fn a_language_model_needs_a_named_dataset() {
    let folder = Folder::new();
    let model = model_with_words(&folder);
    let output = folder.path("out");
    let eval = format!("eval --model {model} -n 1 -k 1 --max-samples 1 --max-completion-length 2");
    refused!("{eval} --output {output}" => "--dataset", "--suite");
    refused!("study --model {model} --output {output}" => "--dataset", "--task");
    assert!(!Path::new(&output).exists(), "nothing was written");
    // Named, it is what was asked for.
    let text = ok(command!("{eval} --dataset countdown/test --no-greedy"));
    assert!(text.contains("dataset countdown/test: 1 problem,"), "{text}");
}

#[test]
fn a_study_holds_problems_out_where_no_test_set_is_named() {
    let folder = Folder::new();
    let data = folder.write("q.jsonl", numbers(10));
    let output = folder.path("study");
    let small = "--objectives grpo --seeds 0 --max-steps 1 --prompts-per-step 2 --num-generations 2 -n 2 -k 1 \
                 --max-completion-length 3 --no-greedy --no-baselines --instruction = --device cpu \
                 --eval-steps 0";
    let text = ok(command!("study --dataset {data} --output {output} {small}"));
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
    let evaluate = |dataset: &str, output: &str, more: &str| {
        let how = "-n 2 -k 1 --max-completion-length 3 --no-greedy --instruction =";
        let line = format!("eval --dataset {dataset} --output {output} {how} {more}");
        tealight_in(folder.0.path(), &[], &line)
    };
    for (dataset, output, more) in [
        (&*data, "whole", ""),
        ("./a.jsonl", "dotted", ""),
        ("b.jsonl", "other", ""),
        (&*other, "named", "--name numbers"),
        ("a.jsonl", "named-too", "--name numbers"),
    ] {
        let done = evaluate(dataset, output, more);
        assert!(done.status.success(), "{output}: {}", stderr_of(&done));
    }
    let compare = |a: &str, b: &str, more: &str| {
        ok(command!("compare {} {} {more}", folder.path(a), folder.path(b)))
    };
    compare("whole", "dotted", &format!("--output {}", folder.path("page")));
    compare("named", "named-too", "");
    let warned = compare("whole", "other", "");
    assert!(warned.contains("called b.jsonl") && warned.contains("the same problems"), "{warned}");
    assert_eq!(json(folder.path("named/results.json"))["sets"][0]["name"], "numbers");
    // A name is of one set.
    let stderr = stderr_of(&evaluate("a.jsonl,b.jsonl", "two", "--name numbers"));
    assert!(stderr.contains("--name numbers is the name of one set"), "{stderr}");
}
