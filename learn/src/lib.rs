//! Reinforcement learning: objectives, judged groups of completions, the base's stored samples, and training.

#![warn(missing_docs)]

pub mod base_validity;
pub mod objective;
pub mod presample;
pub mod rollout;
pub mod train;
