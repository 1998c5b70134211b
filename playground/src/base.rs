//! The embedded model, from its bytes: architecture, weights and tokenizer.

use anyhow::{Context, Result, bail};
use candle_core::{Device, safetensors};
use serde_json::Value;
use tealight_models::{CONFIG, TASKS_FILES};
use tealight_nn::device::Placement;
use tealight_nn::model::Architecture;
use tealight_nn::model::weights::{WHOLE, Weights};
use tealight_nn::tokenizer::{HubTokenizer, TokenizerFiles};

use crate::settings::MODEL;

/// The model that training starts from.
pub(crate) struct Base {
    /// How its decoder is put together.
    pub(crate) architecture: Architecture,
    /// Its weights, in f32.
    pub(crate) weights: Weights,
    /// Its tokenizer.
    pub(crate) tokenizer: HubTokenizer,
}

impl Base {
    /// Reads the embedded model.
    ///
    /// # Errors
    /// Files that do not belong together.
    pub(crate) fn embedded() -> Result<Self> {
        let config: Value = serde_json::from_slice(TASKS_FILES[CONFIG].1)?;
        let mut architecture = Architecture::from_config(&config)?;
        let files = TokenizerFiles::in_memory(TASKS_FILES, MODEL);
        // The token that ends a completion is named by tokenizer_config.json as well.
        let mut tokenizer = HubTokenizer::new(&files, (Vec::new(), ""))?;
        architecture.output_size = tokenizer.id_end().min(architecture.vocab_size);
        tokenizer.limit(architecture.vocab_size);
        let (_, bytes) = TASKS_FILES.into_iter().find(|(name, _)| *name == WHOLE).context(WHOLE)?;
        let stored = safetensors::load_buffer(bytes, &Device::Cpu)?;
        let mut weights = Weights::new();
        for (name, shape) in architecture.tensors() {
            match stored.get(&name) {
                Some(tensor) if tensor.dims() == shape => {
                    weights.insert(name, Placement::F32.place(tensor)?);
                }
                _ => bail!("{MODEL}: no tensor `{name}` of shape {shape:?}"),
            }
        }
        Ok(Self { architecture, weights, tokenizer })
    }
}
