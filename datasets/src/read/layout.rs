//! Which columns of a file hold what: found by the names and values of the rows, or named by the user.

use serde_json::Value;

use super::better_answer::{REFERENCES, WEAK_ANSWERS, are_numbers, marks_others, text_of_index};
use super::choice_columns::{ChoiceColumns, is_empty};
use super::choices::ChoiceLayout;
use super::judgement::{self, Judged};
use super::known_columns::{
    ANSWERS, COMPLETIONS, CONTEXTS, CONVERSATIONS, QUESTIONS, SOLUTIONS, SYSTEMS,
};
use super::no_answers::{
    are_classes, may_be_absent, may_be_unknown, other_kind, step_labels, without_answer,
};
use super::second_question::{
    refuse_context, refuse_no_text, refuse_parts, refuse_second_context, refuse_two_questions,
    whole_chat,
};
use super::{Columns, Purpose, Row, chat, gold_value, names, nested, variables};
use crate::{DataError, Result};

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
    /// None: a function of the user's judges without gold answers.
    Absent,
}

/// The roles of the columns of a file.
pub(super) struct Layout {
    pub(super) question: QuestionColumns,
    pub(super) answer: AnswerColumn,
    pub(super) choices: Option<ChoiceLayout>,
    /// The column of worked solutions beside one of answers.
    pub(super) solution: Option<String>,
    /// The column that says whether a worked solution is correct.
    pub(super) judgement: Option<&'static str>,
    /// Others that say so by the words of their names.
    pub(super) verdicts: Vec<judgement::Named>,
    /// Whether `unknown` is an answer: others are yes or no.
    pub(super) is_unknown_answer: bool,
}

impl Layout {
    /// The roles of the columns of `rows`.
    pub(super) fn detect(path: &std::path::Path, rows: &[Row], columns: &Columns) -> Result<Self> {
        let refused = |what: String| DataError::File { path: path.into(), what };
        let mut question = QuestionColumns::detect(rows, columns).map_err(refused)?;
        let named = columns.answer.as_deref();
        // A template writes the choices, where it does, and a named answer is taken as it stands then.
        let reads_choices = question != QuestionColumns::Template || named.is_none();
        let of_choices = ChoiceColumns::detect(rows, named);
        let of_choices = if reads_choices { of_choices.map_err(refused)? } else { None };
        let choices = match of_choices {
            Some(found) => ChoiceLayout::detect(rows, found, named).map_err(refused)?,
            None if reads_choices => ChoiceLayout::detect_possible(rows, named).map_err(refused)?,
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
                .or_else(|what| match may_be_absent(rows, columns) {
                    true => Ok(AnswerColumn::Absent),
                    false => Err(what),
                })
                .map_err(refused)?,
        };
        if let (AnswerColumn::Exact(column), None, None) = (&answer, &choices, named) {
            judgement::refuse_candidates(rows, column).map_err(refused)?;
        }
        let is_unknown_answer = match &answer {
            AnswerColumn::Exact(column) => {
                may_be_unknown(rows.iter().filter_map(|row| nested(&row.values, column)))
            }
            _ => false,
        };
        let (solution, judgement, verdicts) = (None, None, Vec::new());
        let mut layout =
            Self { question, answer, choices, solution, judgement, verdicts, is_unknown_answer };
        layout.solution = layout.solution_beside(rows, columns);
        let is_completion = match &layout.answer {
            AnswerColumn::Worked(name) => COMPLETIONS.contains(&name.as_str()),
            _ => {
                let is_other = |name: &String| !SOLUTIONS.contains(&name.as_str());
                layout.solution.as_ref().is_some_and(is_other)
                    || COMPLETIONS.into_iter().any(|name| is_filled(rows, name))
            }
        };
        let of = match (is_completion, layout.question.is_conversation()) {
            (_, true) => Judged::Conversation,
            (true, false) => Judged::Completion,
            (false, false) => Judged::Solution,
        };
        let is_judged = match &layout.answer {
            _ if named.is_some() => false,
            AnswerColumn::Worked(_) | AnswerColumn::LastTurn => true,
            AnswerColumn::Absent => false,
            // What is learned is a completion beside its gold answer.
            AnswerColumn::Exact(_) => columns.purpose == Purpose::Imitate && of != Judged::Solution,
        };
        if is_judged {
            layout.judgement = judgement::column(rows, of);
            layout.verdicts = judgement::named(rows, of);
        }
        Ok(layout)
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
            AnswerColumn::Absent => {
                "; no answer column, so --verifier gets an empty gold answer (--answer-column names one)".into()
            }
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
            // As one that is found by itself.
            if let Some(whole) = Self::conversation(rows, columns) {
                return Ok(whole);
            }
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
        let question = question.or_else(|| names::question(rows));
        let question = question.ok_or_else(|| match other_kind(&first.values) {
            Some(kind) => format!("no prompt column found: {kind}"),
            None => format!(
                "no prompt column found; there is: {}. Name it with --prompt-column",
                first.names()
            ),
        })?;
        refuse_two_questions(first, question)?;
        refuse_parts(rows, question)?;
        let question = whole_chat(rows, question).unwrap_or(question);
        rows.iter().try_for_each(variables::refuse_other_forms)?;
        variables::refuse_other_history(rows, question)?;
        let has_input = question == "instruction" && is_filled(rows, "input");
        if has_input {
            refuse_no_text(rows.iter(), question, "input")?;
        }
        let has_text = |name: &&str| {
            rows.iter().any(|row| row.text(name).is_some_and(|text| !text.trim().is_empty()))
        };
        let context = CONTEXTS.into_iter().find(|name| *name != question && is_filled(rows, name));
        // `text` is so common a name that only choices make a passage of it.
        let context = context.or_else(|| {
            Some("text").filter(|name| has_text(name) && first.values.contains_key("options"))
        });
        let is_ready = question == "prompt" || CONVERSATIONS.contains(&question);
        let context = context.or_else(|| {
            let mut names = first.values.keys().map(String::as_str);
            let is_context =
                |name: &&str| *name != question && names::is_context(name) && has_text(name);
            names.find(|name| !is_ready && is_context(name))
        });
        if let Some(context) = context {
            refuse_context(rows, question, context)?;
            refuse_second_context(rows, question, context)?;
        }
        let named = first.values.keys().map(String::as_str).filter(|name| names::is_system(name));
        let has_system = |name: &&str| rows.iter().any(|row| system_of(row, name).is_some());
        let named = || SYSTEMS.into_iter().chain(named.clone());
        named().try_for_each(|name| {
            let untold = rows.iter().filter(|row| system_of(row, name).is_none());
            refuse_no_text(untold, question, name)
        })?;
        Ok(Self::Found {
            question: question.into(),
            context: context.map(String::from),
            system: named().find(has_system).map(String::from),
            has_input,
        })
    }

    /// A column with a whole conversation, where the user named no other.
    fn conversation(rows: &[Row], columns: &Columns) -> Option<Self> {
        let is_named = |name: &str| columns.prompt.as_deref().is_none_or(|named| named == name);
        let is_open = |name: &str| columns.prompting.template.is_none() && is_named(name);
        let mut chats = CONVERSATIONS.into_iter().filter(|name| is_open(name));
        let question = chats.find(|name| is_filled(rows, name))?;
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
    /// The column, where it is one of answers or solutions.
    pub(super) fn column(&self) -> Option<&str> {
        match self {
            Self::Exact(name) | Self::Worked(name) => Some(name),
            Self::LastTurn | Self::Absent => None,
        }
    }

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
        if let Some(kind) = step_labels(first) {
            return Err(format!("no answer column found: {kind}"));
        }
        let column = question.column().unwrap_or_default();
        let ends_answered = |row: &&Row| ends_answered(row, column);
        // What most chats end with is learned, whatever stands beside them.
        let is_learned = columns.purpose == Purpose::Imitate
            && question.is_conversation()
            && rows.iter().filter(ends_answered).count() * 2 > rows.len();
        let solution = SOLUTIONS.into_iter().find(|name| !is_learned && is_filled(rows, name));
        // A class of words may be explained.
        let is_explained = |name| ["rationale", "Rationale", "explanation"].contains(&name);
        let is_solved =
            solution.is_some_and(|name| !is_explained(name)) || question.is_conversation();
        let is_judgement = |name: &str| {
            name == "label" && are_classes(rows)
                || is_solved && WEAK_ANSWERS.contains(&name) && judgement::are_words(rows, name)
        };
        // Infinity-Instruct's `label` is an object of its topics.
        let is_of_topics = |name: &str| {
            let value = |row: &Row| row.values.get(name).is_some_and(Value::is_object);
            is_solved && WEAK_ANSWERS.contains(&name) && rows.iter().any(value)
        };
        let find = |is: fn(&[Row], &str) -> bool| {
            let is_answer = |name: &str| !is_judgement(name) && !is_of_topics(name);
            ANSWERS.into_iter().find(|name| is(rows, name) && is_answer(name))
        };
        let is_beside = |name: &str| name.starts_with("extra_info.");
        if let Some(name) = find(is_filled) {
            let is_weak = WEAK_ANSWERS.contains(&name);
            let text = |row: &Row| row.text(solution?).map(str::to_owned);
            let turn = |row: &Row| last_turn(row, question);
            let gold = names::gold(rows);
            let is_open = is_weak && gold.is_none();
            let worked = solution.filter(|_| is_open && marks_others(rows, name, text));
            if let Some(worked) = worked.filter(|_| are_numbers(rows, name)) {
                return Err(format!(
                    "columns `{name}` and `{worked}` have different answers in most rows: name the one with the gold \
                     answers with --answer-column"
                ));
            }
            return Ok(match (worked, gold) {
                // What says gold itself comes before what a trainer is told besides.
                (_, Some(gold)) if is_beside(name) && gold.ends_with("truth") => Self::Exact(gold),
                _ if !is_weak => Self::Exact(name.into()),
                (_, Some(gold)) => Self::Exact(gold),
                (Some(worked), _) => Self::Worked(worked.into()),
                _ if marks_others(rows, name, turn) => Self::LastTurn,
                _ => Self::Exact(text_of_index(rows, name)),
            });
        }
        if let Some(name) = REFERENCES.into_iter().find(|name| is_filled(rows, name)) {
            return Ok(Self::Exact(name.into()));
        }
        if let Some(kind) = other_kind(&first.values) {
            return Err(format!("no answer column found: {kind}"));
        }
        if let Some(name) = names::gold(rows) {
            return Ok(Self::Exact(name));
        }
        if let Some(name) = solution {
            let taken = |row: &Row| row.text(name).map(gold_value::worked);
            names::refuse_other(rows, name, taken)?;
            return Ok(Self::Worked(name.into()));
        }
        // Empty in every row, which the reader says of each.
        if let Some(name) = find(is_used) {
            return Ok(Self::Exact(name.into()));
        }
        if question.is_conversation() && rows.iter().any(|row| ends_answered(&row)) {
            let taken = |row: &Row| Some(gold_value::worked(&last_turn(row, question)?));
            names::refuse_other(rows, column, taken)?;
            return Ok(Self::LastTurn);
        }
        let only = names::only(rows).map(Self::Exact);
        only.ok_or_else(|| without_answer(first, column))
    }
}

/// The text of the last turn of a row's conversation, where that is the assistant's.
pub(super) fn last_turn(row: &Row, question: &QuestionColumns) -> Option<String> {
    let column = question.column().filter(|_| question.is_conversation())?;
    let value = nested(&row.values, column).filter(|value| chat::ends_with_answer(value))?;
    Some(chat::messages(&value).ok()?.pop()?.content)
}

/// The text of a system message: of a column, or of the message or the part that it holds, alone in a list or not.
pub(super) fn system_of(row: &Row, name: &str) -> Option<String> {
    let value = nested(&row.values, name)?;
    let mut value = &*value;
    while let Value::Array(items) = value {
        let [one] = &items[..] else { return None };
        value = one;
    }
    let is_other = chat::sender(value).is_some() && !chat::is_system(value);
    let content = ["content", "text"].iter().find_map(|key| value.get(key)).unwrap_or(value);
    let text = chat::text(content).ok().filter(|_| !is_other)?.trim().to_owned();
    Some(text).filter(|text| !text.is_empty())
}

/// Whether a row's chat ends with a turn of the assistant.
fn ends_answered(row: &Row, column: &str) -> bool {
    nested(&row.values, column).is_some_and(|chat| chat::ends_with_answer(&chat))
}

/// Whether a column holds something in some row.
fn is_used(rows: &[Row], name: &str) -> bool {
    let value = |row: &Row| nested(&row.values, name).is_some_and(|value| !value.is_null());
    rows.iter().any(value)
}

/// The same where empty texts and lists are nothing.
pub(super) fn is_filled(rows: &[Row], name: &str) -> bool {
    rows.iter().any(|row| nested(&row.values, name).is_some_and(|value| !is_empty(&value)))
}
