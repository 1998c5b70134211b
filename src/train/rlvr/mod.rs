//! Fine-tuning by verifiable rewards: rollouts, advantages, a loss over tokens, a divergence.
//!
//! One step: the prompts of the step (`order`) are sampled by the frozen twin of the policy and judged;
//! rewards become advantages (`batch`); the policy's log-probabilities of the same tokens carry the
//! gradient (`gradients`). What is estimated on the base's samples is a loss of its own on stored
//! completions (`training_data`); supervised objectives train on those alone.

mod ahead;
mod batch;
mod config;
mod correct;
mod gradients;
mod health;
mod identity;
mod kl;
mod metrics;
mod pstar;
mod rollouts;
mod self_check;
mod training_data;
mod update;
mod whole;

use std::time::Instant;

use anyhow::{Context, Result};
use candle_core::{Device, Tensor};
use tealight_datasets::Verifier;

use super::checkpoint::State;
use super::{AdamW, Stop, shared};
use crate::generate::{Engine, EngineLost};
use crate::model::{Decoder, RolloutDtype};
use crate::objective::{ImportanceCorrection, Plan};
use crate::policy::Policy;
use crate::presample::Presamples;
use crate::ranks::Ranks;
use crate::rollout::{Encoded, Group};
use crate::telemetry::phase;
use crate::tokenizer::Tokenizer;
use crate::train::step::PassNumbers;
use batch::Batch;
use rollouts::Next;
use update::Update;

pub use config::{BetaPer, Explore, LENGTH, ReportTo, RlvrConfig, Settings};
pub use health::Health;
pub use kl::{LogKl, reads_base};
pub use metrics::Metrics;
pub use training_data::{Rehearsal, TrainingData, wants_extra_check, wants_presamples};

/// Ranks compare their weights after the first of every so many steps, and at the end.
const CHECKED: usize = 50;
/// How much an adaptive entropy bonus changes in a step (TRL's default).
const ENTROPY_STEP: f64 = 0.005;

/// What a run trains, and on what.
pub struct Run<'a> {
    /// The settings, checked.
    pub config: &'a RlvrConfig,
    /// What is optimised: the settings' plan.
    pub plan: &'a Plan,
    /// The model that changes.
    pub policy: &'a Policy,
    /// The base, which does not; none where nothing reads it ([`reads_base`]) and its weights are not held.
    pub reference: Option<&'a Decoder>,
    /// The prompts.
    pub problems: &'a [Encoded<'a>],
    /// What is known of them, and stored completions.
    pub data: &'a TrainingData,
    /// The base's completions of all problems, where there are some, that the log reads.
    pub presamples: Option<&'a Presamples>,
    /// Reads completions.
    pub tokenizer: &'a dyn Tokenizer,
    /// Judges them.
    pub verifier: &'a dyn Verifier,
    /// What samples in place of this process.
    pub engine: Option<RolloutEngine<'a>>,
    /// What the policy is rounded to where this process samples.
    pub rollout_dtype: Option<RolloutDtype>,
    /// How samples are weighted that another model than the policy drew: a server's, or the rounded one.
    pub correction: Option<ImportanceCorrection>,
    /// The processes that train together.
    pub ranks: &'a Ranks,
}

/// An engine outside this process.
pub struct RolloutEngine<'a> {
    /// The engine; none on ranks for which the first asks it.
    pub engine: Option<&'a dyn Engine>,
    /// Steps that it may be ahead of training: 0 waits for every step's weights.
    pub max_staleness: usize,
}

/// What a step leaves to log and to save.
pub struct Step<'a> {
    /// What it measured.
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

/// Called after every step; a reason ends the run.
pub type Report<'a> = dyn FnMut(Step<'_>) -> Result<Option<String>> + 'a;

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// All steps are done.
    Done,
    /// Someone asked it to stop.
    Stopped,
    /// It cannot go on, or was told not to; the state is whole.
    GaveUp(String),
}

impl Run<'_> {
    /// Trains from `state` on and leaves the state of the run in it.
    ///
    /// # Errors
    /// A failed self-check, no memory.
    pub fn train(
        &self,
        state: &mut State,
        optimizer: &mut AdamW,
        stop: &Stop,
        report: &mut Report<'_>,
    ) -> Result<End> {
        let begin = (state.global_step, state.rounds);
        self.with_rollouts(begin, |next| self.steps(state, optimizer, stop, next, report))
    }

    /// The steps, with rollouts from `next`, which is given the step and the number of its first round of prompts.
    fn steps(
        &self,
        state: &mut State,
        optimizer: &mut AdamW,
        stop: &Stop,
        next: &mut Next<'_>,
        report: &mut Report<'_>,
    ) -> Result<End> {
        let settings = &self.config.settings;
        while self.goes_on(state) {
            if self.ranks.first(|| Ok(stop.is_requested()))? {
                return Ok(End::Stopped);
            }
            let started = Instant::now();
            let step = state.global_step;
            let mut metrics = Metrics::supervised();
            let tokens = state.num_tokens;
            phase("sampling");
            let (mut batch, groups): (Option<Batch>, _) =
                match self.sample(state, &mut metrics, next) {
                    Ok(sampled) => sampled.unzip(),
                    Err(error) if error.is::<EngineLost>() => {
                        return Ok(End::GaveUp(format!("{error:#}; --resume goes on from here")));
                    }
                    Err(error) => return Err(error),
                };
            if batch.is_none() && self.logs_divergences(step) {
                metrics.pstar = Some(self.distances_without_rollouts()?);
            }
            phase("updating");
            let mut passes = PassNumbers::of_step(self.config.seed, step);
            if step == 0 {
                self.check_start(batch.as_ref(), &mut passes)?;
            }
            metrics.entropy_bonus = self.plan.entropy.target.map(|_| self.entropy_bonus(state));
            metrics.learning_rate = settings.schedule.rate(step, settings.max_steps);
            metrics.coefficient = self.coefficient(step);
            for update in self.updates(batch.as_ref()) {
                let (gradients, stats) =
                    self.gradients(batch.as_mut(), update, state, &mut passes)?;
                metrics.add(&stats, update);
                let rate = metrics.learning_rate;
                metrics.grad_norm = match metrics.loss.is_finite() {
                    true => optimizer.step(self.policy, &gradients, rate)?,
                    false => f64::NAN,
                };
                if metrics.grad_norm.is_finite() {
                    state.optimizer_steps += 1;
                    state.skipped_in_a_row = 0;
                } else {
                    metrics.skipped_now = true;
                    state.skipped_steps += 1;
                    state.skipped_in_a_row += 1;
                }
            }
            if let Some(drawn) = batch.as_ref().and_then(|batch| batch.drawn.as_ref()) {
                metrics.mismatch = Some(drawn.mismatch());
            }
            self.adapt_entropy(state, &metrics);
            state.global_step += 1;
            if state.global_step % CHECKED == 1 || !self.goes_on(state) {
                shared::check_weights(self.policy.weights(), self.ranks)?;
            }
            metrics.step = state.global_step;
            metrics.num_tokens = state.num_tokens;
            metrics.num_completions = state.num_completions;
            metrics.skipped_steps = state.skipped_steps;
            let (rollouts, stored) = metrics.step_gradients;
            state.num_gradients += rollouts + stored;
            state.num_rehearsed += stored;
            (metrics.num_gradients, metrics.num_rehearsed) =
                (state.num_gradients, state.num_rehearsed);
            metrics.num_updates = state.optimizer_steps;
            metrics.step_tokens = state.num_tokens - tokens;
            metrics.step_time = started.elapsed().as_secs_f64();
            let first = |advantage: &Vec<f64>| advantage.first().copied().unwrap_or(0.0);
            let advantage: Vec<f64> =
                batch.iter().flat_map(|batch| &batch.advantage).map(first).collect();
            let groups = groups.unwrap_or_default();
            let reason = report(Step {
                metrics: &metrics,
                state,
                optimizer,
                groups: &groups,
                advantage: &advantage,
            })?;
            if let Some(reason) = reason {
                return Ok(End::GaveUp(reason));
            }
            if state.skipped_in_a_row >= settings.max_skipped_steps {
                return Ok(End::GaveUp(format!(
                    "step {}: the loss or the gradient was not finite {} times in a row; lower --learning-rate",
                    state.global_step, state.skipped_in_a_row
                )));
            }
        }
        Ok(End::Done)
    }

    /// The optimizer steps on a batch: every mini-batch of it, as often as it is passed over.
    fn updates(&self, batch: Option<&Batch>) -> impl Iterator<Item = Update> + use<> {
        let parts = batch.map_or(1, |batch| batch.parts.len());
        let of = self.plan.num_iterations * parts;
        (0..of).map(move |number| Update { number, of, part: number % parts })
    }

    /// The regulariser's coefficient, or the target's beta, at a step; none where there is neither or prompts have
    /// their own.
    fn coefficient(&self, step: usize) -> Option<f64> {
        let first = *self.data.beta.first()?;
        let is_one = first > 0.0 && self.data.beta.iter().all(|beta| *beta == first);
        is_one.then(|| self.beta(0, step))
    }

    /// Whether there is a further step to do.
    pub fn goes_on(&self, state: &State) -> bool {
        let settings = &self.config.settings;
        let has_budget = settings.max_completions.is_none_or(|most| state.num_completions < most);
        let has_tokens = settings.max_tokens.is_none_or(|most| state.num_tokens < most);
        state.global_step < settings.max_steps && has_budget && has_tokens
    }

    /// The rollouts of a step with their advantages; `None` for supervised objectives.
    fn sample(
        &self,
        state: &mut State,
        metrics: &mut Metrics,
        next: &mut Next<'_>,
    ) -> Result<Option<(Batch, Vec<Group>)>> {
        if !self.plan.is_on_policy() {
            return Ok(None);
        }
        let failed = || format!("step {}: the rollouts failed", state.global_step + 1);
        let started = Instant::now();
        let drawn = next(state.global_step, state.rounds).with_context(failed)?;
        let sampling_time = started.elapsed().as_secs_f64();
        state.rounds = drawn.rounds;
        // Greedy completions cost as much as others.
        let rollouts =
            || drawn.sampled.iter().flat_map(|group| group.rollouts.iter().chain(&group.greedy));
        state.num_completions += rollouts().count();
        state.num_tokens += rollouts().map(|r| r.completion.tokens.len()).sum::<usize>();
        if state.global_step == 0 {
            self.check_ends(drawn.sampled.iter())?;
        }
        *metrics = Metrics { sampling_time, ..Metrics::of(&drawn.sampled) };
        metrics.staleness = self.engine.as_ref().map(|_| drawn.staleness);
        let groups = drawn.groups;
        Ok(Some((self.batch(&groups, state, metrics)?, groups)))
    }

    /// Raises the weight of the entropy bonus while entropy is at most its target and lowers it above, where the
    /// bonus is off whatever its weight (Skywork-OR1).
    fn adapt_entropy(&self, state: &mut State, metrics: &Metrics) {
        let Some(target) = self.plan.entropy.target else { return };
        state.is_above_entropy = metrics.entropy > target;
        let change = if state.is_above_entropy { -ENTROPY_STEP } else { ENTROPY_STEP };
        state.entropy_bonus = (state.entropy_bonus + change).max(0.0);
    }

    fn device(&self) -> &Device {
        self.policy.decoder().device()
    }

    /// The base.
    fn base(&self) -> Result<&Decoder> {
        self.reference.context("the base was not held, and something reads it; this is a bug")
    }
}

fn scalar(tensor: &Tensor) -> Result<f64> {
    Ok(f64::from(tensor.to_scalar::<f32>()?))
}
