//! Rows in reasoning-gym's shape (`question`, `answer`, `metadata.source_dataset`) to a dataset of one of our tasks.
//!
//! Answers to other tasks of reasoning-gym are checked by Python code of theirs: such rows are refused, unless a
//! verifier is named.

use std::path::PathBuf;

use serde_json::Value;

use super::{Columns, Row, lookup};
use crate::task::judge::Judge;
use crate::task::{self, Kind, reasoning_gym::PREFIX};
use crate::{DataError, Dataset, Problem, Result, Verdict, judge};
use tealight_core::Prompt;
use tealight_core::display::shortened;

/// Whether rows have this shape, and nothing else is asked for.
pub(super) fn is_layout(rows: &[Row], columns: &Columns) -> bool {
    let has = |row: &Row, key: &str| row.values.contains_key(key);
    let is_such = |row: &Row| source(row).is_some() && has(row, "question") && has(row, "answer");
    (&columns.prompt, &columns.answer) == (&None, &None)
        && columns.rewards.verifiers.is_empty()
        && rows.first().is_some_and(is_such)
}

fn source(row: &Row) -> Option<&str> {
    lookup(&row.values, "metadata.source_dataset").and_then(Value::as_str)
}

/// The dataset of all rows, which must be of one task.
pub(super) fn dataset(files: &[PathBuf], rows: &[Row], _: &Columns) -> Result<Dataset> {
    let mut problems = Vec::with_capacity(rows.len());
    let mut first: Option<&'static Kind> = None;
    for row in rows {
        let malformed = |what| row.malformed(files, what);
        let kind = kind(row).map_err(malformed)?;
        let expected = first.get_or_insert(kind);
        if expected.name != kind.name {
            let (one, other) = (expected.name, kind.name);
            let what = format!(
                "a row of task {other} after rows of task {one}: give each task a file of its own"
            );
            return Err(malformed(what));
        }
        problems.push(problem(kind, row).map_err(malformed)?);
    }
    let name = files[0].display().to_string();
    let Some(kind) = first else {
        return Err(DataError::Empty { name });
    };
    let notes =
        vec![format!("rows in reasoning-gym's shape, task {}: verified by Tealight", kind.name)];
    let dataset = Dataset::plain(name, problems, Judge(kind));
    let (answers, spellings, outputs) = (Some(kind.texts), Some(kind.texts), Some(kind.outputs));
    Ok(Dataset { notes, answers, spellings, outputs, ..dataset })
}

fn kind(row: &Row) -> std::result::Result<&'static Kind, String> {
    let name = source(row).ok_or("no text in `metadata.source_dataset`, which other rows have")?;
    name.strip_prefix(PREFIX).and_then(task::find).ok_or_else(|| {
        format!(
            "`metadata.source_dataset` is `{}`, which is not a task of Tealight (`tealight tasks` lists them as \
             `{PREFIX}NAME`): its answers are checked by code of reasoning-gym. Name a verifier that compares with \
             column `answer`: --verifier exact or --verifier numeric",
            shortened(name, 64)
        )
    })
}

fn problem(kind: &'static Kind, row: &Row) -> std::result::Result<Problem, String> {
    let text = |key: &str| {
        let text = lookup(&row.values, key).and_then(Value::as_str);
        text.ok_or_else(|| format!("`{key}` should hold text"))
    };
    let (question, answer) = (text("question")?, text("answer")?);
    let statement = text("metadata.statement")?;
    if let Some(why) = judge::refuse_gold(&Judge(kind), statement) {
        return Err(format!("`metadata.statement`: {why}"));
    }
    let problem = Problem {
        solution: Some(answer.into()),
        total: kind.total(statement),
        ..Problem::new(statement, Prompt::Text(question.into()), statement)
    };
    match judge::verify(&Judge(kind), &problem, answer) {
        Verdict::Correct { .. } => Ok(problem),
        Verdict::Wrong { why: Some(why), .. } => Err(format!("`answer` is not correct: it {why}")),
        _ => Err("`answer` is not correct: it cannot be read".into()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use crate::read::Columns;
    use crate::task::{TASKS, instances, knobs, reasoning_gym};
    use crate::{DataError, Dataset, Rewards};

    fn read(rows: &[String], columns: &Columns) -> Result<Dataset, DataError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.jsonl");
        std::fs::File::create(&path).unwrap().write_all(rows.join("\n").as_bytes()).unwrap();
        crate::open(path.to_str().unwrap(), columns, None)
    }

    fn rows(kind: &'static crate::task::Kind) -> Vec<String> {
        let wanted = knobs::parse(kind, "test").unwrap();
        let set = instances::with_seed(kind, "test", Some(5), 3).unwrap();
        let row = |(index, problem)| reasoning_gym::row(kind, &wanted, problem, index).to_string();
        set.problems.iter().enumerate().map(row).collect()
    }

    #[test]
    fn written_problems_read_back_equal() {
        for kind in TASKS {
            let written = instances::with_seed(kind, "test", Some(5), 3).unwrap();
            let read = read(&rows(kind), &Columns::default()).unwrap();
            assert_eq!(read.problems, written.problems, "{}", kind.name);
            assert_eq!(read.verifier.name(), kind.name);
            assert!(read.spellings.is_some());
        }
    }

    #[test]
    fn rows_that_cannot_be_verified_are_refused_with_the_reason() {
        let refusal = |rows: &[String]| read(rows, &Columns::default()).err().unwrap().to_string();
        let foreign =
            r#"{"question":"legs?","answer":"8","metadata":{"source_dataset":"leg_counting"}}"#;
        let error = refusal(&[foreign.into()]);
        assert!(error.contains("rows.jsonl:1") && error.contains("`leg_counting`"), "{error}");
        assert!(error.contains("--verifier exact"), "{error}");
        let exact = Columns { rewards: Rewards::by(Some("exact".into())), ..Columns::default() };
        assert_eq!(read(&[foreign.into()], &exact).unwrap().problems[0].answer, "8");
        let (one, other) = (rows(TASKS[0]), rows(TASKS[1]));
        let error = refusal(&[one[0].clone(), other[0].clone()]);
        assert!(error.contains("rows.jsonl:2") && error.contains("task orders"), "{error}");
        let error = refusal(&[one[0].clone(), foreign.into()]);
        assert!(error.contains("rows.jsonl:2") && error.contains("leg_counting"), "{error}");
        let wrong = r#"{"question":"c2|ab:","answer":"11","metadata":{"source_dataset":"tealight/colouring","statement":"c2|ab"}}"#;
        let error = refusal(&[wrong.into()]);
        assert!(error.contains("gives two neighbours one colour"), "{error}");
        let error = refusal(&[wrong.replace("\"c2|ab\"", "\"c2|aa\"")]);
        assert!(error.contains("not a statement of task colouring"), "{error}");
    }
}
