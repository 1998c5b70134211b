//! Rows whose columns hold other columns, brought into the shape of the others: Orz's turns, CommonsenseQA's questions.

use serde_json::{Map, Value, json};

use super::Row;

/// Brings a row into the usual shape; most are in it.
pub(super) fn flatten(row: &mut Row) {
    if let Some(values) = turns(&row.values) {
        row.values = values;
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
