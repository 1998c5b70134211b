//! The column that says which of the choices is right, and how it is read: a letter, a text, an index from 0 or from 1.

use std::collections::HashMap;

use serde_json::Value;

use super::choice_columns::ChoiceColumns;
use super::choices::Choices;
use super::known_columns::list;
use super::{Row, names};

/// Columns that say which choice is right, the most exact first.
pub(super) const KEYS: [&str; 34] = list(
    "answerKey|answer_key|answer_idx|answer_letter|correct_option|correct_choice|Correct Option|correct|cop|ra|\
    final_answer|expected_answer|ground_truth|reward_model.ground_truth|reward_spec.ground_truth|answer|\
    Answer|answer_index|answer_id|correct_answer_id|correct_answer_idx|correct_idx|correct_answer_index|\
    gold_index|correct_index|label|gold|target|targets|correct_answer|Correct Answer|answer_text|solution|\
    output",
);
/// How a column says which choice is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reading {
    Label,
    Letter,
    Text,
    IndexFrom0,
    IndexFrom1,
    /// The choices themselves mark the right one.
    Marked,
}

/// All of them that other columns can be read by, the most certain first.
pub(super) const ALL: [Reading; 5] =
    [Reading::Label, Reading::Letter, Reading::Text, Reading::IndexFrom0, Reading::IndexFrom1];

impl Reading {
    /// In words, before "of the choices".
    pub(super) fn shown(self) -> &'static str {
        match self {
            Self::Label => "the label of one",
            Self::Letter => "the letter of one",
            Self::Text => "the text of one",
            Self::IndexFrom0 => "the index from 0 of one",
            Self::IndexFrom1 => "the index from 1 of one",
            Self::Marked => "the marked one",
        }
    }
}

/// A way to read a column, with the place of the right choice in each of its rows.
pub(super) type Way = (Reading, Vec<Option<usize>>);

/// A column that says which choice is right.
pub(super) struct Key<'k> {
    pub(super) name: &'k str,
    pub(super) rows: Vec<&'k Row>,
    /// The first one counts, unless other columns agree with a later one alone.
    pub(super) ways: Vec<Way>,
    /// Whether all of its values are numbers, and no texts.
    pub(super) are_numbers: bool,
}

impl Key<'_> {
    /// The rows in which another column, read as it suits this one best, names another choice.
    pub(super) fn conflicts<'o>(&self, (_, places): &Way, other: &Key<'o>) -> Vec<&'o Row> {
        let place = |row: &Row| (row.file, row.line);
        let own: HashMap<_, _> = self
            .rows
            .iter()
            .zip(places)
            .filter_map(|(row, at)| Some((place(row), (*at)?)))
            .collect();
        let against = |(_, places): &Way| -> Vec<&'o Row> {
            let is_against = |(row, at): &(&&Row, &Option<usize>)| {
                at.zip(own.get(&place(row)).copied()).is_some_and(|(one, other)| one != other)
            };
            other.rows.iter().zip(places).filter(is_against).map(|(row, _)| *row).collect()
        };
        other.ways.iter().map(against).min_by_key(Vec::len).unwrap_or_default()
    }
    /// Which of its ways counts, and what is to be said where numbers may begin at 0 or at 1 and no row shows it: for
    /// columns whose names end in numbers it is refused, unless the key is a ClassLabel, which begins at 0, or a text.
    pub(super) fn base(
        &self,
        ways: &[Reading],
        columns: &ChoiceColumns,
    ) -> Result<(usize, Option<String>), String> {
        let words = names::words(self.name);
        let is = |names: &[&str]| words.iter().any(|word| names.contains(&word.as_str()));
        let is_label = is(&["label", "target"]);
        let is_lettered = match columns {
            ChoiceColumns::Each(all) => all[0].1.ends_with(char::is_alphabetic),
            _ => false,
        };
        let at = match ways {
            [_] => return Ok((0, None)),
            [Reading::Label, ..] if self.are_numbers && is_label => 1,
            [Reading::Label, ..]
                if is(&["num", "number"]) || !self.are_numbers && (!is_label || is_lettered) =>
            {
                0
            }
            [Reading::Label, ..] => {
                return Err(format!(
                    "column `{}` may be an index from 0 or from 1 of the choices in {}, and no row holds 0 or the last \
                     number: write the question with --prompt-template and name the answer with --answer-column",
                    self.name,
                    columns.shown()
                ));
            }
            _ => 0,
        };
        let from = if ways[at] == Reading::IndexFrom0 { 0 } else { 1 };
        let open = format!(
            "`{}` is read as an index of a choice that starts at {from}; it could start at {} as well, because no row \
             holds 0 or the number of choices: if it does, write the question with --prompt-template and name a column \
             with the answer itself with --answer-column",
            self.name,
            1 - from
        );
        Ok((at, Some(open)))
    }
}

/// How a column is read: the way that suits the most rows. Where that is an index, it may begin at 0 or at 1.
/// `is_numbered`: columns hold one choice each, and the labels are the ends of their names.
pub(super) fn reading(
    answered: &[(&Row, Choices, Value)],
    is_numbered: bool,
) -> Result<Vec<Way>, &'static str> {
    let positions = |reading: Reading| -> Vec<Option<usize>> {
        answered.iter().map(|(_, choices, value)| choices.position(value, reading)).collect()
    };
    let read: Vec<Way> = ALL.iter().map(|reading| (*reading, positions(*reading))).collect();
    let suits = |positions: &[Option<usize>]| positions.iter().flatten().count();
    let most = read.iter().map(|(_, positions)| suits(positions)).max().unwrap_or(0);
    // Rows that name several choices are left out, and a few others may be faulty: not most of either.
    let unclear = |(_, choices, value): &&(&Row, Choices, Value)| choices.unclear(value).is_some();
    let clear = answered.len() - answered.iter().filter(unclear).count();
    if clear * 10 < answered.len() || clear == 0 {
        return Err("names several, or a repeated one,");
    }
    if most * 10 < clear * 9 {
        return Err("holds neither letters, indices nor texts");
    }
    let mut best = read;
    best.retain(|(_, positions)| suits(positions) == most);
    let (first, chosen) = &best[0];
    // Labels are the dataset's own word, and indices begin at 0 unless a row says otherwise.
    let is_other = |other: &Way| {
        other.1 != *chosen && *first != Reading::Label && other.0 != Reading::IndexFrom1
    };
    if best[1..].iter().any(is_other) {
        return Err("can be read in two ways as one");
    }
    if *first == Reading::Label && is_numbered {
        let chosen = chosen.clone();
        best.retain(|way| {
            way.0 == Reading::Label || way.0 == Reading::IndexFrom0 && way.1 != chosen
        });
    } else if *first == Reading::IndexFrom0 {
        let chosen = chosen.clone();
        best.retain(|way| way.0 == Reading::IndexFrom0 || way.1 != chosen);
    } else {
        best.truncate(1);
    }
    Ok(best)
}

/// The columns that may say which choice is right: the known ones, and others by the words of their names.
pub(super) fn keys(rows: &[Row]) -> Vec<&str> {
    let names = rows.first().into_iter().flat_map(|row| row.values.keys()).map(String::as_str);
    let others = names.filter(|name| names::is_key(name) && !KEYS.contains(name));
    KEYS.into_iter().chain(others).collect()
}
