//! The time of a training step, by part: the pieces of the trainer on given completions.

use std::time::Instant;

use anyhow::Result;

use super::adamw::AdamW;
use super::micro_batches::micro_batches;
use crate::objective::{Plan, PolicyOutputs, TokenValues};
use tealight_nn::model::Decoder;
use tealight_nn::policy::{GradAccumulator, Policy, Sequence, by_row, token_logp};

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
    let weight = 1.0 / rows.iter().map(|row| row.completion.len()).sum::<usize>() as f64;
    for range in micro_batches(rows, micro_batch_tokens) {
        let share = &rows[range];
        let start = Instant::now();
        let base_logp = by_row(&token_logp(reference, share, 1.0)?.logp, share)?;
        parts.reference += start.elapsed().as_secs_f64();
        let start = Instant::now();
        let forward = policy.forward(share, 1.0)?;
        let behavior_logp = by_row(forward.logp(), share)?;
        let rollout = |(row, (behavior_logp, base_logp)): (usize, (Vec<f32>, Vec<f32>))| {
            let widened = |logp: Vec<f32>| logp.into_iter().map(f64::from).collect();
            let length = behavior_logp.len();
            TokenValues {
                behavior_logp: widened(behavior_logp),
                base_logp: widened(base_logp),
                advantage: vec![if row % 2 == 0 { 1.0 } else { -1.0 }; length],
                weight: vec![weight; length],
            }
        };
        let rollouts: Vec<TokenValues> =
            behavior_logp.into_iter().zip(base_logp).enumerate().map(rollout).collect();
        let outputs = PolicyOutputs { logp: forward.logp(), divergence: None, entropy_bonus: None };
        let loss = plan.loss(&rollouts.iter().collect::<Vec<_>>(), outputs)?;
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
