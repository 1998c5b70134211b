//! Judged samples of the policy to advantages: the number that each completion's log-probability is
//! multiplied by.
//!
//! Either what a completion is worth (its reward, or the pseudo-reward of a target) minus a [`super::Baseline`], or a
//! [`super::Rule`] over the group; then minus the cost of being far from the base.

use anyhow::Result;

use super::Offsets;
use super::baseline::{BatchMoments, centred, less_the_others};
use super::group_stats::GroupStats;
use super::plan::{Anchor, Estimator, Matching, Partition, Plan, SampleSource};

/// Replaces a Z that was estimated as exactly 0 (alpha-DPG's default).
const NO_PARTITION: f64 = 1e-4;

/// The normaliser Z that an estimate from the policy's samples gives: at most 1, and replaced only where it is
/// exactly 0, as alpha-DPG's repository does. A small estimate stays what it is: a floor would turn the pseudo-reward
/// of a prompt's one correct sample from G - 1 to about -1.
pub fn partition_of(estimate: f64) -> f64 {
    if estimate == 0.0 { NO_PARTITION } else { estimate.min(1.0) }
}

/// Advantages of the groups of a step, in their order. Standard deviations are sample ones (divided by
/// G - 1); a group whose worths are all equal gets exact zeros from every baseline that is the group's own.
///
/// # Errors
/// A function of the user's that fails on a group.
pub fn advantages(plan: &Plan, groups: &[GroupStats]) -> Result<Vec<Vec<f64>>> {
    let worths: Vec<Vec<f64>> = groups
        .iter()
        .map(|stats| match &plan.anchor {
            Anchor::Target(matching) => pseudo_rewards(matching, stats),
            Anchor::None | Anchor::Base(_) => stats.rewards.clone(),
        })
        .collect();
    let masses = groups.iter().map(|stats| stats.mass.as_deref());
    // Moments of the whole batch, which `batch` and `batch-std` divide by; no other baseline looks outside its group.
    let batch = BatchMoments::new(worths.iter().map(Vec::as_slice).zip(masses));
    groups
        .iter()
        .zip(worths)
        .map(|(stats, worths)| {
            let mut advantages = match &plan.rule {
                None => centred(plan.baseline, &worths, &batch, stats),
                Some(rule) => rule.advantages(stats)?,
            };
            if let Anchor::Base(regulariser) = &plan.anchor
                && regulariser.estimator == Estimator::Score
            {
                // grad D_f(pi || a) = E_pi[f'(pi / a) grad log pi]; for reverse KL f' is log pi - log a (k1). After the
                // baseline, so that no standard deviation divides it.
                let cost = |(pi, a): (&f64, &f64)| regulariser.divergence.f_prime(pi - a);
                let costs: Vec<f64> =
                    stats.behavior_logp.iter().zip(&stats.base_logp).map(cost).collect();
                let costs = less_the_others(&costs, stats.mass.as_deref());
                for (advantage, cost) in advantages.iter_mut().zip(costs) {
                    *advantage -= stats.beta * cost;
                }
            }
            Ok(advantages)
        })
        .collect()
}

/// `-f'(pi / p)` of every sample, scaled so that a sample outside the target's support gets -1
/// (alpha-DPG's own scale).
fn pseudo_rewards(matching: &Matching, stats: &GroupStats) -> Vec<f64> {
    (0..stats.rewards.len()).map(|i| pseudo_reward(matching, stats, i).0).collect()
}

/// The pseudo-reward of sample `i`, and whether it was cut.
///
/// With a fixed Z the cut is of `(a / pi)^power`, Z's own power taken out: at the base nothing is cut
/// however hard the prompt, and what is cut later is what the policy has lost. With the group's own Z the
/// cut is the paper's, of the pseudo-reward itself; there it acts at G samples of power 1.
fn pseudo_reward(matching: &Matching, stats: &GroupStats, i: usize) -> (f64, bool) {
    debug_assert_eq!(matching.sampler, SampleSource::Policy);
    let limit = matching.divergence.at_infinity();
    // Over f'(inf), incorrect completions have -1 under every divergence.
    let scale = if limit.is_finite() { 1.0 / limit } else { 1.0 };
    let weight =
        matching.target.log_weight(stats.classes[i].is_some(), stats.solve_rate, stats.beta);
    // Never log 0: what the target cannot produce costs the analytic limit.
    if weight == f64::NEG_INFINITY {
        return (-scale * limit, false);
    }
    let log_ratio = stats.behavior_logp[i] - stats.base_logp[i];
    let most = matching.max_reward;
    match matching.divergence.power().filter(|_| matching.partition == Partition::Fixed) {
        Some(power) => {
            // (p / pi)^power - 1 with p = e^weight a; e^weight is the prompt's constant 1 / Z.
            let growth = (-power * log_ratio).exp();
            ((power * weight).exp() * growth.min(most) - 1.0, growth > most)
        }
        None => {
            let worth = -scale * matching.divergence.f_prime(log_ratio - weight);
            (worth.min(most), worth > most)
        }
    }
}

/// Share of the correct samples whose pseudo-reward is clipped at the target's `max_reward`.
pub fn clipped_reward_ratio(matching: &Matching, groups: &[GroupStats]) -> f64 {
    let right = |stats: &GroupStats| -> Vec<bool> {
        let right = (0..stats.rewards.len()).filter(|i| stats.classes[*i].is_some());
        right.map(|i| pseudo_reward(matching, stats, i).1).collect()
    };
    let all: Vec<bool> = groups.iter().flat_map(right).collect();
    all.iter().filter(|is_cut| **is_cut).count() as f64 / all.len().max(1) as f64
}

/// Subtracts from each token's advantage `beta` times the cost of the positions after it, less the mean
/// of the same over the group's other samples. `values` hold the cost of each position; with its own
/// gradient in the loss, this makes the sum over positions an exact objective of whole completions.
pub fn subtract_penalty_to_go(
    offsets: &Offsets,
    values: &[f64],
    beta: f64,
    advantage: &mut [f64],
    mass: Option<&[f64]>,
) {
    let after = |row: &[f64]| -> Vec<f64> {
        // Suffix sums without the position's own cost: sum_{s > t} cost_s.
        let mut left: f64 = row.iter().sum();
        row.iter()
            .map(|value| {
                left -= value;
                left
            })
            .collect()
    };
    // An early token also decides which prefixes later costs are paid at: E[sum_t grad log pi_t sum_{s > t} cost_s].
    let later: Vec<Vec<f64>> = offsets.split(values).map(after).collect();
    let longest = later.iter().map(Vec::len).max().unwrap_or(0);
    for token in 0..longest {
        // The baseline at a position is the mean of the others at it; ended completions have no cost left.
        let at: Vec<f64> = later.iter().map(|row| row.get(token).copied().unwrap_or(0.0)).collect();
        for (row, cost) in less_the_others(&at, mass).into_iter().enumerate() {
            let span = offsets.span(row..row + 1);
            if let Some(advantage) = advantage[span].get_mut(token) {
                *advantage -= beta * cost;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Objective;

    fn stats(rewards: &[f64]) -> GroupStats {
        GroupStats {
            rewards: rewards.to_vec(),
            classes: rewards.iter().map(|reward| (*reward > 0.5).then_some(0)).collect(),
            behavior_logp: (0..rewards.len()).map(|i| -1.0 - 0.5 * i as f64).collect(),
            base_logp: vec![-2.0; rewards.len()],
            lengths: vec![1; rewards.len()],
            solve_rate: 0.25,
            beta: 0.05,
            greedy: None,
            ..GroupStats::default()
        }
    }

    fn plan(text: &str) -> Plan {
        text.parse::<Objective>().unwrap().plan
    }

    #[test]
    fn baselines_match_their_papers() {
        let groups = [stats(&[1.0, 0.0, 0.0, 0.0]), stats(&[1.0; 4])];
        let with_baseline = |baseline: &str| {
            advantages(&plan(&format!("rloo:baseline={baseline}")), &groups).unwrap()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} is not {b}");
        close(with_baseline("group-mean")[0][0], 0.75);
        close(with_baseline("loo")[0][0], 1.0);
        close(with_baseline("loo")[0][1], -1.0 / 3.0);
        close(with_baseline("group-std")[0][0], 1.5);
        assert_eq!(with_baseline("none")[0], [1.0, 0.0, 0.0, 0.0]);
        for kind in ["group-std", "batch-std", "loo", "group-mean"] {
            assert_eq!(with_baseline(kind)[1], [0.0; 4]);
        }
    }

    #[test]
    fn a_group_of_equal_rewards_feels_the_divergence_at_its_true_size() {
        let advantages = advantages(&plan("kl-reward:0.05"), &[stats(&[1.0; 4])]).unwrap();
        // Log-ratios 1, 0.5, 0, -0.5 less the mean of the others.
        let exact = [1.0, 1.0 / 3.0, -1.0 / 3.0, -1.0].map(|cost| -0.05 * cost);
        for (ours, exact) in advantages[0].iter().zip(exact) {
            assert!((ours - exact).abs() < 1e-12, "{ours} {exact}");
        }
    }

    #[test]
    fn alpha_dpg_pseudo_reward_equals_the_papers() {
        let group = stats(&[1.0, 0.0, 1.0]);
        for alpha in [0.0, 0.5, 0.9] {
            let text = format!("alpha-dpg:{alpha}:baseline=none");
            let ours = advantages(&plan(&text), std::slice::from_ref(&group)).unwrap().remove(0);
            let ratio = |i: usize| ((-2.0 - group.behavior_logp[i]).exp() / 0.25).powf(1.0 - alpha);
            assert_eq!(ours[1], -1.0);
            for i in [0, 2] {
                let exact = ratio(i) - 1.0;
                assert!((ours[i] - exact).abs() < 1e-12, "{alpha}: {} {exact}", ours[i]);
            }
        }
    }

    #[test]
    fn hard_prompts_are_not_cut_at_the_base() {
        // At the base, on a prompt that is solved once in a hundred tries.
        let at_base = |validity: f64| GroupStats {
            behavior_logp: vec![-2.0; 3],
            solve_rate: validity,
            ..stats(&[1.0, 0.0, 1.0])
        };
        let evaluate = |text: &str, stats: &GroupStats| {
            let plan = plan(text);
            let cut = clipped_reward_ratio(plan.matching().unwrap(), std::slice::from_ref(stats));
            (advantages(&plan, std::slice::from_ref(stats)).unwrap()[0][0], cut)
        };
        let (ours, cut) = evaluate("alpha-dpg:0:baseline=none", &at_base(0.01));
        assert!((ours - 99.0).abs() < 1e-9 && cut == 0.0, "{ours} {cut}");
        // The paper's, with the group's own Z, cuts the pseudo-reward itself.
        assert_eq!(
            evaluate("alpha-dpg:0:baseline=none:partition=online", &at_base(0.01)),
            (10.0, 1.0)
        );
        // A sample that lost a factor of e^5 under the policy has its ratio cut at 10, times the worth of its prompt.
        let lost = GroupStats { behavior_logp: vec![-7.0; 3], ..at_base(0.5) };
        assert_eq!(evaluate("alpha-dpg:0:baseline=none", &lost), (19.0, 1.0));
    }

    #[test]
    fn an_online_partition_is_replaced_only_where_it_is_zero() {
        // One of four is correct, of which the policy has made much more than the base: Z is 6e-6 / 4.
        let mut group = GroupStats {
            behavior_logp: vec![-2.0; 4],
            base_logp: vec![-2.0 + 6e-6_f64.ln(); 4],
            ..stats(&[1.0, 0.0, 0.0, 0.0])
        };
        group.solve_rate = partition_of(group.online_solve_rate());
        let plan = plan("alpha-dpg:0:baseline=none:partition=online");
        let ours = advantages(&plan, std::slice::from_ref(&group)).unwrap()[0][0];
        assert!((ours - 3.0).abs() < 1e-9, "{ours}: G - 1, and -.94 with a floor of 1e-4");
        assert_eq!((partition_of(0.0), partition_of(1.7)), (1e-4, 1.0));
    }

    #[test]
    fn whitening_and_averaging_over_valid_groups_are_of_the_batch() {
        let groups = [stats(&[1.0, 0.0, 0.0, 0.0]), stats(&[1.0; 4])];
        let with_baseline = |baseline: &str| {
            advantages(&plan(&format!("rloo:baseline={baseline}")), &groups).unwrap()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} is not {b}");
        // Five of eight are correct: mean .625, sample deviation .5175.
        let white = with_baseline("batch");
        close(white[0][0], 0.375 / 0.517_549);
        close(white[0][1], -0.625 / 0.517_549);
        close(white[1][3], 0.375 / 0.517_549);
        let all = white.concat();
        close(all.iter().sum(), 0.0);
        close(all.iter().map(|x| x * x).sum::<f64>() / 7.0, 1.0);
        // One group of two differs: twice the weight, and nothing for the other.
        let valid = with_baseline("valid-mean");
        assert_eq!((valid[0][0], valid[0][1], valid[1][0]), (1.5, -0.5, 0.0));
        let even = advantages(&plan("rloo:baseline=batch"), &groups[1..]).unwrap();
        assert_eq!(even[0], [0.0; 4]);
        let greedy = GroupStats { greedy: Some(1.0), ..groups[0].clone() };
        let remax = advantages(&plan("remax"), &[greedy]).unwrap();
        assert_eq!(remax[0], [0.0, -1.0, -1.0, -1.0]);
    }
}
