//! Divergence and entropy of the whole vocabulary at every position, by their definitions. Training does not come here:
//! `nn/src/backend/cpu/full_vocabulary.rs` finds both, and their gradients, a block of the vocabulary at a time.
//!
//! Letters: N positions, V vocabulary. Log-probabilities are normalised over V.

use candle_core::{D, Result, Tensor};
use tealight_divergence::elementary::Elementwise::Exp;
use tealight_learn::objective::{Divergence, PointwiseLoss};

/// `D_f(pi || a) [N]` of the next-token distributions: `sum_v a_v f(pi_v / a_v)`.
pub fn divergence(kind: Divergence, logp: &Tensor, base_logp: &Tensor) -> Result<Tensor> {
    let ratio = (logp - base_logp)?;
    (PointwiseLoss::Generator(kind).apply(&ratio)? * Exp.apply(base_logp)?)?.sum(D::Minus1)
}

/// Entropy `[N]` in nats.
pub fn entropy(logp: &Tensor) -> Result<Tensor> {
    (Exp.apply(logp)? * logp)?.sum(D::Minus1)?.neg()
}
