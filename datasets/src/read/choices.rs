//! The choices of a question, and which of them is the gold answer: a letter, whatever the column holds (a letter, a
//! label, an index, a text).

use std::collections::BTreeSet;

use serde_json::Value;

use super::choice_columns::{ChoiceColumns, items, possible};
use super::choice_keys::{ALL, KEYS, Key, Reading, Way, keys, reading};
use super::choice_marks::{amount, number_of, without_marker};
use super::gold_value::{Gold, is_same as is_equal, plain, worked};
use super::right_choices::{are_marked, marked};
use super::{Row, nested};
use crate::choice_list::{self, Listed};
use crate::verify::short;

/// Most choices of a question: one for each letter.
pub(super) const MOST: usize = 26;
/// Why a value names no single choice.
const SEVERAL: &str = "the answer is several of the choices, and one is asked for";
const TWICE: &str = "the answer stands twice among the choices";

/// The choices of a row: texts in the order they are shown in, labels of the dataset's own.
pub(super) struct Choices {
    texts: Vec<String>,
    labels: Vec<String>,
    /// Where each stands in the row, which may have empty ones too.
    places: Vec<usize>,
    /// Whether the dataset stores them as numbers.
    are_numbers: bool,
}

/// The choices of a file, and the column that says which is right.
pub(super) struct ChoiceLayout {
    pub(super) columns: ChoiceColumns,
    pub(super) key: String,
    pub(super) reading: Reading,
    /// That another column names other choices, in words.
    pub(super) conflict: Option<String>,
    /// That its numbers may begin at 0 or at 1, in words.
    pub(super) open: Option<String>,
}

impl ChoiceLayout {
    /// The layout of rows with choices in `columns`; `key` is the column that was asked for.
    pub(super) fn detect(
        rows: &[Row],
        columns: ChoiceColumns,
        key: Option<&str>,
    ) -> Result<Option<Self>, String> {
        Self::find(rows, columns, key)?.transpose()
    }

    /// The same; within it, the reason why indices are not certain.
    fn find(
        rows: &[Row],
        columns: ChoiceColumns,
        key: Option<&str>,
    ) -> Result<Option<Result<Self, String>>, String> {
        let own = match &columns {
            ChoiceColumns::Distractors(right, _) => Some((right, Reading::Text)),
            ChoiceColumns::Marked(name) => Some((name, Reading::Marked)),
            ChoiceColumns::List(name) if are_marked(rows, name) => Some((name, Reading::Marked)),
            _ => None,
        };
        if let Some((name, reading)) = own
            && key.is_none_or(|key| key == name)
        {
            let (key, conflict, open) = (name.clone(), None, None);
            return Ok(Some(Ok(Self { columns, key, reading, conflict, open })));
        }
        if let (Some((name, Reading::Marked)), Some(key)) = (own, key)
            && key.starts_with(&format!("{name}."))
        {
            return Err(format!(
                "column `{key}` is a part of choices that say themselves which is right: name all of it, --answer-column {name}"
            ));
        }
        let known: Vec<&str> = key.map_or_else(|| keys(rows), |key| vec![key]);
        let is_named = key.is_some();
        let (mut refused, mut hidden, mut found) = (None, None, Vec::new());
        for key in known {
            let is_listed = KEYS.contains(&key);
            // A column may hold one of the choices (`answer0`) or nothing in every row.
            let answered: Vec<(&Row, Choices, Value)> = rows
                .iter()
                .filter_map(|row| {
                    let value = nested(&row.values, key)?;
                    let choices = columns.choices(row)?;
                    let is_text = choices.position(&value, Reading::Text).is_some();
                    (is_text || !is_unanswered(&value)).then(|| (row, choices, value.into_owned()))
                })
                .collect();
            if answered.is_empty() {
                let is_hidden = |row: &Row| {
                    let value = nested(&row.values, key).and_then(|value| plain(&value));
                    value.is_some_and(|value| value.trim() == "-1")
                };
                hidden = hidden.or(Some(key).filter(|_| rows.iter().any(is_hidden)));
                continue;
            }
            let is_numbered = matches!(columns, ChoiceColumns::Each(_));
            match reading(&answered, is_numbered) {
                Ok(ways) => {
                    let are_numbers = answered.iter().all(|(.., value)| value.is_number());
                    let rows = answered.iter().map(|(row, ..)| *row).collect();
                    found.push(Key { name: key, rows, ways, are_numbers });
                }
                Err(_) if !is_listed && !is_named => {}
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
            (None, None) => match hidden {
                Some(key) => Err(format!(
                    "column `{key}` is -1 or empty in every row: the answers are not published, as is usual for test \
                     files; use a file with answers"
                )),
                None => Ok(None),
            },
            (None, Some(what)) => Err(format!(
                "{what}: name another column with --answer-column, or write the question with --prompt-template and \
                 name the answer with --answer-column"
            )),
        }
    }

    /// The layout by a column, with what others say against it.
    fn of_key(columns: ChoiceColumns, key: &Key<'_>, others: &[Key<'_>]) -> Result<Self, String> {
        let against = |way: &Way| {
            let all = others.iter().map(|other| (other.name, key.conflicts(way, other)));
            all.filter(|(_, rows)| !rows.is_empty()).collect::<Vec<_>>()
        };
        let mut ways: Vec<_> = key.ways.iter().map(|way| (way.0, against(way))).collect();
        let fewest = ways.iter().map(|(_, conflicts)| conflicts.len()).min();
        ways.retain(|(_, conflicts)| Some(conflicts.len()) == fewest);
        let readings: Vec<Reading> = ways.iter().map(|way| way.0).collect();
        let (at, open) = key.base(&readings, &columns)?;
        let (reading, conflicts) = ways.swap_remove(at);
        let conflict = conflicts.first().map(|(other, rows)| {
            format!(
                "`{other}` names another choice than `{}` in {} of {} rows, first in row {}: the answer is taken from \
                 `{}`; --answer-column names another",
                key.name,
                rows.len(),
                key.rows.len(),
                rows[0].place(),
                key.name
            )
        });
        Ok(Self { columns, key: key.name.into(), reading, conflict, open })
    }

    /// The layout of rows whose columns may hold choices, by their names and the column that is to say which is right:
    /// none unless that column says it.
    pub(super) fn detect_possible(rows: &[Row], key: Option<&str>) -> Result<Option<Self>, String> {
        let says = |name: &&str| {
            let value =
                |row: &Row| nested(&row.values, name).is_some_and(|value| !is_unanswered(&value));
            rows.iter().any(value)
        };
        let Some(key) = key.or_else(|| keys(rows).into_iter().find(says)) else { return Ok(None) };
        for (columns, needs_index) in possible(rows) {
            let Ok(Some(found)) = Self::find(rows, columns, Some(key)) else { continue };
            if found.as_ref().is_ok_and(|found| needs_index && found.reading == Reading::Text) {
                continue;
            }
            return found.map(Some);
        }
        Ok(None)
    }

    /// Why a row is left out whose question lists the choices in another order.
    pub(super) fn other_order(&self, question: &str) -> String {
        format!(
            "column `{question}` lists the choices in another order than {}, so a letter or a \
             number may mean either: correct one of the two, or write the question with --prompt-template",
            self.columns.shown()
        )
    }

    /// The letter of a row's right choice; none where the column says nothing that is one of them.
    pub(super) fn letter(&self, choices: &Choices, value: &Value) -> Option<String> {
        choices.position(value, self.reading).map(letter)
    }

    /// Whether a row without choices says which of them is right, and what is asked does not show it by its letter.
    pub(super) fn lacks_choices(&self, value: &Value, asked: &str) -> bool {
        let places: Vec<usize> = (0..MOST).collect();
        let texts = places.iter().map(|at| format!("\0{at}")).collect();
        let any = Choices { texts, labels: Vec::new(), places, are_numbers: false };
        let place = |reading| any.position(value, reading);
        match self.reading {
            Reading::Text | Reading::Marked => false,
            Reading::Label if place(Reading::IndexFrom0).is_some() => true,
            Reading::Letter | Reading::Label => {
                place(Reading::Letter).is_some_and(|at| !shows(asked, at) || !shows(asked, 0))
            }
            index => place(index).is_some(),
        }
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

    /// The choices as a question lists them, where it lists all.
    fn listed(&self, question: &str) -> Option<Listed> {
        let texts: Vec<&str> = self.texts.iter().map(String::as_str).collect();
        choice_list::find(question, &texts).filter(|listed| listed.letters.len() == texts.len())
    }

    /// Whether a question lists them in another order.
    pub(super) fn are_reordered(&self, question: &str) -> bool {
        let differs =
            |(place, (_, at)): (usize, &(char, usize))| self.texts[*at] != self.texts[place];
        // A list without letters before the end may be a table, or how to answer.
        let is_last = self.texts.iter().any(|text| question.trim_end().ends_with(text.as_str()));
        let listed = self.listed(question).filter(|listed| listed.is_lettered || is_last);
        listed.is_some_and(|listed| listed.letters.iter().enumerate().any(differs))
    }

    /// The choices below a question, unless the question shows them by their letters already.
    pub(super) fn below(&self, question: &str) -> String {
        if self.listed(question).is_some_and(|it| it.is_lettered && it.letters[0].0 == 'A') {
            return String::new();
        }
        let lines =
            self.texts.iter().enumerate().map(|(at, text)| format!("{}. {text}", letter(at)));
        format!("\n\n{}", lines.collect::<Vec<_>>().join("\n"))
    }

    /// Which choice a value stands for: as it is, else by the final answer that it gives, as a worked solution does.
    pub(super) fn position(&self, value: &Value, reading: Reading) -> Option<usize> {
        if reading == Reading::Marked {
            return self.position(&marked(value)?.1.into(), Reading::Text);
        }
        let is_read = |reading: &Reading| self.position_of(value, *reading).is_some();
        let is_final = matches!(reading, Reading::Letter | Reading::Text) && !value.is_number();
        if !is_final || ALL.iter().any(is_read) {
            return self.position_of(value, reading);
        }
        let Gold::Answer(answer) = worked(&plain(value)?) else { return None };
        // A number is no letter, and may be the index of a text that begins with it.
        let is_index = answer.trim().parse::<usize>().is_ok();
        let is_named = |at: usize| answer.contains(&self.texts[at]);
        let is_alone = |at: usize| is_named(at) || !(0..self.texts.len()).any(is_named);
        let is_lettered = |at: usize| {
            let letter = letter(self.places[at]);
            answer.to_ascii_uppercase().contains(&letter) && is_equal(&letter, &answer)
        };
        only(self.texts.len(), &|at| match (&self.texts[at], reading) {
            (text, reading) if is_index => reading == Reading::Text && text == answer.trim(),
            (_, Reading::Letter) => is_lettered(at) && is_alone(at),
            // `B. Mars` is no choice where Mars is another one's text.
            (text, _) => {
                let is_other = |other| other != at && is_lettered(other);
                is_equal(text, &answer) && !(0..self.texts.len()).any(is_other)
            }
        })
    }

    /// Why a value stands for no choice that a letter could name: it names several, or one that stands twice.
    pub(super) fn unclear(&self, value: &Value) -> Option<&'static str> {
        let (text, is_list) = (plain(value), items(value).is_some_and(|all| all.len() > 1));
        let text = text.as_deref().map_or("", str::trim);
        let bare = text.replace("and", "");
        let letters: BTreeSet<char> = bare.chars().filter(|c| c.is_alphanumeric()).collect();
        let is_letter = |c: &char| self.places.iter().any(|at| letter(*at) == c.to_string());
        let are_letters = letters.len() > 1 && letters.iter().all(is_letter);
        let is_twice = self.texts.iter().filter(|choice| *choice == text).count() > 1;
        match (is_list || are_letters, is_twice) {
            (false, false) => None,
            _ if ALL.iter().any(|reading| self.position(value, *reading).is_some()) => None,
            (true, _) => Some(SEVERAL),
            _ => Some(TWICE),
        }
    }

    /// Which choice a value is.
    fn position_of(&self, value: &Value, reading: Reading) -> Option<usize> {
        let answer = plain(value)?;
        let answer = answer.trim();
        let only = |is_it: &dyn Fn(&str) -> bool, options: &[String]| {
            only(options.len(), &|at| is_it(&options[at]))
        };
        let index = || answer.strip_suffix(".0").unwrap_or(answer).parse::<usize>().ok();
        let at_place = |place: usize| self.places.iter().position(|at| *at == place);
        let at = match reading {
            Reading::Label => only(&|label| label == answer, &self.labels)
                .or_else(|| only(&|label| label == number_of(answer), &self.labels)),
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
                .or_else(|| only(&|text| is_same(text, answer), &self.texts))
                .or_else(|| {
                    let value = amount(answer).filter(|_| answer.parse::<f64>().is_ok())?;
                    only(&|text| amount(text) == Some(value), &self.texts)
                }),
            Reading::Marked => return None,
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

/// The first row whose value stands for no choice in any way, for a message.
fn first_unread(answered: &[(&Row, Choices, Value)]) -> String {
    let is_unread = |(_, choices, value): &&(&Row, Choices, Value)| {
        ALL.iter().all(|reading| choices.position(value, *reading).is_none())
    };
    answered.iter().find(is_unread).map_or(String::new(), |(row, _, value)| {
        format!(" (row {}: {})", row.place(), short(&value.to_string()))
    })
}

/// The only place for which something holds.
fn only(count: usize, is_it: &dyn Fn(usize) -> bool) -> Option<usize> {
    let mut found = (0..count).filter(|at| is_it(*at));
    found.next().filter(|_| found.next().is_none())
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

/// The letter of a place.
pub(super) fn letter(at: usize) -> String {
    char::from(b'A' + (at % MOST) as u8).to_string()
}

/// Whether a text shows the choice of a place by its letter: `B.`, `(b)`.
pub(super) fn shows(text: &str, at: usize) -> bool {
    let is_mark = |word: &str| {
        let word = word.strip_prefix('(').unwrap_or(word);
        let rest = word.get(..1).filter(|it| it.eq_ignore_ascii_case(&letter(at)));
        rest.is_some() && word[1..].starts_with([')', '.', ':'])
    };
    text.split_whitespace().any(is_mark)
}
