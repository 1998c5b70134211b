//! A run's memory of its prompts from step to step: estimates of Z. The state of the run holds it, so that a resumed
//! run has it too.

use std::collections::BTreeMap;

use super::run::Run;
use crate::objective::{GroupStats, Matching, Partition, SampleSource, partition_of};
use crate::rollout::Group;
use crate::train::checkpoint::State;

/// Adds to the statistics of groups what the plan reads of the steps before.
pub(super) fn recall(run: &Run<'_>, groups: &[Group], stats: &mut [GroupStats], state: &mut State) {
    let ids = groups.iter().map(|group| run.id(group.problem));
    if let Some(matching) = run.plan.matching() {
        estimate_partition(matching, ids, stats, &mut state.partition);
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
    fn a_cumulative_partition_is_the_mean_over_all_groups_of_a_prompt() {
        let plan = |text: &str| text.parse::<Objective>().unwrap().plan;
        let stats = |correct: usize| GroupStats {
            rewards: vec![0.0; 4],
            classes: (0..4).map(|i| (i < correct).then_some(i)).collect(),
            behavior_logp: vec![-1.0; 4],
            base_logp: vec![-1.0; 4],
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
