//! The columns of a file that no role is given to, for the line that says what the columns are.

use super::Row;
use super::layout::{ANSWERS, Layout, QuestionColumns, SOLUTIONS};

/// Most columns that are named.
const MOST: usize = 6;

impl Layout {
    /// The columns of texts that are not used, in words for the user; nothing where the user says what is.
    pub(super) fn unused(&self, rows: &[Row]) -> String {
        let (QuestionColumns::Found { .. }, Some(first)) = (&self.question, rows.first()) else {
            return String::new();
        };
        let note = self.note();
        let is_text = |name: &str| {
            let mut texts = rows.iter().filter_map(|row| row.text(name));
            texts.any(|text| text.trim().contains(char::is_whitespace))
        };
        let is_known = |name: &str| SOLUTIONS.contains(&name) || ANSWERS.contains(&name);
        let names: Vec<String> = (first.values.keys())
            .filter(|name| is_text(name) && !is_known(name))
            .map(|name| format!("`{name}`"))
            .filter(|name| !note.contains(name.as_str()))
            .collect();
        if names.is_empty() {
            return String::new();
        }
        let shown = names[..names.len().min(MOST)].join(", ");
        match names.len().saturating_sub(MOST) {
            0 => format!("; texts that are not used: {shown}"),
            more => format!("; texts that are not used: {shown} and {more} more"),
        }
    }
}
