//! Values under the keys that formats use, as texts, golds and completions.

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_core::{Message, Prompt};
use tealight_datasets::read::{said, why_no_answer};
use tealight_datasets::{json, python_list};

use crate::completion::{Content, reason, role_of};

/// The value of a key. Records have few keys and formats many names for them: comparing them is faster than hashing.
pub(super) fn get<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    /// Most keys that are compared.
    const FEW: usize = 16;
    match value {
        Value::Object(map) if map.len() <= FEW => {
            // The first letter, before a call that compares all of them.
            let is_it = |name: &str| {
                name.len() == key.len() && name.bytes().next() == key.bytes().next() && name == key
            };
            map.iter().find(|(name, _)| is_it(name)).map(|(_, value)| value)
        }
        value => value.get(key),
    }
}

pub(super) fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// An id: a text, or a number, of which a whole one is the same with and without a decimal point.
pub(super) fn id_of(value: &Value) -> Option<String> {
    let text = text_of(value).filter(|text| !text.is_empty())?;
    let whole = value.is_f64().then(|| text.strip_suffix(".0")).flatten();
    Some(whole.map_or_else(|| text.clone(), str::to_owned))
}

/// The first of these keys that holds an id.
pub(super) fn first_id(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| id_of(get(value, name)?))
}

/// The first of these keys that holds a text or a number.
pub(super) fn first(value: &Value, names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| text_of(get(value, name)?))
}

/// Keys of an object that holds gold answers, as verl's rewards get it.
const IN_OBJECT: [&str; 7] =
    ["ground_truth", "target", "gold", "answer", "answers", "value", "text"];

/// The list that stands in a text, as JSON or as Python prints it: a table has no other way to hold one. Only texts:
/// `[1, 2]` may be an interval.
pub(super) fn printed_list(value: &Value) -> Option<Value> {
    let text = value.as_str()?.trim();
    if !text.starts_with("[\"") && !text.starts_with("['") {
        return None;
    }
    let of_json = || serde_json::from_str::<Vec<String>>(text).ok();
    of_json().or_else(|| python_list::read(text)).map(Value::from)
}

/// The gold answers of a value: a text, a number, true or false, a list of these, of which each is right, or an object
/// with one. Texts that stand where there is no answer are none.
pub(super) fn golds(value: &Value) -> Vec<String> {
    if let Some(list) = printed_list(value) {
        return golds(&list);
    }
    // `{"target": "7"}`
    let object = value.as_str().filter(|text| text.starts_with("{\""));
    let object = object.and_then(|text| json::parse(text).ok()).filter(is_plain);
    let found = object.as_ref().map(golds).unwrap_or_default();
    if !found.is_empty() {
        return found;
    }
    match value {
        // An object with more than its text may say that this is a wrong one.
        Value::Array(items) => items.iter().filter(|item| is_plain(item)).flat_map(golds).collect(),
        Value::Object(_) => {
            let found = IN_OBJECT.iter().filter_map(|key| value.get(key));
            found.map(golds).find(|golds| !golds.is_empty()).unwrap_or_default()
        }
        other => gold_of(other).into_iter().collect(),
    }
}

fn is_plain(item: &Value) -> bool {
    !item.is_array() && item.as_object().is_none_or(|map| map.len() == 1)
}

fn gold_of(value: &Value) -> Option<String> {
    match value {
        Value::Bool(flag) => Some(flag.to_string()),
        other => {
            let text = text_of(other).filter(|text| why_no_answer(text).is_none())?;
            Some(without_ends(&text).to_owned())
        }
    }
}

/// A text without the tokens by which a chat template ends it.
fn without_ends(text: &str) -> &str {
    let mut rest = text;
    loop {
        let end = rest.trim_end();
        let token = end.strip_suffix("|>").and_then(|start| start.rsplit_once("<|"));
        let bare =
            token.filter(|(_, name)| !name.contains(char::is_whitespace)).map(|(bare, _)| bare);
        let plain = || {
            ["</s>", "<eos>", "<end_of_turn>"].iter().find_map(|end_of| end.strip_suffix(end_of))
        };
        match bare.or_else(plain) {
            Some(bare) if !bare.trim().is_empty() => rest = bare,
            _ => return rest,
        }
    }
}

/// Those of the first of these keys that holds any; a dot descends into an object.
pub(super) fn first_golds(value: &Value, names: &[&str]) -> Vec<String> {
    names
        .iter()
        .map(|name| nested(value, name).map(golds).unwrap_or_default())
        .find(|golds| !golds.is_empty())
        .unwrap_or_default()
}

/// A prompt: text, or the messages of a conversation without the last answer.
pub(super) fn prompt_of(value: &Value) -> Option<Prompt> {
    match value {
        Value::String(text) => Some(Prompt::Text(text.clone())),
        Value::Array(messages) => {
            let mut messages: Vec<Message> = messages.iter().map(message).collect::<Option<_>>()?;
            messages.pop_if(|last| last.role == "assistant");
            (!messages.is_empty()).then(|| Prompt::chat(messages))
        }
        _ => None,
    }
}

/// A message with its role, in OpenAI's, ShareGPT's or OpenCompass' words.
fn message(value: &Value) -> Option<Message> {
    let sender = || Some(first(value, &["role", "from"])?.to_lowercase());
    let role = role_of(value).map(str::to_owned).or_else(sender)?;
    let content = ["content", "value", "prompt"]
        .iter()
        .find_map(|key| Content::read(get(value, key)?).text)?;
    Some(Message::new(&role, content))
}

/// A count of tokens, where one is given.
pub(super) fn tokens(value: &Value) -> Result<usize> {
    match value {
        Value::Null => Ok(0),
        // Their ids.
        Value::Array(ids) => Ok(ids.len()),
        Value::String(text) if text.parse::<u64>().is_ok() => {
            Ok(super::token_count(&Value::from(text.parse::<u64>()?)))
        }
        value if value.as_u64().is_some() => Ok(super::token_count(value)),
        value if value.as_f64().is_some_and(|count| count >= 0.0 && count.fract() == 0.0) => {
            Ok(value.as_f64().map_or(0, |count| count.min(f64::from(u32::MAX)) as usize))
        }
        other => {
            bail!("`tokens` is {}: a count of tokens is a whole number, at least 0", reason(other))
        }
    }
}

/// The value of a key, or of a path of keys that points join: `scores.acc`.
pub(super) fn nested<'v>(value: &'v Value, path: &str) -> Option<&'v Value> {
    get(value, path).or_else(|| path.split('.').try_fold(value, |value, key| value.get(key)))
}

/// The verdict of another judge on one completion. A number is correct from one half on; one that is not finite is no
/// verdict.
fn verdict(found: &Value) -> Option<f64> {
    let is_correct = match found {
        Value::Bool(is_correct) => *is_correct,
        Value::Number(number) => number.as_f64()? >= 0.5,
        Value::String(text) => said(text).or_else(|| match text.trim() {
            "C" | "c" => Some(true),
            "I" | "i" => Some(false),
            text if text.eq_ignore_ascii_case("no_answer") => Some(false),
            text => Some(text.parse().ok().filter(|number: &f64| number.is_finite())? >= 0.5),
        })?,
        _ => return None,
    };
    Some(f64::from(u8::from(is_correct)))
}

/// The verdicts of another judge on the completions of a record: of a list each, else the record's where it has one
/// completion.
pub(super) fn verdicts(found: &Value, completions: usize) -> Vec<Option<f64>> {
    match found {
        Value::Array(all) if all.len() == completions => all.iter().map(verdict).collect(),
        one if completions == 1 => vec![verdict(one)],
        _ => Vec::new(),
    }
}

/// Yes or no, also as tables have them.
pub(super) fn truth(value: &Value) -> Option<bool> {
    match text_of(value).unwrap_or_default().as_str() {
        "1" | "1.0" => Some(true),
        "0" | "0.0" => Some(false),
        text => value.as_bool().or_else(|| said(text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_known_by_the_words_that_datasets_have() {
        for (words, expected) in [
            ("correct passed pass valid yes C accepted 1 0.7", Some(1.0)),
            ("incorrect failed FAIL invalid no I no_answer 0 0.2", Some(0.0)),
            ("maybe nan", None),
        ] {
            for word in words.split(' ') {
                assert_eq!(verdict(&Value::from(word)), expected, "{word}");
            }
        }
    }
}
