//! The keys of PEFT's `adapter_config.json`, and which of them are not supported.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use serde_json::Value;

use super::CONFIG;
use tealight_system::files::{MAX_CONFIG, read_json};

/// Keys that change nothing of what a trained adapter computes. Any other that is not off may, as `use_dora` does.
const HARMLESS: [&str; 19] = [
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
    "lora_dropout",
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

/// Values that leave the base as it is.
const SAME_BASE: [&str; 5] = ["true", "false", "gaussian", "orthogonal", "eva"];

/// The keys that are read here.
#[derive(Deserialize)]
pub(super) struct Config {
    peft_type: String,
    #[serde(default)]
    pub(super) base_model_name_or_path: Option<String>,
    pub(super) r: usize,
    pub(super) lora_alpha: f64,
    #[serde(default)]
    pub(super) use_rslora: bool,
    #[serde(flatten)]
    other: serde_json::Map<String, Value>,
    #[serde(skip)]
    lists: Lists,
}

/// The lists that every module of a model is looked for in, and that may be long.
#[derive(Default)]
struct Lists {
    targets: Option<HashSet<String>>,
    excluded: Option<HashSet<String>>,
    layers: HashSet<u64>,
}

impl Lists {
    fn new(other: &serde_json::Map<String, Value>) -> Self {
        let names = |key: &str| {
            let names = other.get(key)?.as_array()?;
            Some(names.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        };
        let layers = match other.get("layers_to_transform") {
            Some(Value::Array(layers)) => layers.iter().filter_map(Value::as_u64).collect(),
            layer => layer.and_then(Value::as_u64).into_iter().collect(),
        };
        Self { targets: names("target_modules"), excluded: names("exclude_modules"), layers }
    }
}

/// Whether a list has the name of `module`, or the end of it.
fn is_listed(names: &HashSet<String>, module: &str) -> bool {
    let ends = module.match_indices('.').map(|(at, _)| &module[at + 1..]);
    std::iter::once(module).chain(ends).any(|end| names.contains(end))
}

impl Config {
    /// Reads the configuration of the adapter in `directory`.
    pub(super) fn read(directory: &Path) -> Result<Self> {
        let path = directory.join(CONFIG);
        let mut config: Self =
            serde_json::from_value(read_json(&path, MAX_CONFIG)?).with_context(|| {
                format!(
                    "{}: no configuration of a PEFT adapter (one of MLX is merged by mlx_lm.fuse)",
                    path.display()
                )
            })?;
        config.lists = Lists::new(&config.other);
        Ok(config)
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
        let method = self.other.get("init_lora_weights").and_then(Value::as_str);
        if let Some(method) = method.filter(|one| !SAME_BASE.contains(&&*one.to_lowercase())) {
            bail!(
                "`init_lora_weights` is {method:?}, which Tealight does not know and which may have changed the base: merge the \
                 adapter with PEFT first"
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
        if !is_listed(self.lists.targets.as_ref()?, module) {
            return Some(false);
        }
        if self.is_set("exclude_modules") && is_listed(self.lists.excluded.as_ref()?, module) {
            return Some(false);
        }
        let layers = self.other.get("layers_to_transform").filter(|layers| match layers {
            Value::Array(layers) => !layers.is_empty(),
            layers => !layers.is_null(),
        });
        if layers.is_none() {
            return Some(true);
        }
        if self.is_set("layers_pattern") {
            return None;
        }
        let layer = module.split('.').find_map(|part| part.parse::<u64>().ok())?;
        Some(self.lists.layers.contains(&layer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_millions_of_names_costs_a_module_no_more_than_a_short_one() {
        let folder = tempfile::tempdir().unwrap();
        let mut names: Vec<String> = (0..500_000).map(|i| format!("x{i}")).collect();
        names.extend(["q_proj", "0.mlp.up_proj", "whole", "", "_proj"].map(str::to_owned));
        let config = serde_json::json!({
            "peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": names,
            "exclude_modules": vec!["1.q_proj"; 500_000], "layers_to_transform": vec![0; 500_000],
        });
        std::fs::write(folder.path().join(CONFIG), config.to_string()).unwrap();
        let config = Config::read(folder.path()).unwrap();
        for (module, expected) in [
            ("layers.0.q_proj", true),
            ("layers.0.mlp.up_proj", true),
            ("layers.1.q_proj", false),
            ("layers.2.q_proj", false),
            ("layers.0.k_proj", false),
        ] {
            // Each module read the whole list: hours for as many as these.
            for _ in 0..10_000 {
                assert_eq!(config.is_target(module), Some(expected), "{module}");
            }
        }
    }
}
