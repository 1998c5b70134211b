//! Chat messages in the forms that datasets store them in (OpenAI's, ShareGPT's, content in parts, JSON in a text) to
//! [`Message`]s.

use serde_json::{Map, Value};

use super::json_array;
use crate::Message;

/// Names of a message's role, and of its text.
const ROLES: [&str; 2] = ["role", "from"];
const CONTENTS: [&str; 3] = ["content", "value", "text"];

/// Whether a value is a list of messages, or a text that holds one.
pub(super) fn is_chat(value: &Value) -> bool {
    let is_message = |item: &Value| ROLES.iter().any(|name| item.get(name).is_some());
    let is_list = |items: &[Value]| !items.is_empty() && items.iter().all(is_message);
    match value {
        Value::Array(items) => is_list(items),
        Value::String(text) => json_array(text).is_some_and(|items| is_list(&items)),
        _ => false,
    }
}

/// The messages of a chat.
///
/// # Errors
/// No role or text, a role that is not known, content that is no text.
pub(super) fn messages(value: &Value) -> Result<Vec<Message>, String> {
    let parsed = value.as_str().and_then(json_array);
    let items = parsed.as_deref().or(value.as_array().map(Vec::as_slice));
    let items = items.filter(|items| !items.is_empty()).ok_or("the chat holds no message")?;
    items.iter().map(message).collect()
}

/// A solution that is a chat: the text of its only turn, which is the assistant's (TRL's conversational `completion`).
/// None for a value that is no chat.
///
/// # Errors
/// A chat of several turns or of another role, content that is no text.
pub(super) fn solution(value: &Value) -> Option<Result<String, String>> {
    is_chat(value).then(|| match messages(value)?.as_slice() {
        [turn] if turn.role == "assistant" => Ok(turn.content.clone()),
        _ => Err("should hold one turn of the assistant, or text".to_owned()),
    })
}

fn message(item: &Value) -> Result<Message, String> {
    let needs = || "chat messages need `role` and `content`, or `from` and `value`".to_owned();
    let fields = item.as_object().ok_or_else(needs)?;
    let find = |names: &[&'static str]| -> Option<(&'static str, &Value)> {
        names.iter().find_map(|name| Some((*name, fields.get(*name)?)))
    };
    let (key, sender) = find(&ROLES).ok_or_else(needs)?;
    let sender = sender.as_str().ok_or_else(needs)?;
    let role = match sender {
        "human" => "user",
        "gpt" | "chatgpt" | "bot" | "model" => "assistant",
        "user" | "assistant" | "system" => sender,
        // Templates know further roles (`developer`, `tool`) by OpenAI's name of the key alone.
        _ if key == "role" => sender,
        _ => {
            let sender: String = sender.chars().take(40).collect();
            return Err(format!("a message is `from` `{sender}`, not human, gpt or system"));
        }
    };
    let (_, content) = find(&CONTENTS).ok_or_else(needs)?;
    Ok(Message::new(role, text(content, fields)?))
}

/// The text of a message's content: a text, or parts that are texts.
fn text(content: &Value, message: &Map<String, Value>) -> Result<String, String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => {
            let text = |part: &Value| match part {
                Value::String(text) => Ok(text.clone()),
                part => match part.get("text").and_then(Value::as_str) {
                    Some(text) => Ok(text.to_owned()),
                    None => {
                        Err("a message has a part that is no text, such as an image".to_owned())
                    }
                },
            };
            parts.iter().map(text).collect()
        }
        Value::Null if message.get("tool_calls").is_some_and(|calls| !calls.is_null()) => {
            Err("a message calls a tool, which is not read".into())
        }
        _ => Err("a message has no text".into()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_form_of_a_chat_gives_the_same_messages() {
        let expected = [Message::new("system", "Think."), Message::user("6+8?")];
        for value in [
            json!([{"role": "system", "content": "Think."}, {"role": "user", "content": "6+8?", "tool_calls": null}]),
            json!([{"from": "system", "value": "Think."}, {"from": "human", "value": "6+8?"}]),
            json!([{"role": "system", "content": "Think."},
                   {"role": "user", "content": [{"type": "text", "text": "6+"}, {"type": "text", "text": "8?"}]}]),
            json!(
                r#"[{"role": "system", "content": "Think."}, {"role": "user", "content": "6+8?"}]"#
            ),
        ] {
            assert!(is_chat(&value), "{value}");
            assert_eq!(messages(&value).unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn a_solution_is_one_turn_of_the_assistant() {
        let turn = |role: &str| json!({"role": role, "content": "14"});
        assert_eq!(solution(&json!([turn("assistant")])), Some(Ok("14".into())));
        assert_eq!(solution(&json!([{"from": "gpt", "value": "14"}])), Some(Ok("14".into())));
        for value in [json!([turn("user")]), json!([turn("assistant"), turn("assistant")])] {
            let message = solution(&value).unwrap().unwrap_err();
            assert!(message.contains("one turn of the assistant"), "{value}: {message}");
        }
        assert!(solution(&json!("14")).is_none() && solution(&json!(["14"])).is_none());
    }

    #[test]
    fn other_content_is_refused_with_the_reason() {
        for (value, reason) in [
            (json!([]), "no message"),
            (json!([{"role": "user"}]), "`role` and `content`"),
            (json!([{"from": "narrator", "value": "x"}]), "`narrator`"),
            (json!([{"role": "user", "content": null}]), "no text"),
            (json!([{"role": "assistant", "content": null, "tool_calls": [1]}]), "calls a tool"),
            (json!([{"role": "user", "content": [{"type": "image_url"}]}]), "an image"),
        ] {
            let message = messages(&value).unwrap_err();
            assert!(message.contains(reason), "{value}: {message}");
        }
        assert!(!is_chat(&json!("[1, 2]")) && !is_chat(&json!([])) && !is_chat(&json!(["a"])));
    }
}
