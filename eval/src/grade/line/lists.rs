//! Completions that stand in lists, lists of lists, and texts that hold a list.

use anyhow::{Result, bail};
use serde_json::Value;
use tealight_datasets::json;

use super::fields::{first, get, printed_list};
use super::names::{ONE, SEVERAL};
use super::own::keys_of;
use super::{Line, short};

/// Whether a value is a message of a conversation.
pub(super) fn is_message(item: &Value) -> bool {
    item.get("role").is_some() || item.get("from").is_some()
}

/// The completions of a list, also of lists in it; a conversation and the parts of a text are one.
pub(super) fn flatten<'v>(found: &'v Value, all: &mut Vec<&'v Value>) {
    let is_part = |item: &Value| item.get("type").is_some_and(Value::is_string);
    let is_turn = |item: &Value| {
        let role = first(item, &["role", "from"]);
        role.is_some_and(|role| role == "assistant" || role == "gpt")
            && item.get("tool_calls").is_none()
    };
    let is_list = |item: &&Value| match item {
        Value::Array(items) => {
            !items.is_empty() && items.iter().all(|item| item.is_string() || item.is_array())
                || items.len() > 1 && items.iter().all(is_turn)
        }
        _ => false,
    };
    match found {
        // Answers without a turn of the user between them are one each.
        Value::Array(items)
            if items.len() > 1 && items.iter().all(is_turn)
                || !items.iter().any(|item| is_message(item) || is_part(item)) =>
        {
            for item in items {
                if is_list(&item) { flatten(item, all) } else { all.push(item) }
            }
        }
        one => all.push(one),
    }
}

/// The list that stands in a text, as tables have it.
///
/// # Errors
/// A list as numpy or Python prints it, which is not read.
pub(super) fn list_in_text(line: &Line, found: &Value) -> Result<Option<Value>> {
    let Some(text) = found.as_str().map(str::trim) else { return Ok(None) };
    if let Some(list) = printed_list(found) {
        return Ok(Some(list));
    }
    if ["['", "[\"", "[{", "[["].iter().any(|start| text.starts_with(start)) {
        let list =
            json::parse(text).ok().filter(|list| !list[0].is_number() && !list[0][0].is_number());
        if list.is_some() {
            return Ok(list);
        }
        if !text.starts_with("[[") && text.ends_with(']') {
            bail!(
                "{}: the completions are a text that looks like a list as Python or numpy prints it: write a list of JSON \
                 into the column (json.dumps(list(completions))), or JSON lines",
                line.shown()
            );
        }
    }
    Ok(None)
}

/// Refuses an `answer` that is a list with one for each completion: what they said, unless the user names it.
pub(super) fn refuse_answers(line: &mut Line, value: &Value) {
    let answer = get(value, "answer").filter(|_| line.is_gold_answer);
    let printed = answer.and_then(printed_list);
    let Some(each) = printed.as_ref().or(answer).and_then(Value::as_array) else { return };
    let differ = each.iter().any(|one| *one != each[0]);
    if each.len() == line.answers.len() && each.len() > 1 && differ {
        line.golds.clear();
        line.gold_refusal = Some(format!(
            "`answer` is a list with one for each of the {} completions, which seems to be what they said: name the key of \
             the gold answer with --gold-key (--gold-key answer if each of them is right), or the dataset with --dataset",
            each.len()
        ));
    }
}

/// A record whose completion, or list of them, stands under the key that the user names.
///
/// # Errors
/// A record without it.
pub(super) fn with_completion(value: &Value, name: &str) -> Result<Value> {
    let Some(found) = get(value, name).cloned() else {
        bail!("no key `{}` (--completion-key): the record has {}", short(name), keys_of(value));
    };
    let mut map = value.as_object().cloned().unwrap_or_default();
    let is_completion = |key: &str| ONE.contains(&key) || SEVERAL.contains(&key) || key == name;
    map.retain(|key, _| !is_completion(key));
    let is_list = found.is_array() || printed_list(&found).is_some();
    map.insert(if is_list { SEVERAL[0] } else { ONE[0] }.to_owned(), found);
    Ok(Value::Object(map))
}

/// Refuses a document whose entries are columns, or records by their ids.
pub(super) fn refuse_collection(value: &Value) -> Result<()> {
    let Some(map) = value.as_object().filter(|map| map.len() > 1) else { return Ok(()) };
    let is_number = |key: &String| key.bytes().all(|byte| byte.is_ascii_digit());
    let is_column = |entry: &Value| match entry {
        Value::Array(_) => true,
        Value::Object(rows) => !rows.is_empty() && rows.keys().all(is_number),
        _ => false,
    };
    if map.values().all(is_column) {
        bail!(
            "a table by its columns ({}), as pandas' to_json writes it: give one object a record, \
             to_json(FILE, orient=\"records\", lines=True)",
            keys_of(value)
        );
    }
    if map.values().all(Value::is_object) || map.values().all(Value::is_array) {
        bail!(
            "records by their ids ({}): give a list of objects, or JSON lines, each with its \"id\"",
            keys_of(value)
        );
    }
    Ok(())
}
