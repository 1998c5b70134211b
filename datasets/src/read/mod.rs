//! Files to problems: JSONL, JSON, CSV and Parquet, with columns detected or named.
//!
//! Every format yields rows of named JSON values; the rest of this file turns rows into
//! [`Problem`](crate::Problem)s. To read another format, add a file with a `rows` function and one arm in `read_rows`.

mod better_answer;
mod chat;
mod choice_columns;
mod choice_keys;
mod choice_marks;
mod choices;
mod countdown;
mod csv;
mod folder;
mod gold_value;
mod json;
mod judgement;
mod known_columns;
mod layout;
mod learned;
mod names;
mod no_answers;
mod notes;
mod parquet;
mod pictures;
mod problem;
mod reasoning_gym;
mod records;
mod right_choices;
mod second_question;
mod shapes;
mod text;
mod text_to_sql;
mod unused;
mod variables;

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use tealight_core::names::{FORMATS, extension};

use crate::prompting::BOXED;
use crate::verify::{self, math};
use crate::{DataError, Dataset, Prompting, Result, Rewards};
use json::json_array;
use layout::Layout;
use problem::Read as RowRead;
use text::{file, text};

pub use self::csv::CsvRecords;
pub use better_answer::REFERENCES;
pub use chat::known_role;
pub(crate) use folder::files_in;
pub(crate) use gold_value::is_same;
pub use gold_value::why_no_gold;
pub use json::with_long_numbers;
pub use judgement::{VERDICTS, said};
use known_columns::list;
pub use known_columns::{ANSWERS, SOLUTIONS};
pub use names::words;
pub use no_answers::{other_kind, why_no_answer};
pub use records::{Records as ParquetRecords, records as parquet_records};

/// How a file is read: which columns hold what, and what checks answers; `None` is detected. A dot
/// descends into a nested object; a comma joins several columns by a blank.
#[derive(Debug, Clone, Default)]
pub struct Columns {
    /// The question or the chat messages.
    pub prompt: Option<String>,
    /// The reference answer, or a worked solution that ends in one.
    pub answer: Option<String>,
    /// The verifier of completions; the source's own where none is named.
    pub rewards: Rewards,
    /// How the problems are put to a model.
    pub prompting: Prompting,
    /// What the problems are for.
    pub purpose: Purpose,
}

/// What problems are read for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Purpose {
    /// Completions are judged by the gold answers: rows without one are left out.
    #[default]
    Judge,
    /// The solutions are imitated: a gold answer need not be readable.
    Imitate,
}

impl Columns {
    /// Whether the verifiers take gold answers in any form: a program knows what its column means.
    fn takes_any_gold(&self) -> bool {
        let all = &self.rewards.verifiers;
        !all.is_empty() && all.iter().all(|spec| is_program(spec))
    }

    /// Whether a verifier is given the columns of rows.
    fn are_read(&self) -> bool {
        self.rewards.verifiers.iter().any(|spec| is_program(spec))
    }
}

/// Whether a verifier is a program or a function of the user's.
fn is_program(spec: &str) -> bool {
    verify::reads(spec) == Some(verify::Reads::Program)
}

/// Rows that the meaning of columns is found from, at least, where a file has as many.
const LOOKED_AT: usize = 1000;

/// One row and where it stands: line or row, counted from 1, of a file, counted from 0.
struct Row {
    file: usize,
    /// Where it stands in its file, for messages, and which row of the file it is, from 1.
    line: usize,
    number: usize,
    values: Map<String, Value>,
    /// The column with the ids of all rows, where one of [`IDS`] differs in every row.
    ids: Option<&'static str>,
    /// The column of [`PARTS`] by which rows with one id differ.
    part: Option<&'static str>,
    /// Columns whose `3,5` is a list and may be a decimal comma.
    listed: Vec<String>,
}

/// Keys of a problem's id, in a dataset and in a record of completions.
pub const IDS: [&str; 10] =
    list("id|unique_id|ID|problem_id|prompt_id|question_id|task_id|idx|doc_id|example_id");
/// How many of them are a dataset's ids whatever they hold.
const SURE_IDS: usize = 3;
/// Columns that number the rows of one id, such as the instances of GSM-Symbolic's templates.
const PARTS: [&str; 8] = list("instance|instance_id|sample|variant|variation|version|seed|copy");

/// Whether rows have a shape, and the dataset that they are then.
type Shape = (fn(&[Row], &Columns) -> bool, fn(&[PathBuf], &[Row], &Columns) -> Result<Dataset>);

/// Shapes of rows with a verifier of their own, which is not found from columns.
const SHAPES: [Shape; 3] = [
    (text_to_sql::is_layout, text_to_sql::dataset),
    (reasoning_gym::is_layout, reasoning_gym::dataset),
    (countdown::is_layout, countdown::dataset),
];

/// Reads the first `limit` problems of the files of one dataset, in their order.
pub(crate) fn open(files: &[PathBuf], columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let limit = limit.unwrap_or(usize::MAX);
    // What columns mean does not depend on how many problems are wanted.
    let read = limit.max(LOOKED_AT);
    let mut rows = Vec::new();
    for (file, path) in files.iter().enumerate() {
        if rows.len() >= read {
            break;
        }
        let of_file = read_rows(path, read - rows.len())?.into_iter();
        rows.extend(of_file.zip(1..).map(|(row, number)| Row { file, number, ..row }));
    }
    let path = files.first().map_or(Path::new(""), PathBuf::as_path);
    let lost = [notes::restore_commands(&mut rows), names::restore_case(&mut rows, columns)];
    rows.iter_mut().for_each(shapes::flatten);
    shapes::join_turns(&mut rows, columns);
    identify(&mut rows);
    if let Some((_, dataset)) = SHAPES.iter().find(|(is_shape, _)| is_shape(&rows, columns)) {
        rows.truncate(limit);
        return dataset(files, &rows, columns);
    }
    let mut dataset = Dataset::plain(path.display().to_string(), Vec::new(), math::Math::default());
    if rows.is_empty() {
        return Ok(dataset);
    }
    let layout = Layout::detect(path, &rows, columns)
        .map_err(|error| countdown::mistake(&rows[0], files, columns).unwrap_or(error))?;
    let unused =
        layout.unused(&rows, columns.purpose) + &layout.unlearned_chats(&rows, columns.purpose);
    dataset
        .notes
        .push(layout.shown(columns.purpose) + &unused + &variables::note(&rows, &layout.question));
    dataset.notes.extend(lost.into_iter().flatten());
    if columns.answer.is_none() {
        dataset.notes.extend(notes::of_commas(&rows, &layout));
        dataset.notes.extend(better_answer::conflict(&layout, &rows));
    }
    rows.truncate(limit);
    fill_columns(&mut rows, columns);
    let mut by_id = HashMap::new();
    for row in &rows {
        let malformed = |what| row.malformed(files, what);
        for read in layout.read(row, columns).map_err(malformed)? {
            match read {
                RowRead::Problem(problem) => {
                    if let Some(Row { file, line, .. }) = by_id.insert(problem.id.clone(), row) {
                        return Err(malformed(format!(
                            "the id `{}` occurs twice, first in {}:{line}; give every problem an id of its own, or none",
                            problem.id,
                            files[*file].display()
                        )));
                    }
                    dataset.problems.push(*problem);
                }
                RowRead::LeftOut(unusable) => dataset.unusable.push(unusable),
            }
        }
    }
    let are_compared = columns.purpose == Purpose::Judge && !columns.takes_any_gold();
    dataset.notes.extend(notes::of_problems(&dataset.problems, &layout, are_compared));
    // Messages say all that is to be asked; a bare question may be asked more.
    let column = layout.question.column().unwrap_or_default();
    let asked = rows.iter().filter_map(|row| nested(&row.values, column));
    let first = asked.into_iter().find(|value| !choice_columns::is_empty(value));
    let are_messages = first.is_some_and(|value| chat::is_chat(&value));
    let open = notes::of_open_prompts(&dataset.problems).filter(|_| !are_messages);
    dataset.instruction = Some(BOXED).filter(|_| !are_messages && open.is_none());
    dataset.notes.extend(open);
    Ok(dataset)
}

/// Finds the columns with the ids of the rows.
fn identify(rows: &mut [Row]) {
    let differs = |id: &dyn Fn(&Row) -> Option<String>| {
        let mut seen = HashSet::new();
        rows.iter().all(|row| id(row).is_some_and(|id| seen.insert(id)))
    };
    let ids = IDS[SURE_IDS..].iter().copied().find(|name| differs(&|row| row.id_in(name)));
    let of_part = |row: &Row, part: &str| Some(format!("{}-{}", row.sure_id()?, row.id_in(part)?));
    let parts = PARTS.into_iter().filter(|_| !differs(&Row::sure_id));
    let part = parts.into_iter().find(|part| differs(&|row| of_part(row, part)));
    rows.iter_mut().for_each(|row| (row.ids, row.part) = (ids, part));
}

/// Gives each row the columns of all, as null, where they are given to a verifier: so have tables, and TRL's rows.
fn fill_columns(rows: &mut [Row], columns: &Columns) {
    if !columns.are_read() {
        return;
    }
    let names: BTreeSet<String> = rows.iter().flat_map(|row| row.values.keys().cloned()).collect();
    for row in rows {
        for name in &names {
            row.values.entry(name).or_insert(Value::Null);
        }
    }
}

/// Every row of a file, as it is.
///
/// # Errors
/// No such file, another format, a malformed row.
pub fn table(path: &Path) -> Result<Vec<Map<String, Value>>> {
    first(path, usize::MAX)
}

/// At most the first `limit` rows of a file, as they are.
///
/// # Errors
/// No such file, another format, a malformed row.
pub fn first(path: &Path, limit: usize) -> Result<Vec<Map<String, Value>>> {
    Ok(read_rows(path, limit)?.into_iter().map(|row| row.values).collect())
}

fn read_rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    match extension(path).as_str() {
        "jsonl" | "ndjson" => json::lines(path, limit),
        "json" => json::document(path, limit),
        "csv" | "tsv" => csv::rows(path, limit),
        "parquet" => parquet::rows(path, limit),
        other => {
            let remedy = match other {
                "gz" | "zst" | "bz2" | "xz" | "zip" => {
                    "compressed, and no text that is packed with gzip or Zstandard (.jsonl.gz, .csv.zst): unpack it"
                }
                "arrow" | "feather" => {
                    "unknown format: write it with `to_parquet` of datasets or pandas"
                }
                _ => &format!("unknown format: name the file {FORMATS}"),
            };
            Err(DataError::File { path: path.into(), what: remedy.into() })
        }
    }
}

/// The value at `name`, where dots descend into nested objects.
fn lookup<'a>(values: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = values.get(name) {
        return Some(value);
    }
    let (head, rest) = name.split_once('.')?;
    lookup(values.get(head)?.as_object()?, rest)
}

/// The same, where texts on the way may hold an object as JSON: `verification_info`.
fn nested<'a>(values: &'a Map<String, Value>, name: &str) -> Option<Cow<'a, Value>> {
    if let Some(value) = lookup(values, name) {
        return Some(Cow::Borrowed(value));
    }
    let (head, rest) = name.split_once('.')?;
    let written = json::written(values.get(head)?.as_str()?)?;
    lookup(written.as_object()?, rest).cloned().map(Cow::Owned)
}

impl Row {
    fn new(line: usize, values: Map<String, Value>) -> Self {
        Self { file: 0, line, number: line, values, ids: None, part: None, listed: Vec::new() }
    }

    /// The names of the columns, for messages.
    fn names(&self) -> String {
        const MOST: usize = 40;
        let names: Vec<&str> = self.values.keys().map(String::as_str).take(MOST).collect();
        let more = self.values.len() - names.len();
        names.join(", ") + &if more > 0 { format!(" and {more} more") } else { String::new() }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(Value::as_str)
    }

    /// What is wrong with it, and where it stands.
    fn malformed(&self, files: &[PathBuf], what: String) -> DataError {
        DataError::Malformed { path: files[self.file].clone(), line: self.line, what }
    }

    /// The number of the row, which later files of a dataset have as well: theirs begins with the number of the file.
    fn place(&self) -> String {
        match self.file {
            0 => self.number.to_string(),
            file => format!("{}-{}", file + 1, self.number),
        }
    }

    /// The row's own id, or its place.
    fn id(&self) -> String {
        let part = self.part.and_then(|name| self.id_in(name));
        let part = part.map(|part| format!("-{part}")).unwrap_or_default();
        let sure = self.sure_id().map(|id| id + &part);
        sure.or_else(|| self.id_in(self.ids?)).unwrap_or_else(|| self.place())
    }

    fn sure_id(&self) -> Option<String> {
        IDS[..SURE_IDS].iter().find_map(|name| self.id_in(name))
    }

    fn id_in(&self, name: &str) -> Option<String> {
        match self.values.get(name)? {
            Value::String(id) => Some(id.clone()),
            Value::Number(id) => Some(id.to_string()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
