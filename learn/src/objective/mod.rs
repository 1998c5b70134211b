//! The objective of training. This module sees aligned tensors and numbers; it knows no model, no
//! text, no prompt.
//!
//! [`Objective`] is a name with settings, [`Plan`] every choice it makes. Of a plan:
//!
//! - [`advantages`] turns judged samples of the policy into advantages (rewards, baselines, pseudo-rewards
//!   of a target, the cost of being far from the base);
//! - [`Plan::loss`] turns advantages, log-probabilities of packed tokens and outputs of full next-token distributions
//!   into a loss, [`Plan::stored_loss`] is that of the base's own completions;
//! - [`TrustRegion`] bounds how far a batch may move the policy;
//! - [`PointwiseLoss`] is a divergence as a loss over log-ratios: rehearsal, k2, k3, supervised matching.
//!
//! All divergences come from one definition in `divergence`. ARCHITECTURE.md has the order in which to read a loss, and
//! what to change to add to it.

mod advantage;
mod correction;
mod loss;
mod naming;
mod plan;
mod pointwise;
mod rule;
pub mod target;

pub use advantage::{Baseline, GroupStats, advantages, token_advantages};
pub(crate) use advantage::{clipped_reward_ratio, deviation, shaped_reward};
pub use correction::{ImportanceCorrection, Mismatch};
pub use loss::{
    Loss, LossType, Normaliser, PolicyOutputs, Shares, StoredValues, TokenValues, TrustRegion,
};
pub use naming::{Description, KEYS, Objective, SYMBOLS, describe, kinds};
pub use plan::{
    Anchor, Entropy, Estimator, Matching, Partition, Plan, Regulariser, SampleSource, Split, Target,
};
pub use pointwise::PointwiseLoss;
pub use rule::{FUNCTION, HELP as RULES, Rule};
pub use tealight_divergence::{Divergence, expression};
