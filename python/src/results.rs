//! The output of an evaluation, checked: its estimates as CSV, its `results.json` and where its samples lie.

use std::path::PathBuf;

use anyhow::Context;
use pyo3::prelude::*;
use tealight_core::names;
use tealight_eval::export;
use tealight_eval::results::Results;

use crate::refused;

/// The estimates as CSV, `results.json` as text, and each set's name with its files of samples.
type Loaded = (String, String, Vec<(String, Vec<PathBuf>)>);

/// Reads what `tealight eval` or `tealight grade` wrote to a directory.
#[pyfunction]
pub(crate) fn load(py: Python<'_>, directory: PathBuf) -> PyResult<Loaded> {
    py.detach(|| -> anyhow::Result<Loaded> {
        let results = Results::load(&directory)?;
        let mut files = Vec::new();
        for set in &results.sets {
            let mut paths = Vec::new();
            let greedy = set.greedy_samples();
            for name in set.samples.iter().chain(&greedy) {
                let path = names::inside(&directory, name).with_context(|| {
                    format!("{}: the samples of {}", directory.display(), set.name)
                })?;
                if path.is_file() {
                    paths.push(path);
                }
            }
            files.push((set.name.clone(), paths));
        }
        Ok((export::csv(&results), serde_json::to_string(&results)?, files))
    })
    .map_err(refused)
}
