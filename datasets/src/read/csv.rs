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
