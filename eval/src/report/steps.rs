//! The completions that training runs logged, by step.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use tealight_core::guard;
use tealight_datasets::read;

/// Most files of completions whose contents a page holds, and most completions of one.
const MAX_FILES: usize = 24;
const MAX_ROWS: usize = 256;
/// Longest text of such a completion, in characters.
const MAX_TEXT: usize = 8_000;

/// Most bytes of memory and most time that the first completions of a file take.
const MAX_MEMORY: u64 = 512 << 20;
const MAX_TIME: Duration = Duration::from_secs(60);
/// After so many files that took more, or that their reader did not survive, no other is read.
pub(super) const MAX_REFUSED: usize = 3;

/// The completions of one training step in a file.
#[derive(Debug, Clone)]
pub(super) struct StepFile {
    /// The run's label.
    pub(super) run: String,
    pub(super) step: usize,
    pub(super) path: PathBuf,
}

/// The files of a run's completions, by step.
pub(super) fn completions(run: &Path, name: &str) -> Vec<StepFile> {
    let folder = run.join("completions");
    // Links are not followed.
    let is_own = folder.symlink_metadata().is_ok_and(|kind| kind.is_dir());
    let Some(entries) = is_own.then(|| std::fs::read_dir(&folder).ok()).flatten() else {
        return Vec::new();
    };
    let stored = |entry: std::fs::DirEntry| {
        let file = entry.file_name().into_string().ok()?;
        let step = file.strip_prefix("completions_")?.strip_suffix(".parquet")?.parse().ok()?;
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        is_file.then(|| StepFile { run: name.to_owned(), step, path: entry.path() })
    };
    let mut all: Vec<StepFile> = entries.flatten().filter_map(stored).collect();
    all.sort_by_key(|one| one.step);
    all
}

/// Some of these, at equal distances, the last among them: as many as a page holds.
pub(super) fn some(mut all: Vec<StepFile>) -> Vec<StepFile> {
    let count = all.len();
    if count <= MAX_FILES {
        return all;
    }
    let stride = count.div_ceil(MAX_FILES);
    let mut index = 0;
    all.retain(|_| {
        index += 1;
        (count - index).is_multiple_of(stride)
    });
    all
}

/// The completions of a step as the viewer gets them: prompt, completion, reward, advantage, verdict, tokens, whether
/// it was truncated.
pub(super) fn rows(stored: &StepFile) -> Result<Value> {
    let path = stored.path.clone();
    let what = path.display().to_string();
    let rows = guard::guarded(&what, MAX_MEMORY, MAX_TIME, move || read::first(&path, MAX_ROWS))??;
    let text = |value: Option<&Value>| -> String {
        value.and_then(Value::as_str).unwrap_or_default().chars().take(MAX_TEXT).collect()
    };
    let number = |value: Option<&Value>| value.and_then(Value::as_f64);
    let one = |row: &serde_json::Map<String, Value>| {
        json!([
            text(row.get("prompt")),
            text(row.get("completion")),
            number(row.get("reward")),
            number(row.get("advantage")),
            text(row.get("verdict")).replace("wrong", "incorrect").replace(['-', '_'], " "),
            number(row.get("tokens")),
            u8::from(number(row.get("is_finished")) == Some(0.0)),
        ])
    };
    Ok(Value::Array(rows.iter().map(one).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_step_is_always_among_those_a_page_holds() {
        let file = |step| StepFile { run: String::new(), step, path: PathBuf::new() };
        let shown = some((0..1000).map(file).collect());
        assert!(shown.len() <= MAX_FILES && shown.last().is_some_and(|one| one.step == 999));
    }

    #[test]
    fn files_that_make_the_reader_panic_are_refused() {
        let fixture =
            |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures").join(name);
        let stored = |name: &str| StepFile { run: String::new(), step: 1, path: fixture(name) };
        assert!(rows(&stored("rows.parquet")).is_ok());
        let error = rows(&stored("panics.parquet")).unwrap_err();
        assert!(error.is::<guard::Refused>(), "{error:#}");
    }
}
