//! Rewards of a group to advantages: how much better a sample is than its siblings.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::Divergence;

/// What is subtracted from a reward and what the rest is divided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Advantage {
    /// Minus the group's mean, over the group's standard deviation (GRPO, arXiv 2402.03300).
    GroupStd,
    /// Minus the group's mean, over the standard deviation of the whole batch (REINFORCE++ style).
    BatchStd,
    /// Minus the group's mean (Dr. GRPO, arXiv 2503.20783).
    GroupMean,
    /// Minus the mean of the other samples (RLOO, arXiv 2402.14740): unbiased.
    LeaveOneOut,
}

/// Added to a standard deviation before it divides, as the field does.
const EPSILON: f64 = 1e-6;

/// Advantages of groups of rewards, in their order. A group whose rewards are all equal gets exact
/// zeros. Standard deviations are sample ones (divided by G - 1).
pub fn advantages(kind: Advantage, groups: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let all: Vec<f64> = groups.iter().flatten().copied().collect();
    groups.iter().map(|group| group_advantages(kind, group, &all)).collect()
}

fn group_advantages(kind: Advantage, group: &[f64], all: &[f64]) -> Vec<f64> {
    if group.iter().all(|reward| *reward == group[0]) {
        return vec![0.0; group.len()];
    }
    let centre = mean(group);
    let count = group.len() as f64;
    let scale = match kind {
        Advantage::GroupStd => 1.0 / (deviation(group) + EPSILON),
        Advantage::BatchStd => 1.0 / (deviation(all) + EPSILON),
        Advantage::GroupMean => 1.0,
        // r - mean of the others = (r - mean of all) G / (G - 1).
        Advantage::LeaveOneOut => count / (count - 1.0),
    };
    group.iter().map(|reward| (reward - centre) * scale).collect()
}

/// Subtracts the cost of being far from the base from the advantages of one group.
///
/// `log_ratio` is `log(pi(y) / a(y))` of each whole completion. The cost is `coefficient f'(u)`,
/// minus the mean cost of the other samples, which leaves the gradient unbiased. It is applied after
/// the rewards were normalised, so that a group of equal rewards does not blow it up.
pub fn penalise(
    advantages: &mut [f64],
    divergence: Divergence,
    coefficient: f64,
    log_ratio: &[f64],
) {
    let costs: Vec<f64> = log_ratio.iter().map(|x| divergence.f_prime(*x)).collect();
    for (advantage, cost) in advantages.iter_mut().zip(group_costs(&costs)) {
        *advantage -= coefficient * cost;
    }
}

/// Each cost minus the mean of the others; zero in a group of one.
fn group_costs(costs: &[f64]) -> Vec<f64> {
    if costs.len() < 2 {
        return vec![0.0; costs.len()];
    }
    let (centre, count) = (mean(costs), costs.len() as f64);
    costs.iter().map(|cost| (cost - centre) * count / (count - 1.0)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let centre = mean(values);
    let squares: f64 = values.iter().map(|x| (x - centre) * (x - centre)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_what_its_paper_says() {
        let groups = vec![vec![1.0, 0.0, 0.0, 0.0], vec![1.0, 1.0, 1.0, 1.0]];
        let of = |kind| advantages(kind, &groups);
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-5, "{a} is not {b}");
        close(of(Advantage::GroupMean)[0][0], 0.75);
        close(of(Advantage::LeaveOneOut)[0][0], 1.0);
        close(of(Advantage::LeaveOneOut)[0][1], -1.0 / 3.0);
        close(of(Advantage::GroupStd)[0][0], 1.5);
        for kind in [Advantage::GroupStd, Advantage::BatchStd, Advantage::LeaveOneOut] {
            assert_eq!(of(kind)[1], [0.0; 4]);
        }
    }

    /// The expected gradient of advantage times score, over every pair of samples, is the exact one.
    #[test]
    fn leave_one_out_and_the_penalty_leave_the_gradient_unbiased() {
        let (policy, base, reward): ([f64; 3], [f64; 3], [f64; 3]) =
            ([0.5, 0.3, 0.2], [0.2, 0.3, 0.5], [1.0, 0.0, 1.0]);
        let coefficient = 0.3;
        for divergence in Divergence::ALL {
            for parameter in 0..3 {
                let score = |y: usize| f64::from(y == parameter) - policy[parameter];
                let log_ratio = |y: usize| (policy[y] / base[y]).ln();
                let exact: f64 = (0..3)
                    .map(|y| {
                        let cost = coefficient * divergence.f_prime(log_ratio(y));
                        policy[y] * (reward[y] - cost) * score(y)
                    })
                    .sum();
                let mut expected = 0.0;
                for y in 0..3 {
                    for z in 0..3 {
                        let rewards = vec![vec![reward[y], reward[z]]];
                        let mut group = advantages(Advantage::LeaveOneOut, &rewards).remove(0);
                        let ratios = [log_ratio(y), log_ratio(z)];
                        penalise(&mut group, divergence, coefficient, &ratios);
                        let gradient = (group[0] * score(y) + group[1] * score(z)) / 2.0;
                        expected += policy[y] * policy[z] * gradient;
                    }
                }
                assert!((expected - exact).abs() < 1e-12, "{divergence:?}: {expected} {exact}");
            }
        }
    }
}
