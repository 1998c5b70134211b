//! CSV files with a header line to rows.

use std::path::Path;

use serde_json::Value;

use tealight_core::names::extension;

use super::{Row, text};
use crate::{DataError, Result};

/// What may separate columns, the usual first: a header without a comma is another program's, as European Excel's.
const DELIMITERS: [u8; 4] = *b",\t;|";

/// The first that separates columns of the header, and the first row as well; else the usual one.
fn delimiter(path: &Path) -> Result<u8> {
    let mut order = DELIMITERS;
    if extension(path) == "tsv" {
        order.swap(0, 1);
    }
    for delimiter in order {
        let mut builder = csv::ReaderBuilder::new();
        let mut reader = builder.delimiter(delimiter).flexible(true).from_reader(text(path)?);
        let Ok(columns) = reader.headers().map(csv::StringRecord::len) else { break };
        let has_columns =
            |row: csv::Result<csv::StringRecord>| row.is_ok_and(|row| row.len() == columns);
        let is_usual = delimiter == order[0];
        if columns > 1 && (is_usual || reader.records().next().is_none_or(has_columns)) {
            return Ok(delimiter);
        }
    }
    Ok(order[0])
}

pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let mut builder = csv::ReaderBuilder::new();
    let mut reader = builder.delimiter(delimiter(path)?).from_reader(text(path)?);
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
