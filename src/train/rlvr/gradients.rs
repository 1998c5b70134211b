//! The gradient of the whole objective on one batch, micro-batch by micro-batch.

use anyhow::Result;
use candle_core::Tensor;

use super::batch::{Batch, flat};
use super::{Metrics, Rehearsal, Run, scalar};
use crate::objective::tokens::Covariance;
use crate::objective::{
    Estimator, LossInputs, MAX_LOG_RATIO, Matching, Normaliser, PointwiseLoss, SampleSource,
    vocabulary,
};
use crate::policy::{
    Chunk, Gradients, Positions, Sequence, positions, positions_logp, token_logp, vocabulary_sum,
};
use crate::train::checkpoint::State;
use crate::train::order;
use crate::train::step::{micro_batches, padded};

/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// Rows `range` of a batch and the policy's hidden states there.
struct Part<'a> {
    batch: &'a Batch,
    range: std::ops::Range<usize>,
    positions: &'a Positions,
}

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

impl Run<'_> {
    /// The gradient of the loss of one update: on a mini-batch of rollouts, where there are any, and on its share
    /// of the step's stored completions.
    pub(super) fn gradients(
        &self,
        batch: Option<&Batch>,
        update: Update,
        state: &State,
        metrics: &mut Metrics,
    ) -> Result<Gradients> {
        if update.number == 0 {
            (metrics.rehearsal_logp, metrics.rehearsal_clamped) = (None, None);
        }
        let share = 1.0 / update.of as f64;
        let mut loss = 0.0;
        if let Some(batch) = batch {
            loss += self.on_rollouts(batch, update, state, metrics)?;
        }
        if let Some((pointwise, coefficient)) = self.plan.rehearsal_loss() {
            let coefficient = coefficient * self.coefficients(state.global_step).beta;
            let value =
                self.rehearse(pointwise, coefficient, state.global_step, update, metrics)?;
            *metrics.rehearsal_divergence.get_or_insert(0.0) += share * value;
            loss += coefficient * value;
        }
        if let (None, Some(matching)) = (batch, self.plan.matching()) {
            loss += self.imitate(matching, state.global_step, metrics)?;
        }
        metrics.loss += share * loss;
        Ok(self.policy.drain_gradients()?)
    }

    /// Adds the gradient of a mini-batch; returns its loss. Entropy and clipping are averaged over the updates.
    fn on_rollouts(
        &self,
        batch: &Batch,
        update: Update,
        state: &State,
        metrics: &mut Metrics,
    ) -> Result<f64> {
        let settings = &self.config.settings;
        let decoder = self.policy.with_grad();
        let (mut loss, mut entropy, mut clipped) = (0.0, 0.0, 0.0);
        let part = batch.parts[update.part].clone();
        for range in micro_batches(&batch.rows[part.clone()], settings.micro_batch_tokens) {
            let range = part.start + range.start..part.start + range.end;
            let rows = &batch.rows[range.clone()];
            let positions = positions(decoder, rows)?;
            let said = positions_logp(&positions, decoder, rows, settings.temperature)?;
            let behavior: Vec<&[f32]> =
                batch.behavior[range.clone()].iter().map(Vec::as_slice).collect();
            let behavior = padded(&behavior, self.device())?;
            let advantage = self.matrix(&batch.advantage[range.clone()])?;
            let weight = self.matrix(&batch.spread(&range, |row| batch.weight[row]))?;
            let lengths: Vec<f32> = rows.iter().map(|row| row.completion.len() as f32).collect();
            let lengths = Tensor::from_vec(lengths, (rows.len(), 1), self.device())?;
            let inputs = LossInputs {
                policy_logp: &said.logp,
                behavior_logp: &behavior,
                advantage: &advantage,
                weight: &weight,
                lengths: &lengths,
            };
            let surrogate = self.plan.trust_region.loss(&inputs)?;
            let part = Part { batch, range, positions: &positions };
            let mut total = surrogate.total;
            if let Some(term) = self.token_terms(&part, &inputs)? {
                total = (total + term)?;
            }
            if let Some(term) = self.vocabulary_terms(&part, state)? {
                total = (total + term)?;
            }
            self.policy.backward(&total)?;
            loss += scalar(&total)?;
            clipped += scalar(&surrogate.clipped)?;
            entropy += scalar(&said.entropy.sum_all()?)?;
            if update.number == 0 {
                // Later the policy is no longer the one that sampled.
                let apart = (said.logp.detach() - behavior)?.abs()?.flatten_all()?.max(0)?;
                metrics.logp_difference = metrics.logp_difference.max(scalar(&apart)?);
            }
        }
        metrics.step_gradients.0 += part.len();
        let tokens: usize = batch.rows[part].iter().map(|row| row.completion.len()).sum();
        let share = 1.0 / (tokens * update.of) as f64;
        metrics.entropy += share * entropy;
        metrics.clip_region += share * clipped;
        Ok(loss)
    }

    /// `[B, T]` from one number a token, zero where a row has ended.
    fn matrix(&self, rows: &[Vec<f64>]) -> Result<Tensor> {
        let narrow = |row: &Vec<f64>| row.iter().map(|x| *x as f32).collect();
        let rows: Vec<Vec<f32>> = rows.iter().map(narrow).collect();
        Ok(padded(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), self.device())?)
    }

    /// Losses of single tokens' log-ratios: k2 and k3 to the base, KL-Cov's price of moving.
    fn token_terms(&self, part: &Part<'_>, inputs: &LossInputs<'_>) -> Result<Option<Tensor>> {
        let batch = part.batch;
        let mut total: Option<Tensor> = None;
        if let (Some((pointwise, share)), Some(reference)) =
            (self.plan.token_loss(), &batch.reference)
        {
            let reference: Vec<&[f32]> =
                reference[part.range.clone()].iter().map(Vec::as_slice).collect();
            let reference = padded(&reference, self.device())?;
            // The plan's share is of its own beta; a prompt's may be another.
            let own = self.plan.regulariser().map_or(1.0, |regulariser| regulariser.beta);
            let weight =
                batch.spread(&part.range, |row| batch.weight[row] * share * batch.beta[row] / own);
            let mut weight = self.matrix(&weight)?;
            if self.plan.updates() > 1 {
                // The tokens are no longer the policy's own.
                let ratio = (inputs.policy_logp.detach() - inputs.behavior_logp)?.exp()?;
                weight = (weight * ratio)?;
            }
            let term = (pointwise.of(&(inputs.policy_logp - reference)?)? * weight)?.sum_all()?;
            total = Some(term);
        }
        if let (Some(priced), Some(Covariance::Kl { coefficient, .. })) =
            (&batch.priced, self.plan.covariance)
        {
            let priced = self.matrix(&priced[part.range.clone()])?;
            let moved = (inputs.policy_logp - inputs.behavior_logp)?.abs()?;
            let term = (((moved * priced)? * inputs.weight)?.sum_all()? * coefficient)?;
            total = Some(match total {
                None => term,
                Some(total) => (total + term)?,
            });
        }
        Ok(total)
    }

    /// Losses that look at whole next-token distributions.
    fn vocabulary_terms(&self, part: &Part<'_>, state: &State) -> Result<Option<Tensor>> {
        let (batch, plan) = (part.batch, self.plan);
        let full = plan.regulariser().filter(|r| r.estimator == Estimator::Full);
        let is_low = plan.entropy.target.is_some() && state.entropy_bonus > 0.0;
        let fixed = self.coefficients(state.global_step).entropy;
        let bonus = if is_low { state.entropy_bonus } else { fixed };
        if full.is_none() && bonus == 0.0 && batch.simko.is_none() {
            return Ok(None);
        }
        let device = self.device();
        let weight = flat(&batch.spread(&part.range, |row| batch.weight[row]), device)?;
        let held = batch.spread(&part.range, |row| batch.weight[row] * batch.beta[row]);
        let held = flat(&held, device)?;
        let simko = match &batch.simko {
            None => None,
            Some((lift, press)) => Some((
                flat(&lift[part.range.clone()], device)?,
                flat(&press[part.range.clone()], device)?,
            )),
        };
        let rows = &batch.rows[part.range.clone()];
        let reference = match full {
            None => None,
            Some(_) => Some(positions(self.reference, rows)?),
        };
        let term = |chunk: &Chunk| {
            let at = |values: &Tensor| values.narrow(0, chunk.range.start, chunk.range.len());
            let mut total = chunk.logp.zeros_like()?.sum_all()?;
            if let (Some(full), Some(reference)) = (full, &chunk.reference) {
                let cost = vocabulary::divergence(full.divergence, &chunk.logp, reference)?;
                total = (total + (cost * at(&held)?)?.sum_all()?)?;
            }
            if bonus != 0.0 {
                let entropy = vocabulary::entropy(&chunk.logp)?;
                total = (total - ((entropy * at(&weight)?)?.sum_all()? * bonus)?)?;
            }
            if let (Some((lift, press)), Some(simko)) = (&simko, plan.simko) {
                let (lift, press) = (at(lift)?, at(press)?);
                let extra =
                    vocabulary::simko(&chunk.logp, &chunk.targets, &lift, &press, simko.top)?;
                total = (total + (extra * at(&weight)?)?.sum_all()?)?;
            }
            Ok(total)
        };
        let policy = (part.positions, self.policy.with_grad());
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

    /// Adds the gradient of a pointwise loss of every stored token, averaged as the objective averages tokens; returns its
    /// value.
    fn rehearse(
        &self,
        pointwise: PointwiseLoss,
        coefficient: f64,
        step: usize,
        update: Update,
        metrics: &mut Metrics,
    ) -> Result<f64> {
        let Stored { items, rows, tokens } = self.stored(step, update);
        metrics.step_gradients.1 += rows.len();
        let normaliser = Normaliser {
            tokens: tokens.max(1),
            sequences: rows.len().max(1),
            max_completion_length: self.config.settings.length(),
        };
        let mut value = 0.0;
        for range in micro_batches(&rows, self.config.settings.micro_batch_tokens) {
            let (part, part_rows) = (&items[range.clone()], &rows[range.clone()]);
            let count = tokens * update.of;
            let log_ratio = self.stored_log_ratio(part, part_rows, count, metrics)?;
            note_clamped(pointwise, &log_ratio, count, metrics)?;
            let weight = |row: &Sequence| {
                let length = row.completion.len();
                vec![self.plan.loss_type.weight(length, &normaliser); length]
            };
            let weight = self.matrix(&part_rows.iter().map(weight).collect::<Vec<_>>())?;
            let share = (pointwise.of(&log_ratio)? * weight)?.sum_all()?;
            value += scalar(&share)?;
            self.policy.backward(&(share * coefficient)?)?;
        }
        Ok(value)
    }

    /// Adds the gradient of the divergence to a target, estimated on stored completions of the base;
    /// returns its value.
    fn imitate(&self, matching: &Matching, step: usize, metrics: &mut Metrics) -> Result<f64> {
        let Stored { items, rows, tokens } = self.stored(step, Update::ONLY);
        metrics.step_gradients.1 += rows.len();
        let mut value = 0.0;
        for range in micro_batches(&rows, self.config.settings.micro_batch_tokens) {
            let part = &items[range.clone()];
            let log_ratio =
                self.stored_log_ratio(part, &rows[range.clone()], tokens, metrics)?.sum(1)?;
            let log_weight: Vec<f64> = part
                .iter()
                .map(|item| {
                    let validity = self.data.validity[item.problem];
                    let beta = self.beta(item.problem, step);
                    matching.target.log_weight(item.is_correct, validity, beta)
                })
                .collect();
            let narrow = |values: Vec<f64>| -> Result<Tensor> {
                let values: Vec<f32> = values.into_iter().map(|x| x as f32).collect();
                Ok(Tensor::from_vec(values, part.len(), self.device())?)
            };
            // Samples of the base stand for the target by their weight; filtered ones are the target's.
            let weight = |log_weight: &f64| {
                let own = match matching.sampler {
                    SampleSource::Filtered => 1.0,
                    _ => log_weight.exp(),
                };
                own / items.len() as f64
            };
            let weight = narrow(log_weight.iter().map(weight).collect())?;
            // A sample that the target cannot produce has weight 0; its ratio only has to be a number.
            let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
            let log_weight = narrow(log_weight.into_iter().map(finite).collect())?;
            let log_ratio = (log_ratio - log_weight)?;
            let pointwise = PointwiseLoss::Matching(matching.divergence);
            note_clamped(pointwise, &log_ratio, items.len(), metrics)?;
            let share = (pointwise.of(&log_ratio)? * weight)?.sum_all()?;
            value += scalar(&share)?;
            self.policy.backward(&share)?;
        }
        Ok(value)
    }

    /// `log(pi / a)` of every token of stored completions, `[B, T]`; `count` tokens are averaged over.
    fn stored_log_ratio(
        &self,
        items: &[&Rehearsal],
        rows: &[Sequence],
        count: usize,
        metrics: &mut Metrics,
    ) -> Result<Tensor> {
        let temperature = self.config.settings.temperature;
        let said = token_logp(self.policy.with_grad(), rows, temperature)?;
        let mean = scalar(&said.logp.detach().sum_all()?)? / count as f64;
        *metrics.rehearsal_logp.get_or_insert(0.0) += mean;
        let reference: Vec<&[f32]> = items.iter().map(|item| item.logp.as_slice()).collect();
        Ok((said.logp - padded(&reference, self.device())?)?)
    }
}

/// Counts the log-ratios that a pointwise loss cuts, as a share of `count`.
fn note_clamped(
    pointwise: PointwiseLoss,
    log_ratio: &Tensor,
    count: usize,
    metrics: &mut Metrics,
) -> Result<()> {
    let share = metrics.rehearsal_clamped.get_or_insert(0.0);
    if pointwise.is_cut() {
        let cut = log_ratio.detach().gt(MAX_LOG_RATIO)?.to_dtype(candle_core::DType::F32)?;
        *share += scalar(&cut.sum_all()?)? / count as f64;
    }
    Ok(())
}

impl Batch {
    /// One number a token, the same for all tokens of a row.
    fn spread(
        &self,
        range: &std::ops::Range<usize>,
        value: impl Fn(usize) -> f64,
    ) -> Vec<Vec<f64>> {
        range.clone().map(|row| vec![value(row); self.rows[row].completion.len()]).collect()
    }
}
