//! The policy-gradient loss on rollouts: trust regions, and how tokens are averaged.
//!
//! Each token carries its weight in the mean of the whole optimizer step, so that sums over micro-batches add up
//! whatever the micro-batches are.

use candle_core::{Result, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::loss_inputs::{Loss, LossInputs};
use tealight_divergence::elementary::Elementwise::Exp;

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
    /// Number of completion tokens.
    pub tokens: usize,
    /// Number of completions.
    pub sequences: usize,
    /// The longest completion allowed.
    pub max_completion_length: usize,
}

impl LossType {
    /// The weight of each token of a completion of `length` tokens.
    pub fn weight(self, length: usize, normaliser: &Normaliser) -> f64 {
        match self {
            LossType::Dapo => 1.0 / normaliser.tokens as f64,
            LossType::Grpo => 1.0 / (normaliser.sequences * length.max(1)) as f64,
            LossType::DrGrpo => {
                1.0 / (normaliser.sequences * normaliser.max_completion_length) as f64
            }
        }
    }
}

/// How far one batch may move the policy. `low` and `high` are the distances from ratio 1 (the
/// field's epsilon and epsilon_high).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TrustRegion {
    /// None, and no ratio: `-A log pi`. One update a batch.
    None,
    /// `-min(rho A, clip(rho) A)` per token (PPO, arXiv 1707.06347); with `dual`, never below
    /// `dual A` for negative advantage.
    Ppo {
        /// Distance of the lower bound from ratio 1.
        low: f64,
        /// Distance of the upper bound from ratio 1.
        high: f64,
        /// Dual clip's constant c, above 1; none without dual clip.
        dual: Option<f64>,
    },
    /// The same on the sequence's ratio, `exp` of the mean log-ratio of its tokens (GSPO, arXiv
    /// 2507.18071).
    Gspo {
        /// Distance of the lower bound from ratio 1.
        low: f64,
        /// Distance of the upper bound from ratio 1.
        high: f64,
    },
    /// `-sg(min(rho, 1 + high)) A log pi`: the weight is cut, no token loses its gradient (CISPO,
    /// arXiv 2506.13585).
    Cispo {
        /// Distance of the upper bound of weights from 1.
        high: f64,
    },
}

impl TrustRegion {
    /// The loss of one micro-batch.
    pub(super) fn loss(self, inputs: &LossInputs<'_>) -> Result<Loss> {
        let log_ratio = (inputs.policy_logp - inputs.behavior_logp)?;
        let (gain, is_clipped) = match self {
            TrustRegion::None => {
                (inputs.policy_logp * inputs.advantage, inputs.weight.zeros_like()?)
            }
            TrustRegion::Ppo { low, high, dual } => {
                // E_pi[A] = E_old[rho A]; the minimum ends the gain of moving on once rho has left the interval.
                let (gain, is_clipped) =
                    clipped(&Exp.apply(&log_ratio)?, low, high, inputs.advantage)?;
                match dual {
                    None => (Ok(gain), is_clipped),
                    Some(dual) => {
                        // For A < 0 the minimum has no bound as rho grows; dual clip ends it at dual A.
                        let bound = (inputs.advantage * dual)?;
                        let is_bound = gain.lt(&bound)?.to_dtype(gain.dtype())?;
                        let is_negative = inputs.advantage.lt(0.0)?.to_dtype(gain.dtype())?;
                        let keep = (is_bound * is_negative)?;
                        let gain = (gain * (1.0 - &keep)?)? + (bound * &keep)?;
                        (gain, is_clipped.maximum(&keep)?)
                    }
                }
            }
            TrustRegion::Gspo { low, high } => {
                // exp(mean_t (log pi - log pi_old)): one ratio and one clip for the tokens of a completion.
                let counts = inputs.weight.gt(0.0)?.to_dtype(log_ratio.dtype())?;
                let mean = inputs.completions.mean(&(&log_ratio * counts)?)?;
                let ratio = inputs.completions.spread(&Exp.apply(&mean)?)?;
                let (gain, is_clipped) = clipped(&ratio, low, high, inputs.advantage)?;
                (Ok(gain), is_clipped)
            }
            TrustRegion::Cispo { high } => {
                // The truncated importance weight is a constant; the gradient goes through log pi alone.
                let ratio = Exp.apply(&log_ratio.detach())?;
                let is_clipped = ratio.gt(1.0 + high)?.to_dtype(ratio.dtype())?;
                let bound = ratio.ones_like()?.affine(0.0, 1.0 + high)?;
                let weight = ratio.minimum(&bound)?;
                ((weight * inputs.advantage)? * inputs.policy_logp, is_clipped)
            }
        };
        let total = (gain? * inputs.weight)?.sum_all()?.neg()?;
        let counts = inputs.weight.gt(0.0)?.to_dtype(is_clipped.dtype())?;
        let clipped = (is_clipped * counts)?.sum_all()?.detach();
        Ok(Loss { total, clipped })
    }
}

/// `min(rho A, clip(rho) A)` and where the clip decides.
fn clipped(ratio: &Tensor, low: f64, high: f64, advantage: &Tensor) -> Result<(Tensor, Tensor)> {
    let plain = (ratio * advantage)?;
    let bounded = (ratio.clamp(1.0 - low, 1.0 + high)? * advantage)?;
    let is_clipped = bounded.lt(&plain)?.to_dtype(plain.dtype())?;
    // Where both are equal, `minimum` would split the gradient between them.
    let gain = ((bounded * &is_clipped)? + (plain * (1.0 - &is_clipped)?)?)?;
    Ok((gain, is_clipped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Completions;
    use candle_core::{Device, Var};

    fn vector(values: &[f64]) -> Tensor {
        Tensor::from_slice(values, values.len(), &Device::Cpu).unwrap()
    }

    /// Gradient of the loss of two completions, of two tokens and of one, at behaviour -1.
    fn gradient(
        region: TrustRegion,
        policy: [f64; 3],
        advantage: [f64; 2],
        weight: f64,
    ) -> Vec<f64> {
        let policy = Var::new(&policy, &Device::Cpu).unwrap();
        let inputs = LossInputs {
            completions: &Completions::new(vec![2, 1], &Device::Cpu).unwrap(),
            policy_logp: policy.as_tensor(),
            behavior_logp: &vector(&[-1.0; 3]),
            base_logp: None,
            advantage: &vector(&[advantage[0], advantage[0], advantage[1]]),
            weight: &vector(&[weight; 3]),
            penalty_weight: None,
        };
        let loss = region.loss(&inputs).unwrap();
        loss.total.backward().unwrap().get(&policy).unwrap().to_vec1().unwrap()
    }

    const PPO: TrustRegion = TrustRegion::Ppo { low: 0.2, high: 0.28, dual: None };

    #[test]
    fn every_aggregation_weighs_tokens_as_its_paper_says() {
        let normaliser = Normaliser { tokens: 3, sequences: 2, max_completion_length: 4 };
        for (loss_type, long, short) in [
            (LossType::Dapo, 1.0 / 3.0, 1.0 / 3.0),
            (LossType::DrGrpo, 1.0 / 8.0, 1.0 / 8.0),
            (LossType::Grpo, 1.0 / 4.0, 1.0 / 2.0),
        ] {
            assert_eq!(loss_type.weight(2, &normaliser), long);
            assert_eq!(loss_type.weight(1, &normaliser), short);
        }
    }

    #[test]
    fn at_ratio_one_every_region_is_reinforce() {
        let start = [-1.0; 3];
        for region in [
            TrustRegion::None,
            PPO,
            TrustRegion::Ppo { low: 0.2, high: 0.2, dual: Some(3.0) },
            TrustRegion::Cispo { high: 5.0 },
            TrustRegion::Gspo { low: 3e-4, high: 4e-4 },
        ] {
            let grad = gradient(region, start, [2.0, -1.0], 0.5);
            // GSPO's ratio is a mean over tokens, which its weights sum over again.
            assert!((grad[0] + 1.0).abs() < 1e-12, "{region:?}: {grad:?}");
            assert!((grad[2] - 0.5).abs() < 1e-12, "{region:?}: {grad:?}");
        }
    }

    #[test]
    fn clipped_tokens_have_no_gradient_and_only_those() {
        for (ratio, advantage, has_gradient) in [
            (1.5, 1.0, false),
            (1.5, -1.0, true),
            (0.5, -1.0, false),
            (0.5, 1.0, true),
            (1.25, 1.0, true),
            (0.75, -1.0, false),
        ] {
            let policy = [-1.0 + f64::ln(ratio), -1.0, -1.0];
            let grad = gradient(PPO, policy, [advantage, 0.0], 1.0)[0];
            assert_eq!(grad != 0.0, has_gradient, "ratio {ratio}: gradient {grad}");
            let cispo =
                gradient(TrustRegion::Cispo { high: 0.28 }, policy, [advantage, 0.0], 1.0)[0];
            assert!((cispo + advantage * ratio.min(1.28)).abs() < 1e-12, "{ratio}: {cispo}");
        }
        let dual = TrustRegion::Ppo { low: 0.2, high: 0.2, dual: Some(3.0) };
        let far = |region| gradient(region, [-1.0 + f64::ln(4.0), -1.0, -1.0], [-1.0, 0.0], 1.0);
        assert_eq!(far(dual)[0], 0.0);
        assert!(far(PPO)[0] > 3.9);
    }

    #[test]
    fn gspo_clips_whole_sequences() {
        let region = TrustRegion::Gspo { low: 0.1, high: 0.1 };
        let unmoved = gradient(region, [-0.5, -1.5, -1.0], [1.0, 0.0], 1.0);
        assert!(unmoved[0] < 0.0, "the mean ratio is 1");
        let moved = gradient(region, [-0.8, -0.8, -1.0], [1.0, 0.0], 1.0);
        assert_eq!(moved[..2], [0.0, 0.0]);
    }
}
