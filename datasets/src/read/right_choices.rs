//! Choices that say themselves which is right: columns of wrong ones beside the gold answer, and objects that mark one.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::Value;

use super::choice_columns::{ChoiceColumns, SHORT, is_empty};
use super::gold_value::plain;
use super::known_columns::ANSWERS;
use super::layout::is_filled;
use super::{Row, json, json_array, names, nested};
use crate::python_list;

/// Words of the names of columns of wrong choices; and those that may stand beside them.
const WRONG: [&str; 7] =
    ["incorrect", "wrong", "false", "distractor", "distractors", "foil", "foils"];
const WRONG_PARTS: [&str; 15] = [
    "answer", "answers", "ans", "choice", "choices", "option", "options", "opt", "text", "texts",
    "alternative", "alternatives", "candidate", "candidates", "mc",
];
/// Names of the column of the right one, in any case, before other columns of gold answers.
const RIGHT: [&str; 8] = [
    "correct answer", "best answer", "right answer", "true answer", "correct option", "correct choice", "correct",
    "answer",
];
/// Keys of the texts and of the marks in an object of choices.
const TEXTS: [&str; 4] = ["choices", "options", "targets", "answers"];
const MARKS: [&str; 4] = ["labels", "scores", "correct", "is_correct"];
/// Words of the names of columns whose objects give each choice a score.
const SCORED: [&str; 8] =
    ["target", "targets", "choice", "choices", "option", "options", "answer", "answers"];

/// Whether a name says that its column holds wrong choices, and whether it is numbered.
fn of_wrong(name: &str) -> Option<bool> {
    let words = names::words(name);
    let bare = words.iter().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    let is_part = |word: &&str| WRONG_PARTS.contains(word) || word.len() <= 1;
    let others: Vec<&str> = bare.filter(|word| !WRONG.contains(word)).collect();
    let is_wrong = others.len() + 1 == words.len() && others.iter().all(is_part);
    let is_numbered = name.ends_with(|c: char| c.is_ascii_digit()) || words.last()?.len() == 1;
    is_wrong.then_some(is_numbered)
}

/// The wrong choices of a value; one text of several has them between semicolons.
pub(super) fn wrong_texts(name: &str, value: &Value) -> Vec<String> {
    let of_list = |items: &[Value]| items.iter().filter_map(plain).collect();
    match value {
        Value::Array(items) => of_list(items),
        Value::String(text) if text.trim_start().starts_with('[') => json_array(text)
            .map(|items| of_list(&items))
            .or_else(|| python_list::read(text))
            .unwrap_or_default(),
        Value::String(text) if of_wrong(name) == Some(false) => {
            text.split(';').map(str::trim).map(String::from).collect()
        }
        Value::String(_) | Value::Number(_) => plain(value).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The columns of wrong choices, with that of the right one, which the user may have named.
pub(super) fn distractors(rows: &[Row], key: Option<&str>) -> Option<ChoiceColumns> {
    let is_short = |text: &String| text.len() <= SHORT && !text.contains("\\box") && !text.contains("####");
    let mut wrong = BTreeSet::new();
    for name in rows.iter().flat_map(|row| row.values.keys()) {
        if !wrong.contains(name) && of_wrong(name).is_some() {
            wrong.insert(name.clone());
        }
    }
    wrong.retain(|name| {
        let values = || rows.iter().filter_map(|row| row.values.get(name)).filter(|value| !is_empty(value));
        // One wrong answer alone may be somebody's.
        let are_several = |value: &Value| of_wrong(name) == Some(true) || wrong_texts(name, value).len() > 1;
        let are_texts = |value: &Value| {
            let texts = wrong_texts(name, value);
            !texts.is_empty() && texts.iter().all(is_short)
        };
        values().any(are_several) && values().all(are_texts)
    });
    if wrong.is_empty() {
        return None;
    }
    let all = |row: &Row| -> Vec<String> {
        let value = |name: &String| Some(wrong_texts(name, row.values.get(name)?));
        wrong.iter().filter_map(value).flatten().filter(|text| !text.trim().is_empty()).collect()
    };
    // A letter or a number beside other texts says which of other choices is right.
    let is_kind = |right: &str, wrong: &[String], is: fn(&str) -> bool| !is(right) || wrong.iter().any(|text| is(text));
    let is_right = |name: &str| {
        let mut asked = rows.iter().filter_map(|row| Some((nested(&row.values, name)?, all(row))));
        let suits = |(value, wrong): (Cow<'_, Value>, Vec<String>)| {
            let text = plain(&value).filter(|_| !value.is_boolean());
            wrong.is_empty() || value.is_null() || text.is_some_and(|text| {
                is_short(&text)
                    && is_kind(text.trim(), &wrong, |text| text.len() == 1)
                    && is_kind(text.trim(), &wrong, |text| text.contains(|c: char| c.is_ascii_digit()))
            })
        };
        is_filled(rows, name) && asked.all(suits)
    };
    let named = RIGHT.iter().find_map(|known| {
        let mut names = rows.first()?.values.keys();
        names.find(|name| names::words(name).join(" ") == *known && is_right(name)).cloned()
    });
    let right = match key {
        Some(key) => Some(key.to_owned()).filter(|key| is_right(key)),
        None => named.or_else(|| ANSWERS.into_iter().find(|name| is_right(name)).map(String::from)),
    };
    let right = right.or_else(|| names::gold(rows).filter(|name| key.is_none() && is_right(name)));
    right.map(|right| ChoiceColumns::Distractors(right, wrong.iter().cloned().collect()))
}

/// The choices of a value that marks one of them as right, and the right one.
pub(super) fn marked(value: &Value) -> Option<(Vec<String>, String)> {
    if let Some(text) = value.as_str() {
        return marked(&json::written(text).filter(|value| !value.is_string())?);
    }
    let member = |item: &Value, names: &[&str]| names.iter().find_map(|name| item.get(name)).cloned();
    let list = |names: &[&str]| member(value, names)?.as_array().cloned();
    let (texts, marks): (Vec<Value>, Vec<Value>) = match value {
        Value::Array(items) => {
            let one = |item: &Value| {
                Some((member(item, &["text", "content", "value", "choice", "option", "answer"])?, member(item, &["is_correct", "isCorrect", "correct", "is_answer"])?))
            };
            items.iter().map(one).collect::<Option<Vec<_>>>()?.into_iter().unzip()
        }
        Value::Object(fields) => match (list(&TEXTS), list(&MARKS)) {
            (Some(texts), Some(marks)) => (texts, marks),
            // Parquet has null for what other rows' choices are.
            _ => {
                let filled = fields.iter().filter(|(_, mark)| !mark.is_null());
                filled.map(|(text, mark)| (Value::from(text.as_str()), mark.clone())).unzip()
            }
        },
        _ => return None,
    };
    let mark = |mark: &Value| match mark.as_bool().map(f64::from).or_else(|| mark.as_f64()) {
        Some(0.0) => Some(false),
        Some(1.0) => Some(true),
        _ => None,
    };
    let marks: Vec<bool> = marks.iter().map(mark).collect::<Option<_>>()?;
    let texts: Vec<String> = texts.iter().map(plain).collect::<Option<_>>()?;
    let is_one = texts.len() == marks.len() && texts.len() > 1 && marks.iter().filter(|is| **is).count() == 1;
    let right = texts.get(marks.iter().position(|is| *is)?)?.clone();
    is_one.then_some((texts, right))
}

/// Whether every row that fills a column marks one of its choices as right.
pub(super) fn are_marked(rows: &[Row], name: &str) -> bool {
    let mut values = rows.iter().filter_map(|row| row.values.get(name)).filter(|value| !is_empty(value)).peekable();
    values.peek().is_some() && values.all(|value| marked(value).is_some())
}

/// A column of objects that give each choice a score or a mark.
pub(super) fn scored(rows: &[Row]) -> Option<ChoiceColumns> {
    let is_of_choices = |name: &str, value: &Value| {
        let words = names::words(name);
        let is = |list: &[&str], word: &String| list.contains(&word.as_str());
        let is_named = words.iter().any(|word| is(&SCORED, word))
            && words.iter().all(|word| is(&SCORED, word) || is(&["score", "scores"], word));
        is_named || TEXTS.iter().any(|texts| value.get(texts).is_some_and(Value::is_array))
    };
    let (name, _) = rows.first()?.values.iter().find(|(name, value)| {
        (value.is_object() || value.is_string()) && is_of_choices(name, value) && are_marked(rows, name)
    })?;
    Some(ChoiceColumns::Marked(name.clone()))
}
