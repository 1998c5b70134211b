//! The choices of a record by their letters, under a key of their own or as its prompt lists them.

use serde_json::Value;
use tealight_core::Prompt;

use super::super::known::choice;
use super::fields::{get, text_of};

/// Keys of all choices of a record.
const LISTS: [&str; 5] = ["choices", "options", "Choices", "Options", "endings"];

/// The letter of the one choice that is `gold`, where `gold` is its text.
pub(super) fn letter_of(gold: &str, value: &Value, prompt: Option<&Prompt>) -> Option<String> {
    let folded = |text: &str| text.trim().trim_end_matches('.').to_lowercase();
    let gold = gold.trim();
    let listed = LISTS.iter().find_map(|key| listed(get(value, key)?));
    let all = listed.or_else(|| in_columns(value)).or_else(|| in_prompt(prompt?))?;
    // A letter is one of a choice.
    if all.iter().any(|(letter, _)| letter.eq_ignore_ascii_case(gold)) {
        return None;
    }
    let mut letters =
        all.iter().filter(|(_, text)| folded(text) == folded(gold)).map(|(letter, _)| letter);
    let letter = letters.next().filter(|letter| all.len() > 1 && letter.as_str() != gold)?;
    letters.next().is_none().then(|| letter.clone())
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

/// The choices under `A`, `B`, ...
fn in_columns(value: &Value) -> Option<Vec<(String, String)>> {
    let names = ('A'..='J').map(String::from);
    let all: Vec<(String, String)> =
        names.map_while(|name| Some((name.clone(), text_of(get(value, &name)?)?))).collect();
    (!all.is_empty()).then_some(all)
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
