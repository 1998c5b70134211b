//! Problems to judged groups of completions. Knows samplers, text and verifiers, not losses.

mod encoded;
mod group;
pub mod thinking;

pub use encoded::Encoded;
pub use group::{Collector, Group, RewardUse, Rollout, collect};
