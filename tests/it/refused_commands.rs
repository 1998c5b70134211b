//! Commands that are refused on a folder that exists: its files are as they were, with their names, bytes and times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use crate::support::binary::{Folder, ok, refusal, stderr_of, tealight, words};

/// Path, bytes and time of change of everything in a folder; of folders and links no bytes.
fn snapshot(folder: &Path) -> BTreeMap<String, (Vec<u8>, Option<SystemTime>)> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let (path, kind) = (entry.path(), entry.file_type().expect("a kind"));
            let time = entry.metadata().expect("metadata").modified().expect("a time");
            let contents = match kind.is_file() {
                true => (std::fs::read(&path).expect("readable"), Some(time)),
                // To look whether a folder can be written changes its time.
                false => (Vec::new(), None),
            };
            found.insert(path.display().to_string(), contents);
            if kind.is_dir() {
                folders.push(path);
            }
        }
    }
    found
}

/// A run, an evaluation and other results, and a folder of somebody else's, in the places that the commands below name.
fn prepared(folder: &Folder) {
    let at = |name: &str| folder.path(name);
    let small = "--max-samples 4 --max-completion-length 16 --device cpu";
    let short = "--max-steps 2 --prompts-per-step 2 --num-generations 4 --save-steps 1";
    ok(&[words(&format!("train --output {} {short} {small}", at("run"))), words(RUN)].concat());
    ok(&words(&format!("sft --output {} --max-steps 2 --save-steps 1 --max-samples 8", at("sft"))));
    ok(&words(&format!("eval --output {} -n 2 -k 1 {small}", at("eval"))));
    ok(&words(&format!("presample --output {} -n 2 {small}", at("presamples"))));
    ok(&words(&format!("export --model countdown --output {}", at("export"))));
    ok(&words(&format!("lab --paper 2605.02375 --output {}", at("lab"))));
    let line = r#"{"id":"a","completion":"\\boxed{7}","gold":"7"}"#;
    folder.write("good.jsonl", format!("{line}\n{line}\n"));
    folder.write("bad.jsonl", format!("{line}\n{line}\nnot JSON\n{line}\n"));
    ok(&words(&format!("grade {} --output {}", at("good.jsonl"), at("grade"))));
    ok(&words(&format!("compare {0} {0} --output {1}", at("eval"), at("compare"))));
    std::fs::create_dir_all(at("mine/notes")).expect("a folder");
    folder.write("mine/.lock", "precious\n");
    folder.write("mine/thesis.tex", "x");
    std::fs::create_dir_all(at("study")).expect("a folder");
    folder.write("study/config.toml", "# tealight 0.1.0\nseed = 77\n");
    folder.write("study/metrics.jsonl", "{}\n");
}

/// The objective of the run.
const RUN: &str = "--objective divergence:none --learning-rate 7e-5 --dataset countdown/train";

/// Commands that are refused; `@` stands for the folder.
const REFUSED: &str = "
    train --resume @/run --objective grpo --seed 5 --max-steps 4
    train --resume @/run --dataset countdown/test --max-steps 4
    train --resume checkpoint-9 --output @/run
    train --resume @/run --micro-batch-tokens 0
    train --resume @/sft
    train --output @/run
    train --output @/run --overwrite --dataset @/bad.jsonl
    train --output @/run --overwrite --max-completion-length 100000
    train --output @/run --overwrite --objective reinforce --presamples @/eval
    train --output @/run --overwrite --log-divergences 1 --presamples @/eval
    train --output @/run --overwrite --model @/run/final
    train --output @/run --overwrite --eval-steps 1 --eval-dataset countdown/train
    train --output @/run --overwrite --engine http://127.0.0.1:9
    train --output @/new --initial-policy @/nowhere
    train --output @/mine
    train --output @/mine --overwrite
    train --output @/mine --resume
    sft --resume @/sft --seed 9 --max-steps 4
    sft --resume @/sft --dataset colouring --max-steps 4
    sft --resume @/run
    sft --output @/sft --overwrite --dataset @/bad.jsonl
    sft --dry-run --output @/sft
    sft --output @/mine
    eval --output @/eval -n 2 -k 1 --seed 9
    eval --output @/eval -n 2 -k 1 --overwrite --dataset @/bad.jsonl
    eval --output @/mine -n 1 -k 1 --max-samples 1
    eval --output @/mine -n 1 -k 1 --max-samples 1 --overwrite
    eval --output @/run -n 1 -k 1 --max-samples 1
    eval --output @/run -n 1 -k 1 --max-samples 1 --overwrite
    grade @/bad.jsonl --output @/grade --overwrite
    grade @/good.jsonl --output @/grade
    grade @/good.jsonl --output @/run --overwrite
    grade @/good.jsonl --output @/mine
    grade @/good.jsonl --output @/mine --overwrite
    compare @/eval @/eval --output @/eval
    compare @/eval @/eval --output @/eval --overwrite
    compare @/eval @/eval --output @/compare
    compare @/eval @/grade --output @/compare --overwrite
    compare @/eval @/eval --output @/mine
    report @/mine
    report @/mine/notes
    export --model countdown --output @/export
    export --model @/nowhere --output @/export --overwrite
    export --model countdown --merge --output @/export --overwrite
    export --model countdown --output @/mine
    presample --output @/presamples -n 2 --max-samples 4 --seed 9
    presample --output @/mine -n 2 --max-samples 4
    beta --output @/mine --measure --num-presamples 2 --max-samples 4
    beta --output @/eval --measure --num-presamples 2 --max-samples 4
    lab --paper 2605.02375 --output @/lab
    lab --paper 2605.02375 --output @/mine
    lab strategies --paper 2605.02375 --output @/lab --overwrite
    study --output @/study --resume
    study --output @/run
    study --output @/mine
    study --dry-run --output @/mine
    study --output @/new --initial-policy @/run/final
    gap @/run --beta 0.1 --output @/run
    gap @/run --beta 0.1 --output @/mine --overwrite
    study --output @/run --overwrite --dataset @/bad.jsonl --test-dataset @/bad.jsonl
    push @/run --repo a/b
    push @/run --repo nothing
    push @/mine --repo a/b
";

#[test]
fn refused_commands_change_nothing_in_a_folder() {
    let folder = Folder::new();
    prepared(&folder);
    let mut before = snapshot(folder.0.path());
    let root = folder.0.path().display().to_string();
    let mut wrong = Vec::new();
    for line in REFUSED.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let line = line.replace('@', &root);
        let output = tealight(&words(&line));
        // A mistake in this table is not a refusal.
        if output.status.code() != Some(1) {
            wrong.push(format!("not refused: {line}: {}", stderr_of(&output)));
        }
        let after = snapshot(folder.0.path());
        let changed: Vec<&String> = before
            .keys()
            .chain(after.keys())
            .filter(|name| before.get(*name) != after.get(*name))
            .collect();
        if !changed.is_empty() {
            wrong.push(format!("{line}: changed {changed:?}"));
        }
        before = after;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_run_of_a_refused_resume_goes_on_with_its_own_settings() {
    let folder = Folder::new();
    prepared(&folder);
    let run = folder.path("run");
    let error = refusal(&["train", "--resume", &run, "--max-steps", "4", "--objective", "grpo"]);
    assert!(error.contains("objective") && error.contains("continue with those"), "{error}");
    ok(&["train", "--resume", &run, "--max-steps", "4"]);
}

#[test]
fn a_root_folder_keeps_no_lock_of_a_refused_command() {
    let lock = Path::new("/.lock");
    if cfg!(unix) && !lock.exists() {
        refusal(&words("eval --output / -n 1 -k 1 --max-samples 1 --max-completion-length 16"));
        assert!(!lock.exists());
    }
}
