//! How many different correct answers there are.

use super::pass_at_k::pass_at_k;
use crate::{Level, Tally};

/// Expected number of distinct correct answers among `k` of the samples, two being one at `level`:
/// unbiased rarefaction
/// `U_k = sum over answers u of 1 - C(n - m_u, k) / C(n, k)`, with `m_u` how often u was drawn.
///
/// `U_1` is Pass@1; `U_n` is the number of distinct correct answers that were seen.
pub fn unique_correct(tally: &Tally, level: Level, k: usize) -> f64 {
    let counts = tally.classes.at(level).multiplicities();
    // Not `sum`, which makes nothing at all a negative zero.
    counts.into_iter().fold(0.0, |sum, count| sum + pass_at_k(tally.samples, count, k))
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
}
