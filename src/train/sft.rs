//! Supervised fine-tuning: the mean negative log-likelihood of completions, prompts not counted.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::step::micro_batches;
use super::{AdamW, AdamWConfig, Schedule, Stop, order};
use crate::policy::{Policy, Sequence, token_logp};

/// The settings of a supervised run.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct SftConfig {
    /// Optimizer steps.
    #[arg(long, default_value_t = 1000)]
    pub max_steps: usize,
    /// Sequences in an optimizer step.
    #[arg(long, default_value_t = 32)]
    pub batch_size: usize,
    /// Most tokens, padding included, in one forward and backward pass; the result does not depend on it.
    #[arg(long, default_value_t = 4096)]
    pub micro_batch_tokens: usize,
    /// Seeds the order of examples and fresh weights.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// See the optimizer's settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub schedule: Schedule,
    /// See the optimizer's settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub adamw: AdamWConfig,
}

/// One row of `metrics.jsonl`.
#[derive(Debug, Clone, Serialize)]
pub struct SftMetrics {
    /// Steps done.
    pub step: usize,
    /// Mean negative log-likelihood of the step's completion tokens, in nats.
    pub loss: f64,
    /// Mean entropy of the model at those tokens, in nats.
    pub entropy: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
}

/// Where examples come from: those of a step, as many as asked for.
pub type Examples<'a> = dyn Fn(usize, usize) -> Result<Vec<Sequence>> + 'a;

/// The examples of a fixed list, one shuffle an epoch.
pub fn shuffled(
    examples: Vec<Sequence>,
    seed: u64,
) -> impl Fn(usize, usize) -> Result<Vec<Sequence>> {
    move |step, count| {
        let chosen = order::chosen(examples.len(), count.min(examples.len()), step, seed);
        Ok(chosen.into_iter().map(|index| examples[index].clone()).collect())
    }
}

/// Trains `policy` in place; `report` sees every step. Returns the steps done.
///
/// # Errors
/// No memory; a loss that is not finite.
pub fn run(
    policy: &Policy,
    config: &SftConfig,
    examples: &Examples<'_>,
    stop: &Stop,
    report: &mut dyn FnMut(&SftMetrics) -> Result<()>,
) -> Result<usize> {
    let mut optimizer = AdamW::new(config.adamw, policy.weights())?;
    for step in 0..config.max_steps {
        if stop.is_requested() {
            return Ok(step);
        }
        let rows = examples(step, config.batch_size)?;
        policy.number_passes((config.seed << 40) ^ ((step as u64) << 16));
        let tokens: usize = rows.iter().map(|row| row.completion.len()).sum();
        let (mut loss, mut entropy) = (0.0, 0.0);
        for range in micro_batches(&rows, config.micro_batch_tokens) {
            let said = token_logp(policy.tracked(), &rows[range], 1.0)?;
            let share = (said.logp.sum_all()? * (-1.0 / tokens as f64))?;
            loss += f64::from(share.to_scalar::<f32>()?);
            entropy += f64::from(said.entropy.sum_all()?.to_scalar::<f32>()?) / tokens as f64;
            policy.backward(&share)?;
        }
        if !loss.is_finite() {
            bail!("step {step}: the loss is {loss}; lower --learning-rate");
        }
        let learning_rate = config.schedule.rate(step, config.max_steps);
        let grad_norm = optimizer.step(policy, &policy.drain_gradients()?, learning_rate)?;
        report(&SftMetrics { step: step + 1, loss, entropy, grad_norm, learning_rate })?;
    }
    Ok(config.max_steps)
}
