//! The loss of packed tokens, put together once: training, the laboratory and the benchmark all call it.
//!
//! Letters: B completions, N tokens of all of them, completions one after the other. Tensors are of one type, f32 in
//! training and f64 in the laboratory. Each token carries its weight in the mean of the whole optimizer step, so that
//! sums over micro-batches add up whatever the micro-batches are.

use candle_core::{DType, Result, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::offsets::Completions;
use super::plan::{Estimator, Matching, Plan, Regulariser};
use super::pointwise::PointwiseLoss;
use tealight_divergence::MAX_LOG_RATIO;
use tealight_divergence::elementary::Elementwise::Exp;

/// Inputs of the loss of rollouts, `[N]` each.
#[derive(Clone, Copy)]
pub struct LossInputs<'a> {
    /// Whose tokens these are.
    pub completions: &'a Completions,
    /// Log-probabilities under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities under what sampled the tokens.
    pub behavior_logp: &'a Tensor,
    /// Log-probabilities under the base, where the plan compares with it token by token.
    pub base_logp: Option<&'a Tensor>,
    /// Advantage of each token.
    pub advantage: &'a Tensor,
    /// Weight of each token in the step's loss: see [`LossType::weight`].
    pub weight: &'a Tensor,
    /// The same times the regulariser's coefficient: see [`Plan::penalty_weight`].
    pub penalty_weight: &'a Tensor,
    /// The full-vocabulary outputs; none where the plan reads none ([`Plan::reads_vocabulary`]).
    pub vocabulary: Option<VocabularyInputs<'a>>,
}

/// What the loss reads of full next-token distributions, `[N]` each.
#[derive(Clone, Copy)]
pub struct VocabularyInputs<'a> {
    /// Entropies, with a gradient.
    pub entropy: &'a Tensor,
    /// Divergences from the base, with a gradient, where the plan has one.
    pub divergence: Option<&'a Tensor>,
    /// Weight of the entropy bonus.
    pub entropy_bonus: f64,
}

/// A loss to minimise, and its logged statistic.
pub struct Loss {
    /// The scalar to differentiate: this micro-batch's share of the step's loss.
    pub total: Tensor,
    /// Number of clipped tokens, `[]`.
    pub clipped: Tensor,
}

impl Plan {
    /// The loss of a micro-batch of rollouts: the policy gradient within the trust region, the penalty of every sampled
    /// token, and the full-vocabulary terms.
    pub fn loss(&self, inputs: &LossInputs<'_>) -> Result<Loss> {
        let mut loss = self.trust_region.loss(inputs)?;
        if let (Some((pointwise, _)), Some(reference)) = (self.token_loss(), inputs.base_logp) {
            let cost = pointwise.apply(&(inputs.policy_logp - reference)?)?;
            let mut penalty_weight = inputs.penalty_weight.clone();
            if self.updates() > 1 {
                // E_pi[k(x)] from samples of the policy before the step, which are no longer its own: weighted by pi /
                // pi_old, taken as a constant.
                let ratio = Exp.apply(&(inputs.policy_logp.detach() - inputs.behavior_logp)?)?;
                penalty_weight = (penalty_weight * ratio)?;
            }
            loss.total = (loss.total + (cost * penalty_weight)?.sum_all()?)?;
        }
        if let Some(VocabularyInputs { entropy, divergence, entropy_bonus }) = inputs.vocabulary {
            let mut terms = Tensor::zeros((), entropy.dtype(), entropy.device())?;
            if let Some(divergence) = divergence {
                terms = (terms + (divergence * inputs.penalty_weight)?.sum_all()?)?;
            }
            if entropy_bonus != 0.0 {
                let entropy = (entropy * inputs.weight)?.sum_all()?;
                terms = (terms - (entropy * entropy_bonus)?)?;
            }
            loss.total = (loss.total + terms)?;
        }
        Ok(loss)
    }

    /// The pointwise loss that the log-ratio of each token of a rollout adds to the loss, and its weight.
    pub fn token_loss(&self) -> Option<(PointwiseLoss, f64)> {
        let regulariser = self.regulariser()?;
        match regulariser.estimator {
            Estimator::K2 => Some((PointwiseLoss::K2, regulariser.beta)),
            Estimator::K3 => Some((PointwiseLoss::K3, regulariser.beta)),
            // JS is half of either KL to the mean; DPH-RL adds the policy's to one micro-batch in ten.
            Estimator::Definition => Some((PointwiseLoss::MixturePolicy, 0.05 * regulariser.beta)),
            _ => None,
        }
    }

    /// The same for stored samples, token by token.
    pub fn rehearsal_loss(&self) -> Option<(PointwiseLoss, f64)> {
        let regulariser = self.regulariser()?;
        match regulariser.estimator {
            Estimator::Generator => {
                Some((PointwiseLoss::Generator(regulariser.divergence), regulariser.beta))
            }
            Estimator::Definition => Some((PointwiseLoss::MixtureBase, 0.5 * regulariser.beta)),
            _ => None,
        }
    }

    /// The regulariser that compares next-token distributions with the base's, if there is one.
    pub fn vocabulary_regulariser(&self) -> Option<&Regulariser> {
        self.regulariser().filter(|regulariser| regulariser.estimator == Estimator::Full)
    }

    /// Whether the loss has a full-vocabulary term at this entropy bonus.
    pub fn reads_vocabulary(&self, entropy_bonus: f64) -> bool {
        self.vocabulary_regulariser().is_some() || entropy_bonus != 0.0
    }

    /// The weight of a token's penalty, given its weight in the mean.
    pub fn penalty_weight(&self, weight: f64) -> f64 {
        weight * self.token_loss().map_or(self.beta(), |(_, coefficient)| coefficient)
    }

    /// The shares of so many tokens and completions of rollouts and of stored ones. In one mean (DPH-RL's repository)
    /// each counts by how much of it there is, so that a coefficient acts by the ratio of the two.
    pub fn shares(&self, rollouts: (usize, usize), stored: (usize, usize)) -> Shares {
        if !self.regulariser().is_some_and(|regulariser| regulariser.split.is_joint_mean) {
            return Shares { rollouts: 1.0, stored: 1.0 };
        }
        let (rollouts, stored) = match self.loss_type {
            LossType::Dapo => (rollouts.0, stored.0),
            LossType::Grpo | LossType::DrGrpo => (rollouts.1, stored.1),
        };
        let all = (rollouts + stored).max(1) as f64;
        Shares { rollouts: rollouts as f64 / all, stored: stored as f64 / all }
    }

    /// The loss of stored completions.
    ///
    /// # Errors
    /// A plan that reads none.
    pub fn stored_loss(&self, inputs: &StoredInputs<'_>) -> Result<StoredLoss> {
        let mut log_ratio = (inputs.policy_logp - inputs.base_logp)?;
        let pointwise = match (inputs.log_weight, self.matching(), self.rehearsal_loss()) {
            (None, _, Some((pointwise, _))) => pointwise,
            (Some(log_weight), Some(Matching { divergence, .. }), _) => {
                // log(pi / p) of whole completions: log pi - log a - log(p / a).
                log_ratio = (inputs.completions.sum(&log_ratio)? - log_weight)?;
                PointwiseLoss::Matching(*divergence)
            }
            _ => candle_core::bail!("the plan reads no stored completions of this kind"),
        };
        let total = (pointwise.apply(&log_ratio)? * inputs.weight)?.sum_all()?;
        let mut cut = 0.0;
        // Beyond the cut a token has no gradient: counted, so that it does not go unnoticed.
        if pointwise.is_cut() {
            let is_cut = log_ratio.detach().gt(MAX_LOG_RATIO)?.to_dtype(DType::F32)?;
            cut = f64::from(is_cut.sum_all()?.to_scalar::<f32>()?);
        }
        Ok(StoredLoss { total, cut })
    }
}

/// Inputs of the loss of stored completions of the base.
pub struct StoredInputs<'a> {
    /// Whose tokens these are.
    pub completions: &'a Completions,
    /// Log-probabilities `[N]` under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities `[N]` under the base.
    pub base_logp: &'a Tensor,
    /// Weights in the mean: of every token `[N]` in rehearsal, of whole samples of a target `[B]` in matching.
    pub weight: &'a Tensor,
    /// `log(p / a)` of each sample of a target p, `[B]`; none in rehearsal.
    pub log_weight: Option<&'a Tensor>,
}

/// The loss of stored completions, and its logged statistic.
pub struct StoredLoss {
    /// The scalar to differentiate, without the regulariser's coefficient.
    pub total: Tensor,
    /// Number of log-ratios that were clipped at [`MAX_LOG_RATIO`].
    pub cut: f64,
}

/// Weights of rollouts and of stored completions in the loss of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shares {
    /// Factor of the loss of rollouts.
    pub rollouts: f64,
    /// Factor of the loss of stored completions, its coefficient apart.
    pub stored: f64,
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
mod tests;
