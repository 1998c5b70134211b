//! CSV files with a header line to rows.

use std::path::Path;

use serde_json::Value;

use super::{Row, text};
use crate::{DataError, Result};

pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let mut reader = csv::Reader::from_reader(text(path)?);
    let header = reader
        .headers()
        .map_err(|error| DataError::File { path: path.into(), what: error.to_string() })?
        .clone();
    // Programs differ in which of them counts.
    let stands_twice = |at: usize| {
        !header[at].is_empty() && header.iter().take(at).any(|name| *name == header[at])
    };
    if let Some(at) = (0..header.len()).find(|at| stands_twice(*at)) {
        let what = format!("column `{}` stands twice in the header: rename one", &header[at]);
        return Err(DataError::File { path: path.into(), what });
    }
    let mut rows = Vec::new();
    for record in reader.records().take(limit) {
        let record = record.map_err(|error| DataError::Malformed {
            path: path.into(),
            line: error.position().map_or(0, |position| position.line() as usize),
            what: error.to_string(),
        })?;
        let line = record.position().map_or(0, |position| position.line() as usize);
        let cells = record.iter().map(|cell| Value::String(cell.into()));
        rows.push(Row::new(line, header.iter().map(String::from).zip(cells).collect()));
    }
    Ok(rows)
}
