//! Errors in datasets, models and settings: one line that names the file and the fix, and no file is written.

use std::path::{Path, PathBuf};

use crate::support::binary::{Folder, refusal, tealight};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A copy of the embedded model's directory.
fn model(folder: &Folder) -> PathBuf {
    let target = folder.0.path().join("model");
    std::fs::create_dir_all(&target).expect("made");
    for entry in std::fs::read_dir(root().join("models/countdown")).expect("models/countdown") {
        let path = entry.expect("entry").path();
        std::fs::copy(&path, target.join(path.file_name().expect("a name"))).expect("copied");
    }
    target
}

#[test]
fn dataset_errors_name_file_line_and_fix() {
    let folder = Folder::new();
    let output = folder.path("out");
    let eval = |dataset: &str, more: &[&str]| {
        refusal(&[&["eval", "--output", &output, "--dataset", dataset], more].concat())
    };
    let good = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n";
    let error = eval(&folder.write("bad.jsonl", format!("{good}{{oops\n")), &[]);
    assert!(error.contains("bad.jsonl:2"), "{error}");
    let error = eval(&folder.write("empty.jsonl", ""), &[]);
    assert!(error.contains("empty"), "{error}");
    let error = eval(&folder.write("a.jsonl", good), &["--answer-column", "gold"]);
    assert!(error.contains("`gold`") && error.contains("question, answer"), "{error}");
    let twice = "{\"id\":\"a\",\"question\":\"q\",\"answer\":\"1\"}\n".repeat(2);
    let error = eval(&folder.write("twice.jsonl", twice), &[]);
    assert!(error.contains("the id `a` stands there twice"), "{error}");
    let error =
        eval(&folder.write("gold.jsonl", "{\"question\":\"q\",\"answer\":\"3 + +\"}\n"), &[]);
    assert!(error.contains("no gold answer can be read") && error.contains("3 + +"), "{error}");
    let error = eval(&folder.write("v.jsonl", good), &["--verifier", "nonsense"]);
    assert!(error.contains("verifier `nonsense`") && error.contains("program:COMMAND"), "{error}");
    let error = eval("nothing.jsonl", &[]);
    assert!(error.contains("nothing.jsonl"), "{error}");
    let error = eval("countdown/dev", &[]);
    assert!(error.contains("train, valid, test, sft"), "{error}");
    assert!(!Path::new(&output).exists(), "nothing was written");
}

#[test]
fn impossible_settings_are_refused_before_any_work() {
    let folder = Folder::new();
    let output = folder.path("out");
    let error = refusal(&["eval", "-n", "4", "-k", "1,8", "--output", &output]);
    assert!(error.contains("pass@8") && error.contains("4 samples"), "{error}");
    let error = refusal(&["train", "--num-generations", "1", "--output", &output]);
    assert!(error.contains("num-generations"), "{error}");
    let error = refusal(&["eval", "--device", "cuda:9", "--output", &folder.path("cuda")]);
    assert!(error.contains("CUDA") || error.contains("cuda"), "{error}");
    let error = refusal(&["study", "--test-dataset", "countdown/train", "--output", &output]);
    assert!(error.contains("held out"), "{error}");
    let short = folder.write("short.toml", "match = \"completions\"\nmax_steps = 1\n");
    let study = ["study", "--config", &short, "--objectives", "grpo,dph-f", "--output", &output];
    let error = refusal(&study);
    assert!(error.contains("lower --num-presamples"), "{error}");
    assert!(!std::path::Path::new(&output).join("base").exists(), "no work before the refusal");
    let config = folder.write("c.toml", "learning_rte = 1e-4\n");
    let error = refusal(&["train", "--config", &config, "--output", &output]);
    assert!(error.contains("c.toml") && error.contains("learning_rate"), "{error}");
    for (objective, reason) in [
        ("alpha-dpg:1", "infinite"),
        ("match:p-beta:js:filtered:beta=0.1", "lack"),
        ("grpo:tau=1", "no effect"),
    ] {
        let usage = tealight(&["train", "--objective", objective, "--output", &output]);
        let stderr = String::from_utf8_lossy(&usage.stderr).into_owned();
        assert!(usage.status.code() == Some(2) && stderr.contains(reason), "{stderr}");
    }
    let error = refusal(&["train", "--objective", "rloo", "--epsilon", "0.1", "--output", &output]);
    assert!(error.contains("`epsilon` has no effect"), "{error}");
    let twice = ["train", "--objective", "grpo:epsilon=0.1", "--epsilon", "0.2"];
    let error = refusal(&[&twice[..], &["--output", &output]].concat());
    assert!(error.contains("leave one of them out"), "{error}");
    let error = refusal(&["study", "--objectives", "js:2.4,js", "--output", &output]);
    assert!(error.contains("train the same"), "{error}");
    let error = refusal(&["study", "--variants", "best", "--eval-steps", "0", "--output", &output]);
    assert!(error.contains("--eval-steps"), "{error}");
    let study = ["study", "--task", "countdown", "--eval-steps", "0", "--output", &output];
    let error = refusal(&[&study[..], &["--temperatures", "0.8"]].concat());
    assert!(error.contains("--temperatures needs --eval-steps"), "{error}");
    let error = refusal(&[&study[..], &["--test-measure", "distinct"]].concat());
    assert!(error.contains("--test-measure needs --eval-steps"), "{error}");
    let error = refusal(&["train", "--steps-per-generation", "9", "--output", &output]);
    assert!(error.contains("--prompts-per-step"), "{error}");
    let error = refusal(&["train", "--eval-steps", "5", "--output", &output]);
    assert!(error.contains("--eval-dataset"), "{error}");
    let error = refusal(&["train", "--objective", "pkpo:8", "--output", &output]);
    assert!(error.contains("at least 9 --num-generations"), "{error}");
    let error = refusal(&["beta", "--validity", "0.2", "--target", "0.9", "--dataset", "x"]);
    assert!(error.contains("--dataset has no effect without --measure"), "{error}");
    let error = refusal(&["lab", &folder.write("world.toml", "length = 2\n")]);
    assert!(error.contains("world.toml:1: missing field `symbols`"), "{error}");
    let error = refusal(&["lab", "ends", "--divergence", "reverse-kl"]);
    assert!(error.contains("p_beta"), "{error}");
    let usage = tealight(&["train", "--objective", "kl"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("reverse-kl"));
    let error =
        refusal(&["eval", "--max-completion-length", "600", "--output", &folder.path("long")]);
    assert!(
        error.contains("context of 64") && error.contains("--max-completion-length"),
        "{error}"
    );
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    let output = format!("{file}/run");
    let error = refusal(&["train", "--output", &output]);
    assert!(error.contains("cannot be written") && error.contains(&output), "{error}");
}

#[test]
fn broken_models_are_refused_by_file_tensor_and_shape() {
    let folder = Folder::new();
    let model = model(&folder);
    let output = folder.path("out");
    let name = model.display().to_string();
    let eval = || {
        let _ = std::fs::remove_dir_all(&output);
        refusal(&["eval", "--model", &name, "--output", &output])
    };
    let read = |file: &str| std::fs::read(model.join(file)).expect("readable");
    let write =
        |file: &str, bytes: &[u8]| std::fs::write(model.join(file), bytes).expect("written");
    let (weights, config) = (read("model.safetensors"), read("config.json"));

    write("model.safetensors", &weights[..weights.len() - 1000]);
    let error = eval();
    assert!(error.contains("truncated") && error.contains("tensor `"), "{error}");
    write("model.safetensors", &weights[..100]);
    assert!(eval().contains("truncated in its header"));
    std::fs::remove_file(model.join("model.safetensors")).expect("removed");
    assert!(eval().contains("no weights to load"));
    write("model.safetensors", &weights);

    let text = String::from_utf8(config.clone()).expect("text");
    write(
        "config.json",
        text.replace("\"intermediate_size\": 384", "\"intermediate_size\": 400").as_bytes(),
    );
    let error = eval();
    assert!(error.contains("[128, 384]") && error.contains("[128, 400]"), "{error}");
    write(
        "config.json",
        text.replace("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5").as_bytes(),
    );
    let error = eval();
    assert!(error.contains("model.layers.4.") && error.contains("missing"), "{error}");
    write("config.json", text.replace("qwen2", "mamba").as_bytes());
    let error = eval();
    assert!(error.contains("mamba") && error.contains("supported"), "{error}");
    std::fs::remove_file(model.join("config.json")).expect("removed");
    assert!(eval().contains("config.json"));
    write("config.json", &config);

    for file in ["generation_config.json", "config.json", "tokenizer_config.json"] {
        let text = String::from_utf8(read(file)).expect("text");
        write(file, text.replace("eos_token", "sep_token").as_bytes());
    }
    let error = eval();
    assert!(error.contains("end-of-sequence"), "{error}");
}

#[test]
fn another_tools_options_get_a_hint_that_helps() {
    let usage = tealight(&["train", "--reward_funcs", "accuracy"]);
    let stderr = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.status.code() == Some(2) && stderr.contains("--verifier"), "{stderr}");
}
