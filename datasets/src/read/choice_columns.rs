//! The choices of a row in the forms that datasets store them in: a column of all of them, a column for each, or the
//! right one and the wrong ones.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::choices::{Choices, MOST, letter};
use super::gold_value::plain;
use super::known_columns::list;
use super::right_choices::{self, are_marked, wrong_texts};
use super::{Row, json_array, names, nested};
use crate::python_list;
use tealight_core::fnv;

/// Columns that hold all choices of a row.
const LISTS: [&str; 13] = list(
    "choices|options|Choices|Options|endings|answer_choices|answer_options|possible_answers|mc_choices|\
    multiple_choice_targets|candidates|answer_option_list|answers",
);
/// Columns that may hold them.
const POSSIBLE_LISTS: [&str; 7] = list(
    "choice|opts|options_list|multiple_choice|multiple_choice_options|mc_options|choices_text",
);
/// Lists whose texts may also be gold answers: choices only beside a key that is an index.
const LISTS_OF_ANSWERS: [&str; 5] =
    list("answer_candidates|candidate_answers|proposed_answers|alternatives|answers");
/// The last word before the letter or number in the names of columns that may hold one choice each.
const WORDS: [&str; 15] = list(
    "|opt|option|choice|answer|ans|candidate|alternative|alt|sol|ending|hypothesis|solution|c|op",
);
/// Those of them that are choices without another word before them.
const ALONE: [&str; 5] = ["sol", "solution", "hypothesis", "c", "op"];
/// Longest text of a choice in such columns, in bytes.
pub(super) const SHORT: usize = 400;
/// Those of them whose columns hold choices for certain.
const CERTAIN: [&str; 3] = ["opt", "option", "choice"];
/// Least columns of choices without a word in their names.
const LEAST_LETTERS: usize = 3;
/// What comes before the letter or number in the names of columns that hold one choice each.
const PREFIXES: [&str; 9] =
    ["", "op", "option", "option_", "Option ", "choice", "choice_", "answer", "ending"];
/// Where the choices of a file's rows stand.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum ChoiceColumns {
    /// A column with all of them.
    List(String),
    /// A column for each, with the label that its name ends in.
    Each(Vec<(String, String)>),
    /// The right one, and the wrong ones.
    Distractors(String, Vec<String>),
    /// A column of objects that mark the right one.
    Marked(String),
}

impl ChoiceColumns {
    /// The columns of the rows' choices, where there are any.
    pub(super) fn detect(rows: &[Row], key: Option<&str>) -> Result<Option<Self>, String> {
        let has = |name: &&str| {
            let value = |row: &Row| row.values.get(*name).is_some_and(|value| !value.is_null());
            rows.iter().any(value)
        };
        let is_marked = |name: &str| has(&"label") || has(&"ra") || are_marked(rows, name);
        let distractors = right_choices::distractors(rows, key);
        for name in LISTS {
            let mut values = rows.iter().filter_map(|row| row.values.get(name));
            let Some(value) = values.find(|value| !is_empty(value)) else { continue };
            match of_list(value) {
                // `answers` are choices only beside a column that says which of them is right.
                Some(_) if name != "answers" || is_marked(name) => {
                    return Ok(Some(Self::List(name.into())));
                }
                None if distractors.is_none()
                    && LISTS[..4].contains(&name)
                    && !are_marked(rows, name) =>
                {
                    return Err(format!(
                        "column `{name}` may hold choices, in a form that is not read: write the question with \
                         --prompt-template and name the answer with --answer-column"
                    ));
                }
                _ => {}
            }
        }
        let each = || PREFIXES.iter().find_map(|prefix| series(rows, prefix)).map(Self::Each);
        Ok(distractors.or_else(|| right_choices::scored(rows)).or_else(each))
    }

    /// How the columns are named to the user.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::List(name) => format!("`{name}`"),
            Self::Each(columns) => {
                let names: Vec<String> =
                    columns.iter().map(|(_, name)| format!("`{name}`")).collect();
                names.join(", ")
            }
            Self::Marked(name) => format!("`{name}`, in an order that depends on their texts"),
            Self::Distractors(right, wrong) => {
                format!(
                    "`{right}` and `{}`, in an order that depends on their texts",
                    wrong.join("`, `")
                )
            }
        }
    }

    /// The choices of a row; none where it has none.
    pub(super) fn choices(&self, row: &Row) -> Option<Choices> {
        match self {
            Self::List(name) => of_list(row.values.get(name)?),
            Self::Each(columns) => {
                let one = |(label, name): &(String, String)| {
                    (label.clone(), row.values.get(name).and_then(plain).unwrap_or_default())
                };
                let (labels, texts) = columns.iter().map(one).unzip();
                Choices::new(texts, labels)
            }
            Self::Marked(name) => {
                let (texts, right) = right_choices::marked(row.values.get(name)?)?;
                drawn(right, texts)
            }
            Self::Distractors(right, wrong) => {
                let right =
                    plain(&*nested(&row.values, right)?).filter(|text| !text.trim().is_empty())?;
                let mut texts = vec![right.clone()];
                for name in wrong {
                    let value = row.values.get(name);
                    let more = value.map_or(Vec::new(), |value| wrong_texts(name, value));
                    texts.extend(
                        more.into_iter().filter(|text| !texts.contains(text)).collect::<Vec<_>>(),
                    );
                }
                drawn(right, texts)
            }
        }
    }
}

/// Choices in the same order in every run, and in another for every question.
fn drawn(right: String, mut texts: Vec<String>) -> Option<Choices> {
    texts.sort_by_key(|text| fnv(format!("{right}\0{text}").bytes()));
    Some(Choices::new(texts, Vec::new())?.read_as_numbers(true))
}

/// Columns that may hold choices, with whether the right one has to be named by an index or a letter.
pub(super) fn possible(rows: &[Row]) -> Vec<(ChoiceColumns, bool)> {
    let Some(first) = rows.first() else { return Vec::new() };
    let is_list = |name: &str| {
        let mut values = rows.iter().filter_map(|row| row.values.get(name));
        values.find(|value| !is_empty(value)).is_some_and(|value| of_list(value).is_some())
    };
    let named = POSSIBLE_LISTS.map(|name| (name, false)).into_iter();
    let named = named.chain(LISTS_OF_ANSWERS.map(|name| (name, true)));
    let lists = named.filter(|(name, _)| is_list(name));
    let lists = lists.map(|(name, needs_index)| (ChoiceColumns::List(name.into()), needs_index));
    let each = first.values.keys().filter_map(|name| {
        let bare = name.trim_end_matches([')', '.']);
        let (start, label) = bare.split_at_checked(bare.len().checked_sub(1)?)?;
        let mut words = names::words(start);
        let word = words.pop().unwrap_or_default();
        // DeepMath's `r1_solution_1` is no choice.
        let is_known = WORDS.contains(&&*word) && (words.is_empty() || !ALONE.contains(&&*word));
        let is_first = matches!(label, "A" | "a" | "0" | "1") && is_known;
        // `1` and `2` number anything, and a word may end in any letter: `opta` is no row of choices by itself.
        let is_number = label.starts_with(|c: char| c.is_ascii_digit());
        if !is_first || word.is_empty() && is_number {
            return None;
        }
        let columns = consecutive(rows, start, label, &name[bare.len()..])?;
        let is_short = |(_, name): &(String, String)| {
            let is_text = |text: &str| text.len() <= SHORT && !text.contains("\\box");
            rows.iter().all(|row| row.text(name).is_none_or(is_text))
        };
        let is_likely = columns.len() >= LEAST_LETTERS || !word.is_empty();
        let is_likely = is_likely && columns.iter().all(is_short);
        let needs_index = !CERTAIN.contains(&&*word);
        is_likely.then_some((ChoiceColumns::Each(columns), needs_index))
    });
    lists.chain(each).collect()
}

/// The columns whose names have this label and those after it, with their labels.
fn consecutive(rows: &[Row], start: &str, first: &str, end: &str) -> Option<Vec<(String, String)>> {
    let labels: Vec<String> = match first.parse::<usize>() {
        Ok(first) => (first..first + MOST).map(|number| number.to_string()).collect(),
        Err(_) => (first.chars().next()?..).take(MOST).map(String::from).collect(),
    };
    let names = labels.into_iter().map(|label| {
        let name = format!("{start}{label}{end}");
        (label, name)
    });
    let found: Vec<_> = names.take_while(|(_, name)| is_given(rows, name)).collect();
    (found.len() >= 2).then_some(found)
}

/// Whether a row has a text in the column; the first may have fewer choices than others.
fn is_given(rows: &[Row], name: &str) -> bool {
    rows.iter().any(|row| row.values.get(name).is_some_and(|value| plain(value).is_some()))
}

/// Whether a value holds nothing.
pub(super) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.values().all(is_empty),
        Value::String(text) => text.trim().is_empty(),
        _ => false,
    }
}

/// The text of a choice, which is empty where there is none.
fn text(value: &Value) -> Option<String> {
    if value.is_null() { Some(String::new()) } else { plain(value) }
}

/// The items of a list, or of a text that is one as JSON or Python prints it.
pub(super) fn items(value: &Value) -> Option<Cow<'_, [Value]>> {
    match value {
        Value::Array(items) => Some(Cow::Borrowed(items)),
        Value::String(text) if text.trim_start().starts_with('[') => {
            let of_python =
                || Some(python_list::read(text)?.into_iter().map(Value::from).collect());
            json_array(text).or_else(of_python).map(Cow::Owned)
        }
        _ => None,
    }
}

fn of_list(value: &Value) -> Option<Choices> {
    match value {
        Value::Object(fields) => of_object(fields),
        _ => items(value)
            .and_then(|items| of_items(&items))
            .or_else(|| value.as_str().and_then(marked)),
    }
}

/// A list of texts, or of objects with a label and a text.
fn of_items(items: &[Value]) -> Option<Choices> {
    let member =
        |item: &Value, names: &[&str]| names.iter().find_map(|name| plain(item.get(name)?));
    if let Some(fields) = one_key_each(items) {
        return of_object(&fields);
    }
    // TAL-SCQ's lists of one object each.
    let inner = |item: &Value| match item.as_array().map(Vec::as_slice) {
        Some([one @ Value::Object(_)]) => Some(one.clone()),
        _ => None,
    };
    if let Some(items) = items.iter().map(inner).collect::<Option<Vec<Value>>>()
        && !items.is_empty()
    {
        return of_items(&items);
    }
    if items.iter().all(Value::is_object) {
        let texts = items.iter().map(|item| member(item, &["text", "content", "value", "atext"]));
        let labels: Option<Vec<String>> = items
            .iter()
            .map(|item| member(item, &["label", "key", "letter", "id", "aid", "aoVal"]))
            .collect();
        return Choices::new(texts.collect::<Option<_>>()?, labels.unwrap_or_default());
    }
    let choices = Choices::new(items.iter().map(text).collect::<Option<_>>()?, Vec::new())?;
    Some(choices.read_as_numbers(items.iter().all(Value::is_number)))
}

/// `[{"A": ..}, {"B": ..}]` as one object.
fn one_key_each(items: &[Value]) -> Option<Map<String, Value>> {
    let one = |item: &Value| {
        let (label, text) = item.as_object().filter(|fields| fields.len() == 1)?.iter().next()?;
        (label.len() == 1).then(|| (label.clone(), text.clone()))
    };
    let fields: Map<String, Value> = items.iter().map(one).collect::<Option<_>>()?;
    (fields.len() == items.len()).then_some(fields)
}

/// `{"text": [..], "label": [..]}`, or `{"A": .., "B": ..}`.
fn of_object(fields: &Map<String, Value>) -> Option<Choices> {
    let list = |name: &str| -> Option<Vec<String>> {
        fields.get(name)?.as_array()?.iter().map(text).collect()
    };
    if let Some(texts) = list("text") {
        let labels = list("label").filter(|labels| labels.len() == texts.len());
        return Choices::new(texts, labels.unwrap_or_default());
    }
    let mut pairs: Vec<(String, String)> = fields
        .iter()
        .map(|(label, value)| (label.len() == 1).then_some((label.clone(), text(value)?)))
        .collect::<Option<_>>()?;
    pairs.sort();
    let (labels, texts) = pairs.into_iter().unzip();
    Choices::new(texts, labels)
}

/// Choices in one text, each behind its letter: `a ) 38 , b ) 27.675 , c ) 30`.
fn marked(text: &str) -> Option<Choices> {
    let mut starts = Vec::new();
    let mut from = 0;
    for at in 0..MOST {
        let letter = letter(at);
        let begins = |start: &usize| {
            let before = text[..*start].trim_end_matches(['(', '\'', '"', '[']).chars().next_back();
            before.is_none_or(|c| c.is_whitespace() || c == ',' || c == ';')
        };
        let marker = |start: usize| {
            let rest = text[start + 1..].trim_start();
            let rest = rest.strip_prefix([')', '.', ':'])?;
            Some((start, text.len() - rest.len()))
        };
        let found = text[from..]
            .char_indices()
            .filter(|(_, c)| c.to_string().eq_ignore_ascii_case(&letter))
            .map(|(start, _)| from + start)
            .filter(begins)
            .find_map(marker);
        let Some(found) = found else { break };
        from = found.1;
        starts.push(found);
    }
    let ends = starts.iter().skip(1).map(|(start, _)| *start).chain([text.len()]);
    let is_edge =
        |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '(' | '\'' | '"' | '[' | ']');
    let texts = starts.iter().zip(ends).map(|((_, begin), end)| {
        let inner = text[*begin..end].trim_end_matches(is_edge);
        inner.trim_start().to_owned()
    });
    Choices::new(texts.collect(), Vec::new())
}

/// Columns whose names end in consecutive letters or numbers, with their labels.
fn series(rows: &[Row], prefix: &str) -> Option<Vec<(String, String)>> {
    let firsts = ["A", "a", "0", "1"];
    // Without a word before them only capitals are choices.
    let firsts = if prefix.is_empty() { &firsts[..1] } else { &firsts[..] };
    let mut found = firsts.iter().find_map(|first| consecutive(rows, prefix, first, ""))?;
    // Social IQa numbers `answerA`, `answerB` and `answerC` from 1.
    if prefix == "answer" && found[0].0.starts_with(char::is_alphabetic) {
        found.iter_mut().zip(1..).for_each(|((label, _), number)| *label = number.to_string());
    }
    Some(found)
}
