//! The names in the folder of a training run, which several parts look for.

/// One JSON line a step, in a run and in each checkpoint.
pub const METRICS: &str = "metrics.jsonl";
/// The trained model.
pub const FINAL: &str = "final";
/// The model of the best evaluation.
pub const BEST: &str = "best";
/// How the names of checkpoints begin.
pub const CHECKPOINT: &str = "checkpoint-";

/// The name of the checkpoint after so many steps.
pub fn checkpoint(step: usize) -> String {
    format!("{CHECKPOINT}{step}")
}

/// The steps after which the checkpoint of this name was written.
pub fn checkpoint_step(name: &str) -> Option<usize> {
    name.strip_prefix(CHECKPOINT)?.parse().ok()
}

/// Whether this is the name of a model that a run writes.
pub fn is_model(name: &str) -> bool {
    matches!(name, FINAL | BEST) || name.starts_with(CHECKPOINT)
}
