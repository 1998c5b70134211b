//! Which of two columns holds the gold answer: the solution beside a category, the text beside an index.

use super::gold_value::{self, Gold};
use super::known_columns::{ANSWERS, SOLUTIONS};
use super::layout::{AnswerColumn, Layout, last_turn};
use super::{Row, names, nested};
use crate::judge;

/// Columns that hold an answer in some datasets, and a category, a source or a verdict in others.
pub(super) const WEAK_ANSWERS: [&str; 5] = ["result", "target", "Target", "targets", "label"];
/// References that stand beside a completion or a conversation, whose answer may be another: columns of the gold answer
/// behind [`super::ANSWERS`].
pub const REFERENCES: [&str; 4] =
    ["metadata.expected_answer", "metadata.reference_answer", "metadata.ground_truth", "gts"];
/// Rows that two columns are compared in, at most.
const COMPARED: usize = 100;
/// The same for a note.
const NOTED: usize = 10_000;
/// Columns with a solution that is nobody's attempt.
const REFERENCE_SOLUTIONS: [&str; 3] = ["solution", "Solution", "gold_standard_solution"];
/// Longest gold answers that are compared, in bytes.
const SHORT: usize = 60;

/// Another column whose answers differ from the gold answers, in words.
pub(super) fn conflict(layout: &Layout, rows: &[Row]) -> Option<String> {
    let AnswerColumn::Exact(column) = &layout.answer else { return worked_otherwise(layout, rows) };
    if let Some(choices) = &layout.choices {
        return choices.conflict.clone().or_else(|| solved_otherwise(layout, rows));
    }
    let listed = ANSWERS.into_iter().filter(|name| !WEAK_ANSWERS.contains(name));
    let keys = rows.first().into_iter().flat_map(|row| row.values.keys());
    let named =
        keys.map(String::as_str).filter(|name| !ANSWERS.contains(name) && names::is_gold(name));
    let sure = listed.chain(named).chain(REFERENCE_SOLUTIONS);
    let read = |name: &str| {
        let name = name.to_owned();
        move |row: &Row| answer_in(row, &name)
    };
    let mut others = sure.filter(|other| other != column);
    let other =
        others.find_map(|other| against(rows, (column, &read(column)), (other, &read(other))));
    other.or_else(|| solved_otherwise(layout, rows))
}

/// A worked solution, or the last turn of a chat, whose answer differs from the solution that the gold answers are
/// taken from, in words.
fn worked_otherwise(layout: &Layout, rows: &[Row]) -> Option<String> {
    let read = |name: &str| {
        let name = name.to_owned();
        let is_turn = layout.question.is_conversation() && layout.question.column() == Some(&name);
        move |row: &Row| match is_turn {
            true => {
                let text =
                    last_turn(row, &layout.question).filter(|it| gold_value::has_mark(it))?;
                let Gold::Answer(answer) = gold_value::worked(&text) else { return None };
                is_short(&answer).then_some(answer)
            }
            false => answer_in(row, &name),
        }
    };
    let turn = layout.question.column().filter(|_| layout.question.is_conversation());
    let column = match layout.answer {
        AnswerColumn::LastTurn => turn?,
        _ => layout.answer.column()?,
    };
    let others = SOLUTIONS.into_iter().chain(turn).filter(|other| *other != column);
    let mut found =
        others.filter_map(|other| against(rows, (column, &read(column)), (other, &read(other))));
    found.next()
}

/// What worked solutions say against the gold answers, but for those that a row calls incorrect.
fn solved_otherwise(layout: &Layout, rows: &[Row]) -> Option<String> {
    let column = layout.answer.column()?;
    let own = |row: &Row| match &layout.choices {
        Some(of) => of.letter(&of.columns.choices(row)?, &*nested(&row.values, &of.key)?),
        None => answer_in(row, column),
    };
    let solved = |row: &Row| {
        let text = layout.text_beside(row).filter(|_| !layout.is_incorrect(row))?.0;
        let Gold::Answer(answer) = gold_value::worked(&text) else { return None };
        let is_letter = layout.choices.is_some() && answer.len() == 1;
        Some(answer).filter(|answer| gold_value::has_mark(&text) && (is_letter || is_short(answer)))
    };
    let other = rows.iter().find_map(|row| layout.text_beside(row))?.1;
    against(rows, (column, &own), (other, &solved))
}

/// A column's name, and its answer in a row.
type Answers<'a> = (&'a str, &'a dyn Fn(&Row) -> Option<String>);

/// What a column says against another one, in words.
fn against(
    rows: &[Row],
    (column, own): Answers<'_>,
    (other, theirs): Answers<'_>,
) -> Option<String> {
    let differs =
        |row: &&Row| own(row).zip(theirs(row)).is_some_and(|(own, other)| differ(&own, &other));
    let found: Vec<&Row> = rows.iter().take(NOTED).filter(differs).collect();
    let first = found.first()?;
    Some(format!(
        "`{other}` has another answer than `{column}` in {} of {} rows, first in row {}: `{}`, not `{}`; the answer is \
         taken from `{column}`; --answer-column names another",
        found.len(),
        rows.len().min(NOTED),
        first.place(),
        theirs(first)?,
        own(first)?
    ))
}

/// Whether two answers may differ for certain.
fn is_short(answer: &str) -> bool {
    answer.len() <= SHORT && answer.contains(|c: char| c.is_ascii_digit())
}

/// The answer in a column, where that is short and has a number: of a solution what is marked.
fn answer_in(row: &Row, column: &str) -> Option<String> {
    let value = nested(&row.values, column)?;
    let text = gold_value::plain(&value)?;
    let is_marked = gold_value::has_mark(&text);
    if !is_marked && (text.len() > SHORT || REFERENCE_SOLUTIONS.contains(&column)) {
        return None;
    }
    let gold =
        if is_marked { gold_value::worked(&text) } else { gold_value::exact(&value).ok()? };
    let Gold::Answer(answer) = gold else { return None };
    is_short(&answer).then_some(answer)
}

/// Whether one answer is wrong where the other is the gold answer, and the other way around.
pub(super) fn differ(one: &str, other: &str) -> bool {
    judge::same(one, other) == Some(false) && judge::same(other, one) == Some(false)
}

/// Whether the answers that solutions mark are others than a column's, in most rows.
pub(super) fn marks_others(
    rows: &[Row],
    column: &str,
    solution: impl Fn(&Row) -> Option<String>,
) -> bool {
    let marked = |row: &Row| {
        let text = solution(row).filter(|text| text.contains("\\box") || text.contains("####"))?;
        let Gold::Answer(answer) = gold_value::worked(&text) else { return None };
        let other = nested(&row.values, column).and_then(|value| gold_value::plain(&value));
        Some(other.is_some_and(|other| gold_value::is_same(&answer, &other)))
    };
    let compared: Vec<bool> = rows.iter().take(COMPARED).filter_map(marked).collect();
    let same = compared.iter().filter(|is_same| **is_same).count();
    2 * same < compared.len()
}

/// Whether a column holds numbers alone, as texts or not.
pub(super) fn are_numbers(rows: &[Row], column: &str) -> bool {
    let mut values = rows.iter().filter_map(|row| gold_value::plain(row.values.get(column)?));
    values.all(|text| text.trim().parse::<f64>().is_ok())
}

/// The column, or that with the texts of the classes that it numbers: `target_text` beside `target`.
pub(super) fn text_of_index(rows: &[Row], column: &str) -> String {
    let are_numbers = rows
        .iter()
        .filter_map(|row| row.values.get(column))
        .all(|value| value.is_null() || value.is_i64());
    let texts = ["text", "name"].map(|end| format!("{column}_{end}"));
    let is_text =
        |name: &&String| rows.iter().any(|row| row.text(name).is_some_and(|text| !text.is_empty()));
    match texts.iter().find(is_text) {
        Some(text) if are_numbers => text.clone(),
        _ => column.to_owned(),
    }
}
