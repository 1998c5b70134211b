//! Rows of a table of lines, by the names of its columns.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{self, BufRead, Read};
use std::rc::Rc;

use anyhow::{Error, Result, bail};
use serde_json::{Map, Value};
use tealight_core::lines::MAX_LINE;
use tealight_datasets::read::{check_columns, row_error, separator};

/// Rows of a CSV file with a header, each within the limit of a line; an empty cell is none.
pub(super) struct Csv<'a> {
    records: csv::StringRecordsIntoIter<Box<dyn Read + 'a>>,
    separator: u8,
    header: Vec<String>,
    /// The line that the next row begins in, at least: the parser does not count all line breaks.
    line: usize,
    /// What may still be read for this row.
    left: Rc<Cell<usize>>,
}

/// A line number, and the values of its row by column.
pub(super) type CsvRow = (usize, Map<String, Value>);

impl<'a> Csv<'a> {
    pub(super) fn new(mut reader: Box<dyn BufRead + 'a>, is_tsv: bool) -> Result<Self> {
        let left = Rc::new(Cell::new(MAX_LINE));
        let (separator, skipped) = separator(reader.fill_buf()?, is_tsv);
        reader.consume(skipped);
        let limited: Box<dyn Read + 'a> = Box::new(Limited { reader, left: left.clone() });
        let mut reader = csv::ReaderBuilder::new().delimiter(separator).from_reader(limited);
        let header: Vec<String> =
            reader.headers()?.iter().map(|name| name.trim().to_owned()).collect();
        check_columns(header.len()).map_err(Error::msg)?;
        let mut seen = HashSet::new();
        if let Some(twice) = header.iter().find(|name| !seen.insert(name.as_str())) {
            bail!("the column `{}` occurs twice in the header", twice.escape_debug());
        }
        let line = 2 + header.iter().map(|name| breaks(name)).sum::<usize>();
        Ok(Self { records: reader.into_records(), separator, header, line, left })
    }

    /// The next row and its line; or why there is none, and the line where it is known.
    pub(super) fn next(&mut self) -> Result<Option<CsvRow>, (Option<usize>, String)> {
        self.left.set(MAX_LINE);
        let separator = self.separator;
        let failed = |error: csv::Error| {
            let line = error.position().map(|position| position.line() as usize);
            (line, row_error(&error, separator))
        };
        let record = loop {
            let Some(record) = self.records.next().transpose().map_err(failed)? else {
                return Ok(None);
            };
            let line = record.position().map_or(0, |position| position.line() as usize);
            self.line = self.line.max(line) + 1 + record.iter().map(breaks).sum::<usize>();
            // Spreadsheets write rows of empty cells.
            if record.len() == 1 || record.iter().any(|cell| !cell.trim().is_empty()) {
                break record;
            }
        };
        let line = self.line - 1 - record.iter().map(breaks).sum::<usize>();
        let cell = |cell: &str| if cell.is_empty() { Value::Null } else { Value::from(cell) };
        let row = self.header.iter().cloned().zip(record.iter().map(cell)).collect();
        Ok(Some((line, row)))
    }
}

/// The line breaks in a cell.
fn breaks(cell: &str) -> usize {
    cell.bytes().filter(|byte| *byte == b'\n').count()
}

struct Limited<R> {
    reader: R,
    left: Rc<Cell<usize>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        let Some(left) = self.left.get().checked_sub(count) else {
            return Err(io::Error::other(format!(
                "a row of more than {MAX_LINE} bytes, the limit"
            )));
        };
        self.left.set(left);
        Ok(count)
    }
}
