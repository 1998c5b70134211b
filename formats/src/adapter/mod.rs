//! Adapters on disk, in PEFT's format: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! Read: any LoRA on the projections of the layers (`q_proj` to `down_proj`), with or without rank-stabilised
//! scaling. Other kinds (DoRA, embeddings, biases, modules saved whole, ranks by pattern) are refused by name.

mod config;

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use config::Config;
use tealight_nn::backend::Parameter;
use tealight_nn::device::BaseDtype;
use tealight_nn::model::lora::{self, Scaling};
use tealight_nn::model::weights::{self, Weights};
use tealight_nn::model::{Architecture, Decoder};
use tealight_system::files::{read_json, write_atomic};
use tealight_system::range::{above, at_least};

/// The file that makes a directory an adapter.
pub const CONFIG: &str = "adapter_config.json";
/// Its matrices.
pub const WEIGHTS: &str = "adapter_model.safetensors";
/// PEFT's prefix of the names of a model's weights.
const PREFIX: &str = "base_model.model.";
/// PEFT's word for every projection of the layers.
const ALL_LINEAR: &str = "all-linear";

/// How an adapter is to be trained; names are TRL's.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct LoraOptions {
    /// Train a low-rank adapter (LoRA) instead of all weights. The base without the adapter is the reference model.
    #[arg(long, help_heading = "LoRA")]
    #[serde(default)]
    pub use_peft: bool,
    /// Rank of the LoRA adapter.
    #[arg(long, default_value_t = 16, add = at_least(1.0).at_most(65_536.0), help_heading = "LoRA",
          alias = "lora-rank")]
    pub lora_r: usize,
    /// Scale of the adapter: its output is multiplied by lora-alpha / lora-r.
    #[arg(long, default_value_t = 32.0, add = above(0.0).at_most(1e6), help_heading = "LoRA")]
    pub lora_alpha: f64,
    /// Projections to adapt: all-linear, or some of q_proj,k_proj,v_proj,o_proj,gate_proj,up_proj,down_proj.
    #[arg(long, value_delimiter = ',', default_value = ALL_LINEAR, help_heading = "LoRA")]
    pub lora_target_modules: Vec<String>,
}

impl LoraOptions {
    /// A fresh adapter for a model of `architecture`; `None` where all weights are to be trained.
    ///
    /// # Errors
    /// A rank of 0, a projection that does not exist.
    pub fn adapter(
        &self,
        architecture: &Architecture,
        base: &str,
        seed: u64,
        device: &Device,
    ) -> Result<Option<Adapter>> {
        self.check()?;
        if !self.use_peft {
            return Ok(None);
        }
        let targets = self.targets(architecture);
        if let Some(other) = targets.iter().find(|t| !leaves(architecture).contains(&t.as_str())) {
            let known = leaves(architecture);
            bail!("lora-target-modules: this model has no `{other}`; it has {}", known.join(", "));
        }
        let adapter = Adapter {
            base: base.to_owned(),
            scaling: Scaling { r: self.lora_r, lora_alpha: self.lora_alpha, use_rslora: false },
            targets,
            weights: Weights::new(),
        };
        let modules = lora::modules(architecture, &adapter.targets);
        let weights = lora::fresh(&modules, self.lora_r, seed, device)?;
        Ok(Some(Adapter { weights, ..adapter }))
    }

    /// Refuses to start from an adapter that was trained with other options: with these its matrices are another
    /// policy.
    ///
    /// # Errors
    /// The flags to give.
    pub fn refuse_other(&self, start: &Adapter, architecture: &Architecture) -> Result<()> {
        let Scaling { r, lora_alpha, use_rslora } = start.scaling;
        let sorted = |targets: &[String]| targets.iter().cloned().collect::<BTreeSet<_>>();
        let mut flags = Vec::new();
        if r != self.lora_r {
            flags.push(format!("--lora-r {r}"));
        }
        if lora_alpha != self.lora_alpha {
            flags.push(format!("--lora-alpha {lora_alpha}"));
        }
        if use_rslora {
            bail!(
                "a rank-stabilised adapter (rsLoRA) is not trained further: merge it with tealight export --merge"
            );
        }
        if sorted(&start.targets) != sorted(&self.targets(architecture)) {
            flags.push(format!("--lora-target-modules {}", start.targets.join(",")));
        }
        match flags.is_empty() {
            true => Ok(()),
            false => bail!("an adapter with other settings: give {}", flags.join(" ")),
        }
    }

    /// Weights that are trained, where an adapter is.
    pub fn parameters(&self, architecture: &Architecture) -> Option<usize> {
        let modules = lora::modules(architecture, &self.targets(architecture));
        let count =
            modules.iter().map(|(_, [out, inner])| self.lora_r.saturating_mul(out + inner)).sum();
        self.use_peft.then_some(count)
    }

    fn targets(&self, architecture: &Architecture) -> Vec<String> {
        if self.lora_target_modules == [ALL_LINEAR] {
            return leaves(architecture).into_iter().map(str::to_owned).collect();
        }
        self.lora_target_modules.clone()
    }

    /// Refuses what cannot be trained.
    pub fn check(&self) -> Result<()> {
        let Self { use_peft, lora_r, lora_alpha, lora_target_modules } = self;
        let is_default =
            *lora_r == 16 && *lora_alpha == 32.0 && *lora_target_modules == [ALL_LINEAR];
        if !use_peft && !is_default {
            bail!("--lora-* have no effect without --use-peft: add it");
        }
        for target in self.lora_target_modules.iter().filter(|target| *target != ALL_LINEAR) {
            if !lora::LEAVES.contains(&target.as_str()) {
                bail!(
                    "lora-target-modules: no projection `{target}`; there are {} and {ALL_LINEAR}",
                    lora::LEAVES.join(", ")
                );
            }
        }
        Ok(())
    }
}

/// The last parts of the names of a model's projections, each once.
fn leaves(architecture: &Architecture) -> Vec<&'static str> {
    let all = (0..architecture.num_layers).flat_map(|layer| architecture.modules(layer));
    let mut leaves = Vec::new();
    for leaf in all.filter_map(|module| module.rsplit('.').next()) {
        if !leaves.contains(&leaf) {
            leaves.push(leaf);
        }
    }
    leaves
}

/// An adapter in memory.
#[derive(Debug, Clone)]
pub struct Adapter {
    /// The model it belongs to: a directory or a Hub id.
    pub base: String,
    /// The scale of its matrices.
    pub scaling: Scaling,
    /// The last parts of the names of what is adapted.
    pub targets: Vec<String>,
    /// Its matrices, by names without PEFT's prefix.
    pub weights: Weights,
}

/// The form of an adapter's base, where it was not as its checkpoint has it; PEFT's own file has no place for it.
const BASE: &str = "tealight.json";
/// Largest such file, in bytes.
const MAX_BASE: u64 = 1 << 16;

/// Writes beside an adapter which base it was trained on.
pub(crate) fn record_base(directory: &Path, dtype: Option<BaseDtype>) -> Result<()> {
    let Some(dtype) = dtype else { return Ok(()) };
    let text = json!({"base_dtype": dtype}).to_string();
    write_atomic(&directory.join(BASE), text.as_bytes())
}

/// Warns where the adapter called `name` is put on another base than it was trained on.
pub(crate) fn warn_of_base(name: &str, directory: &Path, here: Option<BaseDtype>) -> Result<()> {
    let path = directory.join(BASE);
    let then = match path.exists() {
        true => read_json(&path, MAX_BASE)?["base_dtype"].clone(),
        false => Value::Null,
    };
    let here = json!(here);
    if then != here {
        let shown =
            |dtype: &Value| dtype.as_str().unwrap_or("the checkpoint's own type").to_owned();
        tracing::warn!(
            "{name}: trained on a base of {}, which is another model than the base of {} here (--base-dtype)",
            shown(&then),
            shown(&here)
        );
    }
    Ok(())
}

impl Adapter {
    /// The name of the base that the adapter in `directory` was made for; `None` where it is no adapter.
    pub fn base_of(directory: &Path) -> Result<Option<String>> {
        if !directory.join(CONFIG).exists() {
            return Ok(None);
        }
        let config = Config::read(directory)?;
        let base = config.base_model_name_or_path.filter(|name| !name.is_empty());
        Ok(Some(base.with_context(|| {
            format!(
                "{}: names no base; name it with --model BASE --adapter DIR",
                directory.display()
            )
        })?))
    }

    /// Reads the adapter in `directory` for a model of `architecture`.
    ///
    /// # Errors
    /// An adapter of another kind or for another model; the message names what does not fit.
    pub fn load(directory: &Path, architecture: &Architecture, device: &Device) -> Result<Self> {
        let config = Config::read(directory)?;
        config.check().with_context(|| directory.join(CONFIG).display().to_string())?;
        let file = directory.join(WEIGHTS);
        let pickle = "adapter_model.bin";
        if !file.exists() && directory.join(pickle).exists() {
            bail!(
                "{0}: its matrices are in {pickle}, which may run code and is not read; convert it: python -c \"import \
                 torch; from safetensors.torch import save_file; save_file(torch.load('{0}/{pickle}', \
                 weights_only=True), '{0}/{WEIGHTS}')\"",
                directory.display()
            );
        }
        let leaves: Vec<String> = leaves(architecture).into_iter().map(str::to_owned).collect();
        let known = lora::modules(architecture, &leaves);
        let mut weights = Weights::new();
        let mut targets = BTreeSet::new();
        for (name, tensor) in weights::read_all(&file, device)? {
            let stem = name.strip_prefix(PREFIX).unwrap_or(&name);
            let fit = known.iter().find_map(|(module, [out, inner])| {
                let [a, b] = lora::names(module);
                let shape = if stem == a { [config.r, *inner] } else { [*out, config.r] };
                (stem == a || stem == b).then_some((module, shape))
            });
            let Some((module, shape)) = fit else {
                bail!(
                    "{}: tensor `{name}` {:?} adapts nothing of this model: merge adapters of other weights (the \
                     output layer, the embeddings) with PEFT first; if names contain `.default`, save the adapter with \
                     save_pretrained",
                    file.display(),
                    tensor.dims()
                );
            };
            if tensor.dims() != shape {
                bail!(
                    "{}: tensor `{name}` has shape {:?}, the base and r = {} make it {shape:?}",
                    file.display(),
                    tensor.dims(),
                    config.r
                );
            }
            if config.is_target(module) == Some(false) {
                bail!(
                    "{}: tensor `{name}` adapts `{module}`, which the `target_modules` of {CONFIG} do not name, or \
                     `exclude_modules` or `layers_to_transform` take away: PEFT leaves it out, as another model; \
                     name it there, or remove the tensor",
                    file.display()
                );
            }
            targets.extend(module.rsplit('.').next().map(str::to_owned));
            weights.insert(stem.to_owned(), tensor.to_dtype(DType::F32)?);
        }
        for name in weights.keys() {
            let other = match name.strip_suffix("lora_A.weight") {
                Some(stem) => format!("{stem}lora_B.weight"),
                None => name.replace("lora_B.weight", "lora_A.weight"),
            };
            if !weights.contains_key(&other) {
                bail!("{}: tensor `{PREFIX}{other}` is missing", file.display());
            }
        }
        if weights.is_empty() {
            bail!("{}: holds no tensors, so that it adapts nothing", file.display());
        }
        let unadapted = known.iter().map(|(module, _)| module).find(|module| {
            let [a, _] = lora::names(module);
            config.is_target(module) == Some(true) && !weights.contains_key(&a)
        });
        if let Some(module) = unadapted {
            bail!(
                "{}: has no tensors for `{module}`, which the `target_modules` of {CONFIG} name",
                file.display()
            );
        }
        let scaling =
            Scaling { r: config.r, lora_alpha: config.lora_alpha, use_rslora: config.use_rslora };
        let base = config.base_model_name_or_path.unwrap_or_default();
        Ok(Self { base, scaling, targets: targets.into_iter().collect(), weights })
    }

    /// `decoder` with this adapter on it.
    pub fn on(&self, decoder: Decoder) -> Result<Decoder> {
        let dtype = decoder.dtype();
        let part = |name: String| -> candle_core::Result<Option<Parameter>> {
            let Some(matrix) = self.weights.get(&name) else { return Ok(None) };
            Ok(Some(Parameter::constant(&name, matrix.to_dtype(dtype)?)))
        };
        Ok(decoder.adapted(&self.scaling, |module| {
            let [a, b] = lora::names(module);
            Ok(part(a)?.zip(part(b)?).map(|(a, b)| [a, b]))
        })?)
    }

    /// Writes the configuration and `weights`, matrices under their names here, to `directory`.
    pub fn save(&self, weights: &Weights, directory: &Path) -> Result<()> {
        let named = weights.iter().map(|(name, x)| (format!("{PREFIX}{name}"), x.clone()));
        weights::save(&named.collect(), &directory.join(WEIGHTS))?;
        let config = json!({
            "peft_type": "LORA",
            "task_type": "CAUSAL_LM",
            "base_model_name_or_path": self.base,
            "r": self.scaling.r,
            "lora_alpha": self.scaling.lora_alpha,
            "lora_dropout": 0.0,
            "use_rslora": self.scaling.use_rslora,
            "target_modules": self.targets,
            "bias": "none",
            "fan_in_fan_out": false,
            "init_lora_weights": true,
            "inference_mode": true,
            "modules_to_save": null,
        });
        let text = serde_json::to_string_pretty(&config)? + "\n";
        // Last, so that a directory with it is whole.
        write_atomic(&directory.join(CONFIG), text.as_bytes())
    }
}
