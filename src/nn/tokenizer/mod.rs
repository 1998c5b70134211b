//! Text to token ids and back, and chat messages to text.
//!
//! [`Tokenizer`] is the seam; [`HubTokenizer`] reads what a model directory on the Hub holds:
//! `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`, `generation_config.json`.

mod stream;
mod template;
mod template_check;

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use tealight_datasets::Prompt;

use crate::system::budget;
use crate::system::files::{read_json, read_limited};
use crate::system::keys_once;
use crate::system::machine;
pub use stream::TextStream;
use template::{ChatTemplate, default_template};

/// Largest file of a tokenizer, in bytes.
pub(crate) const MAX_FILE: u64 = 256 << 20;
/// Largest chat template, in bytes.
const MAX_TEMPLATE: u64 = 1 << 20;
/// Longest token, in bytes: a completion is as long as its tokens make it.
const MAX_TOKEN: usize = 16 << 10;
/// Most bytes of a decoded token.
const MAX_DECODED: f64 = 65_536.0;
/// Longest text that is tokenized, in bytes: a tokenizer may take a hundred bytes for each.
const MAX_TEXT: usize = 16 << 20;
/// Memory for reading a tokenizer, for each byte of its file, and besides.
const MEMORY: (usize, usize) = (64, 256 << 20);
/// Three quarters of the memory that was free when the first text was tokenized: asking the system for every text of a
/// batch would cost more than the text.
static FREE_MEMORY: LazyLock<usize> = LazyLock::new(|| {
    let free = machine::available_memory().map_or(u64::MAX, |free| free / 4 * 3);
    usize::try_from(free).unwrap_or(usize::MAX)
});

/// The tokenizer as the rest of Tealight uses it.
pub trait Tokenizer: Send + Sync {
    /// The ids of a prompt, chat template and special tokens included.
    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>>;
    /// The ids of a completion that is imitated, without special tokens.
    fn encode_completion(&self, text: &str) -> Result<Vec<u32>>;
    /// The text of sampled ids, special tokens left out.
    fn decode(&self, ids: &[u32]) -> Result<String>;
    /// The ids that end a completion; never empty.
    fn eos(&self) -> &[u32];
}

/// The tokenizer of a model directory.
pub struct HubTokenizer {
    inner: Arc<tokenizers::Tokenizer>,
    template: Option<ChatTemplate>,
    eos_text: String,
    eos: Vec<u32>,
}

impl HubTokenizer {
    /// Reads the tokenizer of the model in `directory`.
    ///
    /// # Errors
    /// A missing or malformed file, no end-of-sequence token.
    pub fn load(directory: &Path) -> Result<Self> {
        let path = directory.join("tokenizer.json");
        if !path.exists() {
            bail!("{}: a model directory needs a tokenizer.json", path.display());
        }
        let bytes = read_limited(&path, MAX_FILE)?;
        let shown = path.display().to_string();
        let memory = bytes.len().saturating_mul(MEMORY.0).saturating_add(MEMORY.1);
        let inner = budget::within(&shown.clone(), memory, move || {
            keys_once::check(&bytes).with_context(|| shown.clone())?;
            let growth = check_decoder(&bytes).map_err(|error| anyhow!("{shown}: {error}"))?;
            let mut inner = tokenizers::Tokenizer::from_bytes(&bytes)
                .map_err(|error| anyhow!("{shown}: {error}"))?;
            // Prompts are neither padded nor cut here, whatever the file says.
            inner.with_padding(None);
            inner.with_truncation(None).map_err(|error| anyhow!("{shown}: {error}"))?;
            let longest = inner.get_vocab(true).keys().map(String::len).max().unwrap_or(0);
            if longest > MAX_TOKEN {
                bail!("{shown}: a token of {longest} bytes; {MAX_TOKEN} are the limit");
            }
            if longest as f64 * growth > MAX_DECODED {
                bail!(
                    "{shown}: its decoder may make {:.0} bytes of its longest token; {MAX_DECODED} are the limit",
                    longest as f64 * growth
                );
            }
            Ok(inner)
        })?;
        let config = optional_json(&directory.join("tokenizer_config.json"))?;
        let template_file = directory.join("chat_template.jinja");
        let source = if template_file.exists() {
            let text = String::from_utf8(read_limited(&template_file, MAX_TEMPLATE)?);
            Some(text.with_context(|| format!("{}: is no text", template_file.display()))?)
        } else {
            config.get("chat_template").and_then(default_template)
        };
        let token_text = |key: &str| match config.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Object(token)) => token.get("content")?.as_str().map(str::to_owned),
            _ => None,
        };
        let bos = token_text("bos_token").unwrap_or_default();
        let eos_text = token_text("eos_token").unwrap_or_default();
        let template =
            source.map(|source| ChatTemplate { source: source.into(), bos, eos: eos_text.clone() });
        let mut tokenizer = Self { inner: Arc::new(inner), template, eos_text, eos: Vec::new() };
        tokenizer.eos = tokenizer.find_eos(directory)?;
        Ok(tokenizer)
    }

    /// From the generation config, else the model config, else the tokenizer config.
    fn find_eos(&self, directory: &Path) -> Result<Vec<u32>> {
        for file in ["generation_config.json", "config.json"] {
            let config = optional_json(&directory.join(file))?;
            let mut ids: Vec<u32> = match config.get("eos_token_id") {
                Some(Value::Array(ids)) => ids.iter().filter_map(as_id).collect(),
                Some(id) => as_id(id).into_iter().collect(),
                None => Vec::new(),
            };
            // An id that is listed twice is one way to end.
            let mut seen = HashSet::new();
            ids.retain(|id| seen.insert(*id));
            if !ids.is_empty() {
                return Ok(ids);
            }
        }
        match self.inner.token_to_id(&self.eos_text) {
            Some(id) => Ok(vec![id]),
            None => bail!(
                "{}: the tokenizer has no end-of-sequence token; set eos_token_id in \
                 generation_config.json or eos_token in tokenizer_config.json",
                directory.display()
            ),
        }
    }

    /// How many ids there are, added tokens included.
    pub fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    /// The chat template's text, where there is one.
    pub(crate) fn chat_template(&self) -> Option<&str> {
        self.template.as_ref().map(|template| &*template.source)
    }

    /// Whether prompts that are chats are rendered by a template of the tokenizer's own.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    /// The text of a prompt as the model is given it: a chat by the template, where there is one.
    pub fn render(&self, prompt: &Prompt) -> Result<String> {
        match (prompt, &self.template) {
            (Prompt::Chat(_), Some(template)) => template.render(prompt),
            _ => Ok(prompt.plain()),
        }
    }

    fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>> {
        if text.len() > MAX_TEXT {
            bail!("a text of {} bytes; {MAX_TEXT} are the limit of what is tokenized", text.len());
        }
        let memory = text.len().saturating_mul(1024).saturating_add(MEMORY.1);
        let memory = memory.min(*FREE_MEMORY);
        let (inner, text) = (self.inner.clone(), text.to_owned());
        budget::within("the model's tokenizer", memory, move || {
            let encoding = inner.encode(text, add_special_tokens);
            let encoding =
                encoding.map_err(|error| anyhow!("text cannot be tokenized: {error}"))?;
            Ok(encoding.get_ids().to_vec())
        })
    }

    /// The text of ids as they are, special tokens shown.
    pub fn decode_all(&self, ids: &[u32]) -> Result<String> {
        self.decoded(ids, false)
    }
}

impl HubTokenizer {
    /// The text of tokens. A decoder that the library does not survive fails as any other.
    fn decoded(&self, ids: &[u32], skips_special: bool) -> Result<String> {
        let text =
            budget::caught("the model's tokenizer", || self.inner.decode(ids, skips_special))?;
        text.map_err(|error| anyhow!("tokens cannot be decoded: {error}"))
    }
}

impl Tokenizer for HubTokenizer {
    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        // The template writes the special tokens itself.
        let is_templated = matches!(prompt, Prompt::Chat(_)) && self.has_chat_template();
        self.encode(&self.render(prompt)?, !is_templated)
    }

    fn encode_completion(&self, text: &str) -> Result<Vec<u32>> {
        self.encode(text, false)
    }

    fn decode(&self, ids: &[u32]) -> Result<String> {
        self.decoded(ids, true)
    }

    fn eos(&self) -> &[u32] {
        &self.eos
    }
}

fn as_id(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

/// Refuses decoders that make much of little, or take long: a chain of replacements doubles a completion as often as it
/// is long, and each rule goes through all of the tokens. How many bytes one may become.
fn check_decoder(bytes: &[u8]) -> Result<f64> {
    /// Most bytes that the rules of a decoder may make of one.
    const MOST: f64 = 64.0;
    /// Most rules.
    const MOST_RULES: usize = 64;
    fn count(rule: &Value) -> usize {
        1 + rule["decoders"].as_array().into_iter().flatten().map(count).sum::<usize>()
    }
    fn growth(rule: &Value) -> f64 {
        match rule["type"].as_str() {
            Some("Sequence") => {
                rule["decoders"].as_array().into_iter().flatten().map(growth).product()
            }
            Some("Replace") => {
                let content = rule["content"].as_str().map_or(0, str::len) as f64;
                match rule["pattern"]["String"].as_str() {
                    Some(pattern) if !pattern.is_empty() => {
                        (content / pattern.len() as f64).max(1.0)
                    }
                    // It may match nothing at all, between any two bytes.
                    _ => 1.0 + content,
                }
            }
            // Nothing between any two characters becomes a blank.
            Some("BPEDecoder") if rule["suffix"] == "" => 5.0,
            Some("CTC") if rule["word_delimiter_token"] == "" => f64::INFINITY,
            _ => 1.0,
        }
    }
    #[derive(serde::Deserialize)]
    struct File {
        #[serde(default)]
        decoder: Value,
    }
    let file: File = serde_json::from_slice(bytes)?;
    let rules = count(&file.decoder);
    if rules > MOST_RULES {
        bail!("its decoder has {rules} rules; {MOST_RULES} are the limit");
    }
    match growth(&file.decoder) {
        most if most <= MOST => Ok(most),
        most => bail!("its decoder may make {most:.0} bytes of one; {MOST} are the limit"),
    }
}

/// A JSON file, or null where there is none.
fn optional_json(path: &Path) -> Result<Value> {
    if !path.exists() {
        return Ok(Value::Null);
    }
    read_json(path, MAX_FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_datasets::Message;

    #[test]
    #[ignore = "needs ../shared/data"]
    fn the_real_qwen_template_renders_as_transformers_does() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/qwen-tokenizer");
        let tokenizer = HubTokenizer::load(&directory).unwrap();
        let prompt = Prompt::Chat(vec![Message::user("Hi")]);
        let template = tokenizer.template.clone().unwrap();
        assert_eq!(
            template.render(&prompt).unwrap(),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful \
             assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(tokenizer.encode("Hello, world!", true).unwrap(), [9707, 11, 1879, 0]);
        assert_eq!(tokenizer.encode_prompt(&prompt).unwrap()[0], 151_644);
        assert_eq!(tokenizer.eos(), [151_645]);
        assert_eq!(tokenizer.decode(&[9707, 11, 1879, 0, 151_645]).unwrap(), "Hello, world!");
    }

    #[test]
    fn decoders_that_grow_panic_or_take_long_are_refused() {
        use serde_json::json;

        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/countdown/tokenizer.json");
        let file: Value = serde_json::from_slice(&std::fs::read(source).unwrap()).unwrap();
        let refused = |decoders: Vec<Value>| {
            let mut file = file.clone();
            file["decoder"] = json!({"type": "Sequence", "decoders": decoders});
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("tokenizer.json"), file.to_string()).unwrap();
            let tokenizer = HubTokenizer::load(folder.path());
            format!("{:#}", tokenizer.map(|_| ()).expect_err("a hostile decoder"))
        };
        let double = json!({"type": "Replace", "pattern": {"String": "1"}, "content": "11"});
        assert!(refused(vec![double; 40]).contains("bytes of one"));
        let suffix = json!({"type": "BPEDecoder", "suffix": ""});
        assert!(refused(vec![suffix; 30]).contains("bytes of one"));
        let endless = json!({"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "", "cleanup": true});
        assert!(refused(vec![endless]).contains("bytes of one"));
        let pieces = json!({"type": "WordPiece", "prefix": "##", "cleanup": false});
        assert!(refused(vec![pieces; 100]).contains("101 rules"));
    }

    #[test]
    fn a_decoder_that_panics_is_an_error() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/countdown");
        let folder = tempfile::tempdir().unwrap();
        for file in std::fs::read_dir(&source).unwrap().flatten() {
            std::fs::copy(file.path(), folder.path().join(file.file_name())).unwrap();
        }
        let path = folder.path().join("tokenizer.json");
        let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        file["decoder"] =
            serde_json::json!({"type": "Strip", "content": "1", "start": 0, "stop": 100});
        std::fs::write(&path, file.to_string()).unwrap();
        let tokenizer = HubTokenizer::load(folder.path()).unwrap();
        let message = format!("{:#}", tokenizer.decode(&[3, 4]).unwrap_err());
        assert!(message.contains("does not survive"), "{message}");
    }

    #[test]
    fn a_text_that_no_context_holds_is_not_tokenized() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/countdown");
        let tokenizer = HubTokenizer::load(&source).unwrap();
        let message =
            format!("{:#}", tokenizer.encode_completion(&"1".repeat(MAX_TEXT + 1)).unwrap_err());
        assert!(message.contains("are the limit"), "{message}");
    }

    #[test]
    fn a_tokenizer_without_an_end_is_refused() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("models/countdown/tokenizer.json");
        let folder = tempfile::tempdir().unwrap();
        std::fs::copy(source, folder.path().join("tokenizer.json")).unwrap();
        let message = HubTokenizer::load(folder.path()).err().unwrap().to_string();
        assert!(message.contains("end-of-sequence"), "{message}");
    }
}
