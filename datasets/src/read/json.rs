//! JSONL and JSON files to rows.

use std::io::{BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::{Row, file};
use crate::{DataError, Result};

/// One object a line; empty lines are skipped.
pub(super) fn lines(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (index, text) in BufReader::new(file(path)?).lines().enumerate() {
        let line = index + 1;
        let malformed = |what: String| DataError::Malformed { path: path.into(), line, what };
        let text = text.map_err(|error| malformed(format!("cannot be read: {error}")))?;
        if text.trim().is_empty() {
            continue;
        }
        if rows.len() == limit {
            break;
        }
        let values: Map<String, Value> = serde_json::from_str(&text)
            .map_err(|error| malformed(format!("not a JSON object: {error}")))?;
        rows.push(Row { line, values });
    }
    Ok(rows)
}

/// An array of objects, or an object with exactly one array of objects in it.
pub(super) fn document(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let wrong = |what: String| DataError::File { path: path.into(), what };
    let document: Value = serde_json::from_reader(BufReader::new(file(path)?))
        .map_err(|error| wrong(format!("not JSON: {error}. Is it JSONL? Name it .jsonl")))?;
    let items = match document {
        Value::Array(items) => items,
        Value::Object(fields) => {
            let mut arrays = fields.into_iter().filter_map(|(_, value)| match value {
                Value::Array(items) if items.iter().all(Value::is_object) => Some(items),
                _ => None,
            });
            match (arrays.next(), arrays.next()) {
                (Some(items), None) => items,
                _ => return Err(wrong("expected an array of objects".into())),
            }
        }
        _ => return Err(wrong("expected an array of objects".into())),
    };
    let row = |(index, item)| match item {
        Value::Object(values) => Ok(Row { line: index + 1, values }),
        _ => Err(DataError::Malformed {
            path: path.into(),
            line: index + 1,
            what: "row is not an object".into(),
        }),
    };
    items.into_iter().take(limit).enumerate().map(row).collect()
}
