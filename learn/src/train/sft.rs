//! Supervised fine-tuning: the mean negative log-likelihood of completions, prompts not counted.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::checkpoint::State;
use super::micro_batches::micro_batches;
use super::{AdamW, AdamWConfig, Schedule, order};
use tealight_nn::policy::{GradAccumulator, Policy, Sequence};
use tealight_system::range::{COUNT, LIMIT_OR_ZERO, SEED, at_least};
use tealight_system::stop::Stop;
use tealight_system::telemetry::count_tokens;

/// The settings of a supervised run.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct SftConfig {
    /// Number of optimizer steps.
    #[arg(long, default_value_t = 1000, add = at_least(1.0).at_most(1e12), help_heading = "Optimizer")]
    pub max_steps: usize,
    /// Number of sequences in an optimizer step.
    #[arg(long, default_value_t = 32, add = COUNT, help_heading = "Optimizer")]
    pub batch_size: usize,
    /// Maximum tokens in one forward and backward pass. Affects memory, and the result only by rounding.
    #[arg(long, default_value_t = 4096, add = at_least(1.0).at_most(1e9), help_heading = "Optimizer")]
    pub micro_batch_tokens: usize,
    /// Steps between checkpoints; the last step writes one too. 0 writes a checkpoint only when interrupted.
    #[arg(long, default_value_t = 50, add = LIMIT_OR_ZERO, help_heading = "Checkpoints")]
    pub save_steps: usize,
    /// Number of the newest checkpoints to keep, besides the best by mean loss; 0 keeps all.
    #[arg(long, default_value_t = 3, add = LIMIT_OR_ZERO, help_heading = "Checkpoints")]
    pub save_total_limit: usize,
    /// Seed of the order of examples and of random weights.
    #[arg(long, default_value_t = 0, add = SEED, help_heading = "Optimizer")]
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

impl SftConfig {
    /// These settings with what the result does not depend on left at nothing: how long to go on, what to save, how
    /// work is split up.
    pub fn identity(&self) -> Self {
        Self {
            max_steps: if self.schedule.depends_on_length() { self.max_steps } else { 0 },
            save_steps: 0,
            save_total_limit: 0,
            micro_batch_tokens: 0,
            ..self.clone()
        }
    }
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

/// The examples of a step, given its index and their number.
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

/// Called after every step with its metrics, the run's state and the optimizer.
pub type Report<'a> = dyn FnMut(&SftMetrics, &mut State, &AdamW) -> Result<()> + 'a;

/// Trains `policy` in place from where `state` says on; `report` sees every step. Whether all steps are done.
///
/// # Errors
/// A loss that is not finite.
pub fn run(
    policy: &Policy,
    config: &SftConfig,
    examples: &Examples<'_>,
    (state, optimizer): (&mut State, &mut AdamW),
    stop: &Stop,
    report: &mut Report<'_>,
) -> Result<bool> {
    while state.global_step < config.max_steps {
        if stop.is_requested() {
            return Ok(false);
        }
        let step = state.global_step;
        let rows = examples(step, config.batch_size)?;
        let mut grads = GradAccumulator::default();
        let tokens: usize = rows.iter().map(|row| row.completion.len()).sum();
        let (mut loss, mut entropy) = (0.0, 0.0);
        for range in micro_batches(&rows, config.micro_batch_tokens) {
            let part: usize = rows[range.clone()].iter().map(|row| row.completion.len()).sum();
            let forward = policy.forward(&rows[range], 1.0)?;
            // Divided by the step's tokens and not the pass's, so that passes add up to the mean over the step.
            let share = (forward.logp().sum_all()? * (-1.0 / tokens as f64))?;
            loss += f64::from(share.to_scalar::<f32>()?);
            entropy += f64::from(forward.entropy().sum_all()?.to_scalar::<f32>()?) / tokens as f64;
            policy.backward(forward, &share, &mut grads)?;
            count_tokens(part);
        }
        if !loss.is_finite() {
            bail!("step {}: the loss is {loss}; lower --learning-rate", step + 1);
        }
        let learning_rate = config.schedule.rate(step, config.max_steps);
        let grad_norm = optimizer.step(policy, &grads, learning_rate)?;
        if !grad_norm.is_finite() {
            bail!("step {}: the gradient is not finite; lower --learning-rate", step + 1);
        }
        state.global_step += 1;
        state.optimizer_steps += 1;
        let metrics = SftMetrics { step: step + 1, loss, entropy, grad_norm, learning_rate };
        report(&metrics, state, optimizer)?;
    }
    Ok(true)
}
