//! A file of completions to the records in it, whatever it is: JSON lines, a JSON document, CSV, Parquet, an `.eval`
//! log of Inspect's, a folder of TRL's; text may be packed with gzip or Zstandard. What a file is, its first bytes say;
//! only a table of lines has to be called so, and its first line says what separates the columns.

mod archive;
mod document;
mod folder;

use std::fmt;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read, Seek};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use tealight_core::lines::Lines;
use tealight_core::regular;
use tealight_datasets::read::{CsvRecords, ParquetRecords, parquet_records};
use tealight_datasets::unpack;

use crate::number::with_verb;
use archive::Archive;
use document::Document;

/// Bytes of the start of a file that say what it is.
const START: usize = 512;

/// A file of completions.
pub struct Source<'a> {
    name: String,
    records: Records<'a>,
    /// The files of a folder: which one is read, and those after it.
    member: Option<String>,
    rest: std::vec::IntoIter<PathBuf>,
    /// What the completions of the file that is read hash to.
    digest: Option<u64>,
    /// What is to be said of all of it.
    remark: Option<String>,
}

enum Records<'a> {
    Lines(Lines<Box<dyn BufRead + 'a>>),
    Document(Document<Box<dyn BufRead + 'a>>, usize),
    Csv(Box<CsvRecords<'a>>),
    Parquet(ParquetRecords, usize),
    Archive(Archive),
    /// None: those of a folder's first file are next.
    Ended,
}

pub(super) struct Record {
    pub(super) place: Place,
    pub(super) content: Content,
    /// Whether it is whole: the last line of a file that a crash cut off has no line feed.
    pub(super) is_whole: bool,
}

/// Where a record stands in its file.
pub(super) enum Place {
    Line(usize),
    Item(usize),
    Row(usize),
    Member(String),
    /// Behind all of it.
    End,
}

/// What a record is.
pub(super) enum Content {
    /// JSON, with its key where it stands in an object.
    Json(Vec<u8>, Option<String>),
    /// A row of a table.
    Row(Map<String, Value>),
}

impl Place {
    /// The file and the place in it, as messages name them.
    pub(super) fn in_file(&self, name: &str) -> String {
        match self {
            Self::Line(number) => format!("{name}:{number}"),
            Self::Item(number) => format!("{name}: record {number}"),
            Self::Row(number) => format!("{name}: row {number}"),
            Self::Member(member) => format!("{name}: {}", member.escape_debug()),
            Self::End => name.to_owned(),
        }
    }
}

impl Content {
    /// About the bytes and the values of it, keys included: what it takes while it is judged.
    pub(super) fn size(&self) -> (usize, usize) {
        fn value_size(value: &Value) -> (usize, usize) {
            match value {
                Value::String(text) => (text.len(), 1),
                Value::Array(items) => total(items.iter().map(value_size)),
                Value::Object(map) => map_size(map),
                _ => (8, 1),
            }
        }
        fn map_size(map: &Map<String, Value>) -> (usize, usize) {
            let entry = |(key, value): (&String, &Value)| {
                let (bytes, values) = value_size(value);
                (key.len() + bytes, values)
            };
            total(map.iter().map(entry))
        }
        fn total(sizes: impl Iterator<Item = (usize, usize)>) -> (usize, usize) {
            sizes.fold((0, 1), |sum, one| (sum.0 + one.0, sum.1 + one.1))
        }
        match self {
            Self::Json(bytes, _) => {
                (bytes.len(), bytes.iter().filter(|byte| **byte == b',').count())
            }
            Self::Row(row) => map_size(row),
        }
    }
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Source").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Source<'static> {
    /// Opens a file.
    ///
    /// # Errors
    /// A file that cannot be read, or whose kind is not known.
    pub fn open(path: &str) -> Result<Self> {
        if Path::new(path).is_dir() {
            let (files, remark) = folder::steps(path)?;
            let rest = files.into_iter();
            return Ok(Source { rest, remark, ..Source::of(path, Records::Ended) });
        }
        let file = File::open(path).with_context(|| format!("{path}: cannot be read"))?;
        Self::of_file(file, path)
    }

    /// Opens a file of a folder that a stranger may have made: a pipe there would never open.
    ///
    /// # Errors
    /// Those of [`open`](Self::open), and what is not a regular file.
    pub fn open_regular(path: &str) -> Result<Self> {
        let file = regular::open(Path::new(path));
        Self::of_file(file.with_context(|| format!("{path}: cannot be read"))?, path)
    }

    fn of_file(mut file: File, path: &str) -> Result<Self> {
        let unreadable = || format!("{path}: cannot be read");
        let start = start(&mut file).with_context(unreadable)?;
        if start.starts_with(regular::POINTER) {
            bail!("{path}: {}", regular::IS_POINTER);
        }
        let is_parquet = start.starts_with(b"PAR1");
        if !is_parquet && !start.starts_with(b"PK\x03\x04") {
            let reader = BufReader::with_capacity(1 << 20, Cursor::new(start).chain(file));
            return Source::new(reader, path);
        }
        file.rewind().with_context(|| format!("{path}: a pipe; name the file itself"))?;
        let records = match is_parquet {
            true => {
                let rows = parquet_records(file);
                let rows =
                    rows.map_err(|error| anyhow!("{path}: not a readable Parquet file: {error}"))?;
                Records::Parquet(rows, 0)
            }
            false => Records::Archive(Archive::open(file).with_context(|| path.to_owned())?),
        };
        Ok(Source::of(path, records))
    }
}

impl<'a> Source<'a> {
    /// Reads text, which may be packed; `name` is what messages call it.
    ///
    /// # Errors
    /// Bytes that cannot be read, or are no text that is known.
    pub fn new(reader: impl BufRead + 'a, name: &str) -> Result<Self> {
        let unreadable = || format!("{name}: cannot be read");
        let (start, reader) = unpack::opened(reader)
            .with_context(unreadable)?
            .map_err(|what| anyhow!("{name}: {what}"))?;
        if start.starts_with(b"PAR1") || start.starts_with(b"PK\x03\x04") {
            bail!(
                "{name}: Parquet files and .eval logs are read from a file that is named, not packed and not from a pipe"
            );
        }
        if let Some(what) = unpack::no_text(&start) {
            bail!("{name}: {what}");
        }
        let records = match kind(&start, name) {
            Kind::Csv => {
                let is_tsv = name.to_lowercase().contains(".tsv");
                let records = CsvRecords::new(reader, is_tsv);
                Records::Csv(Box::new(records.map_err(|why| anyhow!("{name}: {why}"))?))
            }
            Kind::Document => Records::Document(Document::new(reader), 0),
            Kind::Lines => Records::Lines(Lines::new(reader)),
        };
        Ok(Self::of(name, records))
    }

    fn of(name: &str, records: Records<'a>) -> Self {
        let rest = Vec::new().into_iter();
        Self { name: name.to_owned(), records, member: None, rest, digest: None, remark: None }
    }

    /// What messages call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is to be said of all of it, once all records were read: of a run that did not end, of headers in a
    /// table, of several steps.
    pub(super) fn remark(&self) -> Option<String> {
        match &self.records {
            Records::Document(document, _) => document.unfinished.clone(),
            Records::Archive(archive) => archive.unfinished.clone(),
            Records::Csv(csv) if csv.headers > 0 => Some(format!(
                "{} left out: the file seems to be a concatenation of tables",
                with_verb(csv.headers, "repeated header row", "are")
            )),
            _ => self.remark.clone(),
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Record>> {
        loop {
            let record = self.next_of_file()?;
            if record.is_some() || !self.open_next()? {
                return Ok(record);
            }
        }
    }

    /// Opens the next file of a folder that has other completions than the one before; false where there is none.
    fn open_next(&mut self) -> Result<bool> {
        for path in self.rest.by_ref() {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let open = || Source::open_regular(&path.display().to_string());
            let Records::Parquet(rows, _) = open()?.records else {
                bail!("{}: not a Parquet file", path.display());
            };
            let digest =
                folder::digest(rows).map_err(|why| anyhow!("{}: {why}", path.display()))?;
            if self.digest.replace(digest) == Some(digest) {
                let repeated = format!(
                    "; {} has the completions of the step before (num_iterations or steps_per_generation above 1) \
                     and is left out",
                    name.unwrap_or_default().escape_debug()
                );
                self.remark.get_or_insert_default().push_str(&repeated);
                continue;
            }
            self.records = open()?.records;
            self.member = name;
            return Ok(true);
        }
        Ok(false)
    }

    fn next_of_file(&mut self) -> Result<Option<Record>> {
        let name = &self.name;
        let whole =
            |place: Place, content: Content| Some(Record { place, content, is_whole: true });
        Ok(match &mut self.records {
            Records::Lines(lines) => {
                match lines.next_filled().transpose().with_context(|| name.clone())? {
                    None => None,
                    Some(line) => Some(Record {
                        place: Place::Line(line.number),
                        content: Content::Json(line.bytes, None),
                        is_whole: line.is_whole,
                    }),
                }
            }
            Records::Document(document, number) => {
                *number += 1;
                let item = document.next();
                let item =
                    item.map_err(|why| anyhow!("{}: {why}", Place::Item(*number).in_file(name)))?;
                item.and_then(|item| {
                    whole(Place::Item(*number), Content::Json(item.bytes, item.key))
                })
            }
            Records::Csv(csv) => {
                let row = csv.row().map_err(|(line, why)| match line {
                    Some(line) => anyhow!("{}: {why}", Place::Line(line).in_file(name)),
                    None => anyhow!("{name}: {why}"),
                })?;
                row.and_then(|(line, mut row)| {
                    // An empty cell is none.
                    row.values_mut()
                        .filter(|cell| **cell == "")
                        .for_each(|cell| *cell = Value::Null);
                    whole(Place::Line(line), Content::Row(row))
                })
            }
            Records::Parquet(rows, number) => {
                *number += 1;
                let row = rows.next().transpose();
                let place = match &self.member {
                    Some(member) => Place::Member(format!("{member}: row {number}")),
                    None => Place::Row(*number),
                };
                let row = row.map_err(|why| anyhow!("{}: {why}", place.in_file(name)))?;
                row.and_then(|row| whole(place, Content::Row(row)))
            }
            Records::Ended => None,
            Records::Archive(archive) => match archive.next() {
                None => None,
                Some((member, bytes)) => {
                    let place = Place::Member(member);
                    let bytes = bytes.with_context(|| place.in_file(name))?;
                    whole(place, Content::Json(bytes, None))
                }
            },
        })
    }
}

#[derive(Debug, PartialEq)]
enum Kind {
    Lines,
    Document,
    Csv,
}

/// Extensions of tables whose rows are lines.
const TABLES: [&str; 3] = [".csv", ".tsv", ".tab"];

/// What a text is, by its start and its name.
fn kind(start: &[u8], name: &str) -> Kind {
    let lower = name.to_lowercase();
    let bare = lower.strip_suffix(".gz").or(lower.strip_suffix(".zst")).unwrap_or(&lower);
    if TABLES.iter().any(|extension| bare.ends_with(extension)) {
        return Kind::Csv;
    }
    match start.trim_ascii_start() {
        [b'[', ..] => Kind::Document,
        // Its first line may be whole or not.
        [b'{', ..] if bare.ends_with(".json") => Kind::Document,
        // An object over several lines; one that is a line of its own has more behind its brace.
        [b'{', rest @ ..]
            if rest.iter().find(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) == Some(&b'\n') =>
        {
            Kind::Document
        }
        _ => Kind::Lines,
    }
}

fn start(reader: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(START);
    reader.take(START as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// Whether a record ends in the middle: one that is whole and wrong was not cut off.
pub(super) fn is_cut_off(error: &anyhow::Error) -> bool {
    error.downcast_ref::<serde_json::Error>().is_some_and(serde_json::Error::is_eof)
        || error.is::<std::str::Utf8Error>()
}
