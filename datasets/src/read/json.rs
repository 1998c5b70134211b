//! JSONL and JSON files to rows.

use std::borrow::Cow;
use std::io::Read;
use std::path::Path;

use memchr::memchr2;
use serde_json::{Map, Value};

use super::known_columns::QUESTIONS;
use super::{Row, chat, text};
use crate::{DataError, Result};
use crate::{json, python_list};
use tealight_core::lines::Lines;

/// Names of texts beside the rows of a document that belong to every row.
const PASSAGES: [&str; 5] = ["passage", "article", "story", "paragraph", "context"];
/// Least words of such a text.
const LEAST_WORDS: usize = 3;
/// Most bytes that these texts may come to in all rows.
const MAX_BESIDE: usize = 256 << 20;

/// One object a line; empty lines are skipped. A file that is one list is read as a document, as others read it.
pub(super) fn lines(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    let malformed =
        |line: usize, what: String| DataError::Malformed { path: path.into(), line, what };
    let mut reader = Lines::new(text(path)?);
    while let Some(line) = reader.next_filled() {
        let line = line.map_err(|error| malformed(error.number, error.why))?;
        let number = line.number;
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        if rows.len() == limit {
            break;
        }
        if rows.is_empty() && line.bytes.trim_ascii_start().starts_with(b"[") {
            return document(path, limit);
        }
        let text = std::str::from_utf8(&line.bytes)
            .map_err(|error| malformed(number, format!("not UTF-8: {error}; save it as UTF-8")))?;
        // A line of Python's own, where it is no JSON.
        let of_python = || python_list::value(text).filter(|_| text.trim_start().starts_with("{'"));
        let value = json::parse(text).or_else(|error| of_python().ok_or(error));
        let values = match value.map_err(|error| malformed(number, no_json(&error, text)))? {
            Value::Object(values) => values,
            _ => return Err(malformed(number, "not a JSON object".into())),
        };
        rows.push(Row::new(number, values));
    }
    Ok(rows)
}

/// An array of objects or lists, or an object with exactly one array of objects in it; or lines, under another name.
pub(super) fn document(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let wrong = |what: String| DataError::File { path: path.into(), what };
    let mut content = String::new();
    text(path)?
        .read_to_string(&mut content)
        .map_err(|error| wrong(format!("cannot be read as text: {error}")))?;
    let document = match json::parse(&content) {
        Ok(document) => document,
        // The first line is an object by itself, and others follow.
        Err(_) if content.lines().next().is_some_and(is_object) => return lines(path, limit),
        Err(error) => return Err(wrong(no_json(&error, &content))),
    };
    let items = match document {
        Value::Array(items) => items,
        Value::Object(fields) => of_object(fields).map_err(wrong)?,
        _ => return Err(wrong("neither a list of objects nor one object a line".into())),
    };
    let row = |(index, item)| match item {
        Value::Object(values) => Ok(Row::new(index + 1, values)),
        // Orz's rows are lists: their columns are called by their numbers.
        Value::Array(items) => {
            let named = items.into_iter().enumerate().map(|(at, item)| (at.to_string(), item));
            Ok(Row::new(index + 1, named.collect()))
        }
        _ => Err(DataError::Malformed {
            path: path.into(),
            line: index + 1,
            what: "row is not an object".into(),
        }),
    };
    items.into_iter().take(limit).enumerate().map(row).collect()
}

/// Why a line or a file is not JSON, and the mend.
fn no_json(error: &serde_json::Error, text: &str) -> String {
    // A line's own number stands before this.
    let why = error.to_string().replace(" at line 1 column", " at column");
    let mend = if text.trim_end().contains('\r') && !text.contains('\n') {
        ": its lines end in carriage returns alone, which `tr '\\r' '\\n'` makes line feeds"
    } else if text.trim_start().starts_with('{')
        && (error.is_eof() || why.starts_with("trailing characters"))
    {
        ": one whole object a line is read, as `jq -c . FILE` writes them"
    } else if text.trim_start().trim_start_matches('[').starts_with("{'") {
        ": an object as Python prints it; write it with `json.dumps`"
    } else if why.starts_with("invalid escape") {
        ": a backslash is written twice in JSON, as in \"\\\\alpha\""
    } else {
        ""
    };
    format!("not JSON: {why}{mend}")
}

/// The rows of an object: its only list of objects, or itself where it asks something and no list of objects does.
fn of_object(mut fields: Map<String, Value>) -> std::result::Result<Vec<Value>, String> {
    let quoted = |name: &String| format!("`{name}`");
    let is_asked = |value: &Value| value.is_string() || chat::is_chat(value);
    let asks = |row: &Map<String, Value>| {
        QUESTIONS.iter().any(|name| row.get(*name).is_some_and(is_asked))
    };
    let first_asks = |value: &Value| value.get(0).and_then(Value::as_object).is_some_and(asks);
    if asks(&fields) && !fields.values().any(first_asks) {
        return Ok(vec![Value::Object(fields)]);
    }
    let mut names: Vec<String> =
        fields.iter().filter(|(_, value)| are_rows(value)).map(|(name, _)| name.clone()).collect();
    // The Hub's viewer lists columns beside rows.
    if names.iter().any(|name| name == "rows") {
        names.retain(|name| name != "features");
    }
    if !fields.values().any(first_asks)
        && let Some(rows) = of_columns(&fields)
    {
        return Ok(rows);
    }
    match names.as_slice() {
        // Objects by their ids.
        [] if !fields.is_empty() && fields.values().all(|it| it.as_object().is_some_and(asks)) => {
            Ok(fields.into_iter().map(|(id, row)| with(row, [("id".into(), id.into())])).collect())
        }
        [] => Err(format!(
            "an object of {}, and no list of objects: write one object for each row, as `to_json(orient=\"records\", \
             lines=True)` of pandas does",
            match fields.is_empty() {
                true => "no keys".to_owned(),
                false => fields.keys().take(6).map(quoted).collect::<Vec<_>>().join(", "),
            }
        )),
        [name] => match fields.remove(name) {
            Some(Value::Array(rows)) => with_passages(rows, fields),
            _ => Ok(Vec::new()),
        },
        names => Err(format!(
            "an object with the lists {}: write the rows of one to a file of their own",
            names.iter().map(quoted).collect::<Vec<_>>().join(", ")
        )),
    }
}

/// The rows with the passages that stand beside them, where they do not hold whole prompts.
fn with_passages(
    rows: Vec<Value>,
    mut fields: Map<String, Value>,
) -> std::result::Result<Vec<Value>, String> {
    let are_prompts = rows.iter().any(|row| row.get("prompt").is_some());
    let is_prose = |text: &str| text.split_whitespace().count() >= LEAST_WORDS;
    fields.retain(|name, value| {
        let is_passage = PASSAGES.contains(&name.to_lowercase().as_str()) && !are_prompts;
        is_passage && value.as_str().is_some_and(is_prose)
    });
    let length: usize = fields.values().map(|text| text.to_string().len()).sum();
    match fields.keys().next().filter(|_| length > MAX_BESIDE / rows.len()) {
        Some(name) => Err(format!("`{name}` is too long to be shown with each row: shorten it")),
        None => Ok(rows.into_iter().map(|row| with(row, fields.clone())).collect()),
    }
}

/// A row with these columns, where it has none of their names.
fn with(mut row: Value, columns: impl IntoIterator<Item = (String, Value)>) -> Value {
    if let Value::Object(row) = &mut row {
        for (name, value) in columns {
            row.entry(name).or_insert(value);
        }
    }
    row
}

/// The rows of an object of columns, each a list, or as pandas has it an object with the numbers of rows.
fn of_columns(fields: &Map<String, Value>) -> Option<Vec<Value>> {
    let asks = fields.keys().any(|name| QUESTIONS.contains(&name.as_str()));
    let first = fields.values().next().filter(|_| asks && fields.len() > 1)?;
    let size = |column: &Value| match first.is_array() {
        true => column.as_array().map(Vec::len),
        false => column.as_object().map(Map::len),
    };
    let keys: Vec<String> = match first {
        Value::Object(items) => items.keys().cloned().collect(),
        _ => (0..size(first)?).map(|at| at.to_string()).collect(),
    };
    let row = |key: &String| {
        let at: usize = key.parse().ok()?;
        let cell = |column: &Value| column.get(key).or_else(|| column.get(at)).cloned();
        let cells = fields.iter().map(|(name, column)| Some((name.clone(), cell(column)?)));
        cells.collect::<Option<_>>().map(Value::Object)
    };
    let are_even = fields.values().all(|column| size(column) == Some(keys.len()));
    are_even.then(|| keys.iter().map(row).collect())?
}

/// Whether a value is a list of objects.
fn are_rows(value: &Value) -> bool {
    value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(Value::is_object))
}

fn is_object(line: &str) -> bool {
    json::parse(line).is_ok_and(|value| value.is_object())
}

/// The list that a text holds as JSON.
pub(super) fn json_array(text: &str) -> Option<Vec<Value>> {
    let text = text.trim();
    if text.starts_with('[') { serde_json::from_str(text).ok() } else { None }
}

/// The object or list of objects that a text holds, as JSON or as Python prints it.
pub(super) fn written(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with(['[', '{']) {
        return None;
    }
    let is_python = ["{'", "[{'", "{\"", "[{\""].iter().any(|start| text.starts_with(start));
    let json = serde_json::from_str(text).ok();
    json.or_else(|| python_list::value(text).filter(|_| is_python))
}

/// Significant digits of a number that a float holds without loss.
const EXACT_DIGITS: usize = 17;

/// Whether a number has more significant digits than a float or a 64-bit integer holds, or is too large for them.
fn is_long(number: &str) -> bool {
    let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
    let digits = mantissa.bytes().filter(u8::is_ascii_digit);
    let is_precise = digits.skip_while(|digit| *digit == b'0').count() > EXACT_DIGITS;
    number.parse::<f64>().is_ok_and(|value| is_precise || value.is_infinite())
        && number.parse::<u64>().is_err()
        && number.parse::<i64>().is_err()
}

/// What Python writes for numbers that JSON has no word for.
const NO_NUMBERS: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// JSON whose numbers of more digits stand as texts, since an answer of twenty digits is not a float, and whose `NaN`
/// and `Infinity`, as Python writes them, are null.
pub fn with_long_numbers(text: &str) -> Cow<'_, str> {
    let mut rewritten = String::new();
    let (mut copied, mut at) = (0, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        match bytes[at] {
            b'"' => at = string_end(bytes, at + 1),
            b'N' | b'I' | b'-' if let Some(word) = no_number(&text[at..]) => {
                rewritten.push_str(&text[copied..at]);
                rewritten.push_str("null");
                copied = at + word.len();
                at += word.len() - 1;
            }
            b'-' | b'0'..=b'9' => {
                let is_part = |b: &u8| b.is_ascii_digit() || b"+-.eE".contains(b);
                let length = bytes[at..].iter().take_while(|b| is_part(b)).count();
                let number = &text[at..at + length];
                // Only what is a number; the rest is for the parser to refuse.
                if is_long(number) {
                    rewritten.push_str(&text[copied..at]);
                    rewritten.push_str(&format!("\"{number}\""));
                    copied = at + length;
                }
                at += length - 1;
            }
            _ => {}
        }
        at += 1;
    }
    match copied {
        0 => Cow::Borrowed(text),
        _ => Cow::Owned(rewritten + &text[copied..]),
    }
}

/// Where a string of JSON ends.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found;
        if bytes[at] == b'"' {
            return at;
        }
        // What is escaped ends nothing.
        at += 2;
    }
    bytes.len()
}

/// The word for what is no number that a text begins with.
fn no_number(text: &str) -> Option<&'static str> {
    NO_NUMBERS.into_iter().find(|word| text.starts_with(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_keep_their_digits() {
        let read = |text: &str| serde_json::from_str::<Value>(&with_long_numbers(text));
        assert_eq!(read("1e400").unwrap(), "1e400");
        let long = r#"{"a": 123456789012345678901234, "b": [-0.12345678901234567890], "c": "9\\\"99999999999999999999"}"#;
        let value = read(long).unwrap();
        assert_eq!(value["a"], "123456789012345678901234");
        assert_eq!(value["b"][0], "-0.12345678901234567890");
        assert_eq!(value["c"], "9\\\"99999999999999999999");
        for text in [r#"{"a": 1.5e3, "b": 18446744073709551615, "c": "x"}"#, "[]", "{\"a\": -7}"] {
            assert!(matches!(with_long_numbers(text), Cow::Borrowed(_)), "{text}");
        }
        assert!(read("{\"a\": 1234567890123456789.5.5}").is_err());
        let nan = read(r#"{"a": NaN, "b": [-Infinity, Infinity, -1], "c": "NaN"}"#).unwrap();
        assert_eq!(nan.to_string(), r#"{"a":null,"b":[null,null,-1],"c":"NaN"}"#);
    }
}
