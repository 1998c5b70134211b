//! Diversity at a given number of correct answers: what r of them, drawn from those there are, show on average.
//!
//! Of two models the more accurate draws more correct answers, and more draws show more classes: distinct counts are
//! compared at the same r, or higher Pass@1 hides a collapse.

use super::pass_at_k::pass_at_k;

/// Expected number of distinct answers among `r` of the correct ones, from how often each was drawn: without bias,
/// `sum over u of 1 - C(c - m_u, r) / C(c, r)`. `None` where fewer than r are correct.
pub fn distinct_of(counts: &[usize], r: usize) -> Option<f64> {
    let right: usize = counts.iter().sum();
    // Not `sum`, which makes nothing at all a negative zero.
    (right >= r && r > 0)
        .then(|| counts.iter().fold(0.0, |sum, count| sum + pass_at_k(right, *count, r)))
}

#[cfg(test)]
mod tests {
    use super::*;

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
