//! The policy-gradient loss with PPO's clipping, and the rehearsal loss.
//!
//! Letters: B sequences of a micro-batch, T tokens. Sums run over the micro-batch and are divided by
//! totals of the whole optimizer step, so that the gradient does not depend on the micro-batches.

use candle_core::{Result, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Divergence;

/// The aligned tensors of one micro-batch; zero where a row has ended.
pub struct Streams<'a> {
    /// Log-probabilities `[B, T]` under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities `[B, T]` under what sampled the tokens.
    pub behavior_logp: &'a Tensor,
    /// Advantage `[B, 1]` of each completion.
    pub advantage: &'a Tensor,
    /// 1 where a token counts, `[B, T]`.
    pub mask: &'a Tensor,
}

/// How tokens are averaged; the names are TRL's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum LossType {
    /// Mean over the tokens of a completion, then over completions (GRPO).
    Grpo,
    /// Mean over all tokens of the step (DAPO).
    Dapo,
    /// Sum over tokens, over completions times the longest allowed length (Dr. GRPO).
    DrGrpo,
}

/// The totals of one optimizer step that sums are divided by.
#[derive(Debug, Clone, Copy)]
pub struct Normaliser {
    /// Completion tokens.
    pub tokens: usize,
    /// Completions.
    pub sequences: usize,
    /// The longest completion allowed.
    pub max_completion_length: usize,
}

/// The interval outside of which a ratio earns no gradient.
#[derive(Debug, Clone, Copy)]
pub struct Clip {
    /// Below 1 by this much.
    pub low: f64,
    /// Above 1 by this much.
    pub high: f64,
}

/// A loss to minimise, and what is reported of it.
pub struct Loss {
    /// The scalar to differentiate: this micro-batch's share of the step's loss.
    pub total: Tensor,
    /// How many tokens were clipped, `[]`.
    pub clipped: Tensor,
}

impl LossType {
    /// The clipped surrogate `-sum w min(rho A, clip(rho) A)`, `rho = pi / behavior` per token.
    ///
    /// # Errors
    /// Shapes that do not fit.
    pub fn loss(self, streams: &Streams<'_>, clip: Clip, normaliser: &Normaliser) -> Result<Loss> {
        let ratio = (streams.policy_logp - streams.behavior_logp)?.exp()?;
        let clipped = ratio.clamp(1.0 - clip.low, 1.0 + clip.high)?;
        let plain = ratio.broadcast_mul(streams.advantage)?;
        let bounded = clipped.broadcast_mul(streams.advantage)?;
        let is_clipped = bounded.lt(&plain)?.to_dtype(plain.dtype())?;
        let per_token = (plain.minimum(&bounded)? * streams.mask)?;
        let total = match self {
            LossType::Dapo => (per_token.sum_all()? / normaliser.tokens as f64)?,
            LossType::DrGrpo => {
                let cells = normaliser.sequences * normaliser.max_completion_length;
                (per_token.sum_all()? / cells as f64)?
            }
            LossType::Grpo => {
                let lengths = streams.mask.sum_keepdim(1)?;
                let means = (per_token.sum_keepdim(1)? / lengths)?;
                (means.sum_all()? / normaliser.sequences as f64)?
            }
        };
        let clipped = (is_clipped * streams.mask)?.sum_all()?.detach();
        Ok(Loss { total: total.neg()?, clipped })
    }
}

/// Largest log-ratio whose exponential is taken; beyond it the loss is flat.
const MAX_LOG_RATIO: f64 = 20.0;

/// This micro-batch's share of the mean over tokens of `f(pi / a)` on samples of the base.
///
/// For forward KL the expectation is exactly `KL(a || pi)` by the chain rule; for JS it is the mean
/// over prefixes of the token-wise divergence (DPH-RL, arXiv 2509.07430), not that of sequences.
/// `tokens` counts those of the whole step's rehearsal.
///
/// # Errors
/// Shapes that do not fit.
pub fn rehearsal_loss(
    divergence: Divergence,
    policy_logp: &Tensor,
    reference_logp: &Tensor,
    mask: &Tensor,
    tokens: usize,
) -> Result<Tensor> {
    // Only growth is bounded: a forgotten token (a very negative ratio) keeps its full pull.
    let log_ratio = (policy_logp - reference_logp)?;
    let log_ratio = log_ratio.minimum(&log_ratio.ones_like()?.affine(0.0, MAX_LOG_RATIO)?)?;
    (divergence.f(&log_ratio)? * mask)?.sum_all()? / tokens as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    fn matrix(values: &[&[f64]]) -> Tensor {
        let width = values[0].len();
        Tensor::from_vec(values.concat(), (values.len(), width), &Device::Cpu).unwrap()
    }

    fn gradient(
        loss_type: LossType,
        policy: &Tensor,
        advantage: &Tensor,
        normaliser: &Normaliser,
    ) -> Vec<Vec<f64>> {
        let policy = Var::from_tensor(policy).unwrap();
        let streams = Streams {
            policy_logp: policy.as_tensor(),
            behavior_logp: &matrix(&[&[-1.0, -1.0], &[-1.0, 0.0]]),
            advantage,
            mask: &matrix(&[&[1.0, 1.0], &[1.0, 0.0]]),
        };
        let loss = loss_type.loss(&streams, Clip { low: 0.2, high: 0.28 }, normaliser).unwrap();
        loss.total.backward().unwrap().get(&policy).unwrap().to_vec2().unwrap()
    }

    #[test]
    fn at_ratio_one_every_aggregation_weighs_tokens_as_its_paper_says() {
        let normaliser = Normaliser { tokens: 3, sequences: 2, max_completion_length: 4 };
        let policy = matrix(&[&[-1.0, -1.0], &[-1.0, 0.0]]);
        let advantage = matrix(&[&[2.0], &[-1.0]]);
        for (loss_type, first, second) in [
            (LossType::Dapo, -2.0 / 3.0, 1.0 / 3.0),
            (LossType::DrGrpo, -2.0 / 8.0, 1.0 / 8.0),
            (LossType::Grpo, -2.0 / 4.0, 1.0 / 2.0),
        ] {
            let grad = gradient(loss_type, &policy, &advantage, &normaliser);
            assert!((grad[0][0] - first).abs() < 1e-12 && (grad[0][1] - first).abs() < 1e-12);
            assert!((grad[1][0] - second).abs() < 1e-12 && grad[1][1] == 0.0, "{loss_type:?}");
        }
    }

    #[test]
    fn clipped_tokens_have_no_gradient_and_only_those() {
        let normaliser = Normaliser { tokens: 1, sequences: 1, max_completion_length: 1 };
        for (ratio, advantage, has_gradient) in [
            (1.5, 1.0, false),
            (1.5, -1.0, true),
            (0.5, -1.0, false),
            (0.5, 1.0, true),
            (1.25, 1.0, true),
            (0.75, -1.0, false),
        ] {
            let policy = matrix(&[&[-1.0 + f64::ln(ratio), -1.0], &[-1.0, 0.0]]);
            let advantage = matrix(&[&[advantage], &[0.0]]);
            let grad = gradient(LossType::Dapo, &policy, &advantage, &normaliser)[0][0];
            assert_eq!(grad != 0.0, has_gradient, "ratio {ratio}: gradient {grad}");
        }
    }

    #[test]
    fn the_rehearsal_gradient_is_that_of_finite_differences() {
        let reference = matrix(&[&[-1.0, -2.0], &[-0.5, 0.0]]);
        let mask = matrix(&[&[1.0, 1.0], &[1.0, 0.0]]);
        let start = [[-1.3, -1.6], [-3.0, 0.0]];
        for divergence in Divergence::ALL {
            let value =
                |policy: &Tensor| rehearsal_loss(divergence, policy, &reference, &mask, 3).unwrap();
            let policy = Var::new(&start, &Device::Cpu).unwrap();
            let grads = value(policy.as_tensor()).backward().unwrap();
            let grads = grads.get(&policy).unwrap().to_vec2::<f64>().unwrap();
            for (row, column) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
                let shifted = |by: f64| {
                    let mut point = start;
                    point[row][column] += by;
                    value(&Tensor::new(&point, &Device::Cpu).unwrap()).to_scalar::<f64>().unwrap()
                };
                let exact = (shifted(1e-6) - shifted(-1e-6)) / 2e-6;
                assert!((grads[row][column] - exact).abs() < 1e-7, "{divergence:?}");
            }
        }
    }

    #[test]
    fn a_forgotten_token_keeps_its_pull_under_forward_kl() {
        let policy = Var::new(&[[-60.0_f64]], &Device::Cpu).unwrap();
        let (reference, mask) = (matrix(&[&[-1.0]]), matrix(&[&[1.0]]));
        let loss = rehearsal_loss(Divergence::ForwardKl, policy.as_tensor(), &reference, &mask, 1);
        let grads = loss.unwrap().backward().unwrap();
        let pull = grads.get(&policy).unwrap().to_vec2::<f64>().unwrap()[0][0];
        assert!((pull + 1.0).abs() < 1e-9, "{pull}");
    }
}
