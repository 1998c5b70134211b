//! The loss of packed tokens, put together once: training, the laboratory and the benchmark all call it.
//!
//! Letters: B completions, N tokens of all of them, completions one after the other. Tensors have the type of the
//! policy's log-probabilities, f32 in training and f64 in the laboratory. Each token carries its weight in the mean of
//! the whole optimizer step, so that sums over micro-batches add up whatever the micro-batches are.

use candle_core::{Device, Result, Tensor};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::plan::{Estimator, Plan, Regulariser};
use super::pointwise::PointwiseLoss;
use tealight_divergence::MAX_LOG_RATIO;
use tealight_divergence::elementary::Elementwise::Exp;

/// The inputs of the loss of a rollout, one number for each of its tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenValues {
    /// Log-probabilities under the policy before the step.
    pub behavior_logp: Vec<f64>,
    /// Log-probabilities under the base; empty where the plan does not read them.
    pub base_logp: Vec<f64>,
    /// Advantages.
    pub advantage: Vec<f64>,
    /// Weights in the step's loss: see [`LossType::weight`].
    pub weight: Vec<f64>,
}

/// The policy's outputs at the tokens, `[N]` each, with a gradient.
#[derive(Clone, Copy)]
pub struct PolicyOutputs<'a> {
    /// Log-probabilities.
    pub logp: &'a Tensor,
    /// Divergences of the next-token distributions from the base's, where the plan has them in the loss.
    pub divergence: Option<&'a Tensor>,
    /// Entropies and the weight of their bonus, where that is not 0.
    pub entropy_bonus: Option<(&'a Tensor, f64)>,
}

/// A loss to minimise, and its logged statistic.
pub struct Loss {
    /// The scalar to differentiate: this micro-batch's share of the step's loss.
    pub total: Tensor,
    /// Number `[]` of clipped tokens, of stored ones those whose log-ratio is beyond [`MAX_LOG_RATIO`].
    pub clipped: Tensor,
}

/// One number a token of all rollouts, `[N]`, as a tensor like the log-probabilities.
fn column<'a>(
    rollouts: &[&'a TokenValues],
    like: &Tensor,
    values: impl Fn(&'a TokenValues) -> &'a [f64],
) -> Result<Tensor> {
    vector(rollouts.iter().flat_map(|rollout| values(rollout)).copied().collect(), like)
}

/// Numbers as a tensor of the type and the device of another.
fn vector(values: Vec<f64>, like: &Tensor) -> Result<Tensor> {
    let count = values.len();
    Tensor::from_vec(values, count, &Device::Cpu)?.to_dtype(like.dtype())?.to_device(like.device())
}

impl Plan {
    /// The loss of a micro-batch of rollouts: the policy gradient within the trust region, the penalty of every sampled
    /// token, and the full-vocabulary terms.
    pub fn loss(&self, rollouts: &[&TokenValues], policy: PolicyOutputs<'_>) -> Result<Loss> {
        let PolicyOutputs { logp, divergence, entropy_bonus } = policy;
        let weight = column(rollouts, logp, |rollout| &rollout.weight)?;
        let mut loss = self.trust_region.loss(rollouts, logp, &weight)?;
        // Multiplied in f64, before they are rounded.
        let penalty_weight = |coefficient: f64| {
            let weight = rollouts.iter().flat_map(|rollout| &rollout.weight);
            vector(weight.map(|weight| weight * coefficient).collect(), logp)
        };
        if let Some((pointwise, coefficient)) = self.token_loss() {
            let base_logp = column(rollouts, logp, |rollout| &rollout.base_logp)?;
            let cost = pointwise.apply(&(logp - base_logp)?)?;
            let mut penalty_weight = penalty_weight(coefficient)?;
            if self.updates() > 1 {
                // E_pi[k(x)] from samples of the policy before the step, which are no longer its own: weighted by pi /
                // pi_old, taken as a constant.
                let behavior_logp = column(rollouts, logp, |rollout| &rollout.behavior_logp)?;
                let ratio = Exp.apply(&(logp.detach() - behavior_logp)?)?;
                penalty_weight = (penalty_weight * ratio)?;
            }
            loss.total = (loss.total + (cost * penalty_weight)?.sum_all()?)?;
        }
        if divergence.is_some() || entropy_bonus.is_some() {
            let mut terms = Tensor::zeros((), logp.dtype(), logp.device())?;
            if let Some(divergence) = divergence {
                terms = (terms + (divergence * penalty_weight(self.beta())?)?.sum_all()?)?;
            }
            if let Some((entropy, bonus)) = entropy_bonus {
                terms = (terms - ((entropy * &weight)?.sum_all()? * bonus)?)?;
            }
            loss.total = (loss.total + terms)?;
        }
        Ok(loss)
    }

    /// The pointwise loss that the log-ratio of each token of a rollout adds to the loss, and its weight.
    pub(crate) fn token_loss(&self) -> Option<(PointwiseLoss, f64)> {
        let regulariser = self.regulariser()?;
        match regulariser.estimator {
            Estimator::K2 => Some((PointwiseLoss::K2, regulariser.beta)),
            Estimator::K3 => Some((PointwiseLoss::K3, regulariser.beta)),
            // JS is half of either KL to the mean; DPH-RL adds the policy's to one micro-batch in ten.
            Estimator::Definition => Some((PointwiseLoss::MixturePolicy, 0.05 * regulariser.beta)),
            Estimator::Score | Estimator::Full | Estimator::Generator => None,
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
            Estimator::Score | Estimator::Full | Estimator::K2 | Estimator::K3 => None,
        }
    }

    /// The regulariser that compares next-token distributions with the base's, if there is one.
    pub fn vocabulary_regulariser(&self) -> Option<&Regulariser> {
        self.regulariser().filter(|regulariser| regulariser.estimator == Estimator::Full)
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

    /// The loss of stored completions, without the regulariser's coefficient: of every token where they are rehearsed,
    /// of whole ones where they stand for a target.
    ///
    /// # Errors
    /// A plan that reads none.
    pub fn stored_loss(&self, stored: &[StoredValues], policy_logp: &Tensor) -> Result<Loss> {
        let base_logp = stored.iter().flat_map(|one| &one.base_logp).copied().collect();
        let log_ratio = (policy_logp - vector(base_logp, policy_logp)?)?;
        let (pointwise, log_ratio, weight) = match (self.matching(), self.rehearsal_loss()) {
            (None, Some((pointwise, _))) => {
                let weight = |one: &StoredValues| vec![one.weight; one.base_logp.len()];
                (pointwise, log_ratio, stored.iter().flat_map(weight).collect())
            }
            (Some(matching), _) => {
                // log(pi / p) of whole completions: log pi - log a - log(p / a).
                let completions =
                    Completions::new(stored.iter().map(|one| one.base_logp.len()), policy_logp)?;
                let log_weight = stored.iter().map(|one| one.log_weight).collect();
                let log_ratio = (completions.sum(&log_ratio)? - vector(log_weight, policy_logp)?)?;
                let weight = stored.iter().map(|one| one.weight).collect();
                (PointwiseLoss::Matching(matching.divergence), log_ratio, weight)
            }
            _ => candle_core::bail!("the plan reads no stored completions"),
        };
        let total = (pointwise.apply(&log_ratio)? * vector(weight, policy_logp)?)?.sum_all()?;
        // Beyond the limit a token has no gradient: counted, so that it does not go unnoticed.
        let limit = if pointwise.is_cut() { MAX_LOG_RATIO } else { f64::INFINITY };
        let clipped = log_ratio.detach().gt(limit)?.to_dtype(total.dtype())?.sum_all()?;
        Ok(Loss { total, clipped })
    }
}

/// The inputs of the loss of a stored completion of the base.
pub struct StoredValues {
    /// Log-probability of each token under the base.
    pub base_logp: Vec<f64>,
    /// Weight in the mean, of every token in rehearsal and of the whole completion where it stands for a target.
    pub weight: f64,
    /// `log(p / a)` of a sample of a target p; rehearsal does not read it.
    pub log_weight: f64,
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
    /// The names that the key `trust-region` takes.
    pub(crate) const NAMES: [&str; 4] = ["none", "ppo", "gspo", "cispo"];

    /// The loss of one micro-batch.
    fn loss(
        self,
        rollouts: &[&TokenValues],
        policy_logp: &Tensor,
        weight: &Tensor,
    ) -> Result<Loss> {
        let advantage = &column(rollouts, policy_logp, |rollout| &rollout.advantage)?;
        let behavior_logp = column(rollouts, policy_logp, |rollout| &rollout.behavior_logp)?;
        let log_ratio = (policy_logp - behavior_logp)?;
        let (gain, is_clipped) = match self {
            TrustRegion::None => (policy_logp * advantage, weight.zeros_like()?),
            TrustRegion::Ppo { low, high, dual } => {
                // E_pi[A] = E_old[rho A]; the minimum ends the gain of moving on once rho has left the interval.
                let (gain, is_clipped) = clipped(&Exp.apply(&log_ratio)?, low, high, advantage)?;
                match dual {
                    None => (Ok(gain), is_clipped),
                    Some(dual) => {
                        // For A < 0 the minimum has no bound as rho grows; dual clip ends it at dual A.
                        let bound = (advantage * dual)?;
                        let is_bound = gain.lt(&bound)?.to_dtype(gain.dtype())?;
                        let is_negative = advantage.lt(0.0)?.to_dtype(gain.dtype())?;
                        let keep = (is_bound * is_negative)?;
                        let gain = (gain * (1.0 - &keep)?)? + (bound * &keep)?;
                        (gain, is_clipped.maximum(&keep)?)
                    }
                }
            }
            TrustRegion::Gspo { low, high } => {
                // exp(mean_t (log pi - log pi_old)): one ratio and one clip for the tokens of a completion.
                let lengths = rollouts.iter().map(|rollout| rollout.weight.len());
                let completions = Completions::new(lengths, policy_logp)?;
                let counts = weight.gt(0.0)?.to_dtype(log_ratio.dtype())?;
                let mean = completions.mean(&(&log_ratio * counts)?)?;
                let ratio = completions.spread(&Exp.apply(&mean)?)?;
                let (gain, is_clipped) = clipped(&ratio, low, high, advantage)?;
                (Ok(gain), is_clipped)
            }
            TrustRegion::Cispo { high } => {
                // The truncated importance weight is a constant; the gradient goes through log pi alone.
                let ratio = Exp.apply(&log_ratio.detach())?;
                let is_clipped = ratio.gt(1.0 + high)?.to_dtype(ratio.dtype())?;
                let bound = ratio.ones_like()?.affine(0.0, 1.0 + high)?;
                ((ratio.minimum(&bound)? * advantage)? * policy_logp, is_clipped)
            }
        };
        let total = (gain? * weight)?.sum_all()?.neg()?;
        let counts = weight.gt(0.0)?.to_dtype(is_clipped.dtype())?;
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

/// Which completion each token belongs to.
struct Completions {
    /// Tokens of each completion, `[B]`.
    lengths: Tensor,
    /// The completion of each token, `[N]`.
    owner: Tensor,
}

impl Completions {
    /// Of completions of so many tokens each, for tensors like this one.
    fn new(lengths: impl Iterator<Item = usize> + Clone, like: &Tensor) -> Result<Self> {
        let owner = lengths.clone().enumerate();
        let owner: Vec<u32> =
            owner.flat_map(|(row, length)| std::iter::repeat_n(row as u32, length)).collect();
        let count = owner.len();
        let owner = Tensor::from_vec(owner, count, like.device())?;
        Ok(Self { lengths: vector(lengths.map(|length| length as f64).collect(), like)?, owner })
    }

    /// Sums `[B]` of the tokens of each completion, of `x` `[N]`.
    fn sum(&self, x: &Tensor) -> Result<Tensor> {
        // By index and not by a mask [B, N], which would be quadratic in the completions.
        self.lengths.zeros_like()?.index_add(&self.owner, x, 0)
    }

    /// Means `[B]` of the tokens of each completion.
    fn mean(&self, x: &Tensor) -> Result<Tensor> {
        self.sum(x)? / &self.lengths
    }

    /// `[N]` with the value of its completion at every token, of `x` `[B]`.
    fn spread(&self, x: &Tensor) -> Result<Tensor> {
        x.index_select(&self.owner, 0)
    }
}

#[cfg(test)]
mod tests;
