//! A batch to the gradient of one update, micro-batch by micro-batch: a forward pass, the loss of its tokens, and the
//! backward pass from the derivatives of that loss; then the same of the base's stored completions.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use candle_core::{Device, Tensor};

use super::batch::{Columns, TokenBatch};
use super::metrics::{RolloutStats, StoredStats, Update, UpdateStats, scalar};
use super::run::Run;
use super::training_data::StoredCompletion;
use crate::objective::{
    Completions, LossInputs, Matching, Normaliser, Offsets, Plan, Shares, StoredInputs,
    VocabularyInputs,
};
use crate::train::checkpoint::State;
use crate::train::micro_batches::{column, lengths};
use crate::train::{order, rank_shares};
use tealight_nn::policy::{GradAccumulator, Sequence, token_logp};

/// Keys the randomness of rehearsal apart from that of prompts.
const REHEARSAL_SEED: u64 = 0x7265_6865_6172_7365;

/// The gradient of one update, as the passes over its completions add to it.
struct UpdateGradient<'a> {
    run: &'a Run<'a>,
    update: Update,
    grads: GradAccumulator,
    stats: UpdateStats,
}

/// The gradient of the loss of one update: on a mini-batch of rollouts, where there are any, and on its share of the
/// step's stored completions.
pub(super) fn gradients(
    run: &Run<'_>,
    batch: Option<&TokenBatch>,
    update: Update,
    state: &State,
) -> Result<(GradAccumulator, UpdateStats)> {
    let (grads, stats) = (GradAccumulator::default(), UpdateStats::default());
    let mut sum = UpdateGradient { run, update, grads, stats };
    // Rehearsed beside rollouts, or trained on alone.
    let coefficient = match run.plan.rehearsal_loss() {
        Some((_, coefficient)) => Some(coefficient),
        None => batch.is_none().then_some(1.0),
    };
    let stored = coefficient.map(|by| (by, StoredBatch::new(run, state.global_step, update)));
    let shares = match (batch, &stored) {
        (Some(batch), Some((_, stored))) => {
            run.plan.shares(batch.weighted(update.part), (stored.tokens, stored.sequences.len()))
        }
        _ => Shares { rollouts: 1.0, stored: 1.0 },
    };
    if let Some(batch) = batch {
        sum.add_rollouts(batch, shares.rollouts, run.entropy_bonus(state))?;
    }
    if let Some((coefficient, stored)) = &stored {
        sum.add_stored(stored, coefficient * shares.stored)?;
    }
    let UpdateGradient { mut grads, mut stats, .. } = sum;
    if run.ranks.size() > 1 {
        let (started, weights) = (Instant::now(), run.models.policy.weights());
        rank_shares::sum_gradients(&mut grads, weights, run.ranks)?;
        stats.sum(run.ranks)?;
        stats.reduction_time = Some(started.elapsed().as_secs_f64());
    }
    Ok((grads, stats))
}

impl UpdateGradient<'_> {
    /// Adds the gradient of a mini-batch, whose weight in the loss is `share`, and the statistics of its passes.
    fn add_rollouts(&mut self, batch: &TokenBatch, share: f64, bonus: f64) -> Result<()> {
        let (run, update) = (self.run, self.update);
        let (plan, policy, temperature) =
            (run.plan, run.models.policy, run.config.settings.temperature);
        let mini_batch = batch.mini_batches[update.part].clone();
        // Completions whose gradient is zero need no backward pass.
        let (zero_gradient, active): (Vec<_>, Vec<_>) = mini_batch
            .clone()
            .partition(|row| !plan.reads_vocabulary(bonus) && batch.is_zero_gradient(*row, plan));
        let mut measured = RolloutStats { count: active.len(), ..RolloutStats::default() };
        for completions in self.passes(batch, &active) {
            let sequences = at(&batch.sequences, &completions);
            let base = batch.base.as_ref().map(|base| at(base, &completions));
            let base = run.compared(&sequences, base)?;
            let forward = policy.forward_compared(&sequences, temperature, base.as_ref())?;
            let tensors = LossTensors::new(plan, &batch.columns(&completions), run.device())?;
            let vocabulary = VocabularyInputs {
                entropy: forward.entropy(),
                divergence: forward.divergence(),
                entropy_bonus: bonus,
            };
            let vocabulary = plan.reads_vocabulary(bonus).then_some(vocabulary);
            let mut loss =
                plan.loss(&LossInputs { vocabulary, ..tensors.inputs(forward.logp()) })?;
            if share != 1.0 {
                // Weights are of the whole step's totals, so that micro-batches add up to the gradient of one large
                // batch.
                loss.total = (loss.total * share)?;
            }
            self.stats.loss += scalar(&loss.total)?;
            measured.clipped += scalar(&loss.clipped)?;
            measured.entropy += scalar(&forward.entropy().detach().sum_all()?)?;
            measured.see_difference(update, &forward.logp().detach(), &tensors.behavior_logp)?;
            policy.backward(forward, &loss.total, &mut self.grads)?;
        }
        for completions in self.passes(batch, &zero_gradient) {
            let sequences = at(&batch.sequences, &completions);
            // These completions only count in the logged means: a forward pass is enough.
            let scores = token_logp(policy.decoder(), &sequences, temperature)?;
            let tensors = LossTensors::new(plan, &batch.columns(&completions), run.device())?;
            measured.clipped += scalar(&plan.loss(&tensors.inputs(&scores.logp))?.clipped)?;
            measured.entropy += scalar(&scores.entropy.sum_all()?)?;
            measured.see_difference(update, &scores.logp, &tensors.behavior_logp)?;
        }
        if active.is_empty() {
            // A gradient of zero still moves an optimizer with momentum.
            let weights = policy.weights().iter();
            let weights: Vec<_> = weights.map(|(name, weight)| (name.as_str(), weight)).collect();
            self.grads.change(&weights, &mut |_| Ok(()))?;
        }
        // Means over the tokens of a mini-batch; the updates of a step, added up, come to their mean.
        let each = 1.0 / (batch.tokens(mini_batch) * update.count) as f64;
        measured.entropy *= each;
        measured.clipped *= each;
        self.stats.rollouts = Some(measured);
        Ok(())
    }

    /// Some completions of a batch in this rank's micro-batches.
    fn passes(&self, batch: &TokenBatch, completions: &[usize]) -> Vec<Vec<usize>> {
        let ranges = self.ranges(&at(&batch.sequences, completions));
        ranges.into_iter().map(|range| completions[range].to_vec()).collect()
    }

    fn ranges(&self, sequences: &[&Sequence]) -> Vec<Range<usize>> {
        let tokens = self.run.config.settings.micro_batch_tokens;
        rank_shares::rank_passes(sequences, tokens, self.run.ranks)
    }

    /// Adds the gradient of stored completions times `coefficient`: of every token, averaged as the objective averages
    /// tokens, where they are rehearsed, and of whole samples where they stand for a target.
    fn add_stored(&mut self, batch: &StoredBatch<'_>, coefficient: f64) -> Result<()> {
        let (run, settings, device) = (self.run, &self.run.config.settings, self.run.device());
        let (policy, matching) = (run.models.policy, run.plan.matching());
        let StoredBatch { items, sequences, .. } = batch;
        let mut stats = StoredStats { count: items.len(), ..StoredStats::default() };
        let tokens = batch.tokens * self.update.count;
        // Samples of a target count whole, rehearsed completions token by token.
        let divisor = if matching.is_some() { items.len() } else { tokens };
        for range in self.ranges(sequences) {
            let (items, sequences) = (&items[range.clone()], &sequences[range]);
            let forward = policy.forward(sequences, settings.temperature)?;
            let base_logp: Vec<f32> = items.iter().flat_map(|item| &item.logp).copied().collect();
            let base_logp = Tensor::from_slice(&base_logp, base_logp.len(), device)?;
            let lengths = lengths(sequences);
            let (weight, log_weight) = match matching {
                None => (batch.token_weights(run.plan, &lengths, settings.length()), None),
                Some(matching) => {
                    let (weight, log_weight) = batch.sample_weights(run, matching, items);
                    (weight, Some(column(&log_weight, device)?))
                }
            };
            let loss = run.plan.stored_loss(&StoredInputs {
                completions: &Completions::new(lengths, device)?,
                policy_logp: forward.logp(),
                base_logp: &base_logp,
                weight: &column(&weight, device)?,
                log_weight: log_weight.as_ref(),
            })?;
            stats.logp += scalar(&forward.logp().detach().sum_all()?)? / tokens as f64;
            stats.clamped += loss.cut / divisor as f64;
            stats.value += scalar(&loss.total)?;
            policy.backward(forward, &(loss.total * coefficient)?, &mut self.grads)?;
        }
        self.stats.loss += coefficient * stats.value;
        (self.stats.stored, self.stats.is_rehearsal) = (Some(stats), matching.is_none());
        Ok(())
    }
}

/// The tensors `[N]` that the loss of a micro-batch reads beside the policy.
struct LossTensors {
    completions: Completions,
    behavior_logp: Tensor,
    base_logp: Option<Tensor>,
    advantage: Tensor,
    weight: Tensor,
    penalty_weight: Tensor,
}

impl LossTensors {
    fn new(plan: &Plan, columns: &Columns, device: &Device) -> Result<Self> {
        let penalty_weight = columns.weight.iter().map(|weight| plan.penalty_weight(*weight));
        let logp = |values: &Vec<f32>| Tensor::from_slice(values, values.len(), device);
        Ok(Self {
            completions: Completions::new(columns.offsets.lengths(), device)?,
            behavior_logp: logp(&columns.behavior_logp)?,
            base_logp: columns.base_logp.as_ref().map(logp).transpose()?,
            advantage: column(&columns.advantage, device)?,
            weight: column(&columns.weight, device)?,
            penalty_weight: column(&penalty_weight.collect::<Vec<_>>(), device)?,
        })
    }

    /// The inputs of the loss, with the policy's log-probabilities.
    fn inputs<'a>(&'a self, policy_logp: &'a Tensor) -> LossInputs<'a> {
        LossInputs {
            completions: &self.completions,
            policy_logp,
            behavior_logp: &self.behavior_logp,
            base_logp: self.base_logp.as_ref(),
            advantage: &self.advantage,
            weight: &self.weight,
            penalty_weight: &self.penalty_weight,
            vocabulary: None,
        }
    }
}

/// The stored completions of an update.
struct StoredBatch<'a> {
    items: Vec<&'a StoredCompletion>,
    sequences: Vec<&'a Sequence>,
    tokens: usize,
}

impl<'a> StoredBatch<'a> {
    /// Prompts in turn, whatever each has stored, and of each prompt its completions in turn, so that prompts count
    /// alike.
    fn new(run: &Run<'a>, step: usize, update: Update) -> Self {
        let data = run.data.training;
        let most = run.config.settings.rehearsal_batch_size.min(data.rehearsal.len());
        let Update { number, count, .. } = update;
        // Ends are rounded, not sizes: the updates of a step together have each of `most` completions once.
        let part = most * number / count..most * (number + 1) / count;
        let range = step * most + part.start..step * most + part.end;
        let seed = run.config.seed ^ REHEARSAL_SEED;
        let chosen = order::in_turn(&data.stored_prompts, range, seed);
        let items: Vec<&StoredCompletion> =
            chosen.into_iter().map(|index| &data.rehearsal[index]).collect();
        let sequences: Vec<&Sequence> = items.iter().map(|item| &item.sequence).collect();
        let tokens = sequences.iter().map(|row| row.completion.len()).sum();
        Self { items, sequences, tokens }
    }

    /// The weight of every token of some of the completions.
    fn token_weights(
        &self,
        plan: &Plan,
        lengths: &[usize],
        max_completion_length: usize,
    ) -> Vec<f64> {
        let normaliser = Normaliser {
            tokens: self.tokens.max(1),
            sequences: self.sequences.len().max(1),
            max_completion_length,
        };
        let weight = |length: &usize| plan.loss_type.weight(*length, &normaliser);
        let weights: Vec<f64> = lengths.iter().map(weight).collect();
        Offsets::new(lengths.iter().copied()).spread(&weights)
    }

    /// The weights of some samples of a target, and their `log(p / a)`.
    fn sample_weights(
        &self,
        run: &Run<'_>,
        matching: &Matching,
        items: &[&StoredCompletion],
    ) -> (Vec<f64>, Vec<f64>) {
        let weigh = |item: &&StoredCompletion| {
            let validity = run.data.training.normaliser[item.problem];
            let log_weight = matching.target.log_weight(item.is_correct, validity, matching.beta);
            let (weight, log_weight) = matching.weigh(log_weight);
            // The mean over the step's samples of (p / a) times the loss: E_a[(p / a) ..] = E_p[..].
            (weight / self.items.len() as f64, log_weight)
        };
        items.iter().map(weigh).unzip()
    }
}

/// Some items of a list.
fn at<'a, T>(items: &'a [T], indices: &[usize]) -> Vec<&'a T> {
    indices.iter().map(|index| &items[*index]).collect()
}
