//! Parquet files, nested columns included, to rows.

use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::{Map, Value};

use super::{Row, file};
use crate::{DataError, Result};

pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let wrong = |error: parquet::errors::ParquetError| DataError::File {
        path: path.into(),
        what: format!("not a readable Parquet file: {error}"),
    };
    let reader = SerializedFileReader::new(file(path)?).map_err(wrong)?;
    let mut rows = Vec::new();
    for (index, row) in reader.get_row_iter(None).map_err(wrong)?.take(limit).enumerate() {
        let row = row.map_err(|error| DataError::Malformed {
            path: path.into(),
            line: index + 1,
            what: error.to_string(),
        })?;
        rows.push(Row { line: index + 1, values: object(&row) });
    }
    Ok(rows)
}

fn object(row: &parquet::record::Row) -> Map<String, Value> {
    row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect()
}

/// A cell as JSON; kinds that no dataset of text needs (dates, raw bytes) become their text.
fn value(field: &Field) -> Value {
    match field {
        Field::Null => Value::Null,
        Field::Bool(flag) => (*flag).into(),
        Field::Byte(n) => (*n).into(),
        Field::Short(n) => (*n).into(),
        Field::Int(n) => (*n).into(),
        Field::Long(n) => (*n).into(),
        Field::UByte(n) => (*n).into(),
        Field::UShort(n) => (*n).into(),
        Field::UInt(n) => (*n).into(),
        Field::ULong(n) => (*n).into(),
        Field::Float(x) => f64::from(*x).into(),
        Field::Double(x) => (*x).into(),
        Field::Str(text) => text.clone().into(),
        Field::Group(row) => Value::Object(object(row)),
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(value).collect()),
        other => other.to_string().into(),
    }
}
