//! The files of a tokenizer: read from a model's folder with limits, laid over others, and written again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tealight_core::names;

use tealight_system::files::{read_json, read_limited, write_atomic};

/// Largest file of a tokenizer, in bytes.
const MAX_FILE: u64 = 256 << 20;
/// Largest chat template, in bytes.
const MAX_TEMPLATE: u64 = 1 << 20;
/// Most further chat templates of a model.
const MAX_TEMPLATES: usize = 64;

/// The tokenizer itself, and what is said of it.
const TOKENIZER: &str = "tokenizer.json";
pub(super) const CONFIG: &str = "tokenizer_config.json";
/// Keys of further tokens by name, before transformers 5 and since.
pub(super) const EXTRA_TOKENS: [&str; 2] =
    ["extra_special_tokens", "model_specific_special_tokens"];
pub(super) const TOKENS: &str = "special_tokens_map.json";
/// The chat template in a file of its own, as processors of older versions of transformers have it, and the folder of
/// further ones.
const TEMPLATE: &str = "chat_template.jinja";
const OLD_TEMPLATE: &str = "chat_template.json";
const FOLDER: &str = "additional_chat_templates";
/// The name of the template for chats with tools.
const WITH_TOOLS: &str = "tool_use";

/// Files of a tokenizer, not all of which every model has.
pub(crate) const FILES: [&str; 8] = [
    TOKENIZER,
    CONFIG,
    TOKENS,
    super::added::FILE,
    TEMPLATE,
    OLD_TEMPLATE,
    "vocab.json",
    "merges.txt",
];

/// Whether a file of a repository is one of `FILES` or a further chat template.
pub fn is_tokenizers(name: &str) -> bool {
    FILES.contains(&name) || is_additional(name)
}

fn is_additional(name: &str) -> bool {
    let file = name.strip_prefix(FOLDER).and_then(|file| file.strip_prefix('/'));
    file.is_some_and(|file| file.ends_with(".jinja") && names::inside(Path::new(""), file).is_ok())
}

/// The text of a chat template, and of another one for chats with tools.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct TemplateSource {
    /// The file that it is from, which errors name.
    pub(super) file: String,
    pub(super) usual: Arc<str>,
    pub(super) with_tools: Option<Arc<str>>,
}

impl From<&str> for TemplateSource {
    fn from(usual: &str) -> Self {
        Self { file: TEMPLATE.into(), usual: usual.into(), with_tools: None }
    }
}

impl TemplateSource {
    /// Whether one of them has a text that `is_wanted`.
    pub(super) fn any(&self, is_wanted: impl Fn(&str) -> bool) -> bool {
        is_wanted(&self.usual) || self.with_tools.as_deref().is_some_and(is_wanted)
    }
}

/// The files of a tokenizer, by name.
#[derive(Debug, Clone)]
pub struct TokenizerFiles {
    files: BTreeMap<String, Vec<u8>>,
    /// The folder that errors name.
    folder: String,
}

impl PartialEq for TokenizerFiles {
    /// The same files, wherever they lie.
    fn eq(&self, other: &Self) -> bool {
        self.files == other.files
    }
}

impl TokenizerFiles {
    /// Those that lie in `folder`.
    ///
    /// # Errors
    /// A file that is too large or cannot be read.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        let mut read = |name: String, limit: u64| -> Result<()> {
            files.insert(name.clone(), read_limited(&folder.join(&name), limit)?);
            Ok(())
        };
        for name in FILES.into_iter().filter(|name| folder.join(name).exists()) {
            let limit = if name.starts_with("chat_template") { MAX_TEMPLATE } else { MAX_FILE };
            read(name.to_owned(), limit)?;
        }
        if let Ok(entries) = std::fs::read_dir(folder.join(FOLDER)) {
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let names = names.map(|name| format!("{FOLDER}/{name}"));
            for (index, name) in names.filter(|name| is_additional(name)).enumerate() {
                if index == MAX_TEMPLATES {
                    bail!(
                        "{}: more than {MAX_TEMPLATES} chat templates",
                        folder.join(FOLDER).display()
                    );
                }
                read(name, MAX_TEMPLATE)?;
            }
        }
        Ok(Self { files, folder: folder.display().to_string() })
    }

    /// These files in place of those of `base`. A whole tokenizer takes the place of all.
    pub fn over(self, base: Self) -> Self {
        if self.files.is_empty() {
            return base;
        }
        if self.files.contains_key(TOKENIZER) {
            return self;
        }
        let mut files = base.files;
        files.extend(self.files);
        Self { files, folder: self.folder }
    }

    /// The names of files that a tokenizer may have, those in folders as far as they are there.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let additional = self.files.keys().map(String::as_str).filter(|name| is_additional(name));
        FILES.into_iter().chain(additional)
    }

    /// The files that are there, with their bytes.
    pub fn contents(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The folder that they are from.
    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    /// `tokenizer.json`.
    pub(super) fn tokenizer(&self) -> Result<&[u8]> {
        let refused = |what: &str| {
            anyhow!(
                "{0}/{TOKENIZER}: {what}; transformers writes it: python -c \"from transformers import AutoTokenizer as \
                 T; T.from_pretrained('{0}').save_pretrained('{0}')\"",
                self.folder
            )
        };
        let file =
            self.files.get(TOKENIZER).ok_or_else(|| refused("a model directory needs it"))?;
        let config = self.json(CONFIG)?;
        let is_llama = |class: &str| class.starts_with("LlamaTokenizer");
        // transformers builds this class anew, by what its configuration says.
        if config["add_prefix_space"] == false
            && config["tokenizer_class"].as_str().is_some_and(is_llama)
        {
            let file = self.json(TOKENIZER)?;
            let parts = format!("{}{}", file["normalizer"], file["pre_tokenizer"]);
            if ["Prepend", "first", "always"].iter().any(|it| parts.contains(&format!("\"{it}\"")))
            {
                return Err(refused(
                    "it puts a blank before a text, and add_prefix_space is false",
                ));
            }
        }
        Ok(file)
    }

    /// A JSON file; null where there is none.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn json(&self, name: &str) -> Result<Value> {
        let Some(bytes) = self.files.get(name) else { return Ok(Value::Null) };
        serde_json::from_slice(bytes).with_context(|| format!("{}/{name}: not JSON", self.folder))
    }

    /// The chat template, by the rules of transformers: a file of its own, else the one in `tokenizer_config.json`,
    /// else that of an older processor; and the one for chats with tools, where it is another.
    pub(super) fn template(&self) -> Result<Option<TemplateSource>> {
        let file = |name: &str| -> Result<Option<Arc<str>>> {
            let Some(bytes) = self.files.get(name) else { return Ok(None) };
            let text = std::str::from_utf8(bytes);
            let text = text.with_context(|| format!("{}/{name}: not UTF-8", self.folder))?;
            Ok(Some(text.into()))
        };
        for name in [TEMPLATE.to_owned(), format!("{FOLDER}/default.jinja")] {
            if let Some(usual) = file(&name)? {
                let with_tools = file(&format!("{FOLDER}/{WITH_TOOLS}.jinja"))?;
                return Ok(Some(TemplateSource { file: name, usual, with_tools }));
            }
        }
        for name in [CONFIG, OLD_TEMPLATE] {
            let template = &self.json(name)?["chat_template"];
            let (usual, with_tools) = (named(template, "default"), named(template, WITH_TOOLS));
            match usual.or(template.as_str()) {
                Some(usual) => {
                    let with_tools = with_tools.map(Into::into);
                    return Ok(Some(TemplateSource {
                        file: name.into(),
                        usual: usual.into(),
                        with_tools,
                    }));
                }
                None if template.is_null() => {}
                None => bail!(
                    "{}/{name}: several chat templates, none of which is called default: rename one",
                    self.folder
                ),
            }
        }
        Ok(None)
    }

    /// Replaces the chat template: what is saved has this one alone.
    ///
    /// # Errors
    /// A `tokenizer_config.json` that is not JSON.
    pub fn set_template(&mut self, text: &str) -> Result<()> {
        self.files.retain(|name, _| name != OLD_TEMPLATE && !is_additional(name));
        let mut config = self.json(CONFIG)?;
        if config.as_object_mut().and_then(|config| config.remove("chat_template")).is_some() {
            self.files.insert(CONFIG.to_owned(), serde_json::to_vec_pretty(&config)?);
        }
        self.files.insert(TEMPLATE.to_owned(), text.into());
        Ok(())
    }

    /// The special tokens that have a name, such as `eos_token`: what templates may name. As in transformers, those of
    /// `special_tokens_map.json` count only beside a `tokenizer_config.json` without `added_tokens_decoder`, and first.
    pub(super) fn special_tokens(&self) -> Result<BTreeMap<String, String>> {
        let (map, config) = (self.json(TOKENS)?, self.json(CONFIG)?);
        let is_older = config["added_tokens_decoder"].is_null();
        let mut tokens = BTreeMap::new();
        let files: &[&Value] = if is_older { &[&config, &map] } else { &[&config] };
        for file in files {
            let named = file.as_object().into_iter().flatten();
            let named = named.filter(|(name, _)| name.ends_with("_token"));
            let extra = EXTRA_TOKENS.iter().flat_map(|key| file[*key].as_object()).flatten();
            for (name, token) in named.chain(extra) {
                match token.as_str().or_else(|| token.get("content")?.as_str()) {
                    Some(text) => tokens.insert(name.clone(), text.to_owned()),
                    None if token.is_null() => tokens.remove(name),
                    None => None,
                };
            }
        }
        Ok(tokens)
    }

    /// `tokenizer_config.json` with this chat template in it.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn config_with(&self, template: Option<&str>) -> Result<Value> {
        let mut config = self.json(CONFIG)?;
        if let Some(template) = template {
            config["chat_template"] = json!(template);
        }
        Ok(config)
    }

    /// Writes them to `folder`.
    ///
    /// # Errors
    /// A folder that cannot be written, a full disk.
    pub fn save(&self, folder: &Path) -> Result<()> {
        if self.files.keys().any(|name| is_additional(name)) {
            let templates = folder.join(FOLDER);
            std::fs::create_dir_all(&templates).with_context(|| templates.display().to_string())?;
        }
        for (name, bytes) in &self.files {
            write_atomic(&folder.join(name), bytes)?;
        }
        Ok(())
    }
}

/// The template of this name among several: a list of names and templates, or an object.
fn named<'a>(templates: &'a Value, name: &str) -> Option<&'a str> {
    match templates {
        Value::Array(all) => all.iter().find(|one| one["name"] == name)?["template"].as_str(),
        other => other.get(name)?.as_str(),
    }
}

/// The ids that end a completion by `generation_config.json` in `folder`, or where that has none by `config.json`;
/// with the name of the file.
///
/// # Errors
/// A file that is not JSON.
pub fn generation_stops(folder: &Path) -> Result<(Vec<u32>, &'static str)> {
    for file in ["generation_config.json", "config.json"] {
        let path = folder.join(file);
        let config = if path.exists() { read_json(&path, MAX_FILE)? } else { Value::Null };
        let as_id = |value: &Value| u32::try_from(value.as_u64()?).ok();
        let ids: Vec<u32> = match config.get("eos_token_id") {
            Some(Value::Array(ids)) => ids.iter().filter_map(as_id).collect(),
            Some(id) => as_id(id).into_iter().collect(),
            None => Vec::new(),
        };
        if !ids.is_empty() {
            return Ok((ids, file));
        }
    }
    Ok((Vec::new(), ""))
}
