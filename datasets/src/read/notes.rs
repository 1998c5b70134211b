//! What the prompts and gold answers of a file look like, where they may not be what is meant.

use super::Row;
use super::choices::shows;
use super::layout::{AnswerColumn, Layout};
use crate::{Problem, json};

/// The beginning of a turn in the chat templates of well-known models.
const TURNS: [&str; 7] = [
    "<|im_start|>",
    "<|start_header_id|>",
    "<start_of_turn>",
    "<|User|>",
    "<\u{ff5c}User\u{ff5c}>",
    "<|user|>",
    "[INST]",
];
/// How prompts for models without a chat template leave the answer open.
const OPEN: [&str; 6] =
    ["Assistant:", "Assistant: <think>", "### Response:", "\nAnswer:", "\nA:", "\nSolution:"];
/// Letters that choices have, at most.
const LAST: char = 'H';

/// Puts back the strokes of commands of LaTeX that JSON read as control characters, and says in which rows.
pub(super) fn restore_commands(rows: &mut [Row]) -> Option<String> {
    let mut found = Vec::new();
    for row in rows.iter_mut() {
        let is_lost = |found, value| json::restore_commands(value) | found;
        if row.values.values_mut().fold(false, is_lost) {
            found.push(row.place());
        }
    }
    let first = found.first()?;
    Some(format!(
        "{} of {} rows, the first in row {first}, have commands of LaTeX with one backslash, which JSON reads as \
         another character (`\\f` of `\\frac`): they are read as commands; write two backslashes",
        found.len(),
        rows.len()
    ))
}

/// That `3,5` is read as a list in a column whose other numbers have decimal points, in a table separated by `;`.
pub(super) fn of_commas(rows: &[Row], layout: &Layout) -> Option<String> {
    let column = layout.answer.column()?;
    let is_list = |row: &&Row| row.listed.iter().any(|name| name == column);
    let row = rows.iter().find(is_list)?;
    Some(format!(
        "column `{column}` has numbers with points, so `{}` of row {} is read as a list: if it is a decimal comma, \
         write a point, and thousands without one",
        row.text(column)?.trim(),
        row.place()
    ))
}

/// Notes on the problems, for the user.
pub(super) fn of_problems(
    problems: &[Problem],
    layout: &Layout,
    are_compared: bool,
) -> Vec<String> {
    let open = layout.choices.as_ref().and_then(|choices| choices.open.clone());
    let mut notes: Vec<String> = open.into_iter().collect();
    let turn = problems.first().and_then(|problem| {
        let asked = problem.prompt.plain();
        TURNS.into_iter().find(|turn| asked.contains(turn))
    });
    if let Some(turn) = turn {
        notes.push(format!(
            "the prompts hold `{turn}`, so they may be chats in a template already, and a model with a chat template \
             puts them into a second one: remove the marks, or give a --chat-template that adds nothing"
        ));
    }
    let sentences = problems.iter().filter(|problem| is_whole_sentence(&problem.answer)).count();
    if are_compared && 2 * sentences > problems.len() {
        notes.push(format!(
            "{sentences} of {} gold answers are sentences, and only a completion with the same words is correct: \
             name a verifier of your own with --verifier",
            problems.len()
        ));
    }
    if layout.choices.is_none() && !problems.is_empty() {
        let is_shown = |problem: &Problem| shows(&problem.prompt.plain(), 0);
        let shown = problems.iter().filter(|problem| is_shown(problem)).count();
        let are_letters = problems.iter().all(|problem| is_letter(&problem.answer));
        if are_letters && 2 * shown < problems.len() {
            notes.push(
                "the gold answers are letters, and no choices are shown: if the letters are those of choices, show \
                 them with --prompt-template"
                    .into(),
            );
        }
        if is_index(layout) && problems.iter().all(|problem| is_class(&problem.answer)) {
            notes.push(
                "the gold answers are small numbers: if they are classes, or indices of choices, show in the prompt \
                 what each means, with --prompt-template"
                    .into(),
            );
        }
    }
    notes
}

/// That prompts end where the answer begins, after which no instruction is added.
pub(super) fn of_open_prompts(problems: &[Problem]) -> Option<String> {
    let is_open = |problem: &Problem| {
        let asked = problem.prompt.plain();
        OPEN.iter().any(|end| asked.trim_end().ends_with(end))
    };
    problems.iter().any(is_open).then(|| {
        "the prompts end where the answer begins (`Assistant:`, `### Response:`): no instruction is added after them, \
         and a model with a chat template needs --prompt-template or --chat-template"
            .into()
    })
}

fn is_letter(answer: &str) -> bool {
    let mut letters = answer.chars().map(|letter| letter.to_ascii_uppercase());
    matches!((letters.next(), letters.next()), (Some('A'..=LAST), None))
}

/// Whether an answer is a sentence of several words with a full stop; Chinese and Japanese have no blanks.
fn is_whole_sentence(answer: &str) -> bool {
    const WORDS: usize = 6;
    let text = answer.trim();
    let letters = text.chars().filter(|c| c.is_alphabetic()).count();
    text.ends_with(['.', '!', '?']) && text.split_whitespace().count() >= WORDS
        || text.ends_with(['\u{3002}', '\u{ff01}', '\u{ff1f}']) && letters >= 2 * WORDS
}

/// Whether the answer stands in a column of classes or indices.
fn is_index(layout: &Layout) -> bool {
    let AnswerColumn::Exact(column) = &layout.answer else { return false };
    let name = column.rsplit('.').next().unwrap_or_default().to_lowercase();
    ["label", "class", "ra", "cop"].contains(&name.as_str())
        || ["_idx", "_index", "_id"].iter().any(|end| name.ends_with(end))
}

fn is_class(answer: &str) -> bool {
    answer.parse::<u8>().is_ok_and(|number| number < 10)
}
