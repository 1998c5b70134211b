//! Which columns of a file hold what: found by the names and values of the rows, or named by the user.

use serde_json::Value;

use super::choice_columns::ChoiceColumns;
use super::choices::ChoiceLayout;
use super::gold_value::plain;
use super::no_answers::{are_classes, other_kind};
use super::{Columns, Row, chat, judgement, nested, variables};
use crate::{DataError, Result};

/// Columns that hold the question, in order of preference.
pub(super) const QUESTIONS: [&str; 17] = [
    "prompt",
    "context_messages",
    "problem",
    "Problem",
    "question",
    "Question",
    "question_stem",
    "sQuestion",
    "query",
    "Query",
    "messages",
    "conversations",
    "conversation",
    "dialogue",
    "instruction",
    "input",
    "inputs",
];
/// Those of them that a row may have beside another which is the question.
const PLAIN_QUESTIONS: [&str; 8] =
    ["prompt", "problem", "Problem", "question", "Question", "query", "instruction", "input"];
/// Columns of whole conversations: their last turn, if it is the assistant's, is the answer and no part of the prompt.
const CONVERSATIONS: [&str; 4] = ["messages", "conversations", "conversation", "dialogue"];
/// Columns with a text that the question is about.
const CONTEXTS: [&str; 13] = [
    "context",
    "passage",
    "article",
    "Context",
    "Passage",
    "paragraph",
    "paragraphs",
    "story",
    "background",
    "document",
    "table",
    "body",
    "Body",
];
/// Columns with a system message.
const SYSTEMS: [&str; 3] = ["system", "system_prompt", "system_message"];
/// Columns that hold answers, the most exact first.
pub const ANSWERS: [&str; 33] = [
    "final_answer",
    "expected_answer",
    "ground_truth",
    "reward_model.ground_truth",
    "verification_info.ground_truth",
    "verification_info.answer",
    "info.ground_truth",
    "info.answer",
    "answer_number",
    "reference_answer",
    "ref_answer",
    "short_answer",
    "numerical_answer",
    "groundtruth",
    "gold_answer",
    "gt_answer",
    "correct_answer",
    "answer",
    "Answer",
    "final_ans",
    "gold",
    "lSolutions",
    "result",
    "answers.text",
    "answers_spans.spans",
    "answers",
    "target",
    "Target",
    "targets",
    "label",
    "Final Answer",
    "Correct Answer",
    "extra_info.answer",
];
/// Columns that hold worked solutions, which end in an answer.
pub const SOLUTIONS: [&str; 10] = [
    "solution",
    "Solution",
    "completion",
    "generated_solution",
    "gold_standard_solution",
    "response",
    "output",
    "rationale",
    "Rationale",
    "explanation",
];

/// Where the question stands.
#[derive(Debug, PartialEq)]
pub(super) enum QuestionColumns {
    /// A template writes it.
    Template,
    /// Columns whose texts are joined by blanks, as the user named them; a single one may hold a chat.
    Named(String),
    /// A column, and what is shown with it.
    Found { question: String, context: Option<String>, system: Option<String>, has_input: bool },
}

/// Where the answer stands.
#[derive(Debug, PartialEq)]
pub(super) enum AnswerColumn {
    /// A column of answers.
    Exact(String),
    /// A column of worked solutions.
    Worked(String),
    /// The last turn of the conversation.
    LastTurn,
}

/// The roles of the columns of a file.
pub(super) struct Layout {
    pub(super) question: QuestionColumns,
    pub(super) answer: AnswerColumn,
    pub(super) choices: Option<ChoiceLayout>,
    /// The column that says whether a worked solution is correct.
    pub(super) judgement: Option<&'static str>,
}

impl Layout {
    /// The roles of the columns of `rows`.
    ///
    /// # Errors
    /// Columns that are not there, or that leave open what they are.
    pub(super) fn detect(path: &std::path::Path, rows: &[Row], columns: &Columns) -> Result<Self> {
        let refused = |what: String| DataError::File { path: path.into(), what };
        let mut question = QuestionColumns::detect(rows, columns).map_err(refused)?;
        let named = columns.answer.as_deref();
        // A template writes the choices, where it does, and a named answer is taken as it stands then.
        let reads_choices = question != QuestionColumns::Template || named.is_none();
        let of_choices = ChoiceColumns::detect(rows);
        let of_choices = if reads_choices { of_choices.map_err(refused)? } else { None };
        let choices = match of_choices {
            Some(found) => ChoiceLayout::detect(rows, found, named).map_err(refused)?,
            None => None,
        };
        let answer = match &choices {
            Some(choices) => AnswerColumn::Exact(choices.key.clone()),
            None => AnswerColumn::detect(rows, columns, &question)
                .or_else(|what| {
                    // The whole conversation, beside its first question: UltraChat.
                    let whole = QuestionColumns::conversation(rows, columns).ok_or(what)?;
                    let answer = AnswerColumn::detect(rows, columns, &whole)?;
                    question = whole;
                    Ok(answer)
                })
                .map_err(refused)?,
        };
        let is_worked = matches!(answer, AnswerColumn::Worked(_) | AnswerColumn::LastTurn);
        let is_open = is_worked && columns.answer.is_none();
        let judgement = if is_open { judgement::column(rows) } else { None };
        Ok(Self { question, answer, choices, judgement })
    }

    /// The roles, in a line for the user.
    pub(super) fn note(&self) -> String {
        let mut note = match &self.question {
            QuestionColumns::Template => "columns: prompt = `by the template`".to_owned(),
            QuestionColumns::Named(name) => format!("columns: prompt = `{name}`"),
            QuestionColumns::Found { question, context, system, has_input } => {
                let mut text = format!("columns: prompt = `{question}`");
                if *has_input {
                    text.push_str(" with `input`");
                }
                for (role, name) in [("context", context), ("system message", system)] {
                    if let Some(name) = name {
                        text.push_str(&format!(", {role} = `{name}`"));
                    }
                }
                text
            }
        };
        note.push_str(&match &self.answer {
            AnswerColumn::Exact(name) => format!(", answer = `{name}`"),
            AnswerColumn::Worked(name) => format!(", answer = `{name}`, a worked solution"),
            AnswerColumn::LastTurn => ", answer = the last turn of the assistant".into(),
        });
        if let Some(choices) = &self.choices {
            let read = choices.reading.shown();
            note.push_str(&format!(", {read} of the choices in {}", choices.columns.shown()));
        }
        note
    }
}

impl QuestionColumns {
    fn detect(rows: &[Row], columns: &Columns) -> std::result::Result<Self, String> {
        let Some(first) = rows.first() else { return Ok(Self::Template) };
        if columns.prompting.template.is_some() {
            return Ok(Self::Template);
        }
        if let Some(name) = &columns.prompt {
            let missing = name.split(',').find(|part| nested(&first.values, part).is_none());
            return match missing {
                None => Ok(Self::Named(name.clone())),
                Some(_) => Err(format!("no column `{name}`; there is: {}", first.names())),
            };
        }
        // A question that only later rows have is another layout's: the row without it is named.
        let known = || QUESTIONS.into_iter().filter(|name| nested(&first.values, name).is_some());
        let filled = known().find(|name| is_filled(rows, name));
        let question = filled.or_else(|| known().find(|name| is_used(rows, name)));
        let question = question.ok_or_else(|| match other_kind(&first.values) {
            Some(kind) => format!("no prompt column found: {kind}"),
            None => format!(
                "no prompt column found; there is: {}. Name it with --prompt-column",
                first.names()
            ),
        })?;
        refuse_two_questions(first, question)?;
        rows.iter().try_for_each(variables::refuse_other_forms)?;
        let has_input = question == "instruction" && is_filled(rows, "input");
        if has_input {
            refuse_no_text(rows, question, "input")?;
        }
        let has_text = |name: &&str| {
            rows.iter().any(|row| row.text(name).is_some_and(|text| !text.trim().is_empty()))
        };
        let context = CONTEXTS.into_iter().find(|name| *name != question && is_filled(rows, name));
        // `text` is so common a name that only choices make a passage of it.
        let context = context.or_else(|| {
            Some("text").filter(|name| has_text(name) && first.values.contains_key("options"))
        });
        if let Some(context) = context {
            refuse_context(rows, question, context)?;
        }
        Ok(Self::Found {
            question: question.into(),
            context: context.map(String::from),
            system: SYSTEMS.into_iter().find(has_text).map(String::from),
            has_input,
        })
    }

    /// A column with a whole conversation, where the user named none.
    fn conversation(rows: &[Row], columns: &Columns) -> Option<Self> {
        let is_open = columns.prompt.is_none() && columns.prompting.template.is_none();
        let question = CONVERSATIONS.into_iter().find(|name| is_open && is_filled(rows, name))?;
        let (context, system) = (None, None);
        Some(Self::Found { question: question.into(), context, system, has_input: false })
    }

    /// Whether the question is a whole conversation, whose last turn is the answer.
    pub(super) fn is_conversation(&self) -> bool {
        matches!(self, Self::Found { question, .. } if CONVERSATIONS.contains(&question.as_str()))
    }

    /// The column that may hold a chat.
    pub(super) fn column(&self) -> Option<&str> {
        match self {
            Self::Template => None,
            Self::Named(name) => Some(name),
            Self::Found { question, .. } => Some(question),
        }
    }
}

impl AnswerColumn {
    fn detect(
        rows: &[Row],
        columns: &Columns,
        question: &QuestionColumns,
    ) -> std::result::Result<Self, String> {
        let Some(first) = rows.first() else { return Ok(Self::LastTurn) };
        if let Some(name) = &columns.answer {
            let is_there = |row: &Row| nested(&row.values, name).is_some();
            return match rows.iter().any(is_there) {
                false => Err(format!("no column `{name}`; there is: {}", first.names())),
                true if SOLUTIONS.contains(&name.as_str()) => Ok(Self::Worked(name.clone())),
                true => Ok(Self::Exact(name.clone())),
            };
        }
        let is_judgement = |name: &str| name == "label" && are_classes(rows);
        let find = |is: fn(&[Row], &str) -> bool| {
            ANSWERS.into_iter().find(|name| is(rows, name) && !is_judgement(name))
        };
        if let Some(name) = find(is_filled) {
            return Ok(Self::Exact(name.into()));
        }
        if let Some(kind) = other_kind(&first.values) {
            return Err(format!("no answer column found: {kind}"));
        }
        if let Some(name) = SOLUTIONS.into_iter().find(|name| is_filled(rows, name)) {
            return Ok(Self::Worked(name.into()));
        }
        // Empty in every row, which the reader says of each.
        if let Some(name) = find(is_used) {
            return Ok(Self::Exact(name.into()));
        }
        let last = question.column().and_then(|column| nested(&first.values, column));
        let turns = last.filter(|value| question.is_conversation() && chat::is_chat(value));
        let turns = turns.map(|value| chat::messages(&value)).transpose()?.unwrap_or_default();
        match turns.last() {
            Some(turn) if turn.role == "assistant" => Ok(Self::LastTurn),
            _ if first.values.contains_key("label") => Err(
                "no answer column found: `label` may be a class (0, 1 or 2, true or false); if it is the answer, \
                 --answer-column label"
                    .into(),
            ),
            _ => Err(format!(
                "no answer column found; there is: {}. Name it with --answer-column",
                first.names()
            )),
        }
    }
}

/// Whether a column holds something in some row.
fn is_used(rows: &[Row], name: &str) -> bool {
    let value = |row: &Row| nested(&row.values, name).is_some_and(|value| !value.is_null());
    rows.iter().any(value)
}

/// The same where empty texts and lists are nothing.
fn is_filled(rows: &[Row], name: &str) -> bool {
    let holds = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.trim().is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
        _ => true,
    };
    rows.iter().any(|row| nested(&row.values, name).is_some_and(|value| holds(&value)))
}

/// Refuses a second column that may be the question as well.
fn refuse_two_questions(first: &Row, question: &str) -> std::result::Result<(), String> {
    let Some(chosen) = first.text(question).filter(|_| PLAIN_QUESTIONS.contains(&question)) else {
        return Ok(());
    };
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let chosen = words(chosen);
    let is_other = |name: &&str| {
        // An instruction has an input, which is shown with it.
        if *name == question || (question, *name) == ("instruction", "input") {
            return false;
        }
        let other = first.text(name).map(words).filter(|other| !other.is_empty());
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
fn refuse_no_text(rows: &[Row], question: &str, name: &str) -> std::result::Result<(), String> {
    let is_other = |value: &Value| !value.is_null() && plain(value).is_none();
    match rows.iter().any(|row| row.values.get(name).is_some_and(is_other)) {
        false => Ok(()),
        true => Err(format!(
            "column `{name}` may belong to the question and is no text: name the question with --prompt-column \
             {question}, or write it with --prompt-template"
        )),
    }
}

/// Refuses a context that is no text, and one beside a prompt that may have it already.
fn refuse_context(rows: &[Row], question: &str, context: &str) -> std::result::Result<(), String> {
    refuse_no_text(rows, question, context)?;
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
