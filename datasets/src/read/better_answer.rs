//! Which of two columns holds the gold answer: the solution beside a category, the text beside an index.

use super::gold_value::{self, Gold};
use super::{Row, nested};

/// Columns that hold an answer in some datasets, and a category, a source or a verdict in others.
pub(super) const WEAK_ANSWERS: [&str; 5] = ["result", "target", "Target", "targets", "label"];
/// References that stand beside a completion or a conversation, whose answer may be another: columns of the gold answer
/// behind [`super::ANSWERS`].
pub const REFERENCES: [&str; 4] =
    ["metadata.expected_answer", "metadata.reference_answer", "metadata.ground_truth", "gts"];
/// Rows that two columns are compared in, at most.
const COMPARED: usize = 100;

/// Whether the answers that solutions mark are others than a column's, in most rows.
pub(super) fn marks_others(rows: &[Row], solution: &str, column: &str) -> bool {
    let marked = |row: &Row| {
        let text =
            row.text(solution).filter(|text| text.contains("\\box") || text.contains("####"))?;
        let Gold::Answer(answer) = gold_value::worked(text) else { return None };
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
