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
fn bad_datasets_are_refused_by_name_line_and_mend() {
    let folder = Folder::new();
    let output = folder.path("out");
    let eval = |dataset: &str, more: &[&str]| {
        refusal(&[&["eval", "--output", &output, "--dataset", dataset], more].concat())
    };
    let good = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n";
    let said = eval(&folder.write("bad.jsonl", format!("{good}{{oops\n")), &[]);
    assert!(said.contains("bad.jsonl:2"), "{said}");
    let said = eval(&folder.write("empty.jsonl", ""), &[]);
    assert!(said.contains("empty"), "{said}");
    let said = eval(&folder.write("a.jsonl", good), &["--answer-column", "gold"]);
    assert!(said.contains("`gold`") && said.contains("question, answer"), "{said}");
    let twice = "{\"id\":\"a\",\"question\":\"q\",\"answer\":\"1\"}\n".repeat(2);
    let said = eval(&folder.write("twice.jsonl", twice), &[]);
    assert!(said.contains("the id `a` stands there twice"), "{said}");
    let said =
        eval(&folder.write("gold.jsonl", "{\"question\":\"q\",\"answer\":\"3 + +\"}\n"), &[]);
    assert!(said.contains("no gold answer can be read") && said.contains("3 + +"), "{said}");
    let said = eval(&folder.write("v.jsonl", good), &["--verifier", "nonsense"]);
    assert!(said.contains("verifier `nonsense`") && said.contains("program:COMMAND"), "{said}");
    let said = eval("nothing.jsonl", &[]);
    assert!(said.contains("nothing.jsonl"), "{said}");
    let said = eval("countdown/dev", &[]);
    assert!(said.contains("train, valid, test, sft"), "{said}");
    assert!(!Path::new(&output).exists(), "nothing was written");
}

#[test]
fn impossible_settings_are_refused_before_any_work() {
    let folder = Folder::new();
    let output = folder.path("out");
    let said = refusal(&["eval", "-n", "4", "-k", "1,8", "--output", &output]);
    assert!(said.contains("pass@8") && said.contains("4 samples"), "{said}");
    let said = refusal(&["train", "--num-generations", "1", "--output", &output]);
    assert!(said.contains("num-generations"), "{said}");
    let said = refusal(&["eval", "--device", "cuda:9", "--output", &folder.path("cuda")]);
    assert!(said.contains("CUDA") || said.contains("cuda"), "{said}");
    let said = refusal(&["study", "--test-dataset", "countdown/train", "--output", &output]);
    assert!(said.contains("held out"), "{said}");
    let short = folder.write("short.toml", "match = \"completions\"\nmax_steps = 1\n");
    let study = ["study", "--config", &short, "--objectives", "grpo,dph-f", "--output", &output];
    let said = refusal(&study);
    assert!(said.contains("lower --num-presamples"), "{said}");
    assert!(!std::path::Path::new(&output).join("base").exists(), "no work before the refusal");
    let config = folder.write("c.toml", "learning_rte = 1e-4\n");
    let said = refusal(&["train", "--config", &config, "--output", &output]);
    assert!(said.contains("c.toml") && said.contains("learning_rate"), "{said}");
    for (objective, reason) in [
        ("alpha-dpg:1", "infinite"),
        ("match:p-beta:js:filtered:beta=0.1", "lack"),
        ("grpo:tau=1", "no effect"),
    ] {
        let usage = tealight(&["train", "--objective", objective, "--output", &output]);
        let said = String::from_utf8_lossy(&usage.stderr).into_owned();
        assert!(usage.status.code() == Some(2) && said.contains(reason), "{said}");
    }
    let said = refusal(&["train", "--objective", "rloo", "--epsilon", "0.1", "--output", &output]);
    assert!(said.contains("`epsilon` has no effect"), "{said}");
    let said = refusal(&["train", "--explore", "all", "--output", &output]);
    assert!(said.contains("rehearses nothing"), "{said}");
    let twice = ["train", "--objective", "dph-f:pef-threshold=1", "--pef-threshold", "0.5"];
    let said = refusal(&[&twice[..], &["--output", &output]].concat());
    assert!(said.contains("leave one of them out"), "{said}");
    let said = refusal(&["study", "--objectives", "js:2.4,js", "--output", &output]);
    assert!(said.contains("train the same"), "{said}");
    let said = refusal(&["study", "--variants", "best", "--eval-steps", "0", "--output", &output]);
    assert!(said.contains("--eval-steps"), "{said}");
    let study = ["study", "--task", "countdown", "--eval-steps", "0", "--output", &output];
    let said = refusal(&[&study[..], &["--temperatures", "0.8"]].concat());
    assert!(said.contains("--temperatures needs --eval-steps"), "{said}");
    let said = refusal(&[&study[..], &["--test-measure", "distinct"]].concat());
    assert!(said.contains("--test-measure needs --eval-steps"), "{said}");
    let said = refusal(&["train", "--steps-per-generation", "9", "--output", &output]);
    assert!(said.contains("--prompts-per-step"), "{said}");
    let said = refusal(&["train", "--eval-steps", "5", "--output", &output]);
    assert!(said.contains("--eval-dataset"), "{said}");
    let said = refusal(&["train", "--objective", "pkpo:8", "--output", &output]);
    assert!(said.contains("at least 9 --num-generations"), "{said}");
    let said = refusal(&["beta", "--validity", "0.2", "--target", "0.9", "--dataset", "x"]);
    assert!(said.contains("--dataset has no effect without --measure"), "{said}");
    let schedule = "kl-full:0.1:beta-end=0.01";
    let said = refusal(&["lab", "ends", "--sampled", "--objectives", schedule]);
    assert!(said.contains("schedule"), "{said}");
    let said = refusal(&["lab", &folder.write("world.toml", "length = 2\n")]);
    assert!(said.contains("world.toml:1: missing field `symbols`"), "{said}");
    let said = refusal(&["lab", "ends", "--divergence", "reverse-kl"]);
    assert!(said.contains("p-beta"), "{said}");
    let usage = tealight(&["train", "--objective", "kl"]);
    assert_eq!(usage.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&usage.stderr).contains("reverse-kl"));
    let said =
        refusal(&["eval", "--max-completion-length", "600", "--output", &folder.path("long")]);
    assert!(said.contains("context of 64") && said.contains("--max-completion-length"), "{said}");
}

#[test]
fn an_output_that_cannot_be_written_is_refused() {
    let folder = Folder::new();
    let file = folder.write("file", "");
    let output = format!("{file}/run");
    let said = refusal(&["train", "--output", &output]);
    assert!(said.contains("cannot be written") && said.contains(&output), "{said}");
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
    let said = eval();
    assert!(said.contains("truncated") && said.contains("tensor `"), "{said}");
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
    let said = eval();
    assert!(said.contains("[128, 384]") && said.contains("[128, 400]"), "{said}");
    write(
        "config.json",
        text.replace("\"num_hidden_layers\": 4", "\"num_hidden_layers\": 5").as_bytes(),
    );
    let said = eval();
    assert!(said.contains("model.layers.4.") && said.contains("missing"), "{said}");
    write("config.json", text.replace("qwen2", "mamba").as_bytes());
    let said = eval();
    assert!(said.contains("mamba") && said.contains("supported"), "{said}");
    std::fs::remove_file(model.join("config.json")).expect("removed");
    assert!(eval().contains("config.json"));
    write("config.json", &config);

    for file in ["generation_config.json", "config.json", "tokenizer_config.json"] {
        let text = String::from_utf8(read(file)).expect("text");
        write(file, text.replace("eos_token", "no_token").as_bytes());
    }
    let said = eval();
    assert!(said.contains("end-of-sequence"), "{said}");
}

#[test]
fn another_tools_options_get_a_hint_that_helps() {
    let usage = tealight(&["train", "--reward_funcs", "accuracy"]);
    let said = String::from_utf8_lossy(&usage.stderr).into_owned();
    assert!(usage.status.code() == Some(2) && said.contains("--verifier"), "{said}");
}
