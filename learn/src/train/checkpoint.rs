//! A run's state on disk: `checkpoint-N/` with the model or adapter in Hub layout, the optimizer, the step,
//! the metrics so far and the settings.
//!
//! A checkpoint is written to a temporary directory, synced and renamed, so it is whole or absent; `latest`
//! names the newest. Its `trainer_state.json` holds the size and checksum of every other file. What is sampled
//! and in which order is a function of seed and step, so there is no generator to save.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tealight_core::changes::changes;
use tealight_core::run_folder::{self, METRICS};
use tealight_core::{json_file, names};

use super::AdamW;
use super::inventory::{self, Inventory};
use tealight_core::ranks::Ranks;
use tealight_formats::adapter::Adapter;
use tealight_formats::pretrained::Pretrained;
use tealight_nn::model::weights::{self, Weights};
use tealight_system::files::{
    MAX_LINES, MAX_SMALL, own_file, read_text, sync_directory, write_atomic,
};

/// The file with a checkpoint's state; written last.
const STATE: &str = "trainer_state.json";
const MOMENTS: &str = "optimizer.safetensors";
/// The file in a run's directory that names its newest checkpoint.
const LATEST: &str = "latest";

/// The state of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Steps done; step numbers count from 0.
    pub global_step: usize,
    /// Optimizer steps done: several a step where batches are split, fewer where gradients were not finite.
    pub optimizer_steps: usize,
    /// Optimizer steps that were left out because the loss or the gradient was not finite.
    pub skipped_steps: usize,
    /// Length of the last streak of them.
    pub skipped_in_a_row: usize,
    /// Tokens sampled so far, those of the base included.
    pub num_tokens: usize,
    /// Completions sampled so far, those of the base included.
    pub num_completions: usize,
    /// Completions that went through a backward pass so far, stored ones included.
    pub num_gradients: usize,
    /// Stored ones among them.
    pub num_rehearsed: usize,
    /// Rounds of prompts drawn: the steps, and more where dynamic sampling asked for more.
    pub rounds: usize,
    /// Weight of the entropy bonus where it adapts.
    pub entropy_bonus: f64,
    /// Whether entropy was above its target in the last step, which switches the bonus off.
    pub is_above_entropy: bool,
    /// Sum and number of estimates of the base's validity by problem id, where they accumulate.
    pub partition: BTreeMap<String, (f64, usize)>,
    /// Sum and number, since the last checkpoint, of what tells which checkpoint is best.
    pub since_save: (f64, usize),
    /// The step of the best checkpoint and its mean since the one before it.
    pub best: Option<(usize, f64)>,
    /// A checksum of the base's samples, where the run has any.
    pub presamples: String,
    /// Tokens in one forward and backward pass, as they were resolved.
    pub micro_batch_tokens: usize,
}

/// Whether a run can have counted so far: sums stay within their types.
fn is_possible(state: &Value) -> bool {
    match state {
        Value::Number(number) => number.as_u64().is_none_or(|count| count <= 1 << 48),
        Value::Array(items) => items.iter().all(is_possible),
        Value::Object(fields) => fields.values().all(is_possible),
        _ => true,
    }
}

/// The contents of `trainer_state.json`.
#[derive(Serialize, Deserialize)]
struct TrainerState {
    #[serde(flatten)]
    state: State,
    /// Of the settings that must not differ.
    config_hash: String,
    config: Value,
    /// Size and CRC-32 of every other file.
    files: Inventory,
}

/// The checkpoints of one run.
pub struct Checkpoints<'a> {
    /// The run's directory.
    pub output: &'a Path,
    /// The model that was trained.
    pub model: &'a Pretrained,
    /// The adapter that is trained in its place.
    pub adapter: Option<&'a Adapter>,
    /// All that the result depends on.
    pub config: &'a Value,
    /// Number of the newest to keep; 0 keeps all. The best is never removed.
    pub limit: usize,
    /// The processes that train together, of which the first writes.
    pub ranks: &'a Ranks,
}

/// A checkpoint that was read.
pub struct Checkpoint {
    /// The state of the run.
    pub state: State,
    /// The trained weights: the policy's, or the adapter's.
    pub weights: Weights,
    /// The file of the optimizer's moments, with the checksum that it was written with.
    pub moments: PathBuf,
    /// The file of the rows of `metrics.jsonl` so far.
    pub metrics: PathBuf,
}

impl Checkpoints<'_> {
    /// Writes `checkpoint-N`, points `latest` at it and removes those beyond the limit.
    ///
    /// # Errors
    /// A directory that cannot be written, a full disk; no half checkpoint is left, and those that were there
    /// still are.
    pub fn save(&self, tensors: &Weights, optimizer: &AdamW, state: &mut State) -> Result<PathBuf> {
        let mut next = state.clone();
        let (sum, count) = std::mem::take(&mut next.since_save);
        let mean = sum / count as f64;
        if count > 0 && next.best.is_none_or(|(_, best)| mean > best) {
            next.best = Some((next.global_step, mean));
        }
        let name = run_folder::checkpoint(next.global_step);
        let path = self.output.join(&name);
        self.ranks.first(|| {
            self.write(&path, tensors, optimizer, &next)
                .with_context(|| self.where_it_stands(&name))?;
            write_atomic(&self.output.join(LATEST), format!("{name}\n").as_bytes())?;
            self.prune(&next)
        })?;
        *state = next;
        Ok(path)
    }

    fn write(
        &self,
        path: &Path,
        tensors: &Weights,
        optimizer: &AdamW,
        state: &State,
    ) -> Result<()> {
        let temporary = tealight_system::files::readable_folder()
            .prefix(".checkpoint-")
            .tempdir_in(self.output)?;
        let folder = temporary.path();
        self.model.save_trained(self.adapter, tensors, folder)?;
        weights::save(&optimizer.state(), &folder.join(MOMENTS))?;
        let metrics = std::fs::read(self.output.join(METRICS)).unwrap_or_default();
        write_atomic(&folder.join(METRICS), &metrics)?;
        let saved = TrainerState {
            state: state.clone(),
            config_hash: hash(self.config),
            config: self.config.clone(),
            files: inventory::read(folder)?,
        };
        write_atomic(&folder.join(STATE), serde_json::to_string_pretty(&saved)?.as_bytes())?;
        if path.exists() {
            std::fs::remove_dir_all(path)?;
        }
        std::fs::rename(folder, path)?;
        // Renamed: there is nothing left to remove.
        let _ = temporary.keep();
        sync_directory(self.output)
    }

    /// The remedy for a full disk.
    fn where_it_stands(&self, name: &str) -> String {
        let state = match newest(self.output) {
            Some(path) => format!("{} is complete", path.display()),
            None => "there is no earlier one".to_owned(),
        };
        format!(
            "{}: {name} cannot be written; {state}: make room, then continue with --resume",
            self.output.display()
        )
    }

    /// Removes what is beyond the limit, the oldest first.
    fn prune(&self, state: &State) -> Result<()> {
        if self.limit == 0 {
            return Ok(());
        }
        let best = state.best.map(|(step, _)| step);
        for (step, path) in all(self.output).into_iter().skip(self.limit) {
            if Some(step) != best {
                std::fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Reads the checkpoint in `path`.
    ///
    /// # Errors
    /// A file that is missing, truncated or changed, settings that differ: the message lists them and names an
    /// earlier checkpoint that can be continued.
    pub fn load(&self, path: &Path, device: &Device) -> Result<Checkpoint> {
        let saved = self.verified(path).map_err(|error| {
            let others = all(self.output).into_iter().filter(|(_, other)| other != path);
            match others.into_iter().find(|(_, other)| self.verified(other).is_ok()) {
                None => error,
                Some((step, other)) => {
                    let (name, other) = (run_folder::checkpoint(step), other.display());
                    anyhow::anyhow!("{error:#}; {name} is complete: --resume {other}")
                }
            }
        })?;
        let weights = self.model.trained_weights(self.adapter.is_some(), path, device)?;
        let moments = path.join(MOMENTS);
        let metrics = path.join(METRICS);
        Ok(Checkpoint { state: saved.state, weights, moments, metrics })
    }

    /// Bytes of a checkpoint of this many trained weights: the weights in 32 bits, and the optimizer's moments.
    pub fn bytes(trained: u64) -> u64 {
        trained * (4 + AdamW::BYTES_A_WEIGHT)
    }

    /// The largest file that a checkpoint of the model may have: two moments of every weight in 32 bits, its header,
    /// and the metrics.
    fn max_file(&self) -> u64 {
        let weights = self.model.architecture.parameters();
        weights.saturating_mul(2 * AdamW::BYTES_A_WEIGHT).saturating_add(MAX_LINES)
    }

    fn verified(&self, path: &Path) -> Result<TrainerState> {
        // One of this run's is in its folder; another the user has named.
        if path.starts_with(self.output) {
            own_file(self.output, path)?;
        }
        for entry in std::fs::read_dir(path).with_context(|| path.display().to_string())? {
            own_file(path, &entry?.path())?;
        }
        let file = path.join(STATE);
        if !file.exists() {
            bail!("{}: this file is missing, so the directory is not a checkpoint", file.display());
        }
        let saved: TrainerState = json_file::read(&file, MAX_SMALL).with_context(|| {
            format!("{}: truncated, or written by another version", file.display())
        })?;
        if saved.config_hash != hash(&saved.config) {
            bail!("{}: the settings were changed after the checkpoint was written", file.display());
        }
        let (mut before, mut now) = (saved.config.clone(), self.config.clone());
        let sides = || [&saved.config, self.config].into_iter();
        // 0 stands for any number of steps; the schedule or the objective, which differs then, decides that.
        if sides().any(|config| config["max_steps"] == 0) {
            let objects = [&mut before, &mut now].into_iter().filter_map(Value::as_object_mut);
            objects.for_each(|config| drop(config.remove("max_steps")));
        }
        let changes = changes(&before, &now);
        if !changes.is_empty() {
            bail!(
                "{} was made with other settings: {}; continue with those, or choose another --output",
                path.display(),
                changes.join(", ")
            );
        }
        inventory::check(path, &saved.files, self.max_file())?;
        if !is_possible(&serde_json::to_value(&saved.state)?) {
            bail!("{}: impossible counts: the file is damaged or was edited", file.display());
        }
        Ok(saved)
    }
}

/// The checkpoint that `--resume WHICH` means: a name in `output` or a path; the newest where `which` is empty.
pub fn find(output: &Path, which: &str) -> Result<Option<PathBuf>> {
    if which.is_empty() {
        return Ok(newest(output));
    }
    let candidates = [output.join(which), PathBuf::from(which)];
    match candidates.into_iter().find(|path| path.join(STATE).exists()) {
        Some(path) => Ok(Some(path)),
        None => {
            let names: Vec<String> =
                all(output).iter().map(|(step, _)| run_folder::checkpoint(*step)).collect();
            let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            bail!("{}: no checkpoint `{which}`; there are {names}", output.display())
        }
    }
}

/// Removes what a run that was killed while writing left behind.
pub fn clean(output: &Path) -> Result<()> {
    for entry in std::fs::read_dir(output)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(".checkpoint-") {
            std::fs::remove_dir_all(entry.path())
                .with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

/// Removes all checkpoints of a run that has ended.
pub fn discard(output: &Path) -> Result<()> {
    clean(output)?;
    for (_, path) in all(output) {
        std::fs::remove_dir_all(&path).with_context(|| path.display().to_string())?;
    }
    let latest = output.join(LATEST);
    match latest.exists() {
        true => std::fs::remove_file(&latest).with_context(|| latest.display().to_string()),
        false => Ok(()),
    }
}

/// The checkpoint that `latest` names, or else the one of the last step.
fn newest(output: &Path) -> Option<PathBuf> {
    let pointed = read_text(&output.join(LATEST), MAX_SMALL).ok();
    let pointed = pointed.and_then(|name| names::inside(output, name.trim()).ok());
    let pointed = pointed.filter(|path| path.exists());
    pointed.or_else(|| all(output).into_iter().next().map(|(_, path)| path))
}

/// Steps and paths of all checkpoints, the newest first.
pub fn all(output: &Path) -> Vec<(usize, PathBuf)> {
    let step =
        |path: &Path| -> Option<usize> { run_folder::checkpoint_step(path.file_name()?.to_str()?) };
    let entries = std::fs::read_dir(output).into_iter().flatten();
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut checkpoints: Vec<_> = paths.filter_map(|path| Some((step(&path)?, path))).collect();
    checkpoints.sort_by(|a, b| b.cmp(a));
    checkpoints
}

/// Of all that the result depends on, sorted by name.
fn hash(config: &Value) -> String {
    let fields: BTreeMap<&String, &Value> = config.as_object().into_iter().flatten().collect();
    let text: String = fields.into_iter().map(|(key, value)| format!("{key}={value}\n")).collect();
    format!("{:016x}", tealight_core::fnv(text.bytes()))
}
