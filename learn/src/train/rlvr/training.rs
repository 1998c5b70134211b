//! The loop over optimizer steps: rollouts to a batch of tokens to updates.

use std::time::Instant;

use anyhow::{Context, Result};

use super::batch::TokenBatch;
use super::gradients::{Update, gradients};
use super::kl_to_base::kl_to_base;
use super::metrics::Metrics;
use super::run::Run;
use super::self_check::{check_ends, check_ratio, check_stored};
use super::source::{Source, with_rollouts};
use crate::objective::clipped_reward_ratio;
use crate::rollout::Group;
use crate::train::checkpoint::State;
use crate::train::{AdamW, rank_shares};
use tealight_nn::generate::EngineLost;
use tealight_system::stop::Stop;
use tealight_system::telemetry::phase;

/// Ranks compare their weights after the first of every so many steps, and at the end.
const CHECKED: usize = 50;
/// Optimizer steps in a row that were skipped because the loss or the gradient was not finite, after which a run stops.
const MAX_SKIPPED: usize = 5;
/// Change of an adaptive entropy bonus in a step (TRL's default).
const ENTROPY_STEP: f64 = 0.005;

/// The results of a step, to log and to save.
pub struct Step<'a> {
    /// The numbers to log: loss, rewards, lengths, times.
    pub metrics: &'a Metrics,
    /// The state of the run after it.
    pub state: &'a mut State,
    /// The optimizer after it.
    pub optimizer: &'a AdamW,
    /// Its completions; none where the objective samples none.
    pub groups: &'a [Group],
    /// The advantage of each completion's first token, in their order.
    pub advantage: &'a [f64],
}

/// Called after every step.
pub type Report<'a> = dyn FnMut(Step<'_>) -> Result<()> + 'a;

/// The end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All steps are done.
    Done,
    /// Someone asked it to stop.
    Stopped,
    /// It cannot go on; the state is whole.
    GaveUp(String),
}

/// Trains from `state` on and leaves the state of the run in it.
///
/// # Errors
/// A failed self-check, an objective that the data cannot train, a device without memory.
pub fn train(
    run: &Run<'_>,
    state: &mut State,
    optimizer: &mut AdamW,
    stop: &Stop,
    report: &mut Report<'_>,
) -> Result<End> {
    let begin = (state.global_step, state.rounds);
    with_rollouts(run, begin, |source| steps(run, state, optimizer, stop, source, report))
}

/// The steps, with rollouts from `source`.
fn steps(
    run: &Run<'_>,
    state: &mut State,
    optimizer: &mut AdamW,
    stop: &Stop,
    source: &mut Source<'_>,
    report: &mut Report<'_>,
) -> Result<End> {
    while run.goes_on(state) {
        if run.ranks.first(|| Ok(stop.is_requested()))? {
            return Ok(End::Stopped);
        }
        let (metrics, groups, advantages) = match step(run, state, optimizer, source) {
            Ok(done) => done,
            Err(error) if error.is::<EngineLost>() => {
                return Ok(End::GaveUp(format!("{error:#}; --resume goes on from here")));
            }
            Err(error) => return Err(error),
        };
        let (metrics, groups, advantage) = (&metrics, &groups[..], &advantages[..]);
        report(Step { metrics, state, optimizer, groups, advantage })?;
        if state.skipped_in_a_row >= MAX_SKIPPED {
            return Ok(End::GaveUp(format!(
                "step {}: the loss or the gradient was not finite {} times in a row; lower --learning-rate",
                state.global_step, state.skipped_in_a_row
            )));
        }
    }
    Ok(End::Done)
}

/// One step: its metrics, its groups, and the advantage of each completion's first token.
fn step(
    run: &Run<'_>,
    state: &mut State,
    optimizer: &mut AdamW,
    source: &mut Source<'_>,
) -> Result<(Metrics, Vec<Group>, Vec<f64>)> {
    let settings = &run.config.settings;
    let (started, step) = (Instant::now(), state.global_step);
    phase("sampling");
    let (mut metrics, batch, groups) = match run.plan.is_on_policy() {
        true => sample(run, state, source)?,
        false => (Metrics::default(), None, vec![]),
    };
    phase("updating");
    if step == 0 {
        check_stored(run)?;
    }
    metrics.entropy_bonus = run.plan.entropy.target.map(|_| run.entropy_bonus(state));
    metrics.learning_rate = settings.schedule.rate(step, settings.max_steps);
    metrics.coefficient = (run.plan.beta() > 0.0).then(|| run.plan.beta());
    let advantages = batch.as_ref().map(TokenBatch::first_advantages).unwrap_or_default();
    // Advantages are those under the policy that sampled, in all updates; the trust region bounds how far later ones
    // go.
    for update in updates(run, batch.as_ref()) {
        let (gradients, stats) = gradients(run, batch.as_ref(), update, state)?;
        if step == 0 && update.number == 0 {
            check_ratio(run, &stats)?;
        }
        metrics.add(&stats, update);
        let stored = stats.stored.map_or(0, |stored| stored.count);
        state.num_gradients += stats.rollouts.map_or(0, |rollouts| rollouts.count) + stored;
        state.num_rehearsed += stored;
        metrics.grad_norm = f64::NAN;
        // A step that is not finite would destroy the moments as well as the weights.
        if metrics.loss.is_finite() {
            metrics.grad_norm =
                optimizer.step(run.models.policy, &gradients, metrics.learning_rate)?;
        }
        metrics.skipped_now |= !count_update(state, metrics.grad_norm);
    }
    adapt_entropy(run, state, &metrics);
    state.global_step += 1;
    if state.global_step % CHECKED == 1 || !run.goes_on(state) {
        rank_shares::check_weights(run.models.policy.weights(), run.ranks)?;
    }
    metrics.count(state);
    metrics.step_time = started.elapsed().as_secs_f64();
    Ok((metrics, groups, advantages))
}

/// The rollouts of a step: what they measure, the batch that they make, and its groups.
fn sample(
    run: &Run<'_>,
    state: &mut State,
    source: &mut Source<'_>,
) -> Result<(Metrics, Option<TokenBatch>, Vec<Group>)> {
    let failed = || format!("step {}: the rollouts failed", state.global_step + 1);
    let started = Instant::now();
    let rollouts = source(state).with_context(failed)?;
    let sampling_time = started.elapsed().as_secs_f64();
    state.rounds = rollouts.rounds;
    // Greedy completions cost as much as others.
    let sampled = rollouts.sampled.iter();
    let sampled = || sampled.clone().flat_map(|group| group.rollouts.iter().chain(&group.greedy));
    state.num_completions += sampled().count();
    state.num_tokens += sampled().map(|r| r.completion.tokens.len()).sum::<usize>();
    if state.global_step == 0 {
        check_ends(run, &rollouts.sampled)?;
    }
    let mut metrics =
        Metrics { sampling_time, ..Metrics::from_groups(&rollouts.sampled, run.data.rewarding) };
    metrics.staleness = run.models.sampling.engine.as_ref().map(|_| rollouts.staleness);
    let groups = rollouts.into_batch();
    let step = state.global_step;
    let batch = TokenBatch::new(run, &groups, state)?;
    metrics.mismatch = batch.mismatch;
    (metrics.kl, metrics.kl_stderr) = kl_to_base(run, &batch, step)?.unzip();
    let matching = run.plan.matching();
    metrics.max_reward_ratio = matching.map(|it| clipped_reward_ratio(it, &batch.stats));
    Ok((metrics, Some(batch), groups))
}

/// The optimizer steps on a batch: every mini-batch, as often as the batch is passed over.
fn updates(run: &Run<'_>, batch: Option<&TokenBatch>) -> impl Iterator<Item = Update> + use<> {
    let parts = batch.map_or(1, |batch| batch.mini_batches.len());
    let count = run.plan.num_iterations * parts;
    (0..count).map(move |number| Update { number, count, part: number % parts })
}

/// Counts an optimizer step, or one that was left out; returns whether it was taken.
fn count_update(state: &mut State, grad_norm: f64) -> bool {
    if grad_norm.is_finite() {
        state.optimizer_steps += 1;
        state.skipped_in_a_row = 0;
    } else {
        state.skipped_steps += 1;
        state.skipped_in_a_row += 1;
    }
    grad_norm.is_finite()
}

/// Raises the weight of the entropy bonus while entropy is at most its target and lowers it above, where the bonus is
/// off whatever its weight (Skywork-OR1).
fn adapt_entropy(run: &Run<'_>, state: &mut State, metrics: &Metrics) {
    let Some(target) = run.plan.entropy.target else { return };
    state.is_above_entropy = metrics.entropy.is_some_and(|entropy| entropy > target);
    let change = if state.is_above_entropy { -ENTROPY_STEP } else { ENTROPY_STEP };
    state.entropy_bonus = (state.entropy_bonus + change).max(0.0);
}
