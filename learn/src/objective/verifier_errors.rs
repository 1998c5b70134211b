//! Rewards of a verifier that errs at known rates, corrected so that their expectation is the true reward (the backward
//! correction of arXiv 2510.00915).

use super::group_stats::GroupStats;

/// How often a verifier is wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VerifierErrors {
    /// The chance that an incorrect completion is judged correct.
    pub false_positives: f64,
    /// The chance that a correct completion is judged incorrect.
    pub false_negatives: f64,
}

impl VerifierErrors {
    /// The verdict's unbiased estimate of correctness: less the false positives, over 1 minus both rates.
    pub fn corrected(self, is_judged_correct: bool) -> f64 {
        // E[verdict] is 1 - fn for a correct and fp for an incorrect completion; this line maps them to 1 and 0.
        let verdict = f64::from(u8::from(is_judged_correct));
        (verdict - self.false_positives) / (1.0 - self.false_positives - self.false_negatives)
    }

    /// A group with its rewards corrected; what shapes them beside the verdict stays.
    pub(super) fn correct(self, stats: &GroupStats) -> GroupStats {
        let moved = |(reward, right): (&f64, bool)| {
            reward + self.corrected(right) - f64::from(u8::from(right))
        };
        let rewards = stats.rewards.iter().zip(stats.is_correct()).map(moved).collect();
        GroupStats { rewards, ..stats.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::{Objective, Plan, advantages};

    /// Two outputs of which the first is correct, every pair of samples and every pair of verdicts: the expected
    /// advantage of an output is that of a verifier without errors.
    #[test]
    fn corrected_rewards_have_the_gradient_of_the_true_ones() {
        let plan = |text: &str| text.parse::<Objective>().unwrap().plan;
        let noisy = plan("noise-corrected:0.2:0.3:beta=0.5");
        let clean = plan("kl-reward:0.5");
        let errors = noisy.verifier_errors.unwrap();
        let (chance, base) = ([0.3, 0.7], [0.45_f64.ln(), 0.55_f64.ln()]);
        let stats = |samples: [usize; 2], verdicts: [bool; 2]| GroupStats {
            rewards: verdicts.map(|right| f64::from(u8::from(right))).into(),
            classes: verdicts.map(|right| right.then_some(0)).into(),
            policy_logp: samples.map(|y| f64::ln(chance[y])).into(),
            reference_logp: samples.map(|y| base[y]).into(),
            lengths: vec![1; 2],
            beta: 0.5,
            ..GroupStats::default()
        };
        let first =
            |plan: &Plan, samples, verdicts| advantages(plan, &[stats(samples, verdicts)])[0][0];
        for y in 0..2 {
            let (mut ours, mut exact) = (0.0, 0.0);
            for (z, share) in chance.iter().enumerate() {
                let samples = [y, z];
                exact += share * first(&clean, samples, samples.map(|y| y == 0));
                for verdicts in [[true, true], [true, false], [false, true], [false, false]] {
                    let says = |(y, says): (usize, bool)| {
                        let positive = match y {
                            0 => 1.0 - errors.false_negatives,
                            _ => errors.false_positives,
                        };
                        if says { positive } else { 1.0 - positive }
                    };
                    let judged = says((y, verdicts[0])) * says((z, verdicts[1]));
                    ours += share * judged * first(&noisy, samples, verdicts);
                }
            }
            assert!((ours - exact).abs() < 1e-12, "{y}: {ours} {exact}");
            assert!(exact.abs() > 0.05);
        }
        // Without the correction the reward is worth half as much beside the penalty.
        assert_eq!(errors.corrected(true) - errors.corrected(false), 2.0);
    }
}
