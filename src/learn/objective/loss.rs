//! The loss of packed tokens, put together once: training, the laboratory, the benchmark and the check at a run's
//! start all call it.
//!
//! Letters: B completions, N tokens of all of them, completions one after the other. Tensors are of one type, f32 in
//! training and f64 in the laboratory.

use candle_core::{DType, Device, Result, Tensor};

use super::plan::{Estimator, Matching, Plan, Regulariser};
use super::pointwise::PointwiseLoss;
use super::surrogate::LossType;
use super::tokens::Covariance;
use super::vocabulary::{self, Candidates};
use crate::divergence::MAX_LOG_RATIO;

/// Which completion each packed token belongs to.
#[derive(Debug, Clone)]
pub struct Completions {
    /// Tokens of each completion, B of them.
    lengths: Vec<usize>,
    /// The completion of each token, `[N]`.
    owner: Tensor,
}

impl Completions {
    /// Of completions with so many tokens each.
    pub fn new(lengths: Vec<usize>, device: &Device) -> Result<Self> {
        let owner = lengths.iter().enumerate();
        let owner: Vec<u32> =
            owner.flat_map(|(row, length)| std::iter::repeat_n(row as u32, *length)).collect();
        let count = owner.len();
        Ok(Self { lengths, owner: Tensor::from_vec(owner, count, device)? })
    }

    /// Sums `[B]` of the tokens of each completion, of `x` `[N]`.
    pub fn sum(&self, x: &Tensor) -> Result<Tensor> {
        let zeros = Tensor::zeros(self.lengths.len(), x.dtype(), x.device())?;
        zeros.index_add(&self.owner, x, 0)
    }

    /// Means `[B]` of the tokens of each completion.
    pub fn mean(&self, x: &Tensor) -> Result<Tensor> {
        let lengths = self.lengths.iter().map(|length| *length as f64).collect();
        let lengths = Tensor::from_vec(lengths, self.lengths.len(), &Device::Cpu)?;
        self.sum(x)? / lengths.to_dtype(x.dtype())?.to_device(x.device())?
    }

    /// `[N]` with the value of its completion at every token, of `x` `[B]`.
    pub fn spread(&self, x: &Tensor) -> Result<Tensor> {
        x.index_select(&self.owner, 0)
    }
}

/// Inputs of the loss of rollouts, `[N]` each.
pub struct LossInputs<'a> {
    /// Whose tokens these are.
    pub completions: &'a Completions,
    /// Log-probabilities under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities under what sampled the tokens.
    pub behavior_logp: &'a Tensor,
    /// Log-probabilities under the base, where the plan compares with it token by token.
    pub reference_logp: Option<&'a Tensor>,
    /// Advantage of each token.
    pub advantage: &'a Tensor,
    /// Weight of each token in the step's loss: see [`super::LossType::weight`].
    pub weight: &'a Tensor,
    /// The same times the regulariser's coefficient: see [`Plan::penalty_weight`].
    pub penalty_weight: Option<&'a Tensor>,
    /// 1 for the tokens that KL-Cov penalises, 0 for others.
    pub kl_cov_mask: Option<&'a Tensor>,
}

/// Inputs of the full-vocabulary loss, `[N]` each.
pub struct VocabularyInputs<'a> {
    /// Entropies, with a gradient.
    pub entropy: &'a Tensor,
    /// Divergences from the base, with a gradient, where the plan has one.
    pub divergence: Option<&'a Tensor>,
    /// Weight of each token in the step's loss.
    pub weight: &'a Tensor,
    /// The same times the regulariser's coefficient.
    pub penalty_weight: &'a Tensor,
    /// Weight of the entropy bonus.
    pub entropy_bonus: f64,
    /// The inputs of SimKO.
    pub simko: Option<Candidates<'a>>,
}

/// Inputs of the loss of stored completions of the base.
pub struct StoredInputs<'a> {
    /// Whose tokens these are.
    pub completions: &'a Completions,
    /// Log-probabilities `[N]` under the policy, with a gradient.
    pub policy_logp: &'a Tensor,
    /// Log-probabilities `[N]` under the base.
    pub reference_logp: &'a Tensor,
    /// Their weights.
    pub weight: StoredWeight<'a>,
}

/// The average over stored completions.
pub enum StoredWeight<'a> {
    /// Token by token, with these weights `[N]`: rehearsal.
    Tokens(&'a Tensor),
    /// As whole samples of a target, with these weights `[B]` and the logarithms of the target's density over the
    /// base's, `[B]`: matching.
    Samples {
        /// The weight of each.
        weight: &'a Tensor,
        /// `log(p / a)`.
        log_weight: &'a Tensor,
    },
}

/// A loss to minimise, and its logged statistic.
pub struct Loss {
    /// The scalar to differentiate: this micro-batch's share of the step's loss.
    pub total: Tensor,
    /// Number of clipped tokens, `[]`.
    pub clipped: Tensor,
}

/// The same of stored completions.
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

impl Shares {
    /// Two means, each whole.
    pub const APART: Self = Self { rollouts: 1.0, stored: 1.0 };
}

impl Plan {
    /// The shares of so many tokens and completions of rollouts and of stored ones. In one mean (DPH-RL's repository)
    /// each counts by how much of it there is, so that a coefficient acts by the ratio of the two.
    pub fn shares(&self, rollouts: (usize, usize), stored: (usize, usize)) -> Shares {
        if !self.regulariser().is_some_and(|regulariser| regulariser.split.is_joint_mean) {
            return Shares::APART;
        }
        let (rollouts, stored) = match self.loss_type {
            LossType::Dapo => (rollouts.0, stored.0),
            LossType::Grpo | LossType::DrGrpo => (rollouts.1, stored.1),
        };
        let all = (rollouts + stored).max(1) as f64;
        Shares { rollouts: rollouts as f64 / all, stored: stored as f64 / all }
    }

    /// The penalty coefficient of a token of this weight, where its prompt's coefficient is `beta`.
    pub fn penalty_weight(&self, weight: f64, beta: f64) -> f64 {
        match (self.token_loss(), self.regulariser()) {
            // The share is of the plan's own coefficient; a prompt's may be another.
            (Some((_, share)), Some(regulariser)) => weight * share * beta / regulariser.beta,
            _ => weight * beta,
        }
    }

    /// The loss of a micro-batch of rollouts, full-vocabulary terms apart.
    pub fn loss(&self, inputs: &LossInputs<'_>) -> Result<Loss> {
        let mut loss = self.trust_region.loss(inputs)?;
        if let (Some((pointwise, _)), Some(reference), Some(penalty_weight)) =
            (self.token_loss(), inputs.reference_logp, inputs.penalty_weight)
        {
            let cost = pointwise.of(&(inputs.policy_logp - reference)?)?;
            let mut penalty_weight = penalty_weight.clone();
            if self.updates() > 1 {
                // The tokens are no longer the policy's own.
                let ratio = (inputs.policy_logp.detach() - inputs.behavior_logp)?.exp()?;
                penalty_weight = (penalty_weight * ratio)?;
            }
            loss.total = (loss.total + (cost * penalty_weight)?.sum_all()?)?;
        }
        if let (Some(Covariance::Kl { coefficient, .. }), Some(kl_cov_mask)) =
            (self.covariance, inputs.kl_cov_mask)
        {
            let moved = (inputs.policy_logp - inputs.behavior_logp)?.abs()?;
            let cost = ((moved * kl_cov_mask)? * inputs.weight)?.sum_all()?;
            loss.total = (loss.total + (cost * coefficient)?)?;
        }
        Ok(loss)
    }

    /// Whether a token without advantage has no gradient in the loss of rollouts, full-vocabulary terms and tokens that
    /// KL-Cov penalises apart.
    pub fn is_policy_gradient_alone(&self) -> bool {
        self.token_loss().is_none()
    }

    /// Whether [`Plan::vocabulary_loss`] is more than zero at this entropy bonus.
    pub fn reads_vocabulary(&self, entropy_bonus: f64) -> bool {
        self.vocabulary_regulariser().is_some() || entropy_bonus != 0.0 || self.simko.is_some()
    }

    /// The regulariser that compares next-token distributions with the base's, if there is one.
    pub fn vocabulary_regulariser(&self) -> Option<&Regulariser> {
        let is_full = |regulariser: &&Regulariser| {
            matches!(regulariser.estimator, Estimator::Full | Estimator::Held)
        };
        self.regulariser().filter(is_full)
    }

    /// The full-vocabulary terms of the loss.
    pub fn vocabulary_loss(&self, inputs: &VocabularyInputs<'_>) -> Result<Tensor> {
        let mut total = Tensor::zeros((), inputs.entropy.dtype(), inputs.entropy.device())?;
        if let Some(divergence) = inputs.divergence {
            total = (total + (divergence * inputs.penalty_weight)?.sum_all()?)?;
        }
        if inputs.entropy_bonus != 0.0 {
            let entropy = (inputs.entropy * inputs.weight)?.sum_all()?;
            total = (total - (entropy * inputs.entropy_bonus)?)?;
        }
        if let Some(candidates) = &inputs.simko {
            let extra = vocabulary::simko(candidates)?;
            total = (total + (extra * inputs.weight)?.sum_all()?)?;
        }
        Ok(total)
    }

    /// The loss of stored completions, or none where the plan reads none.
    pub fn stored_loss(&self, inputs: &StoredInputs<'_>) -> Result<StoredLoss> {
        let log_ratio = (inputs.policy_logp - inputs.reference_logp)?;
        let (pointwise, log_ratio, weight) = match (&inputs.weight, self.rehearsal_loss()) {
            (StoredWeight::Tokens(weight), Some((pointwise, _))) => (pointwise, log_ratio, *weight),
            (StoredWeight::Samples { weight, log_weight }, _) => {
                let Some(Matching { divergence, .. }) = self.matching() else {
                    candle_core::bail!("samples of a target are read by plans that aim at one");
                };
                let log_ratio = (inputs.completions.sum(&log_ratio)? - *log_weight)?;
                (PointwiseLoss::Matching(*divergence), log_ratio, *weight)
            }
            (StoredWeight::Tokens(_), None) => {
                candle_core::bail!("stored tokens are read by plans that rehearse")
            }
        };
        let total = (pointwise.of(&log_ratio)? * weight)?.sum_all()?;
        let mut cut = 0.0;
        if pointwise.is_cut() {
            let is_cut = log_ratio.detach().gt(MAX_LOG_RATIO)?.to_dtype(DType::F32)?;
            cut = f64::from(is_cut.sum_all()?.to_scalar::<f32>()?);
        }
        Ok(StoredLoss { total, cut })
    }
}
