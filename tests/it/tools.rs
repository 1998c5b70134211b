//! The binary's tools around training: lab, stored samples, verify.

use std::path::Path;

use crate::support::binary::{
    Folder, command, ok, printed, refused, stderr_of, stdout_of, tealight, words,
};
use crate::support::processes::weights;
use crate::support::runs::{SMALL, trained};
use serde_json::Value;

#[test]
fn the_lab_prints_an_object_for_scripts() {
    let row: Value =
        printed("lab ends --class bigram --beta 0.1 --json").parse().expect("one JSON object");
    for key in words(
        "world class beta validity effective_valid max_mass unique_valid_256 objective objective_closed_form kl_pstar_q \
         pass_at_k",
    ) {
        assert!(!row[key].is_null(), "{key}");
    }
    assert!((row["validity"].as_f64().expect("number") - 0.9467).abs() < 1e-3);
    assert!((row["pass_at_k"]["1"].as_f64().expect("number") - 0.9467).abs() < 1e-3);
    let lines = printed("lab strategies --json --beta 1,0.1 --alpha 0.5 --divergence js");
    assert_eq!(lines.lines().count(), 3, "js to p_beta at two betas, and alpha");
    assert!(lines.lines().next().expect("a line").contains("\"divergence\":\"js\""));
}

#[test]
fn presamples_are_drawn_once_continued_and_used() {
    let folder = Folder::new();
    let (sampled, cut) = (folder.path("drawn"), folder.path("cut"));
    let uses =
        |presamples: &str| format!("--presamples {presamples} --max-samples 8 --max-steps 2");
    let run = |name: &str, presamples: &str, more: &str| {
        let (output, uses) = (folder.path(name), uses(presamples));
        trained(&output, &format!("--objective alpha-dpg:0.5 --quiet {uses} {more}"));
        weights(&output)
    };
    let first = run("first", &sampled, "--num-presamples 8");
    let file = |output: &str| Path::new(output).join("presamples.jsonl");
    let whole = std::fs::read_to_string(file(&sampled)).expect("samples");
    assert_eq!(whole.lines().count(), 8);
    // As if it had been killed in the middle of the fourth prompt; the number and the seed are those it began with.
    std::fs::create_dir(&cut).expect("made");
    let header = |output: &str| Path::new(output).join("presamples.json");
    std::fs::copy(header(&sampled), header(&cut)).expect("copied");
    let three: usize = whole.split_inclusive('\n').take(3).map(str::len).sum();
    std::fs::write(file(&cut), &whole[..three + 100]).expect("written");
    assert!(run("second", &cut, "--num-presamples 4") == first);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&std::fs::read_to_string(file(&cut)).expect("samples")), sorted(&whole));
    assert!(run("third", &sampled, "") == first);
    assert_eq!(std::fs::read_to_string(file(&sampled)).expect("samples"), whole);
    assert!(!folder.0.path().join("third/presamples").exists(), "nothing was drawn again");

    let uses = uses(&sampled);
    for (more, message) in [
        ("--objective rft --temperature 0.5", "temperature was 1.0, is 0.5"),
        ("--objective grpo", "leave --presamples out"),
    ] {
        refused!("train {more} {uses} {SMALL} --output {}", folder.path("refused") => message);
    }
}

#[test]
fn weights_are_averaged() {
    let folder = Folder::new();
    let (plain, mean, other) = (folder.path("plain"), folder.path("mean"), folder.path("other"));
    ok(command!("export --output {plain}"));
    ok(command!("export --output {mean} --average countdown"));
    let file = |place: &str| std::fs::read(format!("{place}/model.safetensors")).expect("weights");
    assert_eq!(file(&plain), file(&mean));
    ok(command!(
        "sft --dataset countdown/sft --max-steps 1 --learning-rate 1 --quiet --output {other}"
    ));
    ok(command!("export --output {mean} --overwrite --average {other}/final"));
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
            let answer = if i % 3 == 0 { i } else { i + 1 };
            format!("{{\"gold\": \"{i}\", \"answer\": {answer}}}\n")
        })
        .collect();
    let verdicts = printed(command!("verify --jsonl {}", folder.write("pairs.jsonl", lines)));
    assert_eq!(verdicts.lines().count(), 20_000);
    for (index, line) in verdicts.lines().enumerate() {
        let expected = if index % 3 == 0 { "\"correct\"" } else { "\"wrong\"" };
        assert!(line.contains(expected), "{index}: {line}");
    }
    let bad = folder.write("bad.jsonl", "{\"gold\": \"1\", \"answer\": \"1\"}\n{\"gold\": 1}\n");
    let failed = tealight(command!("verify --jsonl {bad}"));
    assert_eq!(failed.status.code(), Some(1));
    assert!(stderr_of(&failed).contains("bad.jsonl:2"));
    assert_eq!(stdout_of(&failed).lines().count(), 1, "the first was judged");
}

#[test]
fn a_benchmark_measures_every_part() {
    let folder = Folder::new();
    let config = folder.write(
        "config.json",
        r#"{"model_type": "qwen2", "vocab_size": 64, "hidden_size": 32, "intermediate_size": 48,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 64, "tie_word_embeddings": true}"#,
    );
    let bench = |more: &str| -> Value {
        let sizes = "--prompts 2 --group 3 --prompt-len 4 --new-tokens 5 --reps 1 --device cpu";
        printed(command!("bench --model {config} {sizes} --json {more}")).parse().expect("JSON")
    };
    let found = bench("");
    let positive = |value: &Value| value.as_f64().is_some_and(|x| x > 0.0);
    for key in ["rollout_s", "rollout_new_tokens_per_s", "step_s", "step_tokens_per_s"] {
        assert!(positive(&found[key]), "{key}: {found}");
    }
    for part in ["reference", "forward", "backward", "optimizer"] {
        assert!(positive(&found["step_parts"][part]), "{part}: {found}");
    }
    let half = bench("--dtype bfloat16");
    assert!(positive(&half["step_s"]) && half["dtype"] == "bfloat16", "{half}");
    let base = |found: &Value| found["memory_plan"]["base"].as_f64().expect("bytes");
    assert_eq!(base(&half), base(&found) / 2.0);
}
