//! The choices of a question, and which of them is the gold answer: a letter, whatever the column holds (a letter, a
//! label, an index, a text).

use std::collections::HashMap;

use serde_json::Value;

use super::choice_columns::{ChoiceColumns, possible};
use super::gold_value::plain;
use super::{Row, nested};
use crate::verify::short;

/// Columns that say which choice is right, the most exact first.
const KEYS: [&str; 31] = [
    "answerKey",
    "answer_key",
    "answer_idx",
    "answer_letter",
    "correct_option",
    "correct_choice",
    "Correct Option",
    "correct",
    "cop",
    "final_answer",
    "expected_answer",
    "ground_truth",
    "reward_model.ground_truth",
    "answer",
    "Answer",
    "answer_index",
    "answer_id",
    "correct_answer_id",
    "correct_answer_idx",
    "correct_idx",
    "correct_answer_index",
    "gold_index",
    "correct_index",
    "label",
    "gold",
    "target",
    "correct_answer",
    "Correct Answer",
    "answer_text",
    "solution",
    "output",
];
/// Most choices of a question: one for each letter.
pub(super) const MOST: usize = 26;

/// The choices of a row: texts in the order they are shown in, labels of the dataset's own.
pub(super) struct Choices {
    texts: Vec<String>,
    labels: Vec<String>,
    /// Where each stands in the row, which may have empty ones too.
    places: Vec<usize>,
    /// Whether the dataset stores them as numbers.
    are_numbers: bool,
}

/// How a column says which choice is right.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Reading {
    Label,
    Letter,
    Text,
    IndexFrom0,
    IndexFrom1,
}

/// All of them, the most certain first.
const ALL: [Reading; 5] =
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
        }
    }
}

/// The choices of a file, and the column that says which is right.
pub(super) struct ChoiceLayout {
    pub(super) columns: ChoiceColumns,
    pub(super) key: String,
    pub(super) reading: Reading,
    /// That another column names other choices, in words.
    pub(super) conflict: Option<String>,
}

/// A way to read a column, with the place of the right choice in each of its rows.
type Way = (Reading, Vec<Option<usize>>);

/// A column that says which choice is right.
struct Key<'k> {
    name: &'k str,
    rows: Vec<&'k Row>,
    /// The first one counts, unless other columns agree with a later one alone.
    ways: Vec<Way>,
}

impl Key<'_> {
    /// The rows in which another column, read as it suits this one best, names another choice.
    fn conflicts<'o>(&self, (_, places): &Way, other: &Key<'o>) -> Vec<&'o Row> {
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
}

impl ChoiceLayout {
    /// The layout of rows with choices in `columns`; `key` is the column that was asked for.
    pub(super) fn detect(
        rows: &[Row],
        columns: ChoiceColumns,
        key: Option<&str>,
    ) -> Result<Option<Self>, String> {
        if let (ChoiceColumns::Distractors(right, _), None) = (&columns, key) {
            let (key, reading, conflict) = ((*right).into(), Reading::Text, None);
            return Ok(Some(Self { columns, key, reading, conflict }));
        }
        let known: Vec<&str> = key.map_or(KEYS.to_vec(), |key| vec![key]);
        let (mut refused, mut found) = (None, Vec::new());
        for key in known {
            // A column may hold one of the choices (`answer0`) or nothing in every row.
            let answered: Vec<(&Row, Choices, Value)> = rows
                .iter()
                .filter_map(|row| {
                    let value = nested(&row.values, key).filter(|value| !is_unanswered(value))?;
                    Some((row, columns.choices(row)?, value.into_owned()))
                })
                .collect();
            if answered.is_empty() {
                continue;
            }
            match reading(&answered) {
                Ok(ways) => {
                    let rows = answered.iter().map(|(row, ..)| *row).collect();
                    found.push(Key { name: key, rows, ways });
                }
                Err(why) => {
                    let what = format!(
                        "column `{key}` {why} of the choices in {}{}",
                        columns.shown(),
                        first_unread(&answered)
                    );
                    refused = refused.or(Some(what));
                }
            }
        }
        match (found.split_first(), refused) {
            (Some((key, others)), _) => Ok(Some(Self::of_key(columns, key, others))),
            (None, None) => Ok(None),
            (None, Some(what)) => Err(format!(
                "{what}: name another column with --answer-column, or write the question with --prompt-template and \
                 name the answer with --answer-column"
            )),
        }
    }

    /// The layout by a column, with what others say against it.
    fn of_key(columns: ChoiceColumns, key: &Key<'_>, others: &[Key<'_>]) -> Self {
        let against = |way: &Way| {
            let all = others.iter().map(|other| (other.name, key.conflicts(way, other)));
            all.filter(|(_, rows)| !rows.is_empty()).collect::<Vec<_>>()
        };
        let ways = key.ways.iter().map(|way| (way.0, against(way)));
        let (reading, conflicts) = ways
            .min_by_key(|(_, conflicts)| conflicts.len())
            .expect("a column is read in some way");
        let conflict = conflicts.first().map(|(other, rows)| {
            format!(
                "`{other}` names another choice than `{}` in {} of {} rows, first in line {}: the answer is taken from \
                 `{}`; --answer-column names another",
                key.name,
                rows.len(),
                key.rows.len(),
                rows[0].place(),
                key.name
            )
        });
        Self { columns, key: key.name.into(), reading, conflict }
    }

    /// The layout of rows whose columns may hold choices, by their names and the column that is to say which is right:
    /// none unless that column says it.
    pub(super) fn detect_possible(rows: &[Row], key: Option<&str>) -> Option<Self> {
        let says = |name: &&str| {
            let value =
                |row: &Row| nested(&row.values, name).is_some_and(|value| !is_unanswered(&value));
            rows.iter().any(value)
        };
        let key = key.or_else(|| KEYS.into_iter().find(says))?;
        possible(rows).into_iter().find_map(|(columns, needs_index)| {
            let found = Self::detect(rows, columns, Some(key)).ok().flatten()?;
            (!needs_index || found.reading != Reading::Text).then_some(found)
        })
    }

    /// The letter of a row's right choice; none where the column says nothing that is one of them.
    pub(super) fn letter(&self, choices: &Choices, value: &Value) -> Option<String> {
        choices.position(value, self.reading).map(letter)
    }
}

impl Choices {
    pub(super) fn new(texts: Vec<String>, labels: Vec<String>) -> Option<Self> {
        let texts = texts.into_iter().map(|text| text.trim().to_owned()).enumerate();
        let filled = texts.filter(|(_, text)| !text.is_empty());
        let (places, mut texts): (Vec<usize>, Vec<String>) = filled.unzip();
        let placed = places.iter().zip(&texts);
        let bare = placed.map(|(at, text)| without_marker(text, *at)).collect::<Option<_>>();
        texts = bare.unwrap_or(texts);
        let labels = places.iter().filter_map(|at| labels.get(*at).cloned()).collect();
        let is_right_size = (2..=MOST).contains(&texts.len());
        is_right_size.then_some(Self { texts, labels, places, are_numbers: false })
    }

    /// The same, where the dataset stores them as numbers, or not.
    pub(super) fn read_as_numbers(self, are_numbers: bool) -> Self {
        Self { are_numbers, ..self }
    }

    /// The choices below a question, unless the question shows them already.
    pub(super) fn below(&self, question: &str) -> String {
        let is_shown = self.texts.iter().enumerate().all(|(at, text)| {
            let letter = letter(at);
            let lower = letter.to_lowercase();
            question.match_indices(text.as_str()).any(|(start, _)| {
                let before = question[..start].trim_end();
                [".", ")", ":"].iter().any(|mark| {
                    before
                        .strip_suffix(mark)
                        .map(str::trim_end)
                        .is_some_and(|before| before.ends_with(&letter) || before.ends_with(&lower))
                })
            })
        });
        if is_shown {
            return String::new();
        }
        let lines =
            self.texts.iter().enumerate().map(|(at, text)| format!("{}. {text}", letter(at)));
        format!("\n\n{}", lines.collect::<Vec<_>>().join("\n"))
    }

    /// Which choice a value stands for.
    fn position(&self, value: &Value, reading: Reading) -> Option<usize> {
        let answer = plain(value)?;
        let answer = answer.trim();
        let only = |is_it: &dyn Fn(&str) -> bool, options: &[String]| {
            let mut found =
                options.iter().enumerate().filter(|(_, text)| is_it(text)).map(|(at, _)| at);
            found.next().filter(|_| found.next().is_none())
        };
        let index = || answer.strip_suffix(".0").unwrap_or(answer).parse::<usize>().ok();
        let at_place = |place: usize| self.places.iter().position(|at| *at == place);
        let at = match reading {
            Reading::Label => only(&|label| label == answer, &self.labels),
            Reading::Letter => {
                let bare = answer.trim_matches(['(', ')', '.', ':', ' ']);
                let byte = bare.bytes().next().filter(|_| bare.len() == 1);
                let byte = byte.filter(u8::is_ascii_alphabetic);
                let place = byte.map(|byte| usize::from(byte.to_ascii_uppercase() - b'A'));
                place.and_then(at_place).or_else(|| self.marked(answer))
            }
            // A number beside texts is an index.
            Reading::Text if value.is_number() && !self.are_numbers => None,
            Reading::Text => only(&|text| text == answer, &self.texts)
                .or_else(|| self.marked(answer))
                .or_else(|| only(&|text| is_same(text, answer), &self.texts)),
            Reading::IndexFrom0 => index().and_then(at_place),
            Reading::IndexFrom1 => index()?.checked_sub(1).and_then(at_place),
        };
        at.filter(|at| *at < self.texts.len())
    }

    /// The choice that a text names with the letter that stands before it: `B) Jupiter`.
    fn marked(&self, answer: &str) -> Option<usize> {
        let is_it = |(place, text): (&usize, &String)| {
            without_marker(answer, *place).is_some_and(|bare| bare == *text || is_same(&bare, text))
        };
        self.places.iter().zip(&self.texts).position(is_it)
    }
}

/// The line of the first row whose value stands for no choice in any way, for a message.
fn first_unread(answered: &[(&Row, Choices, Value)]) -> String {
    let is_unread = |(_, choices, value): &&(&Row, Choices, Value)| {
        ALL.iter().all(|reading| choices.position(value, *reading).is_none())
    };
    answered.iter().find(is_unread).map_or(String::new(), |(row, _, value)| {
        format!(" (line {}: {})", row.place(), short(&value.to_string()))
    })
}

/// How a column is read: the way that suits the most rows. Where that is an index, it may begin at 0 or at 1.
fn reading(answered: &[(&Row, Choices, Value)]) -> Result<Vec<Way>, &'static str> {
    let positions = |reading: Reading| -> Vec<Option<usize>> {
        answered.iter().map(|(_, choices, value)| choices.position(value, reading)).collect()
    };
    let read: Vec<Way> = ALL.iter().map(|reading| (*reading, positions(*reading))).collect();
    let suits = |positions: &[Option<usize>]| positions.iter().flatten().count();
    let most = read.iter().map(|(_, positions)| suits(positions)).max().unwrap_or(0);
    // A few rows may be faulty; a column of which many are is no such column.
    if most * 10 < answered.len() * 9 {
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
    best.truncate(if *first == Reading::IndexFrom0 { best.len() } else { 1 });
    Ok(best)
}

/// Whether a column says nothing: rows of a test split whose answers are kept secret.
fn is_unanswered(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => matches!(text.trim(), "" | "-1"),
        Value::Array(items) => items.is_empty(),
        other => other.as_i64() == Some(-1),
    }
}

/// Whether two texts differ in case alone. A single letter in another case is a choice's letter.
fn is_same(one: &str, other: &str) -> bool {
    one.len() > 1 && one.eq_ignore_ascii_case(other)
}

/// A choice without the letter of its place before it.
fn without_marker(text: &str, at: usize) -> Option<String> {
    let letter = letter(at);
    let rest = text.strip_prefix('(').unwrap_or(text);
    let (first, rest) = rest.split_at_checked(1)?;
    let rest = rest.trim_start().strip_prefix([')', '.', ':'])?;
    first.eq_ignore_ascii_case(&letter).then(|| rest.trim_start().to_owned())
}

/// The letter of a place.
pub(super) fn letter(at: usize) -> String {
    char::from(b'A' + (at % MOST) as u8).to_string()
}
