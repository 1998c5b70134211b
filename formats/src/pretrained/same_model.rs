//! Whether the weights in a folder are a policy of a model: the same weights mean something else with another
//! configuration, vocabulary or adapter.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use serde_json::Value;

use super::Pretrained;
use crate::adapter::{self, Adapter, LoraOptions};
use tealight_core::run_folder::FINAL;
use tealight_nn::model::weights::Weights;
use tealight_nn::model::{Architecture, stored_head};
use tealight_nn::tokenizer::TokenizerFiles;

impl Pretrained {
    /// The weights in `directory` that a policy of this model may start from: those of an adapter with these options,
    /// or all.
    ///
    /// # Errors
    /// Another model or adapter, no model at all.
    pub fn weights_to_start_from(
        &self,
        lora: &LoraOptions,
        directory: &Path,
        device: &Device,
    ) -> Result<Weights> {
        let is_adapter = directory.join(adapter::CONFIG).exists();
        let inner = directory.join(FINAL);
        if !is_adapter && directory.join("config.toml").exists() && inner.is_dir() {
            bail!("the folder of a run: name its model, {}", inner.display());
        }
        match (is_adapter, lora.use_peft) {
            (true, false) => bail!("an adapter: add --use-peft"),
            (false, true) => bail!("no adapter (no {}): leave --use-peft out", adapter::CONFIG),
            (true, true) => {
                let start = Adapter::load(directory, &self.architecture, device)?;
                lora.refuse_other(&start, &self.architecture)?;
                Ok(start.weights)
            }
            (false, false) => {
                self.refuse_other_in(directory)?;
                self.trained_weights(false, directory, device)
            }
        }
    }

    /// Refuses another model whose weights are to be used as this one's: the same weights mean something else with
    /// another configuration or vocabulary.
    ///
    /// # Errors
    /// The keys that differ.
    pub fn refuse_other(&self, other: &Self) -> Result<()> {
        let parts = (&other.architecture, &other.config, &other.tokenizer_files);
        self.refuse_parts(parts).with_context(|| other.name.clone())
    }

    /// The same of the model whose files lie in `directory`; those that are not there are this model's.
    ///
    /// # Errors
    /// The keys that differ, files that cannot be read.
    pub fn refuse_other_in(&self, directory: &Path) -> Result<()> {
        let (mut architecture, mut config) = (self.architecture.clone(), self.config.clone());
        let file = directory.join("config.json");
        if file.exists() {
            (architecture, config) = Architecture::read(&file)?;
            stored_head::untie(directory, &mut architecture)?;
        }
        let files = TokenizerFiles::read(directory)?;
        self.refuse_parts((&architecture, &config, &files))
            .with_context(|| directory.display().to_string())
    }

    fn refuse_parts(
        &self,
        (architecture, config, files): (&Architecture, &Value, &TokenizerFiles),
    ) -> Result<()> {
        // What a tokenizer leaves unused, and how far positions may go, changes no output.
        let own = &self.architecture;
        let (output_size, max_positions) = (own.output_size, own.max_positions);
        if (Architecture { output_size, max_positions, ..architecture.clone() }) != *own {
            let keys = config.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
            let differing = keys.filter(|key| config[*key] != self.config[*key]);
            let differing = differing.take(8).collect::<Vec<_>>().join(", ");
            bail!(
                "another model than {}: its config.json or its output layer differs ({differing})",
                self.name
            );
        }
        let words = |files: &TokenizerFiles| -> Result<[Value; 2]> {
            let tokenizer = files.json("tokenizer.json")?;
            Ok([tokenizer["model"]["vocab"].clone(), tokenizer["added_tokens"].clone()])
        };
        let is_there = files.contents().any(|(name, _)| name == "tokenizer.json");
        if is_there && *files != self.tokenizer_files {
            let [own, other] = [words(&self.tokenizer_files)?, words(files)?];
            if own[0] != other[0] || ids(&own[1]) != ids(&other[1]) {
                bail!("its tokenizer.json has other tokens than that of {}", self.name);
            }
        }
        Ok(())
    }
}

/// The ids and texts of added tokens, without what newer versions write beside them.
fn ids(added: &Value) -> Vec<(&Value, &Value)> {
    added.as_array().into_iter().flatten().map(|token| (&token["id"], &token["content"])).collect()
}
