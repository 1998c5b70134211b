//! Fine-tuning by verifiable rewards: rollouts, advantages, a clipped policy gradient, a divergence.
//!
//! One step: the prompts of the step (`order`) are sampled by the frozen twin of the policy and
//! judged; rewards become advantages; the policy's log-probabilities of the same tokens carry the
//! gradient. A divergence on policy samples is charged to the advantage, one on the base's samples
//! is a loss of its own on a batch of stored right answers.

use std::time::Instant;

use anyhow::{Context, Result, bail};
use candle_core::{Device, Tensor};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::Verifier;

use super::checkpoint::State;
use super::step::{Accumulator, mask, micro_batches, padded, unpadded};
use super::{AdamW, AdamWConfig, Schedule, Stop, order};
use crate::generate::{Filters, LocalSampler, Noise, SamplingParams};
use crate::model::Decoder;
use crate::objective::{
    self, Advantage, Clip, DrawnFrom, LossType, Normaliser, Objective, Penalty, Streams, advantages,
    penalise, rehearsal_loss,
};
use crate::policy::{Policy, Sequence, token_logp};
use crate::presample::Rehearsal;
use crate::rollout::{Collector, Encoded, Group, collect};
use crate::tokenizer::Tokenizer;

/// Largest difference of log-probabilities between rollout and training that is rounding.
const MAX_LOGP_DIFFERENCE: f32 = 1e-3;
/// Steps in a row whose gradient may be not finite before the run gives up.
const MAX_SKIPPED: usize = 5;
/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// The settings of a run; names are TRL's where TRL has one.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RlvrConfig {
    /// What is optimised besides the reward, NAME[:COEFFICIENT].
    #[arg(long, default_value = "none", long_help = objective::HELP)]
    pub objective: Objective,
    /// How rewards of a group become advantages.
    #[arg(long, value_enum, default_value_t = Advantage::GroupStd)]
    pub advantage: Advantage,
    /// How tokens are averaged.
    #[arg(long, value_enum, default_value_t = LossType::Dapo)]
    pub loss_type: LossType,
    /// Ratios below 1 minus this earn no gradient.
    #[arg(long, default_value_t = 0.2)]
    pub epsilon: f64,
    /// Ratios above 1 plus this earn no gradient; the same as --epsilon where it is not given.
    #[arg(long)]
    pub epsilon_high: Option<f64>,
    /// Optimizer steps on each batch of rollouts.
    #[arg(long, default_value_t = 1)]
    pub num_iterations: usize,
    /// Completions sampled for each prompt of a step.
    #[arg(long, default_value_t = 8)]
    pub num_generations: usize,
    /// Prompts in a step.
    #[arg(long, default_value_t = 8)]
    pub prompts_per_step: usize,
    /// Steps, each with its own rollouts.
    #[arg(long, default_value_t = 100)]
    pub max_steps: usize,
    /// Most tokens in a completion; one that reaches it earns no reward.
    #[arg(long, default_value_t = 512)]
    pub max_completion_length: usize,
    /// Temperature of rollouts; log-probabilities are taken at the same.
    #[arg(long, default_value_t = 1.0)]
    pub temperature: f64,
    /// Completions of the base for each prompt, where the objective rehearses them.
    #[arg(long, default_value_t = 16)]
    pub num_presamples: usize,
    /// Stored right answers of the base in each step, where the objective rehearses them.
    #[arg(long, default_value_t = 64)]
    pub rehearsal_batch_size: usize,
    /// Log the KL to the base even where the objective does not need it; costs a forward pass.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub log_kl: bool,
    /// Most tokens, padding included, in one forward and backward pass; the result does not depend on it.
    #[arg(long, default_value_t = 16384)]
    pub micro_batch_tokens: usize,
    /// Most sequences in one decoding batch.
    #[arg(long, default_value_t = 256)]
    pub max_num_seqs: usize,
    /// Write a checkpoint every so many steps; 0 writes one only when interrupted.
    #[arg(long, default_value_t = 0)]
    pub save_steps: usize,
    /// Seeds samples and the order of prompts.
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

impl RlvrConfig {
    /// How rollouts are sampled: the whole distribution, since log-probabilities are those of the
    /// full softmax.
    pub fn sampling(&self, tokenizer: &dyn Tokenizer) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature,
            filters: Filters::default(),
            max_new_tokens: self.max_completion_length,
            eos: tokenizer.eos().to_vec(),
        }
    }

    /// Refuses settings that contradict each other or cannot train.
    ///
    /// # Errors
    /// The setting and the mend.
    pub fn check(&self) -> Result<()> {
        if self.num_generations < 2 {
            bail!("num-generations must be at least 2: a group of one has no advantage");
        }
        for (name, value) in [
            ("prompts-per-step", self.prompts_per_step),
            ("num-iterations", self.num_iterations),
            ("max-completion-length", self.max_completion_length),
            ("max-num-seqs", self.max_num_seqs),
            ("num-presamples", self.num_presamples),
            ("rehearsal-batch-size", self.rehearsal_batch_size),
        ] {
            if value == 0 {
                bail!("{name} must be at least 1");
            }
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            bail!("temperature must be above 0 in training, not {}", self.temperature);
        }
        if !(0.0..1.0).contains(&self.epsilon) || self.epsilon_high.is_some_and(|e| e < 0.0) {
            bail!("epsilon must be at least 0 and below 1, epsilon-high at least 0");
        }
        Ok(())
    }
}

/// One row of `metrics.jsonl`; names are TRL's.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Metrics {
    /// Steps done.
    pub step: usize,
    /// Policy loss plus weighted divergence.
    pub loss: f64,
    /// Mean reward.
    pub reward: f64,
    /// Mean over groups of the standard deviation of rewards.
    pub reward_std: f64,
    /// Share of groups whose rewards are all equal: they teach nothing.
    pub frac_reward_zero_std: f64,
    /// Mean entropy of the policy at sampled tokens, in nats.
    pub entropy: f64,
    /// Estimate of `KL(policy || base)` per completion, in nats, by its log-ratio; null where not logged.
    pub kl: Option<f64>,
    /// The divergence on the base's right answers, per token; null where not rehearsed.
    pub rehearsal_divergence: Option<f64>,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Mean tokens in a completion.
    #[serde(rename = "completions/mean_length")]
    pub mean_length: f64,
    /// Share of completions cut off by the length limit.
    #[serde(rename = "completions/clipped_ratio")]
    pub clipped_ratio: f64,
    /// Share of tokens whose ratio was clipped.
    #[serde(rename = "clip_ratio/region_mean")]
    pub clip_region: f64,
    /// Largest difference of log-probabilities between rollout and training.
    #[serde(rename = "sampling/sampling_logp_difference/max")]
    pub logp_difference: f64,
    /// Steps skipped so far because the gradient was not finite.
    pub skipped_steps: usize,
    /// Tokens sampled so far.
    pub num_tokens: usize,
    /// Seconds the step took.
    pub step_time: f64,
}

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
        while state.global_step < self.config.max_steps && !stop.is_requested() {
            let started = Instant::now();
            let step = state.global_step;
            let groups = self.rollouts(step)?;
            let mut metrics = reward_metrics(&groups);
            let batch = self.batch(&groups, &mut metrics)?;
            if step == 0 {
                self.check_start(&batch)?;
            }
            metrics.learning_rate = self.config.schedule.rate(step, self.config.max_steps);
            for _ in 0..self.config.num_iterations {
                let gradients = self.gradients(&batch, step, &mut metrics)?;
                let rate = metrics.learning_rate;
                metrics.grad_norm = optimizer.step(self.policy.weights(), &gradients.gradients, rate)?;
                if metrics.grad_norm.is_finite() {
                    state.optimizer_steps += 1;
                    skipped_in_a_row = 0;
                } else {
                    skipped += 1;
                    skipped_in_a_row += 1;
                }
            }
            if skipped_in_a_row >= MAX_SKIPPED {
                bail!("step {step}: the gradient was not finite {MAX_SKIPPED} times in a row; lower --learning-rate");
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
        let sampler = LocalSampler { decoder: self.policy.frozen(), max_rows: config.max_num_seqs };
        let params = config.sampling(self.tokenizer);
        let collector = Collector::new(&sampler, self.tokenizer, self.verifier, &params);
        let count = config.prompts_per_step.min(self.problems.len());
        let chosen = order::chosen(self.problems.len(), count, step, config.seed);
        let noise = Noise { seed: config.seed, step: step as u64 };
        let mut groups = Vec::with_capacity(count);
        let generations = config.num_generations;
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
        let mut advantages = advantages(self.config.advantage, &rewards);
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
        if charged.is_some() || self.config.log_kl {
            let reference = self.reference_logp(&rows)?;
            let log_ratio: Vec<f64> = behavior.iter().zip(&reference).map(|(p, a)| sum(p) - sum(a)).collect();
            metrics.kl = Some(log_ratio.iter().sum::<f64>() / log_ratio.len() as f64);
            if let Some(Penalty { divergence, coefficient, .. }) = charged {
                for (group, ratios) in
                    advantages.iter_mut().zip(log_ratio.chunks(self.config.num_generations))
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
        for range in micro_batches(rows, self.config.micro_batch_tokens) {
            let said = token_logp(self.reference, &rows[range.clone()], self.config.temperature)?;
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
            max_completion_length: config.max_completion_length,
        };
        let clip = Clip { low: config.epsilon, high: config.epsilon_high.unwrap_or(config.epsilon) };
        let mut accumulator = Accumulator::default();
        let (mut loss, mut entropy, mut clipped, mut difference) = (0.0, 0.0, 0.0, 0.0_f64);
        for range in micro_batches(&batch.rows, config.micro_batch_tokens) {
            let rows = &batch.rows[range.clone()];
            let said = token_logp(self.policy.tracked(), rows, config.temperature)?;
            let behavior: Vec<&[f32]> = batch.behavior[range.clone()].iter().map(Vec::as_slice).collect();
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
            let share = config.loss_type.loss(&streams, clip, &normaliser)?;
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
    fn rehearse(&self, penalty: Penalty, step: usize, accumulator: &mut Accumulator) -> Result<f64> {
        let count = self.config.rehearsal_batch_size.min(self.rehearsal.len());
        let seed = self.config.seed ^ REHEARSAL_SEED;
        let chosen = order::chosen(self.rehearsal.len(), count, step, seed);
        let items: Vec<&Rehearsal> = chosen.into_iter().map(|index| &self.rehearsal[index]).collect();
        let rows: Vec<Sequence> = items.iter().map(|item| item.sequence.clone()).collect();
        let tokens = rows.iter().map(|row| row.completion.len()).sum();
        let mut value = 0.0;
        for range in micro_batches(&rows, self.config.micro_batch_tokens) {
            let said = token_logp(self.policy.tracked(), &rows[range.clone()], self.config.temperature)?;
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

    /// What must hold before the first step: the importance ratio is 1, the policy is the base, and
    /// every weight has a gradient.
    fn check_start(&self, batch: &Batch) -> Result<()> {
        let few = micro_batches(&batch.rows, self.config.micro_batch_tokens).remove(0);
        let rows = &batch.rows[few.clone()];
        let said = token_logp(self.policy.tracked(), rows, self.config.temperature)?;
        let policy = unpadded(&said.logp.detach(), rows)?;
        let worst = |other: &[Vec<f32>]| -> f32 {
            let pairs = policy.iter().flatten().zip(other.iter().flatten());
            pairs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
        };
        let ratio = worst(&batch.behavior[few]);
        if ratio > MAX_LOGP_DIFFERENCE {
            bail!("self-check: rollout and training disagree on log-probabilities by {ratio:.1e}; this is a bug");
        }
        let divergence = worst(&self.reference_logp(rows)?);
        if divergence > MAX_LOGP_DIFFERENCE {
            bail!("self-check: the policy does not start at the base (log-probabilities differ by {divergence:.1e})");
        }
        let mut accumulator = Accumulator::default();
        accumulator.add(&said.logp.sum_all()?, self.policy.weights())?;
        for name in self.policy.weights().keys() {
            let gradient = accumulator.gradients.get(name);
            let gradient = gradient.with_context(|| format!("self-check: weight `{name}` has no gradient"))?;
            let size = scalar(&gradient.abs()?.flatten_all()?.max(0)?)?;
            if !(size > 0.0 && size.is_finite()) {
                bail!("self-check: the gradient of weight `{name}` is {size}");
            }
        }
        Ok(())
    }
}

fn reward_metrics(groups: &[Group]) -> Metrics {
    let all: Vec<_> = groups.iter().flat_map(|group| &group.rollouts).collect();
    let count = all.len() as f64;
    let deviations: Vec<f64> = groups
        .iter()
        .map(|group| {
            let rewards = group.rewards();
            let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
            let squares: f64 = rewards.iter().map(|r| (r - mean) * (r - mean)).sum();
            (squares / (rewards.len() as f64 - 1.0)).sqrt()
        })
        .collect();
    let of_groups = groups.len() as f64;
    let truncated = |finish| f64::from(finish == crate::generate::Finish::Length);
    Metrics {
        reward: all.iter().map(|rollout| rollout.reward()).sum::<f64>() / count,
        reward_std: deviations.iter().sum::<f64>() / of_groups,
        frac_reward_zero_std: deviations.iter().filter(|d| **d == 0.0).count() as f64 / of_groups,
        mean_length: all.iter().map(|r| r.completion.tokens.len()).sum::<usize>() as f64 / count,
        clipped_ratio: all.iter().map(|r| truncated(r.completion.finish)).sum::<f64>() / count,
        ..Metrics::default()
    }
}

fn sum(values: &[f32]) -> f64 {
    values.iter().map(|x| f64::from(*x)).sum()
}

fn scalar(tensor: &Tensor) -> Result<f64> {
    Ok(f64::from(tensor.to_scalar::<f32>()?))
}
