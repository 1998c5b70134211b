//! Which of two columns holds the gold answer: the solution beside a category, the text beside an index.

use super::gold_value::{self, Gold};
use super::known_columns::ANSWERS;
use super::layout::{AnswerColumn, Layout};
use super::{Row, names, nested};
use crate::judge;
use crate::verify::math;

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

/// What another column says against the gold answers, in words.
pub(super) fn conflict(layout: &Layout, rows: &[Row]) -> Option<String> {
    let column = match (&layout.choices, &layout.answer) {
        (Some(choices), _) => return choices.conflict.clone(),
        (None, AnswerColumn::Exact(column)) => column,
        (None, _) => return None,
    };
    let listed = ANSWERS.into_iter().filter(|name| !WEAK_ANSWERS.contains(name));
    let keys = rows.first().into_iter().flat_map(|row| row.values.keys());
    let named =
        keys.map(String::as_str).filter(|name| !ANSWERS.contains(name) && names::is_gold(name));
    let sure = listed.chain(named).chain(REFERENCE_SOLUTIONS);
    sure.filter(|other| other != column).find_map(|other| {
        let against = |row: &&Row| {
            let [own, other] = [column.as_str(), other].map(|name| answer_in(row, name));
            own.zip(other).is_some_and(|(own, other)| differ(&own, &other))
        };
        let against: Vec<&Row> = rows.iter().take(NOTED).filter(against).collect();
        let first = against.first()?;
        Some(format!(
            "`{other}` has another answer than `{column}` in {} of {} rows, first in row {}: `{}`, not `{}`; the answer \
             is taken from `{column}`; --answer-column names another",
            against.len(),
            rows.len().min(NOTED),
            first.place(),
            answer_in(first, other)?,
            answer_in(first, column)?
        ))
    })
}

/// The answer in a column, where that is short and has a number: of a solution what is marked.
fn answer_in(row: &Row, column: &str) -> Option<String> {
    let value = nested(&row.values, column)?;
    let text = gold_value::plain(&value)?;
    let is_marked = text.contains("\\box") || text.contains("####");
    if !is_marked && (text.len() > SHORT || REFERENCE_SOLUTIONS.contains(&column)) {
        return None;
    }
    let gold =
        if is_marked { gold_value::worked(&text) } else { gold_value::exact(&value).ok()? };
    let Gold::Answer(answer) = gold else { return None };
    let is_short = answer.len() <= SHORT && answer.contains(|c: char| c.is_ascii_digit());
    is_short.then_some(answer)
}

/// Whether one answer is wrong where the other is the gold answer, and the other way around.
pub(super) fn differ(one: &str, other: &str) -> bool {
    let is_wrong = |gold: &str, text: &str| {
        judge::check(gold, text, math::Mode::Flexible)
            .is_ok_and(|checked| checked.outcome == math::Outcome::Wrong)
    };
    one.trim() != other.trim() && is_wrong(one, other) && is_wrong(other, one)
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
