//! Parquet files, nested columns included, to rows.

use std::path::Path;

use parquet::basic::{LogicalType, TimeUnit};
use parquet::errors::ParquetError;
use parquet::file::metadata::FileMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;
use serde_json::{Map, Value, json};

use super::choice_columns::{self, ChoiceColumns};
use super::{Row, chat, file};
use crate::{DataError, Result};

pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let refused = |what: String| DataError::File { path: path.into(), what };
    let wrong = |error: ParquetError| refused(format!("not a readable Parquet file: {error}"));
    let reader = SerializedFileReader::new(file(path)?).map_err(wrong)?;
    let mut seen = std::collections::HashSet::new();
    let columns = reader.metadata().file_metadata().schema().get_fields();
    if let Some(twice) = columns.iter().find(|column| !seen.insert(column.name())) {
        return Err(refused(format!("column `{}` occurs twice: rename one", twice.name())));
    }
    let schema = Schema::new(reader.metadata().file_metadata());
    let mut rows = Vec::new();
    for (index, row) in reader.get_row_iter(None).map_err(wrong)?.take(limit).enumerate() {
        let row = row.map_err(|error| DataError::Malformed {
            path: path.into(),
            line: index + 1,
            what: error.to_string(),
        })?;
        let mut values = schema.object(&row);
        values.iter_mut().for_each(|(name, value)| chat::strip_fillers(name, value));
        rows.push(Row::new(index + 1, values));
    }
    schema.name_classes(&mut rows);
    Ok(rows)
}

/// What the schema of a file says of its columns.
pub(super) struct Schema {
    nanoseconds: Vec<String>,
    /// The names of the classes of each column that is a ClassLabel of `datasets`.
    classes: Vec<(String, Vec<String>)>,
}

impl Schema {
    pub(super) fn new(file: &FileMetaData) -> Self {
        let mut notes = file.key_value_metadata().into_iter().flatten();
        let note = notes.find(|note| note.key == "huggingface").and_then(|it| it.value.as_deref());
        let note: Value = note.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
        let features = note["info"]["features"].as_object().into_iter().flatten();
        let classes = features.filter(|(_, feature)| feature["_type"] == "ClassLabel");
        let names = |feature: &Value| {
            let names = feature["names"].as_array()?.iter();
            names.map(|name| Some(name.as_str()?.to_owned())).collect::<Option<Vec<_>>>()
        };
        let classes = classes.filter_map(|(name, it)| Some((name.clone(), names(it)?))).collect();
        Self { nanoseconds: nanoseconds(file.schema()), classes }
    }

    /// A row as a JSON object.
    pub(super) fn object(&self, row: &parquet::record::Row) -> Map<String, Value> {
        let cell = |(name, field): (&String, &Field)| match field {
            Field::Long(time) if self.nanoseconds.contains(name) => {
                (name.clone(), value(&Field::TimestampMicros(time / 1000)))
            }
            field => (name.clone(), value(field)),
        };
        row.get_column_iter().map(cell).collect()
    }

    /// Replaces class numbers by class names, unless a name is its number, or the rows may have choices (which the
    /// numbers index).
    fn name_classes(&self, rows: &mut [Row]) {
        let Some(first) = rows.first().filter(|_| !self.classes.is_empty()) else { return };
        let is_column = |name: &String| first.values.contains_key(name);
        let is_plain = |rows: &[Row]| {
            matches!(ChoiceColumns::detect(rows, None), Ok(None))
                && choice_columns::possible(rows).is_empty()
        };
        if self.classes.iter().any(|(_, names)| names.iter().any(is_column)) || !is_plain(rows) {
            return;
        }
        for row in rows {
            for (column, names) in &self.classes {
                if let Some(cell) = row.values.get_mut(column)
                    && let Some(at) = cell.as_u64()
                    && let Some(name) = names.get(at as usize)
                    && *name != at.to_string()
                {
                    *cell = name.as_str().into();
                }
            }
        }
    }
}

/// A cell as JSON. Bytes that are UTF-8 are text, as older writers leave it unmarked; kinds that no dataset of text
/// needs (dates, other bytes) become their text.
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
        Field::Float(x) => shortest(*x).into(),
        Field::Float16(x) => shortest_of_half(x.to_f32()).into(),
        Field::Double(x) => (*x).into(),
        Field::Str(text) => text.clone().into(),
        Field::Bytes(bytes) => match std::str::from_utf8(bytes.data()) {
            Ok(text) => text.into(),
            // No text, and no list of numbers either: refused where it is read as one of them.
            Err(_) => json!({"bytes that are no UTF-8": bytes.len()}),
        },
        Field::Group(row) => {
            let cells = row.get_column_iter().map(|(name, field)| (name.clone(), value(field)));
            Value::Object(cells.collect())
        }
        Field::ListInternal(list) => Value::Array(list.elements().iter().map(value).collect()),
        Field::MapInternal(map) => {
            let key = |field: &Field| match value(field) {
                Value::String(text) => text,
                other => other.to_string(),
            };
            let entries = map.entries().iter().map(|(name, field)| (key(name), value(field)));
            Value::Object(entries.collect())
        }
        other => {
            // As Python prints them: `2024-01-02 03:04:05`, `2`.
            let text = other.to_string();
            let text = text.strip_suffix(" +00:00").unwrap_or(&text);
            let text = text.strip_suffix(".000000").or(text.strip_suffix(".000")).unwrap_or(text);
            text.trim_end_matches('.').into()
        }
    }
}

/// The columns of times in nanoseconds since 1970, which the reader leaves as numbers.
fn nanoseconds(schema: &Type) -> Vec<String> {
    let is_time = |column: &Type| {
        let kind = column.get_basic_info().logical_type_ref();
        matches!(kind, Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS)
    };
    let columns = schema.get_fields().iter().filter(|column| is_time(column));
    columns.map(|column| column.name().to_owned()).collect()
}

/// The number with the shortest decimal of a 32-bit number: 0.1, not 0.10000000149011612.
fn shortest(x: f32) -> f64 {
    x.to_string().parse().unwrap_or(f64::from(x))
}

/// The number with the shortest decimal of a 16-bit number.
fn shortest_of_half(x: f32) -> f64 {
    let exact = f64::from(x);
    if x == 0.0 || !x.is_finite() {
        return exact;
    }
    // The distance to the next numbers of 16 bits; below a power of two they are closer.
    let exponent = exact.abs().log2().floor();
    let spacing = (exponent.max(-14.0) - 10.0).exp2();
    let is_power = exponent.exp2() == exact.abs() && exponent > -14.0;
    let is_nearest = |decimal: f64| {
        let is_below = decimal.abs() < exact.abs();
        (decimal - exact).abs() < spacing / if is_power && is_below { 4.0 } else { 2.0 }
    };
    let decimals = (0..6).filter_map(|digits| format!("{exact:.digits$e}").parse().ok());
    decimals.into_iter().find(|decimal| is_nearest(*decimal)).unwrap_or(exact)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::records::tests::write;
    use parquet::data_type::Decimal;
    use parquet::schema::parser::parse_message_type;

    #[test]
    fn plain_and_nested_columns_become_json() {
        let schema = "message row { required binary question (UTF8); required group reward_model \
                      { required int64 ground_truth; } }";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        write(&path, schema, None, &["1+1?", "2+2?"], &[2, 4]);
        let dataset =
            super::super::open(std::slice::from_ref(&path), &Default::default(), None).unwrap();
        assert_eq!(
            dataset.notes,
            ["columns: prompt = `question`, answer = `reward_model.ground_truth`"]
        );
        assert_eq!(dataset.problems[1].answer, "4");
        assert!(dataset.problems[1].prompt.plain().starts_with("2+2?"));
        assert_eq!(rows(&path, 1).unwrap().len(), 1);
    }

    #[test]
    fn classes_are_read_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let schema = "message row { required binary question (UTF8); required int64 answer; }";
        let answers = |names: &str| {
            let features = format!(
                r#"{{"info": {{"features": {{"answer": {{"names": {names}, "_type": "ClassLabel"}}}}}}}}"#
            );
            write(&path, schema, Some(&features), &["a?", "b?", "c?"], &[1, 0, -1]);
            let rows = rows(&path, 9).unwrap().into_iter();
            rows.map(|row| row.values["answer"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(answers(r#"["no", "yes"]"#), [json!("yes"), json!("no"), json!(-1)]);
        assert_eq!(answers(r#"["20", "10"]"#), [json!("10"), json!("20"), json!(-1)]);
        assert_eq!(answers(r#"["0", "1"]"#), [json!(1), json!(0), json!(-1)]);
        // A column is called by the name of a class.
        assert_eq!(answers(r#"["question", "other"]"#), [json!(1), json!(0), json!(-1)]);
    }

    #[test]
    fn numbers_of_16_bits_are_their_shortest_decimals() {
        // The numbers of 16 bits that are nearest to the decimals.
        for (x, text) in [
            (0.099_975_586_f32, "0.1"),
            (0.333_251_95, "0.3333"),
            (-2.5, "-2.5"),
            (1.0, "1.0"),
            (65_504.0, "65500.0"),
            (2048.0, "2048.0"),
            (5.960_464_5e-8, "6e-8"),
        ] {
            assert_eq!(Value::from(shortest_of_half(x)).to_string(), text);
        }
    }

    #[test]
    fn cells_of_other_kinds_are_what_python_prints() {
        let bytes = |bytes: &[u8]| Field::Bytes(bytes.to_vec().into());
        for (field, expected) in [
            (bytes("What is 1+1?".as_bytes()), json!("What is 1+1?")),
            (bytes(&[0xff, 0xfe]), json!({"bytes that are no UTF-8": 2})),
            (Field::Decimal(Decimal::from_i32(250, 9, 2)), json!("2.50")),
            (Field::Decimal(Decimal::from_i32(-2, 9, 0)), json!("-2")),
            (Field::Date(19_724), json!("2024-01-02")),
            (Field::TimestampMillis(1_704_164_645_000), json!("2024-01-02 03:04:05")),
            (Field::TimestampMicros(1_704_164_645_250_000), json!("2024-01-02 03:04:05.250000")),
        ] {
            assert_eq!(value(&field), expected, "{field}");
        }
    }

    #[test]
    fn times_in_nanoseconds_are_times() {
        let schema =
            "message row { required int64 answer (TIMESTAMP(NANOS,true)); required int64 n; }";
        assert_eq!(nanoseconds(&parse_message_type(schema).unwrap()), ["answer"]);
    }

    #[test]
    fn numbers_of_32_bits_are_their_shortest_decimals() {
        for (x, text) in
            [(0.1_f32, "0.1"), (-2.5, "-2.5"), (1e-7, "1e-7"), (16_777_216.0, "16777216.0")]
        {
            assert_eq!(value(&Field::Float(x)).to_string(), text);
        }
        assert_eq!(value(&Field::Double(0.1)).to_string(), "0.1");
    }
}
