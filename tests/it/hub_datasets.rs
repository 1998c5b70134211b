//! Datasets of the Hub by split and configuration, against a local server that answers as the Hub does.

use std::process::Output;

use serde_json::json;

use crate::support::binary::{Folder, evaluation, has, stderr_of};
use crate::support::hub::{COMMIT, FakeHub, Repository, files};
use crate::support::server::{ReceivedRequest, serve};

const CONVERTED: &str = "89abcdef0123456789abcdef0123456789abcdef";
const BRANCH: &str = "refs/convert/parquet";
const PARQUET: &[u8] = include_bytes!("../fixtures/rows.parquet");
const README: &str = "---\nlicense: mit\nconfigs:\n- config_name: main\n  data_files:\n  - split: train\n    path: main/train-*\n\
                      \x20 - split: test\n    path: main/test-*\n- config_name: socratic\n  data_files: s/*.csv\n---\n# Data\n";

/// A Hub with datasets that it has not converted.
fn hub(datasets: &[(&str, &[(&str, &str)])]) -> FakeHub {
    let repository = |(id, contents): &(&str, &[(&str, &str)])| {
        let contents = contents.iter().map(|(name, text)| (*name, text.as_bytes()));
        Repository::new("datasets", id, files(&contents.collect::<Vec<_>>()))
    };
    FakeHub::new(datasets.iter().map(repository).collect())
}

/// Evaluates the embedded model on a few problems of `dataset`.
fn evaluate(hub: &str, home: &Folder, dataset: &str, set: &[(&str, &str)]) -> Output {
    let output = home.path("out");
    drop(std::fs::remove_dir_all(&output));
    let line = format!("--dataset {dataset} --output {output}");
    evaluation(hub, home.0.path(), &line).envs(set.iter().copied()).output().expect("runs")
}

/// The messages about a dataset that opens.
fn loaded(hub: &FakeHub, home: &Folder, dataset: &str, set: &[(&str, &str)]) -> String {
    let done = evaluate(&hub.endpoint, home, dataset, set);
    let text = stderr_of(&done);
    assert!(text.contains(&format!("dataset {dataset}: ")), "{text}");
    text
}

fn refused(hub: &FakeHub, home: &Folder, dataset: &str, set: &[(&str, &str)]) -> String {
    let done = evaluate(&hub.endpoint, home, dataset, set);
    assert_eq!(done.status.code(), Some(1), "{dataset}: {}", stderr_of(&done));
    let text = stderr_of(&done);
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
    let hub = hub(&[(
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
    let asked = hub.log();
    // The conversion was asked for, and is not there.
    assert!(asked[0].ends_with("/revision/refs%2Fconvert%2Fparquet"), "{asked:?}");
    assert!(asked.iter().all(|path| !path.contains("train")), "{asked:?}");
    for set in [&[][..], OFFLINE] {
        loaded(&hub, &home, "team/data/main:test", set);
    }
    assert_eq!(hub.log(), asked, "the cache is asked first");

    // Another split of the same commit: its files alone are fetched, and offline it is named as missing.
    let message = refused(&hub, &home, "team/data/main", OFFLINE);
    has(&message, &["HF_HUB_OFFLINE", "not in the cache"]);
    let text = loaded(&hub, &home, "team/data/main", &[]);
    assert!(text.contains("1 problem,") && text.contains("split `train`"), "{text}");
    let more = hub.log().split_off(asked.len());
    let is_of_file = |line: &String| line.contains("/main/train-") || line.contains("/paths-info/");
    assert!(!more.is_empty() && more.iter().all(is_of_file), "{more:?}");

    for (dataset, what) in [
        ("team/data", "name a configuration, OWNER/NAME/CONFIG; there is: main, socratic"),
        ("team/data/mian:test", "no configuration `mian`; there is: main, socratic"),
        ("team/data/main:dev", "no split `dev` in configuration `main`; there is: train, test"),
    ] {
        let message = refused(&hub, &home, dataset, &[]);
        assert!(message.ends_with(what), "{message}");
    }
    assert!(loaded(&hub, &home, "hub:team/data/socratic", &[]).contains("1 problem,"));
}

#[test]
fn a_cache_of_another_client_serves_offline_unless_shards_are_missing() {
    let (first, second) = (row(1), row(2));
    let files = [
        ("data/train-00000-of-00002.jsonl", first.as_str()),
        ("data/train-00001-of-00002.jsonl", second.as_str()),
        ("other.txt", "x"),
    ];
    let hub = hub(&[("team/data", &files)]);
    let home = Folder::new();
    loaded(&hub, &home, "team/data", &[]);
    let place = home.0.path().join("hub/datasets--team--data");
    // The Python client keeps no listing.
    std::fs::remove_dir_all(place.join("listings")).expect("the listing");
    assert!(loaded(&hub, &home, "team/data:train", OFFLINE).contains("2 problems"));
    std::fs::remove_file(place.join("snapshots").join(COMMIT).join(files[0].0)).expect("a link");
    let message = refused(&hub, &home, "team/data:train", OFFLINE);
    has(&message, &["1 of the 00002 files `data/train-...` are in the cache"]);
}

#[test]
fn the_conversion_to_parquet_comes_first() {
    let declared = README.replace("main/train-*", "raw.csv");
    let main = files(&[
        ("README.md", declared.as_bytes()),
        ("raw.csv", b"question,answer\nq,1\n"),
        ("main/test-00000-of-00001.jsonl", row(1).as_bytes()),
    ]);
    // Of a split of more than 5 GB only the first are converted, under another name.
    let converted = files(&[
        ("main/partial-train/0000.parquet", PARQUET),
        ("main/test/0000.parquet", PARQUET),
        ("socratic/test/0000.parquet", PARQUET),
    ]);
    let dataset = Repository::new("datasets", "team/data", main);
    let hub = FakeHub::new(vec![dataset.with(BRANCH, CONVERTED, converted)]);
    let home = Folder::new();
    let text = loaded(&hub, &home, "team/data/main:test", &[]);
    let words = ["2 problems", "of the Hub's conversion to Parquet; splits: partial-train, test"];
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
    let asked = hub.log();
    let is_of_main = |line: &String| line.contains("README") || line.contains("/revision/main");
    assert!(!asked.iter().any(is_of_main), "{asked:?}");
    assert!(loaded(&hub, &home, "team/data/main:test", OFFLINE).contains("conversion to Parquet"));
    assert_eq!(hub.log(), asked, "the cache is asked first");

    // What is not converted comes from the main branch, and so does everything of another revision.
    let text = loaded(&hub, &home, "team/data/main:train", &[]);
    assert!(text.contains("1 problem,") && !text.contains("conversion"), "{text}");
    let text = loaded(&hub, &home, &format!("team/data/main@{COMMIT}:test"), &[]);
    assert!(text.contains("1 problem,") && !text.contains("conversion"), "{text}");
    let message = refused(&hub, &home, "team/data/main:dev", &[]);
    has(&message, &["no split `dev` in configuration `main`; there is: train, test"]);
}

#[test]
fn undeclared_splits_are_not_guessed_from_file_names() {
    let (train, script) = (row(1), files(&[("script.py", b"import os"), ("train.jsonl", b"raw")]));
    let names = files(&[("train.jsonl", train.as_bytes()), ("dev.jsonl", b"x")]);
    let converted = files(&[("a/test/0000.parquet", PARQUET), ("b/test/0000.parquet", PARQUET)]);
    let script = Repository::new("datasets", "team/script", script);
    let hub = FakeHub::new(vec![
        Repository::new("datasets", "team/names", names),
        script.with(BRANCH, CONVERTED, converted),
    ]);
    let home = Folder::new();
    let message = refused(&hub, &home, "team/names:train", &[]);
    let words = ["no conversion to Parquet", "name a file, hub:OWNER/NAME:FILE"];
    assert!(words.iter().all(|word| message.contains(word)), "{message}");
    assert!(loaded(&hub, &home, "hub:team/names:train.jsonl", &[]).contains("1 problem,"));
    let text = loaded(&hub, &home, "team/script/b:test", &[]);
    assert!(text.contains("2 problems") && text.contains("conversion to Parquet"), "{text}");
    let message = refused(&hub, &home, "team/script/b:train", &[]);
    assert!(message.ends_with("there is: test"), "{message}");
    let message = refused(&hub, &home, "team/none", &[]);
    has(&message, &["no file or built-in source has this name", "team/none"]);
    let message = refused(&hub, &home, "src/none", &[]);
    assert!(message.ends_with("name it hub:src/none"), "{message}");
}

#[test]
fn a_hostile_dataset_writes_nowhere() {
    let outside = "---\nconfigs:\n- config_name: a\n  data_files: ../../../../escaped.jsonl\n---\n";
    let good = row(1);
    let hub = hub(&[
        ("team/outside", &[("README.md", outside), ("../../../../escaped.jsonl", &good)]),
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
    assert!(!hub.log().iter().any(|path| path.contains("escaped")));
    let message = refused(&hub, &home, "team/escape", &[]);
    assert!(message.contains("there is: ") && !message.contains('\u{1b}'), "{message}");

    // A commit that would be a path, a README of a terabyte, a listing of another kind.
    let branch = |sha: &str| json!({"id": "team/data", "sha": sha, "siblings": [{"rfilename": "README.md"}]});
    let readme =
        json!([{"type": "file", "path": "README.md", "size": 1u64 << 40, "oid": "0".repeat(40)}]);
    for (info, what) in [
        (branch("../../../escaped").to_string(), "invalid commit hash"),
        (branch(COMMIT).to_string(), "too many for a file"),
        (json!({"id": "team/data", "siblings": []}).to_string(), "not the JSON of its API"),
        (json!({"siblings": 1}).to_string(), "not the JSON"),
    ] {
        let readme = readme.to_string();
        let hub = serve(move |asked: &ReceivedRequest| {
            let missing = "X-Error-Code: RevisionNotFound\r\n".to_owned();
            match asked.path.as_str() {
                path if path.contains("refs%2Fconvert") => (404, missing, b"{}".to_vec()),
                path if path.contains("/paths-info/") => {
                    (200, String::new(), readme.clone().into_bytes())
                }
                _ => (200, String::new(), info.clone().into_bytes()),
            }
        });
        let home = Folder::new();
        let done = evaluate(&hub, &home, "team/data", &[]);
        let message = stderr_of(&done);
        assert!(done.status.code() == Some(1) && message.contains(what), "{what}: {message}");
        assert!(["escaped", "escaped.json"].iter().all(|name| !home.0.path().join(name).exists()));
    }
}
