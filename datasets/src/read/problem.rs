//! One row, read by the layout of its file, to a problem, or to the reason why it is left out.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use super::choice_columns::is_empty;
use super::choices::Choices;
use super::gold_value::{self, Gold, one_line, plain};
use super::layout::{AnswerColumn, Layout, QuestionColumns, system_of};
use super::{Columns, Purpose, Row, chat, judgement, nested, pictures, variables};
use crate::verify::{math, short};
use crate::{Problem, Unusable, judge};
use tealight_core::{Message, Prompt};

/// Why a question without its picture is left out.
const NEEDS_PICTURE: &str = "the question needs a picture, video or sound";
/// Why a row is left out that has nothing to imitate.
const NO_SOLUTION: &str = "there is no solution";
/// The same of a chat whose answer would be its last turn.
const NO_LAST_TURN: &str =
    "the chat does not end with a turn of the assistant, or its thought is not closed";
/// What a row is.
pub(super) enum Read {
    Problem(Box<Problem>),
    LeftOut(Unusable),
}

/// The prompt in a column: its text, its chat, or several columns joined by blanks.
/// None where it holds nothing.
pub(super) fn prompt_of(row: &Row, column: &str) -> Result<Option<Prompt>, String> {
    match nested(&row.values, column) {
        Some(value) if chat::is_chat(&value) => chat::messages(&value).map(Prompt::chat).map(Some),
        _ => {
            let parts = column.split(',').map(|part| question(row, part));
            let texts: Option<Vec<String>> = parts.collect::<Result<_, _>>()?;
            Ok(texts.map(|texts| Prompt::question(&texts.join(" "))))
        }
    }
}

/// The text of a question; none where that is empty.
fn question(row: &Row, column: &str) -> Result<Option<String>, String> {
    let value = nested(&row.values, column)
        .ok_or_else(|| format!("no column `{column}` in this row; there is: {}", row.names()))?;
    if is_empty(&value) {
        return Ok(None);
    }
    let text = plain(&value).ok_or_else(|| {
        let shown = short(&value.to_string());
        let is_asked = |value: &Value| plain(value).is_some() || chat::is_chat(value);
        let usual = ["question", "problem", "prompt", "text", "content", "messages"];
        let fields = value.as_object();
        let has =
            |name: &&str| fields.is_some_and(|fields| fields.get(*name).is_some_and(is_asked));
        let first = fields.and_then(|all| all.iter().find(|(_, value)| is_asked(value)));
        let inner = usual.into_iter().find(has).or(first.map(|(name, _)| name.as_str()));
        let mend = match inner {
            Some(inner) => format!("name what it holds, such as --prompt-column {column}.{inner}"),
            None if value.is_array() => {
                format!(
                    "write it with --prompt-template, such as '{{{{ {column} | join(\" \") }}}}'"
                )
            }
            None => "write it with --prompt-template".into(),
        };
        format!("column `{column}` should hold text or chat messages, not {shown}; {mend}")
    })?;
    if ["[{'role':", "[{'from':", "[{'content':"].iter().any(|start| text.starts_with(start)) {
        return Err(format!(
            "column `{column}` holds a chat as Python prints it: write it as JSON"
        ));
    }
    Ok(Some(text))
}

impl Layout {
    /// Reads a row: several problems where several turns of a conversation are trained.
    pub(super) fn read(&self, row: &Row, columns: &Columns) -> Result<Vec<Read>, String> {
        if let Some(why) = self.unreadable(row) {
            let (id, answer) = (row.id(), String::new());
            return Ok(vec![Read::LeftOut(Unusable { id, answer, why })]);
        }
        let Some((messages, trained)) = self.trained_turns(row, columns)? else {
            return Ok(vec![self.read_turn(row, None, columns)?]);
        };
        if trained.is_empty() {
            let why = "no turn of the assistant is trained (its weight is 0, or train is false)";
            let (id, answer) = (row.id(), String::new());
            return Ok(vec![Read::LeftOut(Unusable { id, answer, why: why.into() })]);
        }
        let is_one = trained.len() == 1;
        let read = |turn: usize| {
            Ok(match self.read_turn(row, Some(&messages[..=turn]), columns)? {
                Read::Problem(mut problem) if !is_one => {
                    problem.id = format!("{}#{}", problem.id, turn + 1);
                    Read::Problem(problem)
                }
                read => read,
            })
        };
        trained.into_iter().map(read).collect()
    }

    /// Why the chats of a row are not to be read: a message may hold a picture alone, or nothing.
    fn unreadable(&self, row: &Row) -> Option<String> {
        let column = |name: &str| nested(&row.values, name);
        if self.question.column().and_then(column).is_some_and(|asked| pictures::is_in_chat(&asked))
        {
            return Some(NEEDS_PICTURE.into());
        }
        [self.question.column(), self.answer.column()].into_iter().flatten().find_map(|name| {
            let role = chat::without_text(&*column(name)?)?;
            Some(format!("a turn of the {role} in column `{name}` has no text"))
        })
    }

    /// Reads a row; of its conversation the turns up to the one that is learned, where these are given.
    fn read_turn(
        &self,
        row: &Row,
        learned: Option<&[Message]>,
        columns: &Columns,
    ) -> Result<Read, String> {
        let choices = self.choices.as_ref().and_then(|layout| layout.columns.choices(row));
        let left_out =
            |answer: String, why: String| Ok(Read::LeftOut(Unusable { id: row.id(), answer, why }));
        if let (Some(choices), Some(of), Some(column)) =
            (&choices, &self.choices, self.question.column())
            && prompt_of(row, column)?.is_some_and(|asked| choices.are_reordered(&asked.plain()))
        {
            let key = nested(&row.values, &of.key).and_then(|key| plain(&key));
            return left_out(key.unwrap_or_default(), of.other_order(column));
        }
        let asked = self.prompt(row, choices.as_ref(), learned, columns)?;
        let Some((mut prompt, last_turn)) = asked else {
            let column = self.question.column().unwrap_or_default();
            let why = format!(
                "there is no question in column `{column}`; --prompt-column names another column"
            );
            return left_out(String::new(), why);
        };
        if let Prompt::Chat(chat) = &mut prompt {
            chat.variables = variables::of_row(row)?;
        }
        let text = last_turn.as_ref().map(|turn| turn.content.as_str());
        let (gold, raw) = self.gold(row, choices.as_ref(), text, columns)?;
        if let (None, Some(of)) = (&choices, &self.choices)
            && of.lacks_choices(&raw.as_str().into(), &prompt.plain())
        {
            let why = "the answer says which choice is right, and the row has no choices";
            return left_out(one_line(&raw), why.into());
        }
        if let Some(picture) = pictures::column(row) {
            return left_out(one_line(&raw), format!("{NEEDS_PICTURE} (column `{picture}`)"));
        }
        if columns.purpose == Purpose::Judge && pictures::is_shown(&prompt.plain()) {
            return left_out(one_line(&raw), NEEDS_PICTURE.into());
        }
        if let Some(why) = judgement::known_error(row) {
            return left_out(one_line(&raw), why);
        }
        if let Some(why) = self.judged_incorrect(row) {
            return left_out(one_line(&raw), why);
        }
        let (solution, reply) = self.solution(row, last_turn, &raw, columns.purpose);
        // A turn after another one of the assistant's does not go on with it.
        let follows = prompt.prefill().is_some();
        let reply = reply.filter(|turn| follows || !turn.more.is_empty());
        let has_more = reply.as_ref().is_some_and(|turn| !turn.more.is_empty());
        if columns.purpose == Purpose::Imitate && solution.trim().is_empty() && !has_more {
            let is_list = raw.trim_start().starts_with('[');
            let why = match gold {
                _ if is_list => "the solution is a list, and no text",
                Gold::Missing { why: NO_LAST_TURN, .. } => NO_LAST_TURN,
                _ => NO_SOLUTION,
            };
            return left_out(one_line(&raw), why.into());
        }
        let answer = match (gold, columns.purpose) {
            // Solutions that are imitated need no answer that can be compared.
            (Gold::Answer(text), _) | (Gold::Missing { text, .. }, Purpose::Imitate) => text,
            (Gold::Missing { text, why }, Purpose::Judge) => return left_out(text, why.into()),
        };
        if let (Prompt::Chat(messages), Purpose::Judge) = (&prompt, columns.purpose)
            && self.answer != AnswerColumn::Absent
        {
            refuse_told_answer(messages, &answer)?;
        }
        let problem = Problem::new(row.id(), prompt, answer);
        let row = columns.are_read().then(|| Arc::new(row.values.clone()));
        let solution = Some(solution).filter(|_| self.answer != AnswerColumn::Absent);
        let has_choices = choices.is_some();
        Ok(Read::Problem(Box::new(Problem {
            solution,
            reply,
            columns: row,
            has_choices,
            ..problem
        })))
    }

    /// Which column says that the solution is incorrect.
    fn judged_incorrect(&self, row: &Row) -> Option<String> {
        let mend = |name| format!("; --answer-column {name} reads it all the same");
        let mend = self.answer.column().map(mend).unwrap_or_default();
        let column = self.judgement.filter(|column| judgement::is_against(row, column));
        let column = column.map(|column| (column, &*mend));
        let verdict = self.verdicts.iter().find(|verdict| verdict.is_against(row));
        let (column, mend) = column.or(verdict.map(|verdict| (&*verdict.column, "")))?;
        Some(format!("column `{column}` says that the solution is incorrect{mend}"))
    }

    /// What is asked, and the last turn of a conversation where that is the answer; none where nothing is asked.
    fn prompt(
        &self,
        row: &Row,
        choices: Option<&Choices>,
        learned: Option<&[Message]>,
        columns: &Columns,
    ) -> Result<Option<(Prompt, Option<Message>)>, String> {
        if let Some(template) = &columns.prompting.template {
            return Ok(Some((Prompt::question(&template.render(&row.values)?), None)));
        }
        let column = self.question.column().unwrap_or_default();
        let asked = match learned {
            Some(turns) => Some(Prompt::chat(turns.iter().cloned())),
            None => prompt_of(row, column)?,
        };
        let Some(mut prompt) = asked else { return Ok(None) };
        let mut last_turn = None;
        if let Prompt::Chat(messages) = &mut prompt {
            let is_answer = |turn: &Message| {
                turn.role == "assistant"
                    && (learned.is_some() || !chat::opens_thought(&turn.content))
            };
            if self.question.is_conversation() && messages.last().is_some_and(is_answer) {
                last_turn = messages.pop();
            }
            let is_asked = |turn: &Message| turn.role == "user" && !turn.content.trim().is_empty();
            if !messages.iter().any(is_asked) {
                return Ok(None);
            }
        }
        if let QuestionColumns::Found { context, system, has_input, .. } = &self.question {
            if let Prompt::Chat(messages) = &mut prompt {
                let at = messages.iter().take_while(|turn| turn.role == "system").count();
                messages.splice(at..at, variables::history(row));
            }
            let text = |name: &str| {
                let text = row.values.get(name).and_then(plain)?.trim().to_owned();
                Some(text).filter(|text| !text.is_empty())
            };
            if let Some(input) = Some("input").filter(|_| *has_input).and_then(text) {
                edit(&mut prompt, |asked| format!("{asked}\n\n{input}"));
            }
            if let Some((name, context)) =
                context.as_deref().and_then(|name| Some((name, text(name)?)))
            {
                // A body is the beginning of the question, a passage stands apart from it.
                let gap = if name.eq_ignore_ascii_case("body") { " " } else { "\n\n" };
                let is_there = |asked: &str| context.contains(' ') && asked.contains(&context);
                edit(&mut prompt, |asked| match is_there(asked) {
                    true => asked.to_owned(),
                    false => format!("{context}{gap}{asked}"),
                });
            }
            if let Some(system) = system.as_deref().and_then(|name| system_of(row, name)) {
                if let Prompt::Chat(messages) = &mut prompt {
                    messages
                        .retain(|turn| turn.role != "system" || !turn.content.trim().is_empty());
                }
                prompt.set_system(&system);
            }
        }
        if let Some(choices) = choices {
            edit(&mut prompt, |asked| format!("{asked}{}", choices.below(asked)));
        }
        Ok(Some((prompt, last_turn)))
    }

    /// The gold answer of a row, and the text that it comes from.
    pub(super) fn gold(
        &self,
        row: &Row,
        choices: Option<&Choices>,
        last_turn: Option<&str>,
        columns: &Columns,
    ) -> Result<(Gold, String), String> {
        let column = match &self.answer {
            AnswerColumn::Exact(column) | AnswerColumn::Worked(column) => column,
            AnswerColumn::Absent => return Ok((Gold::Answer(String::new()), String::new())),
            AnswerColumn::LastTurn => {
                return Ok(match last_turn {
                    Some(turn) => (gold_value::worked(turn), turn.to_owned()),
                    None => (gold_value::missing("", NO_LAST_TURN), String::new()),
                });
            }
        };
        // A key that a row lacks is null, as the tables of other programs have it.
        let value = nested(&row.values, column).unwrap_or(Cow::Owned(Value::Null));
        let value = match chat::solution(&value) {
            Some(turn) => {
                let (turn, _) = turn.map_err(|what| named(&what, column))?;
                Cow::Owned(Value::String(turn.content))
            }
            None => value,
        };
        // Search-R1's answers are the only part of an object.
        let inner = value.as_object().filter(|fields| fields.len() == 1);
        let inner = inner.and_then(|fields| fields.get("target")).filter(|it| plain(it).is_some());
        let inner = inner.cloned();
        let value = inner.map_or(value, Cow::Owned);
        // OlympiadBench says that all are asked for.
        let is_all = row.values.get("is_multiple_answer") == Some(&true.into());
        let items = value.as_array().filter(|_| is_all);
        let all: Option<Vec<String>> = items.and_then(|items| items.iter().map(plain).collect());
        let value = all.map_or(value, |all| Cow::Owned(all.join(", ").into()));
        let raw = plain(&value).unwrap_or_else(|| value.to_string());
        if columns.takes_any_gold() && choices.is_none() && !value.is_null() {
            return Ok((Gold::Answer(math::gold(&raw).into_owned()), raw));
        }
        let gold = match (&self.choices, choices, &self.answer) {
            (Some(layout), Some(choices), _) => match layout.letter(choices, &value) {
                Some(letter) => Gold::Answer(letter),
                None => {
                    let is_there = |text: String| !matches!(text.trim(), "" | "-1");
                    let why = choices.unclear(&value).unwrap_or(
                        match plain(&value).is_some_and(is_there) {
                            true => "the answer is none of the choices",
                            false => "there is no answer",
                        },
                    );
                    gold_value::missing(&raw, why)
                }
            },
            (_, _, AnswerColumn::Worked(_)) => match plain(&value) {
                Some(text) => gold_value::worked(&text),
                None => gold_value::exact(&value).map_err(|what| named(&what, column))?,
            },
            _ => {
                let gold = gold_value::exact(&value).map_err(|what| named(&what, column))?;
                let gold = with_power(gold, row.text("unit").unwrap_or_default());
                gold_value::known(gold, self.is_unknown_answer)
            }
        };
        Ok((gold, raw))
    }
}

/// A number with the power of ten that stands before its unit: SciBench's `1.65`, in `$10^4 \\mathrm{~J}$`.
fn with_power(gold: Gold, unit: &str) -> Gold {
    let power = unit.split_once("10^").map(|(_, rest)| rest.strip_prefix('{').unwrap_or(rest));
    let is_part = |c: char| c.is_ascii_digit() || c == '-';
    let power = power.map(|rest| &rest[..rest.find(|c| !is_part(c)).unwrap_or(rest.len())]);
    match (gold, power.filter(|power| power.parse::<i32>().is_ok())) {
        (Gold::Answer(text), Some(power)) if text.parse::<f64>().is_ok() => {
            Gold::Answer(format!("{text} \\times 10^{{{power}}}"))
        }
        (gold, _) => gold,
    }
}

pub(super) fn named(what: &str, column: &str) -> String {
    format!("column `{column}` {}", what.replace("NAME", column))
}

/// Changes what the user asks: the last message of the user.
fn edit(prompt: &mut Prompt, change: impl Fn(&str) -> String) {
    match prompt {
        Prompt::Text(text) => *text = change(text),
        Prompt::Chat(messages) => {
            if let Some(last) = messages.iter_mut().rfind(|message| message.role == "user") {
                last.content = change(&last.content);
            }
        }
    }
}

/// Refuses a prompt whose last turn, which the model goes on with, gives the answer.
fn refuse_told_answer(messages: &[Message], answer: &str) -> Result<(), String> {
    let Some(last) = messages.last().filter(|message| message.role == "assistant") else {
        return Ok(());
    };
    let checked = judge::check(answer, &last.content, math::Mode::Strict);
    match checked.map(|checked| checked.outcome) {
        Ok(math::Outcome::Correct) => Err(
            "the prompt ends with a turn of the assistant that gives the answer: leave the turn out, or keep the chat \
             in a column `messages`, whose last turn is taken as the answer"
                .into(),
        ),
        _ => Ok(()),
    }
}
