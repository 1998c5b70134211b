//! A tuned model beside its base on the same problems.

use serde::{Deserialize, Serialize};

use crate::Tally;

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
    fn the_crossing_is_where_the_base_overtakes() {
        let ks = [1, 4, 16];
        let end = crossing(&ks, &[0.1, 0.4, 0.9], &[0.2, 0.5, 0.9]).unwrap();
        assert!((end - 16.0).abs() < 1e-9, "{end}");
        let middle = crossing(&ks, &[0.1, 0.4, 0.9], &[0.3, 0.5, 0.8]).unwrap();
        assert!((middle - 8.0).abs() < 1e-9, "{middle}");
        assert_eq!(crossing(&ks, &[0.1, 0.2, 0.3], &[0.2, 0.3, 0.4]), None);
    }
}
