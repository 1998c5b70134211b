//! The folder of completions that TRL writes: a Parquet file for each training step.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};

use crate::grade::line::hash;

/// The files of a folder in the order of their steps, and what is to be said of several.
pub(super) fn steps(path: &str) -> Result<(Vec<PathBuf>, Option<String>)> {
    let unreadable = || format!("{path}: cannot be read");
    let entries = std::fs::read_dir(path).with_context(unreadable)?;
    let names = entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let names: Vec<String> = names.collect::<io::Result<_>>().with_context(unreadable)?;
    let numbered = |before: &str, after: &str| -> BTreeMap<u64, &String> {
        let step = |name: &str| name.strip_prefix(before)?.strip_suffix(after)?.parse().ok();
        names.iter().filter_map(|name| Some((step(name)?, name))).collect()
    };
    let steps = numbered("completions_", ".parquet");
    let (Some((first, _)), Some((last, _))) = (steps.first_key_value(), steps.last_key_value())
    else {
        if names.iter().any(|name| name == "dataset_info.json" || name == "dataset_dict.json") {
            bail!(
                "{path}: a dataset as save_to_disk of the library datasets writes it: write it as JSON lines, \
                 datasets.load_from_disk(PATH).to_json(FILE)"
            );
        }
        // verl's files, each of another checkpoint, are not joined: each may have all problems.
        let such = numbered("", ".jsonl").pop_last();
        let such = such.map_or(String::new(), |(_, name)| format!(", such as {name}"));
        bail!(
            "{path}: a folder; name one of its files of completions{such} (parts of one file are joined by cat, into a file \
             or `-`, standard input)"
        );
    };
    let several = (steps.len() > 1).then(|| {
        format!(
            "{} training steps ({first} to {last}) are read as completions of one model, whose weights changed in \
             between: name one file for one step",
            steps.len()
        )
    });
    Ok((steps.values().map(|name| Path::new(path).join(name)).collect(), several))
}

/// What the rows of a step hash to, in any order and without the number of the step: TRL writes the completions that it
/// trains on several times at each of these steps.
pub(super) fn digest<E>(
    rows: impl Iterator<Item = Result<Map<String, Value>, E>>,
) -> Result<u64, E> {
    let mut sum = 0_u64;
    for row in rows {
        let mut row = row?;
        row.shift_remove("step");
        sum = sum.wrapping_add(hash([Value::Object(row).to_string().as_str()]));
    }
    Ok(sum)
}
