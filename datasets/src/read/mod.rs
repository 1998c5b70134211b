//! Files to problems: JSONL, JSON, CSV and Parquet, with columns detected or named.
//!
//! Every format yields rows of named JSON values; the rest of this file turns rows into
//! [`Problem`]s. To read another format, add a file with a `rows` function and one arm in `rows`.

mod csv;
mod json;
mod parquet;
mod reasoning_gym;
mod text_to_sql;

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::prompting::{BOXED, Template};
use crate::verify::{math, sql};
use crate::{DataError, Dataset, Message, Problem, Prompt, Prompting, Result, Rewards};

/// Names that hold the question, in order of preference.
const PROMPT_COLUMNS: &[&str] =
    &["prompt", "problem", "question", "messages", "input", "instruction", "Body,Question"];
/// Names that hold the reference answer, in order of preference.
const ANSWER_COLUMNS: &[&str] = &[
    "answer",
    "ground_truth",
    "target",
    "label",
    "Answer",
    "reward_model.ground_truth",
    "solution",
    "completion",
];

/// Extensions of the formats that are read.
const EXTENSIONS: [&str; 5] = ["jsonl", "ndjson", "json", "csv", "parquet"];

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
}

/// One row and where it stands: line or row, counted from 1, of a file, counted from 0.
struct Row {
    file: usize,
    line: usize,
    values: Map<String, Value>,
}

/// Whether the file name is of a format that is read here.
pub fn is_readable(name: &str) -> bool {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| EXTENSIONS.contains(&extension))
}

/// Reads the first `limit` problems of the files of one dataset, in their order.
pub(crate) fn open(files: &[PathBuf], columns: &Columns, limit: Option<usize>) -> Result<Dataset> {
    let limit = limit.unwrap_or(usize::MAX);
    let mut rows = Vec::new();
    for (file, path) in files.iter().enumerate() {
        if rows.len() == limit {
            break;
        }
        let of_file = read_rows(path, limit - rows.len())?.into_iter();
        rows.extend(of_file.map(|row| Row { file, ..row }));
    }
    let path = files.first().map_or(Path::new(""), PathBuf::as_path);
    let mut notes = Vec::new();
    let mut problems = Vec::with_capacity(rows.len());
    if let Some(first) = rows.first()
        && text_to_sql::is_layout(first)
        && columns.answer.is_none()
    {
        let asked = columns.rewards.verifiers.iter().find_map(|spec| sql::named(spec));
        return text_to_sql::dataset(files, &rows, asked.unwrap_or_default());
    }
    if let Some(first) = rows.first()
        && reasoning_gym::is_layout(first)
        && (&columns.prompt, &columns.answer) == (&None, &None)
        && columns.rewards.verifiers.is_empty()
    {
        return reasoning_gym::dataset(files, &rows);
    }
    let mut instruction = None;
    if let Some(first) = rows.first() {
        let template = columns.prompting.template.as_ref();
        let prompt = match template {
            Some(_) => String::new(),
            None => choose(path, first, "prompt", columns.prompt.as_deref(), PROMPT_COLUMNS)?,
        };
        let answer = choose(path, first, "answer", columns.answer.as_deref(), ANSWER_COLUMNS)?;
        let shown = if template.is_some() { "by the template" } else { &prompt };
        notes.push(format!("columns: prompt = `{shown}`, answer = `{answer}`"));
        // Messages say all that is to be asked; a bare question may be asked more.
        let are_messages = lookup(&first.values, &prompt).is_some_and(Value::is_array);
        instruction = Some(BOXED).filter(|_| !are_messages);
        for row in &rows {
            problems.push(problem(&files[row.file], row, &prompt, &answer, template)?);
        }
    }
    Ok(Dataset {
        name: path.display().to_string(),
        problems,
        verifier: Arc::new(math::Math::default()),
        notes,
        unusable: Vec::new(),
        answers: None,
        spellings: None,
        instruction,
    })
}

/// Every row of a file, as it is.
///
/// # Errors
/// No such file, another format, a malformed row.
pub fn table(path: &Path) -> Result<Vec<Map<String, Value>>> {
    Ok(read_rows(path, usize::MAX)?.into_iter().map(|row| row.values).collect())
}

fn read_rows(path: &Path, limit: usize) -> Result<Vec<Row>> {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("jsonl" | "ndjson") => json::lines(path, limit),
        Some("json") => json::document(path, limit),
        Some("csv") => csv::rows(path, limit),
        Some("parquet") => parquet::rows(path, limit),
        _ => Err(DataError::File {
            path: path.into(),
            what: "unknown format: name the file .jsonl, .json, .csv or .parquet".into(),
        }),
    }
}

/// The column asked for, or the first known one that the first row has.
fn choose(
    path: &Path,
    row: &Row,
    role: &str,
    requested: Option<&str>,
    known: &[&str],
) -> Result<String> {
    let has = |name: &str| name.split(',').all(|part| lookup(&row.values, part).is_some());
    match requested {
        Some(name) if has(name) => return Ok(name.into()),
        None => {
            if let Some(name) = known.iter().find(|name| has(name)) {
                return Ok((*name).into());
            }
        }
        Some(_) => {}
    }
    let there: Vec<_> = row.values.keys().map(String::as_str).collect();
    let there = there.join(", ");
    let what = match requested {
        Some(name) => format!("no column `{name}`; there is: {there}"),
        None => format!("no {role} column found; there is: {there}. Name it with --{role}-column"),
    };
    Err(DataError::File { path: path.into(), what })
}

/// The value at `name`, where dots descend into nested objects.
fn lookup<'a>(values: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    if let Some(value) = values.get(name) {
        return Some(value);
    }
    let (head, rest) = name.split_once('.')?;
    lookup(values.get(head)?.as_object()?, rest)
}

impl Row {
    fn new(line: usize, values: Map<String, Value>) -> Self {
        Self { file: 0, line, values }
    }

    /// The line, which later files of a dataset have as well: theirs begins with the number of the file.
    fn place(&self) -> String {
        match self.file {
            0 => self.line.to_string(),
            file => format!("{}-{}", file + 1, self.line),
        }
    }

    /// The row's own id, or its place.
    fn id(&self) -> String {
        let id = ["id", "unique_id", "ID"].iter().find_map(|name| match self.values.get(*name) {
            Some(Value::String(id)) => Some(id.clone()),
            Some(Value::Number(id)) => Some(id.to_string()),
            _ => None,
        });
        id.unwrap_or_else(|| self.place())
    }
}

fn problem(
    path: &Path,
    row: &Row,
    prompt: &str,
    answer: &str,
    template: Option<&Template>,
) -> Result<Problem> {
    let malformed = |what: String| DataError::Malformed { path: path.into(), line: row.line, what };
    let text = |column: &str| -> Result<String> {
        match lookup(&row.values, column) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(Value::Bool(flag)) => Ok(flag.to_string()),
            Some(Value::Array(items)) if items.len() == 1 => match &items[0] {
                Value::String(text) => Ok(text.clone()),
                other => Ok(other.to_string()),
            },
            Some(other) => {
                let other: String = other.to_string().chars().take(40).collect();
                Err(malformed(format!(
                    "column `{column}` should hold text or a number, not {other}"
                )))
            }
            None => Err(malformed(format!("no column `{column}` in this row"))),
        }
    };
    let asked = match (template, lookup(&row.values, prompt)) {
        (Some(template), _) => Prompt::question(&template.render(&row.values).map_err(malformed)?),
        (None, Some(Value::Array(messages))) => chat(messages).map_err(malformed)?,
        _ => {
            let parts: Vec<_> = prompt.split(',').map(text).collect::<Result<_>>()?;
            Prompt::question(&parts.join(" "))
        }
    };
    let answered = text(answer)?;
    let gold = math::gold(&answered);
    if gold.is_empty() {
        return Err(malformed(format!("column `{answer}` holds no answer")));
    }
    let solution = match row.values.get("solution") {
        Some(Value::String(solution)) => Some(solution.clone()),
        _ => Some(answered.clone()),
    };
    Ok(Problem { solution, ..Problem::new(row.id(), asked, gold) })
}

/// Chat messages; those of the assistant are left out, since they hold the answer.
fn chat(messages: &[Value]) -> std::result::Result<Prompt, String> {
    let messages: Vec<Message> = messages
        .iter()
        .map(|message| serde_json::from_value(message.clone()))
        .collect::<std::result::Result<_, _>>()
        .map_err(|error| format!("chat messages need `role` and `content`: {error}"))?;
    let prompt: Vec<_> = messages.into_iter().filter(|m| m.role != "assistant").collect();
    if prompt.is_empty() {
        return Err("the chat holds no message of the user".into());
    }
    Ok(Prompt::Chat(prompt))
}

/// Opens a file; the error names it.
/// Opens a regular file: a pipe or a device may have no end.
fn file(path: &Path) -> Result<std::fs::File> {
    let io = |source| DataError::Io { path: path.into(), source };
    if !std::fs::metadata(path).map_err(io)?.is_file() {
        return Err(DataError::File { path: path.into(), what: "not a regular file".into() });
    }
    std::fs::File::open(path).map_err(io)
}

/// The same as text of any length, without a byte-order mark.
fn text(path: &Path) -> Result<impl Read> {
    let mut start = Vec::with_capacity(3);
    let mut file = file(path)?;
    file.by_ref()
        .take(3)
        .read_to_end(&mut start)
        .map_err(|source| DataError::Io { path: path.into(), source })?;
    if start == b"\xef\xbb\xbf" {
        start.clear();
    }
    Ok(BufReader::new(std::io::Cursor::new(start).chain(file)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(name: &str, contents: &str, columns: &Columns) -> Result<Dataset> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(name);
        std::fs::File::create(&path).unwrap().write_all(contents.as_bytes()).unwrap();
        open(&[path], columns, None)
    }

    fn refusal(name: &str, contents: &str, columns: &Columns) -> String {
        read(name, contents, columns).err().expect("is refused").to_string()
    }

    #[test]
    fn usual_columns_are_detected_in_every_text_format() {
        for (name, contents) in [
            ("a.jsonl", "{\"question\":\"1+1?\",\"answer\":\"so\\n#### 2\"}\n\n"),
            ("a.jsonl", "{\"problem\":\"1+1?\",\"solution\":\"it is \\\\boxed{2}.\"}"),
            ("a.json", "[{\"prompt\":\"1+1?\",\"answer\":2}]"),
            ("a.json", "{\"data\":[{\"input\":\"1+1?\",\"target\":\"2\"}]}"),
            ("a.csv", "question,answer\n\"1+1?\",2\n"),
            (
                "a.jsonl",
                "{\"prompt\":[{\"role\":\"user\",\"content\":\"1+1?\"}],\"reward_model\":{\"ground_truth\":\"2\"}}",
            ),
        ] {
            let set = read(name, contents, &Columns::default()).unwrap();
            assert_eq!(set.problems.len(), 1, "{contents}");
            assert_eq!(set.problems[0].answer, "2", "{contents}");
            assert!(set.problems[0].prompt.plain().starts_with("1+1?"));
            assert!(set.notes[0].contains("columns"));
        }
    }

    #[test]
    fn named_columns_win_and_may_be_joined() {
        let columns = Columns {
            prompt: Some("Body,Question".into()),
            answer: Some("n".into()),
            ..Columns::default()
        };
        let text = "{\"Body\":\"I have 2.\",\"Question\":\"How many?\",\"answer\":\"9\",\"n\":2}";
        let set = read("a.jsonl", text, &columns).unwrap();
        assert!(set.problems[0].prompt.plain().starts_with("I have 2. How many?"));
        assert_eq!(set.problems[0].answer, "2");
    }

    #[test]
    fn files_of_one_dataset_are_read_in_order_up_to_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path
        };
        let row =
            |answer: usize| format!("{{\"question\":\"q{answer}\",\"answer\":\"{answer}\"}}\n");
        let files = [write("a.jsonl", &(row(1) + &row(2))), write("b.jsonl", &(row(3) + &row(4)))];
        let answers = |limit| {
            let set = open(&files, &Columns::default(), limit).unwrap();
            set.problems.into_iter().map(|p| (p.id, p.answer)).collect::<Vec<_>>()
        };
        let pair = |id: &str, answer: &str| (id.to_owned(), answer.to_owned());
        let all = [pair("1", "1"), pair("2", "2"), pair("2-1", "3"), pair("2-2", "4")];
        assert_eq!(answers(None), all);
        assert_eq!(answers(Some(3)), all[..3]);
        let files = [files[0].clone(), write("c.jsonl", "{\"question\":\"q\"}\n")];
        let message = open(&files, &Columns::default(), None).err().unwrap().to_string();
        assert!(message.contains("c.jsonl:1"), "{message}");
        // The second file is not opened where the first has enough.
        assert!(
            open(&[files[0].clone(), "none.jsonl".into()], &Columns::default(), Some(2)).is_ok()
        );
    }

    #[test]
    fn bad_input_is_refused_with_file_line_and_mend() {
        let none = Columns::default();
        let message =
            refusal("a.jsonl", "{\"question\":\"q\",\"answer\":\"1\"}\n{\"question\"\n", &none);
        assert!(message.contains("a.jsonl:2"), "{message}");
        let message = refusal(
            "a.jsonl",
            "{\"question\":\"q\",\"answer\":\"1\"}\n{\"question\":\"q\"}",
            &none,
        );
        assert!(message.contains("a.jsonl:2") && message.contains("answer"), "{message}");
        let message = refusal("a.csv", "q,a\n1,2\n", &none);
        assert!(message.contains("q, a") && message.contains("--prompt-column"), "{message}");
        let asked = Columns { prompt: Some("nope".into()), ..Columns::default() };
        let message = refusal("a.csv", "question,answer\n1,2\n", &asked);
        assert!(message.contains("`nope`") && message.contains("question, answer"), "{message}");
        let message = refusal("a.csv", "question,answer\n1,2\n1,2,3\n", &none);
        assert!(message.contains("a.csv:3"), "{message}");
        let message = refusal("a.txt", "x", &none);
        assert!(message.contains(".jsonl"), "{message}");
        let message = refusal("a.parquet", "PAR1 no", &none);
        assert!(message.contains("a.parquet"), "{message}");
    }
}
