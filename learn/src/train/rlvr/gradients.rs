//! A batch to the gradient of one update, micro-batch by micro-batch.

use std::ops::Range;
use std::time::Instant;

use anyhow::Result;

use super::batch::{TokenBatch, first_values};
use super::deferred::{MicroBatch, SamplerRatios};
use super::loss_tensors::LossTensors;
use super::rehearsal::{self, RehearsalBatch};
use super::run::Run;
use super::update_stats::{RolloutStats, Update, UpdateStats, scalar};
use crate::objective::Shares;
use crate::train::checkpoint::State;
use crate::train::micro_batches::DropoutCounter;
use crate::train::rank_shares;
use tealight_nn::policy::{GradAccumulator, Sequence, token_logp};

/// The gradient of the loss of one update: on a mini-batch of rollouts, where there are any, and on its share of the
/// step's stored completions.
pub(super) fn gradients(
    run: &Run<'_>,
    batch: Option<&TokenBatch>,
    update: Update,
    state: &State,
    dropout_counter: &mut DropoutCounter,
) -> Result<(GradAccumulator, UpdateStats)> {
    let (mut grads, mut stats) = (GradAccumulator::default(), UpdateStats::default());
    let step = state.global_step;
    let rehearsed = run
        .plan
        .rehearsal_loss()
        .map(|(_, coefficient)| (coefficient, RehearsalBatch::for_update(run, step, update)));
    let shares = match (batch, &rehearsed) {
        (Some(batch), Some((_, stored))) => {
            run.plan.shares(batch.weighted(update.part), (stored.tokens, stored.sequences.len()))
        }
        _ => Shares::APART,
    };
    if let Some(batch) = batch {
        let share = shares.rollouts;
        add_rollouts(
            run,
            batch,
            (update, share),
            state,
            dropout_counter,
            (&mut grads, &mut stats),
        )?;
    }
    if let Some((coefficient, stored)) = rehearsed {
        let coefficient = coefficient * shares.stored;
        let on_stored = rehearsal::add_stored(
            run,
            &stored,
            coefficient,
            update.count,
            dropout_counter,
            &mut grads,
        )?;
        stats.loss += coefficient * on_stored.value;
        (stats.stored, stats.is_rehearsal) = (Some(on_stored), true);
    }
    if batch.is_none() && run.plan.matching().is_some() {
        let stored = RehearsalBatch::for_update(run, step, Update::ONLY);
        let on_stored = rehearsal::add_stored(run, &stored, 1.0, 1, dropout_counter, &mut grads)?;
        stats.loss += on_stored.value;
        stats.stored = Some(on_stored);
    }
    if run.ranks.size() > 1 {
        let started = Instant::now();
        rank_shares::sum_gradients(&mut grads, run.policy.weights(), run.ranks, run.device_link)?;
        stats.sum(run.ranks)?;
        stats.reduction_time = Some(started.elapsed().as_secs_f64());
    }
    Ok((grads, stats))
}

/// Adds the gradient of a mini-batch, whose weight in the loss is `share`, and the statistics of its passes.
fn add_rollouts(
    run: &Run<'_>,
    batch: &TokenBatch,
    (update, share): (Update, f64),
    state: &State,
    dropout_counter: &mut DropoutCounter,
    (grads, stats): (&mut GradAccumulator, &mut UpdateStats),
) -> Result<()> {
    let (plan, scorer, temperature) = (run.plan, run.scorer(), run.config.settings.temperature);
    let bonus = run.entropy_bonus(state);
    let mini_batch = batch.mini_batches[update.part].clone();
    let (zero_gradient, active) = divided(run, batch, mini_batch.clone(), bonus);
    let mut measured = RolloutStats { count: active.len(), ..RolloutStats::default() };
    let mut ratios: Option<SamplerRatios> = None;
    let mut finished = |completions: &[usize], micro_batch: &MicroBatch| {
        if let Some(more) = micro_batch.ratios() {
            ratios.get_or_insert_default().extend(more);
        }
        let columns = micro_batch.columns();
        let advantages = first_values(&columns.offsets, &columns.advantage);
        stats.advantages.extend(completions.iter().copied().zip(advantages));
        LossTensors::new(plan, micro_batch, run.device())
    };
    for (completions, number) in rank_passes(run, batch, &active, dropout_counter) {
        let sequences = at(&batch.sequences, &completions);
        let base = batch.base.as_ref().map(|base| at(base, &completions));
        let base = scorer.compared(plan, &sequences, base)?;
        let forward =
            run.policy.forward_compared(&sequences, temperature, number, base.as_ref())?;
        let micro_batch = batch.finish(&completions, &(&forward).into())?;
        let tensors = finished(&completions, &micro_batch)?;
        let mut loss = plan.loss(&tensors.inputs(forward.logp()))?;
        if let Some(vocabulary) = tensors.vocabulary_loss(plan, &forward, bonus)? {
            loss.total = (loss.total + vocabulary)?;
        }
        if share != 1.0 {
            // Weights are of the whole step's totals, so that micro-batches add up to the gradient of one large batch.
            loss.total = (loss.total * share)?;
        }
        stats.loss += scalar(&loss.total)?;
        measured.clipped += scalar(&loss.clipped)?;
        measured.entropy += scalar(&forward.entropy().detach().sum_all()?)?;
        measured.see_difference(update, &forward.logp().detach(), &tensors.behavior_logp)?;
        run.policy.backward(forward, &loss.total, grads)?;
    }
    for (completions, _) in rank_passes(run, batch, &zero_gradient, dropout_counter) {
        let sequences = at(&batch.sequences, &completions);
        // These completions only count in the logged means: a forward pass is enough.
        let scores = token_logp(run.policy.decoder(), &sequences, temperature)?;
        let micro_batch = batch.finish(&completions, &(&scores).into())?;
        let tensors = finished(&completions, &micro_batch)?;
        measured.clipped += scalar(&plan.loss(&tensors.inputs(&scores.logp))?.clipped)?;
        measured.entropy += scalar(&scores.entropy.sum_all()?)?;
        measured.see_difference(update, &scores.logp, &tensors.behavior_logp)?;
    }
    if active.is_empty() {
        // A gradient of zero still moves an optimizer with momentum.
        let weights = run.policy.weights().iter();
        let weights: Vec<_> = weights.map(|(name, weight)| (name.as_str(), weight)).collect();
        grads.change(&weights, &mut |_| Ok(()))?;
    }
    // Means over the tokens of a mini-batch; the updates of a step, added up, come to their mean.
    let each = 1.0 / (batch.tokens(mini_batch) * update.count) as f64;
    measured.entropy *= each;
    measured.clipped *= each;
    stats.mismatch = ratios.map(|ratios| ratios.mismatch());
    stats.rollouts = Some(measured);
    Ok(())
}

/// The completions of a mini-batch whose gradient is zero, which need no backward pass, and the others.
fn divided(
    run: &Run<'_>,
    batch: &TokenBatch,
    mini_batch: Range<usize>,
    entropy_bonus: f64,
) -> (Vec<usize>, Vec<usize>) {
    match run.plan.reads_vocabulary(entropy_bonus) {
        true => (vec![], mini_batch.collect()),
        false => mini_batch.partition(|completion| batch.is_zero_gradient(*completion, run.plan)),
    }
}

/// Some completions of a batch in this rank's micro-batches, each with its dropout counter.
fn rank_passes(
    run: &Run<'_>,
    batch: &TokenBatch,
    completions: &[usize],
    dropout_counter: &mut DropoutCounter,
) -> Vec<(Vec<usize>, Option<u64>)> {
    let sequences: Vec<&Sequence> = at(&batch.sequences, completions);
    let tokens = run.config.settings.micro_batch_tokens;
    rank_shares::rank_passes(&sequences, tokens, run.ranks, dropout_counter)
        .into_iter()
        .map(|(range, number)| (completions[range].to_vec(), number))
        .collect()
}

/// Some items of a list.
fn at<'a, T>(items: &'a [T], indices: &[usize]) -> Vec<&'a T> {
    indices.iter().map(|index| &items[*index]).collect()
}
