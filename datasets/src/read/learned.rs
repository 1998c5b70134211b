//! What `sft` learns of a row: turns of its conversation, or the text of a solution.

use serde_json::Value;

use super::gold_value::plain;
use super::known_columns::SOLUTIONS;
use super::layout::{AnswerColumn, Layout};
use super::problem::named;
use super::{Columns, Purpose, Row, chat, nested};
use tealight_core::Message;

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
            _ => last_turn.or_else(|| SOLUTIONS.iter().find_map(written)),
        };
        // Neither null nor a list is a text to imitate.
        let text = || nested(&row.values, self.answer.column()?).and_then(|value| plain(&value));
        match turn {
            None if purpose == Purpose::Imitate => (text().unwrap_or_default(), None),
            None => (raw.to_owned(), None),
            Some(turn) => (turn.content.clone(), Some(turn)),
        }
    }
}
