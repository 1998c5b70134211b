//! Next-token distributions as losses use them, and their gradients.
//!
//! N tokens of a pass, D hidden size, V vocabulary.

use candle_core::Tensor;

use super::Parameter;
use tealight_divergence::Divergence;

/// The tokens that rows of hidden states are asked about, and the temperature of their distributions.
#[derive(Clone, Copy)]
pub(crate) struct Targets<'a> {
    pub(crate) tokens: &'a [u32],
    pub(crate) temperature: f64,
}

/// Results of next-token distributions, and the values that their gradient needs.
pub(crate) struct TokenLogp<S> {
    /// Natural log-probability of each target, `[N]`.
    pub(crate) logp: Tensor,
    /// Entropy in nats of the distribution it is from, `[N]`.
    pub(crate) entropy: Tensor,
    /// The logarithm of the sum of `exp(logit / temperature)`, `[N]`.
    pub(crate) log_mass: Tensor,
    /// For [`Backend::logp_backward`].
    pub(crate) saved: S,
}

impl<S> TokenLogp<S> {
    /// The same with another trace.
    pub(crate) fn map<T>(self, trace: impl FnOnce(S) -> T) -> TokenLogp<T> {
        let Self { logp, entropy, log_mass, saved } = self;
        TokenLogp { logp, entropy, log_mass, saved: trace(saved) }
    }
}

/// Another model's distributions at the same positions, and how distances from them are measured.
#[derive(Clone)]
pub(crate) struct Anchor {
    /// Output layer of the other model, `[V, D]`.
    pub(crate) head: Parameter,
    /// Hidden states of the other model, `[N, D]`.
    pub(crate) hidden: Tensor,
    /// The logarithm of the sum of `exp(logit / temperature)`, `[N]`.
    pub(crate) log_mass: Tensor,
    pub(crate) divergence: Divergence,
}

/// Divergences `[N]` from an anchor.
#[derive(Clone)]
pub(crate) struct Divergences {
    /// `D_f(pi || a) = sum_v a_v f(u_v)`, u = pi / a.
    pub(crate) values: Tensor,
    /// `sum_v a_v u_v f'(u_v)`, for the gradient.
    pub(crate) slopes: Tensor,
}

/// dL/d of the log-probabilities, entropies and divergences of next-token distributions.
pub(crate) struct LogpGrads<'a> {
    /// Of the targets' log-probabilities, `[N]`.
    pub(crate) logp: &'a Tensor,
    /// Of the entropies, `[N]`.
    pub(crate) entropy: Option<&'a Tensor>,
    /// The anchor, the distances from it and their gradient `[N]`.
    pub(crate) divergence: Option<(&'a Anchor, &'a Divergences, &'a Tensor)>,
}
