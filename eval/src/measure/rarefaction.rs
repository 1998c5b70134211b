//! How many different correct answers there are: among k samples, or among r correct ones.
//!
//! Of two models the more accurate draws more correct answers, and more draws show more classes: distinct counts are
//! compared at the same r, or higher Pass@1 hides a collapse.

use super::pass_at_k::pass_at_k;
use crate::{Level, Tally};

/// Expected number of distinct correct answers among `k` of the samples, two being one at `level`:
/// unbiased rarefaction
/// `U_k = sum over answers u of 1 - C(n - m_u, k) / C(n, k)`, with `m_u` how often u was drawn.
///
/// `U_1` is Pass@1; `U_n` is the number of distinct correct answers that were seen.
pub fn unique_correct(tally: &Tally, level: Level, k: usize) -> f64 {
    expected(&tally.classes.at(level).multiplicities(), tally.samples, k)
}

/// Expected number of distinct answers among `r` of the correct ones, from how often each was drawn: without bias,
/// `sum over u of 1 - C(c - m_u, r) / C(c, r)`. `None` where fewer than r are correct.
pub fn distinct_of(counts: &[usize], r: usize) -> Option<f64> {
    let right: usize = counts.iter().sum();
    (right >= r && r > 0).then(|| expected(counts, right, r))
}

/// Expected number of classes among `k` of `all` answers, from the answers of each class.
pub(crate) fn expected(counts: &[usize], all: usize, k: usize) -> f64 {
    // Not `sum`, which makes nothing at all a negative zero.
    counts.iter().fold(0.0, |sum, count| sum + pass_at_k(all, *count, k))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unique_correct_equals_the_mean_over_subsets() {
        // Samples: two of answer a, one of b, two wrong.
        let answers = [Some("a"), Some("a"), Some("b"), None, None];
        let mut tally = Tally { samples: 5, correct: 3, ..Tally::default() };
        for answer in answers.iter().flatten() {
            tally.classes.add(answer, answer, answer);
        }
        for k in 1..=5 {
            let (mut distinct, mut all) = (0, 0);
            for set in (0_u32..32).filter(|set| set.count_ones() as usize == k) {
                let seen: std::collections::HashSet<_> =
                    (0..5).filter(|i| set & (1 << i) != 0).filter_map(|i| answers[i]).collect();
                distinct += seen.len();
                all += 1;
            }
            let exact = distinct as f64 / f64::from(all);
            assert!((unique_correct(&tally, Level::Solution, k) - exact).abs() < 1e-12);
        }
    }

    /// The mean number of classes over subsets of r of the drawn answers.
    fn over_subsets(counts: &[usize], r: usize) -> f64 {
        let answers: Vec<usize> =
            counts.iter().enumerate().flat_map(|(class, count)| vec![class; *count]).collect();
        let sets = (0_u32..1 << answers.len()).filter(|set| set.count_ones() as usize == r);
        let distinct = |set: u32| {
            let drawn = (0..answers.len()).filter(|i| set & (1 << i) != 0).map(|i| answers[i]);
            drawn.collect::<std::collections::HashSet<_>>().len() as f64
        };
        let all: Vec<f64> = sets.map(distinct).collect();
        all.iter().sum::<f64>() / all.len() as f64
    }

    #[test]
    fn distinct_answers_equal_the_mean_over_subsets() {
        let counts = [5, 3, 1, 1];
        for r in 1..=10 {
            let ours = distinct_of(&counts, r).unwrap();
            assert!((ours - over_subsets(&counts, r)).abs() < 1e-9, "r {r}: {ours}");
        }
        assert_eq!(distinct_of(&counts, 11), None);
        // Twice as many correct answers in the same proportions show as many.
        let [few, many] = [[20, 10, 10], [40, 20, 20]].map(|all| distinct_of(&all, 8).unwrap());
        assert!((few - many).abs() < 0.05);
    }
}
