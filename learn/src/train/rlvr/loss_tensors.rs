//! A micro-batch to the tensors that its loss reads.

use anyhow::Result;
use candle_core::{Device, Tensor};

use super::deferred::MicroBatch;
use crate::objective::{Completions, LossInputs, Plan, VocabularyInputs};
use crate::train::micro_batches::column;
use tealight_nn::policy::Forward;

/// The tensors `[N]` that the loss of a micro-batch reads beside the policy.
pub(super) struct LossTensors {
    completions: Completions,
    pub(super) behavior_logp: Tensor,
    base_logp: Option<Tensor>,
    advantage: Tensor,
    weight: Tensor,
    penalty_weight: Tensor,
}

impl LossTensors {
    pub(super) fn new(plan: &Plan, micro_batch: &MicroBatch, device: &Device) -> Result<Self> {
        let columns = micro_batch.columns();
        let penalty_weight = columns.weight.iter();
        let penalty_weight: Vec<f64> =
            penalty_weight.map(|weight| plan.penalty_weight(*weight, plan.beta())).collect();
        let logp = |values: &Vec<f32>| Tensor::from_slice(values, values.len(), device);
        Ok(Self {
            completions: Completions::new(columns.offsets.lengths(), device)?,
            behavior_logp: logp(&columns.behavior_logp)?,
            base_logp: columns.base_logp.as_ref().map(logp).transpose()?,
            advantage: column(&columns.advantage, device)?,
            weight: column(&columns.weight, device)?,
            penalty_weight: column(&penalty_weight, device)?,
        })
    }

    /// The inputs of the loss, with the policy's log-probabilities.
    pub(super) fn inputs<'a>(&'a self, policy_logp: &'a Tensor) -> LossInputs<'a> {
        LossInputs {
            completions: &self.completions,
            policy_logp,
            behavior_logp: &self.behavior_logp,
            base_logp: self.base_logp.as_ref(),
            advantage: &self.advantage,
            weight: &self.weight,
            penalty_weight: Some(&self.penalty_weight),
        }
    }

    /// The full-vocabulary terms of the loss; none where the plan has none at this entropy bonus.
    pub(super) fn vocabulary_loss(
        &self,
        plan: &Plan,
        forward: &Forward,
        entropy_bonus: f64,
    ) -> Result<Option<Tensor>> {
        if !plan.reads_vocabulary(entropy_bonus) {
            return Ok(None);
        }
        Ok(Some(plan.vocabulary_loss(&VocabularyInputs {
            entropy: forward.entropy(),
            divergence: forward.divergence(),
            weight: &self.weight,
            penalty_weight: &self.penalty_weight,
            entropy_bonus,
        })?))
    }
}
