//! A run's memory of its problems from step to step: how often each was solved, how often each final answer was given,
//! and estimates of Z. The state of the run holds it, so that a resumed run has it too.
//!
//! Answers are counted by the first eight bytes of their SHA-256, so that a model's text is never stored.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::run::Run;
use crate::objective::{Gate, GroupStats, Matching, Partition, SampleSource, partition_of};
use crate::rollout::Group;
use crate::train::checkpoint::State;

/// How often each final answer was seen, by problem id.
type Seen = BTreeMap<String, Vec<(u64, u64)>>;

/// Most answers that are counted in a run; those that come later stay new. A checkpoint holds them all.
const MOST: usize = 1 << 20;

/// Adds to the statistics of groups what the plan reads of the steps before.
pub(super) fn recall(run: &Run<'_>, groups: &[Group], stats: &mut [GroupStats], state: &mut State) {
    let ids = groups.iter().map(|group| run.id(group.problem));
    if let Some(matching) = run.plan.matching() {
        estimate_partition(matching, ids.clone(), stats, &mut state.partition);
    }
    if run.plan.rule.reads_outcomes() {
        recall_answers(groups, ids.clone(), stats, &mut state.seen);
    }
    if run.plan.gate != Gate::All {
        for (id, stats) in ids.zip(stats) {
            stats.earlier = state.prompt_trials.total(id);
        }
    }
}

/// Numbers the final answers of every group, notes how often the run had seen them before the step, and counts them.
fn recall_answers<'a>(
    groups: &[Group],
    ids: impl Iterator<Item = &'a str> + Clone,
    stats: &mut [GroupStats],
    seen: &mut Seen,
) {
    let answers = |group: &Group| -> Vec<Option<u64>> {
        group.rollouts.iter().map(|rollout| rollout.outcome().map(key)).collect()
    };
    // All are looked up before any is counted: a step's samples are not each other's past.
    for ((group, id), stats) in groups.iter().zip(ids.clone()).zip(stats.iter_mut()) {
        let (answers, known) = (answers(group), seen.get(id));
        let first = |answer: &Option<u64>| {
            answer.and_then(|_| answers.iter().position(|other| other == answer))
        };
        let count = |answer: &Option<u64>| {
            let known = known.into_iter().flatten().find(|(key, _)| Some(*key) == *answer);
            known.map_or(0, |(_, count)| *count)
        };
        stats.outcomes = answers.iter().map(first).collect();
        stats.seen = answers.iter().map(count).collect();
    }
    let mut size: usize = seen.values().map(Vec::len).sum();
    for (group, id) in groups.iter().zip(ids) {
        let known = seen.entry(id.to_owned()).or_default();
        for answer in answers(group).into_iter().flatten() {
            match known.iter_mut().find(|(key, _)| *key == answer) {
                Some((_, count)) => *count += 1,
                None if size < MOST => {
                    known.push((answer, 1));
                    size += 1;
                }
                None => {}
            }
        }
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

fn key(answer: &str) -> u64 {
    let mut first = [0; 8];
    first.copy_from_slice(&Sha256::digest(answer.as_bytes())[..8]);
    u64::from_be_bytes(first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Objective;
    use crate::rollout::Rollout;
    use tealight_datasets::Verdict;
    use tealight_nn::generate::{Completion, Finish};

    fn rollout(verdict: Verdict, finish: Finish) -> Rollout {
        let completion = Completion { tokens: vec![1], logp: vec![-1.0], finish };
        let granted = f64::from(verdict.is_correct());
        let (text, truncated) = Default::default();
        Rollout { completion, text, verdict, granted, parts: vec![], truncated }
    }

    fn wrong(answer: &str) -> Verdict {
        Verdict::Wrong { why: None, answer: Some(answer.to_owned()) }
    }

    #[test]
    fn answers_are_counted_over_steps_and_within_none() {
        let group = Group {
            problem: 0,
            rollouts: vec![
                rollout(wrong("7"), Finish::Stop),
                rollout(Verdict::correct("1+2", "3"), Finish::Stop),
                rollout(wrong("7"), Finish::Stop),
                rollout(Verdict::NoAnswer, Finish::Stop),
                // One that was cut off has given no answer.
                rollout(wrong("7"), Finish::Length),
            ],
            greedy: None,
        };
        let mut seen = Seen::new();
        let mut step = |id: &'static str| {
            let mut stats = [GroupStats::default()];
            recall_answers(std::slice::from_ref(&group), [id].into_iter(), &mut stats, &mut seen);
            let [stats] = stats;
            (stats.outcomes, stats.seen)
        };
        let outcomes = vec![Some(0), Some(1), Some(0), None, None];
        assert_eq!(step("a"), (outcomes.clone(), vec![0; 5]));
        assert_eq!(step("a"), (outcomes.clone(), vec![2, 1, 2, 0, 0]));
        assert_eq!(step("b"), (outcomes, vec![0; 5]));
        assert_eq!(seen["a"].iter().map(|(_, count)| *count).collect::<Vec<_>>(), [4, 2]);
        let text = serde_json::to_string(&seen).unwrap();
        assert_eq!(serde_json::from_str::<Seen>(&text).unwrap(), seen);
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
