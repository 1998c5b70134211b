//! The loss of packed tokens, put together once: training, the laboratory and the benchmark all call it.
//!
//! Letters: B completions, N tokens of all of them, completions one after the other. Tensors are of one type, f32 in
//! training and f64 in the laboratory.

use candle_core::{DType, Result, Tensor};

use super::loss_inputs::{
    Loss, LossInputs, StoredInputs, StoredLoss, StoredWeight, VocabularyInputs,
};
use super::plan::{Estimator, Matching, Plan, Regulariser};
use super::pointwise::PointwiseLoss;
use super::surrogate::LossType;
use tealight_divergence::MAX_LOG_RATIO;
use tealight_divergence::elementary::Elementwise::Exp;

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
            (self.token_loss(), inputs.base_logp, inputs.penalty_weight)
        {
            let cost = pointwise.apply(&(inputs.policy_logp - reference)?)?;
            let mut penalty_weight = penalty_weight.clone();
            if self.updates() > 1 {
                // E_pi[k(x)] from samples of the policy before the step, which are no longer its own: weighted by pi /
                // pi_old, taken as a constant.
                let ratio = Exp.apply(&(inputs.policy_logp.detach() - inputs.behavior_logp)?)?;
                penalty_weight = (penalty_weight * ratio)?;
            }
            loss.total = (loss.total + (cost * penalty_weight)?.sum_all()?)?;
        }
        Ok(loss)
    }

    /// Whether a token without advantage has no gradient in the loss of rollouts, full-vocabulary terms apart.
    pub fn is_policy_gradient_alone(&self) -> bool {
        self.token_loss().is_none()
    }

    /// Whether [`Plan::vocabulary_loss`] is more than zero at this entropy bonus.
    pub fn reads_vocabulary(&self, entropy_bonus: f64) -> bool {
        self.vocabulary_regulariser().is_some() || entropy_bonus != 0.0
    }

    /// The regulariser that compares next-token distributions with the base's, if there is one.
    pub fn vocabulary_regulariser(&self) -> Option<&Regulariser> {
        self.regulariser().filter(|regulariser| regulariser.estimator == Estimator::Full)
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
        Ok(total)
    }

    /// The loss of stored completions, or none where the plan reads none.
    pub fn stored_loss(&self, inputs: &StoredInputs<'_>) -> Result<StoredLoss> {
        let log_ratio = (inputs.policy_logp - inputs.base_logp)?;
        let (pointwise, log_ratio, weight) = match (&inputs.weight, self.rehearsal_loss()) {
            (StoredWeight::Tokens(weight), Some((pointwise, _))) => (pointwise, log_ratio, *weight),
            (StoredWeight::Samples { weight, log_weight }, _) => {
                let Some(Matching { divergence, .. }) = self.matching() else {
                    candle_core::bail!("samples of a target are read by plans that aim at one");
                };
                // log(pi / p) of whole completions: log pi - log a - log(p / a).
                let log_ratio = (inputs.completions.sum(&log_ratio)? - *log_weight)?;
                (PointwiseLoss::Matching(*divergence), log_ratio, *weight)
            }
            (StoredWeight::Tokens(_), None) => {
                candle_core::bail!("stored tokens are read by plans that rehearse")
            }
        };
        let total = (pointwise.apply(&log_ratio)? * weight)?.sum_all()?;
        let mut cut = 0.0;
        // Beyond the cut a token has no gradient: counted, so that it does not go unnoticed.
        if pointwise.is_cut() {
            let is_cut = log_ratio.detach().gt(MAX_LOG_RATIO)?.to_dtype(DType::F32)?;
            cut = f64::from(is_cut.sum_all()?.to_scalar::<f32>()?);
        }
        Ok(StoredLoss { total, cut })
    }
}
