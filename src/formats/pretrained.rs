//! A model with its tokenizer, loaded from and saved to the layout of the Hub.

mod taken;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};

use crate::formats::adapter::{self, Adapter};
use crate::formats::gguf::{Gguf, GgufType};
use crate::formats::hub;
use crate::nn::backend::int8;
use crate::nn::device::Precision;
use crate::nn::model::weights::{self, Weights};
use crate::nn::model::{Architecture, Decoder};
use crate::nn::policy::{self, Policy};
use crate::nn::tokenizer::{HubTokenizer, MAX_FILE as MAX_TOKENIZER_FILE, Tokenizer};
use crate::system::files::{own_file, read_json, read_limited, write_atomic};
use crate::system::machine;

/// Everything that is needed to sample from a model, to train it, and to save the result.
pub struct Pretrained {
    /// The name it was asked for by.
    pub name: String,
    /// How its decoder is put together.
    pub architecture: Architecture,
    /// The precision of weights and of computing.
    pub precision: Precision,
    /// Its weights.
    pub weights: Weights,
    /// The adapter on top of them.
    pub adapter: Option<Adapter>,
    /// Its tokenizer.
    pub tokenizer: HubTokenizer,
    config: Value,
    generation_config: Value,
    tokenizer_files: Vec<(PathBuf, Vec<u8>)>,
    /// Why its files are not copied: one of them is a link out of the folder.
    foreign: Option<String>,
    /// The checksum of weights that a policy took over.
    taken: Option<String>,
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
        let (architecture, config) = Architecture::read(&directory.join("config.json"))?;
        let weights = weights::load(directory, &architecture, precision.placement(device)?)?;
        Self::assemble(name, (architecture, precision), config, weights, directory)
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
        Ok(Self { name: name.to_owned(), adapter, ..self })
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
        let tokenizer = HubTokenizer::load(directory)?;
        if tokenizer.vocab_size() > architecture.vocab_size {
            bail!(
                "{}: the tokenizer has {} tokens, the model only {}",
                directory.display(),
                tokenizer.vocab_size(),
                architecture.vocab_size
            );
        }
        let (mut tokenizer_files, mut foreign) = (Vec::new(), None);
        for file in ["config.json", "generation_config.json"] {
            let path = directory.join(file);
            foreign = foreign.or_else(|| foreign_file(directory, &path));
        }
        for file in hub::TOKENIZER_FILES {
            let path = directory.join(file);
            foreign = foreign.or_else(|| foreign_file(directory, &path));
            if path.exists() {
                let bytes = read_limited(&path, MAX_TOKENIZER_FILE)?;
                tokenizer_files.push((PathBuf::from(file), bytes));
            }
        }
        let generation_config = directory.join("generation_config.json");
        let generation_config = match generation_config.exists() {
            true => read_json(&generation_config, MAX_TOKENIZER_FILE)?,
            false => json!({"eos_token_id": tokenizer.eos(), "do_sample": true}),
        };
        Ok(Self {
            name: name.into(),
            architecture,
            precision,
            weights,
            adapter: None,
            tokenizer,
            config,
            generation_config,
            tokenizer_files,
            foreign,
            taken: None,
        })
    }

    /// Refuses a model whose files a copy would take from outside its folder, which may be a stranger's: to be called
    /// before the work whose result is saved.
    ///
    /// # Errors
    /// A file that is a link out of the folder, by name.
    pub(crate) fn check_copyable(&self) -> Result<()> {
        match &self.foreign {
            None => Ok(()),
            Some(why) => bail!("{why}"),
        }
    }

    /// The tokenizer that writes prompts, and the most tokens of a sequence.
    pub(crate) fn room(&self) -> (&HubTokenizer, usize) {
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
        if directory.join(crate::formats::adapter::CONFIG).exists() {
            return Adapter::load(directory, architecture, device)?.on(self.decoder()?);
        }
        // Trained weights are not of 8 bits, whatever their base is.
        let precision = Precision { base_dtype: None, ..self.precision };
        let weights = weights::load(directory, architecture, precision.placement(device)?)?;
        Ok(policy::frozen_decoder(architecture, &weights)?)
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
        crate::system::files::writable_directory(to)?;
        self.save_tokenizer(to)?;
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
        self.check_copyable()?;
        crate::system::files::writable_directory(directory)?;
        let json = |name: &str| -> Result<Value> {
            let file_entry = self.tokenizer_files.iter().find(|(file, _)| file.as_os_str() == name);
            file_entry.map_or(Ok(Value::Null), |(_, bytes)| Ok(serde_json::from_slice(bytes)?))
        };
        let mut settings = json("tokenizer_config.json")?;
        if let Some(template) = self.tokenizer.chat_template() {
            settings["chat_template"] = json!(template);
        }
        let mut config = self.config.clone();
        config["eos_token_id"] = json!(self.tokenizer.eos()[0]);
        let path = directory.join(kind.file_name());
        let parts = (&config, &json("tokenizer.json")?, &settings);
        crate::formats::gguf::write(&path, (&self.architecture, weights), parts, kind)
            .with_context(|| self.name.clone())?;
        let mut text = format!("FROM ./{}\n", kind.file_name());
        for end in self.tokenizer.eos() {
            let end = self.tokenizer.decode_all(&[*end])?;
            text.push_str(&format!("PARAMETER stop {}\n", json!(end)));
        }
        write_atomic(&directory.join("Modelfile"), text.as_bytes())?;
        Ok(path)
    }

    fn save_tokenizer(&self, directory: &Path) -> Result<()> {
        self.check_copyable()?;
        for (file, bytes) in &self.tokenizer_files {
            write_atomic(&directory.join(file), bytes)?;
        }
        Ok(())
    }

    /// Writes `weights` with this model's config and tokenizer to `directory`, in Hub layout.
    pub fn save(&self, weights: &Weights, directory: &Path) -> Result<()> {
        crate::system::files::writable_directory(directory)?;
        let mut config = self.config.clone();
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
        self.save_tokenizer(directory)?;
        write_atomic(&directory.join("generation_config.json"), &text(&self.generation_config)?)?;
        // Weights before the config, so that a directory with a config is whole.
        weights::save(weights, &directory.join(weights::WHOLE))?;
        write_atomic(&directory.join("config.json"), &text(&config)?)
    }
}

/// Why a file of a model's folder is not to be copied; none where it is the folder's own, or not there.
fn foreign_file(directory: &Path, path: &Path) -> Option<String> {
    let is_there = path.symlink_metadata().is_ok();
    is_there.then(|| own_file(directory, path).err()).flatten().map(|error| format!("{error:#}"))
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
    tealight_datasets::names::is_repository(id)
}
