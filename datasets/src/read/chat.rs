//! Chat messages in the forms that datasets store them in (OpenAI's, ShareGPT's, content in parts, JSON in a text) to
//! [`Message`]s.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::json;
use super::known_columns::list;
use crate::verify::short;
use tealight_core::Message;
use tealight_core::display::shortened;

/// Names of a message's role, and of its text.
const ROLES: [&str; 2] = ["role", "from"];
pub(super) const CONTENTS: [&str; 3] = ["content", "value", "text"];
/// Names of the assistant besides OpenAI's.
const ASSISTANTS: [&str; 7] = ["gpt", "chatgpt", "bot", "chatbot", "bing", "model", "ai"];
/// Keys that say that a turn is trained, or that it is not: OpenAI's, axolotl's, ms-swift's, torchtune's. They are no
/// part of the message.
const TRAINED: [&str; 7] = list("weight|train|training|loss|loss_weight|trainable|train_on_turn");
const UNTRAINED: [&str; 2] = ["mask", "masked"];
/// The same for parts of a turn, which cannot be told from the others here.
const PART_MARKS: [&str; 3] = ["train_detail", "training_detail", "message_train_detail"];
/// Calls of tools in a message.
const TOOL_CALLS: &str = "tool_calls";
/// The column of tools, and the variable that templates read them from.
pub(super) const TOOLS: &str = "tools";

/// Whether a value is a list of messages, or a text that holds one.
pub(super) fn is_chat(value: &Value) -> bool {
    let is_message = |item: &Value| ROLES.iter().any(|name| item.get(name).is_some());
    items(value).is_some_and(|items| !items.is_empty() && items.iter().all(is_message))
}

/// The role of a message of a chat whose text is null, and which calls no tool. A system turn without text is none.
pub(super) fn without_text(value: &Value) -> Option<String> {
    let items = items(value).filter(|_| is_chat(value))?;
    let silent = items.iter().find(|item| is_silent(item) && !is_system(item));
    silent.and_then(sender)
}

fn is_silent(item: &Value) -> bool {
    let content = CONTENTS.iter().find_map(|name| item.get(name));
    content.is_some_and(Value::is_null) && item.get(TOOL_CALLS).is_none_or(Value::is_null)
}

pub(super) fn is_system(item: &Value) -> bool {
    sender(item).is_some_and(|sender| known_role(&sender) == Some("system"))
}

/// Whether the last turn of a chat is the assistant's.
pub(super) fn ends_with_answer(value: &Value) -> bool {
    let last = items(value).filter(|_| is_chat(value)).and_then(|all| sender(all.last()?));
    last.is_some_and(|sender| known_role(&sender) == Some("assistant"))
}

/// The messages of a list, or of a text that holds one.
pub(super) fn items(value: &Value) -> Option<Cow<'_, [Value]>> {
    let parsed =
        || match json::written(value.as_str().filter(|text| text.trim_start().starts_with('['))?) {
            Some(Value::Array(items)) => Some(Cow::Owned(items)),
            _ => None,
        };
    value.as_array().map(|items| Cow::Borrowed(&**items)).or_else(parsed)
}

/// Who a message is from, in the words of its row.
pub(super) fn sender(message: &Value) -> Option<String> {
    ROLES.iter().find_map(|name| message.get(name)?.as_str()).map(str::to_owned)
}

/// OpenAI's name for who sent a message, whatever its case: templates know `user`, and not `User`.
pub fn known_role(sender: &str) -> Option<&'static str> {
    let sender = sender.to_ascii_lowercase();
    if sender == "human" {
        return Some("user");
    }
    if ASSISTANTS.contains(&sender.as_str()) {
        return Some("assistant");
    }
    ["user", "assistant", "system", "tool"].into_iter().find(|role| *role == sender)
}

/// A message, and whether its row says that it is trained.
pub(super) type Turn = (Message, Option<bool>);

pub(super) fn messages(value: &Value) -> Result<Vec<Message>, String> {
    read(value, message)
}

/// The same with the marks of training.
pub(super) fn turns(value: &Value) -> Result<Vec<Turn>, String> {
    read(value, |item| {
        let message = message(item)?;
        let mark = item.as_object().map_or(Ok(None), |fields| mark(fields, &message.role))?;
        Ok((message, mark))
    })
}

fn read<T>(value: &Value, one: impl Fn(&Value) -> Result<T, String>) -> Result<Vec<T>, String> {
    let items = items(value).filter(|items| !items.is_empty());
    let items = items.ok_or("the chat holds no message")?;
    items.iter().filter(|item| !(is_silent(item) && is_system(item))).map(one).collect()
}

/// A solution that is a chat: its only turn, which is the assistant's (TRL's conversational `completion`). None for a
/// value that is no chat.
pub(super) fn solution(value: &Value) -> Option<Result<Turn, String>> {
    is_chat(value).then(|| match <[Turn; 1]>::try_from(turns(value)?) {
        Ok([turn]) if turn.0.role == "assistant" => Ok(turn),
        _ => Err("should hold one turn of the assistant, or text".to_owned()),
    })
}

/// Takes the keys that are null out of tools and calls of tools, as columns of one schema have them for what other rows
/// have. What stands as JSON in a text keeps its own.
pub(super) fn strip_fillers(name: &str, value: &mut Value) {
    match value {
        _ if [TOOLS, TOOL_CALLS].contains(&name) => *value = without_nulls(value),
        Value::Array(items) => items.iter_mut().for_each(|item| strip_fillers("", item)),
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(name, value)| strip_fillers(name, value));
        }
        _ => {}
    }
}

/// A value without the keys that are null.
pub(super) fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(without_nulls).collect(),
        Value::Object(fields) => {
            let filled = fields.iter().filter(|(_, value)| !value.is_null());
            filled.map(|(key, value)| (key.clone(), without_nulls(value))).collect()
        }
        other => other.clone(),
    }
}

/// Whether a message is trained by its own word: a weight of 0 or 1, true or false.
fn mark(fields: &Map<String, Value>, role: &str) -> Result<Option<bool>, String> {
    let given = |key: &&str| fields.get(*key).is_some_and(|value| !value.is_null());
    if let Some(key) = PART_MARKS.iter().find(|key| given(key)) {
        return Err(format!(
            "a message has `{key}`: parts of a turn cannot be left out of training"
        ));
    }
    let mut found = None;
    for key in TRAINED.into_iter().chain(UNTRAINED).filter(given) {
        let is_set = match &fields[key] {
            Value::Bool(flag) => *flag,
            Value::Number(number) if key == "mask" => {
                return Err(format!(
                    "a message has `mask` {number}: some programs train where it is 1 and others where it is 0; write \
                     `train` true or false"
                ));
            }
            value if value.as_f64() == Some(0.0) => false,
            value if value.as_f64() == Some(1.0) => true,
            other => {
                let shown = short(&other.to_string());
                return Err(format!(
                    "a message has `{key}` {shown}: 0, 1, true and false are known"
                ));
            }
        };
        let is_trained = is_set == TRAINED.contains(&key);
        if is_trained && role != "assistant" {
            return Err(format!(
                "a message of the {role} has `{key}` {}: turns of the assistant alone are trained",
                fields[key]
            ));
        }
        if found.is_some_and(|other| other != is_trained) {
            return Err(format!("a message has `{key}` {} beside another mark", fields[key]));
        }
        found = Some(is_trained);
    }
    Ok(found)
}

fn message(item: &Value) -> Result<Message, String> {
    let needs = || "chat messages need `role` and `content`, or `from` and `value`".to_owned();
    let fields = item.as_object().ok_or_else(needs)?;
    let find = |names: &[&'static str]| -> Option<(&'static str, &Value)> {
        names.iter().find_map(|name| Some((*name, fields.get(*name)?)))
    };
    let (key, sender) = find(&ROLES).ok_or_else(needs)?;
    let sender = sender.as_str().ok_or_else(needs)?;
    let role = match known_role(sender) {
        Some(role) => role,
        // Templates know further roles (`developer`) by OpenAI's name of the key alone.
        None if key == "role" => sender,
        // LLaMA-Factory's turns of tools.
        None if sender == "observation" => "tool",
        None if let Some(calls) = calls_in(fields, sender) => {
            let mut message = Message::without_text("assistant");
            message.more.insert(TOOL_CALLS.into(), calls);
            return Ok(message);
        }
        None => {
            let sender = shortened(sender, 40);
            return Err(format!(
                "a message is `from` `{sender}`, not human, gpt or system; write turns of tools as `role` `assistant` \
                 with `tool_calls`, and as `role` `tool`"
            ));
        }
    };
    let calls = fields.get(TOOL_CALLS).filter(|calls| !calls.is_null());
    let (content_key, content) = match (find(&CONTENTS), calls) {
        (Some(found), _) => found,
        (None, Some(_)) => (CONTENTS[0], &Value::Null),
        (None, None) => return Err(needs()),
    };
    let mut message = match (content, calls) {
        (Value::Null, Some(_)) => Message::without_text(role),
        _ => Message::new(role, text(content)?),
    };
    let is_mark = |name: &str| TRAINED.contains(&name) || UNTRAINED.contains(&name);
    let is_other = |name: &str| ![key, content_key].contains(&name) && !is_mark(name);
    let others = fields.iter().filter(|(name, value)| is_other(name) && !value.is_null());
    let read = |name: &str, value: &Value| match items(value).filter(|_| name == TOOL_CALLS) {
        Some(calls) => Value::Array(calls.into_owned()),
        None => value.clone(),
    };
    message.more.extend(others.map(|(name, value)| (name.clone(), read(name, value))));
    Ok(message)
}

/// The calls that a turn from `function_call` holds as JSON: one or a list, each with its name and arguments.
fn calls_in(fields: &Map<String, Value>, sender: &str) -> Option<Value> {
    let text = fields.get("value")?.as_str().filter(|_| sender == "function_call")?;
    let calls = match serde_json::from_str(text).ok()? {
        Value::Array(calls) => calls,
        call => vec![call],
    };
    let call = |call: Value| {
        call.get("name")?.as_str()?;
        Some(serde_json::json!({"type": "function", "function": call}))
    };
    calls.into_iter().map(call).collect::<Option<Vec<_>>>().map(Value::Array)
}

/// The text of a message's content: a text, or parts that are texts.
pub(super) fn text(content: &Value) -> Result<String, String> {
    match content {
        Value::String(text) => Ok(text.clone()),
        Value::Array(parts) => parts.iter().map(part).collect(),
        _ => Err("a message has no text".into()),
    }
}

/// The text of a part. One of another type may have a text too: a thought is no part of the answer.
fn part(part: &Value) -> Result<String, String> {
    let kind = match part.get("type").and_then(Value::as_str) {
        _ if part.get("thought") == Some(&true.into()) => "thought",
        None | Some("text" | "input_text" | "output_text") => "",
        Some(kind) => kind,
    };
    let text = part.get("text").unwrap_or(part).as_str().filter(|_| kind.is_empty());
    text.map(str::to_owned).ok_or_else(|| match shortened(kind, 40).as_str() {
        "" => "a message has a part that is no text".into(),
        kind => format!(
            "a message has a part of the type `{kind}`, and only texts are read: write a thought as the message's \
             `reasoning_content`, and calls of tools as its `tool_calls`"
        ),
    })
}

/// Whether a turn of the assistant ends within a thought or an answer, which the model is to go on with.
pub(super) fn opens_thought(text: &str) -> bool {
    ["think", "answer", "reasoning"].iter().any(|tag| {
        let opened = text.rfind(&format!("<{tag}>"));
        opened.is_some_and(|at| !text[at..].contains(&format!("</{tag}>")))
    })
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
            json!([{"role": "System", "content": "Think."}, {"role": "USER", "content": "6+8?"}]),
            json!([{"from": "SYSTEM", "value": "Think."}, {"from": "Human", "value": "6+8?"}]),
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
        let known = Some(Ok((Message::new("assistant", "14"), None)));
        assert_eq!(solution(&json!([turn("assistant")])), known);
        assert_eq!(solution(&json!([{"from": "gpt", "value": "14"}])), known);
        for value in [json!([turn("user")]), json!([turn("assistant"), turn("assistant")])] {
            let message = solution(&value).unwrap().unwrap_err();
            assert!(message.contains("one turn of the assistant"), "{value}: {message}");
        }
        assert!(solution(&json!("14")).is_none() && solution(&json!(["14"])).is_none());
    }

    #[test]
    fn a_message_keeps_every_key_but_marks_of_training() {
        let call =
            json!([{"function": {"name": "add", "arguments": {"b": 1, "a": 2}}, "id": null}]);
        let value = json!([
            {"role": "user", "content": "6+8?", "name": "Ann", "weight": 0},
            {"role": "assistant", "content": null, "tool_calls": call, "train": true},
            {"role": "tool", "content": "14", "tool_call_id": "1", "masked": true},
            {"from": "gpt", "value": "14", "reasoning_content": "add", "weight": null},
        ]);
        let turns = turns(&value).unwrap();
        let marks: Vec<Option<bool>> = turns.iter().map(|(_, mark)| *mark).collect();
        assert_eq!(marks, [Some(false), Some(true), Some(false), None]);
        let messages: Vec<Message> = turns.into_iter().map(|(message, _)| message).collect();
        let expected = r#"[{"role":"user","content":"6+8?","name":"Ann"},{"role":"assistant","content":null,"tool_calls":[{"function":{"name":"add","arguments":{"b":1,"a":2}},"id":null}]},{"role":"tool","content":"14","tool_call_id":"1"},{"role":"assistant","content":"14","reasoning_content":"add"}]"#;
        assert_eq!(serde_json::to_string(&messages).unwrap(), expected);
        // Columns of Parquet have null for what other rows' calls have, but not within texts.
        let mut chat =
            json!([{"content": null, "tool_calls": [{"id": null, "arguments": "{\"a\": null}"}]}]);
        strip_fillers("messages", &mut chat);
        let stripped = json!([{"content": null, "tool_calls": [{"arguments": "{\"a\": null}"}]}]);
        assert_eq!(chat, stripped);
    }

    #[test]
    fn other_content_is_refused_with_the_reason() {
        for (value, reason) in [
            (json!([]), "no message"),
            (json!([{"role": "user"}]), "`role` and `content`"),
            (json!([{"from": "narrator", "value": "x"}]), "`narrator`"),
            (json!([{"role": "user", "content": null}]), "no text"),
            (json!([{"role": "assistant", "content": "x", "weight": 0.5}]), "`weight` 0.5"),
            (json!([{"role": "assistant", "content": "x", "mask": 1}]), "write `train`"),
            (json!([{"role": "user", "content": "x", "masked": false}]), "the assistant alone"),
            (json!([{"role": "user", "content": "x", "train": true}]), "the assistant alone"),
            (json!([{"role": "assistant", "content": "x", "train_detail": []}]), "`train_detail`"),
            (json!([{"role": "assistant", "content": "x", "weight": 1, "train": false}]), "beside"),
            (json!([{"role": "user", "content": [{"type": "image_url"}]}]), "`image_url`"),
            (json!([{"role": "user", "content": [{"image": "x"}]}]), "no text"),
        ] {
            let message = turns(&value).unwrap_err();
            assert!(message.contains(reason), "{value}: {message}");
        }
        assert!(!is_chat(&json!("[1, 2]")) && !is_chat(&json!([])) && !is_chat(&json!(["a"])));
    }
}
