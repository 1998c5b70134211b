//! Rows whose columns hold other columns, brought into the shape of the others: Orz's turns, CommonsenseQA's questions.

use serde_json::{Map, Value, json};

use super::known_columns::{CONVERSATIONS, QUESTIONS};
use super::{Columns, Row, chat, names};
use crate::python_list;

/// Brings a row into the usual shape; most are in it.
pub(super) fn flatten(row: &mut Row) {
    if let Some(values) = turns(&row.values) {
        row.values = values;
    }
    lift(&mut row.values);
    for name in CONVERSATIONS.into_iter().chain(["prompt"]) {
        if let Some(value) = row.values.get_mut(name)
            && let Some(turns) = turns_of_lists(value).or_else(|| turns_of_pairs(value))
        {
            *value = turns;
        }
    }
    row.values.values_mut().for_each(unwrap_bytes);
    if let Some(reference) = reference(&row.values) {
        row.values.entry("reference_answer").or_insert(reference);
    }
    // `question: {"stem": .., "choices": ..}`
    if let Some(Value::Object(fields)) = row.values.get("question")
        && let Some(stem) = fields.get("stem").cloned()
    {
        let choices = fields.get("choices").cloned();
        row.values.insert("question".into(), stem);
        if let Some(choices) = choices {
            row.values.entry("choices").or_insert(choices);
        }
    }
}

/// Columns `0`, `1`, ... with the turns of a conversation, one of which holds the gold answer.
fn turns(values: &Map<String, Value>) -> Option<Map<String, Value>> {
    let numbered: Option<Vec<usize>> = values.keys().map(|key| key.parse().ok()).collect();
    let mut numbers = numbered.filter(|numbers| numbers.len() >= 2)?;
    numbers.sort_unstable();
    let turns: Vec<&Map<String, Value>> = numbers
        .iter()
        .map(|number| values.get(&number.to_string())?.as_object())
        .collect::<Option<_>>()?;
    let gold = turns.iter().find_map(|turn| turn.get("ground_truth"))?;
    let gold = gold.get("value").unwrap_or(gold).clone();
    let with_value = turns.iter().filter(|turn| turn.contains_key("value")).copied();
    let conversations: Vec<Value> = with_value.map(|turn| json!(turn)).collect();
    let row = [("conversations", Value::Array(conversations)), ("ground_truth", gold)];
    Some(row.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// `{"from": [..], "value": [..]}` as turns: how older versions of datasets store a list of objects.
fn turns_of_lists(value: &Value) -> Option<Value> {
    let fields = value.as_object()?;
    let lists: Vec<(&String, &Vec<Value>)> =
        fields.iter().map(|(name, list)| Some((name, list.as_array()?))).collect::<Option<_>>()?;
    let count = lists.first()?.1.len();
    let turn = |at: usize| -> Value {
        lists
            .iter()
            .map(|(name, list)| ((*name).clone(), list[at].clone()))
            .collect::<Map<_, _>>()
            .into()
    };
    let is_even = lists.iter().all(|(_, list)| list.len() == count);
    let turns = || Value::Array((0..count).map(turn).collect());
    is_even.then(turns).filter(chat::is_chat)
}

/// `[{"human": .., "assistant": ..}]` as turns: a question and its answer in each object, whatever their order.
fn turns_of_pairs(value: &Value) -> Option<Value> {
    let role = |key: &str| match key {
        "input" => Some("user"),
        "output" => Some("assistant"),
        key => chat::known_role(key),
    };
    let mut turns = Vec::new();
    for pair in value.as_array()? {
        let fields = pair.as_object()?;
        // XTuner's first pair may have a system message.
        let system = fields.get("system").filter(|_| turns.is_empty());
        if fields.len() != 2 + usize::from(system.is_some()) {
            return None;
        }
        if let Some(text) = system.and_then(Value::as_str).filter(|text| !text.trim().is_empty()) {
            turns.push(json!({"role": "system", "content": text}));
        }
        for wanted in ["user", "assistant"] {
            let text = fields.iter().find(|(key, _)| role(key) == Some(wanted))?.1.as_str()?;
            turns.push(json!({"role": wanted, "content": text}));
        }
    }
    (!turns.is_empty()).then_some(turns.into())
}

/// Sets the columns of the only object with a question beside it, where the row asks nothing itself: `train` of MMLU,
/// `data` of others.
fn lift(values: &mut Map<String, Value>) {
    let asks =
        |fields: &Map<String, Value>| QUESTIONS.iter().any(|name| fields.contains_key(*name));
    if asks(values) {
        return;
    }
    let mut objects = values.values().filter_map(Value::as_object).filter(|fields| asks(fields));
    let (Some(fields), None) = (objects.next().cloned(), objects.next()) else { return };
    // A request of OpenAI's Responses, as NeMo Gym has it.
    let is_request = fields.contains_key("input") && fields.contains_key("instructions");
    for (name, value) in fields {
        let is_system = is_request && name == "instructions";
        values.entry(if is_system { "system".into() } else { name }).or_insert(value);
    }
}

/// Makes chats of columns `user` (or `human`) and `assistant`, where no row asks anything otherwise and the user names
/// no column.
pub(super) fn join_turns(rows: &mut [Row], columns: &Columns) {
    let is_turn = |name: &str| ["user", "human", "assistant"].contains(&name);
    let is_open = columns.prompt.is_none()
        && columns.answer.is_none()
        && columns.prompting.template.is_none()
        && !columns.are_read();
    let asks = |row: &Row| QUESTIONS.iter().any(|name| row.values.contains_key(*name));
    if !is_open || rows.iter().any(asks) || names::question(rows).is_some() {
        return;
    }
    let chat = |row: &Row| {
        let turns = row.values.iter().filter(|(name, _)| is_turn(name));
        let pair: Map<_, _> = turns.map(|(name, value)| (name.clone(), value.clone())).collect();
        turns_of_pairs(&json!([pair]))
    };
    let Some(chats) = rows.iter().map(chat).collect::<Option<Vec<_>>>() else { return };
    // Names of users and models are no turns.
    let is_phrase = |chat: &Value| chat[0]["content"].as_str().is_some_and(names::is_phrase);
    if !chats.iter().any(is_phrase) {
        return;
    }
    for (row, chat) in rows.iter_mut().zip(chats) {
        row.values.retain(|name, _| !is_turn(name));
        row.values.insert("messages".into(), chat);
    }
}

/// The text of bytes as Python prints them, `b'-6\n'`: deepmind's math_dataset.
fn unwrap_bytes(value: &mut Value) {
    let Value::String(text) = value else { return };
    let literal = text.trim();
    if literal.starts_with("b'") && literal.ends_with('\'')
        || literal.starts_with("b\"") && literal.ends_with('"')
    {
        let items = python_list::read(&format!("[{}]", &literal[1..]));
        // Each character is a byte.
        let bytes = |inner: &String| inner.chars().map(u8::try_from).collect::<Result<_, _>>();
        if let Some([inner]) = items.as_deref()
            && let Ok(Ok(inner)) = bytes(inner).map(String::from_utf8)
        {
            *text = inner.trim().to_owned();
        }
    }
}

/// The reference that a message of a conversation holds in its `info`: AM-DeepSeek-R1-Distilled's `reference_answer`,
/// or what a name calls the gold answer.
fn reference(values: &Map<String, Value>) -> Option<Value> {
    let chat = CONVERSATIONS
        .iter()
        .find_map(|name| values.get(*name).filter(|value| chat::is_chat(value)))?;
    let is_filled = |value: &Value| match value {
        Value::String(text) => !text.trim().is_empty(),
        value => value.is_number(),
    };
    let messages = chat::items(chat)?;
    let infos = || messages.iter().filter_map(|message| message.get("info")?.as_object());
    let fields = || infos().flatten().filter(|(_, value)| is_filled(value));
    let is_answer = |name: &str| name.eq_ignore_ascii_case("answer");
    let sure = fields().find(|(name, _)| names::is_gold(name) && !is_answer(name));
    let found = sure.or_else(|| fields().find(|(name, _)| is_answer(name)))?;
    Some(found.1.clone())
}
