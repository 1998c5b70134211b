//! Datasets of the Hub by split and configuration, against a local server that speaks the Hub's API.

use std::collections::BTreeMap;
use std::process::Output;
use std::sync::{Arc, Mutex};

use assert_cmd::Command;
use serde_json::{Value, json};

use crate::support::binary::{Folder, command, said};
use crate::support::server::{ReceivedRequest, serve};

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const CONVERTED: &str = "89abcdef0123456789abcdef0123456789abcdef";
const README: &str = "---\nlicense: mit\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train-*\n\
                      \x20 - split: test\n    path: main/test-*\n- config_name: socratic\n  data_files: s/*.csv\n---\n# Data\n";

type Files = BTreeMap<&'static str, Vec<u8>>;

/// A Hub whose datasets are files by `ID@COMMIT`, and which counts what it is asked for.
struct Hub {
    endpoint: String,
    log: Arc<Mutex<Vec<String>>>,
}

impl Hub {
    fn new(datasets: &[(&'static str, &[(&'static str, &str)])]) -> Self {
        let bytes = |files: &[(&'static str, &str)]| -> Files {
            files.iter().map(|(name, text)| (*name, text.as_bytes().to_vec())).collect()
        };
        Self::of(
            datasets.iter().map(|(id, files)| (format!("{id}@{COMMIT}"), bytes(files))).collect(),
        )
    }

    fn of(datasets: Vec<(String, Files)>) -> Self {
        let log = Arc::new(Mutex::new(Vec::new()));
        let seen = log.clone();
        let endpoint = serve(move |asked: &ReceivedRequest| {
            seen.lock().expect("log").push(asked.path.clone());
            let missing = |code: &str| (404, format!("X-Error-Code: {code}\r\n"), b"{}".to_vec());
            for (name, files) in &datasets {
                let (id, commit) = name.split_once('@').expect("a commit");
                let branch = if commit == CONVERTED { "refs%2Fconvert%2Fparquet" } else { "main" };
                if asked.path == format!("/api/datasets/{id}/revision/{branch}") {
                    let siblings: Vec<Value> =
                        files.keys().map(|name| json!({"rfilename": name})).collect();
                    return (
                        200,
                        String::new(),
                        json!({"sha": commit, "siblings": siblings}).to_string().into_bytes(),
                    );
                }
                if let Some(file) =
                    asked.path.strip_prefix(&format!("/datasets/{id}/resolve/{commit}/"))
                {
                    let Some(body) = files.get(file) else { return missing("EntryNotFound") };
                    let etag = format!("{}-{}", file.replace('/', "-"), body.len());
                    return (
                        200,
                        format!("ETag: \"{etag}\"\r\nX-Repo-Commit: {commit}\r\n"),
                        body.clone(),
                    );
                }
            }
            missing("RevisionNotFound")
        });
        Self { endpoint, log }
    }

    fn asked(&self) -> Vec<String> {
        self.log.lock().expect("log").clone()
    }
}

/// Evaluates the embedded model on a few problems of `dataset`.
fn evaluate(hub: &str, home: &Folder, dataset: &str, set: &[(&str, &str)]) -> Output {
    let output = home.path("out");
    drop(std::fs::remove_dir_all(&output));
    let mut command = Command::cargo_bin("tealight").expect("the binary");
    for name in ["HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE"] {
        command.env_remove(name);
    }
    command.env("HF_HOME", home.0.path()).env("HF_ENDPOINT", hub).env("RUST_BACKTRACE", "0");
    command.args(command!("eval --dataset {dataset} -n 1 -k 1 --max-completion-length 4"));
    command.args(["--device", "cpu", "--output", &output]).envs(set.iter().copied());
    command.timeout(std::time::Duration::from_secs(60)).output().expect("runs")
}

/// The messages about a dataset that opens.
fn loaded(hub: &Hub, home: &Folder, dataset: &str, set: &[(&str, &str)]) -> String {
    let done = evaluate(&hub.endpoint, home, dataset, set);
    let text = said(&done);
    assert!(text.contains(&format!("dataset {dataset}: ")), "{text}");
    text
}

fn refused(hub: &Hub, home: &Folder, dataset: &str, set: &[(&str, &str)]) -> String {
    let done = evaluate(&hub.endpoint, home, dataset, set);
    assert_eq!(done.status.code(), Some(1), "{dataset}: {}", said(&done));
    let text = said(&done);
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("error: "), "{text}");
    last.to_owned()
}

const OFFLINE: &[(&str, &str)] = &[("HF_HUB_OFFLINE", "1")];

fn row(answer: usize) -> String {
    let prompt = json!([{"role": "user", "content": format!("{answer}+0")}]);
    json!({"prompt": prompt, "answer": answer}).to_string() + "\n"
}

#[test]
fn a_declared_split_comes_whole_and_from_the_cache_the_next_time() {
    let (first, second, third) = (row(1), row(2) + &row(3), row(4));
    let hub = Hub::new(&[(
        "team/data",
        &[
            ("README.md", README),
            ("main/train-00000-of-00001.jsonl", &third),
            ("main/test-00000-of-00002.jsonl", &first),
            ("main/test-00001-of-00002.jsonl", &second),
            ("s/a.csv", "question,answer\nq,1\n"),
        ],
    )]);
    let home = Folder::new();
    let text = loaded(&hub, &home, "team/data/main:test", &[]);
    assert!(text.contains("dataset team/data/main:test: 3 problems"), "{text}");
    assert!(home.0.path().join("out/results.json").exists(), "{text}");
    assert!(text.contains("split `test` of configuration `main`; splits: train, test"), "{text}");
    let asked = hub.asked();
    assert!(
        asked.iter().all(|path| !path.contains("train") && !path.contains("refs")),
        "{asked:?}"
    );
    for set in [&[][..], OFFLINE] {
        loaded(&hub, &home, "team/data/main:test", set);
    }
    assert_eq!(hub.asked(), asked, "the cache is asked first");

    // Another split of the same commit: its files alone are fetched, and offline it is named as missing.
    let message = refused(&hub, &home, "team/data/main", OFFLINE);
    assert!(
        message.contains("HF_HUB_OFFLINE") && message.contains("not in the cache"),
        "{message}"
    );
    let text = loaded(&hub, &home, "team/data/main", &[]);
    assert!(text.contains("1 problems") && text.contains("split `train`"), "{text}");
    assert_eq!(hub.asked().len(), asked.len() + 1);

    for (dataset, what) in [
        ("team/data", "name a configuration, OWNER/NAME/CONFIG; there is: main, socratic"),
        ("team/data/mian:test", "no configuration `mian`; there is: main, socratic"),
        ("team/data/main:dev", "no split `dev` in configuration `main`; there is: train, test"),
    ] {
        let message = refused(&hub, &home, dataset, &[]);
        assert!(message.ends_with(what), "{message}");
    }
    assert!(loaded(&hub, &home, "hub:team/data/socratic", &[]).contains("1 problems"));
}

#[test]
fn a_cache_of_another_client_serves_offline_unless_shards_are_missing() {
    let (first, second) = (row(1), row(2));
    let files = [
        ("data/train-00000-of-00002.jsonl", first.as_str()),
        ("data/train-00001-of-00002.jsonl", second.as_str()),
        ("other.txt", "x"),
    ];
    let hub = Hub::new(&[("team/data", &files)]);
    let home = Folder::new();
    loaded(&hub, &home, "team/data", &[]);
    let place = home.0.path().join("hub/datasets--team--data");
    // The Python client keeps no listing.
    std::fs::remove_dir_all(place.join("listings")).expect("the listing");
    assert!(loaded(&hub, &home, "team/data:train", OFFLINE).contains("2 problems"));
    std::fs::remove_file(place.join("snapshots").join(COMMIT).join(files[0].0)).expect("a link");
    let message = refused(&hub, &home, "team/data:train", OFFLINE);
    assert!(
        message.contains("1 of the 00002 files `data/train-...` are in the cache"),
        "{message}"
    );
}

#[test]
fn names_of_files_tell_splits_without_a_readme() {
    let (train, dev) = (row(1), row(2) + &row(3));
    let hub = Hub::new(&[(
        "team/names",
        &[("train.jsonl", train.as_str()), ("dev.jsonl", dev.as_str())],
    )]);
    let home = Folder::new();
    assert!(loaded(&hub, &home, "team/names:validation", &[]).contains("2 problems"));
    assert!(loaded(&hub, &home, "team/names", &[]).contains("1 problems"));
    let message = refused(&hub, &home, "team/names:test", &[]);
    assert!(
        message
            .ends_with("no split `test` in configuration `default`; there is: train, validation"),
        "{message}"
    );
    let message = refused(&hub, &home, "team/none", &[]);
    assert!(
        message.contains("no file or source of this name is here") && message.contains("team/none"),
        "{message}"
    );
    let message = refused(&hub, &home, "src/none", &[]);
    assert!(message.ends_with("name it hub:src/none"), "{message}");
}

#[test]
fn what_cannot_be_read_is_taken_from_the_conversion_to_parquet() {
    let parquet = include_bytes!("../fixtures/rows.parquet").to_vec();
    let script =
        Files::from([("script.py", b"import os".to_vec()), ("train.jsonl", b"raw".to_vec())]);
    let packed = Files::from([("train.jsonl.gz", b"x".to_vec())]);
    let converted =
        Files::from([("a/test/0000.parquet", parquet.clone()), ("b/test/0000.parquet", parquet)]);
    let hub = Hub::of(vec![
        (format!("team/script@{COMMIT}"), script),
        (format!("team/script@{CONVERTED}"), converted),
        (format!("team/packed@{COMMIT}"), packed),
    ]);
    let home = Folder::new();
    for set in [&[][..], OFFLINE] {
        let text = loaded(&hub, &home, "team/script/b:test", set);
        assert!(text.contains("2 problems") && text.contains("conversion to Parquet"), "{text}");
    }
    let message = refused(&hub, &home, "team/script/b:train", &[]);
    assert!(message.ends_with("there is: test"), "{message}");
    let message = refused(&hub, &home, "team/packed", &[]);
    assert!(
        message.contains("no .parquet") && message.contains("no conversion to Parquet"),
        "{message}"
    );
}

#[test]
fn a_hostile_dataset_writes_nowhere_and_ends_soon() {
    let outside = "---\nconfigs:\n- config_name: a\n  data_files: ../../../../escaped.jsonl\n---\n";
    let deep = format!("---\nconfigs: {}\n---\n", "[".repeat(1 << 20));
    let (good, patterns) = (
        row(1),
        format!("---\nconfigs:\n- config_name: a\n  data_files: '{}'\n---\n", "[z-a]/".repeat(100)),
    );
    let hub = Hub::new(&[
        ("team/outside", &[("README.md", outside), ("../../../../escaped.jsonl", &good)]),
        ("team/deep", &[("README.md", &deep), ("a.jsonl", &good)]),
        ("team/patterns", &[("README.md", &patterns), ("a.jsonl", &good)]),
        (
            "team/escape",
            &[
                ("\u{1b}[31m/train/0000.csv", &good),
                ("README.md", "---\nconfigs:\n- config_name: \"\\e[31m\"\n- config_name: b\n---\n"),
            ],
        ),
    ]);
    let home = Folder::new();
    let message = refused(&hub, &home, "team/outside", &[]);
    assert!(message.contains("leaves its folder"), "{message}");
    assert!(!hub.asked().iter().any(|path| path.contains("escaped")));
    assert!(refused(&hub, &home, "team/deep", &[]).contains("front matter cannot be read"));
    assert!(refused(&hub, &home, "team/patterns", &[]).contains("README.md: `"));
    let message = refused(&hub, &home, "team/escape", &[]);
    assert!(message.contains("there is: ") && !message.contains('\u{1b}'), "{message}");

    // A commit that would be a path, a README of a terabyte, a listing that never was JSON.
    for (info, what) in [
        (json!({"sha": "../../../escaped", "siblings": []}).to_string(), "commit is none"),
        (
            json!({"sha": COMMIT, "siblings": [{"rfilename": "README.md"}]}).to_string(),
            "too many for a file",
        ),
        ("[".into(), "not JSON"),
        (json!({"siblings": 1}).to_string(), "names no commit"),
    ] {
        let hub = serve(move |asked: &ReceivedRequest| match asked.path.starts_with("/api/") {
            true => (200, String::new(), info.clone().into_bytes()),
            false => (
                200,
                format!(
                    "ETag: \"a\"\r\nX-Repo-Commit: {COMMIT}\r\nContent-Length: 1099511627776\r\n"
                ),
                vec![],
            ),
        });
        let home = Folder::new();
        let done = evaluate(&hub, &home, "team/data", &[]);
        let message = said(&done);
        assert!(done.status.code() == Some(1) && message.contains(what), "{what}: {message}");
        assert!(
            !home.0.path().join("escaped").exists() && !home.0.path().join("escaped.json").exists()
        );
    }
}
