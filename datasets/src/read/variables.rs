//! What a row tells the chat template besides messages: its tools, and variables such as `enable_thinking`.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::chat::{TOOLS, without_nulls};
use super::choice_columns::is_empty;
use super::layout::QuestionColumns;
use super::problem::prompt_of;
use super::{Row, names};
use crate::verify::short;
use tealight_core::{Message, Prompt};

/// The column of other variables.
const VARIABLES: &str = "chat_template_kwargs";
/// The column of earlier turns.
const HISTORY: &str = "history";

/// The variables of a row; none for most.
pub(super) fn of_row(row: &Row) -> Result<Map<String, Value>, String> {
    let mut variables = match row.values.get(VARIABLES) {
        None | Some(Value::Null) => Map::new(),
        Some(value) => match without_nulls(&parsed(value)) {
            Value::Object(variables) => variables,
            other => {
                let shown = short(&other.to_string());
                return Err(format!("column `{VARIABLES}` should hold an object, not {shown}"));
            }
        },
    };
    if let Some(tools) = tools(row) {
        variables.insert(TOOLS.into(), tools);
    }
    Ok(variables)
}

/// The tools of a row: a list of objects, or one tool, each of which, and the list too, may stand as JSON in a text.
/// Another value is a column like any other.
fn tools(row: &Row) -> Option<Value> {
    let value = parsed(row.values.get(TOOLS)?);
    let Some(items) = value.as_array() else {
        return is_tool(&value).then(|| Value::Array(vec![value.into_owned()]));
    };
    let read = |item: &Value| {
        let tool = parsed(item);
        (item.is_object() || is_tool(&tool)).then(|| tool.into_owned())
    };
    let tools: Vec<Value> = items.iter().map(read).collect::<Option<_>>()?;
    (!tools.is_empty()).then_some(Value::Array(tools))
}

/// Whether a value describes a tool, as OpenAI's chats do it now or did it before.
fn is_tool(value: &Value) -> bool {
    let has = |key: &str| value.get(key).is_some_and(|value| !value.is_null());
    has("function") || (has("name") && has("parameters"))
}

/// A value, or the one that its text holds as JSON.
fn parsed(value: &Value) -> Cow<'_, Value> {
    let inner = value.as_str().and_then(|text| serde_json::from_str(text).ok());
    inner.map_or(Cow::Borrowed(value), Cow::Owned)
}

/// The earlier turns of a row in LLaMA-Factory's form, pairs of what the user and the assistant said.
pub(super) fn history(row: &Row) -> Vec<Message> {
    let pair = |item: &Value| match item.as_array()?.as_slice() {
        [Value::String(asked), Value::String(reply)] => {
            Some([Message::user(asked), Message::new("assistant", reply)])
        }
        _ => None,
    };
    let pairs = row.values.get(HISTORY).and_then(Value::as_array);
    let pairs: Option<Vec<_>> = pairs.and_then(|pairs| pairs.iter().map(pair).collect());
    pairs.into_iter().flatten().flatten().collect()
}

/// Refuses earlier turns that some rows have in another form, that stand before a chat with turns of its own, or that
/// are moves of a game.
pub(super) fn refuse_other_history(rows: &[Row], question: &str) -> Result<(), String> {
    if rows.iter().all(|row| history(row).is_empty()) {
        return Ok(());
    }
    let is_other = |row: &Row| {
        let is_filled = row.values.get(HISTORY).is_some_and(|value| !is_empty(value));
        is_filled && history(row).is_empty()
    };
    let is_reply = |turn: &Message| turn.role == "assistant";
    let is_chat = |row: &Row| match prompt_of(row, question) {
        Ok(Some(Prompt::Chat(turns))) => turns.iter().any(is_reply),
        _ => false,
    };
    let is_said = rows.iter().flat_map(history).any(|turn| names::is_phrase(&turn.content));
    let why = if rows.iter().any(is_other) {
        "is not a list of [question, reply] pairs in some rows"
    } else if rows.iter().any(is_chat) {
        "stands beside a chat that has earlier turns too"
    } else if !is_said {
        "has no text of two words, and may not be the earlier turns of a chat"
    } else {
        return Ok(());
    };
    Err(format!(
        "column `{HISTORY}` {why}: write the complete chat in a column `messages`, or remove `{HISTORY}`"
    ))
}

/// Refuses columns that say what the model is told, in a form that is not read: OpenAI's older tools.
pub(super) fn refuse_other_forms(row: &Row) -> Result<(), String> {
    let items =
        |name: &str| row.values.get(name).and_then(Value::as_array).filter(|x| !x.is_empty());
    if items("functions").is_some_and(|tools| tools.iter().all(is_tool)) {
        return Err("column `functions` holds tools: name it `tools`, each of its values as {\"type\": \"function\", \
                    \"function\": ..}"
            .into());
    }
    Ok(())
}

/// The columns that are read besides, for the line that names columns.
pub(super) fn note(rows: &[Row], question: &QuestionColumns) -> String {
    let has_variables = |row: &Row| row.values.get(VARIABLES).is_some_and(|value| !value.is_null());
    let mut note = String::new();
    // A template writes all turns, and a named column is all that is asked.
    let is_shown = matches!(question, QuestionColumns::Found { .. });
    if is_shown && rows.iter().any(|row| !history(row).is_empty()) {
        note.push_str(&format!(", earlier turns = `{HISTORY}`"));
    }
    if rows.iter().any(|row| tools(row).is_some()) {
        note.push_str(&format!(", tools = `{TOOLS}`"));
    }
    if rows.iter().any(has_variables) {
        note.push_str(&format!(", template variables = `{VARIABLES}`"));
    }
    note
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_tell_the_template_their_tools_and_variables() {
        let row = |values: Value| Row::new(1, values.as_object().unwrap().clone());
        let tool = json!([{"type": "function", "function": {"name": "add", "x": null}}]);
        for (values, expected) in [
            (json!({"q": 1}), json!({})),
            (json!({"chat_template_kwargs": null, "tools": []}), json!({})),
            (json!({"tools": "hammer"}), json!({})),
            (
                json!({"chat_template_kwargs": {"enable_thinking": false, "x": null}}),
                json!({"enable_thinking": false}),
            ),
            (
                json!({"chat_template_kwargs": "{\"a\": 1}", "tools": tool}),
                json!({"a": 1, "tools": tool}),
            ),
            (json!({"tools": tool.to_string()}), json!({"tools": tool})),
            (json!({"tools": [tool[0].to_string()]}), json!({"tools": tool})),
            (json!({"tools": tool[0]}), json!({"tools": tool})),
        ] {
            assert_eq!(Value::Object(of_row(&row(values.clone())).unwrap()), expected, "{values}");
        }
        let wrong = of_row(&row(json!({"chat_template_kwargs": "thinking"}))).unwrap_err();
        assert!(wrong.contains("chat_template_kwargs"), "{wrong}");
    }
}
