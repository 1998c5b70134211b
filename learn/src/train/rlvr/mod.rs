//! Fine-tuning by verifiable rewards, as data that flows one way.
//!
//! | stage | from | to |
//! |---|---|---|
//! | `source`, `rollouts` | prompts | `Rollouts`: judged groups |
//! | `batch` | judged groups | `TokenBatch`: log-probabilities, advantages and weights of every token |
//! | `gradients` | `TokenBatch`, and the base's stored completions (`training_data`) | the gradient of one update |
//! | `training` | all of them | optimizer steps |
//!
//! Supervised objectives train on stored completions alone.

mod batch;
mod config;
mod gradients;
mod health;
mod kl_to_base;
mod metrics;
mod rewarding;
mod rollouts;
mod run;
mod self_check;
mod settings;
mod source;
mod training;
mod training_data;

pub use config::{RlvrConfig, reads_base};
pub use health::Health;
pub use metrics::Metrics;
pub use rewarding::Rewarding;
pub use run::{Data, Models, RolloutEngine, Run, Sampling};
pub use settings::{LENGTH, LogKl, Settings};
pub use training::{End, Report, Step, train};
pub use training_data::{StoredCompletion, TrainingData};
