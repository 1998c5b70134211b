//! A model with its tokenizer to the same fitted to each other, with words on what its files have that does not fit.

use serde_json::Value;

use super::{GENERATION, Pretrained};

impl Pretrained {
    /// With the output layer and the tokenizer fitted to each other: ids without a token are not sampled, and tokens
    /// without an embedding are refused where they occur.
    pub(super) fn fitted(mut self) -> Self {
        let (rows, ids) = (self.architecture.vocab_size, self.tokenizer.id_end());
        self.architecture.output_size = ids.min(rows);
        self.tokenizer.limit(rows);
        if ids > rows {
            tracing::warn!(
                "{}: the tokenizer has ids up to {}, the model embeddings up to {}: a prompt with a token beyond them is \
                 refused",
                self.name,
                ids - 1,
                rows - 1
            );
        }
        self.note_tokens();
        self
    }

    /// Says what the model's files have that is not as they say: ids that no token has, prompts that would end at once.
    fn note_tokens(&self) {
        let end = self.architecture.output_size as u64;
        // Of an id -1, as the first Llamas have it, nothing is meant.
        let is_foreign = |id: &&Value| {
            !id.is_null() && id.as_i64() != Some(-1) && id.as_u64().is_none_or(|id| id >= end)
        };
        for (file, config) in [("config.json", &self.config), (GENERATION, &self.generation_config)]
        {
            for key in ["eos_token_id", "pad_token_id"] {
                let value = &config[key];
                let ids = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                if let Some(id) = ids.iter().find(is_foreign) {
                    tracing::warn!(
                        "{}: {file} has `{key}` {id}, and the tokens have the ids 0 to {}: it has no effect here; \
                         correct the file",
                        self.name,
                        end.saturating_sub(1)
                    );
                }
            }
        }
        if let Some(token) = self.tokenizer.appended_end()
            && !self.tokenizer.has_chat_template()
        {
            tracing::info!(
                "  its tokenizer ends every text with `{}`; prompts are given without it, or the model would begin \
                 another text",
                token.escape_debug()
            );
        }
    }
}
