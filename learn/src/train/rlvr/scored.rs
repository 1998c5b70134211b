//! Judged groups to scored groups: the log-probabilities of their completions under policy and base, and the statistics
//! that advantages are functions of.

use std::ops::Range;

use anyhow::{Result, bail};

use super::history;
use super::metrics::Metrics;
use super::run::Run;
use super::scorer::{BaseScores, log_ratios, sum};
use super::settings::LogKl;
use crate::objective::{Estimator, GroupStats, ImportanceWeights, Mismatch, Offsets};
use crate::rollout::Group;
use crate::train::checkpoint::State;
use crate::train::micro_batches::micro_batches;
use tealight_nn::generate::Finish;
use tealight_nn::policy::Sequence;

/// Mean difference of log-probabilities, in nats, at which an engine evidently samples from another model.
const ENGINE_APART: f64 = 0.1;

/// The completions of a step, group by group, with their scores as flat columns.
pub(super) struct ScoredGroups {
    pub(super) sequences: Vec<Sequence>,
    pub(super) offsets: Offsets,
    /// The completions of each group.
    pub(super) groups: Vec<Range<usize>>,
    /// One entry a group: its coefficient is the step's.
    pub(super) stats: Vec<GroupStats>,
    /// Whether each completion counts in the loss.
    pub(super) counts: Vec<bool>,
    /// Log-probabilities under the policy before the step; under the sampler where `importance` is deferred.
    pub(super) behavior_logp: Vec<f32>,
    /// Scores under the base, where the objective reads them or the log has all.
    pub(super) base: Option<BaseScores>,
    /// Importance weights of tokens that another model sampled.
    pub(super) importance: Column,
    /// The regulariser's cost at every position, which enters advantages of earlier tokens.
    pub(super) costs: Column,
}

/// A column that some objectives read, one number a token.
pub(super) enum Column {
    /// Nothing reads it.
    Unread,
    /// Computed by a pass of its own before the step.
    Scored(Vec<f64>),
    /// Left to the training pass over each completion.
    Deferred,
}

impl Column {
    /// The numbers, where they are known before the training pass.
    pub(super) fn scored(&self) -> Option<&[f64]> {
        match self {
            Self::Scored(column) => Some(column),
            Self::Unread | Self::Deferred => None,
        }
    }

    /// Whether the training pass computes it.
    pub(super) fn is_deferred(&self) -> bool {
        matches!(self, Self::Deferred)
    }
}

/// Scores the groups of a step.
pub(super) fn score(
    run: &Run<'_>,
    groups: &[Group],
    state: &mut State,
    metrics: &mut Metrics,
) -> Result<ScoredGroups> {
    let (plan, scorer, step) = (run.plan, run.scorer(), state.global_step);
    let rollouts = || groups.iter().flat_map(|group| &group.rollouts);
    let sequences = sequences(run, groups);
    let offsets = Offsets::new(sequences.iter().map(|row| row.completion.len()));
    let ranges = ranges(groups);
    let deferral = Deferral::new(run, step, &sequences, &ranges);
    let sampler_logp: Vec<f32> =
        rollouts().flat_map(|rollout| &rollout.completion.logp).copied().collect();
    let (behavior_logp, importance) = match run.sampling.correction {
        None => (sampler_logp, Column::Unread),
        Some(_) if deferral.importance => (sampler_logp, Column::Deferred),
        Some(correction) => {
            let policy_logp = scorer.policy_logp(&sequences)?;
            let ratios = log_ratios(&policy_logp, &sampler_logp);
            let ImportanceWeights { factor, counts } = correction.weigh(&offsets, &ratios);
            let mismatch = Mismatch::new(&offsets, &ratios, &counts);
            check_engine(run, &mismatch, step)?;
            metrics.mismatch = Some(mismatch);
            // Three policies: the sampler b, pi before the step, pi now. pi / b is in the weights, so that the ratio
            // of the loss is pi now / pi before and begins at 1.
            (policy_logp, Column::Scored(factor))
        }
    };
    let base = base_scores(run, &sequences)?;
    let base_logp = base.as_ref().map(|base| base.logp.as_slice());
    let mut stats = stats(run, groups, &offsets, (&behavior_logp, base_logp), step);
    history::recall(run, groups, &mut stats, state);
    let costs = match plan.penalty_to_go() {
        None => Column::Unread,
        Some(_) if deferral.costs => Column::Deferred,
        // K2: the log-ratio, one sample's estimate of the token's reverse KL; otherwise the divergence of whole
        // distributions.
        Some(regulariser) => Column::Scored(match (regulariser.estimator, &base) {
            (Estimator::K2, Some(base)) => log_ratios(&behavior_logp, &base.logp),
            _ => scorer.divergences(plan, &sequences, base.as_ref())?,
        }),
    };
    let masks = run.plan.mask_truncated;
    let counts = rollouts().map(|r| !(masks && r.completion.finish == Finish::Length)).collect();
    Ok(ScoredGroups {
        groups: ranges,
        sequences,
        offsets,
        stats,
        counts,
        behavior_logp,
        base,
        importance,
        costs,
    })
}

/// Which columns of a step are left to the training pass. Where each completion passes through the model once, as it
/// was sampled, that pass computes what a pass of its own would: a tenth to a fifth of a step of `kl-full` is saved.
#[derive(Default)]
struct Deferral {
    importance: bool,
    costs: bool,
}

impl Deferral {
    /// Of a step with these completions and groups. Importance weights of the first step are not deferred:
    /// [`check_engine`] reads them before anything is trained on.
    fn new(run: &Run<'_>, step: usize, sequences: &[Sequence], groups: &[Range<usize>]) -> Self {
        let plan = run.plan;
        let has_dropout = run.config.settings.lora.lora_dropout > 0.0;
        if plan.updates() > 1 || run.ranks.size() > 1 || has_dropout {
            return Self::default();
        }
        // The baseline of the penalty-to-go is the mean of the group's others, which must be in the same pass.
        let is_in_one_pass = |passes: &[Range<usize>], group: &Range<usize>| {
            passes.iter().any(|pass| pass.start <= group.start && group.end <= pass.end)
        };
        let is_summed_later =
            plan.penalty_to_go().is_some() && plan.vocabulary_regulariser().is_some();
        Self {
            importance: step > 0 && !run.logs_kl(step) && !plan.reads_policy_first(),
            costs: is_summed_later && {
                let passes = micro_batches(sequences, run.config.settings.micro_batch_tokens);
                groups.iter().all(|group| is_in_one_pass(&passes, group))
            },
        }
    }
}

fn sequences(run: &Run<'_>, groups: &[Group]) -> Vec<Sequence> {
    let group_sequences = |group: &Group| -> Vec<Sequence> {
        let prompt = &run.problems[group.problem].prompt;
        let completions = group.rollouts.iter().map(|rollout| rollout.completion.tokens.clone());
        completions.map(|completion| Sequence { prompt: prompt.clone(), completion }).collect()
    };
    groups.iter().flat_map(group_sequences).collect()
}

/// The completions of each group among all.
fn ranges(groups: &[Group]) -> Vec<Range<usize>> {
    let groups = Offsets::new(groups.iter().map(|group| group.rollouts.len()));
    (0..groups.completions()).map(|group| groups.span(group..group + 1)).collect()
}

/// Refuses an engine that samples from another model than the policy.
fn check_engine(run: &Run<'_>, mismatch: &Mismatch, step: usize) -> Result<()> {
    let is_apart = mismatch.mean.is_nan() || mismatch.mean > ENGINE_APART;
    if step == 0 && is_apart && run.sampling.engine.is_some() {
        bail!(
            "the engine's log-probabilities are {:.2} nats a token from the policy's own on average: it has other \
             weights, another temperature, or gives log-probabilities before the temperature (start vLLM with \
             --logprobs-mode processed_logprobs)",
            mismatch.mean
        );
    }
    Ok(())
}

/// The base's scores of a step's completions, where the objective reads them or the log has those of all.
fn base_scores(run: &Run<'_>, sequences: &[Sequence]) -> Result<Option<BaseScores>> {
    if !run.plan.needs_reference() && run.config.settings.log_kl != LogKl::All {
        return Ok(None);
    }
    let scorer = run.scorer();
    Ok(Some(match run.plan.vocabulary_regulariser() {
        Some(_) if run.ranks.size() == 1 => scorer.base_distributions(sequences)?,
        _ => BaseScores { logp: scorer.base_logp(sequences)?, distributions: None },
    }))
}

/// The statistics of every group, from the log-probabilities under policy and base.
fn stats(
    run: &Run<'_>,
    groups: &[Group],
    offsets: &Offsets,
    (behavior_logp, base_logp): (&[f32], Option<&[f32]>),
    step: usize,
) -> Vec<GroupStats> {
    let longest = run.config.settings.length();
    let shaped = |reward: f64, length: usize| {
        shaped_reward(reward, length, longest, run.plan.overlong_buffer)
    };
    let mut behavior_logp = offsets.split(behavior_logp).map(sum);
    let mut base_logp = base_logp.map(|logp| offsets.split(logp).map(sum));
    let group_stats = |group: &Group| {
        let count = group.rollouts.len();
        let lengths: Vec<usize> =
            group.rollouts.iter().map(|r| r.completion.tokens.len()).collect();
        GroupStats {
            classes: group.classes(),
            rewards: group.rewards().iter().zip(&lengths).map(|(r, n)| shaped(*r, *n)).collect(),
            behavior_logp: behavior_logp.by_ref().take(count).collect(),
            base_logp: match &mut base_logp {
                Some(logp) => logp.take(count).collect(),
                None => vec![0.0; count],
            },
            lengths,
            solve_rate: run.data.solve_rate.get(group.problem).copied().unwrap_or(1.0),
            beta: run.plan.beta(),
            greedy: group
                .greedy
                .as_ref()
                .map(|greedy| shaped(greedy.reward(), greedy.completion.tokens.len())),
            step,
            progress: run.progress(step),
            mass: None,
        }
    };
    groups.iter().map(group_stats).collect()
}

/// The reward of a completion with the overlong penalty (DAPO): it falls by 1 over the last `buffer` share of the
/// longest completion allowed.
fn shaped_reward(reward: f64, length: usize, longest: usize, buffer: f64) -> f64 {
    // min(0, -(length - (longest - buffer)) / buffer), DAPO's soft penalty with factor 1.
    let buffer_tokens = longest as f64 * buffer;
    let over = length as f64 - (longest as f64 - buffer_tokens);
    if buffer_tokens > 0.0 && over > 0.0 {
        reward - (over / buffer_tokens).min(1.0)
    } else {
        reward
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_overlong_penalty_falls_over_the_end_of_the_longest_completion() {
        assert_eq!(shaped_reward(1.0, 80, 100, 0.2), 1.0);
        assert_eq!(shaped_reward(1.0, 90, 100, 0.2), 0.5);
        assert_eq!(shaped_reward(0.0, 100, 100, 0.2), -1.0);
        assert_eq!(shaped_reward(1.0, 100, 100, 0.0), 1.0);
    }
}
