//! CSV files with a header line to rows.

use std::path::Path;

use serde_json::Value;

use super::{Row, text};
use crate::{DataError, Result};

pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    separated(path, limit, b',')
}

fn separated(path: &Path, limit: usize, delimiter: u8) -> Result<Vec<Row>> {
    let mut reader = csv::ReaderBuilder::new().delimiter(delimiter).from_reader(text(path)?);
    let header = reader
        .headers()
        .map_err(|error| DataError::File { path: path.into(), what: error.to_string() })?
        .clone();
    // A header without a comma is another program's: European Excel writes `;`.
    if header.len() == 1
        && let Some(other) =
            b"\t;|".iter().find(|other| header.as_slice().contains(**other as char))
    {
        return separated(path, limit, *other);
    }
    // Programs differ in which of them counts.
    let stands_twice = |at: usize| {
        !header[at].is_empty() && header.iter().take(at).any(|name| *name == header[at])
    };
    if let Some(at) = (0..header.len()).find(|at| stands_twice(*at)) {
        let what = format!("column `{}` stands twice in the header: rename one", &header[at]);
        return Err(DataError::File { path: path.into(), what });
    }
    let (mut rows, mut last) = (Vec::new(), 0);
    for record in reader.records().take(limit) {
        let record = record.map_err(|error| DataError::Malformed {
            path: path.into(),
            line: error.position().map_or(0, |position| position.line() as usize),
            what: error.to_string(),
        })?;
        // Only line feeds are counted, and some files have none.
        last = record.position().map_or(0, |position| position.line() as usize).max(last + 1);
        let cells = record.iter().map(|cell| Value::String(cell.into()));
        rows.push(Row::new(last, header.iter().map(String::from).zip(cells).collect()));
    }
    Ok(rows)
}
