//! How rewards of a group become advantages, beyond "reward minus baseline": one function a paper.
//!
//! Letters: G samples of a prompt, c of them correct. Rewards are binary unless an overlong penalty
//! shapes them or the verifier grades; rules other than the plain one read verdicts
//! ([`super::Plan::is_binary`]). To add a rule, add a variant, its arms here, and a preset.

use super::group_stats::GroupStats;
use super::rarity::{Exploration, weigh_by_class};
use super::rule::Rule;
use super::sets::{SetFunction, SetObjective};

/// The rule that turns the rewards of a group into advantages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum AdvantageEstimator {
    /// The reward itself, less the baseline.
    Plain,
    /// Correct answers that are likelier among their siblings earn less: `r (1 - strength rank / G)`,
    /// by mean log-probability (He et al., arXiv 2506.02355).
    Unlikeliness {
        /// Largest reduction of a reward, the paper's beta_rank.
        strength: f64,
    },
    /// The positive mass of a group moved toward its rarer correct answers (UCPO, arXiv 2605.00365).
    Ucpo {
        /// Share of the mass that is moved.
        tau: f64,
    },
    /// The advantage of a correct sample over the size of its solution class in the group, to a power (arXiv
    /// 2601.08763).
    Rarity {
        /// The power: 0 is no weight, 1 divides by the size.
        power: f64,
    },
    /// Bonuses for final answers that are rare in the run, penalties for repeats in the group.
    Explore(Exploration),
    /// The reward of a correct sample moved by `beta (log a(anchor) - log a(y))`, the anchor being the correct sample
    /// of the group that is likeliest under the base (MARA, arXiv 2510.20817).
    Mara,
    /// The unbiased gradient of the expected value of a function of k samples.
    Set(SetObjective),
    /// The user's own rule, as text.
    Rule(Rule),
}

/// Added where a share divides, as the paper does.
const EPSILON: f64 = 1e-6;

impl AdvantageEstimator {
    /// Whether it has a limit of infinitely many samples, which a whole distribution is.
    pub fn is_of_samples(self) -> bool {
        match self {
            Self::Plain | Self::Mara => true,
            Self::Rule(rule) => rule.is_of_samples(),
            _ => false,
        }
    }

    /// Whether it looks at the policy's log-probabilities.
    pub(super) fn reads_policy(self) -> bool {
        match self {
            Self::Unlikeliness { .. } | Self::Ucpo { .. } => true,
            Self::Rule(rule) => rule.reads("logp") || rule.reads("rank"),
            _ => false,
        }
    }

    /// Whether it reads log-probabilities of the base.
    pub(super) fn reads_reference(self) -> bool {
        matches!(self, Self::Rule(rule) if rule.reads("logp_base"))
    }

    /// Whether it reads verdicts, not rewards alone.
    pub(super) fn is_binary(self) -> bool {
        match self {
            Self::Plain => false,
            Self::Rule(rule) => rule.is_binary(),
            _ => true,
        }
    }

    /// Whether it reads final answers, and how often the run has seen them.
    pub fn reads_outcomes(self) -> bool {
        matches!(self, AdvantageEstimator::Explore(_))
    }

    /// Whether it reads how many correct answers a prompt has.
    pub fn reads_total(self) -> bool {
        matches!(self, AdvantageEstimator::Set(set) if set.function == SetFunction::Coverage)
    }

    /// Rewards as the rule sees them, before the baseline; `None` where the rule gives advantages itself.
    pub(super) fn shaped(self, stats: &GroupStats) -> Option<Vec<f64>> {
        match self {
            AdvantageEstimator::Plain
            | AdvantageEstimator::Ucpo { .. }
            | AdvantageEstimator::Rarity { .. }
            | AdvantageEstimator::Explore(_) => Some(stats.rewards.clone()),
            AdvantageEstimator::Mara => Some(anchored(stats)),
            AdvantageEstimator::Unlikeliness { strength } => Some(unlikeliness(stats, strength)),
            AdvantageEstimator::Rule(_) | AdvantageEstimator::Set(_) => None,
        }
    }

    /// The advantages of a rule that needs no baseline of ours.
    pub(super) fn advantages(self, stats: &GroupStats) -> Vec<f64> {
        match self {
            AdvantageEstimator::Set(objective) => objective.advantages(stats),
            AdvantageEstimator::Rule(rule) => rule.advantages(stats),
            AdvantageEstimator::Plain
            | AdvantageEstimator::Unlikeliness { .. }
            | AdvantageEstimator::Ucpo { .. }
            | AdvantageEstimator::Rarity { .. }
            | AdvantageEstimator::Explore(_)
            | AdvantageEstimator::Mara => stats.rewards.clone(),
        }
    }

    /// Moves advantage within the group after the baseline.
    pub(super) fn redistribute(self, stats: &GroupStats, advantages: &mut [f64]) {
        let tau = match self {
            AdvantageEstimator::Rarity { power } => {
                return weigh_by_class(stats, power, advantages);
            }
            AdvantageEstimator::Explore(exploration) => return exploration.add(stats, advantages),
            AdvantageEstimator::Ucpo { tau } => tau,
            _ => return,
        };
        let right: Vec<usize> =
            (0..advantages.len()).filter(|i| stats.classes[*i].is_some()).collect();
        if right.is_empty() || right.len() == advantages.len() {
            return;
        }
        // q = softmax of mean log-probabilities over the correct samples; by means, since sums would rank by length.
        let means: Vec<f64> = right.iter().map(|i| stats.mean_logp(*i)).collect();
        let top = means.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = means.iter().map(|mean| (mean - top).exp()).sum();
        let rarity: Vec<f64> =
            means.iter().map(|mean| 1.0 / ((mean - top).exp() / total).max(EPSILON)).collect();
        let sum: f64 = rarity.iter().sum();
        // The weights (1 - tau) / n + tau (1 / q_i) / sum 1 / q sum to 1: the group's positive mass stays what it was.
        let count = right.len() as f64;
        for (index, rarity) in right.iter().zip(&rarity) {
            advantages[*index] *= count * ((1.0 - tau) / count + tau * rarity / sum);
        }
    }

    /// The fewest samples of a group that it needs; 1 where any will do.
    pub fn smallest_group(self) -> usize {
        match self {
            AdvantageEstimator::Set(objective) => objective.smallest_group(),
            AdvantageEstimator::Rule(rule) => rule.smallest_group(),
            _ => 1,
        }
    }

    /// Whether the advantages include their own baseline.
    pub fn has_baseline(self) -> bool {
        matches!(self, Self::Set(_) | Self::Rule(_))
    }
}

/// MARA's rewards: a correct sample earns what the KL penalty takes from it beside the anchor, so that the penalty no
/// longer tells correct samples apart.
fn anchored(stats: &GroupStats) -> Vec<f64> {
    let correct = stats.is_correct();
    let of_correct = stats.reference_logp.iter().zip(&correct).filter(|(_, correct)| **correct);
    let anchor = of_correct.map(|(logp, _)| *logp).fold(f64::NEG_INFINITY, f64::max);
    let moved = |index: usize| match correct[index] {
        true => stats.rewards[index] + stats.beta * (anchor - stats.reference_logp[index]),
        false => stats.rewards[index],
    };
    (0..correct.len()).map(moved).collect()
}

fn unlikeliness(stats: &GroupStats, strength: f64) -> Vec<f64> {
    let count = stats.rewards.len() as f64;
    let less = |(reward, rank): (&f64, usize)| reward * (1.0 - strength * rank as f64 / count);
    stats.rewards.iter().zip(stats.ranks()).map(less).collect()
}

/// The chance that k of n samples, c of them correct, hold a right one; 0 at `k = 0`.
pub(super) fn pass_at_k(n: usize, c: usize, k: usize) -> f64 {
    if n < c + k {
        return 1.0;
    }
    // 1 - C(n - c, k) / C(n, k) as a product: binomials overflow.
    1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule_of(objective: &str) -> AdvantageEstimator {
        objective.parse::<crate::objective::Objective>().unwrap().plan.rule
    }

    fn stats(correct: &[bool], policy_logp: &[f64]) -> GroupStats {
        GroupStats {
            rewards: correct.iter().map(|right| f64::from(*right)).collect(),
            classes: correct.iter().map(|right| right.then_some(0)).collect(),
            policy_logp: policy_logp.to_vec(),
            reference_logp: policy_logp.to_vec(),
            lengths: vec![1; correct.len()],
            solve_rate: 0.5,
            ..GroupStats::default()
        }
    }

    /// `d/dp` of what a rule optimises: advantages depend on rewards alone, so the expected gradient is
    /// that number times the gradient of the chance p of being correct.
    fn expected_gradient(rule: &str, group: usize, p: f64) -> f64 {
        let rule = rule_of(rule);
        let mut expected_gradient = 0.0;
        for set in 0_u32..1 << group {
            let correct: Vec<bool> = (0..group).map(|i| set & (1 << i) != 0).collect();
            let chance: f64 =
                correct.iter().map(|right| if *right { p } else { 1.0 - p }).product();
            let advantages = rule.advantages(&stats(&correct, &vec![0.0; group]));
            // The score of a Bernoulli: (v - p) / (p (1 - p)).
            let score = |right: bool| (f64::from(right) - p) / (p * (1.0 - p));
            let gradient: f64 =
                advantages.iter().zip(&correct).map(|(a, right)| a * score(*right)).sum();
            expected_gradient += chance * gradient / group as f64;
        }
        expected_gradient
    }

    #[test]
    fn pkpo_is_the_gradient_of_pass_at_k() {
        for (k, p) in [(1, 0.3), (2, 0.3), (3, 0.6), (4, 0.1)] {
            let exact = k as f64 * (1.0_f64 - p).powi(k - 1);
            let ours = expected_gradient(&format!("pkpo:{k}"), 6, p);
            assert!((ours - exact).abs() < 1e-12, "k {k}: {ours} {exact}");
        }
    }

    #[test]
    fn maxrl_is_the_gradient_of_the_truncated_log() {
        // d/dp of -sum_{j=1}^{G-1} (1-p)^j / j: the term j = G has no sample to show it.
        for p in [0.1_f64, 0.5, 0.9] {
            let exact: f64 = (0..5 - 1).map(|j| (1.0 - p).powi(j)).sum();
            let ours = expected_gradient("maxrl", 5, p);
            assert!((ours - exact).abs() < 1e-4 * exact, "{ours} {exact}");
        }
    }

    #[test]
    fn risk_is_the_gradient_of_the_entropic_value_in_large_groups() {
        let (risk, p) = (2.0_f64, 0.3_f64);
        // The slope in p of log(1 - p + p e^risk) / risk.
        let exact = (risk.exp() - 1.0) / (risk * (1.0 - p + p * risk.exp()));
        // In a group of n the mean is over the sample too: by the textbook, the sum over how many others are correct.
        let finite = |n: usize| -> f64 {
            let mean = |c: usize| 1.0 + c as f64 / n as f64 * (risk.exp() - 1.0);
            let choose = |c: usize| (0..c).map(|i| (n - 1 - i) as f64 / (i + 1) as f64);
            let chance = |c: usize| {
                choose(c).product::<f64>() * p.powi(c as i32) * (1.0 - p).powi((n - 1 - c) as i32)
            };
            let gain = |c: usize| (risk.exp() / mean(c + 1) - 1.0 / mean(c)) / risk;
            (0..n).map(|c| chance(c) * gain(c)).sum()
        };
        for n in [2, 6, 12] {
            let ours = expected_gradient("rs-grpo:2", n, p);
            assert!((ours - finite(n)).abs() < 1e-12, "{n}: {ours} {}", finite(n));
        }
        assert!((finite(200) - exact).abs() < 0.01 * exact && (finite(4) - exact).abs() > 0.02);
        // A small risk is the mean reward's gradient, a large one does not overflow.
        assert!((expected_gradient("rs-grpo:1e-4", 4, p) - 0.75).abs() < 1e-3);
        assert!(expected_gradient("rs-grpo:900", 4, p).is_finite());
    }

    #[test]
    fn negative_reinforcement_expects_reinforces_gradient() {
        for (positive, exact) in [(0.0, 1.0), (0.1, 1.1)] {
            assert!((expected_gradient(&format!("nsr:{positive}"), 4, 0.3) - exact).abs() < 1e-12);
        }
    }

    #[test]
    fn pass_at_k_training_is_the_average_over_subsets() {
        let correct = [true, false, false, true, false];
        let k = 3;
        let (mut rewards, mut member): (Vec<f64>, Vec<Vec<usize>>) = (vec![], vec![vec![]; 5]);
        for set in (0_u32..32).filter(|set| set.count_ones() as usize == k) {
            for (i, groups) in member.iter_mut().enumerate() {
                if set & (1 << i) != 0 {
                    groups.push(rewards.len());
                }
            }
            rewards.push(f64::from((0..5).any(|i| set & (1 << i) != 0 && correct[i])));
        }
        let mean = rewards.iter().sum::<f64>() / rewards.len() as f64;
        let spread = (mean * (1.0 - mean)).sqrt();
        let ours = rule_of("pass-at-k:3").advantages(&stats(&correct, &[0.0; 5]));
        for (groups, ours) in member.iter().zip(ours) {
            let exact: f64 = groups.iter().map(|set| (rewards[*set] - mean) / spread).sum::<f64>()
                / groups.len() as f64;
            assert!((ours - exact).abs() < 1e-12, "{ours} {exact}");
        }
    }

    #[test]
    fn rarer_correct_answers_earn_more() {
        let logp = [-1.0, -3.0, -2.0, -0.5];
        let stats = stats(&[true, true, false, false], &logp);
        let shaped = AdvantageEstimator::Unlikeliness { strength: 0.25 }.shaped(&stats).unwrap();
        // Ranks from the least likely: sample 1, 2, 0, 3.
        assert_eq!(shaped, [1.0 - 0.25 * 2.0 / 4.0, 1.0, 0.0, 0.0]);
        let mut advantages = vec![0.8, 0.8, -0.8, -0.8];
        AdvantageEstimator::Ucpo { tau: 0.2 }.redistribute(&stats, &mut advantages);
        assert!(advantages[1] > 0.8 && advantages[0] < 0.8);
        assert!((advantages[0] + advantages[1] - 1.6).abs() < 1e-12, "the positive mass stays");
        assert_eq!(&advantages[2..], [-0.8, -0.8]);
        let share = (-1.0_f64).exp() / ((-1.0_f64).exp() + (-3.0_f64).exp());
        let rarity = (1.0 / share) / (1.0 / share + 1.0 / (1.0 - share));
        assert!((advantages[0] - 0.8 * 2.0 * (0.8 / 2.0 + 0.2 * rarity)).abs() < 1e-12);
    }
}
