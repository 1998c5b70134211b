//! Tokens that `tokenizer.json` lacks and another file of the model adds, as transformers does.

use std::collections::{BTreeMap, HashMap, HashSet};

use anyhow::{Result, anyhow, bail};
use serde_json::Value;
use tokenizers::AddedToken;

use super::HubTokenizer;
use super::files::{CONFIG, EXTRA_TOKENS, TOKENS, TokenizerFiles};

/// Older files name tokens here, with their ids.
pub(super) const FILE: &str = "added_tokens.json";
/// Most tokens that are added.
const MAX: usize = 1 << 16;
/// Most times that tokens are added: each builds the matcher of all of them anew.
const MAX_ROUNDS: usize = 64;

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
            for key in EXTRA_TOKENS.into_iter().chain(["additional_special_tokens"]) {
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
        let texts: HashSet<&str> = special.iter().map(|named| &*named.token.content).collect();
        let is_special = |text: &str| texts.contains(text);
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
///
/// The tokens are added many at a time, as each time costs as much as there are tokens.
pub(super) fn add(tokenizer: &mut tokenizers::Tokenizer, named: &[Named]) -> Result<bool> {
    let own = tokenizer.get_added_tokens_decoder();
    let size = tokenizer.get_vocab_size(false) as u32;
    // The id of the next new token, as the library counts at the beginning of a round.
    let mut next = own.keys().max().map_or(size, |top| size.max(top.saturating_add(1)));
    let mut known: HashMap<String, AddedToken> =
        own.into_values().map(|token| (token.content.clone(), token)).collect();
    let (mut round, mut rounds, mut has_added) = (Round::default(), 0, false);
    for Named { token, id, is_new, has_marks } in named {
        let own = known.get(&token.content);
        let place = tokenizer.token_to_id(&token.content);
        let is_lacking = *is_new || place.is_some();
        if own.map_or(!is_lacking, |own| !has_marks || own == token) {
            continue;
        }
        match place {
            _ if own.is_some() => {}
            // The model's own token beyond its other ids: those of new tokens go on after it, from the next round.
            Some(place) if place >= next => {
                next = place.saturating_add(1);
                round.has_moved = true;
            }
            Some(_) => {}
            None => {
                if round.has_moved {
                    std::mem::take(&mut round).add(tokenizer)?;
                    rounds += 1;
                    if rounds == MAX_ROUNDS {
                        bail!("the ids of its added tokens have more than {MAX_ROUNDS} gaps");
                    }
                }
                next = next.saturating_add(1);
            }
        }
        round.ids.extend(id.filter(|_| own.is_none()).map(|id| (token.content.clone(), id)));
        round.tokens.push(token.clone());
        known.insert(token.content.clone(), token.clone());
        has_added = true;
    }
    round.add(tokenizer)?;
    Ok(has_added)
}

/// Tokens that are added together.
#[derive(Default)]
struct Round {
    tokens: Vec<AddedToken>,
    /// What files say of the ids of some.
    ids: Vec<(String, u32)>,
    /// Whether the ids of new tokens go on elsewhere than the library counts in this round.
    has_moved: bool,
}

impl Round {
    fn add(self, tokenizer: &mut tokenizers::Tokenizer) -> Result<()> {
        let (Some(first), Some(last)) = (self.tokens.first(), self.tokens.last()) else {
            return Ok(());
        };
        let span = match self.tokens.len() {
            1 => format!("token `{}`", first.content),
            count => format!("{count} tokens from `{}` to `{}`", first.content, last.content),
        };
        // Each says itself whether it is special.
        tokenizer.add_tokens(self.tokens).map_err(|error| anyhow!("{span}: {error}"))?;
        for (text, id) in self.ids {
            let now = tokenizer.token_to_id(&text);
            if now != Some(id) {
                bail!(
                    "token `{text}` is {id} by the files beside it, and {} in the tokenizer",
                    now.map_or("none".to_owned(), |now| now.to_string())
                );
            }
        }
        Ok(())
    }
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
    use super::super::tests::{beside_embedded, embedded};
    use super::super::{HubTokenizer, Tokenizer};
    use super::*;

    /// The embedded tokenizer with another file beside it.
    fn with(file: &str, text: &str) -> Result<HubTokenizer> {
        let folder = beside_embedded(&[(file, text)]);
        HubTokenizer::new(&TokenizerFiles::read(folder.path())?, (vec![1], "config.json"))
    }

    #[test]
    fn names_of_tokens_are_those_of_transformers() {
        let tokens = |config: &str| {
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join(CONFIG), config).unwrap();
            std::fs::write(folder.path().join(TOKENS), r#"{"eos_token": "</s>"}"#).unwrap();
            TokenizerFiles::read(folder.path()).unwrap().special_tokens().unwrap()
        };
        let older =
            tokens(r#"{"eos_token": "<e>", "extra_special_tokens": {"image_token": "<i>"}}"#);
        assert_eq!((&*older["eos_token"], &*older["image_token"]), ("</s>", "<i>"));
        assert_eq!(
            tokens(r#"{"eos_token": "<e>", "added_tokens_decoder": {}}"#)["eos_token"],
            "<e>"
        );
        let newer = tokens(r#"{"model_specific_special_tokens": {"image_token": "<i>"}}"#);
        assert_eq!(newer["image_token"], "<i>");
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
    fn tens_of_thousands_of_tokens_are_added_at_once() {
        let next = with("added_tokens.json", "{}").unwrap().id_end();
        let text = |id: usize| format!("<{id}>");
        let old: BTreeMap<String, usize> = (0..20_000).map(|i| (text(i), next + i)).collect();
        let decoder: BTreeMap<String, Value> = (0..20_000)
            .map(|i| {
                let token = serde_json::json!({"content": text(i), "special": i % 2 == 0});
                ((next + i).to_string(), token)
            })
            .collect();
        let special: Vec<String> = (0..20_000).map(text).collect();
        for (file, json) in [
            (FILE, serde_json::json!(old)),
            (CONFIG, serde_json::json!({"added_tokens_decoder": decoder})),
            (CONFIG, serde_json::json!({"additional_special_tokens": special})),
        ] {
            let tokenizer = with(file, &json.to_string()).unwrap();
            assert_eq!(tokenizer.id_end(), next + 20_000);
            let ids = tokenizer.encode_completion("<0><19999>").unwrap();
            assert_eq!(ids, [next as u32, next as u32 + 19_999]);
        }
    }

    #[test]
    fn new_ids_go_on_after_the_models_own_as_if_tokens_were_added_one_by_one() {
        let mut json = embedded();
        for (text, id) in [("<far>", 100), ("<farther>", 102)] {
            json["model"]["vocab"][text] = id.into();
        }
        let named = |text: &str, id: Option<u32>| Named {
            token: AddedToken::from(text, true),
            id,
            is_new: true,
            has_marks: false,
        };
        let all = [("<far>", 100), ("<a>", 101), ("<farther>", 102), ("<b>", 103), ("<c>", 104)];
        let all: Vec<Named> = all.iter().map(|(text, id)| named(text, Some(*id))).collect();
        let new = || tokenizers::Tokenizer::from_bytes(json.to_string().as_bytes()).unwrap();
        let (mut together, mut alone) = (new(), new());
        assert!(add(&mut together, &all).unwrap());
        for one in &all {
            alone.add_tokens([one.token.clone()]).unwrap();
        }
        assert_eq!(together.get_added_tokens_decoder(), alone.get_added_tokens_decoder());
        assert!(!add(&mut together, &all).unwrap(), "all are there");
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
