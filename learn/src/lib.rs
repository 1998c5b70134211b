//! Reinforcement learning: objectives, judged groups of completions, the base's stored samples, training, the exact
//! probabilities of listed answers and outputs.

#![warn(missing_docs)]

pub mod gap;
pub mod listed;
pub mod objective;
pub mod presample;
pub mod rollout;
pub mod train;
