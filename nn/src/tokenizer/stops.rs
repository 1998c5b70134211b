//! What ends a turn: the one set of tokens at which a model's completions stop.

use std::fmt;

use tealight_core::Message;

use super::template::ChatTemplate;

/// Text in the place of an assistant's answer, after which a template ends the turn.
const ANSWER: &str = "ANSWERED_BEFORE_THE_END_OF_TURN";

/// A token that ends a completion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopToken {
    /// Token id, as the vocabulary numbers it.
    pub id: u32,
    /// Token text, such as `<|im_end|>`.
    pub text: String,
    /// What names it: files, or the chat template.
    pub sources: Vec<&'static str>,
}

impl fmt::Display for StopToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}, by {})", self.text, self.id, self.sources.join(" and "))
    }
}

/// The source of a stop token that the chat template writes.
pub(super) const BY_TEMPLATE: &str = "the chat template";
/// The source of the tokenizer's end-of-sequence token.
pub(super) const BY_TOKENIZER: &str = "eos_token";

/// Adds a stop token, or another source of one that is known.
pub(super) fn add(stops: &mut Vec<StopToken>, id: u32, text: &str, source: &'static str) {
    match stops.iter_mut().find(|stop| stop.id == id) {
        Some(stop) if stop.sources.contains(&source) => {}
        Some(stop) => stop.sources.push(source),
        None => stops.push(StopToken { id, text: text.to_owned(), sources: vec![source] }),
    }
}

/// What a chat template writes after an assistant's last turn, up to and with the token that ends the turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TurnEnd {
    /// Its text; white space may come before the token.
    pub(super) text: String,
    /// The token.
    pub(super) id: u32,
}

impl TurnEnd {
    /// Of a template; none where it writes no token of `tokens`, pairs of text and id, or refuses a plain chat. The
    /// longest token that fits is the one that a tokenizer finds.
    pub(super) fn find<'a>(
        template: &ChatTemplate,
        tokens: impl Iterator<Item = (&'a str, u32)>,
    ) -> Option<Self> {
        let chat = vec![Message::user("Question"), Message::new("assistant", ANSWER)];
        let text = template.render(&chat.into(), false).ok()?;
        let rest = &text[text.rfind(ANSWER)? + ANSWER.len()..];
        let end = rest.trim_start();
        let fits = tokens.filter(|(token, _)| !token.trim().is_empty() && end.starts_with(token));
        let (token, id) = fits.max_by_key(|(token, _)| token.len())?;
        let length = rest.len() - end.len() + token.len();
        Some(Self { text: rest[..length].to_owned(), id })
    }
}
