//! What is measured: of each update, and the metrics of each step.

use std::collections::BTreeMap;

use serde::Serialize;
use tealight_core::turns::end_of_turn;
use tealight_datasets::Verdict;

use super::gradients::{Update, UpdateStats};
use super::rewarding::Rewarding;
use crate::objective::{Mismatch, deviation};
use crate::rollout::{Group, Rollout};
use crate::train::checkpoint::State;
use tealight_nn::generate::Finish;

/// One row of `metrics.jsonl`; names are TRL's. What only rollouts have is null in a step without them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Metrics {
    /// Steps done.
    pub step: usize,
    /// Policy loss plus weighted divergence.
    pub loss: f64,
    /// Mean reward.
    pub reward: Option<f64>,
    /// Mean over groups of the standard deviation of rewards.
    pub reward_std: Option<f64>,
    /// Share of zero-variance groups: rewards are all equal, and so is the gradient of their policy loss to zero.
    pub frac_reward_zero_std: Option<f64>,
    /// The metrics of graded rewards by [`super::Rewarding`].
    #[serde(flatten)]
    pub rewards: BTreeMap<String, f64>,
    /// Mean entropy of the policy at sampled tokens, in nats.
    pub entropy: Option<f64>,
    /// Estimate of `KL(policy || base)` per completion, in nats, by its log-ratio; null where not logged.
    pub kl: Option<f64>,
    /// Standard error of `kl` over the completions of the step.
    pub kl_stderr: Option<f64>,
    /// The divergence on the base's correct answers, per token; null where not rehearsed.
    pub rehearsal_divergence: Option<f64>,
    /// Mean log-probability of a stored token under the policy; falls where the base's answers are
    /// forgotten, nears 0 where they are learned by heart.
    pub rehearsal_logp: Option<f64>,
    /// Share of stored tokens or completions whose log-ratio was cut (see `PointwiseLoss`).
    pub rehearsal_clamped: Option<f64>,
    /// Share of correct completions whose pseudo-reward was cut at `max-reward`; null without a target.
    pub max_reward_ratio: Option<f64>,
    /// Weight of the entropy bonus; null where it does not adapt.
    pub entropy_bonus: Option<f64>,
    /// The regulariser's coefficient, or the target's beta; null where there is none.
    pub coefficient: Option<f64>,
    /// Norm of the gradient before clipping, of the last update of the step.
    pub grad_norm: f64,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Mean tokens in a completion.
    #[serde(rename = "completions/mean_length")]
    pub mean_length: Option<f64>,
    /// Tokens in the shortest completion.
    #[serde(rename = "completions/min_length")]
    pub min_length: Option<f64>,
    /// Tokens in the longest completion.
    #[serde(rename = "completions/max_length")]
    pub max_length: Option<f64>,
    /// Mean tokens in a completion that ended by itself; null where none did.
    #[serde(rename = "completions/mean_terminated_length")]
    pub mean_terminated_length: Option<f64>,
    /// Share of completions cut off by the length limit.
    #[serde(rename = "completions/clipped_ratio")]
    pub clipped_ratio: Option<f64>,
    /// Share of completions in which no answer was found, or none that could be read.
    #[serde(rename = "completions/no_answer_ratio")]
    pub no_answer_ratio: Option<f64>,
    /// Share of tokens whose ratio was clipped.
    #[serde(rename = "clip_ratio/region_mean")]
    pub clip_region: Option<f64>,
    /// Largest difference of log-probabilities between rollout and training.
    #[serde(rename = "sampling/sampling_logp_difference/max")]
    pub logp_difference: Option<f64>,
    /// Steps that the weights which sampled are behind; null where this process samples.
    #[serde(rename = "sampling/staleness")]
    pub staleness: Option<usize>,
    /// How far what sampled is from the policy; nothing where that is the policy itself.
    #[serde(flatten)]
    pub mismatch: Option<Mismatch>,
    /// Steps skipped so far because the gradient was not finite.
    pub skipped_steps: usize,
    /// Tokens sampled so far.
    pub num_tokens: usize,
    /// Completions sampled so far, those of the base included.
    pub num_completions: usize,
    /// Optimizer steps so far.
    pub num_updates: usize,
    /// Completions that went through a backward pass so far, stored ones of the base included.
    pub num_gradients: usize,
    /// Stored ones among them.
    pub num_rehearsed: usize,
    /// Whether this step is one of them.
    #[serde(skip)]
    pub skipped_now: bool,
    /// The end of turn after which most truncated completions of the step went on.
    #[serde(skip)]
    pub unnoticed_end: Option<&'static str>,
    /// Seconds the step took.
    pub step_time: f64,
    /// Seconds of it until its rollouts were there, judged.
    #[serde(rename = "time/sampling")]
    pub sampling_time: f64,
    /// Seconds in which gradients were summed over ranks, waiting for the slowest included; null where one trains.
    #[serde(rename = "time/reduction")]
    pub reduction_time: Option<f64>,
}

impl Metrics {
    /// Takes over the counters of the run after the step.
    pub(super) fn count(&mut self, state: &State) {
        self.step = state.global_step;
        self.num_tokens = state.num_tokens;
        self.num_completions = state.num_completions;
        self.skipped_steps = state.skipped_steps;
        self.num_gradients = state.num_gradients;
        self.num_rehearsed = state.num_rehearsed;
        self.num_updates = state.optimizer_steps;
    }

    /// Takes in what an update measured; means over the updates of the step.
    pub(super) fn add(&mut self, stats: &UpdateStats, update: Update) {
        let share = 1.0 / update.count as f64;
        self.loss += share * stats.loss;
        if let Some(seconds) = stats.reduction_time {
            *self.reduction_time.get_or_insert(0.0) += seconds;
        }
        if let Some(rollouts) = &stats.rollouts {
            *self.entropy.get_or_insert(0.0) += rollouts.entropy;
            *self.clip_region.get_or_insert(0.0) += rollouts.clipped;
            let difference = self.logp_difference.get_or_insert(0.0);
            *difference = difference.max(rollouts.logp_difference);
        }
        if let Some(stored) = &stats.stored {
            if stored.count > 0 {
                *self.rehearsal_logp.get_or_insert(0.0) += stored.logp;
                *self.rehearsal_clamped.get_or_insert(0.0) += stored.clamped;
            }
            if stored.is_rehearsal {
                *self.rehearsal_divergence.get_or_insert(0.0) += share * stored.value;
            }
        }
    }

    /// Metrics of the rewards and lengths of a step's groups.
    pub(super) fn from_groups(groups: &[Group], rewarding: &Rewarding) -> Self {
        let all: Vec<_> = groups.iter().flat_map(|group| &group.rollouts).collect();
        // Sample deviations, as the advantages divide by them; there is none of one sample.
        let rewards = groups.iter().map(Group::rewards).filter(|rewards| rewards.len() > 1);
        let deviations: Vec<f64> = rewards.map(|rewards| deviation(&rewards, None)).collect();
        let length = |rollout: &&Rollout| rollout.completion.tokens.len() as f64;
        let lengths: Vec<f64> = all.iter().map(length).collect();
        let has_ended = |rollout: &&&Rollout| rollout.completion.finish == Finish::Stop;
        let ended: Vec<f64> = all.iter().filter(has_ended).map(length).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let share = |is_so: &dyn Fn(&Rollout) -> bool| {
            Some(all.iter().filter(|rollout| is_so(rollout)).count() as f64 / all.len() as f64)
        };
        let zero_std = deviations.iter().filter(|deviation| **deviation == 0.0).count();
        Self {
            reward: Some(
                all.iter().map(|rollout| rollout.reward()).sum::<f64>() / all.len() as f64,
            ),
            reward_std: (!deviations.is_empty()).then(|| mean(&deviations)),
            rewards: rewarding.logged(groups),
            frac_reward_zero_std: Some(zero_std as f64 / groups.len() as f64),
            min_length: Some(lengths.iter().copied().fold(f64::INFINITY, f64::min)),
            max_length: Some(lengths.iter().copied().fold(0.0, f64::max)),
            mean_terminated_length: (!ended.is_empty()).then(|| mean(&ended)),
            mean_length: Some(mean(&lengths)),
            no_answer_ratio: share(&|rollout| {
                matches!(rollout.verdict, Verdict::NoAnswer | Verdict::Unparsable { .. })
            }),
            unnoticed_end: unnoticed_end(&all),
            clipped_ratio: share(&|rollout| rollout.completion.finish == Finish::Length),
            ..Self::default()
        }
    }
}

/// The end of turn after which most of the truncated completions went on.
fn unnoticed_end(rollouts: &[&Rollout]) -> Option<&'static str> {
    let is_truncated = |rollout: &&&Rollout| rollout.completion.finish == Finish::Length;
    let truncated: Vec<_> = rollouts.iter().filter(is_truncated).collect();
    let ends: Vec<_> = truncated.iter().filter_map(|rollout| end_of_turn(&rollout.text)).collect();
    ends.first().copied().filter(|_| 2 * ends.len() > truncated.len())
}
