//! What training optimises. This module sees aligned tensors and numbers; it knows no model, no
//! text, no prompt.
//!
//! [`Objective`] is a name with settings, [`Plan`] every choice it makes. Of a plan:
//!
//! - [`credits`] turns judged samples of the policy into credits (rewards, baselines, pseudo-rewards
//!   of a target, the cost of being far from the base);
//! - [`TrustRegion::loss`] turns credits and log-probabilities into a loss over tokens;
//! - [`Curve`] is a divergence as a loss over log-ratios: rehearsal, k2, k3, supervised matching;
//! - [`vocabulary`] holds the terms that look at whole next-token distributions.
//!
//! All divergences come from one definition in `divergence`. To add a divergence, add a variant
//! there; a rule, a variant in `rules`; a named combination, a row in `preset`.

mod annealing;
mod credit;
mod curve;
mod divergence;
mod keys;
mod named;
mod plan;
mod preset;
mod rules;
mod surrogate;
pub mod target;
pub mod tokens;
pub mod vocabulary;

pub use annealing::{Annealing, Coefficients, Shape};
pub use credit::{Baseline, Facts, charge_later, credits, cut_share};
pub use curve::{Curve, MAX_LOG_RATIO};
pub use divergence::Divergence;
pub use named::Objective;
pub(crate) use named::help;
pub use plan::{
    Anchor, Entropy, Estimator, Matching, Partition, Plan, Regulariser, Sampler, Split,
};
pub use rules::Rule;
pub use surrogate::{Loss, LossType, Normaliser, Streams, TrustRegion};
