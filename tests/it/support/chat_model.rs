//! A small random model with a chat template, for what depends on tokenizers and templates.

use std::path::Path;

use serde_json::{Value, json};

use super::binary::Folder;

/// The template of the ChatML format.
pub(crate) const CHATML: &str = "{% for m in messages %}\
     {{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}\
     {% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";
/// The ids of its special tokens.
pub(crate) const END_OF_TEXT: u32 = 1;
pub(crate) const END_OF_TURN: u32 = 3;

/// A copy of `micro-qwen2` in a folder, of which files may be changed: 128 embeddings, 101 tokens.
pub(crate) struct ChatModel {
    /// Where it is.
    pub(crate) path: String,
}

impl ChatModel {
    /// The copy with [`CHATML`], whose tokenizer ends with `<|im_end|>` and whose generation with `<|endoftext|>`.
    pub(crate) fn new(folder: &Folder, name: &str) -> Self {
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/conformance/micro-qwen2");
        let model = Self { path: folder.path(name) };
        std::fs::create_dir_all(&model.path).expect("a folder");
        for file in ["config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
        {
            std::fs::copy(Path::new(source).join(file), model.file(file)).expect("copied");
        }
        model.change("tokenizer_config.json", |config| config["eos_token"] = json!("<|im_end|>"));
        model.write("generation_config.json", &json!({"eos_token_id": END_OF_TEXT}).to_string());
        model.write("chat_template.jinja", CHATML);
        model
    }

    pub(crate) fn file(&self, name: &str) -> String {
        format!("{}/{name}", self.path)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("written");
    }

    /// Changes a JSON file.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut value = super::runs::json(self.file(name));
        change(&mut value);
        self.write(name, &value.to_string());
    }

    /// Adds tokens to the tokenizer, from the first id that is free.
    pub(crate) fn add_tokens(&self, tokens: &[(u32, &str, bool)]) {
        self.change("tokenizer.json", |tokenizer| {
            let added = tokenizer["added_tokens"].as_array_mut().expect("a list");
            for (id, content, special) in tokens {
                added.push(
                    json!({"id": id, "content": content, "special": special, "lstrip": false,
                    "rstrip": false, "single_word": false, "normalized": false}),
                );
            }
        });
    }
}
