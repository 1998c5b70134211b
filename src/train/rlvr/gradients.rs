//! The gradient of the whole objective on one batch, micro-batch by micro-batch.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use candle_core::Tensor;

use super::batch::Batch;
use super::update::{RolloutStats, StoredStats, Update, UpdateStats};
use super::{Rehearsal, Run, scalar};
use crate::objective::{
    Completions, LossInputs, Matching, Normaliser, Shares, StoredInputs, StoredWeight,
};
use crate::policy::{GradAccumulator, Sequence, token_logp};
use crate::train::checkpoint::State;
use crate::train::order;
use crate::train::shared;
use crate::train::step::{PassNumbers, flat, lengths};

/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// Stored completions, with their rows and all their tokens counted.
struct Stored<'a> {
    items: Vec<&'a Rehearsal>,
    rows: Vec<Sequence>,
    tokens: usize,
}

/// The tensors `[N]` that the loss of some rows of a batch reads beside the policy.
pub(super) struct PartTensors {
    completions: Completions,
    behavior: Tensor,
    reference: Option<Tensor>,
    advantage: Tensor,
    pub(super) weight: Tensor,
    pub(super) charge: Tensor,
    priced: Option<Tensor>,
    pub(super) simko: Option<(Tensor, Tensor)>,
}

impl Run<'_> {
    /// The gradient of the loss of one update: on a mini-batch of rollouts, where there are any, and on its share
    /// of the step's stored completions.
    pub(super) fn gradients(
        &self,
        batch: Option<&mut Batch>,
        update: Update,
        state: &State,
        passes: &mut PassNumbers,
    ) -> Result<(GradAccumulator, UpdateStats)> {
        let (mut grads, mut stats) = (GradAccumulator::default(), UpdateStats::default());
        let is_supervised = batch.is_none();
        let rehearsed = self.plan.rehearsal_loss().map(|(_, coefficient)| {
            let coefficient = coefficient * self.coefficients(state.global_step).beta;
            (coefficient, self.stored(state.global_step, update))
        });
        let shares = match (&batch, &rehearsed) {
            (Some(batch), Some((_, stored))) => self.shares(batch, update, stored),
            _ => Shares::APART,
        };
        if let Some(batch) = batch {
            let asked = (update, shares.rollouts);
            let (loss, rollouts) = self.on_rollouts(batch, asked, state, passes, &mut grads)?;
            stats.loss += loss;
            stats.rollouts = Some(rollouts);
        }
        if let Some((coefficient, stored)) = rehearsed {
            let coefficient = coefficient * shares.stored;
            let of = update.of;
            let found = self.on_stored(&stored, coefficient, (state, of), passes, &mut grads)?;
            stats.loss += coefficient * found.value;
            (stats.stored, stats.is_rehearsal) = (Some(found), true);
        }
        if is_supervised && self.plan.matching().is_some() {
            let stored = self.stored(state.global_step, Update::ONLY);
            let found = self.on_stored(&stored, 1.0, (state, 1), passes, &mut grads)?;
            stats.loss += found.value;
            stats.stored = Some(found);
        }
        if self.ranks.size() > 1 {
            let started = Instant::now();
            shared::sum_gradients(&mut grads, self.policy.weights(), self.ranks)?;
            stats.sum(self.ranks)?;
            stats.reduction_time = Some(started.elapsed().as_secs_f64());
        }
        Ok((grads, stats))
    }

    /// What rollouts and stored completions count in the loss of an update, where they are in one mean.
    fn shares(&self, batch: &Batch, update: Update, stored: &Stored<'_>) -> Shares {
        let part = batch.parts[update.part].clone();
        let counted = part.filter(|row| batch.weight[*row].iter().any(|weight| *weight != 0.0));
        let rollouts: Vec<usize> = counted.map(|row| batch.rows[row].completion.len()).collect();
        self.plan
            .shares((rollouts.iter().sum(), rollouts.len()), (stored.tokens, stored.rows.len()))
    }

    /// Adds the gradient of a mini-batch, which counts `share` in the loss; returns its loss.
    fn on_rollouts(
        &self,
        batch: &mut Batch,
        (update, share): (Update, f64),
        state: &State,
        passes: &mut PassNumbers,
        grads: &mut GradAccumulator,
    ) -> Result<(f64, RolloutStats)> {
        let settings = &self.config.settings;
        let part = batch.parts[update.part].clone();
        let (inert, active) = self.divided(batch, part.clone(), state);
        let mut stats = RolloutStats { count: active.len(), ..RolloutStats::default() };
        let (mut loss, bonus) = (0.0, self.entropy_bonus(state));
        for (places, pass) in self.own_passes(batch, &active, passes) {
            let rows = at(&batch.rows, &places);
            let kept =
                batch.base.as_ref().map(|base| places.iter().map(|row| &base[*row]).collect());
            let asked = self.asked(&rows, kept)?;
            let forward = self.policy.forward_whole(&rows, settings.temperature, pass, &asked)?;
            self.correct_passed(batch, &places, forward.logp())?;
            self.charge_passed(batch, &places, &forward)?;
            self.share_passed(batch, &forward)?;
            let tensors = self.tensors(batch, &places)?;
            let mut found = self.plan.loss(&tensors.inputs(forward.logp()))?;
            if let Some(whole) = self.vocabulary_loss(&forward, &tensors, bonus)? {
                found.total = (found.total + whole)?;
            }
            if share != 1.0 {
                found.total = (found.total * share)?;
            }
            loss += scalar(&found.total)?;
            stats.clipped += scalar(&found.clipped)?;
            stats.entropy += scalar(&forward.entropy().detach().sum_all()?)?;
            stats.see_difference(update, &forward.logp().detach(), &tensors.behavior)?;
            self.policy.backward(forward, &found.total, grads)?;
        }
        for (places, _) in self.own_passes(batch, &inert, passes) {
            let rows = at(&batch.rows, &places);
            let said = token_logp(self.policy.decoder(), &rows, settings.temperature)?;
            self.correct_passed(batch, &places, &said.logp)?;
            let tensors = self.tensors(batch, &places)?;
            stats.clipped += scalar(&self.plan.loss(&tensors.inputs(&said.logp))?.clipped)?;
            stats.entropy += scalar(&said.entropy.sum_all()?)?;
            stats.see_difference(update, &said.logp, &tensors.behavior)?;
        }
        if active.is_empty() {
            // A gradient of zero still moves an optimizer that remembers others.
            let weights = self.policy.weights().iter();
            let weights: Vec<_> = weights.map(|(name, weight)| (name.as_str(), weight)).collect();
            grads.change(&weights, &mut |_| Ok(()))?;
        }
        let tokens: usize = batch.rows[part].iter().map(|row| row.completion.len()).sum();
        let each = 1.0 / (tokens * update.of) as f64;
        stats.entropy *= each;
        stats.clipped *= each;
        Ok((loss, stats))
    }

    /// The rows of a mini-batch without a gradient, which need no backward pass, and those with one.
    fn divided(
        &self,
        batch: &Batch,
        part: Range<usize>,
        state: &State,
    ) -> (Vec<usize>, Vec<usize>) {
        match self.plan.reads_vocabulary(self.entropy_bonus(state)) {
            true => (vec![], part.collect()),
            false => part.partition(|row| batch.is_inert(*row, self.plan)),
        }
    }

    /// Some rows of a batch in this rank's micro-batches, each with the number of its pass.
    fn own_passes(
        &self,
        batch: &Batch,
        places: &[usize],
        passes: &mut PassNumbers,
    ) -> Vec<(Vec<usize>, Option<u64>)> {
        let rows = at(&batch.rows, places);
        let tokens = self.config.settings.micro_batch_tokens;
        shared::own_passes(&rows, tokens, self.ranks, passes)
            .into_iter()
            .map(|(range, pass)| (places[range].to_vec(), pass))
            .collect()
    }

    /// The weight of the entropy bonus: where it adapts, none while entropy is above its target.
    pub(super) fn entropy_bonus(&self, state: &State) -> f64 {
        let fixed = self.coefficients(state.global_step).entropy;
        match self.plan.entropy.target {
            None => fixed,
            Some(_) if state.is_above_entropy => 0.0,
            Some(_) if state.entropy_bonus > 0.0 => state.entropy_bonus,
            Some(_) => fixed,
        }
    }

    /// What the loss of rows reads.
    pub(super) fn tensors(&self, batch: &Batch, places: &[usize]) -> Result<PartTensors> {
        let device = self.device();
        let rows = at(&batch.rows, places);
        let charge = |row: usize| -> Vec<f64> {
            let beta = batch.beta[row];
            batch.weight[row].iter().map(|weight| self.plan.charge(*weight, beta)).collect()
        };
        let of = |rows: &Vec<Vec<f64>>| flat(&at(rows, places), device);
        let logp = |rows: &Vec<Vec<f32>>| {
            let values = at(rows, places).concat();
            Tensor::from_slice(&values, values.len(), device)
        };
        Ok(PartTensors {
            completions: Completions::new(lengths(&rows), device)?,
            behavior: logp(&batch.behavior)?,
            reference: batch.reference.as_ref().map(logp).transpose()?,
            advantage: of(&batch.advantage)?,
            weight: of(&batch.weight)?,
            charge: flat(&places.iter().map(|row| charge(*row)).collect::<Vec<_>>(), device)?,
            priced: batch.priced.as_ref().map(of).transpose()?,
            simko: match &batch.simko {
                None => None,
                Some((lift, press)) => Some((of(lift)?, of(press)?)),
            },
        })
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
        for (range, pass) in
            shared::own_passes(rows, settings.micro_batch_tokens, self.ranks, passes)
        {
            let (part, part_rows) = (&items[range.clone()], &rows[range]);
            let forward = self.policy.forward(part_rows, settings.temperature, pass)?;
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
            self.policy.backward(forward, &(found.total * coefficient)?, grads)?;
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

/// Some of a batch's rows.
pub(super) fn at<T: Clone>(rows: &[T], places: &[usize]) -> Vec<T> {
    places.iter().map(|place| rows[*place].clone()).collect()
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
