//! CSV files with a header line to rows.

use std::collections::HashSet;
use std::io::Read;
use std::path::Path;

use serde_json::Value;

use tealight_core::names::extension;

use super::{Row, text};
use crate::{DataError, Result};

/// What may separate columns, the usual first: a header without a comma is another program's, as European Excel's.
const SEPARATORS: [u8; 4] = *b",\t;|";

/// Bytes of the start of a file that say what separates its columns.
const START: u64 = 64 << 10;

/// What separates the columns of a table by its start, and the bytes before the header: a line `sep=;` of Excel's says
/// it; else it is the sign by which the header has most columns and the first row as many. `is_tsv`: by the name.
pub fn separator(start: &[u8], is_tsv: bool) -> (u8, usize) {
    let text = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start);
    let mark = start.len() - text.len();
    if let [b's', b'e', b'p', b'=', separator, ..] = text {
        let line = text.iter().position(|byte| *byte == b'\n').map_or(text.len(), |end| end + 1);
        return (*separator, mark + line);
    }
    let columns = |separator: u8| {
        let mut builder = csv::ReaderBuilder::new();
        let mut reader = builder.delimiter(separator).flexible(true).from_reader(text);
        let header = reader.byte_headers().map_or(0, csv::ByteRecord::len);
        let mut row = csv::ByteRecord::new();
        let is_read = reader.read_byte_record(&mut row).is_ok_and(|is_there| is_there);
        // A row that the start cuts off says nothing.
        let is_whole =
            is_read && (text.ends_with(b"\n") || (reader.position().byte() as usize) < text.len());
        (!is_whole || row.len() == header, header)
    };
    let mut order = SEPARATORS;
    if is_tsv {
        order.swap(0, 1);
    }
    let all = order.into_iter().rev().map(|separator| (separator, columns(separator)));
    // A line of prose has a sign or two as well.
    let some = all.filter(|(sign, (is_equal, header))| {
        *header > 1 && (*is_equal || *sign == order[0] || *header > 2)
    });
    let best = some.max_by_key(|(_, columns)| *columns);
    // One column: the usual sign.
    (best.map_or(order[0], |(separator, _)| separator), 0)
}

/// Refuses a header of more columns than a program for tables writes: each row has the names of all.
pub fn check_columns(count: usize) -> std::result::Result<(), String> {
    /// As Excel's.
    const MAX_COLUMNS: usize = 16_384;
    match count <= MAX_COLUMNS {
        true => Ok(()),
        false => Err(format!("{count} columns; {MAX_COLUMNS} are the limit")),
    }
}

/// Why a row cannot be read, and what to do.
pub fn row_error(error: &csv::Error, separator: u8) -> String {
    match error.kind() {
        csv::ErrorKind::UnequalLengths { expected_len, len, .. } => format!(
            "{len} columns where the header has {expected_len}: put cells that contain `{}`, a quote or a line break \
             into \"double quotes\"",
            char::from(separator).escape_debug()
        ),
        csv::ErrorKind::Utf8 { .. } => "not UTF-8: save it as UTF-8".into(),
        _ => error.to_string(),
    }
}

pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let unreadable =
        |error: std::io::Error| DataError::File { path: path.into(), what: error.to_string() };
    let (mut text, mut start) = (text(path)?, Vec::new());
    text.by_ref().take(START).read_to_end(&mut start).map_err(unreadable)?;
    let (separator, skipped) = separator(&start, extension(path) == "tsv");
    let whole = start.get(skipped..).unwrap_or_default().chain(text);
    let mut builder = csv::ReaderBuilder::new();
    let mut reader = builder.delimiter(separator).from_reader(whole);
    let header = reader.headers().map_err(|error| DataError::File {
        path: path.into(),
        what: row_error(&error, separator),
    })?;
    let header: csv::StringRecord = header.iter().map(str::trim).collect();
    check_columns(header.len()).map_err(|what| DataError::File { path: path.into(), what })?;
    // Programs differ in which of them counts.
    let mut seen = HashSet::new();
    if let Some(twice) = header.iter().find(|name| !name.is_empty() && !seen.insert(*name)) {
        let what = format!("column `{twice}` occurs twice in the header: rename one");
        return Err(DataError::File { path: path.into(), what });
    }
    let (mut rows, mut last) = (Vec::<Row>::new(), 0);
    for record in reader.records().take(limit) {
        let record = record.map_err(|error| DataError::Malformed {
            path: path.into(),
            line: error.position().map_or(0, |position| position.line() as usize),
            what: row_error(&error, separator),
        })?;
        // Only line feeds are counted, and some files have none.
        last = record.position().map_or(0, |position| position.line() as usize).max(last + 1);
        // Tables that were joined have the header again.
        if record.iter().map(str::trim).eq(&header) {
            continue;
        }
        let cells = record.iter().map(|cell| Value::String(cell.into()));
        rows.push(Row::new(last, header.iter().map(String::from).zip(cells).collect()));
    }
    if separator == b';' {
        header.iter().for_each(|name| read_decimal_commas(&mut rows, name));
    }
    Ok(rows)
}

/// Writes `3,5` as `3.5` in a column of numbers, as tables separated by `;` have them: not in one with lists of three
/// numbers, or with decimal points.
fn read_decimal_commas(rows: &mut [Row], name: &str) {
    let parts = |text: &str, sign: char| {
        let bare = text.trim().trim_start_matches(['-', '+']);
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        bare.split(sign).all(is_number).then(|| bare.split(sign).count())
    };
    let is_other = |row: &Row| {
        let text = row.text(name).unwrap_or_default();
        parts(text, ',').is_some_and(|count| count > 2) || parts(text, '.') == Some(2)
    };
    if rows.iter().any(is_other) {
        return;
    }
    for row in rows {
        if let Some(Value::String(text)) = row.values.get_mut(name)
            && parts(text, ',') == Some(2)
        {
            *text = text.replace(',', ".");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_are_those_by_which_header_and_rows_have_as_many_columns() {
        for (start, is_tsv, expected) in [
            ("id,gold\n1,2\n", false, (b',', 0)),
            ("id;gold\n1;\"a, b\"\n", false, (b';', 0)),
            ("id;what, is, it\n2;x\n", false, (b';', 0)),
            ("id,\"a;b;c;d\",gold\n1,2,3\n", false, (b',', 0)),
            ("id\tgold, or not\n1\t2\n", false, (b'\t', 0)),
            ("id,x\tgold\n1,2\t3\n", true, (b'\t', 0)),
            ("id,x\tgold\n1,2\t3\n", false, (b',', 0)),
            ("id|gold\n", false, (b'|', 0)),
            ("gold\n1;2\n", false, (b',', 0)),
            ("sep=;\nid;gold\n", false, (b';', 6)),
            ("\u{feff}sep=;\r\nid;gold\r\n", false, (b';', 10)),
            // The start ends within the first row.
            ("id;gold;text\n1;2", false, (b';', 0)),
            ("id,gold\n1,2,3\n", false, (b',', 0)),
            ("id;gold;text\n1;2\n", false, (b';', 0)),
            ("Prompt; one per line\nWhat is it?\n", false, (b',', 0)),
            ("", false, (b',', 0)),
        ] {
            assert_eq!(separator(start.as_bytes(), is_tsv), expected, "{start}");
        }
    }

    #[test]
    fn decimal_commas_are_those_of_tables_separated_by_semicolons() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        for (table, expected) in [
            ("q;gold\nx;2\ny;-3,5\n", "-3.5"),
            ("q;gold\nx;1,2,3\ny;3,5\n", "3,5"),
            ("q;gold\nx;0.5\ny;3,5\n", "3,5"),
            ("q,gold\nx,2\ny,\"3,5\"\n", "3,5"),
        ] {
            std::fs::write(&path, table).unwrap();
            assert_eq!(rows(&path, 9).unwrap()[1].values["gold"], expected, "{table}");
        }
    }

    #[test]
    fn the_header_of_a_joined_table_is_no_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "q,gold\nx,2\nq , gold\nq,3\n").unwrap();
        let read = rows(&path, 9).unwrap();
        let lines: Vec<_> =
            read.iter().map(|row| (row.line, row.values["gold"].as_str())).collect();
        assert_eq!(lines, [(2, Some("2")), (4, Some("3"))]);
    }

    #[test]
    fn more_columns_than_a_table_has_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.csv");
        for (count, is_read) in [(16_383, true), (16_384, false)] {
            let names: String = (0..count).map(|at| format!("c{at},")).collect();
            std::fs::write(&path, format!("{names}q\n{}2\n", ",".repeat(count))).unwrap();
            assert_eq!(rows(&path, 9).is_ok_and(|rows| rows[0].values["q"] == "2"), is_read);
        }
    }
}
