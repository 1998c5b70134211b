//! A tuned model beside its base on the same problems.

use serde::{Deserialize, Serialize};

use crate::Tally;
use crate::interval::{Estimate, bootstrap, resampled_means};

/// What became of the problems that the base solves, by the samples drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Problems of which the base solved at least one sample.
    pub base_solved: usize,
    /// Those of them that the tuned model solves too.
    pub kept: usize,
    /// Problems that only the tuned model solves.
    pub newly_solved: usize,
    /// All problems.
    pub problems: usize,
}

/// Compares tallies of the same problems in the same order.
pub fn kept(base: &[Tally], tuned: &[Tally]) -> Kept {
    let mut kept = Kept { base_solved: 0, kept: 0, newly_solved: 0, problems: base.len() };
    for (base, tuned) in base.iter().zip(tuned) {
        debug_assert_eq!(base.problem, tuned.problem);
        match (base.correct > 0, tuned.correct > 0) {
            (true, is_kept) => {
                kept.base_solved += 1;
                kept.kept += usize::from(is_kept);
            }
            (false, true) => kept.newly_solved += 1,
            (false, false) => {}
        }
    }
    kept
}

/// Where the base's curve of Pass@k overtakes the tuned one: interpolated linearly in log k between
/// the two grid points around it. `None` if it never does.
pub fn crossing(ks: &[usize], base: &[f64], tuned: &[f64]) -> Option<f64> {
    let gap = |i: usize| base[i] - tuned[i];
    let after = (1..ks.len()).find(|i| gap(*i) >= 0.0 && gap(*i - 1) < 0.0)?;
    let (before, now) = (gap(after - 1), gap(after));
    let share = before / (before - now);
    let (low, high) = ((ks[after - 1] as f64).ln(), (ks[after] as f64).ln());
    Some((low + share * (high - low)).exp())
}

/// The difference of two models on the same prompts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    /// Mean of the first minus mean of the second, with the percentile interval.
    pub difference: Estimate,
    /// Two-sided p-value, `2 min(P(difference <= 0), P(difference >= 0))` over resamples, at most 1.
    pub p_value: f64,
}

/// Differences below this p-value are marked.
const SIGNIFICANT: f64 = 0.05;

impl std::fmt::Display for Paired {
    /// The difference with its sign, and a star where p is below 0.05.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.p_value < SIGNIFICANT { "*" } else { "" };
        write!(f, "{:+.3}{mark}", self.difference.value)
    }
}

/// Paired bootstrap over prompts: one value a prompt of each model, in the same order.
pub fn paired(first: &[f64], second: &[f64]) -> Paired {
    let differences: Vec<f64> = first.iter().zip(second).map(|(a, b)| a - b).collect();
    let means = resampled_means(&differences);
    let share = |is_beyond: &dyn Fn(f64) -> bool| {
        means.iter().filter(|mean| is_beyond(**mean)).count() as f64 / means.len() as f64
    };
    let tail = share(&|mean| mean <= 0.0).min(share(&|mean| mean >= 0.0));
    Paired { difference: bootstrap(&differences), p_value: (2.0 * tail).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_and_newly_solved_are_counted_by_prompt() {
        let tallies = |correct: [usize; 4]| -> Vec<Tally> {
            correct.into_iter().map(|correct| Tally { correct, ..Tally::default() }).collect()
        };
        let kept = kept(&tallies([3, 1, 0, 0]), &tallies([5, 0, 2, 0]));
        assert_eq!(kept, Kept { base_solved: 2, kept: 1, newly_solved: 1, problems: 4 });
    }

    #[test]
    fn paired_differences_see_through_the_spread_of_prompts() {
        let hard: Vec<f64> = (0..200).map(|i| f64::from(i % 10) / 10.0).collect();
        let better: Vec<f64> = hard.iter().map(|x| x + 0.02 + 0.01 * (x - 0.5)).collect();
        let found = paired(&better, &hard);
        assert!(
            (found.difference.value - 0.0195).abs() < 1e-3 && found.p_value < 1e-3,
            "{found:?}"
        );
        let same = paired(&hard, &hard);
        assert_eq!((same.difference.value, same.p_value), (0.0, 1.0));
    }

    #[test]
    fn the_crossing_is_where_the_base_overtakes() {
        let ks = [1, 4, 16];
        let end = crossing(&ks, &[0.1, 0.4, 0.9], &[0.2, 0.5, 0.9]).unwrap();
        assert!((end - 16.0).abs() < 1e-9, "{end}");
        let middle = crossing(&ks, &[0.1, 0.4, 0.9], &[0.3, 0.5, 0.8]).unwrap();
        assert!((middle - 8.0).abs() < 1e-9, "{middle}");
        assert_eq!(crossing(&ks, &[0.1, 0.2, 0.3], &[0.2, 0.3, 0.4]), None);
    }
}
