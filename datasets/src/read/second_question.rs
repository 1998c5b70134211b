//! Columns that may belong to the question beside the one that was found, and refusals that say how to name them.

use serde_json::Value;

use super::choice_columns::is_empty;
use super::gold_value::plain;
use super::known_columns::{CONTEXTS, CONVERSATIONS};
use super::layout::is_filled;
use super::{Row, chat, names};
use tealight_core::Message;
use tealight_core::display::one_spaced;

/// Columns that a row may have beside another which is the question.
const PLAIN_QUESTIONS: [&str; 8] =
    ["prompt", "problem", "Problem", "question", "Question", "query", "instruction", "input"];
/// Columns of what is to be done with an `input`.
const TASKS: [&str; 5] = ["task", "definition", "Definition", "task_description", "code"];
/// Columns of several texts that a question is about.
const LISTS: [&str; 7] =
    ["dialogue", "dialog", "utterances", "passages", "contexts", "premises", "question_para_step"];

/// Words of the names of columns that a question was made from.
const ORIGINS: [&str; 5] = ["source", "original", "origin", "raw", "old"];

/// The turns of a chat in a column before the answer; none where it holds no chat.
fn asked_turns(row: &Row, name: &str) -> Option<Vec<Message>> {
    let value = row.values.get(name).filter(|value| chat::is_chat(value))?;
    let mut turns = chat::messages(value).ok()?;
    turns.truncate(turns.iter().rposition(|turn| turn.role != "assistant").map_or(0, |at| at + 1));
    Some(turns)
}

/// What the question's column asks, with one blank between its words.
pub(super) fn asked(row: &Row, question: &str) -> String {
    let text = || row.text(question).unwrap_or_default().to_owned();
    let of_chat = |turns: Vec<Message>| {
        turns.into_iter().map(|turn| turn.content).collect::<Vec<_>>().join(" ")
    };
    one_spaced(&asked_turns(row, question).map_or_else(text, of_chat))
}

/// The roles of the turns of a chat that what is asked does not have.
pub(super) fn unasked(row: &Row, name: &str, asked: impl Fn() -> String) -> Vec<&'static str> {
    let Some(turns) = asked_turns(row, name) else { return Vec::new() };
    let asked = asked();
    let other = turns.into_iter().filter(|turn| !asked.contains(&one_spaced(&turn.content)));
    // The words of others are not repeated.
    let known = ["system", "user", "assistant", "tool"];
    let role = |turn: Message| known.into_iter().find(|role| *role == turn.role);
    other.map(|turn| role(turn).unwrap_or("other")).collect()
}

/// The column of chats whose last turns contain the question in every row, where they ask more than it.
pub(super) fn whole_chat<'r>(rows: &'r [Row], question: &str) -> Option<&'r str> {
    let is_whole = |row: &Row, name: &str| {
        let Some(text) = row.text(question).map(one_spaced).filter(|text| !text.is_empty()) else {
            return row.values.get(question).is_none_or(Value::is_null);
        };
        let last = asked_turns(row, name).and_then(|mut turns| turns.pop());
        last.is_some_and(|turn| turn.role == "user" && one_spaced(&turn.content).contains(&text))
    };
    let asks_more = |row: &Row, name: &str| !unasked(row, name, || asked(row, question)).is_empty();
    let is_open = |row: &Row, name: &str| !row.values.get(name).is_some_and(chat::ends_with_answer);
    // DAPO's `source_prompt` is what the question was made from.
    let is_made_from =
        |name: &str| names::words(name).iter().any(|word| ORIGINS.contains(&&**word));
    let mut names = rows.first()?.values.keys().map(String::as_str).filter(|name| {
        *name != question
            && !is_made_from(name)
            && (CONVERSATIONS.contains(name) || rows.iter().all(|row| is_open(row, name)))
            && rows.iter().all(|row| is_whole(row, name))
    });
    names.find(|name| rows.iter().any(|row| asks_more(row, name)))
}

/// Refuses parts of the question that are not read: a task beside its input, a list of texts beside a question.
pub(super) fn refuse_parts(rows: &[Row], question: &str) -> Result<(), String> {
    if PLAIN_QUESTIONS.contains(&question) {
        let mut lists = LISTS.into_iter().filter(|name| is_filled(rows, name));
        lists.try_for_each(|name| refuse_no_text(rows.iter(), question, name))?;
    }
    if !matches!(question, "input" | "inputs") {
        return Ok(());
    }
    let is_task = |name: &&str| {
        // GSM-Hard's code is the solution, and its input the question.
        let has_output = *name != "code" || is_filled(rows, "output");
        let says = |row: &Row| {
            row.text(name).is_some_and(|text| text.trim().contains(char::is_whitespace))
        };
        has_output && rows.iter().any(says)
    };
    match TASKS.into_iter().find(is_task) {
        None => Ok(()),
        Some(task) => Err(format!(
            "columns `{task}` and `{question}` may both belong to the question: name it with --prompt-column \
             {task},{question} for both, or --prompt-column {question}"
        )),
    }
}

/// Refuses a second context with a text of its own.
pub(super) fn refuse_second_context(
    rows: &[Row],
    question: &str,
    context: &str,
) -> Result<(), String> {
    let is_other = |name: &&str| {
        let differs = |row: &Row| {
            let texts = (row.text(name), row.text(context), row.text(question));
            let (Some(other), Some(context), asked) = texts else { return false };
            let (other, asked) = (other.trim(), asked.unwrap_or_default());
            !other.is_empty()
                && ![context, asked].iter().any(|text| text.contains(other))
                && !other.contains(context.trim())
        };
        ![question, context].contains(name) && rows.iter().any(differs)
    };
    match CONTEXTS.into_iter().find(is_other) {
        None => Ok(()),
        Some(other) => Err(format!(
            "columns `{context}` and `{other}` may both belong to the question: name it with --prompt-column \
             {context},{other},{question} for both, or --prompt-column {context},{question}"
        )),
    }
}

/// Refuses a second column that may be the question as well.
pub(super) fn refuse_two_questions(first: &Row, question: &str) -> Result<(), String> {
    let Some(chosen) = first.text(question).filter(|_| PLAIN_QUESTIONS.contains(&question)) else {
        return Ok(());
    };
    let chosen = one_spaced(chosen);
    let is_other = |name: &&str| {
        // An instruction has an input, which is shown with it.
        if *name == question || (question, *name) == ("instruction", "input") {
            return false;
        }
        let other = first.text(name).map(one_spaced).filter(|other| !other.is_empty());
        other.is_some_and(|other| !chosen.contains(&other) && !other.contains(&chosen))
    };
    match PLAIN_QUESTIONS.into_iter().find(is_other) {
        None => Ok(()),
        Some(other) => Err(format!(
            "columns `{question}` and `{other}` may both be the question: name it with --prompt-column {question}, or \
             --prompt-column {other},{question} for both"
        )),
    }
}

/// Refuses a column that belongs to the question and holds more than text.
pub(super) fn refuse_no_text<'r>(
    mut rows: impl Iterator<Item = &'r Row>,
    question: &str,
    name: &str,
) -> Result<(), String> {
    let is_other = |value: &Value| !is_empty(value) && plain(value).is_none();
    match rows.any(|row| row.values.get(name).is_some_and(is_other)) {
        false => Ok(()),
        true => Err(format!(
            "column `{name}` may belong to the question and is no text: name the question with --prompt-column \
             {question}, or write it with --prompt-template"
        )),
    }
}

/// Refuses a context that is no text, and one beside a prompt that may have it already.
pub(super) fn refuse_context(rows: &[Row], question: &str, context: &str) -> Result<(), String> {
    refuse_no_text(rows.iter(), question, context)?;
    let is_ready =
        matches!(question, "prompt" | "context_messages") || CONVERSATIONS.contains(&question);
    let has_it = |row: &Row| {
        let context = row.text(context).unwrap_or_default().trim();
        let prompt =
            row.values.get(question).map(|value| plain(value).unwrap_or(value.to_string()));
        context.is_empty() || prompt.is_some_and(|prompt| prompt.contains(context))
    };
    match rows.iter().all(has_it) || !is_ready {
        true => Ok(()),
        false => Err(format!(
            "columns `{question}` and `{context}`: whether the prompt has its context already is not clear; say it with \
             --prompt-column {question}, or --prompt-column {context},{question} for both"
        )),
    }
}
