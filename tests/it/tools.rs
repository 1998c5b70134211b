//! The binary's tools around training: lab, stored samples, verify.

use std::path::Path;

use crate::support::binary::{
    Folder, command, has, ok, printed, refusal, stderr_of, stdout_of, succeeded, tealight,
};
use crate::support::runs::{SMALL, trained};
use serde_json::Value;

#[test]
fn the_lab_prints_an_object_for_scripts() {
    let done = succeeded(&["lab", "ends", "--class", "bigram", "--beta", "0.1", "--json"]);
    let row: Value = serde_json::from_slice(&done.stdout).expect("one JSON object");
    for key in [
        "world",
        "class",
        "beta",
        "validity",
        "effective_valid",
        "max_mass",
        "unique_valid_256",
        "objective",
        "objective_closed_form",
        "kl_pstar_q",
        "pass_at_k",
    ] {
        assert!(!row[key].is_null(), "{key}");
    }
    assert!((row["validity"].as_f64().expect("number") - 0.9467).abs() < 1e-3);
    assert!((row["pass_at_k"]["1"].as_f64().expect("number") - 0.9467).abs() < 1e-3);
    let lines = printed(command!("lab strategies --json --beta 1,0.1 --alpha 0.5 --divergence js"));
    assert_eq!(lines.lines().count(), 3, "js to p_beta at two betas, and alpha");
    assert!(lines.lines().next().expect("a line").contains("\"divergence\":\"js\""));
}

#[test]
fn presamples_are_drawn_once_continued_and_used() {
    let folder = Folder::new();
    let (sampled, cut) = (folder.path("drawn"), folder.path("cut"));
    let run = |name: &str, presamples: &str, more: &[&str]| {
        let uses = ["--presamples", presamples, "--max-samples", "8", "--max-steps", "2"];
        let sampled = ["--objective", "alpha-dpg:0.5", "--quiet"];
        trained(&folder.path(name), &[&sampled[..], &uses, more].concat());
        std::fs::read(folder.path(&format!("{name}/final/model.safetensors"))).expect("weights")
    };
    let weights = run("first", &sampled, &["--num-presamples", "8"]);
    let file = |output: &str| Path::new(output).join("presamples.jsonl");
    let whole = std::fs::read_to_string(file(&sampled)).expect("samples");
    assert_eq!(whole.lines().count(), 8);
    // As if it had been killed in the middle of the fourth prompt; the number and the seed are those it began with.
    std::fs::create_dir(&cut).expect("made");
    let header = |output: &str| Path::new(output).join("presamples.json");
    std::fs::copy(header(&sampled), header(&cut)).expect("copied");
    let three: usize = whole.split_inclusive('\n').take(3).map(str::len).sum();
    std::fs::write(file(&cut), &whole[..three + 100]).expect("written");
    assert!(run("second", &cut, &["--num-presamples", "4"]) == weights);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&std::fs::read_to_string(file(&cut)).expect("samples")), sorted(&whole));
    assert!(run("third", &sampled, &[]) == weights);
    assert_eq!(std::fs::read_to_string(file(&sampled)).expect("samples"), whole);
    assert!(!folder.0.path().join("third/presamples").exists(), "nothing was drawn again");

    let uses = ["--presamples", &sampled, "--max-samples", "8", "--max-steps", "2"];
    let hotter = [&["train", "--objective", "rft", "--temperature", "0.5"], &uses[..]].concat();
    let error = refusal(&[&hotter[..], &SMALL[..], &["--output", &folder.path("hot")]].concat());
    assert!(error.contains("temperature was 1.0, is 0.5"), "{error}");

    let unused = [&["train", "--objective", "grpo"], &uses[..], &SMALL[..]].concat();
    let error = refusal(&[&unused[..], &["--output", &folder.path("unused")]].concat());
    assert!(error.contains("leave --presamples out"), "{error}");
}

#[test]
fn weights_are_averaged() {
    let folder = Folder::new();
    let (plain, mean, other) = (folder.path("plain"), folder.path("mean"), folder.path("other"));
    let export = |more: &[&str]| {
        ok(&[&["export", "--quiet", "--output"], more].concat());
    };
    export(&[&plain]);
    export(&[&mean, "--average", "countdown"]);
    let file = |place: &str| std::fs::read(format!("{place}/model.safetensors")).expect("weights");
    assert_eq!(file(&plain), file(&mean));
    let scratch = ["sft", "--dataset", "countdown/sft", "--max-steps", "1", "--learning-rate", "1"];
    ok(&[&scratch[..], &["--quiet", "--output", &other]].concat());
    export(&[&mean, "--overwrite", "--average", &format!("{other}/final")]);
    assert_ne!(file(&plain), file(&mean));
}

#[test]
fn answers_are_verified_one_by_one_and_by_the_file() {
    let done = tealight(&["verify", "--gold", "\\frac{1}{2}", "--answer", "so \\boxed{0.5}"]);
    let row: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(
        (&row["verdict"], &row["extracted"], &row["rule"]),
        (&"correct".into(), &"0.5".into(), &"box".into())
    );
    let folder = Folder::new();
    let lines: String = (0..20_000)
        .map(|i| {
            format!("{{\"gold\": \"{}\", \"answer\": {}}}\n", i, if i % 3 == 0 { i } else { i + 1 })
        })
        .collect();
    let verdicts = printed(&["verify", "--jsonl", &folder.write("pairs.jsonl", lines)]);
    assert_eq!(verdicts.lines().count(), 20_000);
    for (index, line) in verdicts.lines().enumerate() {
        let expected = if index % 3 == 0 { "\"correct\"" } else { "\"wrong\"" };
        assert!(line.contains(expected), "{index}: {line}");
    }
    let bad = folder.write("bad.jsonl", "{\"gold\": \"1\", \"answer\": \"1\"}\n{\"gold\": 1}\n");
    let failed = tealight(&["verify", "--jsonl", &bad]);
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr_of(&failed).contains("bad.jsonl:2"));
    assert_eq!(stdout_of(&failed).lines().count(), 1, "the first was judged");
}

#[test]
fn a_benchmark_measures_every_part_and_a_dry_run_plans_without_writing() {
    let folder = Folder::new();
    let config = folder.write(
        "config.json",
        r#"{"model_type": "qwen2", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "tie_word_embeddings": true}"#,
    );
    let sizes = ["--prompts", "2", "--group", "3", "--prompt-len", "4", "--new-tokens", "5"];
    let more = ["--reps", "1", "--device", "cpu", "--json"];
    let done = succeeded(&[&["bench", "--model", &config], &sizes[..], &more].concat());
    let found: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let positive = |value: &serde_json::Value| value.as_f64().is_some_and(|x| x > 0.0);
    for key in ["rollout_s", "rollout_new_tokens_per_s", "step_s", "step_tokens_per_s"] {
        assert!(positive(&found[key]), "{key}: {found}");
    }
    for part in ["reference", "forward", "backward", "optimizer"] {
        assert!(positive(&found["step_parts"][part]), "{part}: {found}");
    }
    let half = ["--dtype", "bfloat16"];
    let done = succeeded(&[&["bench", "--model", &config], &sizes[..], &more, &half].concat());
    let half: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert!(positive(&half["step_s"]) && half["dtype"] == "bfloat16", "{half}");
    let base = |found: &serde_json::Value| found["memory_plan"]["base"].as_f64().expect("bytes");
    assert_eq!(base(&half), base(&found) / 2.0);

    let output = folder.path("run");
    let stdout =
        printed(&["train", "--dry-run", "--output", &output, "--max-completion-length", "20"]);
    has(
        &stdout,
        &["objective = \"grpo\"", "prompt (", "weights of the policy", "at most, at one time"],
    );
    assert!(!std::path::Path::new(&output).exists(), "nothing was written");
}
