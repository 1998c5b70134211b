//! A server's response as a client returned it, to its completions.

use serde_json::Value;
use tealight_core::names::list;

use super::{Content, Ending, Reading};

/// Most completions of a record: the shortest take a hundred times their text in memory.
pub(crate) const MAX_ANSWERS: usize = 1 << 20;

/// The choices of a chat completion or a completion, or the candidates of Gemini.
pub(crate) fn choices_of(response: &Value) -> Option<&[Value]> {
    let list = |key: &str| response.get(key).and_then(Value::as_array).map(Vec::as_slice);
    let is_one = |one: &Value| one.get("content").is_some() || Ending::reasons(one).is_some();
    let choices = list("choices").filter(|all| all.iter().any(Value::is_object));
    let candidates = || list("candidates").filter(|all| !all.is_empty() && all.iter().all(is_one));
    choices.or_else(candidates)
}

/// The completions of a response: the choices of a chat completion or a completion, the items of /v1/responses, the
/// candidates of Gemini; none of an object that is none of these. Where one choice can be read, one that cannot has
/// failed.
pub(crate) fn completions_of(response: &Value) -> Result<Option<Vec<Reading>>, String> {
    if let Some(choices) = choices_of(response) {
        let choices = choices.iter().take(MAX_ANSWERS + 1).map(Reading::from_choice);
        let choices: Vec<_> = choices.collect();
        if choices.iter().all(Result::is_err) {
            return choices.into_iter().collect::<Result<_, _>>().map(Some);
        }
        let one = |choice: Result<_, _>| choice.unwrap_or_else(Reading::unread);
        return Ok(Some(choices.into_iter().map(one).collect()));
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
pub(crate) fn printed(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with('{') || !text.ends_with('}') {
        return None;
    }
    let value = tealight_datasets::json::parse(text).ok()?;
    let is_message = value["role"] == "assistant" && value.get("content").is_some()
        || value["content"].is_string() && value.get("reasoning_content").is_some();
    let is_response =
        completions_of(&value).is_ok_and(|all| all.is_some_and(|all| !all.is_empty()));
    (is_message || is_response).then_some(value)
}

/// Classes of responses, and of what stands in them.
const CLASSES: [&str; 12] = list(
    "ChatCompletion|ChatCompletionMessage|Completion|Response|ModelResponse|AIMessage|GenerateContentResponse|\
    RequestOutput|CompletionOutput|GenerationOutput|Choice|TextBlock",
);

/// Whether a text is a response, a part of one, or the message of the assistant, as Python shows it.
pub(crate) fn is_of_python(text: &str) -> bool {
    let text = text.trim();
    let start = text.get(..200).unwrap_or(text);
    let marks = ["'choices': [", "'role': 'assistant'", "'text': ", "'generated_text': "];
    has_class(text)
        || text.starts_with("tensor([") && text.ends_with(')')
        || text.trim_start_matches('[').starts_with("{'") && marks.iter().any(|mark| start.contains(mark))
        // LangChain's.
        || text.starts_with("content='") && text.contains(" additional_kwargs={")
}

fn has_class(text: &str) -> bool {
    let class = text.split_once('(').filter(|_| text.ends_with(')'));
    class.is_some_and(|(class, _)| CLASSES.contains(&class))
}

/// Whether a text is a list of such objects as Python shows it, or an array of texts.
pub(crate) fn is_list_of_python(text: &str) -> bool {
    let text = text.trim();
    let items = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    // A list of tensors, or of objects without a class, may be the answer.
    items.is_some_and(has_class) || text.starts_with("array(['") && text.ends_with("dtype=object)")
}
