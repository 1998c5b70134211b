//! Rows that say themselves whether the worked solution in them is correct.

use serde_json::Value;

use super::Row;

/// Columns that say it.
const JUDGEMENTS: [&str; 6] = ["correct", "is_correct", "is_right", "passed", "reward", "score"];

/// The column of the rows that holds a judgement wherever it holds something: true or false, or a share from 0 to 1.
pub(super) fn column(rows: &[Row]) -> Option<&'static str> {
    JUDGEMENTS.into_iter().find(|name| {
        let mut values = rows
            .iter()
            .filter_map(|row| row.values.get(*name).filter(|value| !value.is_null()))
            .peekable();
        let is_share =
            |value: &Value| value.as_f64().is_none_or(|share| (0.0..=1.0).contains(&share));
        values.peek().is_some() && values.all(|value| judged(value).is_some() && is_share(value))
    })
}

/// Whether a row says of its own solution that it is incorrect.
pub(super) fn is_against(row: &Row, column: &str) -> bool {
    row.values.get(column).and_then(judged) == Some(false)
}

/// What a judgement says: whether the solution is correct.
fn judged(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(is_correct) => Some(*is_correct),
        Value::Number(number) => Some(number.as_f64()? > 0.0),
        Value::String(text) => text.trim().to_lowercase().parse().ok(),
        _ => None,
    }
}
