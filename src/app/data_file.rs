//! Untrusted data files to problems or rows, with bounds on memory and time by the size of the file: a small file may
//! hold gigabytes, and a library that reads it may panic.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::{Map, Value};
use tealight_datasets::Dataset;
use tealight_datasets::read::{self, Columns};

use crate::formats::hub::dataset::{Fetched, HubDataset};
use crate::system::budget;
use crate::system::machine;

/// Opens a named source, a file, or a dataset on the Hub.
pub(crate) fn open(spec: &str, columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let (name, columns) = (spec.to_owned(), columns.clone());
    let Some(dataset) = HubDataset::parse(spec)? else {
        let files = [PathBuf::from(spec)];
        return bounded(spec, &files, move || Ok(tealight_datasets::open(&name, &columns, limit)?));
    };
    let Fetched { files, note } =
        dataset.fetch().with_context(|| match spec.starts_with("hub:") {
            true => format!("dataset `{spec}`"),
            false => format!(
                "dataset `{spec}`, asked of the Hub since no file or source of this name is here"
            ),
        })?;
    let of_files = files.clone();
    let open = move || Ok(tealight_datasets::open_files(&name, &of_files, &columns, limit)?);
    let mut dataset = bounded(spec, &files, open)?;
    dataset.notes.splice(0..0, note);
    Ok(dataset)
}

/// The rows of a file.
pub(crate) fn table(path: &Path) -> Result<Vec<Map<String, Value>>> {
    let file = path.to_owned();
    let path = file.clone();
    let files = std::slice::from_ref(&file);
    bounded(&file.display().to_string(), files, move || Ok(read::table(&path)?))
}

/// Reads `files` by `work`; a named source has none that is there.
fn bounded<R: Send + 'static>(
    spec: &str,
    files: &[PathBuf],
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    const LEAST: u64 = 2 << 30;
    const BYTES_A_BYTE: u64 = 64;
    const TIME: Duration = Duration::from_secs(1800);
    let size_of = |path: &PathBuf| std::fs::metadata(path).map_or(0, |kind| kind.len());
    let size = files.iter().map(size_of).fold(0, u64::saturating_add);
    let free = machine::available_memory().map_or(u64::MAX, |free| free / 4 * 3);
    let bytes = size.saturating_mul(BYTES_A_BYTE).max(LEAST).min(free);
    budget::within_time(spec, usize::try_from(bytes).unwrap_or(usize::MAX), TIME, work)
}
