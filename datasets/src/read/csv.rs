//! CSV files with a header line to rows.

use std::collections::HashSet;
use std::io::{self, BufRead, Cursor, Read};
use std::path::Path;

use serde_json::{Map, Value};
use tealight_core::display::shortened;
use tealight_core::lines::MAX_LINE;
use tealight_core::names::extension;

use super::{Row, text};
use crate::{DataError, Result};

/// What may separate columns, the usual first: a header without a comma is another program's, as European Excel's.
const SEPARATORS: [u8; 4] = *b",\t;|";

/// Bytes of the start of a file that say what separates its columns.
const START: u64 = 64 << 10;

/// What separates the columns of a table by its start, and the bytes before the header: a line `sep=;` of Excel's says
/// it; else it is the sign by which the header has most columns and the first row as many. `is_tsv`: by the name.
fn separator(start: &[u8], is_tsv: bool) -> (u8, usize) {
    if let [b's', b'e', b'p', b'=', separator, ..] = start {
        let end = start.iter().position(|byte| *byte == b'\n');
        return (*separator, end.map_or(start.len(), |end| end + 1));
    }
    let columns = |separator: u8| {
        let mut builder = csv::ReaderBuilder::new();
        let mut reader = builder.delimiter(separator).flexible(true).from_reader(start);
        let header = reader.byte_headers().map_or(0, csv::ByteRecord::len);
        let mut row = csv::ByteRecord::new();
        let is_read = reader.read_byte_record(&mut row).is_ok_and(|is_there| is_there);
        // A row that the start cuts off says nothing.
        let is_whole = is_read
            && (start.ends_with(b"\n") || (reader.position().byte() as usize) < start.len());
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

/// Most columns, as Excel's: each row has the names of all.
const MAX_COLUMNS: usize = 16_384;

/// Longest name of a column: texts of a table without a header are longer.
const MAX_NAME: usize = 1000;

/// Line breaks put behind a table. They are no row, but within a quote that was never closed they end a cell.
const END: [u8; 8] = [b'\n'; 8];

/// One byte more than a row may have.
const TOO_LONG: u64 = MAX_LINE as u64 + 1;

/// The rows of a table of lines with a header, one at a time, each within the limit of a line. Rows of empty cells, as
/// spreadsheets write them, and further headers, as tables have them that were joined, are left out.
pub struct CsvRecords<'a> {
    records: csv::StringRecordsIntoIter<io::Take<Box<dyn Read + 'a>>>,
    separator: u8,
    header: csv::StringRecord,
    /// The line that the next row begins in, at least: the parser does not count all line breaks.
    line: usize,
    /// Headers that were left out.
    pub headers: usize,
}

/// A line and its row by the names of the columns, or none at the end; or why there is none, and the line where it is
/// known.
type CsvRow = std::result::Result<Option<(usize, Map<String, Value>)>, (Option<usize>, String)>;

impl<'a> CsvRecords<'a> {
    /// Reads the header of a table; `is_tsv`: by the name of the file.
    ///
    /// # Errors
    /// A header that cannot be read, names a column twice, has more than `MAX_COLUMNS` columns, or names that
    /// are texts.
    pub fn new(mut text: impl BufRead + 'a, is_tsv: bool) -> std::result::Result<Self, String> {
        let mut start = Vec::new();
        let read = text.by_ref().take(START).read_to_end(&mut start);
        read.map_err(|error| error.to_string())?;
        let (separator, skipped) = separator(&start, is_tsv);
        start.drain(..skipped);
        let text: Box<dyn Read + 'a> = Box::new(Cursor::new(start).chain(text).chain(&END[..]));
        let mut reader =
            csv::ReaderBuilder::new().delimiter(separator).from_reader(text.take(TOO_LONG));
        let header = reader.headers().cloned();
        // Before other errors: what was cut off may be no UTF-8, or have other columns.
        if reader.get_ref().limit() == 0 {
            return Err(too_long());
        }
        let header = header.map_err(|error| row_error(&error, separator))?;
        let line = 2 + header.iter().map(breaks).sum::<usize>();
        let header: csv::StringRecord = header.iter().map(str::trim).collect();
        if header.len() > MAX_COLUMNS {
            return Err(format!("{} columns, above the limit of {MAX_COLUMNS}", header.len()));
        }
        if let Some(name) = header.iter().find(|name| name.len() > MAX_NAME) {
            let name = shortened(&name.escape_debug().to_string(), 60);
            return Err(format!(
                "a column name of more than {MAX_NAME} bytes (`{name}`): the first line has to name the columns"
            ));
        }
        // Programs differ in which of them counts.
        let mut seen = HashSet::new();
        if let Some(twice) = header.iter().find(|name| !name.is_empty() && !seen.insert(*name)) {
            let twice = twice.escape_debug();
            return Err(format!("the column `{twice}` occurs twice in the header: rename one"));
        }
        let records = reader.into_records();
        Ok(Self { records, separator, header, line, headers: 0 })
    }

    /// The next row.
    pub fn row(&mut self) -> CsvRow {
        loop {
            self.records.reader_mut().get_mut().set_limit(TOO_LONG);
            let record = self.records.next().transpose();
            if self.records.reader().get_ref().limit() == 0 {
                return Err((None, too_long()));
            }
            let failed = |error: csv::Error| {
                let line = error.position().map(|position| position.line() as usize);
                (line, row_error(&error, self.separator))
            };
            let Some(record) = record.map_err(failed)? else { return Ok(None) };
            let line = record.position().map_or(0, |at| at.line() as usize).max(self.line);
            let ends = |cell: &str| cell.as_bytes().ends_with(&END);
            if record.iter().next_back().is_some_and(ends) {
                let why = "a quote that begins in this row is never closed: close it, or double it (\"\") within \
                           quotes";
                return Err((Some(line), why.into()));
            }
            self.line = line + 1 + record.iter().map(breaks).sum::<usize>();
            let is_header = record.iter().map(str::trim).eq(&self.header);
            self.headers += usize::from(is_header);
            if !is_header && (record.len() == 1 || record.iter().any(|one| !one.trim().is_empty()))
            {
                let cells = record.iter().map(|cell| Value::String(cell.to_owned()));
                let names = self.header.iter().map(str::to_owned);
                return Ok(Some((line, names.zip(cells).collect())));
            }
        }
    }
}

/// The line breaks in a cell.
fn breaks(cell: &str) -> usize {
    cell.bytes().filter(|byte| *byte == b'\n').count()
}

/// In how many parts of digits a sign divides a number.
fn parts(text: &str, sign: char) -> Option<usize> {
    let bare = text.trim().trim_start_matches(['-', '+']);
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    bare.split(sign).all(is_number).then(|| bare.split(sign).count())
}

/// Writes `3,5` as `3.5` in a column of numbers, as tables separated by `;` have them: not in one with lists of three
/// numbers, or with decimal points.
fn read_decimal_commas(rows: &mut [Row], name: &str) {
    let is = |row: &Row, sign: char, is: fn(usize) -> bool| {
        parts(row.text(name).unwrap_or_default(), sign).is_some_and(is)
    };
    if rows.iter().any(|row| is(row, ',', |count| count > 2)) {
        return;
    }
    if rows.iter().any(|row| is(row, '.', |count| count == 2)) {
        let lists = rows.iter_mut().filter(|row| is(row, ',', |count| count == 2));
        lists.for_each(|row| row.listed.push(name.to_owned()));
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

/// Why a row is refused that is longer than a line may be.
pub(super) fn too_long() -> String {
    format!("a row of more than {MAX_LINE} bytes, the limit")
}

/// Why a row cannot be read, and what to do.
fn row_error(error: &csv::Error, separator: u8) -> String {
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

/// The first `limit` rows of a file.
pub(super) fn rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    let refused = |what| DataError::File { path: path.into(), what };
    let mut records = CsvRecords::new(text(path)?, extension(path) == "tsv").map_err(refused)?;
    let failed = |(line, what)| match line {
        Some(line) => DataError::Malformed { path: path.into(), line, what },
        None => refused(what),
    };
    let mut rows = Vec::new();
    while rows.len() < limit
        && let Some((line, values)) = records.row().map_err(failed)?
    {
        rows.push(Row::new(line, values));
    }
    if records.separator == b';' {
        records.header.iter().for_each(|name| read_decimal_commas(&mut rows, name));
    }
    Ok(rows)
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
    fn headers_and_empty_rows_of_joined_tables_are_no_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        std::fs::write(&path, "q,gold\nx,2\nq , gold\n,\nq,3\n").unwrap();
        // Nor does it count among the rows that are wanted.
        let read = rows(&path, 2).unwrap();
        let lines: Vec<_> =
            read.iter().map(|row| (row.line, row.values["gold"].as_str())).collect();
        assert_eq!(lines, [(2, Some("2")), (5, Some("3"))]);
    }

    #[test]
    fn a_quote_that_is_never_closed_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv");
        for (table, refused) in [
            ("q,gold\nx,2\ny,\"7 inches\nz,3\n", Some("a.csv:3: a quote")),
            ("q,gold\nx,2\ny,\"7", Some("a.csv:3: a quote")),
            ("q,gold\nx,2\ny,\"a\n\n\"", None),
            ("q,gold\nx,2\ny,7\" long\n\n\n", None),
        ] {
            std::fs::write(&path, table).unwrap();
            let read = rows(&path, 9).map(|rows| rows.len());
            match refused {
                Some(words) => {
                    let message = read.unwrap_err().to_string();
                    assert!(message.contains(words), "{message}");
                }
                None => assert_eq!(read.unwrap(), 2, "{table}"),
            }
        }
    }

    #[test]
    fn more_columns_than_a_table_has_and_longer_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("wide.csv");
        for (count, is_read) in [(16_383, true), (16_384, false)] {
            let names: String = (0..count).map(|at| format!("c{at},")).collect();
            std::fs::write(&path, format!("{names}q\n{}2\n", ",".repeat(count))).unwrap();
            assert_eq!(rows(&path, 9).is_ok_and(|rows| rows[0].values["q"] == "2"), is_read);
        }
        // As of a table without a header.
        std::fs::write(&path, format!("q,{}\n1,2\n", "name ".repeat(300))).unwrap();
        assert!(rows(&path, 9).err().unwrap().to_string().contains("name the columns"));
    }
}
