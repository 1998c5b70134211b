//! A run's state on disk: `checkpoint-N/` with the model in Hub layout, the optimizer and the step.
//!
//! A checkpoint is written to a temporary directory and renamed, so it is whole or absent. What is
//! sampled and in which order is a function of seed and step, so there is no generator to save.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AdamW;
use crate::files::write_atomic;
use crate::model::weights::{self, Weights};
use crate::pretrained::Pretrained;

/// Where a run stands.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Optimizer steps done; step numbers count from 0.
    pub global_step: usize,
    /// Steps at which the optimizer moved; fewer where gradients were not finite.
    pub optimizer_steps: usize,
    /// Tokens sampled so far, those of the base included.
    pub num_tokens: usize,
    /// Completions sampled so far, those of the base included.
    pub num_completions: usize,
    /// Rounds of prompts drawn: the steps, and more where dynamic sampling asked for more.
    #[serde(default)]
    pub rounds: usize,
    /// Weight of the entropy bonus where it adapts.
    #[serde(default)]
    pub entropy_bonus: f64,
    /// Sum and number of estimates of the base's validity by problem id, where they accumulate.
    #[serde(default)]
    pub partition: BTreeMap<String, (f64, usize)>,
}

/// What `trainer_state.json` holds.
#[derive(Serialize, Deserialize)]
struct Saved {
    #[serde(flatten)]
    state: State,
    config: Value,
}

/// Settings that may differ between a run and its continuation.
const MAY_DIFFER: [&str; 6] = [
    "max_steps",
    "max_completions",
    "save_steps",
    "max_num_seqs",
    "micro_batch_tokens",
    "gradient_checkpointing",
];

/// Writes `output/checkpoint-N`.
///
/// # Errors
/// A directory that cannot be written, a full disk; no half checkpoint is left.
pub fn save(
    output: &Path,
    model: &Pretrained,
    tensors: &Weights,
    optimizer: &AdamW,
    state: &State,
    config: &Value,
) -> Result<PathBuf> {
    let path = output.join(format!("checkpoint-{}", state.global_step));
    let temporary = tempfile::Builder::new()
        .prefix(".checkpoint-")
        .tempdir_in(output)
        .with_context(|| format!("{}: cannot be written", output.display()))?;
    model.save(tensors, temporary.path())?;
    weights::save(&optimizer.state(), &temporary.path().join("optimizer.safetensors"))?;
    let saved = Saved { state: state.clone(), config: config.clone() };
    let text = serde_json::to_string_pretty(&saved)?;
    write_atomic(&temporary.path().join("trainer_state.json"), text.as_bytes())?;
    if path.exists() {
        std::fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(temporary.path(), std::fs::Permissions::from_mode(0o755))?;
    }
    std::fs::rename(temporary.keep(), &path).with_context(|| path.display().to_string())?;
    Ok(path)
}

/// The newest checkpoint in `output`.
pub fn latest(output: &Path) -> Option<PathBuf> {
    let step = |path: &Path| -> Option<usize> {
        path.file_name()?.to_str()?.strip_prefix("checkpoint-")?.parse().ok()
    };
    let entries = std::fs::read_dir(output).ok()?;
    let found = entries.filter_map(|entry| Some(entry.ok()?.path()));
    found.filter_map(|path| Some((step(&path)?, path))).max().map(|(_, path)| path)
}

/// A checkpoint that was read.
pub struct Restored {
    /// Where the run stood.
    pub state: State,
    /// The policy's weights.
    pub weights: Weights,
    /// The optimizer's moments.
    pub moments: Weights,
}

/// Reads the checkpoint in `path`, made by a run with the same `config`.
///
/// # Errors
/// A missing or truncated file; settings that differ, which the message lists.
pub fn load(path: &Path, model: &Pretrained, config: &Value, device: &Device) -> Result<Restored> {
    let file = path.join("trainer_state.json");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let saved: Saved = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let differences = differences(&saved.config, config);
    if !differences.is_empty() {
        bail!(
            "{} was made with other settings: {}; continue with those, or choose another --output",
            path.display(),
            differences.join(", ")
        );
    }
    let weights = weights::load(path, &model.architecture, candle_core::DType::F32, device)?;
    let moments = path.join("optimizer.safetensors");
    let moments = candle_core::safetensors::load(&moments, device)
        .with_context(|| format!("{}: not readable; remove this checkpoint", moments.display()))?;
    Ok(Restored { state: saved.state, weights, moments: moments.into_iter().collect() })
}

fn differences(old: &Value, new: &Value) -> Vec<String> {
    let empty = serde_json::Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    let mut keys: Vec<_> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    // Only a constant learning rate does not depend on how long the run is to be.
    let may_differ = |key: &str| {
        MAY_DIFFER.contains(&key)
            && (key != "max_steps" || old.get("lr_scheduler_type") == Some(&"constant".into()))
    };
    keys.into_iter()
        .filter(|key| !may_differ(key) && old.get(*key) != new.get(*key))
        .map(|key| {
            let shown = |value: Option<&Value>| value.map_or("unset".to_owned(), Value::to_string);
            format!("{key} was {}, is {}", shown(old.get(key)), shown(new.get(key)))
        })
        .collect()
}
