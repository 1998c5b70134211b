//! Text to token ids and back, and chat messages to text.
//!
//! [`Tokenizer`] is the seam; [`HubTokenizer`] reads what a model directory on the Hub holds:
//! `tokenizer.json`, `tokenizer_config.json`, `chat_template.jinja`, `generation_config.json`.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{Environment, context};
use serde_json::Value;
use tealight_datasets::Prompt;

/// What the rest of Tealight asks of a tokenizer.
pub trait Tokenizer: Send + Sync {
    /// The ids of a prompt, chat template and special tokens included.
    ///
    /// # Errors
    /// A template that refuses the messages, text that cannot be encoded.
    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>>;
    /// The ids of a completion that is imitated, without special tokens.
    ///
    /// # Errors
    /// Text that cannot be encoded.
    fn encode_completion(&self, text: &str) -> Result<Vec<u32>>;
    /// The text of sampled ids, special tokens left out.
    ///
    /// # Errors
    /// Ids that are no tokens.
    fn decode(&self, ids: &[u32]) -> Result<String>;
    /// The ids that end a completion; never empty.
    fn eos(&self) -> &[u32];
}

/// The tokenizer of a model directory.
pub struct HubTokenizer {
    inner: tokenizers::Tokenizer,
    template: Option<String>,
    bos_text: String,
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
        let inner = tokenizers::Tokenizer::from_file(&path)
            .map_err(|error| anyhow!("{}: {error}", path.display()))?;
        let config = optional_json(&directory.join("tokenizer_config.json"))?;
        let template_file = directory.join("chat_template.jinja");
        let template = if template_file.exists() {
            let text = std::fs::read_to_string(&template_file);
            Some(text.with_context(|| template_file.display().to_string())?)
        } else {
            config.get("chat_template").and_then(default_template)
        };
        let token_text = |key: &str| match config.get(key) {
            Some(Value::String(text)) => Some(text.clone()),
            Some(Value::Object(token)) => token.get("content")?.as_str().map(str::to_owned),
            _ => None,
        };
        let mut tokenizer = Self {
            inner,
            template,
            bos_text: token_text("bos_token").unwrap_or_default(),
            eos_text: token_text("eos_token").unwrap_or_default(),
            eos: Vec::new(),
        };
        tokenizer.eos = tokenizer.find_eos(directory)?;
        Ok(tokenizer)
    }

    /// From the generation config, else the model config, else the tokenizer config.
    fn find_eos(&self, directory: &Path) -> Result<Vec<u32>> {
        for file in ["generation_config.json", "config.json"] {
            let config = optional_json(&directory.join(file))?;
            let ids: Vec<u32> = match config.get("eos_token_id") {
                Some(Value::Array(ids)) => ids.iter().filter_map(as_id).collect(),
                Some(id) => as_id(id).into_iter().collect(),
                None => Vec::new(),
            };
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

    /// Whether prompts that are chats are rendered by a template of the tokenizer's own.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    fn encode(&self, text: &str, add_special_tokens: bool) -> Result<Vec<u32>> {
        let encoding = self.inner.encode(text, add_special_tokens);
        let encoding = encoding.map_err(|error| anyhow!("text cannot be tokenized: {error}"))?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Renders chat messages the way transformers does.
    fn render(&self, template: &str, prompt: &Prompt) -> Result<String> {
        let Prompt::Chat(messages) = prompt else { return Ok(prompt.plain()) };
        let mut environment = Environment::new();
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.context("the template syntax is fixed")?);
        environment
            .set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        minijinja_contrib::add_to_environment(&mut environment);
        environment.add_function("raise_exception", |message: String| -> Result<String, _> {
            Err(minijinja::Error::new(minijinja::ErrorKind::InvalidOperation, message))
        });
        environment.add_template("chat", template).context("the chat template cannot be read")?;
        let rendered = environment.get_template("chat")?.render(context! {
            messages => Serde(messages),
            add_generation_prompt => true,
            bos_token => self.bos_text.as_str(),
            eos_token => self.eos_text.as_str(),
        });
        rendered.context("the chat template failed")
    }
}

impl Tokenizer for HubTokenizer {
    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        match (prompt, &self.template) {
            // The template writes the special tokens itself.
            (Prompt::Chat(_), Some(template)) => {
                self.encode(&self.render(template, prompt)?, false)
            }
            _ => self.encode(&prompt.plain(), true),
        }
    }

    fn encode_completion(&self, text: &str) -> Result<Vec<u32>> {
        self.encode(text, false)
    }

    fn decode(&self, ids: &[u32]) -> Result<String> {
        self.inner.decode(ids, true).map_err(|error| anyhow!("tokens cannot be decoded: {error}"))
    }

    fn eos(&self) -> &[u32] {
        &self.eos
    }
}

fn as_id(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}

/// The template itself, or the one called `default` among several.
fn default_template(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(named) => named
            .iter()
            .find(|entry| entry["name"] == "default")?
            .get("template")?
            .as_str()
            .map(str::to_owned),
        _ => None,
    }
}

/// A JSON file, or null where there is none.
fn optional_json(path: &Path) -> Result<Value> {
    if !path.exists() {
        return Ok(Value::Null);
    }
    let text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    serde_json::from_str(&text).with_context(|| format!("{}: not JSON", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use tealight_datasets::Message;

    fn real_qwen() -> Option<PathBuf> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/qwen-tokenizer");
        if path.is_dir() {
            return Some(path);
        }
        eprintln!("skipped: {} is not there", path.display());
        None
    }

    #[test]
    fn the_real_qwen_template_renders_as_transformers_does() {
        let Some(directory) = real_qwen() else { return };
        let tokenizer = HubTokenizer::load(&directory).unwrap();
        let prompt = Prompt::Chat(vec![Message::user("Hi")]);
        let template = tokenizer.template.clone().unwrap();
        assert_eq!(
            tokenizer.render(&template, &prompt).unwrap(),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful \
             assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(tokenizer.encode("Hello, world!", true).unwrap(), [9707, 11, 1879, 0]);
        assert_eq!(tokenizer.encode_prompt(&prompt).unwrap()[0], 151_644);
        assert_eq!(tokenizer.eos(), [151_645]);
        assert_eq!(tokenizer.decode(&[9707, 11, 1879, 0, 151_645]).unwrap(), "Hello, world!");
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
