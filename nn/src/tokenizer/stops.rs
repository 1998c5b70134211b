//! What ends a turn: the one set of tokens at which a model's completions stop.

use std::fmt;

use tealight_core::Message;
use tokenizers::Encoding;

use super::HubTokenizer;
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

impl HubTokenizer {
    /// The ids of a prompt without a token that ends a completion, where the tokenizer appends one: after it a model
    /// writes another text, and no answer. One that the text itself ends with stays, and one that stands for no text.
    pub(super) fn without_end<'e>(&self, prompt: &'e Encoding) -> &'e [u32] {
        let (ids, is_appended) = (prompt.get_ids(), prompt.get_special_tokens_mask());
        let is_end = |at: &usize| is_appended[*at] == 1 && self.eos.contains(&ids[*at]);
        match (0..ids.len()).rev().find(|at| !is_end(at)) {
            Some(last) if is_appended.contains(&0) => &ids[..=last],
            _ => ids,
        }
    }

    /// The token that ends a completion and that the tokenizer appends to every text, which prompts are given without.
    pub fn appended_end(&self) -> Option<String> {
        let whole = self.encoding("1", true).ok()?;
        let first = whole.get_ids().get(self.without_end(&whole).len())?;
        self.parts.inner.id_to_token(*first)
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

#[cfg(test)]
mod tests {
    use super::super::Tokenizer;
    use super::super::tests::{beside_embedded, embedded};
    use super::*;
    use tealight_core::Prompt;

    #[test]
    fn an_end_that_the_tokenizer_appends_is_no_part_of_a_prompt() {
        let mut whole = embedded();
        let token = |name: &str| serde_json::json!({"SpecialToken": {"id": name, "type_id": 0}});
        let text = serde_json::json!({"Sequence": {"id": "A", "type_id": 0}});
        let special =
            |name: &str, id: u32| serde_json::json!({"id": name, "ids": [id], "tokens": [name]});
        let [pad, eos] = ["<pad>", "<eos>"].map(token);
        for (single, before, appended) in [
            (vec![text.clone(), eos.clone()], None, true),
            (vec![pad.clone(), text.clone(), eos.clone(), eos.clone()], Some(0), true),
            (vec![pad.clone(), text.clone()], Some(0), false),
            // It begins texts, as that of GPT-2 does.
            (vec![eos, text.clone()], Some(1), false),
            (vec![text.clone()], None, false),
        ] {
            whole["post_processor"] = serde_json::json!({
                "type": "TemplateProcessing", "single": single, "pair": [text, text],
                "special_tokens": {"<eos>": special("<eos>", 1), "<pad>": special("<pad>", 0)},
            });
            let config =
                ("tokenizer_config.json", r#"{"eos_token": "<eos>", "pad_token": "<pad>"}"#);
            let folder = beside_embedded(&[("tokenizer.json", &whole.to_string()), config]);
            let tokenizer = HubTokenizer::load(folder.path()).unwrap();
            assert_eq!(tokenizer.appended_end().as_deref(), appended.then_some("<eos>"));
            for (asked, ids) in [("1+1", vec![4, 13, 4]), ("1<eos>", vec![4, 1])] {
                let expected: Vec<u32> = before.into_iter().chain(ids).collect();
                let prompt = Prompt::Text(asked.into());
                let ids = tokenizer.encode_prompt(&prompt).unwrap();
                assert_eq!(ids, expected, "{single:?} {asked}");
            }
            assert_eq!(tokenizer.encode_completion("1").unwrap(), [4]);
            let empty = tokenizer.encode_prompt(&Prompt::Text(String::new())).unwrap();
            assert_eq!(empty.len(), single.len() - 1, "{single:?}");
        }
    }
}
