//! A problem and its solution as the tokens that supervised fine-tuning imitates.

use anyhow::{Result, bail};
use tealight_core::{Chat, Message, Prompt};

use super::{HubTokenizer, honoured};

/// The tokens of a prompt, and those of the completion that is imitated, which ends with a stop token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Example {
    /// Token ids of the prompt.
    pub prompt: Vec<u32>,
    /// Token ids of the completion, the stop token last.
    pub completion: Vec<u32>,
}

impl HubTokenizer {
    /// The tokens of a prompt with its solution. Prompt and solution are tokenized as one text, as the model will read
    /// them, and cut where the prompt's text ends: a token that reaches beyond the prompt belongs to the completion. So
    /// the completion's first token is the one that follows the prompt in a text, without the blank that some
    /// tokenizers put before every text of its own.
    ///
    /// A chat's completion is what the chat template writes for the turn, up to the token that ends it: for `reply`,
    /// where the turn has more than the text of the solution.
    ///
    /// # Errors
    /// A template that fails or leaves out a part of the turn, a text that cannot be tokenized.
    pub fn encode_example(
        &self,
        prompt: &Prompt,
        solution: &str,
        reply: Option<&Message>,
    ) -> Result<Example> {
        let start = self.render(prompt)?;
        reply.map_or(Ok(()), |reply| self.check_message(reply))?;
        let chat = match (prompt, &self.template) {
            (Prompt::Chat(chat), Some(_)) => Some(chat),
            _ => None,
        };
        let (text, end) = match chat {
            Some(chat) => {
                let turn = Message::new("assistant", solution);
                self.whole_turn(chat, &start, reply.unwrap_or(&turn))?
            }
            None => (format!("{start}{solution}"), None),
        };
        let encoding = self.encoding(&text, chat.is_none())?;
        let Some(cut) = encoding.get_offsets().iter().position(|(_, end)| *end > start.len())
        else {
            bail!("the solution has no token");
        };
        let (before, after) = encoding.get_ids().split_at(cut);
        let mut completion = after.to_vec();
        let end = end.unwrap_or_else(|| self.end_of_text());
        // Where text of special tokens is split, the end of a template's turn stands there in pieces.
        let is_split = chat.is_some() && self.parts.inner.get_encode_special_tokens();
        if completion.last() != Some(&end) && !is_split {
            completion.push(end);
        }
        Ok(Example { prompt: before.to_vec(), completion })
    }

    /// A chat with its answer, cut after the token that ends the turn, and that token. `start` is the chat up to the
    /// answer.
    fn whole_turn(
        &self,
        chat: &Chat,
        start: &str,
        turn: &Message,
    ) -> Result<(String, Option<u32>)> {
        let (end, solution) = (self.turn_end.as_ref(), turn.content.as_str());
        if let Some(template) = &self.template {
            let mut chat = self.told(chat);
            match chat.last_mut().filter(|last| last.role == "assistant") {
                // The solution goes on from what the prompt begins.
                Some(last) => {
                    last.content.push_str(solution);
                    last.more.extend(turn.more.clone());
                }
                None => chat.push(turn.clone()),
            }
            let whole = template.render(&chat, false)?;
            let has_more = honoured::keys_with_content(turn).next().is_some();
            let answer = whole.strip_prefix(start).and_then(|rest| {
                let text = solution.trim();
                let at = if text.is_empty() { 0 } else { rest.rfind(text)? + text.len() };
                // Calls of tools follow the text.
                let at = match end.filter(|_| has_more) {
                    Some(end) => rest.rfind(end.text.trim_start())?.max(at),
                    None => at,
                };
                match end {
                    None => Some(&rest[..rest.trim_end().len().max(at)]),
                    Some(end) => {
                        let token = end.text.trim_start();
                        Some(&rest[..at + rest[at..].find(token)? + token.len()])
                    }
                }
            });
            let is_left_out = |key: &&str| {
                let text = turn.more[*key].as_str().map(str::trim);
                answer.is_none_or(|answer| text.is_some_and(|text| !answer.contains(text)))
            };
            if let Some(key) = honoured::keys_with_content(turn).find(is_left_out) {
                bail!(
                    "the model's chat template leaves `{key}` out of the turn that is learned: give another template \
                       with --chat-template"
                );
            }
            if let Some(answer) = answer {
                return Ok((format!("{start}{answer}"), end.map(|end| end.id)));
            }
        }
        // Templates that begin a thought for the model, or take one out of an answer, write another text for a turn
        // that is over than they begin for one that is to come.
        let close = end.map_or("", |end| &end.text);
        Ok((format!("{start}{solution}{close}"), end.map(|end| end.id)))
    }
}
