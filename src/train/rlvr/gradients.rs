//! The gradient of the whole objective on one batch, micro-batch by micro-batch.

use anyhow::Result;
use candle_core::Tensor;

use super::batch::{Batch, flat};
use super::{Metrics, Rehearsal, Run, scalar};
use crate::objective::tokens::Covariance;
use crate::objective::{Curve, Estimator, MAX_LOG_RATIO, Matching, Sampler, Streams, vocabulary};
use crate::policy::{
    Chunk, Gradients, Positions, Sequence, positions, positions_logp, token_logp, vocabulary_sum,
};
use crate::train::checkpoint::State;
use crate::train::order;
use crate::train::step::{mask, micro_batches, padded};

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

impl Run<'_> {
    /// The gradient of the step's loss on rollouts, where there are any, and on stored completions.
    pub(super) fn gradients(
        &self,
        batch: Option<&Batch>,
        state: &State,
        metrics: &mut Metrics,
    ) -> Result<Gradients> {
        (metrics.rehearsal_logp, metrics.rehearsal_clamped) = (None, None);
        if let Some(batch) = batch {
            self.on_rollouts(batch, state, metrics)?;
        }
        if let Some((curve, coefficient)) = self.plan.rehearsal_curve() {
            let value = self.rehearse(curve, coefficient, state.global_step, metrics)?;
            metrics.rehearsal_divergence = Some(value);
            metrics.loss += coefficient * value;
        }
        if let (None, Some(matching)) = (batch, self.plan.matching()) {
            metrics.loss = self.imitate(matching, state.global_step, metrics)?;
        }
        Ok(self.policy.drain_gradients()?)
    }

    fn on_rollouts(&self, batch: &Batch, state: &State, metrics: &mut Metrics) -> Result<()> {
        let settings = &self.config.settings;
        let decoder = self.policy.tracked();
        let (mut loss, mut entropy, mut clipped, mut difference) = (0.0, 0.0, 0.0, 0.0_f64);
        for range in micro_batches(&batch.rows, settings.micro_batch_tokens) {
            let rows = &batch.rows[range.clone()];
            let positions = positions(decoder, rows)?;
            let said = positions_logp(&positions, decoder, rows, settings.temperature)?;
            let behavior: Vec<&[f32]> =
                batch.behavior[range.clone()].iter().map(Vec::as_slice).collect();
            let behavior = padded(&behavior, self.device())?;
            let credit = self.matrix(&batch.credit[range.clone()])?;
            let weight = self.matrix(&batch.spread(&range, |row| batch.weight[row]))?;
            let lengths: Vec<f32> = rows.iter().map(|row| row.completion.len() as f32).collect();
            let lengths = Tensor::from_vec(lengths, (rows.len(), 1), self.device())?;
            let streams = Streams {
                policy_logp: &said.logp,
                behavior_logp: &behavior,
                credit: &credit,
                weight: &weight,
                lengths: &lengths,
            };
            let surrogate = self.plan.trust_region.loss(&streams)?;
            let part = Part { batch, range, positions: &positions };
            let mut total = surrogate.total;
            if let Some(term) = self.token_terms(&part, &streams)? {
                total = (total + term)?;
            }
            if let Some(term) = self.vocabulary_terms(&part, state)? {
                total = (total + term)?;
            }
            self.policy.backward(&total)?;
            loss += scalar(&total)?;
            clipped += scalar(&surrogate.clipped)?;
            entropy += scalar(&said.entropy.sum_all()?)?;
            let apart = (said.logp.detach() - behavior)?.abs()?.flatten_all()?.max(0)?;
            difference = difference.max(scalar(&apart)?);
        }
        metrics.entropy = entropy / batch.tokens as f64;
        metrics.clip_region = clipped / batch.tokens as f64;
        metrics.logp_difference = difference;
        metrics.loss = loss;
        Ok(())
    }

    /// `[B, T]` from one number a token, zero where a row has ended.
    fn matrix(&self, rows: &[Vec<f64>]) -> Result<Tensor> {
        let narrow = |row: &Vec<f64>| row.iter().map(|x| *x as f32).collect();
        let rows: Vec<Vec<f32>> = rows.iter().map(narrow).collect();
        Ok(padded(&rows.iter().map(Vec::as_slice).collect::<Vec<_>>(), self.device())?)
    }

    /// Losses of single tokens' log-ratios: k2 and k3 to the base, KL-Cov's price of moving.
    fn token_terms(&self, part: &Part<'_>, streams: &Streams<'_>) -> Result<Option<Tensor>> {
        let batch = part.batch;
        let mut total: Option<Tensor> = None;
        if let (Some((curve, share)), Some(reference)) = (self.plan.token_curve(), &batch.reference)
        {
            let reference: Vec<&[f32]> =
                reference[part.range.clone()].iter().map(Vec::as_slice).collect();
            let reference = padded(&reference, self.device())?;
            // The plan's share is of its own beta; a prompt's may be another.
            let own = self.plan.regulariser().map_or(1.0, |regulariser| regulariser.beta);
            let weight =
                batch.spread(&part.range, |row| batch.weight[row] * share * batch.beta[row] / own);
            let mut weight = self.matrix(&weight)?;
            if self.plan.num_iterations > 1 {
                // The tokens are no longer the policy's own.
                let ratio = (streams.policy_logp.detach() - streams.behavior_logp)?.exp()?;
                weight = (weight * ratio)?;
            }
            let term = (curve.of(&(streams.policy_logp - reference)?)? * weight)?.sum_all()?;
            total = Some(term);
        }
        if let (Some(priced), Some(Covariance::Kl { coefficient, .. })) =
            (&batch.priced, self.plan.covariance)
        {
            let priced = self.matrix(&priced[part.range.clone()])?;
            let moved = (streams.policy_logp - streams.behavior_logp)?.abs()?;
            let term = (((moved * priced)? * streams.weight)?.sum_all()? * coefficient)?;
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
        let bonus = if is_low { state.entropy_bonus } else { plan.entropy.bonus };
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
        let policy = (part.positions, self.policy.tracked());
        let reference = reference.as_ref().map(|positions| (positions, self.reference));
        Ok(Some(vocabulary_sum(policy, reference, self.config.settings.temperature, &term)?))
    }

    /// The stored completions of a step.
    fn stored(&self, step: usize) -> Stored<'_> {
        let all = &self.material.rehearsal;
        let count = self.config.settings.rehearsal_batch_size.min(all.len());
        let chosen = order::chosen(all.len(), count, step, self.config.seed ^ REHEARSAL_SEED);
        let items: Vec<&Rehearsal> = chosen.into_iter().map(|index| &all[index]).collect();
        let rows: Vec<Sequence> = items.iter().map(|item| item.sequence.clone()).collect();
        let tokens = rows.iter().map(|row| row.completion.len()).sum();
        Stored { items, rows, tokens }
    }

    /// Adds the gradient of a curve of every stored token, averaged over tokens; returns its value.
    fn rehearse(
        &self,
        curve: Curve,
        coefficient: f64,
        step: usize,
        metrics: &mut Metrics,
    ) -> Result<f64> {
        let Stored { items, rows, tokens } = self.stored(step);
        let mut value = 0.0;
        for range in micro_batches(&rows, self.config.settings.micro_batch_tokens) {
            let (part, part_rows) = (&items[range.clone()], &rows[range.clone()]);
            let log_ratio = self.stored_log_ratio(part, part_rows, tokens, metrics)?;
            note_clamped(&log_ratio, tokens, metrics)?;
            let mask = mask(&rows[range], self.device())?;
            let share = ((curve.of(&log_ratio)? * mask)?.sum_all()? / tokens as f64)?;
            value += scalar(&share)?;
            self.policy.backward(&(share * coefficient)?)?;
        }
        Ok(value)
    }

    /// Adds the gradient of the divergence to a target, estimated on stored completions of the base;
    /// returns its value.
    fn imitate(&self, matching: &Matching, step: usize, metrics: &mut Metrics) -> Result<f64> {
        let Stored { items, rows, tokens } = self.stored(step);
        let mut value = 0.0;
        for range in micro_batches(&rows, self.config.settings.micro_batch_tokens) {
            let part = &items[range.clone()];
            let log_ratio =
                self.stored_log_ratio(part, &rows[range.clone()], tokens, metrics)?.sum(1)?;
            let log_weight: Vec<f64> = part
                .iter()
                .map(|item| {
                    let (validity, beta) =
                        (self.material.validity[item.problem], self.material.beta[item.problem]);
                    matching.target.log_weight(item.is_correct, validity, beta)
                })
                .collect();
            let narrow = |values: Vec<f64>| -> Result<Tensor> {
                let values: Vec<f32> = values.into_iter().map(|x| x as f32).collect();
                Ok(Tensor::from_vec(values, part.len(), self.device())?)
            };
            // Samples of the base stand for the target by their weight; filtered ones are the target's.
            let weight = |(item, log_weight): (&&Rehearsal, &f64)| {
                let own = match matching.sampler {
                    Sampler::Filtered => 1.0,
                    _ => log_weight.exp(),
                };
                item.weight * own / items.len() as f64
            };
            let weight = narrow(part.iter().zip(&log_weight).map(weight).collect())?;
            // A sample that the target cannot produce has weight 0; its ratio only has to be a number.
            let finite = |x: f64| if x.is_finite() { x } else { 0.0 };
            let log_weight = narrow(log_weight.into_iter().map(finite).collect())?;
            let log_ratio = (log_ratio - log_weight)?;
            note_clamped(&log_ratio, items.len(), metrics)?;
            let curve = Curve::Matching(matching.divergence);
            let share = (curve.of(&log_ratio)? * weight)?.sum_all()?;
            value += scalar(&share)?;
            self.policy.backward(&share)?;
        }
        Ok(value)
    }

    /// `log(pi / a)` of every token of stored completions, `[B, T]`.
    fn stored_log_ratio(
        &self,
        items: &[&Rehearsal],
        rows: &[Sequence],
        tokens: usize,
        metrics: &mut Metrics,
    ) -> Result<Tensor> {
        let temperature = self.config.settings.temperature;
        let said = token_logp(self.policy.tracked(), rows, temperature)?;
        let mean = scalar(&said.logp.detach().sum_all()?)? / tokens as f64;
        *metrics.rehearsal_logp.get_or_insert(0.0) += mean;
        let reference: Vec<&[f32]> = items.iter().map(|item| item.logp.as_slice()).collect();
        Ok((said.logp - padded(&reference, self.device())?)?)
    }
}

/// Counts the log-ratios that a curve cuts, as a share of `count`.
fn note_clamped(log_ratio: &Tensor, count: usize, metrics: &mut Metrics) -> Result<()> {
    let cut = log_ratio.detach().gt(MAX_LOG_RATIO)?.to_dtype(candle_core::DType::F32)?;
    *metrics.rehearsal_clamped.get_or_insert(0.0) += scalar(&cut.sum_all()?)? / count as f64;
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
