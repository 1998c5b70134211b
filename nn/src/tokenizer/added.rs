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
    /// Whether its marks (`lstrip`, `special`, ...) take the place of the tokenizer's own.
    has_marks: bool,
}

impl Named {
    /// A token that has a role, and no id.
    fn special(token: AddedToken, is_new: bool) -> Self {
        Self { token, id: None, is_new, has_marks: false }
    }
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
                special.extend(tokens.map(|token| Named::special(token, true)));
            }
            let own = file.as_object().into_iter().flatten();
            let own = own.filter(|(name, _)| name.ends_with("_token"));
            let own = own.filter_map(|(_, value)| token(value, true));
            special.extend(own.map(|token| Named::special(token, false)));
        }
        let is_special = |text: &str| special.iter().any(|named| named.token.content == text);
        let mut by_id: BTreeMap<u32, Named> = BTreeMap::new();
        let mut insert = |id: u32, token: AddedToken, has_marks: bool| {
            by_id.insert(id, Named { token, id: Some(id), is_new: true, has_marks });
        };
        for (text, id) in old.as_object().into_iter().flatten() {
            // A token that is not special is looked for in the normalised text.
            let token = token(&text.as_str().into(), is_special(text));
            if let (Some(id), Some(token)) = (id.as_u64().and_then(|id| id.try_into().ok()), token)
            {
                insert(id, token, false);
            }
        }
        for (id, value) in config["added_tokens_decoder"].as_object().into_iter().flatten() {
            if let (Ok(id), Some(mut token)) = (id.parse(), token(value, false)) {
                token.special |= is_special(&token.content);
                insert(id, token, true);
            }
        }
        let mut named: Vec<Named> = by_id.into_values().collect();
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

/// Adds what a tokenizer lacks, or has with other marks; whether there was something. The ids are its own.
pub(super) fn add(tokenizer: &mut tokenizers::Tokenizer, named: &[Named]) -> Result<bool> {
    let mut has_added = false;
    for Named { token, id, is_new, has_marks } in named {
        let known = tokenizer.get_added_tokens_decoder();
        let own = known.values().find(|other| other.content == token.content);
        let is_lacking = *is_new || tokenizer.token_to_id(&token.content).is_some();
        if own.map_or(!is_lacking, |own| !has_marks || own == token) {
            continue;
        }
        let added = match token.special {
            true => tokenizer.add_special_tokens([token.clone()]),
            false => tokenizer.add_tokens([token.clone()]),
        };
        added.map_err(|error| anyhow!("token `{}`: {error}", token.content))?;
        let now = tokenizer.token_to_id(&token.content);
        if let Some(id) = id.filter(|id| own.is_none() && now != Some(*id)) {
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

    #[test]
    fn ids_are_those_of_tokenizer_json_and_marks_those_of_the_file_beside_it() {
        let plain = with("added_tokens.json", "{}").unwrap();
        for text in [
            r#"{"added_tokens_decoder": {"7": {"content": "<eos>", "special": true}}}"#,
            r#"{"eos_token": "<eos>", "added_tokens_decoder": {"1": {"content": "<eos>"}}}"#,
            r#"{"added_tokens_decoder": {"x": {"content": "<go>"}, "-1": {"content": "<go>"}, "40": 3}}"#,
            r#"{"added_tokens_decoder": []}"#,
            r#"{"added_tokens_decoder": null, "extra_special_tokens": {"a": 3}}"#,
            r#"{"eos_token": null, "additional_special_tokens": [""]}"#,
            "{}",
        ] {
            let tokenizer = with(CONFIG, text).unwrap_or_else(|error| panic!("{text}: {error:#}"));
            assert_eq!(tokenizer.id_end(), plain.id_end(), "{text}");
            let text = "1 <eos><go>";
            let ids = |one: &HubTokenizer| one.encode_completion(text).unwrap();
            assert_eq!(ids(&tokenizer), ids(&plain), "{text}");
        }
        // As in transformers 5.24.
        let text = r#"{"added_tokens_decoder": {"1": {"content": "<eos>", "lstrip": true}}}"#;
        let marked = with(CONFIG, text).unwrap();
        assert_eq!(plain.encode_completion("1 <eos>").unwrap(), [4, 2, 1]);
        assert_eq!(marked.encode_completion("1 <eos>").unwrap(), [4, 1]);
        assert!(marked.with_added_tokens().unwrap().is_some());
        // The id of another token, and one that leaves a gap, are the tokenizer's to give.
        for id in [3, 500] {
            let text = format!(r#"{{"added_tokens_decoder": {{"{id}": {{"content": "<go>"}}}}}}"#);
            let message = format!("{:#}", with(CONFIG, &text).err().expect("refused"));
            assert!(
                message.contains(&format!("`<go>` is {id} by the files beside it")),
                "{message}"
            );
        }
        for (file, text) in [(CONFIG, "{"), (CONFIG, ""), (TOKENS, "\u{feff}x"), (FILE, "<html>")] {
            let message = format!("{:#}", with(file, text).err().expect("refused"));
            assert!(message.contains(file) && message.contains("not JSON"), "{message}");
        }
    }
}
