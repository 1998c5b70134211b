//! The time of a training step, by part: the pieces of the trainer on given completions.

use std::time::Instant;

use anyhow::Result;

use super::adamw::AdamW;
use super::micro_batches::{column, lengths, micro_batches};
use crate::objective::{Completions, LossInputs, Offsets, Plan};
use tealight_nn::model::Decoder;
use tealight_nn::policy::{GradAccumulator, Policy, Sequence, token_logp};

/// Seconds of one step, by part.
#[derive(Debug, Clone, Copy, Default, serde::Serialize)]
pub struct StepParts {
    /// Log-probabilities under the reference.
    pub reference: f64,
    /// Log-probabilities under the policy, and the loss.
    pub forward: f64,
    /// Backward pass: the gradients of all weights.
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
pub fn step(
    (policy, reference): (&Policy, &Decoder),
    plan: &Plan,
    rows: &[Sequence],
    micro_batch_tokens: usize,
    optimizer: &mut AdamW,
) -> Result<StepParts> {
    let device = reference.device();
    let mut parts = StepParts::default();
    let mut grads = GradAccumulator::default();
    let weight = 1.0 / lengths(rows).iter().sum::<usize>() as f64;
    for range in micro_batches(rows, micro_batch_tokens) {
        let share = &rows[range];
        let each = |value: &dyn Fn(usize) -> f64| {
            let by_completion: Vec<f64> = (0..share.len()).map(value).collect();
            column(&Offsets::new(lengths(share)).spread(&by_completion), device)
        };
        let start = Instant::now();
        let base = token_logp(reference, share, 1.0)?.logp;
        device.synchronize()?;
        parts.reference += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let forward = policy.forward(share, 1.0)?;
        let loss = plan.loss(&LossInputs {
            completions: &Completions::new(lengths(share), device)?,
            policy_logp: forward.logp(),
            behavior_logp: &forward.logp().detach(),
            base_logp: Some(&base),
            advantage: &each(&|row| if row % 2 == 0 { 1.0 } else { -1.0 })?,
            weight: &each(&|_| weight)?,
            penalty_weight: &each(&|_| plan.penalty_weight(weight))?,
            vocabulary: None,
        })?;
        device.synchronize()?;
        parts.forward += start.elapsed().as_secs_f64();
        let start = Instant::now();
        policy.backward(forward, &loss.total, &mut grads)?;
        device.synchronize()?;
        parts.backward += start.elapsed().as_secs_f64();
    }
    let start = Instant::now();
    optimizer.step(policy, &grads, 1e-6)?;
    device.synchronize()?;
    parts.optimizer = start.elapsed().as_secs_f64();
    Ok(parts)
}
