//! What `sft` learns of a row: turns of its conversation, or the text of a solution.

use serde_json::Value;

use super::gold_value::{Gold, comes_to, has_mark, plain};
use super::known_columns::{SOLUTIONS, list};
use super::layout::{AnswerColumn, Layout, is_filled, last_turn};
use super::problem::named;
use super::{Columns, Purpose, Row, chat, judgement, names, nested};
use tealight_core::Message;

/// How the names of columns with worked solutions end, the most certain first; a number may follow.
const WORKED: [&str; 14] = list(
    "solution|answer|response|output|completion|generation|attempt|rationale|explanation|cot|reasoning|thinking|\
    thought|trajectory",
);
/// Words by which a worked text is longer than the gold answer, at least, where it marks no answer.
const MORE_WORDS: usize = 3;
/// Rows whose texts are compared with the gold answer, at most.
const COMPARED: usize = 100;

/// The messages of a conversation, and the places of those that are learned.
type TrainedTurns = (Vec<Message>, Vec<usize>);

impl Layout {
    /// The messages, and the places of those that `sft` learns, where a row says which: those that are not marked
    /// otherwise. None where it leaves it to the layout, which learns the last one.
    pub(super) fn trained_turns(
        &self,
        row: &Row,
        columns: &Columns,
    ) -> Result<Option<TrainedTurns>, String> {
        if columns.purpose == Purpose::Judge {
            return Ok(None);
        }
        if let AnswerColumn::Exact(column) | AnswerColumn::Worked(column) = &self.answer
            && let Some(value) = nested(&row.values, column)
            && let Some(turn) = chat::solution(&value)
        {
            let is_trained = turn.map_err(|what| named(&what, column))?.1 != Some(false);
            return Ok(if is_trained { None } else { Some(Default::default()) });
        }
        let column = self.question.column().filter(|_| self.question.is_conversation());
        let value = column.and_then(|column| nested(&row.values, column));
        let Some(value) = value.filter(|value| chat::is_chat(value)) else { return Ok(None) };
        let turns = chat::turns(&value)?;
        if turns.iter().all(|(_, mark)| mark.is_none()) {
            return Ok(None);
        }
        let is_trained =
            |(message, mark): &chat::Turn| message.role == "assistant" && *mark != Some(false);
        let places = turns.iter().enumerate().filter(|(_, turn)| is_trained(turn));
        let places = places.map(|(place, _)| place).collect();
        Ok(Some((turns.into_iter().map(|(message, _)| message).collect(), places)))
    }

    /// The worked solution of a row: the text that is imitated, and shown in worked examples; and the turn that it is
    /// of, where it is one.
    pub(super) fn solution(
        &self,
        row: &Row,
        last_turn: Option<Message>,
        raw: &str,
        purpose: Purpose,
    ) -> (String, Option<Message>) {
        let turn_of = |value: &Value| Some(chat::solution(value)?.ok()?.0);
        let written = |name: &&str| {
            let value = row.values.get(*name)?;
            let turn = turn_of(value).or_else(|| Some(Message::new("assistant", plain(value)?)));
            turn.filter(|turn| !turn.content.trim().is_empty() || !turn.more.is_empty())
        };
        let turn = match &self.answer {
            AnswerColumn::Worked(column) => {
                nested(&row.values, column).and_then(|value| turn_of(&value))
            }
            _ => last_turn.or_else(|| {
                self.solution.as_deref().into_iter().chain(SOLUTIONS).find_map(|it| written(&it))
            }),
        };
        // Neither null nor a list is a text to imitate.
        let text = || nested(&row.values, self.answer.column()?).and_then(|value| plain(&value));
        match turn {
            None if purpose == Purpose::Imitate => (text().unwrap_or_default(), None),
            None => (raw.to_owned(), None),
            Some(turn) => (turn.content.clone(), Some(turn)),
        }
    }

    /// The column of worked solutions beside one of gold answers: a listed one, else a text of several words, or with a
    /// mark, that comes to the gold answer in most rows.
    pub(super) fn solution_beside(&self, rows: &[Row], columns: &Columns) -> Option<String> {
        let AnswerColumn::Exact(answer) = &self.answer else { return None };
        let listed = SOLUTIONS.into_iter().find(|name| is_filled(rows, name));
        if let Some(name) = listed {
            return Some(name.into());
        }
        let rank = |name: &&String| {
            let words = names::words(name).concat();
            let end = words.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('s');
            let is_other = *name == answer || end.contains("reject");
            WORKED.iter().position(|known| !is_other && end.ends_with(known))
        };
        let agrees = |row: &Row, name: &str| {
            let text = row.text(name).filter(|text| !text.trim().is_empty())?;
            let choices = self.choices.as_ref().and_then(|layout| layout.columns.choices(row));
            let (gold, _) = self.gold(row, choices.as_ref(), None, columns).ok()?;
            let Gold::Answer(gold) = gold else { return None };
            let words = |text: &str| text.split_whitespace().count();
            let is_worked = has_mark(text) || words(text) >= words(&gold) + MORE_WORDS;
            // A list holds several attempts.
            Some(is_worked && !text.starts_with('[') && comes_to(text, &gold))
        };
        let is_worked = |name: &&String| {
            let all: Vec<bool> =
                rows.iter().filter_map(|row| agrees(row, name)).take(COMPARED).collect();
            all.iter().filter(|agrees| **agrees).count() * 2 > all.len()
        };
        let mut names: Vec<_> =
            rows.first()?.values.keys().filter(|it| rank(it).is_some()).collect();
        names.sort_by_key(rank);
        names.into_iter().find(is_worked).cloned()
    }

    /// The worked solution beside a row's gold answer, and the column that it stands in.
    pub(super) fn text_beside(&self, row: &Row) -> Option<(String, &str)> {
        let of_column = || {
            let name = self.solution.as_deref()?;
            let value = row.values.get(name)?;
            let turn = chat::solution(value).and_then(Result::ok).map(|(turn, _)| turn.content);
            Some((turn.or_else(|| plain(value))?, name))
        };
        let turn = last_turn(row, &self.question);
        turn.zip(self.question.column()).or_else(of_column)
    }

    /// Whether a row says that its worked solution is incorrect.
    pub(super) fn is_incorrect(&self, row: &Row) -> bool {
        self.judgement.is_some_and(|column| judgement::is_against(row, column))
            || self.verdicts.iter().any(|verdict| verdict.is_against(row))
    }
}
