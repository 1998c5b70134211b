//! The content of a message: a text, a list of parts, or nothing.

use serde_json::Value;
use tealight_datasets::read::known_role;

/// The keys of a thought that a server hands out apart.
const THOUGHTS: [&str; 3] = ["reasoning_content", "reasoning", "reasoning_details"];
/// The keys of a tool call.
const CALLS: [&str; 2] = ["tool_calls", "function_call"];

/// What a message holds.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Content {
    /// The text; none where there is none.
    pub(crate) text: Option<String>,
    /// The words of a refusal.
    pub(crate) refusal: Option<String>,
    /// Whether a thought stands apart from the text.
    pub(crate) has_thought: bool,
    /// Whether a tool is called.
    pub(crate) has_call: bool,
}

/// Keys of an object under which its text may stand.
pub(crate) const TEXTS: [&str; 7] =
    ["content", "text", "completion", "output", "response", "generated_text", "output_text"];

impl Content {
    /// The content of an object by the first of the keys of a text that it has; none without any.
    pub(crate) fn of_object(object: &Value) -> Option<Self> {
        let message = object.get("message").filter(|message| !message.is_null()).unwrap_or(object);
        if message.is_string() {
            return Some(Self::read(message));
        }
        let name = TEXTS.iter().find(|key| message.get(**key).is_some())?;
        Some(match *name {
            // Gemini's, where no text stands beside them.
            "content"
                if message["content"].get("parts").is_some() && message.get("text").is_none() =>
            {
                Self::read(&message["content"]["parts"])
            }
            "content" => Self::of_message(message),
            other => Self { text: Self::read(&message[other]).text, ..Self::of_message(message) },
        })
    }

    /// The content of a value: a text, or the texts among its parts.
    pub(crate) fn read(value: &Value) -> Self {
        match value {
            Value::String(text) => Self { text: Some(text.clone()), ..Self::default() },
            Value::Array(parts) => {
                let mut content = Self::default();
                parts.iter().for_each(|part| content.add(part));
                content
            }
            // A single part.
            Value::Object(_) => {
                let mut content = Self::default();
                content.add(value);
                content
            }
            _ => Self::default(),
        }
    }

    /// The content of a message, with what stands beside its `content`.
    pub(crate) fn of_message(message: &Value) -> Self {
        if message.is_string() {
            return Self::read(message);
        }
        let mut content = Self::read(&message["content"]);
        if let Some(refusal) = message["refusal"].as_str().filter(|refusal| !refusal.is_empty()) {
            content.refusal = Some(refusal.to_owned());
        }
        content.has_thought |= THOUGHTS.iter().any(|key| !is_empty(&message[*key]));
        content.has_call |= CALLS.iter().any(|key| !is_empty(&message[*key]));
        content
    }

    /// Adds a part: a text, or an object whose `type` says what it is.
    fn add(&mut self, part: &Value) {
        if let Some(text) = part.as_str() {
            return self.push(text);
        }
        let text = || part["text"].as_str().or_else(|| part["text"]["value"].as_str());
        match part["type"].as_str().unwrap_or_default() {
            "text" | "output_text" | "input_text" => self.push(text().unwrap_or_default()),
            "thinking" | "redacted_thinking" | "reasoning" | "reasoning_text" | "thought" => {
                self.has_thought = true;
            }
            "refusal" => self.refusal = part["refusal"].as_str().map(str::to_owned),
            "tool_use" | "tool_call" | "tool_calls" | "function_call" | "server_tool_use" => {
                self.has_call = true;
            }
            // Gemini's parts have no type; a thought is marked.
            "" if part["thought"] == true => self.has_thought = true,
            "" if part.get("functionCall").is_some() => self.has_call = true,
            "" => text().into_iter().for_each(|text| self.push(text)),
            _ => {}
        }
    }

    fn push(&mut self, text: &str) {
        self.text.get_or_insert_default().push_str(text);
    }
}

/// Whether a value is nothing, or a list of nothing.
pub(crate) fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        _ => false,
    }
}

/// Who sent a message, by OpenAI's names; LangChain's messages say it by their type.
pub(crate) fn role_of(message: &Value) -> Option<&'static str> {
    let sender = ["role", "from", "type"].iter().find_map(|key| message.get(*key)?.as_str())?;
    known_role(sender)
}

/// The content of the assistant's last message in a conversation.
pub(crate) fn last_answer(messages: &[Value]) -> Content {
    match messages.iter().rfind(|message| role_of(message) == Some("assistant")) {
        Some(message) if message.get("content").is_some() => Content::of_message(message),
        Some(message) => Content::read(&message["value"]),
        None => Content::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_are_read_by_their_types() {
        let text = |value: Value| Content::read(&value).text;
        for value in [
            json!("7"),
            json!([{"type": "text", "text": "7"}]),
            json!([{"type": "output_text", "text": "7"}]),
            json!([{"text": "7"}]),
            json!(["7"]),
            json!({"type": "text", "text": "7"}),
            json!([{"type": "text", "text": {"value": "7", "annotations": []}}]),
            json!([{"type": "thinking", "thinking": [{"type": "text", "text": "8"}]}, {"type": "text", "text": "7"}]),
            json!([{"thought": true, "text": "8"}, {"text": "7"}]),
            json!([{"type": "reasoning", "text": "8"}, {"type": "text", "text": "7"}]),
        ] {
            assert_eq!(text(value.clone()).as_deref(), Some("7"), "{value}");
        }
        for value in [json!(null), json!([]), json!([{"type": "thinking", "thinking": "8"}])] {
            assert_eq!(text(value.clone()), None, "{value}");
        }
        let refused = Content::read(&json!([{"type": "refusal", "refusal": "no"}]));
        assert_eq!((refused.text, refused.refusal.as_deref()), (None, Some("no")));
        assert!(Content::read(&json!([{"type": "tool_use", "name": "f"}])).has_call);
        let message = json!({"content": null, "tool_calls": [], "reasoning_content": ""});
        assert_eq!(Content::of_message(&message), Content::default());
        let message = json!({"content": null, "tool_calls": [{}], "reasoning": "so"});
        let content = Content::of_message(&message);
        assert!(content.has_call && content.has_thought);
    }
}
