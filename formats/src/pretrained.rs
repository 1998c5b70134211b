//! A model with its tokenizer, loaded from and saved to the layout of the Hub.

mod fitted;
mod same_model;
mod saved;
mod weight_handover;

use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor};
use serde_json::{Value, json};

use crate::adapter::{self, Adapter};
use crate::gguf::Gguf;
use crate::hub;
pub use tealight_nn::backend::int8;
use tealight_nn::device::{Dtype, Precision};
use tealight_nn::model::weights::{self, Weights};
use tealight_nn::model::{Architecture, Decoder, stored_head, unread};
use tealight_nn::policy::{self, Policy};
use tealight_nn::tokenizer::{HubTokenizer, Rendering, TokenizerFiles, generation_stops};
use tealight_system::files::{MAX_CONFIG, own_file, read_json};
use tealight_system::machine;

/// The file that says how to sample from a model.
const GENERATION: &str = "generation_config.json";

/// Everything that is needed to sample from a model, to train it, and to save the result.
pub struct Pretrained {
    /// The name it was asked for by.
    pub name: String,
    /// How its decoder is put together.
    pub architecture: Architecture,
    /// The precision of weights and of computing.
    pub precision: Precision,
    /// The tensors of the model by name; empty once a policy has taken them.
    pub weights: Weights,
    /// The adapter on top of them.
    pub adapter: Option<Adapter>,
    /// The tokenizer, with the chat template and the stop tokens.
    pub tokenizer: HubTokenizer,
    config: Value,
    generation_config: Value,
    tokenizer_files: TokenizerFiles,
    /// The ids that end a completion by a file of the model, and the file.
    generation_stops: (Vec<u32>, &'static str),
    /// The chat template that was given in place of the model's own.
    given_template: Option<String>,
    /// Why its files are not copied: one of them is a link out of the folder.
    foreign: Option<String>,
    /// The checksum of weights that a policy took over.
    fingerprint: Option<String>,
}

impl Pretrained {
    /// Loads the model called `name`: a directory, a Hub id or the embedded one.
    pub fn load(name: &str, precision: Precision, device: &Device) -> Result<Self> {
        if let Some(path) = hub::gguf_file(name)? {
            return Self::load_gguf(name, &path, precision, device);
        }
        let files = hub::resolve(name)?;
        if let Some(base) = Adapter::base_of(&files.directory)? {
            refuse_base(name, &files.directory, &base)?;
            let fix = || {
                format!(
                    "{name} is an adapter of `{base}`, which cannot be loaded; name its base with --model BASE \
                     --adapter {name}"
                )
            };
            if let Some(path) = hub::gguf_file(&base).with_context(fix)? {
                let model = Self::load_gguf(&base, &path, precision, device).with_context(fix)?;
                return model.with_adapter(name, &files.directory, device);
            }
            let base_files = hub::resolve(&base).with_context(fix)?;
            if Adapter::base_of(&base_files.directory)?.is_some() {
                bail!(
                    "{name}: its base `{base}` is an adapter itself; merge that one first (tealight export --merge)"
                );
            }
            let model = Self::load_whole(&base, &base_files.directory, precision, device)
                .with_context(fix)?;
            return model.with_adapter(name, &files.directory, device);
        }
        Self::load_whole(name, &files.directory, precision, device)
    }

    /// Loads a GGUF file: its tensors dequantised, its tokenizer as files of the Hub's.
    fn load_gguf(name: &str, path: &Path, precision: Precision, device: &Device) -> Result<Self> {
        let file = Gguf::open(path)?;
        let hub = file.to_hub()?;
        let at = || path.display().to_string();
        let architecture = Architecture::from_config(&hub.config).with_context(at)?;
        let weights = file.weights(&architecture, precision.placement(device)?)?;
        let folder = hub.unpacked()?;
        let parts = (architecture, precision);
        Self::assemble(name, parts, hub.config, weights, folder.path()).with_context(at)
    }

    /// Loads what is no adapter.
    fn load_whole(
        name: &str,
        directory: &Path,
        precision: Precision,
        device: &Device,
    ) -> Result<Self> {
        let (mut architecture, mut config) = Architecture::read(&directory.join("config.json"))?;
        if stored_head::untie(directory, &mut architecture)? {
            config["tie_word_embeddings"] = json!(false);
        }
        let weights = weights::load(directory, &architecture, precision.placement(device)?)
            .or_else(|error| unread::explain_quantized(directory, &config, error))?;
        let mut model =
            Self::assemble(name, (architecture, precision), config, weights, directory)?;
        let names = weights::file_names(directory)?;
        let of_weights = || foreign_file(directory, names.iter().map(String::as_str));
        model.foreign = model.foreign.or_else(of_weights);
        Ok(model)
    }

    /// The same model with the adapter called `adapter`: a directory or a Hub id.
    pub fn adapted(self, adapter: &str, device: &Device) -> Result<Self> {
        let files = hub::resolve(adapter)?;
        self.with_adapter(adapter, &files.directory, device)
    }

    fn with_adapter(self, name: &str, directory: &Path, device: &Device) -> Result<Self> {
        if self.adapter.is_some() {
            bail!("{name}: an adapter of an adapter; merge the first (tealight export --merge)");
        }
        let adapter = Some(Adapter::load(directory, &self.architecture, device)?);
        adapter::warn_of_base(name, directory, self.precision.base_dtype)?;
        // The adapter was trained on chats as the tokenizer and the template beside it write them.
        let files = TokenizerFiles::read(directory)?.over(self.tokenizer_files.clone());
        let names = [adapter::CONFIG, adapter::WEIGHTS].into_iter().chain(files.names());
        let foreign = self.foreign.clone().or_else(|| foreign_file(directory, names));
        let model = Self { name: name.to_owned(), adapter, foreign, ..self };
        if files == model.tokenizer_files {
            return Ok(model);
        }
        tracing::info!("  with the tokenizer files in {}", directory.display());
        let tokenizer = HubTokenizer::new(&files, model.generation_stops.clone())?;
        Ok(Self { tokenizer, tokenizer_files: files, ..model }.fitted())
    }

    /// The same with chats rendered in another way; a template that is given is saved with the model's files.
    ///
    /// # Errors
    /// No token that ends a completion, variables that the template does not read.
    pub fn with_rendering(mut self, rendering: &Rendering) -> Result<Self> {
        if let Some(template) = &rendering.template {
            self.tokenizer_files.set_template(template)?;
            self.given_template = Some(template.clone());
        }
        self.tokenizer = self.tokenizer.with_rendering(rendering)?;
        Ok(self)
    }

    /// Fresh weights for the architecture in the file `config`, with the tokenizer in `tokenizer`.
    ///
    /// # Errors
    /// A config that is not supported, a tokenizer that does not load.
    pub fn from_scratch(
        config: &Path,
        tokenizer: &Path,
        seed: u64,
        precision: Precision,
        device: &Device,
    ) -> Result<Self> {
        let (architecture, value) = Architecture::read(config)?;
        let bytes = architecture.parameters().saturating_mul(4);
        if let Some(free) =
            machine::available_memory().filter(|free| device.is_cpu() && bytes > *free)
        {
            bail!(
                "{}: its weights take {bytes} bytes of memory, and {free} are free",
                config.display()
            );
        }
        let placement = precision.placement(device)?;
        let placed = |(name, x): (String, Tensor)| Ok((name, placement.place(&x)?));
        let weights = weights::random(&architecture, seed, device)?.into_iter().map(placed);
        let weights = weights.collect::<Result<_>>()?;
        let name = config.display().to_string();
        Self::assemble(&name, (architecture, precision), value, weights, tokenizer)
    }

    fn assemble(
        name: &str,
        (architecture, precision): (Architecture, Precision),
        config: Value,
        weights: Weights,
        directory: &Path,
    ) -> Result<Self> {
        let tokenizer_files = TokenizerFiles::read(directory)?;
        let generation_stops = generation_stops(directory)?;
        let tokenizer = HubTokenizer::new(&tokenizer_files, generation_stops.clone())?;
        let configs = ["config.json", GENERATION].into_iter();
        let foreign = foreign_file(directory, configs.chain(tokenizer_files.names()));
        let generation_config = directory.join(GENERATION);
        let generation_config = match generation_config.exists() {
            true => read_json(&generation_config, MAX_CONFIG)?,
            false => json!({"do_sample": true}),
        };
        let model = Self {
            name: name.into(),
            architecture,
            precision,
            weights,
            adapter: None,
            tokenizer,
            config,
            generation_config,
            tokenizer_files,
            generation_stops,
            given_template: None,
            foreign,
            fingerprint: None,
        };
        Ok(model.fitted())
    }

    /// Adds what decides the text of prompts to the identity of a run: a chat template that is not the model's own, and
    /// the date, where the template writes it.
    pub fn add_prompts_identity(&self, identity: &mut Value) {
        if let Some(template) = &self.given_template {
            identity["chat_template"] = json!(hub::sha256(template.as_bytes()));
        }
        if let Some(date) = self.tokenizer.date_in_prompts() {
            identity["template_date"] = json!(date);
        }
        if !self.tokenizer.variables().is_empty() {
            identity["template_kwargs"] = json!(self.tokenizer.variables());
        }
    }

    /// Refuses a model whose files a copy would take from outside its folder, which may be a stranger's: to be called
    /// before the work whose result is saved.
    ///
    /// # Errors
    /// A file that is a link out of the folder, by name.
    pub fn check_copyable(&self) -> Result<()> {
        match &self.foreign {
            None => Ok(()),
            Some(why) => bail!("{why}"),
        }
    }

    /// The tokenizer that writes prompts, and the most tokens of a sequence.
    pub fn tokenizer_and_context(&self) -> (&HubTokenizer, usize) {
        (&self.tokenizer, self.architecture.max_positions)
    }

    /// A decoder over these weights as constants.
    pub fn decoder(&self) -> Result<Decoder> {
        let decoder = policy::frozen_decoder(&self.architecture, &self.weights)?;
        match &self.adapter {
            None => Ok(decoder),
            Some(adapter) => adapter.on(decoder),
        }
    }

    /// A decoder for sampling and log-probabilities, which takes the weights with it.
    pub fn take_sampling_decoder(&mut self) -> Result<Decoder> {
        let decoder = self.decoder()?;
        self.weights.clear();
        Ok(decoder.packed_alone(self.precision.rollout_dtype)?)
    }

    /// A policy that starts here: of all weights, or of an adapter on weights that it shares with this model.
    pub fn policy(&self, adapter: Option<&Adapter>) -> Result<Policy> {
        let (architecture, weights) = (&self.architecture, &self.weights);
        let policy = match adapter {
            None => Policy::new(architecture, weights),
            Some(own) => Policy::adapting(architecture, weights, &own.scaling, &own.weights),
        };
        Ok(policy?)
    }

    /// A decoder over the weights in `directory`, or with the adapter there: what a run of this model came to.
    pub fn tuned(&self, directory: &Path, device: &Device) -> Result<Decoder> {
        let architecture = &self.architecture;
        if directory.join(crate::adapter::CONFIG).exists() {
            return Adapter::load(directory, architecture, device)?.on(self.decoder()?);
        }
        // Trained weights are not of 8 bits, whatever their base is.
        let precision = Precision { base_dtype: None, ..self.precision };
        let weights = weights::load(directory, architecture, precision.placement(device)?)?;
        Ok(policy::frozen_decoder(architecture, &weights)?)
    }

    /// The trained weights in `directory`, as they were saved: those of an adapter of this model, or all.
    pub fn trained_weights(
        &self,
        is_adapter: bool,
        directory: &Path,
        device: &Device,
    ) -> Result<Weights> {
        if is_adapter {
            return Ok(Adapter::load(directory, &self.architecture, device)?.weights);
        }
        let precision = Precision { dtype: Dtype::Float32, ..Precision::default() };
        weights::load(directory, &self.architecture, precision.placement(device)?)
    }

    /// Its weights, the adapter's added to them; what is in blocks of 8 bits is widened.
    pub fn merged(&self) -> Result<Weights> {
        let wide = |(name, x): (&String, &Tensor)| Ok((name.clone(), int8::widened(x)?));
        let mut weights: Weights = self.weights.iter().map(wide).collect::<Result<_>>()?;
        weights.extend(self.decoder()?.merged()?);
        Ok(weights)
    }

    /// Writes an adapter of this model with the model's tokenizer to `directory`, as PEFT and TRL do.
    pub fn save_adapter(&self, adapter: &Adapter, weights: &Weights, to: &Path) -> Result<()> {
        tealight_system::files::writable_directory(to)?;
        self.check_copyable()?;
        self.tokenizer_files.save(to)?;
        adapter::record_base(to, self.precision.base_dtype)?;
        adapter.save(weights, to)
    }

    /// Writes what was trained: an adapter's matrices where there is one, else all weights.
    pub fn save_trained(
        &self,
        adapter: Option<&Adapter>,
        tensors: &Weights,
        to: &Path,
    ) -> Result<()> {
        match adapter {
            Some(adapter) => self.save_adapter(adapter, tensors, to),
            None => self.save(tensors, to),
        }
    }
}

/// Why some of a folder's files are not to be copied; none where those that are there are the folder's own.
fn foreign_file<'a>(directory: &Path, mut files: impl Iterator<Item = &'a str>) -> Option<String> {
    files.find_map(|file| {
        let path = directory.join(file);
        path.symlink_metadata().ok()?;
        own_file(directory, &path).err().map(|error| format!("{error:#}"))
    })
}

/// Whose word a base's name is: an adapter on this disk is the user's and may name a directory, as ours do; one from
/// the Hub may name the Hub's models alone.
fn refuse_base(name: &str, adapter: &Path, base: &str) -> Result<()> {
    if hub::is_remote(name)
        && !hub::is_embedded(base)
        && (Path::new(base).exists() || !names_hub(base))
    {
        bail!(
            "{name}: this adapter from the Hub names `{base}` as its base, which is no model of the Hub's; name the \
             base yourself with --model BASE --adapter {name}"
        );
    }
    let is_itself = base == name
        || matches!((Path::new(base).canonicalize(), adapter.canonicalize()), (Ok(a), Ok(b)) if a == b);
    if is_itself {
        bail!(
            "{name}: this adapter names itself as its base; name the base with --model BASE --adapter {name}"
        );
    }
    Ok(())
}

fn names_hub(base: &str) -> bool {
    let (id, _) = base.split_once('@').unwrap_or((base, "main"));
    tealight_core::names::is_repository(id)
}
