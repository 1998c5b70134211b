//! What a training step costs, by part: the pieces of the trainer on given completions.

use std::time::Instant;

use anyhow::Result;
use candle_core::Tensor;

use super::adamw::AdamW;
use super::step::{micro_batches, padded};
use crate::model::Decoder;
use crate::objective::{LossInputs, Plan};
use crate::policy::{Policy, Sequence, token_logp};

/// Seconds of one step, by part.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct StepParts {
    /// Log-probabilities under the reference.
    pub reference: f64,
    /// Log-probabilities under the policy, and the loss.
    pub forward: f64,
    /// Gradients.
    pub backward: f64,
    /// Clipping and the new weights.
    pub optimizer: f64,
}

impl StepParts {
    /// Seconds of the whole step.
    pub fn total(&self) -> f64 {
        self.reference + self.forward + self.backward + self.optimizer
    }
}

/// Takes one step of `plan` on `rows`, with advantages that alternate between 1 and -1.
///
/// # Errors
/// No memory.
pub fn step(
    (policy, reference): (&Policy, &Decoder),
    plan: &Plan,
    rows: &[Sequence],
    micro_batch_tokens: usize,
    optimizer: &mut AdamW,
) -> Result<StepParts> {
    let device = reference.embedding().device();
    let mut parts = StepParts::default();
    let matrix = |rows: &[Sequence], value: &dyn Fn(usize) -> f32| -> Result<Tensor> {
        let values: Vec<Vec<f32>> = rows
            .iter()
            .enumerate()
            .map(|(index, row)| vec![value(index); row.completion.len()])
            .collect();
        Ok(padded(&values.iter().map(Vec::as_slice).collect::<Vec<_>>(), device)?)
    };
    for range in micro_batches(rows, micro_batch_tokens) {
        let share = &rows[range];
        let start = Instant::now();
        let base = token_logp(reference, share, 1.0)?.logp;
        device.synchronize()?;
        parts.reference += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let said = token_logp(policy.with_grad(), share, 1.0)?;
        let weight = 1.0 / rows.iter().map(|row| row.completion.len()).sum::<usize>() as f32;
        let weight = matrix(share, &|_| weight)?;
        let advantage = matrix(share, &|row| if row % 2 == 0 { 1.0 } else { -1.0 })?;
        let lengths: Vec<f32> = share.iter().map(|row| row.completion.len() as f32).collect();
        let lengths = Tensor::from_vec(lengths, (share.len(), 1), device)?;
        let behavior = said.logp.detach();
        let inputs = LossInputs {
            policy_logp: &said.logp,
            behavior_logp: &behavior,
            advantage: &advantage,
            weight: &weight,
            lengths: &lengths,
        };
        let mut total = plan.trust_region.loss(&inputs)?.total;
        if let Some((pointwise, share)) = plan.token_loss() {
            let term = (pointwise.of(&(&said.logp - base)?)? * &weight)?.sum_all()?;
            total = (total + (term * share)?)?;
        }
        device.synchronize()?;
        parts.forward += start.elapsed().as_secs_f64();
        let start = Instant::now();
        policy.backward(&total)?;
        device.synchronize()?;
        parts.backward += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    optimizer.step(policy, &policy.drain_gradients()?, 1e-6)?;
    device.synchronize()?;
    parts.optimizer = start.elapsed().as_secs_f64();
    Ok(parts)
}
