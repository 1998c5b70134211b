//! A problem and its solution as the tokens that supervised fine-tuning imitates.

use anyhow::{Result, bail};
use tealight_core::{Chat, Message, Prompt};

use super::template::ChatTemplate;
use super::{HubTokenizer, Tokenizer, honoured};

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
    /// A chat is rendered as a whole, up to the token that ends its last turn, which is `reply` or the solution. The
    /// prompt is what the whole shares with the chat that asks for this turn: a template that begins a thought for the
    /// next turn may write none, or another one, in a turn that is over.
    ///
    /// # Errors
    /// A template that fails or leaves out a part of the turn, a text that cannot be tokenized.
    pub fn encode_example(
        &self,
        prompt: &Prompt,
        solution: &str,
        reply: Option<&Message>,
    ) -> Result<Example> {
        let templated = match (prompt, &self.template) {
            (Prompt::Chat(chat), Some(template)) => Some((chat, template)),
            _ => None,
        };
        reply.map_or(Ok(()), |reply| self.check_message(reply))?;
        let (text, start) = match templated {
            Some((chat, template)) => self.whole_chat(template, chat, solution, reply)?,
            None => {
                let start = self.render(prompt)?;
                (format!("{start}{solution}"), start.len())
            }
        };
        let encoding = self.encoding(&text, templated.is_none())?;
        let Some(cut) = encoding.get_offsets().iter().position(|(_, end)| *end > start) else {
            bail!("the solution has no token");
        };
        let (before, after) = encoding.get_ids().split_at(cut);
        let mut completion = after.to_vec();
        let end = if templated.is_some() { self.turn_end() } else { self.end_of_text() };
        // Where text of special tokens is split, the end of a template's turn stands there in pieces.
        let is_split = templated.is_some() && self.parts.inner.get_encode_special_tokens();
        if completion.last() != Some(&end) && !is_split {
            completion.push(end);
        }
        Ok(Example { prompt: before.to_vec(), completion })
    }

    /// A chat with the turn that is learned, cut after the token that ends the turn, and the bytes of it that are the
    /// prompt.
    pub(super) fn whole_chat(
        &self,
        template: &ChatTemplate,
        chat: &Chat,
        solution: &str,
        reply: Option<&Message>,
    ) -> Result<(String, usize)> {
        self.check_honoured(chat)?;
        let mut whole = self.told(chat);
        let turn = reply.cloned().unwrap_or_else(|| Message::new("assistant", solution));
        // A text goes on from what the prompt begins.
        let goes_on = reply.is_none() && whole.last().is_some_and(|last| last.role == "assistant");
        let start = if goes_on { template.prompt(&whole) } else { template.render(&whole, true) }?;
        match whole.last_mut().filter(|_| goes_on) {
            Some(last) => last.content.push_str(solution),
            None => whole.push(turn.clone()),
        }
        let mut text = template.render(&whole, false)?;
        let pairs = start.chars().zip(text.chars()).take_while(|(one, other)| one == other);
        let shared = pairs.map(|(one, _)| one.len_utf8()).sum();
        if shared < start.len() {
            self.refuse_learned_question(template, chat, shared)?;
        }
        let rest = &text[shared..];
        let token = self.turn_end.as_ref().map(|end| end.text.trim_start());
        let end = token.and_then(|token| Some(rest.rfind(token)? + token.len()));
        text.truncate(shared + end.unwrap_or(rest.trim_end().len()));
        let learned = &text[shared..];
        // A template may leave out a thought that is over, as the model's authors had it.
        let answer = honoured::after_thought(&turn.content);
        let is_left_out = |key: &&str| {
            turn.more[*key].as_str().is_some_and(|text| !learned.contains(text.trim()))
        };
        let key = honoured::keys_with_content(&turn).find(is_left_out);
        if let Some(key) = key.or(Some("content").filter(|_| !honoured::holds(learned, answer))) {
            bail!(
                "the model's chat template leaves `{key}` out of the turn that is learned: give another template with \
                 --chat-template"
            );
        }
        Ok((text, shared))
    }

    /// Refuses a template that writes what is asked in another way before the turn that answers it, from `shared` on.
    fn refuse_learned_question(
        &self,
        template: &ChatTemplate,
        chat: &Chat,
        shared: usize,
    ) -> Result<()> {
        let mut asked = self.told(chat);
        while asked.last().is_some_and(|last| last.role == "assistant") {
            asked.pop();
        }
        let question = asked.last().map_or("", |last| last.content.trim()).to_owned();
        let text = template.render(&asked, false)?;
        match text.rfind(&question) {
            Some(at) if !question.is_empty() && at + question.len() > shared => bail!(
                "the model's chat template writes the question in another way before an answer than where it asks for \
                 one, so that a part of the question would be learned: give another template with --chat-template"
            ),
            _ => Ok(()),
        }
    }
}
