//! A batch to the gradient of one update, micro-batch by micro-batch: a forward pass, the loss of its tokens, and the
//! backward pass from the derivatives of that loss; then the same of the base's stored completions.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;
use candle_core::Tensor;

use super::batch::{TokenBatch, TrainingCompletion, sequences};
use super::run::Run;
use super::training_data::StoredCompletion;
use crate::objective::{Normaliser, PolicyOutputs, Shares, StoredValues, TokenValues};
use crate::train::checkpoint::State;
use crate::train::{order, rank_shares};
use tealight_core::ranks::Ranks;
use tealight_nn::policy::{GradAccumulator, Sequence, on_host, token_logp};

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
        let vocabulary = plan.vocabulary_regulariser();
        let mini_batch = &batch.completions[batch.mini_batches[update.part].clone()];
        // Completions whose gradient is zero need no backward pass.
        let reads_vocabulary = vocabulary.is_some() || bonus != 0.0;
        let (zero_gradient, active): (Vec<_>, Vec<_>) =
            mini_batch.iter().partition(|one| !reads_vocabulary && one.is_zero_gradient(plan));
        let mut measured = RolloutStats { count: active.len(), ..RolloutStats::default() };
        for range in self.passes(&sequences(&active)) {
            let (sequences, values) =
                (sequences(&active[range.clone()]), values(&active[range.clone()]));
            let base = vocabulary
                .map(|regulariser| run.compared(regulariser, &active[range]))
                .transpose()?;
            let forward = policy.forward_compared(&sequences, temperature, base.as_ref())?;
            let outputs = PolicyOutputs {
                logp: forward.logp(),
                divergence: forward.divergence(),
                entropy_bonus: (bonus != 0.0).then_some((forward.entropy(), bonus)),
            };
            let mut loss = plan.loss(&values, outputs)?;
            if share != 1.0 {
                // Weights are of the whole step's totals, so that micro-batches add up to the gradient of one large
                // batch.
                loss.total = (loss.total * share)?;
            }
            self.stats.loss += scalar(&loss.total)?;
            measured.add(update, &values, [&loss.clipped, forward.logp(), forward.entropy()])?;
            policy.backward(forward, &loss.total, &mut self.grads)?;
        }
        for range in self.passes(&sequences(&zero_gradient)) {
            let (sequences, values) =
                (sequences(&zero_gradient[range.clone()]), values(&zero_gradient[range]));
            // These completions only count in the logged means: a forward pass is enough.
            let scores = token_logp(policy.decoder(), &sequences, temperature)?;
            let outputs =
                PolicyOutputs { logp: &scores.logp, divergence: None, entropy_bonus: None };
            let clipped = plan.loss(&values, outputs)?.clipped;
            measured.add(update, &values, [&clipped, &scores.logp, &scores.entropy])?;
        }
        if active.is_empty() {
            // A gradient of zero still moves an optimizer with momentum.
            let weights = policy.weights().iter();
            let weights: Vec<_> = weights.map(|(name, weight)| (name.as_str(), weight)).collect();
            self.grads.change(&weights, &mut |_| Ok(()))?;
        }
        // Means over the tokens of a mini-batch; the updates of a step, added up, come to their mean.
        let tokens: usize = mini_batch.iter().map(TrainingCompletion::length).sum();
        let each = 1.0 / (tokens * update.count) as f64;
        measured.entropy *= each;
        measured.clipped *= each;
        self.stats.rollouts = Some(measured);
        Ok(())
    }

    /// This rank's micro-batches of some sequences.
    fn passes(&self, sequences: &[&Sequence]) -> Vec<Range<usize>> {
        let tokens = self.run.config.settings.micro_batch_tokens;
        rank_shares::rank_passes(sequences, tokens, self.run.ranks)
    }

    /// Adds the gradient of stored completions times `coefficient`: of every token, averaged as the objective averages
    /// tokens, where they are rehearsed, and of whole samples where they stand for a target.
    fn add_stored(&mut self, batch: &StoredBatch<'_>, coefficient: f64) -> Result<()> {
        let (run, policy) = (self.run, self.run.models.policy);
        let StoredBatch { items, sequences, .. } = batch;
        let is_rehearsal = run.plan.matching().is_none();
        let mut stats = StoredStats { count: items.len(), is_rehearsal, ..StoredStats::default() };
        let tokens = batch.tokens * self.update.count;
        // Samples of a target count whole, rehearsed completions token by token.
        let divisor = if is_rehearsal { tokens } else { items.len() };
        for range in self.passes(sequences) {
            let values = items[range.clone()].iter().map(|item| batch.values(run, item));
            let values: Vec<StoredValues> = values.collect();
            let forward = policy.forward(&sequences[range], run.config.settings.temperature)?;
            let loss = run.plan.stored_loss(&values, forward.logp())?;
            stats.logp += scalar(&forward.logp().detach().sum_all()?)? / tokens as f64;
            stats.clamped += scalar(&loss.clipped)? / divisor as f64;
            stats.value += scalar(&loss.total)?;
            policy.backward(forward, &(loss.total * coefficient)?, &mut self.grads)?;
        }
        self.stats.loss += coefficient * stats.value;
        self.stats.stored = Some(stats);
        Ok(())
    }
}

/// What the loss reads of some completions.
fn values<'a>(completions: &[&'a TrainingCompletion]) -> Vec<&'a TokenValues> {
    completions.iter().map(|completion| &completion.values).collect()
}

/// A scalar on the host.
fn scalar(tensor: &Tensor) -> Result<f64> {
    Ok(f64::from(tensor.to_scalar::<f32>()?))
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

    /// What the loss reads of one of the completions.
    fn values(&self, run: &Run<'_>, item: &StoredCompletion) -> StoredValues {
        let (weight, log_weight) = match run.plan.matching() {
            None => {
                let normaliser = Normaliser {
                    tokens: self.tokens.max(1),
                    sequences: self.sequences.len().max(1),
                    max_completion_length: run.config.settings.length(),
                };
                (run.plan.loss_type.weight(item.logp.len(), &normaliser), 0.0)
            }
            Some(matching) => {
                let validity = run.data.training.normaliser[item.problem];
                let (weight, log_weight) = matching.weigh(item.is_correct, validity);
                // The mean over the step's samples of (p / a) times the loss: E_a[(p / a) ..] = E_p[..].
                (weight / self.items.len() as f64, log_weight)
            }
        };
        let base_logp = item.logp.iter().copied().map(f64::from).collect();
        StoredValues { base_logp, weight, log_weight }
    }
}

/// The index of an optimizer step among those on a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Update {
    /// Its number among the steps on the batch.
    pub(super) number: usize,
    /// Number of updates on the batch.
    pub(super) count: usize,
    /// Index of the mini-batch.
    pub(super) part: usize,
}

/// What an update measured.
#[derive(Debug, Clone, Default)]
pub(super) struct UpdateStats {
    pub(super) loss: f64,
    pub(super) rollouts: Option<RolloutStats>,
    pub(super) stored: Option<StoredStats>,
    /// Seconds in which they were summed over ranks.
    pub(super) reduction_time: Option<f64>,
}

impl UpdateStats {
    /// Adds the statistics of the other ranks.
    pub(super) fn sum(&mut self, ranks: &Ranks) -> Result<()> {
        let (mut none, mut nothing) = (RolloutStats::default(), StoredStats::default());
        let rollouts = self.rollouts.as_mut().unwrap_or(&mut none);
        let stored = self.stored.as_mut().unwrap_or(&mut nothing);
        let sums = [
            &mut self.loss,
            &mut rollouts.entropy,
            &mut rollouts.clipped,
            &mut stored.value,
            &mut stored.logp,
            &mut stored.clamped,
        ];
        let count = sums.len();
        let mut local: Vec<f64> = sums.iter().map(|sum| **sum).collect();
        local.push(rollouts.logp_difference);
        // Each rank's numbers are of its own rows, already divided by the totals of all.
        let all = ranks.gather_numbers(local)?;
        for (place, sum) in sums.into_iter().enumerate() {
            *sum = all.iter().map(|numbers| numbers[place]).sum();
        }
        rollouts.logp_difference = all.iter().map(|numbers| numbers[count]).fold(0.0, f64::max);
        Ok(())
    }
}

/// Statistics of an update on rollouts.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RolloutStats {
    /// Number of completions with a backward pass.
    pub(super) count: usize,
    /// Mean entropy of a token.
    pub(super) entropy: f64,
    /// Share of tokens that were clipped.
    pub(super) clipped: f64,
    /// Largest difference of log-probabilities between rollout and training.
    pub(super) logp_difference: f64,
}

/// Statistics of an update on stored completions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct StoredStats {
    /// Number of stored completions.
    pub(super) count: usize,
    /// Whether they were rehearsed, and do not stand for a target.
    pub(super) is_rehearsal: bool,
    /// The loss, without its coefficient.
    pub(super) value: f64,
    /// Mean log-probability of a token under the policy.
    pub(super) logp: f64,
    /// Share of log-ratios that were cut.
    pub(super) clamped: f64,
}

impl RolloutStats {
    /// Adds a pass over completions: its clipped tokens, and the log-probabilities and entropies of all of them.
    fn add(
        &mut self,
        update: Update,
        values: &[&TokenValues],
        [clipped, logp, entropy]: [&Tensor; 3],
    ) -> Result<()> {
        self.clipped += scalar(clipped)?;
        self.entropy += scalar(&entropy.detach().sum_all()?)?;
        // Between sampling and the first update on a batch; later ones train another policy than the one that sampled.
        if update.number == 0 {
            let sampled = values.iter().flat_map(|values| &values.behavior_logp);
            let differences = on_host(logp)?.into_iter().zip(sampled);
            let differences = differences.map(|(a, b)| f64::from((a - *b as f32).abs()));
            self.logp_difference = differences.fold(self.logp_difference, f64::max);
        }
        Ok(())
    }
}
