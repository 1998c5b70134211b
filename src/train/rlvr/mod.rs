//! Fine-tuning by verifiable rewards: rollouts, advantages, a clipped policy gradient, a divergence.
//!
//! One step: the prompts of the step (`order`) are sampled by the frozen twin of the policy and
//! judged; rewards become advantages; the policy's log-probabilities of the same tokens carry the
//! gradient. A divergence on policy samples is charged to the advantage, one on the base's samples
//! is a loss of its own on a batch of stored right answers.

mod config;
mod metrics;
mod self_check;

use std::time::Instant;

use anyhow::{Result, bail};
use candle_core::{Device, Tensor};
use tealight_datasets::Verifier;

use super::checkpoint::State;
use super::step::{Accumulator, mask, micro_batches, padded, unpadded};
use super::{AdamW, Stop, order};
use crate::generate::{LocalSampler, Noise};
use crate::model::Decoder;
use crate::objective::{
    Clip, DrawnFrom, Normaliser, Penalty, Streams, advantages, penalise, rehearsal_loss,
};
use crate::policy::{Policy, Sequence, token_logp};
use crate::presample::Rehearsal;
use crate::rollout::{Collector, Encoded, Group, collect};
use crate::tokenizer::Tokenizer;

pub use config::{RlvrConfig, Settings};
pub use metrics::Metrics;

/// Steps in a row whose gradient may be not finite before the run gives up.
const MAX_SKIPPED: usize = 5;
/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// What a run trains, and on what.
pub struct Run<'a> {
    /// The settings, checked.
    pub config: &'a RlvrConfig,
    /// The model that changes.
    pub policy: &'a Policy,
    /// The base, which does not.
    pub reference: &'a Decoder,
    /// The prompts.
    pub problems: &'a [Encoded<'a>],
    /// Right answers of the base, where the objective rehearses them.
    pub rehearsal: &'a [Rehearsal],
    /// Reads completions.
    pub tokenizer: &'a dyn Tokenizer,
    /// Judges them.
    pub verifier: &'a dyn Verifier,
}

/// Called after every step with what it measured and the state to save.
pub type Report<'a> = dyn FnMut(&Metrics, &State, &AdamW) -> Result<()> + 'a;

/// The rows of one step, aligned.
struct Batch {
    rows: Vec<Sequence>,
    behavior: Vec<Vec<f32>>,
    advantages: Vec<f64>,
    tokens: usize,
}

impl Run<'_> {
    /// Trains from `state` on; returns where the run stands at the end.
    ///
    /// # Errors
    /// A failed self-check, no memory, gradients that stay not finite.
    pub fn train(
        &self,
        mut state: State,
        optimizer: &mut AdamW,
        stop: &Stop,
        report: &mut Report<'_>,
    ) -> Result<State> {
        let (mut skipped, mut skipped_in_a_row) = (0, 0);
        while state.global_step < self.config.settings.max_steps && !stop.is_requested() {
            let started = Instant::now();
            let step = state.global_step;
            let groups = self.rollouts(step)?;
            let mut metrics = Metrics::of(&groups);
            let batch = self.batch(&groups, &mut metrics)?;
            if step == 0 {
                self.check_start(&batch)?;
            }
            metrics.learning_rate =
                self.config.settings.schedule.rate(step, self.config.settings.max_steps);
            for _ in 0..self.config.settings.num_iterations {
                let gradients = self.gradients(&batch, step, &mut metrics)?;
                let rate = metrics.learning_rate;
                metrics.grad_norm =
                    optimizer.step(self.policy.weights(), &gradients.gradients, rate)?;
                if metrics.grad_norm.is_finite() {
                    state.optimizer_steps += 1;
                    skipped_in_a_row = 0;
                } else {
                    skipped += 1;
                    skipped_in_a_row += 1;
                }
            }
            if skipped_in_a_row >= MAX_SKIPPED {
                bail!(
                    "step {step}: the gradient was not finite {MAX_SKIPPED} times in a row; lower --learning-rate"
                );
            }
            state.global_step += 1;
            state.num_tokens += batch.tokens;
            state.num_completions += batch.rows.len();
            metrics.step = state.global_step;
            metrics.num_tokens = state.num_tokens;
            metrics.skipped_steps = skipped;
            metrics.step_time = started.elapsed().as_secs_f64();
            report(&metrics, &state, optimizer)?;
        }
        Ok(state)
    }

    fn device(&self) -> &Device {
        self.reference.embedding().device()
    }

    /// The judged groups of a step, in the order of problems so that sums do not depend on which
    /// ended first.
    fn rollouts(&self, step: usize) -> Result<Vec<Group>> {
        let config = self.config;
        let sampler =
            LocalSampler { decoder: self.policy.frozen(), max_rows: config.settings.max_num_seqs };
        let params = config.settings.sampling(self.tokenizer);
        let collector = Collector::new(&sampler, self.tokenizer, self.verifier, &params);
        let count = config.settings.prompts_per_step.min(self.problems.len());
        let chosen = order::chosen(self.problems.len(), count, step, config.seed);
        let noise = Noise { seed: config.seed, step: step as u64 };
        let mut groups = Vec::with_capacity(count);
        let generations = config.settings.num_generations;
        collect(&collector, self.problems, &chosen, generations, noise, &mut |group| {
            groups.push(group);
            Ok(())
        })?;
        groups.sort_by_key(|group| group.problem);
        Ok(groups)
    }

    /// Aligned rows with their advantages, the divergence on policy samples included.
    fn batch(&self, groups: &[Group], metrics: &mut Metrics) -> Result<Batch> {
        let rewards: Vec<_> = groups.iter().map(Group::rewards).collect();
        let mut advantages = advantages(self.config.settings.advantage, &rewards);
        let (mut rows, mut behavior) = (Vec::new(), Vec::new());
        for group in groups {
            for rollout in &group.rollouts {
                let prompt = self.problems[group.problem].prompt.clone();
                let completion = rollout.completion.tokens.clone();
                rows.push(Sequence { prompt, completion });
                behavior.push(rollout.completion.logp.clone());
            }
        }
        let charged = self.penalty(DrawnFrom::Policy);
        if charged.is_some() || self.config.settings.log_kl {
            let reference = self.reference_logp(&rows)?;
            let log_ratio: Vec<f64> =
                behavior.iter().zip(&reference).map(|(p, a)| sum(p) - sum(a)).collect();
            metrics.kl = Some(log_ratio.iter().sum::<f64>() / log_ratio.len() as f64);
            if let Some(Penalty { divergence, coefficient, .. }) = charged {
                for (group, ratios) in advantages
                    .iter_mut()
                    .zip(log_ratio.chunks(self.config.settings.num_generations))
                {
                    penalise(group, divergence, coefficient, ratios);
                }
            }
        }
        let tokens = rows.iter().map(|row| row.completion.len()).sum();
        Ok(Batch { rows, behavior, advantages: advantages.concat(), tokens })
    }

    fn penalty(&self, drawn_from: DrawnFrom) -> Option<Penalty> {
        self.config.objective.penalty.filter(|penalty| penalty.drawn_from == drawn_from)
    }

    fn reference_logp(&self, rows: &[Sequence]) -> Result<Vec<Vec<f32>>> {
        let mut all = Vec::with_capacity(rows.len());
        for range in micro_batches(rows, self.config.settings.micro_batch_tokens) {
            let said =
                token_logp(self.reference, &rows[range.clone()], self.config.settings.temperature)?;
            all.extend(unpadded(&said.logp, &rows[range])?);
        }
        Ok(all)
    }

    /// The gradient of the whole objective on one batch.
    fn gradients(&self, batch: &Batch, step: usize, metrics: &mut Metrics) -> Result<Accumulator> {
        let config = self.config;
        let normaliser = Normaliser {
            tokens: batch.tokens,
            sequences: batch.rows.len(),
            max_completion_length: config.settings.max_completion_length,
        };
        let clip = Clip {
            low: config.settings.epsilon,
            high: config.settings.epsilon_high.unwrap_or(config.settings.epsilon),
        };
        let mut accumulator = Accumulator::default();
        let (mut loss, mut entropy, mut clipped, mut difference) = (0.0, 0.0, 0.0, 0.0_f64);
        for range in micro_batches(&batch.rows, config.settings.micro_batch_tokens) {
            let rows = &batch.rows[range.clone()];
            let said = token_logp(self.policy.tracked(), rows, config.settings.temperature)?;
            let behavior: Vec<&[f32]> =
                batch.behavior[range.clone()].iter().map(Vec::as_slice).collect();
            let behavior = padded(&behavior, self.device())?;
            let advantage: Vec<f32> = batch.advantages[range].iter().map(|a| *a as f32).collect();
            let advantage = Tensor::from_vec(advantage, (rows.len(), 1), self.device())?;
            let mask = mask(rows, self.device())?;
            let streams = Streams {
                policy_logp: &said.logp,
                behavior_logp: &behavior,
                advantage: &advantage,
                mask: &mask,
            };
            let share = config.settings.loss_type.loss(&streams, clip, &normaliser)?;
            accumulator.add(&share.total, self.policy.weights())?;
            loss += scalar(&share.total)?;
            clipped += scalar(&share.clipped)?;
            entropy += scalar(&said.entropy.sum_all()?)?;
            let apart = (said.logp.detach() - behavior)?.abs()?.flatten_all()?.max(0)?;
            difference = difference.max(scalar(&apart)?);
        }
        metrics.entropy = entropy / batch.tokens as f64;
        metrics.clip_region = clipped / batch.tokens as f64;
        metrics.logp_difference = difference;
        metrics.loss = loss;
        if let Some(penalty) = self.penalty(DrawnFrom::Reference) {
            let value = self.rehearse(penalty, step, &mut accumulator)?;
            metrics.rehearsal_divergence = Some(value);
            metrics.loss += penalty.coefficient * value;
        }
        Ok(accumulator)
    }

    /// Adds the gradient of the divergence on stored right answers; returns its value.
    fn rehearse(
        &self,
        penalty: Penalty,
        step: usize,
        accumulator: &mut Accumulator,
    ) -> Result<f64> {
        let count = self.config.settings.rehearsal_batch_size.min(self.rehearsal.len());
        let seed = self.config.seed ^ REHEARSAL_SEED;
        let chosen = order::chosen(self.rehearsal.len(), count, step, seed);
        let items: Vec<&Rehearsal> =
            chosen.into_iter().map(|index| &self.rehearsal[index]).collect();
        let rows: Vec<Sequence> = items.iter().map(|item| item.sequence.clone()).collect();
        let tokens = rows.iter().map(|row| row.completion.len()).sum();
        let mut value = 0.0;
        for range in micro_batches(&rows, self.config.settings.micro_batch_tokens) {
            let said = token_logp(
                self.policy.tracked(),
                &rows[range.clone()],
                self.config.settings.temperature,
            )?;
            let reference: Vec<&[f32]> =
                items[range.clone()].iter().map(|item| item.logp.as_slice()).collect();
            let reference = padded(&reference, self.device())?;
            let mask = mask(&rows[range], self.device())?;
            let share = rehearsal_loss(penalty.divergence, &said.logp, &reference, &mask, tokens)?;
            value += scalar(&share)?;
            accumulator.add(&(share * penalty.coefficient)?, self.policy.weights())?;
        }
        Ok(value)
    }
}

fn sum(values: &[f32]) -> f64 {
    values.iter().map(|x| f64::from(*x)).sum()
}

fn scalar(tensor: &Tensor) -> Result<f64> {
    Ok(f64::from(tensor.to_scalar::<f32>()?))
}
