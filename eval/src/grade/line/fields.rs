//! Values under the keys that formats use, as texts, golds and completions.

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_datasets::{Message, Prompt};

use super::ending::Ending;
use crate::Answer;

/// The value of a key. Records have few keys and formats many names for them: comparing them is faster than hashing.
pub(super) fn get<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    /// Most keys that are compared.
    const FEW: usize = 16;
    match value {
        Value::Object(map) if map.len() <= FEW => {
            map.iter().find(|(name, _)| *name == key).map(|(_, value)| value)
        }
        value => value.get(key),
    }
}

/// A text or a number as text.
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

/// The gold answers of a value: a text, a number, or a list of either, of which each is right.
pub(super) fn golds(value: &Value) -> Vec<String> {
    match value {
        Value::Array(items) => items.iter().filter_map(text_of).collect(),
        other => text_of(other).into_iter().collect(),
    }
}

/// Those of the first of these keys that holds any; a dot descends into an object.
pub(super) fn first_golds(value: &Value, names: &[&str]) -> Vec<String> {
    let at = |name: &str| name.split('.').try_fold(value, get);
    names
        .iter()
        .map(|name| at(name).map(golds).unwrap_or_default())
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
    let role = first(value, &["role", "from"])?.to_lowercase();
    let role = match role.as_str() {
        "human" => "user",
        "bot" | "gpt" | "model" => "assistant",
        other => other,
    };
    let content =
        ["content", "value", "prompt"].iter().find_map(|key| content(get(value, key)?))?;
    Some(Message::new(role, content))
}

/// The text of a message's content: a text, or the texts among its parts. None where there is none.
pub(super) fn content(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let is_text = |part: &&Value| match part.get("type").and_then(Value::as_str) {
                Some(kind) => matches!(kind, "text" | "output_text" | "input_text"),
                None => part.is_string() || part.get("text").is_some(),
            };
            let text = |part: &Value| match part {
                Value::String(text) => text.clone(),
                part => part["text"].as_str().unwrap_or_default().to_owned(),
            };
            let mut texts = parts.iter().filter(is_text).map(text).peekable();
            texts.peek()?;
            Some(texts.collect())
        }
        _ => None,
    }
}

/// The content of the assistant's last message in a conversation.
pub(super) fn last_answer(messages: &[Value]) -> Option<String> {
    let is_answer = |message: &&Value| match first(message, &["role", "from"]) {
        Some(role) => matches!(role.to_lowercase().as_str(), "assistant" | "bot" | "gpt" | "model"),
        None => false,
    };
    let last = messages.iter().rfind(is_answer)?;
    content(last.get("content").or_else(|| last.get("value"))?)
}

/// The reason of a failure as text: a server's `message`, or the value itself.
pub(super) fn reason(error: &Value) -> String {
    let text = match error {
        Value::String(text) => text.clone(),
        other => match first(other, &["message", "error", "code", "type"]) {
            Some(text) => text,
            None => other.to_string(),
        },
    };
    let mut short: String = text.chars().take(200).collect();
    if short.len() < text.len() {
        short.push_str("...");
    }
    short
}

/// A count of tokens, where one is given.
///
/// # Errors
/// A number that counts nothing: negative, or with a fraction.
pub(super) fn tokens(value: &Value) -> Result<usize> {
    match value {
        Value::Null => Ok(0),
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

/// A completion by its text, where there is one, and by how it ended; `why` says why there is none.
pub(super) fn answer(
    text: Option<String>,
    ending: Ending,
    why: impl FnOnce() -> String,
) -> (Answer, Option<String>) {
    let is_finished = ending != Ending::Truncated;
    let is_end_unknown = ending == Ending::Unknown;
    let mut answer = Answer { is_finished, is_end_unknown, ..Answer::default() };
    let mut unknown = None;
    match (text, ending) {
        (None, Ending::Failed(reason)) => answer.failure = Some(reason),
        (None, _) => answer.failure = Some(why()),
        (Some(text), Ending::Failed(reason)) if text.is_empty() => {
            (answer.text, answer.failure) = (text, Some(reason));
        }
        // What a filter or an error cut off is not an answer either.
        (Some(text), Ending::Failed(_)) => (answer.text, answer.is_finished) = (text, false),
        (Some(text), ending) => {
            answer.text = text;
            if let Ending::Other(name) = ending {
                unknown = Some(name);
            }
        }
    }
    (answer, unknown)
}
