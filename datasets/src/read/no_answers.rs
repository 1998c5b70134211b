//! What has no gold answers: datasets (preferences, programs, instructions, classes), told by their columns, and texts.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::known_columns::CONVERSATIONS;
use super::{Columns, Purpose, Row, chat, gold_value, nested};
use tealight_core::display::shortened;

/// Words for no answer, and what they say. The last ones are: omitted, see the explanation, the proof is omitted or in
/// the explanation.
const NONE: [(&str, &str); 4] = [
    (
        "null|nan|none|n/a|#n/a|<na>|no answer|not applicable|\u{65e0}\u{7b54}\u{6848}",
        "there is no answer",
    ),
    (
        "proof|qed|q.e.d|proof omitted|\u{8bc1}\u{660e}",
        "a proof is asked for, which has no answer to compare",
    ),
    (
        "notfound|not found|not_found|[invalid]|answer not found",
        "the dataset says that it found no answer",
    ),
    (
        "omitted|see solution|see explanation|\u{7565}|\u{89c1}\u{89e3}\u{6790}|\u{89e3}\u{6790}\u{7565}|\
        \u{8bc1}\u{660e}\u{7565}|\u{8bc1}\u{660e}\u{89c1}\u{89e3}\u{6790}",
        "the dataset leaves the answer out",
    ),
];

/// Why a text that stands in the place of an answer is none; nothing where it may be one.
pub fn why_no_answer(text: &str) -> Option<&'static str> {
    let trimmed = text.trim().trim_matches('$');
    let inner = trimmed.strip_prefix("\\text{").and_then(|rest| rest.strip_suffix('}'));
    let trimmed = inner.unwrap_or(trimmed).trim_end_matches(['.', '\u{3002}']).trim();
    // As tables write a missing value; `Na` is sodium.
    if trimmed.is_empty() || trimmed == "NA" {
        return Some(NONE[0].1);
    }
    let lower = trimmed.to_lowercase();
    NONE.iter().find(|(words, _)| words.split('|').any(|word| word == lower)).map(|(_, why)| *why)
}

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
    let is_test = |text: &str| text.contains("assert") || text.contains("def test");
    if any(&["test_list", "entry_point", "input_output", "test_cases", "unit_tests", "tests"])
        || any(&["public_test_cases", "private_test_cases", "test_info"])
        || nested(row, "verification_info.test_cases").is_some_and(|cases| !cases.is_null())
        || row.get("test").and_then(Value::as_str).is_some_and(is_test)
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

/// What a dataset is whose `label` repeats the solution of `input` with a mark on each step: Math-Shepherd.
pub(super) fn step_labels(row: &Row) -> Option<&'static str> {
    let (input, label) = (row.text("input")?, row.text("label")?);
    let is_mark = |word: &&str| matches!(*word, "+" | "-");
    let is_tag = |word: &&str| *word == "\u{43a}\u{438}";
    let words = input.split_whitespace().filter(|word| !is_tag(word));
    let labelled = label.split_whitespace().filter(|word| !is_mark(word));
    let is_marked = label.split_whitespace().any(|word| is_mark(&word));
    (is_marked && input.contains("Step 1") && words.eq(labelled)).then_some(
        "`label` says of every step of the solution in `input` whether it is good, and is no gold answer",
    )
}

/// Whether rows may be judged without gold answers, as TRL's reward functions judge: by a program or a function of the
/// user's, where no column may hold them in a form of its own.
pub(super) fn may_be_absent(rows: &[Row], columns: &Columns) -> bool {
    let is_judged = columns.takes_any_gold() && columns.purpose == Purpose::Judge;
    let has_none =
        |row: &Row| other_kind(&row.values).is_none() && !row.values.contains_key("label");
    is_judged && columns.answer.is_none() && rows.first().is_some_and(has_none)
}

/// Why no answer column was found in rows such as this one, and the mend.
pub(super) fn without_answer(row: &Row, question: &str) -> String {
    let is_text = |value: &Value| {
        let is_turn = |item: &Value| item.is_string() || item.is_object();
        value.as_array().is_some_and(|all| !all.is_empty() && all.iter().all(is_turn))
    };
    let of_python = row.values.iter().find(|(_, value)| {
        let text = value.as_str().map(str::trim_start);
        text.is_some_and(|text| text.starts_with("{'"))
    });
    if row.values.get(question).is_some_and(|value| is_text(value) && !chat::is_chat(value)) {
        return format!(
            "column `{question}` holds turns without roles: write each as {{\"role\": .., \"content\": ..}}, with the \
             roles user and assistant"
        );
    }
    if let Some(chat) = row.values.get(question).filter(|it| chat::is_chat(it))
        && CONVERSATIONS.contains(&question)
    {
        let last = chat::items(chat).and_then(|turns| chat::sender(turns.last()?));
        return format!(
            "no answer found: no chat in column `{question}` ends with a turn of the assistant, the first with one of \
             `{}`; end each with its answer, or name the column of answers with --answer-column",
            shortened(&last.unwrap_or_default(), 40)
        );
    }
    if row.values.contains_key("label") {
        return "no answer column found: `label` may be a class (0, 1 or 2, true or false); if it is the answer, \
                --answer-column label"
            .into();
    }
    let names = row.names();
    let python = of_python.map_or(String::new(), |(name, _)| {
        format!("; `{name}` holds an object as Python prints it: write it as JSON")
    });
    format!("no answer column found; there is: {names}. Name it with --answer-column{python}")
}

/// Whether the values are answers beside which `unknown` is one too: of yes or no, or a few classes of words.
pub(super) fn may_be_unknown<'v>(values: impl Iterator<Item = Cow<'v, Value>>) -> bool {
    const MOST: usize = 4;
    let (mut classes, mut count) = (BTreeSet::new(), 0);
    for value in values {
        if gold_value::is_truth(&value) {
            return true;
        }
        if classes.len() <= MOST
            && let Some(text) = gold_value::plain(&value)
        {
            classes.insert(text.trim().to_lowercase());
        }
        count += 1;
    }
    let is_word = |text: &String| text.chars().all(|c| c.is_alphabetic() || "-_ ".contains(c));
    classes.len() <= MOST && classes.len() < count && classes.iter().all(is_word)
}
