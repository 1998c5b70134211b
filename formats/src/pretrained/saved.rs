//! A model with its tokenizer to the files that transformers, vLLM, llama.cpp and Ollama read.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use candle_core::{DType, Tensor};
use serde_json::{Value, json};

use super::{GENERATION, Pretrained};
use crate::gguf::GgufType;
use tealight_nn::model::weights::{self, Weights};
use tealight_nn::tokenizer::Tokenizer;
use tealight_system::files::write_atomic;

impl Pretrained {
    /// Writes `weights` with this model's config and tokenizer as one GGUF file to `directory`, and a `Modelfile` for
    /// Ollama beside it; returns the file.
    ///
    /// # Errors
    /// A family or tokenizer that GGUF has no name for, a directory that cannot be written, a full disk.
    pub fn save_gguf(
        &self,
        weights: &Weights,
        kind: GgufType,
        directory: &Path,
    ) -> Result<PathBuf> {
        tealight_system::files::writable_directory(directory)?;
        self.check_copyable()?;
        let files = &self.tokenizer_files;
        let settings = files.config_with(self.tokenizer.chat_template())?;
        let mut config = self.config.clone();
        config["eos_token_id"] = json!(self.tokenizer.end_of_text());
        config["stop_token_ids"] = json!(self.tokenizer.eos());
        config["turn_end_token_id"] = json!(self.tokenizer.turn_end());
        let path = directory.join(kind.file_name());
        let tokenizer = match self.tokenizer.with_added_tokens()? {
            Some(tokenizer) => tokenizer,
            None => files.json("tokenizer.json")?,
        };
        let parts = (&config, &tokenizer, &settings);
        crate::gguf::write(&path, (&self.architecture, weights), parts, kind)
            .with_context(|| self.name.clone())?;
        let mut text = format!("FROM ./{}\n", kind.file_name());
        for end in self.tokenizer.eos() {
            let end = self.tokenizer.decode_all(&[*end])?;
            text.push_str(&format!("PARAMETER stop {}\n", json!(end)));
        }
        write_atomic(&directory.join("Modelfile"), text.as_bytes())?;
        Ok(path)
    }

    /// Writes `weights` with this model's config and tokenizer to `directory`, in Hub layout.
    pub fn save(&self, weights: &Weights, directory: &Path) -> Result<()> {
        tealight_system::files::writable_directory(directory)?;
        let mut config = self.config.clone();
        // The weights are plain here, whatever they were read from.
        config.as_object_mut().map(|config| config.shift_remove("quantization_config"));
        let dtype = match weights.values().next().map(Tensor::dtype) {
            Some(DType::BF16) => "bfloat16",
            Some(DType::F16) => "float16",
            _ => "float32",
        };
        for key in ["torch_dtype", "dtype"] {
            if config.get(key).is_some() {
                config[key] = json!(dtype);
            }
        }
        let text = |value: &Value| -> Result<Vec<u8>> {
            Ok((serde_json::to_string_pretty(value)? + "\n").into_bytes())
        };
        self.check_copyable()?;
        self.tokenizer_files.save(directory)?;
        write_atomic(&directory.join(GENERATION), &text(&self.saved_generation_config())?)?;
        // Weights before the config, so that a directory with a config is whole.
        weights::save(weights, &directory.join(weights::WHOLE))?;
        write_atomic(&directory.join("config.json"), &text(&config)?)
    }

    /// `generation_config.json` with every token that ends a completion: other programs stop at these alone.
    fn saved_generation_config(&self) -> Value {
        let mut config = self.generation_config.clone();
        let eos = self.tokenizer.eos();
        let (stops, source) = &self.generation_stops;
        let names_all = *source == GENERATION && eos.iter().all(|id| stops.contains(id));
        if let (false, Some(config)) = (names_all, config.as_object_mut()) {
            config.insert("eos_token_id".into(), json!(eos));
        }
        config
    }
}
