//! A server's response as a client returned it, to its completions.

use serde_json::Value;

use super::{Content, Ending, Reading};

/// Most completions of a record: the shortest take a hundred times their text in memory.
pub(crate) const MAX_ANSWERS: usize = 1 << 20;

/// The completions of a response: the choices of a chat completion or a completion, the items of /v1/responses, the
/// candidates of Gemini; none of an object that is none of these.
///
/// # Errors
/// A choice that cannot be read, and what has no text.
pub(crate) fn completions_of(response: &Value) -> Result<Option<Vec<Reading>>, String> {
    let objects = |key: &str| {
        let all = response.get(key).and_then(Value::as_array);
        all.filter(|all| all.iter().any(Value::is_object))
    };
    if let Some(choices) = objects("choices").or_else(|| objects("candidates")) {
        let choices = choices.iter().take(MAX_ANSWERS + 1);
        return choices.map(Reading::from_choice).collect::<Result<_, _>>().map(Some);
    }
    let is_item = |item: &Value| item["type"].is_string();
    let items = response.get("output").and_then(Value::as_array);
    let items = items.filter(|items| match items.is_empty() {
        true => response["status"].is_string(),
        false => items.iter().all(is_item),
    });
    let text = response.get("output_text").filter(|text| text.is_string());
    if items.is_none() && text.is_none() {
        return Ok(None);
    }
    let details = &response["incomplete_details"]["reason"];
    let ending = if details.is_string() { details } else { &response["status"] };
    let mut content = of_items(items.map_or(&[], Vec::as_slice));
    content.text = content.text.or_else(|| Content::read(text?).text);
    Ok(Some(vec![Reading::new(content, Ending::from_reason(ending))]))
}

/// The content of the items of /v1/responses.
fn of_items(items: &[Value]) -> Content {
    let mut content = Content::default();
    for item in items {
        match item["type"].as_str().unwrap_or_default() {
            "message" => {
                let part = Content::read(&item["content"]);
                if let Some(text) = part.text {
                    content.text.get_or_insert_default().push_str(&text);
                }
                content.refusal = content.refusal.or(part.refusal);
            }
            "reasoning" => content.has_thought = true,
            kind => content.has_call |= kind.ends_with("_call"),
        }
    }
    content
}

/// The response, or the message of the assistant, that stands in a text as JSON; none of JSON that a model wrote.
///
/// # Errors
/// One that stands there as Python shows it.
pub(crate) fn printed(text: &str) -> Result<Option<Value>, String> {
    let text = text.trim();
    let is_named = |mark: &str| text.get(..200).unwrap_or(text).contains(mark);
    let class = text.split_once('(').map_or("", |(class, _)| class);
    let is_class = class.len() > 3 && class.chars().all(|c| c.is_alphanumeric() || c == '_');
    let is_object = text.ends_with(')')
        && is_class
        && class.starts_with(char::is_uppercase)
        && ["choices=[", "content='", "content=\"", "output=["].iter().any(|mark| is_named(mark));
    let is_dict = text.starts_with("{'")
        && ["'choices': [", "'role': 'assistant'"].iter().any(|mark| is_named(mark));
    if is_object || is_dict {
        return Err("a completion that is an object as Python prints it: write it as JSON (model_dump(), json.dumps)".into());
    }
    if !text.starts_with('{') || !text.ends_with('}') {
        return Ok(None);
    }
    let Ok(value) = tealight_datasets::json::parse(text) else { return Ok(None) };
    let is_message = value["role"] == "assistant" && value.get("content").is_some()
        || value["content"].is_string() && value.get("reasoning_content").is_some();
    let is_response =
        completions_of(&value).is_ok_and(|all| all.is_some_and(|all| !all.is_empty()));
    Ok((is_message || is_response).then_some(value))
}
