//! The keys of PEFT's `adapter_config.json`, and which of them are not supported.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::CONFIG;
use tealight_system::files::{MAX_CONFIG, read_json};

/// Keys that change nothing of what a trained adapter computes. Any other that is not off may, as `use_dora` does.
const HARMLESS: [&str; 18] = [
    "auto_mapping",
    "corda_config",
    "ensure_weight_tying",
    "eva_config",
    "exclude_modules",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_ga_config",
    "megatron_core",
    "peft_version",
    "qalora_group_size",
    "revision",
    "target_modules",
    "task_type",
    "velora_config",
];
/// Values of `init_lora_weights` that change the base's weights before training: PEFT saves matrices that belong on the
/// changed base, which the folder has not.
const CHANGED_BASE: [&str; 5] = ["pissa", "olora", "corda", "loftq", "lora_ga"];

/// The keys that are read here.
#[derive(Deserialize)]
pub(super) struct Config {
    peft_type: String,
    #[serde(default)]
    pub(super) base_model_name_or_path: Option<String>,
    pub(super) r: usize,
    pub(super) lora_alpha: f64,
    #[serde(default)]
    pub(super) lora_dropout: f64,
    #[serde(default)]
    pub(super) use_rslora: bool,
    #[serde(flatten)]
    other: serde_json::Map<String, Value>,
}

impl Config {
    /// Reads the configuration of the adapter in `directory`.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(CONFIG);
        serde_json::from_value(read_json(&path, MAX_CONFIG)?)
            .with_context(|| format!("{}: not an adapter's configuration", path.display()))
    }

    /// Refuses an adapter of another kind, and one that computes nothing.
    pub(super) fn check(&self) -> Result<()> {
        if self.peft_type != "LORA" {
            bail!("peft_type is {}; only LORA is supported", self.peft_type);
        }
        if let Some(key) = self.unsupported() {
            bail!("`{key}` is set, which is not supported here; merge it with PEFT first");
        }
        if let Some(method) = self.changed_base() {
            bail!(
                "`init_lora_weights` is \"{method}\": this adapter belongs on a base whose weights {method} changed, \
                 and added to the original base it is another model; convert it to plain LoRA with PEFT: \
                 model.save_pretrained(DIR, path_initial_model_for_weight_conversion=INITIAL_ADAPTER)"
            );
        }
        if self.r == 0 || !(self.lora_alpha as f32).is_finite() {
            // `{:?}` writes 1e308, not all of its digits.
            bail!("r is {} and lora_alpha {:?}: no low-rank adapter", self.r, self.lora_alpha);
        }
        Ok(())
    }

    /// The initialisation that changed the base, where one did: `pissa_niter_4` is one of PiSSA's. (After PEFT's own
    /// conversion the value is `true`.)
    fn changed_base(&self) -> Option<&str> {
        let method = self.other.get("init_lora_weights")?.as_str()?;
        let name = method.to_lowercase();
        CHANGED_BASE.iter().any(|known| name.starts_with(known)).then_some(method)
    }

    fn is_set(&self, key: &str) -> bool {
        !match self.other.get(key) {
            None | Some(Value::Null | Value::Bool(false)) => true,
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(items)) => items.is_empty(),
            _ => false,
        }
    }

    fn unsupported(&self) -> Option<&str> {
        let bias = self.other.get("bias").filter(|bias| **bias != "none" && !bias.is_null());
        let is_harmless = |key: &str| key == "bias" || HARMLESS.contains(&key);
        let option = self.other.keys().find(|key| !is_harmless(key) && self.is_set(key));
        option.map(String::as_str).or(bias.map(|_| "bias"))
    }

    /// Whether PEFT adapts `module` by this file; none where that cannot be told: by a regular expression of Python's,
    /// or by PEFT's own list for the kind of the model where there are no `target_modules`.
    pub(super) fn is_target(&self, module: &str) -> Option<bool> {
        if !self.is_listed("target_modules", module)? {
            return Some(false);
        }
        if self.is_set("exclude_modules") && self.is_listed("exclude_modules", module)? {
            return Some(false);
        }
        let layers = self.other.get("layers_to_transform").filter(|layers| match layers {
            Value::Array(layers) => !layers.is_empty(),
            layers => !layers.is_null(),
        });
        let Some(layers) = layers else { return Some(true) };
        if self.is_set("layers_pattern") {
            return None;
        }
        let layer = module.split('.').find_map(|part| part.parse::<u64>().ok())?;
        let is_layer = |value: &Value| value.as_u64() == Some(layer);
        Some(is_layer(layers) || layers.as_array().is_some_and(|all| all.iter().any(is_layer)))
    }

    /// Whether the list at `key` has the name of `module`, or the end of it; none where there is no list.
    fn is_listed(&self, key: &str, module: &str) -> Option<bool> {
        let names = self.other.get(key)?.as_array()?;
        Some(names.iter().filter_map(Value::as_str).any(|name| {
            let before = module.strip_suffix(name);
            before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
        }))
    }
}
