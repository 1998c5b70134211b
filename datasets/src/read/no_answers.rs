//! Datasets without gold answers (preferences, programs, instructions, classes), told by their columns.

use serde_json::{Map, Value};

use super::Row;

/// Whether every `label` is true or false, or one of the first numbers: a judgement of a completion, or a class.
pub(super) fn are_classes(rows: &[Row]) -> bool {
    let is_class = |value: &Value| match value {
        Value::Bool(_) | Value::Null => true,
        value => value.as_i64().is_some_and(|number| (-1..=2).contains(&number)),
    };
    rows.iter().filter_map(|row| row.values.get("label")).all(is_class)
}

/// What a dataset is whose answers cannot be compared with a gold answer.
pub fn other_kind(row: &Map<String, Value>) -> Option<&'static str> {
    let has = |name: &str| row.get(name).is_some_and(|value| !value.is_null());
    let any = |names: &[&str]| names.iter().any(|name| has(name));
    if any(&["test_list", "entry_point", "input_output", "test_cases", "unit_tests", "tests"])
        || any(&["public_test_cases", "private_test_cases"])
    {
        return Some(
            "the answers are programs, which tests check; name a verifier that runs them (--verifier program:COMMAND) \
             and the column of the tests (--answer-column)",
        );
    }
    if any(&["instruction_id_list", "func_name"]) {
        return Some(
            "instructions that code checks; name a verifier that does (--verifier python:FILE.py:FUNCTION) and the \
             column that it needs (--answer-column)",
        );
    }
    if has("chosen") && has("rejected") {
        return Some("`chosen` and `rejected` are preferences, and no gold answer");
    }
    let judges = |name: &str| match row.get(name) {
        Some(Value::Bool(_)) => true,
        Some(Value::Number(number)) => matches!(number.as_i64(), Some(-1..=1)),
        Some(Value::Array(items)) => !items.is_empty() && items.iter().all(Value::is_boolean),
        _ => false,
    };
    if any(&["completion", "completions"]) && (judges("label") || judges("labels")) {
        return Some(
            "the label says whether a completion is good, and is no gold answer; if every completion is correct, \
             --answer-column completion",
        );
    }
    None
}
