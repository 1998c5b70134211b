//! Judged groups to scored groups: the log-probabilities of their completions under policy and base, and the statistics
//! that advantages are functions of.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Result, bail};

use super::deferred::Deferral;
use super::history;
use super::kl;
use super::metrics::Metrics;
use super::pstar::{self, LoggedColumns};
use super::run::Run;
use super::scorer::{BaseScores, log_ratios, sum};
use crate::objective::{
    Estimator, Gate, GroupStats, ImportanceWeights, Matching, Mismatch, Offsets, Partition,
    SampleSource, clipped_reward_ratio, partition_of,
};
use crate::rollout::Group;
use crate::train::checkpoint::State;
use tealight_nn::generate::Finish;
use tealight_nn::policy::{Distributions, Sequence};

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
    /// Log-probabilities under the policy before the step; under the sampler where the correction is deferred.
    pub(super) behavior_logp: Vec<f32>,
    /// Log-probabilities under the base, where the objective reads them.
    pub(super) base_logp: Option<Vec<f32>>,
    /// The base's distributions, where the loss compares with them and this rank has them all.
    pub(super) base: Option<Vec<Distributions>>,
    /// Importance weights of the tokens, where another model sampled.
    pub(super) importance: Option<Vec<f64>>,
    /// The regulariser's cost at every position, where it enters advantages of earlier tokens.
    pub(super) costs: Option<Vec<f64>>,
    /// Entropies, where SimKO reads them.
    pub(super) entropy: Option<Vec<f64>>,
    /// The columns that the pass over a completion computes instead.
    pub(super) deferral: Deferral,
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
    let mut behavior_logp: Vec<f32> =
        rollouts().flat_map(|rollout| &rollout.completion.logp).copied().collect();
    let importance = match deferral.importance {
        true => None,
        false => correct(run, &sequences, &offsets, &mut behavior_logp, step, metrics)?,
    };
    let base = kl::compare_with_base(run, &sequences, &offsets, &behavior_logp, step, metrics)?;
    let (base_logp, base) = match base {
        Some(BaseScores { logp, distributions }) => (Some(logp), distributions),
        None => (None, None),
    };
    if pstar::logs_divergences(run, step) {
        let columns = LoggedColumns {
            sequences: &sequences,
            offsets: &offsets,
            policy_logp: &behavior_logp,
            base_logp: base_logp.as_deref(),
        };
        metrics.pstar = Some(pstar::distances(run, groups, &columns)?);
    }
    let mut stats = stats(run, groups, &offsets, (&behavior_logp, base_logp.as_deref()), step);
    if let Some(matching) = plan.matching() {
        let ids = groups.iter().map(|group| run.problems[group.problem].problem.id.as_str());
        estimate_partition(matching, ids, &mut stats, &mut state.partition);
        metrics.max_reward_ratio = Some(clipped_reward_ratio(matching, &stats));
    }
    recall(run, groups, &mut stats, state);
    let costs = match plan.penalty_to_go().filter(|_| !deferral.costs) {
        None => None,
        // K2: the log-ratio, one sample's estimate of the token's reverse KL; otherwise the divergence of whole
        // distributions.
        Some(regulariser) => Some(match (regulariser.estimator, &base_logp) {
            (Estimator::K2, Some(base_logp)) => log_ratios(&behavior_logp, base_logp),
            _ => scorer.divergences(plan, &sequences, base.as_deref())?,
        }),
    };
    let entropy = match plan.simko.filter(|_| !deferral.entropy) {
        None => None,
        Some(_) => Some(scorer.entropies(&sequences)?),
    };
    let masks = run.config.settings.mask_truncated_completions;
    let counts = rollouts().map(|r| !(masks && r.completion.finish == Finish::Length)).collect();
    Ok(ScoredGroups {
        groups: ranges,
        sequences,
        offsets,
        stats,
        counts,
        behavior_logp,
        base_logp,
        base,
        importance,
        costs,
        entropy,
        deferral,
    })
}

/// Adds what the run has seen of every prompt in earlier steps, where the plan reads it.
fn recall(run: &Run<'_>, groups: &[Group], stats: &mut [GroupStats], state: &mut State) {
    if run.plan.rule.reads_outcomes() {
        let ids = groups.iter().map(|group| run.id(group.problem));
        history::recall_answers(groups, ids, stats, &mut state.seen);
    }
    if run.plan.gate != Gate::All {
        for (group, stats) in groups.iter().zip(stats) {
            stats.earlier = state.prompt_trials.total(run.id(group.problem));
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

/// Importance weights of tokens that another model sampled; none where the policy did. Replaces the log-probabilities
/// of that model in `behavior_logp` by the policy's.
fn correct(
    run: &Run<'_>,
    sequences: &[Sequence],
    offsets: &Offsets,
    behavior_logp: &mut Vec<f32>,
    step: usize,
    metrics: &mut Metrics,
) -> Result<Option<Vec<f64>>> {
    let Some(correction) = run.correction else { return Ok(None) };
    let policy_logp = run.scorer().policy_logp(sequences)?;
    let ratios = log_ratios(&policy_logp, behavior_logp);
    let ImportanceWeights { factor, counts } = correction.weigh(offsets, &ratios);
    let mismatch = Mismatch::new(offsets, &ratios, &counts);
    let is_apart = mismatch.mean.is_nan() || mismatch.mean > ENGINE_APART;
    if step == 0 && is_apart && run.engine.is_some() {
        bail!(
            "the engine's log-probabilities are {:.2} nats a token from the policy's own on average: it has other \
             weights, another temperature, or gives log-probabilities before the temperature (start vLLM with \
             --logprobs-mode processed_logprobs)",
            mismatch.mean
        );
    }
    metrics.mismatch = Some(mismatch);
    // Three policies: the sampler b, pi before the step, pi now. pi / b is in the weights, so that the ratio of the
    // loss is pi now / pi before and begins at 1.
    *behavior_logp = policy_logp;
    Ok(Some(factor))
}

/// The statistics of every group, from the log-probabilities under policy and base.
fn stats(
    run: &Run<'_>,
    groups: &[Group],
    offsets: &Offsets,
    (policy_logp, base_logp): (&[f32], Option<&[f32]>),
    step: usize,
) -> Vec<GroupStats> {
    let longest = run.config.settings.length();
    let shaped = |reward: f64, length: usize| {
        shaped_reward(reward, length, longest, run.plan.overlong_buffer)
    };
    let mut policy_logp = offsets.split(policy_logp).map(sum);
    let mut base_logp = base_logp.map(|logp| offsets.split(logp).map(sum));
    let group_stats = |group: &Group| {
        let count = group.rollouts.len();
        let lengths: Vec<usize> =
            group.rollouts.iter().map(|r| r.completion.tokens.len()).collect();
        GroupStats {
            classes: group.classes(),
            rewards: group.rewards().iter().zip(&lengths).map(|(r, n)| shaped(*r, *n)).collect(),
            policy_logp: policy_logp.by_ref().take(count).collect(),
            reference_logp: match &mut base_logp {
                Some(logp) => logp.take(count).collect(),
                None => vec![0.0; count],
            },
            lengths,
            solve_rate: run.data.solve_rate.get(group.problem).copied().unwrap_or(1.0),
            beta: run.beta(group.problem, step),
            greedy: group
                .greedy
                .as_ref()
                .map(|greedy| shaped(greedy.reward(), greedy.completion.tokens.len())),
            earlier: (0, 0),
            outcomes: Vec::new(),
            seen: Vec::new(),
            total: run.problems[group.problem].problem.total,
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

/// Replaces the stored solve rate by importance sampling from the groups, where the target asks. `sums` has the sum of
/// the estimates of a prompt and their number.
fn estimate_partition<'a>(
    matching: &Matching,
    ids: impl Iterator<Item = &'a str>,
    stats: &mut [GroupStats],
    sums: &mut BTreeMap<String, (f64, usize)>,
) {
    if matching.partition == Partition::Fixed || matching.sampler != SampleSource::Policy {
        return;
    }
    for (id, stats) in ids.zip(stats) {
        // The group's own Z makes p* / pi self-normalised, at most G: with few samples it seeks few answers.
        let online = stats.online_solve_rate();
        stats.solve_rate = partition_of(match matching.partition {
            Partition::Cumulative => {
                let (sum, count) = sums.entry(id.to_owned()).or_default();
                *sum += online;
                *count += 1;
                *sum / *count as f64
            }
            Partition::Online | Partition::Fixed => online,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Objective;

    #[test]
    fn the_overlong_penalty_falls_over_the_end_of_the_longest_completion() {
        assert_eq!(shaped_reward(1.0, 80, 100, 0.2), 1.0);
        assert_eq!(shaped_reward(1.0, 90, 100, 0.2), 0.5);
        assert_eq!(shaped_reward(0.0, 100, 100, 0.2), -1.0);
        assert_eq!(shaped_reward(1.0, 100, 100, 0.0), 1.0);
    }

    #[test]
    fn a_cumulative_partition_is_the_mean_over_all_groups_of_a_prompt() {
        let plan = |text: &str| text.parse::<Objective>().unwrap().plan;
        let stats = |correct: usize| GroupStats {
            rewards: vec![0.0; 4],
            classes: (0..4).map(|i| (i < correct).then_some(i)).collect(),
            policy_logp: vec![-1.0; 4],
            reference_logp: vec![-1.0; 4],
            lengths: vec![1; 4],
            solve_rate: 0.9,
            beta: 0.0,
            ..GroupStats::default()
        };
        let mut sums = BTreeMap::new();
        let mut estimate = |text: &str, correct: usize| {
            let (plan, mut stats) = (plan(text), [stats(correct)]);
            estimate_partition(plan.matching().unwrap(), ["a"].into_iter(), &mut stats, &mut sums);
            stats[0].solve_rate
        };
        assert_eq!(estimate("alpha-dpg:0", 2), 0.9, "fixed");
        assert_eq!(estimate("alpha-dpg:0:partition=online", 1), 0.25);
        assert_eq!(estimate("alpha-dpg:0:partition=cumulative", 1), 0.25);
        assert_eq!(estimate("alpha-dpg:0:partition=cumulative", 3), 0.5);
    }
}
