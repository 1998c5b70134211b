//! The binary as a user runs it: what it prints and writes, and how it stops and continues.

#[path = "support/binary.rs"]
mod binary;

use std::path::Path;
use std::process::Output;

use binary::{Folder, refusal, root, tealight};
use serde_json::Value;

fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).expect("readable")).expect("JSON")
}

const SMALL: [&str; 10] = [
    "--max-completion-length",
    "20",
    "--prompts-per-step",
    "4",
    "--num-generations",
    "8",
    "--learning-rate",
    "3e-4",
    "--device",
    "cpu",
];

fn train(output: &str, more: &[&str]) -> Output {
    tealight(&[&["train", "--output", output], &SMALL[..], more].concat())
}

#[test]
fn a_study_compares_objectives_and_writes_everything() {
    let folder = Folder::new();
    let output = folder.path("study");
    let arguments = [
        &["study", "--output", &output, "--objectives", "none,js:0.4", "--max-samples", "8"][..],
        &["--max-steps", "6", "--num-presamples", "8", "-n", "8", "-k", "1,8"],
        &SMALL,
    ];
    let done = tealight(&arguments.concat());
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    let table = String::from_utf8_lossy(&done.stdout);
    for word in ["base", "none", "js:0.4", "pass@8", "distinct", "keep", "countdown/test"] {
        assert!(table.contains(word), "{table}");
    }
    let results = json(folder.0.path().join("study/results.json"));
    let runs = results["training"].as_array().expect("runs");
    // Four steps of 32 completions and 64 of the base are as many as six steps.
    assert_eq!(runs[0]["completions"], 192);
    assert_eq!(runs[1]["completions"], 192);
    for file in [
        "report.html",
        "config.toml",
        "base/samples-train.jsonl",
        "base/samples-test.jsonl",
        "none-seed0/metrics.jsonl",
        "presamples-seed0/presamples.jsonl",
        "js-0.4-seed0/samples-test.jsonl",
        "js-0.4-seed0/final/model.safetensors",
        "js-0.4-seed0/final/tokenizer.json",
    ] {
        assert!(folder.0.path().join("study").join(file).exists(), "{file}");
    }
    let page = std::fs::read_to_string(folder.0.path().join("study/report.html")).expect("page");
    assert!(page.contains("<svg"));
    for fetched in ["src=", "href=", "url("] {
        assert!(!page.contains(fetched), "the page must open without a network: {fetched}");
    }
    let samples = std::fs::read_to_string(folder.0.path().join("study/base/samples-test.jsonl"));
    assert_eq!(samples.expect("samples").lines().count(), 64);
    let again = refusal(&arguments.concat());
    assert!(again.contains("holds a run already"), "{again}");
}

#[test]
fn an_evaluation_can_be_read_by_machines() {
    let folder = Folder::new();
    let output = folder.path("eval");
    let done = tealight(&[
        "eval",
        "--max-samples",
        "4",
        "-n",
        "8",
        "-k",
        "1,8",
        "--max_completion_length=20",
        "--device",
        "cpu",
        "--json",
        "--quiet",
        "--output",
        &output,
    ]);
    assert!(done.stderr.is_empty(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed: Value = serde_json::from_slice(&done.stdout).expect("JSON on stdout");
    let saved = json(folder.0.path().join("eval/results.json"));
    assert_eq!(printed["summary"], saved["summary"]);
    assert_eq!(saved["problems"].as_array().expect("tallies").len(), 4);
    let pass = &saved["summary"]["pass@k"]["8"];
    assert!(pass["low"].as_f64() <= pass["value"].as_f64());
}

#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let folder = Folder::new();
    let (whole, parts) = (folder.path("whole"), folder.path("parts"));
    for objective in
        ["none", "js", "dapo", "entropy-target:1", "alpha-dpg:0.5:partition=cumulative"]
    {
        let (whole, parts) = (format!("{whole}-{objective}"), format!("{parts}-{objective}"));
        let settings = ["--objective", objective, "--max-samples", "8", "--num-presamples", "8"];
        let run = |output: &str, more: &[&str]| {
            let done = train(output, &[&settings[..], more].concat());
            assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        };
        run(&whole, &["--max-steps", "4"]);
        run(&parts, &["--max-steps", "4", "--save-steps", "2"]);
        // As if it had been killed after the checkpoint of step 2.
        std::fs::remove_dir_all(Path::new(&parts).join("final")).expect("removed");
        run(&parts, &["--max-steps", "4", "--resume"]);
        let weights = |output: &str| {
            std::fs::read(Path::new(output).join("final/model.safetensors")).expect("weights")
        };
        assert_eq!(weights(&whole), weights(&parts), "{objective}");
        let rows = std::fs::read_to_string(Path::new(&parts).join("metrics.jsonl")).expect("rows");
        assert_eq!(rows.lines().count(), 4);
        let changed = [&["train", "--output", &parts, "--resume"], &SMALL[..], &settings].concat();
        let said = refusal(&[&changed[..], &["--seed", "9", "--max-steps", "6"]].concat());
        assert!(said.contains("seed was 0, is 9"), "{said}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_after_the_step_saves_and_exits_130() {
    let folder = Folder::new();
    let output = folder.path("run");
    let binary = assert_cmd::cargo::cargo_bin("tealight");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let output = format!("{output}-{signal}");
        let mut child = std::process::Command::new(&binary)
            .args(["train", "--output", &output, "--max-steps", "100000"])
            .args(SMALL)
            .stderr(std::process::Stdio::null())
            .spawn()
            .expect("starts");
        let metrics = Path::new(&output).join("metrics.jsonl");
        let has_stepped = || std::fs::metadata(&metrics).is_ok_and(|file| file.len() > 0);
        for _ in 0..600 {
            if has_stepped() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        assert!(has_stepped(), "it never made a step");
        let id = child.id().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args(["-s", signal, &id]).status().expect("kill runs").success());
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(code));
        let rows = std::fs::read_to_string(&metrics).expect("rows").lines().count();
        let checkpoint = Path::new(&output).join(format!("checkpoint-{rows}"));
        assert!(checkpoint.join("trainer_state.json").exists(), "{}", checkpoint.display());
        assert!(checkpoint.join("config.json").exists());
        let done = tealight(
            &[
                &["train", "--output", &output, "--resume", "--max-steps"][..],
                &[&(rows + 1).to_string()],
                &SMALL,
            ]
            .concat(),
        );
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
}

#[test]
fn supervised_training_imitates_and_saves_a_model_that_loads() {
    let folder = Folder::new();
    let (sft, eval) = (folder.path("sft"), folder.path("eval"));
    let scratch = root().join("models/countdown").display().to_string();
    let config = folder.write(
        "arch.json",
        std::fs::read_to_string(root().join("models/countdown/config.json"))
            .expect("config")
            .replace("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 1"),
    );
    let done = tealight(&[
        "sft",
        "--from-scratch",
        &config,
        "--tokenizer",
        &scratch,
        "--dataset",
        "countdown/sft",
        "--max-steps",
        "12",
        "--learning-rate",
        "3e-3",
        "--output",
        &sft,
        "--device",
        "cpu",
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let rows = std::fs::read_to_string(Path::new(&sft).join("metrics.jsonl")).expect("metrics");
    let losses: Vec<f64> = rows
        .lines()
        .map(|row| {
            serde_json::from_str::<Value>(row).expect("JSON")["loss"].as_f64().expect("loss")
        })
        .collect();
    assert!(losses[11] < losses[0] - 0.3, "{losses:?}");
    let model = format!("{sft}/final");
    let done = tealight(&[
        "eval",
        "--model",
        &model,
        "--max-samples",
        "2",
        "-n",
        "2",
        "-k",
        "1",
        "--output",
        &eval,
        "--max-completion-length",
        "20",
    ]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
}

#[test]
fn gsm8k_with_the_real_tokenizer_goes_end_to_end() {
    let shared = root().join("../shared/data");
    if !shared.is_dir() {
        eprintln!("skipped: {} is not there", shared.display());
        return;
    }
    let folder = Folder::new();
    let tokenizer = shared.join("qwen-tokenizer").display().to_string();
    let dataset = |split: &str| shared.join(format!("gsm8k/{split}.jsonl")).display().to_string();
    let config = folder.write(
        "arch.json",
        serde_json::json!({
            "model_type": "qwen2", "vocab_size": 151_936, "hidden_size": 16,
            "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2,
            "num_key_value_heads": 1, "max_position_embeddings": 1024, "tie_word_embeddings": true,
        })
        .to_string(),
    );
    let (sft, eval, rl) = (folder.path("sft"), folder.path("eval"), folder.path("rl"));
    let run = |arguments: &[&str]| {
        let done = tealight(arguments);
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        said
    };
    let said = run(&[
        "sft",
        "--from-scratch",
        &config,
        "--tokenizer",
        &tokenizer,
        "--dataset",
        &dataset("train"),
        "--max-samples",
        "8",
        "--max-steps",
        "1",
        "--batch-size",
        "4",
        "--output",
        &sft,
    ]);
    assert!(said.contains("prompt = `question`, answer = `answer`"), "{said}");
    let model = format!("{sft}/final");
    run(&[
        "eval",
        "--model",
        &model,
        "--dataset",
        &dataset("test"),
        "--max-samples",
        "2",
        "-n",
        "2",
        "-k",
        "1,2",
        "--max-completion-length",
        "8",
        "--output",
        &eval,
    ]);
    let results = json(format!("{eval}/results.json"));
    assert_eq!(results["summary"]["problems"], 2);
    run(&[
        "train",
        "--model",
        &model,
        "--dataset",
        &dataset("train"),
        "--max-samples",
        "2",
        "--max-steps",
        "1",
        "--num-generations",
        "2",
        "--prompts-per-step",
        "2",
        "--max-completion-length",
        "8",
        "--output",
        &rl,
    ]);
    assert!(Path::new(&rl).join("final/tokenizer.json").exists());
}

#[test]
fn the_lab_prints_an_object_for_scripts_and_writes_a_page() {
    let folder = Folder::new();
    let done = tealight(&["lab", "ends", "--class", "bigram", "--beta", "0.1", "--json"]);
    assert!(done.status.success());
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
    let output = folder.path("lab");
    let some = ["--iterations", "50", "--beta", "1,0.1", "--alpha", "0.5", "--divergence", "js"];
    let done = tealight(&[&["lab", "ends", "--output", &output], &some[..6]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let page = std::fs::read_to_string(folder.0.path().join("lab/lab.html")).expect("a page");
    assert_eq!(page.matches("<svg").count(), 4);
    assert_eq!(json(folder.0.path().join("lab/lab.json")).as_array().expect("rows").len(), 3);
    let csv = std::fs::read_to_string(folder.0.path().join("lab/lab.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 6, "header, base, p*, three rows");
    let tilted = tealight(&[&["lab", "strategies", "--json"], &some[..]].concat());
    let lines = String::from_utf8_lossy(&tilted.stdout).into_owned();
    assert_eq!(lines.lines().count(), 3, "js to p_beta at two betas, and alpha");
    assert!(lines.lines().next().expect("a line").contains("\"divergence\":\"js\""));
}

#[test]
fn the_lab_shows_estimators_beside_their_claims() {
    let few = ["--sampled", "--groups", "300", "--objectives", "rloo,kl-full,ucpo", "--json"];
    let done = tealight(&[&["lab", "ends"], &few[..]].concat());
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    let rows: Vec<Value> =
        said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 3);
    assert!(rows[0]["bias"].as_f64().expect("claimed") < 1.0 && rows[2]["claim"].is_null());
    let done = tealight(&["lab", "ends", "--table", "kl-estimators"]);
    let said = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(said.contains("k3 in the loss") && done.status.success(), "{said}");
}

#[test]
fn beta_is_what_validity_makes_it() {
    let done = tealight(&["beta", "--validity", "0.1", "--target", "0.5,0.9,0.99", "--json"]);
    let rows: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    for (row, (beta, cost)) in rows.as_array().expect("rows").iter().zip([
        (0.4551, 0.5108),
        (0.2276, 1.7578),
        (0.1472, 2.2246),
    ]) {
        assert!((row["beta"].as_f64().expect("number") - beta).abs() < 1e-4);
        assert!((row["kl_cost"].as_f64().expect("number") - cost).abs() < 1e-4);
    }
    let said = refusal(&["beta", "--validity", "0.5", "--target", "0.4"]);
    assert!(said.contains("not above"), "{said}");
}

#[test]
fn presamples_are_drawn_once_continued_and_used() {
    let folder = Folder::new();
    let (drawn, cut) = (folder.path("drawn"), folder.path("cut"));
    let settings = ["--max-samples", "8", "-n", "8", "-k", "1,8", "--max-completion-length", "20"];
    let draw = |output: &str| {
        let done =
            tealight(&[&["presample", "--json", "--output", output], &settings[..]].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        serde_json::from_slice::<Value>(&done.stdout).expect("JSON")
    };
    let summary = draw(&drawn);
    assert_eq!(summary["prompts"], 8);
    assert_eq!(summary["validity"].as_array().expect("one a prompt").len(), 8);
    let file = |output: &str| Path::new(output).join("presamples.jsonl");
    let whole = std::fs::read_to_string(file(&drawn)).expect("samples");
    // As if it had been killed in the middle of the fourth prompt.
    std::fs::create_dir(&cut).expect("made");
    std::fs::copy(
        Path::new(&drawn).join("presamples.json"),
        Path::new(&cut).join("presamples.json"),
    )
    .expect("copied");
    let three: usize = whole.split_inclusive('\n').take(3).map(str::len).sum();
    std::fs::write(file(&cut), &whole[..three + 100]).expect("written");
    assert_eq!(draw(&cut), summary);
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&std::fs::read_to_string(file(&cut)).expect("samples")), sorted(&whole));

    let output = folder.path("run");
    let uses = ["--presamples", &drawn, "--max-samples", "8", "--max-steps", "2"];
    let done = train(&output, &[&["--objective", "alpha-dpg:0.5"], &uses[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert!(!folder.0.path().join("run/presamples").exists(), "nothing was drawn again");
    let hotter = [&["train", "--objective", "rft", "--temperature", "0.5"], &uses[..]].concat();
    let said = refusal(&[&hotter[..], &SMALL[..], &["--output", &folder.path("hot")]].concat());
    assert!(said.contains("temperature was 1.0, is 0.5"), "{said}");

    let done = tealight(&[
        "eval",
        "--reject",
        "--max-samples",
        "8",
        "-n",
        "2",
        "--max-completion-length",
        "20",
        "--presamples",
        &drawn,
        "--json",
        "--output",
        &folder.path("guard"),
    ]);
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let rate = report["acceptance_rate"].as_f64().expect("number");
    assert!(rate > 0.0 && rate < 1.0);
    // The model is the base: what is left of KL(p* || g') is the noise of two estimates.
    assert!(report["kl_pstar_guard"].as_f64().expect("number").abs() < 1.0, "{report}");
}
