//! Data files of strangers to problems or rows, read with so much memory and time as a file of their size may need: a
//! small file may hold gigabytes, and a library that reads it may panic.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Map, Value};
use tealight_datasets::Dataset;
use tealight_datasets::read::{self, Columns};

use crate::system::budget;
use crate::system::machine;

/// Opens a named source, a file, or a file of a dataset on the Hub.
pub(crate) fn open(spec: &str, columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let Some(place) = spec.strip_prefix("hub:") else {
        return problems(spec, columns, limit);
    };
    let file = crate::formats::hub::dataset_file(place)?;
    let dataset = problems(&file.to_string_lossy(), columns, limit)?;
    Ok(Dataset { name: spec.to_owned(), ..dataset })
}

/// The rows of a file.
pub(crate) fn table(path: &Path) -> Result<Vec<Map<String, Value>>> {
    let shown = path.display().to_string();
    let path = path.to_owned();
    bounded(&shown, move || Ok(read::table(&path)?))
}

fn problems(spec: &str, columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let (name, columns) = (spec.to_owned(), columns.clone());
    bounded(spec, move || Ok(tealight_datasets::open(&name, &columns, limit)?))
}

/// Reads the file or named source `spec` by `work`.
fn bounded<R: Send + 'static>(
    spec: &str,
    work: impl FnOnce() -> Result<R> + Send + 'static,
) -> Result<R> {
    const LEAST: u64 = 2 << 30;
    const BYTES_A_BYTE: u64 = 64;
    const TIME: Duration = Duration::from_secs(1800);
    let size = std::fs::metadata(spec).map_or(0, |kind| kind.len());
    let free = machine::available_memory().map_or(u64::MAX, |free| free / 4 * 3);
    let bytes = size.saturating_mul(BYTES_A_BYTE).max(LEAST).min(free);
    budget::within_time(spec, usize::try_from(bytes).unwrap_or(usize::MAX), TIME, work)
}
