//! Fine-tuning by verifiable rewards, as data that flows one way.
//!
//! | stage | from | to |
//! |---|---|---|
//! | `source`, `rollouts`, `ahead` | prompts | `Rollouts`: judged groups |
//! | `scored` (with `scorer`, `history`) | `Rollouts` | `ScoredGroups`: log-probabilities, statistics |
//! | `monitor` | `ScoredGroups` | measures that only the log reads |
//! | `batch` | `ScoredGroups` | `TokenBatch`: flat columns of advantages and weights |
//! | `deferred` | `TokenBatch` and the outputs of a pass | `MicroBatch`: what the loss reads |
//! | `gradients` (with `loss_tensors`, `rehearsal`) | `MicroBatch` | the gradient of one update |
//! | `training` | all of them | optimizer steps |
//!
//! A file imports those above it in this table and none below. The base's stored completions (`training_data`) enter in
//! `rehearsal`; supervised objectives train on those alone.

mod ahead;
mod batch;
mod columns;
mod config;
mod deferred;
mod gradients;
mod health;
mod history;
mod identity;
mod loss_tensors;
mod metrics;
mod monitor;
mod rehearsal;
mod rewarding;
mod rollouts;
mod run;
mod scored;
mod scorer;
mod self_check;
mod settings;
mod source;
mod training;
mod training_data;
mod update_stats;

pub use config::{RlvrConfig, reads_base};
pub use health::Health;
pub use metrics::Metrics;
pub use rewarding::Rewarding;
pub use run::{RolloutEngine, Run, Sampling};
pub use settings::{LENGTH, LogKl, Settings};
pub use training::{End, Report, Step, train};
pub use training_data::{Rehearsal, TrainingData, wants_extra_check};
