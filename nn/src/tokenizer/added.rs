//! Tokens that `tokenizer.json` lacks and another file of the model adds, as transformers does.

use std::collections::BTreeMap;

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use tokenizers::AddedToken;

use super::HubTokenizer;
use super::files::{CONFIG, TOKENS, TokenizerFiles};

/// Older files name tokens here, with their ids.
pub(super) const FILE: &str = "added_tokens.json";
/// Most tokens that are added.
const MAX: usize = 1 << 16;

/// A token, and its id where a file has it.
#[derive(Debug, Clone)]
pub(super) struct Named {
    token: AddedToken,
    id: Option<u32>,
    /// Whether the token is added where the tokenizer has no such text.
    is_new: bool,
}

impl TokenizerFiles {
    /// The tokens that files besides `tokenizer.json` name: those with an id first, by it.
    pub(super) fn added_tokens(&self) -> Result<Vec<Named>> {
        let (config, map, old) = (self.json(CONFIG)?, self.json(TOKENS)?, self.json(FILE)?);
        let mut special: Vec<Named> = Vec::new();
        for file in [&map, &config] {
            for key in ["extra_special_tokens", "additional_special_tokens"] {
                let values: Vec<&Value> = match &file[key] {
                    Value::Array(values) => values.iter().collect(),
                    Value::Object(values) => values.values().collect(),
                    _ => Vec::new(),
                };
                let tokens = values.into_iter().filter_map(|value| token(value, true));
                special.extend(tokens.map(|token| Named { token, id: None, is_new: true }));
            }
            let own = file.as_object().into_iter().flatten();
            let own = own.filter(|(name, _)| name.ends_with("_token"));
            let own = own.filter_map(|(_, value)| token(value, true));
            special.extend(own.map(|token| Named { token, id: None, is_new: false }));
        }
        let mut by_id: BTreeMap<u32, AddedToken> = BTreeMap::new();
        for (text, id) in old.as_object().into_iter().flatten() {
            if let Some(id) = id.as_u64().and_then(|id| u32::try_from(id).ok()) {
                // A token that is not special is looked for in the normalised text.
                let is_special = special.iter().any(|named| named.token.content == *text);
                by_id.extend(token(&text.as_str().into(), is_special).map(|token| (id, token)));
            }
        }
        for (id, value) in config["added_tokens_decoder"].as_object().into_iter().flatten() {
            if let (Ok(id), Some(token)) = (id.parse(), token(value, false)) {
                by_id.insert(id, token);
            }
        }
        let mut named: Vec<Named> = by_id
            .into_iter()
            .map(|(id, token)| Named { token, id: Some(id), is_new: true })
            .collect();
        named.extend(special);
        if named.len() > MAX {
            bail!("{}: more than {MAX} added tokens", self.folder());
        }
        Ok(named)
    }
}

/// A token as a file describes it, or its text alone.
fn token(value: &Value, is_special: bool) -> Option<AddedToken> {
    let text = value.as_str().or_else(|| value.get("content")?.as_str())?;
    let flag = |key: &str| value.get(key).and_then(Value::as_bool);
    let is_special = flag("special").unwrap_or(is_special);
    let token = AddedToken::from(text, is_special)
        .single_word(flag("single_word").unwrap_or(false))
        .lstrip(flag("lstrip").unwrap_or(false))
        .rstrip(flag("rstrip").unwrap_or(false))
        .normalized(flag("normalized").unwrap_or(!is_special));
    (!text.is_empty()).then_some(token)
}

/// Adds what a tokenizer lacks; whether there was something.
pub(super) fn add(tokenizer: &mut tokenizers::Tokenizer, named: &[Named]) -> Result<bool> {
    let mut has_added = false;
    for Named { token, id, is_new } in named {
        let known = tokenizer.get_added_tokens_decoder();
        let is_added = known.values().any(|other| other.content == token.content);
        let before = tokenizer.token_to_id(&token.content);
        if is_added || (before.is_none() && !is_new) {
            continue;
        }
        let added = match token.special {
            true => tokenizer.add_special_tokens([token.clone()]),
            false => tokenizer.add_tokens([token.clone()]),
        };
        added.map_err(|error| anyhow!("token `{}`: {error}", token.content))?;
        let now = tokenizer.token_to_id(&token.content);
        if let Some(id) = id.filter(|id| now != Some(*id)) {
            bail!(
                "token `{}` is {id} by the files beside it, and {} in the tokenizer",
                token.content,
                now.map_or("none".to_owned(), |now| now.to_string())
            );
        }
        has_added = true;
    }
    Ok(has_added)
}

impl HubTokenizer {
    /// Whether no part of a text becomes the unknown token.
    pub(super) fn knows(&self, text: &str) -> bool {
        let is_in = |id: u32| {
            self.encoding(text, false).is_ok_and(|encoding| encoding.get_ids().contains(&id))
        };
        !self.unknown_token().is_some_and(is_in)
    }

    /// `tokenizer.json` with the tokens that other files add; none where they add none.
    ///
    /// # Errors
    /// A tokenizer that cannot be written.
    pub fn with_added_tokens(&self) -> Result<Option<Value>> {
        if !self.parts.has_added {
            return Ok(None);
        }
        let text = self.parts.inner.to_string(false).map_err(|error| anyhow!("{error}"))?;
        Ok(Some(serde_json::from_str(&text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{HubTokenizer, Tokenizer};
    use super::*;

    /// The embedded tokenizer with another file beside it.
    fn with(file: &str, text: &str) -> Result<HubTokenizer> {
        let folder = tempfile::tempdir()?;
        std::fs::copy("../models/countdown/tokenizer.json", folder.path().join("tokenizer.json"))?;
        std::fs::write(folder.path().join(file), text)?;
        HubTokenizer::new(&TokenizerFiles::read(folder.path())?, (vec![1], "config.json"))
    }

    #[test]
    fn tokens_of_every_file_are_one_id() {
        let next = with("added_tokens.json", "{}").unwrap().id_end();
        for (file, text) in [
            (
                CONFIG,
                format!(
                    r#"{{"added_tokens_decoder": {{"{next}": {{"content": "<go>", "special": true}}}}}}"#
                ),
            ),
            (CONFIG, r#"{"extra_special_tokens": ["<go>"]}"#.to_owned()),
            (CONFIG, r#"{"extra_special_tokens": {"go_token": "<go>"}}"#.to_owned()),
            (TOKENS, r#"{"additional_special_tokens": [{"content": "<go>"}]}"#.to_owned()),
            (FILE, format!(r#"{{"<go>": {next}}}"#)),
        ] {
            let tokenizer = with(file, &text).unwrap();
            let ids = tokenizer.encode_completion("3<go>7").unwrap();
            assert_eq!(ids.iter().filter(|id| **id as usize == next).count(), 1, "{file} {text}");
            assert_eq!(tokenizer.id_end(), next + 1);
            assert_eq!(tokenizer.decode_all(&ids).unwrap(), "3<go>7", "{file} {text}");
            let written = tokenizer.with_added_tokens().unwrap().unwrap().to_string();
            assert!(written.contains("<go>"));
        }
        let end = format!(
            r#"{{"eos_token": "<go>", "added_tokens_decoder": {{"{next}": {{"content": "<go>"}}}}}}"#
        );
        assert!(with(CONFIG, &end).unwrap().eos().contains(&(next as u32)));
        let message = with(FILE, r#"{"<go>": 9999}"#).err().unwrap();
        assert!(format!("{message:#}").contains("`<go>` is 9999"), "{message:#}");
        assert!(with(CONFIG, "{}").unwrap().with_added_tokens().unwrap().is_none());
    }
}
