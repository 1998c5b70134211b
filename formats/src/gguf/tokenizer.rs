//! Tokenizers of files as `tokenizer.json` and `tokenizer_config.json`, and back.

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Map, Value as Json, json};

use super::pieces::{self, Pieces};
use super::{
    Gguf, TOKEN_BYTE, TOKEN_CONTROL, TOKEN_NORMAL, TOKEN_UNKNOWN, TOKEN_UNUSED, TOKEN_USER_DEFINED,
    Value, pre,
};

/// The name of byte-level BPE in files, and SentencePiece's.
const BYTES: &str = "gpt2";
const PIECES: &str = "llama";

impl Gguf {
    /// `tokenizer.json` and `tokenizer_config.json`.
    pub(super) fn tokenizer(&self) -> Result<(Json, Json)> {
        let kind = self.text("tokenizer.ggml.model")?.context("the file has no tokenizer")?;
        let tokens = self.texts("tokenizer.ggml.tokens")?;
        let tokens = tokens.context("the tokenizer has no tokens")?;
        let kinds = match self.get("tokenizer.ggml.token_type") {
            Some(Value::Ints(kinds)) if kinds.len() == tokens.len() => kinds.clone(),
            None => vec![TOKEN_NORMAL; tokens.len()],
            Some(_) => bail!("there are not as many kinds of tokens as tokens"),
        };
        let mut vocabulary = Map::new();
        let is_padding =
            |(id, token): &(usize, &String)| kinds[*id] == TOKEN_UNUSED && **token == padding(*id);
        for (id, token) in tokens.iter().enumerate().filter(|entry| !is_padding(entry)) {
            // Files fill up their vocabulary with tokens without text, which text never comes to.
            if let Some(first) =
                vocabulary.insert(token.clone(), json!(id)).filter(|_| !token.is_empty())
            {
                bail!("tokens {first} and {id} are the same text, `{token}`");
            }
        }
        let added: Vec<Json> = (0..tokens.len())
            .filter(|id| [TOKEN_CONTROL, TOKEN_USER_DEFINED].contains(&kinds[*id]))
            .map(|id| {
                json!({"id": id, "content": tokens[id], "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": kinds[id] == TOKEN_CONTROL})
            })
            .collect();
        let token = |name: &str| -> Result<Option<&String>> {
            let key = format!("tokenizer.ggml.{name}_token_id");
            let Some(id) = self.int(&key)? else { return Ok(None) };
            let token = usize::try_from(id).ok().and_then(|id| tokens.get(id));
            token.map(Some).with_context(|| format!("`{key}` is {id}, which is no token"))
        };
        let (bos, eos, pad) = (token("bos")?, token("eos")?, token("padding")?);
        // SentencePiece's and Llama 3's begin with it unless the file says otherwise, as in llama.cpp.
        let is_llama = self.text("tokenizer.ggml.pre")?.is_some_and(pre::is_llama);
        let begins = kind == PIECES || is_llama;
        let begins = self.bool("tokenizer.ggml.add_bos_token")?.unwrap_or(begins);
        let after = match (begins, bos) {
            (true, Some(bos)) => {
                let id = self.int("tokenizer.ggml.bos_token_id")?;
                json!({"type": "TemplateProcessing",
                    "single": [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                    "special_tokens": {bos: {"id": bos, "ids": [id], "tokens": [bos]}}})
            }
            _ => Json::Null,
        };
        let mut tokenizer = match kind {
            BYTES => self.of_bytes(vocabulary)?,
            PIECES => self.of_pieces(tokens, &kinds, vocabulary)?,
            other => bail!(
                "a tokenizer of the kind `{other}` is not supported; `{BYTES}` (byte-level BPE) and `{PIECES}` \
                 (SentencePiece) are"
            ),
        };
        tokenizer["version"] = json!("1.0");
        tokenizer["added_tokens"] = json!(added);
        tokenizer["post_processor"] = after;
        let mut settings = json!({"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": false});
        for (name, token) in [("bos_token", bos), ("eos_token", eos), ("pad_token", pad)] {
            if let Some(token) = token {
                settings[name] = json!(token);
            }
        }
        if let Some(template) = self.text("tokenizer.chat_template")? {
            settings["chat_template"] = json!(template);
        }
        Ok((tokenizer, settings))
    }

    /// Byte-level BPE: merges are in the file, how text is cut is called by name.
    fn of_bytes(&self, vocabulary: Map<String, Json>) -> Result<Json> {
        let name = self.text("tokenizer.ggml.pre")?.unwrap_or("gpt-2");
        let Some(pre) = pre::named(name) else {
            bail!("the pre-tokenizer `{name}` is not supported; {} are", pre::names());
        };
        let merges = self.texts("tokenizer.ggml.merges")?;
        let merges = merges.context("the tokenizer has no merges")?;
        let merges: Option<Vec<_>> = merges.iter().map(|merge| merge.split_once(' ')).collect();
        let merges = merges.context("a merge that is not two parts")?;
        Ok(json!({
            "truncation": null, "padding": null,
            "normalizer": pre.normalizer(), "pre_tokenizer": pre.pre_tokenizer(),
            "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
            "model": {"type": "BPE", "dropout": null, "unk_token": null, "continuing_subword_prefix": null,
                "end_of_word_suffix": null, "fuse_unk": false, "byte_fallback": false,
                "ignore_merges": pre.ignores_merges, "vocab": vocabulary, "merges": merges},
        }))
    }

    /// SentencePiece's BPE: merges are those that make the best pieces first.
    fn of_pieces(
        &self,
        tokens: &[String],
        kinds: &[i64],
        vocabulary: Map<String, Json>,
    ) -> Result<Json> {
        let Some(Value::Floats(scores)) = self.get("tokenizer.ggml.scores") else {
            bail!("the tokenizer has no scores");
        };
        ensure!(scores.len() == tokens.len(), "there are not as many scores as tokens");
        let has_prefix = self.bool("tokenizer.ggml.add_space_prefix")?.unwrap_or(true);
        let unknown = kinds.iter().position(|kind| *kind == TOKEN_UNKNOWN);
        let pieces_style = Pieces { has_prefix };
        Ok(json!({
            "truncation": null, "padding": null, "normalizer": pieces_style.normalizer(),
            "pre_tokenizer": pieces::pre_tokenizer(), "decoder": pieces_style.decoder(),
            "model": {"type": "BPE", "dropout": null, "unk_token": unknown.map(|id| &tokens[id]),
                "continuing_subword_prefix": null, "end_of_word_suffix": null, "fuse_unk": true, "byte_fallback": true,
                "ignore_merges": false, "vocab": vocabulary, "merges": pieces::merges(tokens, scores, kinds)},
        }))
    }
}

/// The values of a file for a tokenizer of up to `vocab_size` tokens: `config.json`, `tokenizer.json` and
/// `tokenizer_config.json`.
pub(super) fn values(
    vocab_size: usize,
    (config, tokenizer, settings): (&Json, &Json, &Json),
) -> Result<Vec<(String, Value)>> {
    let spelling = (pre::spelled(tokenizer), Pieces::spelled(tokenizer));
    let has_pieces = spelling.1.is_some();
    let mut vocabulary = Vocabulary::read(vocab_size, tokenizer, has_pieces)?;
    let unknown = tokenizer["model"]["unk_token"].as_str().filter(|_| has_pieces);
    let unknown = unknown.and_then(|text| vocabulary.find(text));
    if let Some(id) = unknown {
        vocabulary.kinds[id] = TOKEN_UNKNOWN;
    }
    let named = further_stops(config);
    let special = [
        ("bos_token_id", vocabulary.special(config, settings, "bos")),
        ("eos_token_id", vocabulary.special(config, settings, "eos")),
        ("eot_token_id", named[0]),
        ("eom_token_id", named[1]),
        ("padding_token_id", vocabulary.special(config, settings, "pad")),
        ("unknown_token_id", unknown),
    ];
    let begins = begins_with_token(&tokenizer["post_processor"]);
    let texts = vocabulary.texts();
    let mut values = model_values(tokenizer, spelling, &texts)?;
    values.extend([
        ("tokens", Value::Texts(texts)),
        ("token_type", Value::Ints(vocabulary.kinds)),
        ("add_bos_token", Value::Bool(begins)),
    ]);
    for (name, id) in special {
        values.extend(id.map(|id| (name, Value::Int(id as i64))));
    }
    let prefixed = |(name, value): (&str, Value)| (format!("tokenizer.ggml.{name}"), value);
    let mut values: Vec<_> = values.into_iter().map(prefixed).collect();
    let stops: Vec<i64> = stops(config).map(|id| id as i64).collect();
    if stops.len() > 3 {
        values.push((STOPS.into(), Value::Ints(stops)));
    }
    if let Some(template) = settings["chat_template"].as_str() {
        values.push(("tokenizer.chat_template".into(), Value::Text(template.into())));
    }
    Ok(values)
}

/// Whether a post-processor, or one of several in a sequence (Llama 3's), puts a token before every text.
fn begins_with_token(processor: &Json) -> bool {
    let parts = processor["processors"].as_array().into_iter().flatten();
    let is_first = |one: &Json| {
        one["type"] == "TemplateProcessing" && one["single"][0]["SpecialToken"].is_object()
    };
    parts.chain([processor]).any(is_first)
}

/// The key of all tokens that end a completion, which llama.cpp does not know: it knows three of them by name.
pub(super) const STOPS: &str = "tealight.stop_token_ids";

/// Ids that end a completion: the first is the tokenizer's own.
fn stops(config: &Json) -> impl Iterator<Item = usize> {
    let ids = config["stop_token_ids"].as_array().into_iter().flatten();
    ids.filter_map(|id| usize::try_from(id.as_u64()?).ok())
}

/// Those that files call the end of a turn and of a message, which llama.cpp also stops at. The end of a turn has its
/// own key where it is not the end of a sequence.
fn further_stops(config: &Json) -> [Option<usize>; 2] {
    let is_other = |id: &usize, key: &str| config[key] != *id;
    let turn = config["turn_end_token_id"].as_u64().map(|id| id as usize);
    let turn = turn.filter(|id| is_other(id, "eos_token_id"));
    let mut others = stops(config)
        .filter(|id| is_other(id, "eos_token_id") && is_other(id, "turn_end_token_id"));
    let message = others.next();
    [turn.or_else(|| others.next()), message]
}

/// Text and kind of every token of a `tokenizer.json`, by id.
struct Vocabulary {
    tokens: Vec<Option<String>>,
    kinds: Vec<i64>,
}

impl Vocabulary {
    fn read(vocab_size: usize, tokenizer: &Json, has_pieces: bool) -> Result<Self> {
        let mut vocabulary =
            Self { tokens: vec![None; vocab_size], kinds: vec![TOKEN_NORMAL; vocab_size] };
        for (text, id) in tokenizer["model"]["vocab"].as_object().into_iter().flatten() {
            let is_byte = has_pieces && text.len() == 6 && text.starts_with("<0x");
            // Tokens beyond the embeddings are none of the model's.
            if id.as_u64().is_some_and(|id| id >= vocab_size as u64) {
                continue;
            }
            vocabulary.set(id, text, if is_byte { TOKEN_BYTE } else { TOKEN_NORMAL })?;
        }
        for added in tokenizer["added_tokens"].as_array().into_iter().flatten() {
            if added["id"].as_u64().is_some_and(|id| id >= vocab_size as u64) {
                continue;
            }
            let is_special = added["special"].as_bool().unwrap_or(false);
            let text = added["content"].as_str().unwrap_or_default();
            let kind = if is_special { TOKEN_CONTROL } else { TOKEN_USER_DEFINED };
            vocabulary.set(&added["id"], text, kind)?;
        }
        for (token, kind) in vocabulary.tokens.iter().zip(&mut vocabulary.kinds) {
            if token.is_none() {
                *kind = TOKEN_UNUSED;
            }
        }
        Ok(vocabulary)
    }

    fn set(&mut self, id: &Json, text: &str, kind: i64) -> Result<()> {
        let id = id.as_u64().map(|id| id as usize).filter(|id| *id < self.tokens.len());
        let id = id.with_context(|| format!("token `{text}` is beyond the vocabulary"))?;
        self.tokens[id] = Some(text.to_owned());
        self.kinds[id] = kind;
        Ok(())
    }

    fn find(&self, text: &str) -> Option<usize> {
        self.tokens.iter().position(|token| token.as_deref() == Some(text))
    }

    /// The id of a special token, by `config.json`, or by its text in `tokenizer_config.json`.
    fn special(&self, config: &Json, settings: &Json, name: &str) -> Option<usize> {
        let id = match &config[format!("{name}_token_id")] {
            Json::Array(ids) => ids.first().and_then(Json::as_u64),
            id => id.as_u64(),
        };
        id.map(|id| id as usize).or_else(|| match &settings[format!("{name}_token")] {
            Json::String(text) => self.find(text),
            other => other["content"].as_str().and_then(|text| self.find(text)),
        })
    }

    /// The tokens; a row of the embedding without a token has a text that no input contains.
    fn texts(&self) -> Vec<String> {
        let texts = self.tokens.iter().enumerate();
        texts.map(|(id, token)| token.clone().unwrap_or_else(|| padding(id))).collect()
    }
}

/// The text of a row of the embedding without a token, as llama.cpp writes it.
fn padding(id: usize) -> String {
    format!("[PAD{id}]")
}

/// The values in which the two kinds of tokenizers differ.
fn model_values(
    tokenizer: &Json,
    spelling: (Option<&pre::Pre>, Option<Pieces>),
    texts: &[String],
) -> Result<Vec<(&'static str, Value)>> {
    let model = &tokenizer["model"];
    let is_bpe = matches!(model["type"].as_str(), Some("BPE") | None);
    let merges = model["merges"].as_array().into_iter().flatten().map(pair);
    let merges: Option<Vec<(String, String)>> = merges.collect();
    let merges = merges.context("merges that are not pairs")?;
    let text = |value: &str| Value::Text(value.to_owned());
    Ok(match spelling {
        (Some(pre), _) if is_bpe => vec![
            ("model", text(BYTES)),
            ("pre", text(pre.name)),
            ("merges", Value::Texts(merges.iter().map(|(a, b)| format!("{a} {b}")).collect())),
        ],
        (None, Some(pieces)) if is_bpe => vec![
            ("model", text(PIECES)),
            ("pre", text("default")),
            ("scores", Value::Floats(pieces::scores(texts, &merges))),
            ("add_space_prefix", Value::Bool(pieces.has_prefix)),
        ],
        _ => bail!(
            "its tokenizer has no name in GGUF: byte-level BPE with the pre-tokenizer of {} has, and SentencePiece's BPE",
            pre::names()
        ),
    })
}

/// A merge in either of the two ways in which `tokenizer.json` has them.
fn pair(merge: &Json) -> Option<(String, String)> {
    match merge {
        Json::String(text) => text.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned())),
        Json::Array(parts) => match parts.as_slice() {
            [Json::String(a), Json::String(b)] => Some((a.clone(), b.clone())),
            _ => None,
        },
        _ => None,
    }
}
