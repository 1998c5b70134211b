//! Choices that say themselves which is right: columns of wrong ones beside the gold answer, and objects that mark one.

use std::collections::BTreeSet;

use serde_json::Value;

use super::choice_columns::{ChoiceColumns, SHORT, is_empty, items};
use super::gold_value::plain;
use super::known_columns::ANSWERS;
use super::layout::is_filled;
use super::{Row, json, names, names::is_in, nested};

/// Words of the names of columns of wrong choices; and those that may stand beside them.
const WRONG: &str = "incorrect wrong false distractor distractors foil foils";
const WRONG_PARTS: &str =
    "answer answers ans choice choices option options opt text texts alternative alternatives mc";
/// Names of the column of the right one, in any case, before other columns of gold answers.
const RIGHT: &str = "correct answer,best answer,right answer,true answer,correct option,correct choice,correct,answer";
/// Keys of the texts and of the marks in an object of choices, and in those of a list.
const TEXTS: [&str; 4] = ["choices", "options", "targets", "answers"];
const MARKS: [&str; 4] = ["labels", "scores", "correct", "is_correct"];
const TEXT: [&str; 6] = ["text", "content", "value", "choice", "option", "answer"];
const MARK: [&str; 4] = ["is_correct", "isCorrect", "correct", "is_answer"];
/// Words of the names of columns whose objects give each choice a score.
const SCORED: &str = "target targets choice choices option options answer answers";

/// Whether a name says that its column holds wrong choices, and whether it is numbered.
pub(super) fn of_wrong(name: &str) -> Option<bool> {
    let words = names::words(name);
    let bare = words.iter().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    let (wrong, others): (Vec<&str>, Vec<&str>) = bare.partition(|word| is_in(WRONG, word));
    let is_wrong =
        wrong.len() == 1 && others.iter().all(|it| it.len() <= 1 || is_in(WRONG_PARTS, it));
    let is_numbered = name.ends_with(|c: char| c.is_ascii_digit()) || words.last()?.len() == 1;
    is_wrong.then_some(is_numbered)
}

/// The wrong choices of a value; one text of several has them between semicolons.
pub(super) fn wrong_texts(name: &str, value: &Value) -> Vec<String> {
    match value {
        _ if let Some(items) = items(value) => items.iter().filter_map(plain).collect(),
        Value::String(text) if text.trim_start().starts_with('[') => Vec::new(),
        Value::String(text) if of_wrong(name) == Some(false) => {
            text.split(';').map(str::trim).map(String::from).collect()
        }
        Value::String(_) | Value::Number(_) => plain(value).into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The columns of wrong choices, with that of the right one, which the user may have named.
pub(super) fn distractors(rows: &[Row], key: Option<&str>) -> Option<ChoiceColumns> {
    // Texts without numbers in the names of their columns may be what models wrote, which is long.
    let is_short = |text: &String, name: &str| {
        let is_marked = text.contains("\\box") || text.contains("####");
        !is_marked && (text.len() <= SHORT || of_wrong(name) == Some(true))
    };
    let are_nearly_all = |count: usize, of: usize| count > 0 && count * 10 >= of * 9;
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.values.keys()).collect();
    let mut wrong: Vec<String> =
        names.into_iter().filter(|it| of_wrong(it).is_some()).cloned().collect();
    wrong.retain(|name| {
        let values = rows.iter().filter_map(|row| row.values.get(name));
        let texts: Vec<Vec<String>> =
            values.filter(|it| !is_empty(it)).map(|value| wrong_texts(name, value)).collect();
        // One wrong answer alone may be somebody's.
        let is_several = |texts: &Vec<String>| of_wrong(name) == Some(true) || texts.len() > 1;
        let are_texts = |texts: &&Vec<String>| {
            !texts.is_empty() && texts.iter().all(|text| is_short(text, name))
        };
        texts.iter().any(is_several)
            && are_nearly_all(texts.iter().filter(are_texts).count(), texts.len())
    });
    let first = wrong.first()?;
    // A letter or a number beside other texts says which of other choices is right.
    let kind = |text: &str| (text.trim().len() == 1, text.trim().parse::<f64>().is_ok());
    let suits = |row: &Row, name: &str| {
        let texts = |name: &String| Some(wrong_texts(name, row.values.get(name)?));
        let others: Vec<String> = wrong.iter().filter_map(texts).flatten().collect();
        let Some(value) = nested(&row.values, name).filter(|it| !is_empty(it)) else { return true };
        let text = plain(&value).filter(|text| !value.is_boolean() && is_short(text, first));
        text.is_some_and(|text| {
            let (is_letter, is_number) = kind(&text);
            let is_alike =
                |other: &String| is_letter && kind(other).0 || is_number && kind(other).1;
            others.is_empty() || !is_letter && !is_number || others.iter().any(is_alike)
        })
    };
    let is_right = |name: &str| {
        let suited = || rows.iter().filter(|row| suits(row, name)).count();
        is_filled(rows, name) && are_nearly_all(suited(), rows.len())
    };
    let called = |known: &str| {
        let mut names = rows.first()?.values.keys();
        names.find(|name| names::words(name).join(" ") == known && is_right(name)).cloned()
    };
    let listed = || ANSWERS.into_iter().find(|name| is_right(name)).map(String::from);
    let found = || RIGHT.split(',').find_map(called).or_else(listed).or_else(|| names::gold(rows));
    let right = key.map(str::to_owned).or_else(found).filter(|right| is_right(right))?;
    Some(ChoiceColumns::Distractors(right, wrong))
}

/// The choices of a value that marks one of them as right, and the right one.
pub(super) fn marked(value: &Value) -> Option<(Vec<String>, String)> {
    if let Some(text) = value.as_str() {
        return marked(&json::written(text).filter(|value| !value.is_string())?);
    }
    let member =
        |item: &Value, names: &[&str]| names.iter().find_map(|name| item.get(name)).cloned();
    let list = |names: &[&str]| member(value, names)?.as_array().cloned();
    let (texts, marks): (Vec<Value>, Vec<Value>) = match value {
        Value::Array(items) => {
            let one = |item: &Value| Some((member(item, &TEXT)?, member(item, &MARK)?));
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
    let is_one = texts.len() == marks.len()
        && texts.len() > 1
        && marks.iter().filter(|is| **is).count() == 1;
    let right = texts.get(marks.iter().position(|is| *is)?)?.clone();
    is_one.then_some((texts, right))
}

/// Whether every row that fills a column marks one of its choices as right.
pub(super) fn are_marked(rows: &[Row], name: &str) -> bool {
    let values = || rows.iter().filter_map(|row| row.values.get(name)).filter(|it| !is_empty(it));
    values().next().is_some() && values().all(|value| marked(value).is_some())
}

/// A column of objects that give each choice a score or a mark.
pub(super) fn scored(rows: &[Row]) -> Option<ChoiceColumns> {
    let is_of_choices = |name: &str, value: &Value| {
        let mut words = names::words(name);
        let all = words.len();
        words.retain(|word| !is_in("score scores", word));
        // The parts of an answer are no choices, and their values no marks.
        let is_sure = words.len() < all || words.iter().all(|word| is_in("options choices", word));
        is_sure && words.first().is_some_and(|word| is_in(SCORED, word))
            || TEXTS.iter().any(|texts| value.get(texts).is_some_and(Value::is_array))
    };
    let is_found = |(name, value): &(&String, &Value)| {
        let is_object = value.is_object() || value.is_string();
        is_object && is_of_choices(name, value) && are_marked(rows, name)
    };
    rows.first()?.values.iter().find(is_found).map(|(name, _)| ChoiceColumns::Marked(name.clone()))
}
