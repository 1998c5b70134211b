//! A model that is sampled from and not trained: one of ours, or one of candle-transformers'.

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::Device;
use serde_json::Value;

use tealight_formats::adapter::Adapter;
use tealight_formats::gguf::Gguf;
use tealight_formats::hub;
use tealight_formats::pretrained::Pretrained;
use tealight_nn::device::Precision;
use tealight_nn::generate::{
    CandleModel, CandleSampler, Finish, LocalSampler, RngKey, Sampler, SamplingParams,
    candle_families, stream,
};
use tealight_nn::model::{Architecture, Decoder, unread, weights};
use tealight_nn::tokenizer::{HubTokenizer, Rendering};
use tealight_system::files::{MAX_CONFIG, read_json};

/// A model, its tokenizer and how long its sequences may be.
pub struct Sampled {
    /// The tokenizer of the model, with the chat template.
    pub tokenizer: HubTokenizer,
    /// Most tokens of a prompt and its completion together.
    pub context: usize,
    /// A checksum of all that decides its samples, where it was kept.
    pub fingerprint: Option<String>,
    engine: Engine,
}

enum Engine {
    Ours(Box<Decoder>),
    Candle(CandleModel),
}

impl Sampled {
    /// A model that could be trained, its weights packed for sampling.
    pub fn ours(mut model: Pretrained) -> Result<Self> {
        let decoder = Box::new(model.take_sampling_decoder()?);
        let context = model.architecture.max_positions;
        let (fingerprint, tokenizer) =
            (model.kept_fingerprint().map(str::to_owned), model.tokenizer);
        Ok(Self { tokenizer, context, fingerprint, engine: Engine::Ours(decoder) })
    }

    /// A model in Hub layout whose family candle-transformers knows and we do not; none where it is of another kind.
    ///
    /// # Errors
    /// No such model, a configuration that cannot be read, weights that do not fit it.
    pub fn open_candle_transformers(
        name: &str,
        precision: Precision,
        device: &Device,
    ) -> Result<Option<Self>> {
        if hub::is_embedded(name) || hub::gguf_file(name)?.is_some() {
            return Ok(None);
        }
        let files = hub::resolve(name)?;
        let path = files.directory.join("config.json");
        if !path.exists() || Adapter::base_of(&files.directory)?.is_some() {
            return Ok(None);
        }
        let config: Value = read_json(&path, MAX_CONFIG)?;
        let family = config["model_type"].as_str().unwrap_or_default();
        if Architecture::knows(family) || !candle_families().any(|known| known == family) {
            return Ok(None);
        }
        Self::by_candle(&files.directory, &config, precision, device).map(Some)
    }

    /// The model in `directory` by candle-transformers, whether we know its family or not.
    pub fn by_candle(
        directory: &Path,
        config: &Value,
        precision: Precision,
        device: &Device,
    ) -> Result<Self> {
        if precision.base_dtype.is_some() || precision.rollout_dtype.is_some() {
            bail!(
                "--base-dtype and --rollout-dtype are for models that we can train; a GGUF file has --quantized"
            );
        }
        let model = weights::load_all(directory, precision.placement(device)?)
            .and_then(|weights| CandleModel::new(config, weights, device))
            .with_context(|| directory.display().to_string())
            .or_else(|error| unread::explain_quantized(directory, config, error))?;
        Self::with_candle(model, directory)
    }

    /// A GGUF file with its weights as they are.
    pub fn quantized(name: &str, precision: Precision, device: &Device) -> Result<Self> {
        if precision != Precision::default() {
            bail!(
                "--quantized takes weights as they are: leave --dtype, --base-dtype and --rollout-dtype out"
            );
        }
        let Some(path) = hub::gguf_file(name)? else {
            bail!("model `{name}`: --quantized is for GGUF files");
        };
        // With our limits before theirs, and every tensor of the shape that the header says.
        let file = Gguf::open(&path)?;
        let model = file.to_hub()?;
        file.checked_tensors(&Architecture::from_config(&model.config)?)?;
        let folder = model.unpacked()?;
        Self::with_candle(CandleModel::quantized(&path, &model.config, device)?, folder.path())
    }

    fn with_candle(mut model: CandleModel, tokenizer: &Path) -> Result<Self> {
        let tokenizer = HubTokenizer::load(tokenizer)?;
        model.limit(tokenizer.id_end());
        let context = model.max_positions();
        Ok(Self { tokenizer, context, fingerprint: None, engine: Engine::Candle(model) })
    }

    /// The same with chats rendered in another way.
    ///
    /// # Errors
    /// No token that ends a completion, variables that the template does not read.
    pub fn with_rendering(self, rendering: &Rendering) -> Result<Self> {
        let tokenizer = self.tokenizer.with_rendering(rendering)?;
        Ok(Self { tokenizer, ..self })
    }

    /// The decoder of candle-transformers, where that is what samples.
    pub fn candle(&self) -> Option<&CandleModel> {
        match &self.engine {
            Engine::Ours(_) => None,
            Engine::Candle(model) => Some(model),
        }
    }

    /// Our decoder, which gives log-probabilities.
    pub fn decoder(&self) -> Option<&Decoder> {
        match &self.engine {
            Engine::Ours(decoder) => Some(decoder),
            Engine::Candle(_) => None,
        }
    }

    /// A sampler of the model, with at most so many sequences at a time.
    pub fn sampler(&self, max_rows: usize) -> Box<dyn Sampler + '_> {
        match &self.engine {
            Engine::Ours(decoder) => Box::new(LocalSampler { decoder, max_rows }),
            Engine::Candle(model) => Box::new(CandleSampler { model, max_rows }),
        }
    }

    /// Draws a completion of `prompt` token by token; see [`stream`].
    ///
    /// # Errors
    /// A prompt that is empty or does not fit, an error of `sink`.
    pub fn stream(
        &self,
        prompt: &[u32],
        params: &SamplingParams,
        rng_key: RngKey,
        sink: &mut dyn FnMut(u32, f32) -> Result<()>,
    ) -> Result<Finish> {
        match &self.engine {
            Engine::Ours(decoder) => stream(decoder, prompt, params, rng_key, sink),
            Engine::Candle(model) => model.stream(prompt, params, rng_key, sink),
        }
    }
}
