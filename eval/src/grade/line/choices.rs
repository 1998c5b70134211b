//! The choices of a record by their letters, under a key of their own or as its prompt lists them.

use std::borrow::Cow;

use serde_json::Value;
use tealight_core::Prompt;

use super::super::known::choice;
use super::fields::{get, printed_list, text_of};
use super::golds::About;

/// Keys of all choices of a record.
const LISTS: [&str; 5] = ["choices", "options", "Choices", "Options", "endings"];

/// The letter of the one choice that is `gold`, where `gold` is its text.
pub(super) fn letter_of(gold: &str, about: About<'_>) -> Option<String> {
    let folded = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
    let gold = gold.trim();
    let shown = || in_prompt(about.prompt?).map(Cow::Owned);
    let all = about.choices.map(Cow::Borrowed).or_else(shown)?;
    // A letter is one of a choice.
    if all.iter().any(|(letter, _)| letter.eq_ignore_ascii_case(gold)) {
        return None;
    }
    let mut letters =
        all.iter().filter(|(_, text)| folded(text) == folded(gold)).map(|(letter, _)| letter);
    let letter = letters.next().filter(|letter| all.len() > 1 && letter.as_str() != gold)?;
    letters.next().is_none().then(|| letter.clone())
}

/// The choices that a record has under keys of their own, by their letters.
pub(super) fn of(value: &Value) -> Option<Vec<(String, String)>> {
    // One pass: most records have none, and this is asked of every one.
    let is_key = |key: &String| {
        LISTS.contains(&key.as_str()) || matches!(key.as_str(), "A" | "choice1" | "option1")
    };
    value.as_object()?.keys().any(is_key).then_some(())?;
    let list = |key: &&str| get(value, key).filter(|found| !is_response(found)).and_then(listed);
    LISTS.iter().find_map(list).or_else(|| in_columns(value))
}

/// Whether a value is the choices of a server's response.
pub(super) fn is_response(value: &Value) -> bool {
    let is_choice = |item: &Value| item.is_object() && item.get("label").is_none();
    value.as_array().is_some_and(|items| items.iter().any(is_choice))
}

/// The choices of a list, or of an object by their letters.
fn listed(value: &Value) -> Option<Vec<(String, String)>> {
    let letter = |place: usize| char::from(b'A' + place as u8).to_string();
    let of = |(place, item): (usize, &Value)| match item {
        Value::Object(map) => Some((
            map.get("label").or(map.get("key")).and_then(text_of).unwrap_or(letter(place)),
            map.get("text").or(map.get("value")).and_then(text_of)?,
        )),
        item => {
            let text = text_of(item)?;
            let labelled =
                choice(&text).map(|(letter, text)| (letter.to_string(), text.to_owned()));
            Some(labelled.unwrap_or((letter(place), text)))
        }
    };
    match value {
        Value::String(_) => listed(&printed_list(value)?),
        Value::Array(items) if items.len() <= 26 => items.iter().enumerate().map(of).collect(),
        Value::Object(map) => match (map.get("label"), map.get("text")) {
            (Some(Value::Array(labels)), Some(Value::Array(texts))) => labels
                .iter()
                .zip(texts)
                .map(|(label, text)| Some((text_of(label)?, text_of(text)?)))
                .collect(),
            _ => map.iter().map(|(letter, text)| Some((letter.clone(), text_of(text)?))).collect(),
        },
        _ => None,
    }
}

/// The choices under `A`, `B`, ... or `choice1`, `choice2`, ...
fn in_columns(value: &Value) -> Option<Vec<(String, String)>> {
    let of = |name: &dyn Fn(usize, char) -> String| -> Vec<(String, String)> {
        let all = ('A'..='J').enumerate();
        all.map_while(|(place, letter)| {
            Some((letter.to_string(), text_of(get(value, &name(place, letter))?)?))
        })
        .collect()
    };
    let numbered = |stem: &str| of(&|place, _| format!("{stem}{}", place + 1));
    let all = [of(&|_, letter| letter.to_string()), numbered("choice"), numbered("option")];
    all.into_iter().find(|all| !all.is_empty())
}

/// The choices that a prompt lists last, a line each.
fn in_prompt(prompt: &Prompt) -> Option<Vec<(String, String)>> {
    let text = prompt.plain();
    let all: Vec<(char, &str)> = text.lines().filter_map(choice).collect();
    let start = all.iter().rposition(|(letter, _)| *letter == 'A')?;
    Some(
        all[start..]
            .iter()
            .map(|(letter, text)| (letter.to_string(), (*text).to_owned()))
            .collect(),
    )
}
