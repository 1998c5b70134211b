//! The rows of an untrusted Parquet file, one at a time, read in a thread with a budget of memory.
//!
//! Each row stays the thread's own until it was copied: what the thread gives back counts as given back, so that the
//! budget is one of the memory at a time and not of the whole file.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, channel, sync_channel};
use std::time::Duration;

use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::{Map, Value};

use super::csv::too_long;
use super::parquet::Schema;
use tealight_core::guard;
use tealight_core::lines::MAX_LINE;

/// How long one row may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// A row, nothing where the file was opened, or why there is none.
type Sent = Result<Option<Arc<Map<String, Value>>>, String>;

/// Reads the rows of a Parquet file; the last one may be an error.
#[derive(Debug)]
pub struct Records {
    rows: Receiver<Sent>,
    copied: Sender<()>,
    is_done: bool,
}

/// The rows of an open Parquet file, one after the other, as JSON objects.
///
/// # Errors
/// A file that is not Parquet, or that its reader does not survive.
pub fn records(file: File) -> Result<Records, String> {
    const WHAT: &str = "its rows";
    let bytes = guard::memory_for(file.metadata().map_err(|error| error.to_string())?.len());
    let (send, rows) = sync_channel(1);
    let (copied, taken) = channel();
    let failed = send.clone();
    let guarded = move || {
        let work = move || stream(file, &send, &taken);
        // Between rows this waits for whoever judges them.
        if let Err(refused) = guard::guarded(WHAT, bytes, Duration::MAX, work) {
            drop(failed.send(Err(refused.to_string())));
        }
    };
    std::thread::Builder::new().spawn(guarded).map_err(|error| error.to_string())?;
    let mut records = Records { rows, copied, is_done: false };
    records.wait()?;
    Ok(records)
}

impl Records {
    fn wait(&mut self) -> Result<Option<Arc<Map<String, Value>>>, String> {
        let sent = match self.rows.recv_timeout(PATIENCE) {
            Ok(sent) => sent,
            Err(RecvTimeoutError::Disconnected) => Ok(None),
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it takes longer than {} s, the limit", PATIENCE.as_secs()))
            }
        };
        self.is_done = sent.is_err();
        sent
    }
}

impl Iterator for Records {
    type Item = Result<Map<String, Value>, String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let row = match self.wait() {
            Ok(row) => row?,
            Err(why) => return Some(Err(why)),
        };
        let copy = Map::clone(&row);
        // Before the thread is told: it gives the memory back.
        drop(row);
        let _ = self.copied.send(());
        Some(Ok(copy))
    }
}

/// Sends every row, each after the one before it was copied.
fn stream(file: File, rows: &SyncSender<Sent>, taken: &Receiver<()>) {
    let reader = match SerializedFileReader::new(file) {
        Ok(reader) => reader,
        Err(error) => return drop(rows.send(Err(error.to_string()))),
    };
    if rows.send(Ok(None)).is_err() {
        return;
    }
    let schema = Schema::new(reader.metadata().file_metadata());
    for row in reader {
        let row = match row.map(|row| schema.object(&row)) {
            Err(error) => return drop(rows.send(Err(error.to_string()))),
            Ok(row) if row.values().map(size).fold(0, usize::saturating_add) > MAX_LINE => {
                return drop(rows.send(Err(too_long())));
            }
            Ok(row) => Arc::new(row),
        };
        if rows.send(Ok(Some(row.clone()))).is_err() || taken.recv().is_err() {
            return;
        }
    }
}

/// Bytes of the texts of a value, and some for each of its other parts.
fn size(value: &Value) -> usize {
    const PART: usize = 8;
    match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(size).fold(PART, usize::saturating_add),
        Value::Object(map) => map.values().map(size).fold(PART, usize::saturating_add),
        _ => PART,
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use std::path::Path;

    use parquet::basic::Compression;
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::{EnabledStatistics, WriterProperties};
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    /// Writes a file with a column of texts and, where the schema has another one, of numbers; `features` is what
    /// `datasets` notes of the columns.
    pub(in crate::read) fn write(
        path: &Path,
        schema: &str,
        features: Option<&str>,
        texts: &[&str],
        numbers: &[i64],
    ) {
        let schema = parse_message_type(schema).unwrap();
        let metadata = features.map(|it| vec![KeyValue::new("huggingface".into(), it.to_owned())]);
        let settings = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::None)
            .set_key_value_metadata(metadata)
            .build();
        let output = File::create(path).unwrap();
        let mut writer =
            SerializedFileWriter::new(output, Arc::new(schema), Arc::new(settings)).unwrap();
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let texts: Vec<ByteArray> = texts.iter().map(|text| ByteArray::from(*text)).collect();
        column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
        column.close().unwrap();
        if let Some(mut column) = group.next_column().unwrap() {
            column.typed::<Int64Type>().write_batch(numbers, None, None).unwrap();
            column.close().unwrap();
        }
        group.close().unwrap();
        writer.close().unwrap();
    }

    const TEXTS: &str = "message row { required binary text (UTF8); }";

    #[test]
    fn rows_come_in_order_and_a_reader_that_stops_early_stops_the_thread() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let texts: Vec<String> = (0..100).map(|number| number.to_string()).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        write(&path, TEXTS, None, &texts, &[]);
        let read: Vec<_> = records(File::open(&path).unwrap()).unwrap().collect();
        assert_eq!(read.len(), 100);
        assert_eq!(read[42].as_ref().unwrap()["text"], "42");
        assert!(records(File::open(&path).unwrap()).unwrap().next().unwrap().is_ok());
        std::fs::write(&path, "PAR1 and no more").unwrap();
        assert!(records(File::open(&path).unwrap()).is_err());
    }

    #[test]
    fn a_row_larger_than_a_line_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let long = "x".repeat(MAX_LINE + 1);
        write(&path, TEXTS, None, &["short", &long], &[]);
        assert!(std::fs::metadata(&path).unwrap().len() < 8 << 20, "a small file");
        let read: Vec<_> = records(File::open(&path).unwrap()).unwrap().collect();
        assert!(read[0].is_ok() && read.len() == 2);
        assert!(read[1].as_ref().unwrap_err().contains("a row of more than"));
    }

    #[test]
    fn reader_panics_are_errors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/fixtures/panics.parquet");
        let why = match records(File::open(path).unwrap()) {
            Err(why) => why,
            Ok(read) => read.filter_map(std::result::Result::err).next().unwrap(),
        };
        assert!(why.contains("does not survive"), "{why}");
    }
}
