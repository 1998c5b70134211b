//! The gradient of the whole objective on one batch, micro-batch by micro-batch.

use std::ops::Range;

use anyhow::Result;
use candle_core::Tensor;

use super::batch::Batch;
use super::{Rehearsal, Run, scalar};
use crate::objective::{
    Completions, LossInputs, Matching, Normaliser, StoredInputs, StoredWeight, VocabularyInputs,
};
use crate::policy::{
    Chunk, Forward, GradAccumulator, Sequence, VocabularySum, positions, vocabulary_sum,
};
use crate::train::checkpoint::State;
use crate::train::order;
use crate::train::step::{PassNumbers, flat, lengths, micro_batches};

/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// Stored completions, with their rows and all their tokens counted.
struct Stored<'a> {
    items: Vec<&'a Rehearsal>,
    rows: Vec<Sequence>,
    tokens: usize,
}

/// Which optimizer step on a batch is taken.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    /// Its number among the steps on the batch.
    pub(super) number: usize,
    /// How many there are.
    pub(super) of: usize,
    /// The mini-batch.
    pub(super) part: usize,
}

impl Update {
    /// Of a step without mini-batches.
    const ONLY: Self = Self { number: 0, of: 1, part: 0 };
}

/// What one update measured.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UpdateStats {
    pub(super) loss: f64,
    pub(super) rollouts: Option<RolloutStats>,
    pub(super) stored: Option<StoredStats>,
    /// Whether stored completions were rehearsed, and do not stand for a target.
    pub(super) is_rehearsal: bool,
}

/// What it measured on rollouts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RolloutStats {
    /// Completions.
    pub(super) count: usize,
    /// Mean entropy of a token.
    pub(super) entropy: f64,
    /// Share of tokens that were clipped.
    pub(super) clipped: f64,
    /// Largest difference of log-probabilities between rollout and training.
    pub(super) logp_difference: f64,
}

/// What it measured on stored completions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoredStats {
    /// Completions.
    pub(super) count: usize,
    /// The loss, without its coefficient.
    pub(super) value: f64,
    /// Mean log-probability of a token under the policy.
    pub(super) logp: f64,
    /// Share of log-ratios that were cut.
    pub(super) clamped: f64,
}

/// The tensors `[N]` that the loss of some rows of a batch reads beside the policy.
pub(super) struct PartTensors {
    completions: Completions,
    behavior: Tensor,
    reference: Option<Tensor>,
    advantage: Tensor,
    weight: Tensor,
    charge: Tensor,
    priced: Option<Tensor>,
    simko: Option<(Tensor, Tensor)>,
}

impl Run<'_> {
    /// The gradient of the loss of one update: on a mini-batch of rollouts, where there are any, and on its share
    /// of the step's stored completions.
    pub(super) fn gradients(
        &self,
        batch: Option<&Batch>,
        update: Update,
        state: &State,
        passes: &mut PassNumbers,
    ) -> Result<(GradAccumulator, UpdateStats)> {
        let (mut grads, mut stats) = (GradAccumulator::default(), UpdateStats::default());
        if let Some(batch) = batch {
            let (loss, rollouts) = self.on_rollouts(batch, update, state, passes, &mut grads)?;
            stats.loss += loss;
            stats.rollouts = Some(rollouts);
        }
        if let Some((_, coefficient)) = self.plan.rehearsal_loss() {
            let coefficient = coefficient * self.coefficients(state.global_step).beta;
            let stored = self.stored(state.global_step, update);
            let share = update.of;
            let found = self.on_stored(&stored, coefficient, (state, share), passes, &mut grads)?;
            stats.loss += coefficient * found.value;
            (stats.stored, stats.is_rehearsal) = (Some(found), true);
        }
        if batch.is_none() && self.plan.matching().is_some() {
            let stored = self.stored(state.global_step, Update::ONLY);
            let found = self.on_stored(&stored, 1.0, (state, 1), passes, &mut grads)?;
            stats.loss += found.value;
            stats.stored = Some(found);
        }
        Ok((grads, stats))
    }

    /// Adds the gradient of a mini-batch; returns its loss.
    fn on_rollouts(
        &self,
        batch: &Batch,
        update: Update,
        state: &State,
        passes: &mut PassNumbers,
        grads: &mut GradAccumulator,
    ) -> Result<(f64, RolloutStats)> {
        let settings = &self.config.settings;
        let part = batch.parts[update.part].clone();
        let mut stats = RolloutStats { count: part.len(), ..RolloutStats::default() };
        let (mut loss, mut d_head): (f64, Option<Tensor>) = (0.0, None);
        for range in micro_batches(&batch.rows[part.clone()], settings.micro_batch_tokens) {
            let range = part.start + range.start..part.start + range.end;
            let rows = &batch.rows[range.clone()];
            let forward = self.policy.forward(rows, settings.temperature, passes.next())?;
            let tensors = self.tensors(batch, &range)?;
            let found = self.plan.loss(&tensors.inputs(forward.logp()))?;
            let whole = self.vocabulary_terms(&forward, rows, &tensors, state)?;
            let value = whole.as_ref().map_or(0.0, |whole| whole.value as f32);
            loss += f64::from(found.total.to_scalar::<f32>()? + value);
            stats.clipped += scalar(&found.clipped)?;
            stats.entropy += scalar(&forward.entropy().sum_all()?)?;
            if update.number == 0 {
                // Later the policy is no longer the one that sampled.
                let apart = (forward.logp().detach() - &tensors.behavior)?.abs()?.max(0)?;
                stats.logp_difference = stats.logp_difference.max(scalar(&apart)?);
            }
            let d_hidden = whole.as_ref().map(|whole| &whole.d_hidden);
            self.policy.backward(forward, &found.total, d_hidden, grads)?;
            if let Some(VocabularySum { d_head: Some(more), .. }) = whole {
                d_head = Some(d_head.map_or(Ok(more.clone()), |sum| sum + &more)?);
            }
        }
        if let Some(d_head) = d_head {
            self.policy.decoder().add_head_gradient(&d_head, grads)?;
        }
        let tokens: usize = batch.rows[part].iter().map(|row| row.completion.len()).sum();
        let share = 1.0 / (tokens * update.of) as f64;
        stats.entropy *= share;
        stats.clipped *= share;
        Ok((loss, stats))
    }

    /// What the loss of rows `range` reads.
    pub(super) fn tensors(&self, batch: &Batch, range: &Range<usize>) -> Result<PartTensors> {
        let device = self.device();
        let rows = &batch.rows[range.clone()];
        let charge = |row: usize| -> Vec<f64> {
            let beta = batch.beta[row];
            batch.weight[row].iter().map(|weight| self.plan.charge(*weight, beta)).collect()
        };
        let of = |rows: &Vec<Vec<f64>>| flat(&rows[range.clone()], device);
        let logp = |rows: &Vec<Vec<f32>>| {
            let values = rows[range.clone()].concat();
            Tensor::from_slice(&values, values.len(), device)
        };
        Ok(PartTensors {
            completions: Completions::new(lengths(rows), device)?,
            behavior: logp(&batch.behavior)?,
            reference: batch.reference.as_ref().map(logp).transpose()?,
            advantage: of(&batch.advantage)?,
            weight: of(&batch.weight)?,
            charge: flat(&range.clone().map(charge).collect::<Vec<_>>(), device)?,
            priced: batch.priced.as_ref().map(of).transpose()?,
            simko: match &batch.simko {
                None => None,
                Some((lift, press)) => Some((of(lift)?, of(press)?)),
            },
        })
    }

    /// Losses that look at whole next-token distributions.
    fn vocabulary_terms(
        &self,
        forward: &Forward,
        rows: &[Sequence],
        tensors: &PartTensors,
        state: &State,
    ) -> Result<Option<VocabularySum>> {
        let plan = self.plan;
        let is_low = plan.entropy.target.is_some() && state.entropy_bonus > 0.0;
        let fixed = self.coefficients(state.global_step).entropy;
        let entropy_bonus = if is_low { state.entropy_bonus } else { fixed };
        if !plan.reads_vocabulary(entropy_bonus) {
            return Ok(None);
        }
        let reference =
            plan.compares_vocabulary().then(|| positions(self.reference, rows)).transpose()?;
        let term = |chunk: &Chunk| {
            let at = |values: &Tensor| values.narrow(0, chunk.range.start, chunk.range.len());
            let simko = match &tensors.simko {
                None => None,
                Some((lift, press)) => Some((at(lift)?, at(press)?)),
            };
            plan.vocabulary_loss(&VocabularyInputs {
                logp: &chunk.logp,
                reference_logp: chunk.reference.as_ref(),
                targets: &chunk.targets,
                weight: &at(&tensors.weight)?,
                charge: &at(&tensors.charge)?,
                entropy_bonus,
                simko: simko.as_ref().map(|(lift, press)| (lift, press)),
            })
        };
        let policy = (forward.positions(), self.policy.decoder());
        let reference = reference.as_ref().map(|positions| (positions, self.reference));
        Ok(Some(vocabulary_sum(policy, reference, self.config.settings.temperature, &term)?))
    }

    /// The stored completions of an update: prompts in turn, whatever each has stored, and of each prompt its
    /// completions in turn, so that prompts count alike.
    fn stored(&self, step: usize, update: Update) -> Stored<'_> {
        let all = &self.data.rehearsal;
        let most = self.config.settings.rehearsal_batch_size.min(all.len());
        let left = (most as f64 * self.coefficients(step).rehearsal).round() as usize;
        let Update { number, of, .. } = update;
        let part = left * number / of..left * (number + 1) / of;
        let places = step * most + part.start..step * most + part.end;
        let seed = self.config.seed ^ REHEARSAL_SEED;
        let chosen = order::in_turn(&self.data.stored_prompts, places, seed);
        let items: Vec<&Rehearsal> = chosen.into_iter().map(|index| &all[index]).collect();
        let rows: Vec<Sequence> = items.iter().map(|item| item.sequence.clone()).collect();
        let tokens = rows.iter().map(|row| row.completion.len()).sum();
        Stored { items, rows, tokens }
    }

    /// Adds the gradient of stored completions times `coefficient`: of every token, averaged as the objective averages
    /// tokens, where they are rehearsed, and of whole samples where they stand for a target.
    fn on_stored(
        &self,
        stored: &Stored<'_>,
        coefficient: f64,
        (state, updates): (&State, usize),
        passes: &mut PassNumbers,
        grads: &mut GradAccumulator,
    ) -> Result<StoredStats> {
        let (settings, device) = (&self.config.settings, self.device());
        let Stored { items, rows, tokens } = stored;
        let mut stats = StoredStats { count: rows.len(), ..StoredStats::default() };
        for range in micro_batches(rows, settings.micro_batch_tokens) {
            let (part, part_rows) = (&items[range.clone()], &rows[range]);
            let forward = self.policy.forward(part_rows, settings.temperature, passes.next())?;
            let reference: Vec<f32> = part.iter().flat_map(|item| item.logp.clone()).collect();
            let reference = Tensor::from_slice(&reference, reference.len(), device)?;
            let completions = Completions::new(lengths(part_rows), device)?;
            let inputs = |weight| StoredInputs {
                completions: &completions,
                policy_logp: forward.logp(),
                reference_logp: &reference,
                weight,
            };
            let found = match self.plan.matching() {
                None => {
                    let weight = self.rehearsal_weights(stored, part_rows)?;
                    self.plan.stored_loss(&inputs(StoredWeight::Tokens(&weight)))?
                }
                Some(matching) => {
                    let [weight, log_weight] =
                        self.sample_weights(matching, part, items.len(), state.global_step)?;
                    let weight = StoredWeight::Samples { weight: &weight, log_weight: &log_weight };
                    self.plan.stored_loss(&inputs(weight))?
                }
            };
            let of = if self.plan.matching().is_some() { items.len() } else { tokens * updates };
            stats.logp += scalar(&forward.logp().detach().sum_all()?)? / (tokens * updates) as f64;
            stats.clamped += found.cut / of as f64;
            stats.value += scalar(&found.total)?;
            self.policy.backward(forward, &(found.total * coefficient)?, None, grads)?;
        }
        Ok(stats)
    }

    /// The weight of every token of some stored rows.
    fn rehearsal_weights(&self, stored: &Stored<'_>, rows: &[Sequence]) -> Result<Tensor> {
        let normaliser = Normaliser {
            tokens: stored.tokens.max(1),
            sequences: stored.rows.len().max(1),
            max_completion_length: self.config.settings.length(),
        };
        let weight = |row: &Sequence| {
            let length = row.completion.len();
            vec![self.plan.loss_type.weight(length, &normaliser); length]
        };
        flat(&rows.iter().map(weight).collect::<Vec<_>>(), self.device())
    }

    /// How much samples of a target count, of so many, and their `log(p / a)`.
    fn sample_weights(
        &self,
        matching: &Matching,
        items: &[&Rehearsal],
        of: usize,
        step: usize,
    ) -> Result<[Tensor; 2]> {
        let weigh = |item: &&Rehearsal| {
            let validity = self.data.solve_rate[item.problem];
            let beta = self.beta(item.problem, step);
            let log_weight = matching.target.log_weight(item.is_correct, validity, beta);
            let (own, log_weight) = matching.weigh(log_weight);
            (own / of as f64, log_weight)
        };
        let (weight, log_weight): (Vec<f64>, Vec<f64>) = items.iter().map(weigh).unzip();
        Ok([flat(&[weight], self.device())?, flat(&[log_weight], self.device())?])
    }
}

impl PartTensors {
    /// What the loss reads, with the policy's log-probabilities.
    pub(super) fn inputs<'a>(&'a self, policy_logp: &'a Tensor) -> LossInputs<'a> {
        LossInputs {
            completions: &self.completions,
            policy_logp,
            behavior_logp: &self.behavior,
            reference_logp: self.reference.as_ref(),
            advantage: &self.advantage,
            weight: &self.weight,
            charge: Some(&self.charge),
            priced: self.priced.as_ref(),
        }
    }
}
