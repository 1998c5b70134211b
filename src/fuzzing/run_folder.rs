//! Folders that commands wrote, one of whose files was changed: every command that reads a folder reads it.

use std::path::Path;
use std::sync::OnceLock;

use candle_core::Device;
use serde_json::{Value, json};
use tealight_eval::report;
use tealight_eval::results::Results;

use super::embedded;
use crate::app::directory::{self, Existing};
use crate::app::grade::{GradeOptions, run};
use crate::app::settings::defaults;
use tealight_core::ranks::Ranks;
use tealight_formats::pretrained::Pretrained;
use tealight_learn::presample;
use tealight_learn::train::checkpoint::{self, Checkpoints, State};
use tealight_learn::train::{AdamW, AdamWConfig};
use tealight_system::stop::Stop;

/// The files that are changed, by the first byte of an input.
const FILES: [&str; 6] = [
    "results.json",
    "samples/a.jsonl",
    "checkpoint-0/trainer_state.json",
    "latest",
    "metrics.jsonl",
    "presamples.json",
];
const COMPLETIONS: &str = r#"{"id":"a","gold":"4","completions":["\\boxed{4}","5"]}
{"id":"b","gold":"1/2","completions":["0.5","<think>"]}
"#;
const METRICS: &str = "{\"step\":0,\"reward\":0.5,\"kl\":0.1}\n{\"step\":1,\"reward\":0.75}\n";

fn settings() -> Value {
    json!({"objective": "grpo", "seed": 0})
}

fn checkpoints<'a>(
    output: &'a Path,
    config: &'a Value,
    model: &'a Pretrained,
    ranks: &'a Ranks,
) -> Checkpoints<'a> {
    Checkpoints { output, model, adapter: None, config, limit: 0, ranks }
}

/// A folder with what `grade` and `train` leave.
fn whole() -> &'static Path {
    static FOLDER: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let input = folder.path().join("a.jsonl");
        std::fs::write(&input, COMPLETIONS).expect("written");
        let output = Some(folder.path().join("run"));
        let options = GradeOptions { output, ..defaults() };
        run(&options, &input.display().to_string(), Existing::Keep, &Stop::default())
            .expect("graded");
        let (output, config) = (folder.path().join("run"), settings());
        let (model, ranks) = (embedded(), Ranks::alone());
        let optimizer = AdamW::new(AdamWConfig::DEFAULT, &Default::default()).expect("nothing");
        let saved = checkpoints(&output, &config, model, &ranks);
        saved.save(&model.weights, &optimizer, &mut State::default()).expect("saved");
        std::fs::write(output.join("metrics.jsonl"), METRICS).expect("written");
        std::fs::write(output.join("presamples.json"), "{\"model\":\"a\",\"seed\":0}")
            .expect("written");
        folder
    });
    folder.path()
}

/// The same files, without copying them.
fn link(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        match from.is_dir() {
            true => link(&from, &to),
            false => std::fs::hard_link(&from, &to).expect("linked"),
        }
    }
}

/// `bytes` with some replaced: records of two bytes of a place, how many go, how many come, and those that come.
pub(super) fn spliced(mut bytes: Vec<u8>, mut data: &[u8]) -> Vec<u8> {
    while let [low, high, go, come, rest @ ..] = data {
        let (new, rest) = rest.split_at(usize::from(*come).min(rest.len()));
        let start = usize::from(u16::from_le_bytes([*low, *high])) % (bytes.len() + 1);
        let end = (start + usize::from(*go)).min(bytes.len());
        bytes.splice(start..end, new.iter().copied());
        data = rest;
    }
    bytes
}

/// Every reader of folders.
pub(super) fn try_changed(data: &[u8]) {
    let Some((file, data)) = data.split_first() else { return };
    let folder = tempfile::tempdir_in(whole()).expect("a temporary folder");
    let output = folder.path().join("run");
    link(&whole().join("run"), &output);
    let path = output.join(FILES[usize::from(*file) % FILES.len()]);
    let bytes = spliced(std::fs::read(&path).expect("the file"), data);
    std::fs::remove_file(&path).expect("removed");
    std::fs::write(&path, bytes).expect("written");

    crate::app::data_file::install_guard();
    if let Ok(results) = Results::load(&output) {
        drop(report::write(
            &[(&output, &results)],
            std::slice::from_ref(&results.model),
            None,
            folder.path(),
        ));
    }
    drop(report::write_training(&output));
    drop(presample::stored_request(&output));
    drop(directory::check(&output, Existing::Replace));
    let (config, ranks) = (settings(), Ranks::alone());
    if let Ok(Some(newest)) = checkpoint::find(&output, "") {
        assert!(newest.starts_with(&output), "{}", newest.display());
        drop(checkpoints(&output, &config, embedded(), &ranks).load(&newest, &Device::Cpu));
    }
}
