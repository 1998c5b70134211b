//! Text to token ids and back, and chat messages to text.
//!
//! [`Tokenizer`] is the seam; [`HubTokenizer`] reads what a model directory on the Hub holds:
//! `tokenizer.json`, `tokenizer_config.json`, chat templates, `generation_config.json`.

mod added;
mod date;
mod decoder_check;
mod example;
mod files;
mod honoured;
mod stops;
mod stream;
mod template;
mod template_check;
mod template_filters;
mod template_json;
mod template_newlines;
mod template_python;
#[cfg(test)]
mod template_tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, LazyLock};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Map, Value};
use tealight_core::{Chat, Prompt};
use tokenizers::Encoding;

pub use date::TemplateDate;
pub use example::Example;
use files::TemplateSource;
pub use files::{TokenizerFiles, generation_stops, is_tokenizers};
pub use honoured::Rendering;
pub use stops::StopToken;
use stops::TurnEnd;
pub use stream::TextStream;
use tealight_system::{budget, keys_once, machine};
use template::ChatTemplate;

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
    /// The ids of a text by itself, without special tokens.
    fn encode_completion(&self, text: &str) -> Result<Vec<u32>>;
    /// The text of sampled ids without the tokens that end a completion. Other special tokens, such as `<think>` and
    /// `<answer>`, stay in the text.
    fn decode(&self, ids: &[u32]) -> Result<String>;
    /// The ids that end a completion; never empty.
    fn eos(&self) -> &[u32];
    /// The id that ends a turn of a chat.
    fn turn_end(&self) -> u32 {
        self.eos()[0]
    }
}

/// The tokenizer of a model directory.
pub struct HubTokenizer {
    parts: Parts,
    template: Option<ChatTemplate>,
    stops: Vec<StopToken>,
    eos: Vec<u32>,
    /// The id of the tokenizer's own end-of-sequence token, whatever else ends a completion.
    eos_token: Option<u32>,
    turn_end: Option<TurnEnd>,
    /// Variables of the chat template in all chats.
    variables: Map<String, Value>,
    /// Ids that the model has embeddings for; all where that is not known.
    vocabulary: usize,
}

/// What a tokenizer is, whatever its chat template.
struct Parts {
    inner: Arc<tokenizers::Tokenizer>,
    /// One above the largest id.
    id_end: usize,
    /// Whether other files than `tokenizer.json` add tokens.
    has_added: bool,
    /// Special tokens by name.
    tokens: BTreeMap<String, String>,
    /// Ids that end a completion by a file of the model, and the file.
    generation: (Vec<u32>, &'static str),
    /// The folder that errors name.
    folder: String,
}

impl HubTokenizer {
    /// Reads the tokenizer of the model in `directory`.
    ///
    /// # Errors
    /// A missing or malformed file, no end-of-sequence token.
    pub fn load(directory: &Path) -> Result<Self> {
        Self::new(&TokenizerFiles::read(directory)?, generation_stops(directory)?)
    }

    /// From files; `generation` are the ids that end a completion by a file of the model. A chat template is told that
    /// it is today.
    ///
    /// # Errors
    /// A missing or malformed file, no end-of-sequence token.
    pub fn new(files: &TokenizerFiles, generation: (Vec<u32>, &'static str)) -> Result<Self> {
        let (inner, id_end, has_added) = open(files)?;
        let (inner, tokens) = (Arc::new(inner), files.special_tokens()?);
        let parts = Parts {
            inner,
            id_end,
            has_added,
            tokens,
            generation,
            folder: files.folder().to_owned(),
        };
        Self::assemble(parts, files.template()?, TemplateDate::today())
    }

    /// The same with chats rendered in another way.
    ///
    /// # Errors
    /// No token that ends a completion, variables that the template does not read.
    pub fn with_rendering(mut self, rendering: &Rendering) -> Result<Self> {
        let Rendering { template, file, date, variables } = rendering;
        if template.is_some() || self.date_in_prompts().is_some_and(|own| own != *date) {
            let own = self.template.map(|template| template.source);
            let vocabulary = self.vocabulary;
            let given = template.as_deref().map(TemplateSource::from);
            let given = given
                .map(|source| TemplateSource { file: file.clone().unwrap_or_default(), ..source });
            let template = given.or(own);
            let tokenizer = Self::assemble(self.parts, template, *date)?;
            self = Self { vocabulary, ..tokenizer };
        }
        self.check_variables(variables, "--template-kwargs sets")?;
        Ok(Self { variables: variables.clone(), ..self })
    }

    fn assemble(
        parts: Parts,
        template: Option<TemplateSource>,
        date: TemplateDate,
    ) -> Result<Self> {
        let Parts { inner, tokens, generation, .. } = &parts;
        let template = template.map(|source| ChatTemplate { source, tokens: tokens.clone(), date });
        let mut stops = Vec::new();
        // An id without a token is never sampled.
        for (id, text) in generation.0.iter().filter_map(|id| Some((*id, inner.id_to_token(*id)?)))
        {
            stops::add(&mut stops, id, &text, generation.1);
        }
        let eos_text = tokens.get("eos_token").map_or("", String::as_str);
        let eos_token = inner.token_to_id(eos_text);
        if let Some(id) = eos_token {
            stops::add(&mut stops, id, eos_text, stops::BY_TOKENIZER);
        }
        let added = inner.get_added_tokens_decoder();
        let added = added.iter().map(|(id, token)| (token.content.as_str(), *id));
        let known = added.chain(stops.iter().map(|stop: &StopToken| (stop.text.as_str(), stop.id)));
        let turn_end = template.as_ref().and_then(|template| TurnEnd::find(template, known));
        if let Some(end) = &turn_end {
            stops::add(&mut stops, end.id, end.text.trim_start(), stops::BY_TEMPLATE);
        }
        if stops.is_empty() {
            bail!(
                "{}: the tokenizer has no end-of-sequence token; set eos_token_id in \
                 generation_config.json or eos_token in tokenizer_config.json",
                parts.folder
            );
        }
        let eos = stops.iter().map(|stop| stop.id).collect();
        let (vocabulary, variables) = (usize::MAX, Map::new());
        Ok(Self { parts, template, stops, eos, eos_token, turn_end, variables, vocabulary })
    }

    /// One above the largest id that has a token: the rows of the output layer beyond it stand for nothing.
    pub fn id_end(&self) -> usize {
        self.parts.id_end
    }

    /// Refuses, where they occur, tokens that a model with so many embeddings has none for.
    pub fn limit(&mut self, vocabulary: usize) {
        self.vocabulary = vocabulary;
    }

    /// The tokens that end a completion, each with what names it.
    pub fn stops(&self) -> &[StopToken] {
        &self.stops
    }

    /// The tokenizer's own end-of-sequence token, else the first that ends a completion.
    pub fn end_of_text(&self) -> u32 {
        self.eos_token.unwrap_or(self.eos[0])
    }

    /// The token that stands for text that the tokenizer does not know, where there is one and it ends no completion.
    pub fn unknown_token(&self) -> Option<u32> {
        let id = ["<unk>", "[UNK]"].iter().find_map(|name| self.parts.inner.token_to_id(name))?;
        (!self.eos.contains(&id)).then_some(id)
    }

    /// The chat template's text, where there is one.
    pub fn chat_template(&self) -> Option<&str> {
        self.template.as_ref().map(|template| &*template.source.usual)
    }

    /// The date that the chat template writes into prompts; none where it asks for none.
    pub fn date_in_prompts(&self) -> Option<TemplateDate> {
        let template = self.template.as_ref();
        let asks =
            |template: &&ChatTemplate| template.source.any(|text| text.contains("strftime_now"));
        template.filter(asks).map(|one| one.date)
    }

    /// The variables of the chat template in all chats.
    pub fn variables(&self) -> &Map<String, Value> {
        &self.variables
    }

    /// Whether prompts that are chats are rendered by a template of the tokenizer's own.
    pub fn has_chat_template(&self) -> bool {
        self.template.is_some()
    }

    /// The text of a prompt as the model is given it: a chat by the template, where there is one. A chat that ends with
    /// a turn of the assistant's is continued there.
    pub fn render(&self, prompt: &Prompt) -> Result<String> {
        match (prompt, &self.template) {
            (Prompt::Chat(chat), Some(template)) => {
                self.check_honoured(chat)?;
                template.prompt(&self.told(chat))
            }
            (Prompt::Chat(chat), None) => {
                self.check_honoured(chat)?;
                let text = prompt.plain();
                match prompt.prefill().is_some() || !self.knows("\n\n") {
                    true => Ok(text.strip_suffix("\n\n").unwrap_or(&text).to_owned()),
                    false => Ok(text),
                }
            }
            (Prompt::Text(text), _) => Ok(text.clone()),
        }
    }

    /// A chat with the variables of all chats.
    fn told(&self, chat: &Chat) -> Chat {
        let mut chat = chat.clone();
        chat.variables.extend(self.variables.clone());
        chat
    }

    /// The tokens of a text with their places in it.
    fn encoding(&self, text: &str, add_special_tokens: bool) -> Result<Encoding> {
        if text.len() > MAX_TEXT {
            bail!("a text of {} bytes, above the tokenizer's limit of {MAX_TEXT}", text.len());
        }
        let memory = text.len().saturating_mul(1024).saturating_add(MEMORY.1);
        let memory = memory.min(*FREE_MEMORY);
        let (inner, text) = (self.parts.inner.clone(), text.to_owned());
        let encoding = budget::within("the model's tokenizer", memory, move || {
            let encoding = inner.encode(text, add_special_tokens);
            encoding.map_err(|error| anyhow!("text cannot be tokenized: {error}"))
        })?;
        match encoding.get_ids().iter().find(|id| **id as usize >= self.vocabulary) {
            None => Ok(encoding),
            Some(id) => bail!(
                "token `{}` ({id}) is beyond the model's vocabulary of {}: the tokenizer has more tokens than the \
                 model",
                self.parts.inner.id_to_token(*id).unwrap_or_default(),
                self.vocabulary
            ),
        }
    }

    /// The text of ids as they are, tokens that end a completion included. A decoder that the library does not survive
    /// fails as any other.
    pub fn decode_all(&self, ids: &[u32]) -> Result<String> {
        let text = budget::caught("the model's tokenizer", || self.parts.inner.decode(ids, false))?;
        text.map_err(|error| anyhow!("tokens cannot be decoded: {error}"))
    }
}

impl Tokenizer for HubTokenizer {
    fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>> {
        // The template writes the special tokens itself.
        let is_templated = matches!(prompt, Prompt::Chat(_)) && self.has_chat_template();
        Ok(self.without_end(&self.encoding(&self.render(prompt)?, !is_templated)?).to_vec())
    }

    fn encode_completion(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.encoding(text, false)?.get_ids().to_vec())
    }

    fn decode(&self, ids: &[u32]) -> Result<String> {
        let is_kept = |id: &u32| !self.eos.contains(id);
        let ids: Vec<u32> = ids.iter().copied().filter(is_kept).collect();
        self.decode_all(&ids)
    }

    fn eos(&self) -> &[u32] {
        &self.eos
    }

    fn turn_end(&self) -> u32 {
        self.turn_end.as_ref().map_or_else(|| self.end_of_text(), |end| end.id)
    }
}

/// Builds the tokenizer itself, within limits; with one above its largest id, and whether other files add tokens.
fn open(files: &TokenizerFiles) -> Result<(tokenizers::Tokenizer, usize, bool)> {
    let (bytes, named) = (files.tokenizer()?.to_vec(), files.added_tokens()?);
    // Text of special tokens is then text as any other, in templates too.
    let splits_special = files.json(files::CONFIG)?["split_special_tokens"] == true;
    let shown = Path::new(files.folder()).join("tokenizer.json").display().to_string();
    let memory = bytes.len().saturating_mul(MEMORY.0).saturating_add(MEMORY.1);
    budget::within(&shown.clone(), memory, move || {
        keys_once::check(&bytes).with_context(|| shown.clone())?;
        let growth = decoder_check::check(&bytes).map_err(|error| anyhow!("{shown}: {error}"))?;
        let mut inner = tokenizers::Tokenizer::from_bytes(&bytes)
            .map_err(|error| anyhow!("{shown}: {error}"))?;
        inner.set_encode_special_tokens(splits_special);
        // Prompts are neither padded nor cut here, whatever the file says.
        let has_added = added::add(&mut inner, &named).with_context(|| shown.clone())?;
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| anyhow!("{shown}: {error}"))?;
        let (mut longest, mut id_end) = (0, 0);
        for (token, id) in inner.get_vocab(true) {
            longest = longest.max(token.len());
            id_end = id_end.max(id as usize + 1);
        }
        if longest > MAX_TOKEN {
            bail!("{shown}: a token of {longest} bytes, above the limit of {MAX_TOKEN}");
        }
        if longest as f64 * growth > MAX_DECODED {
            bail!(
                "{shown}: its decoder may expand its longest token to {:.0} bytes, above the limit of {MAX_DECODED}",
                longest as f64 * growth
            );
        }
        Ok((inner, id_end, has_added))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_core::Message;

    /// The embedded tokenizer as JSON.
    pub(super) fn embedded() -> serde_json::Value {
        serde_json::from_str(include_str!("../../../models/countdown/tokenizer.json")).unwrap()
    }

    /// A folder with the embedded tokenizer, and other files beside it or in its place.
    pub(super) fn beside_embedded(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let place = |file: &str| folder.path().join(file);
        std::fs::copy("../models/countdown/tokenizer.json", place("tokenizer.json")).unwrap();
        files.iter().for_each(|(file, text)| std::fs::write(place(file), text).unwrap());
        folder
    }

    #[test]
    #[ignore = "needs ../shared/data"]
    fn the_real_qwen_template_renders_as_transformers_does() {
        let tokenizer = HubTokenizer::load(Path::new("../../shared/data/qwen-tokenizer")).unwrap();
        let prompt = Prompt::chat([Message::user("Hi")]);
        assert_eq!(
            tokenizer.render(&prompt).unwrap(),
            "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful \
             assistant.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
        );
        assert_eq!(tokenizer.encode_completion("Hello, world!").unwrap(), [9707, 11, 1879, 0]);
        assert_eq!(tokenizer.encode_prompt(&prompt).unwrap()[0], 151_644);
        assert_eq!(tokenizer.eos(), [151_645]);
        assert_eq!(tokenizer.decode(&[9707, 11, 1879, 0, 151_645]).unwrap(), "Hello, world!");
    }

    #[test]
    fn oversized_texts_are_not_tokenized() {
        let tokenizer = HubTokenizer::load(Path::new("../models/countdown")).unwrap();
        let message =
            format!("{:#}", tokenizer.encode_completion(&"1".repeat(MAX_TEXT + 1)).unwrap_err());
        assert!(message.contains("above the tokenizer's limit"), "{message}");
    }
}
