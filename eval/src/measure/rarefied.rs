//! Diversity at a given number of correct answers: what r of them, drawn from those there are, show on average.
//!
//! Of two models the more accurate draws more correct answers, and more draws show more classes: distinct counts,
//! Hill numbers, Chao's bound and unseen shares are compared at the same r, or higher Pass@1 hides a collapse.

use super::pass_at_k::pass_at_k;

/// Expected number of distinct answers among `r` of the correct ones, from how often each was drawn: without bias,
/// `sum over u of 1 - C(c - m_u, r) / C(c, r)`. `None` where fewer than r are correct.
pub fn distinct_of(counts: &[usize], r: usize) -> Option<f64> {
    let right: usize = counts.iter().sum();
    // Not `sum`, which makes nothing at all a negative zero.
    (right >= r && r > 0)
        .then(|| counts.iter().fold(0.0, |sum, count| sum + pass_at_k(right, *count, r)))
}

/// The expected measures of r correct answers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rarefied {
    /// Distinct ones.
    pub distinct: f64,
    /// Hill number of order 1: `exp` of the mean entropy of r draws.
    pub hill_1: f64,
    /// Hill number of order 2, which is without bias at every r: the inverse chance that two agree, at most r.
    pub hill_2: f64,
    /// Chao's lower bound from the mean numbers of answers seen once and twice.
    pub chao_1: f64,
    /// Good's and Turing's share of the unseen.
    pub unseen: f64,
}

/// The measures of r correct answers, at least 2. `None` where fewer are correct.
pub fn rarefied(counts: &[usize], r: usize) -> Option<Rarefied> {
    let distinct = distinct_of(counts, r).filter(|_| r > 1)?;
    let right: usize = counts.iter().sum();
    // Classes seen j times among r, on average.
    let mut seen = vec![0.0; r + 1];
    for count in counts {
        for (times, chance) in super::halves::halves(right, *count, r) {
            seen[times] += chance;
        }
    }
    let share = |times: usize| times as f64 / r as f64;
    // Entropy depends on counts alone: sum_j seen_j (-j / r log j / r) is linear in seen, so that means go in.
    let entropy: f64 = (1..=r).map(|j| -seen[j] * share(j) * share(j).ln()).sum();
    let pairs: usize = counts.iter().map(|count| count * count.saturating_sub(1)).sum();
    let agree = pairs as f64 / (right * (right - 1)) as f64;
    Some(Rarefied {
        distinct,
        hill_1: entropy.exp(),
        hill_2: if agree * (r as f64) < 1.0 { r as f64 } else { 1.0 / agree },
        chao_1: distinct + seen[1] * (seen[1] - 1.0).max(0.0) / (2.0 * (seen[2] + 1.0)),
        unseen: seen[1] / r as f64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::hill;

    /// The mean over subsets of r of the drawn answers.
    fn over_subsets(counts: &[usize], r: usize, statistic: &dyn Fn(&[usize]) -> f64) -> f64 {
        let answers: Vec<usize> =
            counts.iter().enumerate().flat_map(|(class, count)| vec![class; *count]).collect();
        let (mut sum, mut all) = (0.0, 0);
        for set in (0_u32..1 << answers.len()).filter(|set| set.count_ones() as usize == r) {
            let mut subset_counts = vec![0; counts.len()];
            (0..answers.len())
                .filter(|i| set & (1 << i) != 0)
                .for_each(|i| subset_counts[answers[i]] += 1);
            subset_counts.retain(|count| *count > 0);
            sum += statistic(&subset_counts);
            all += 1;
        }
        sum / f64::from(all)
    }

    #[test]
    fn rarefied_measures_equal_means_over_subsets() {
        let counts = [5, 3, 1, 1];
        for r in 2..=8 {
            let ours = rarefied(&counts, r).unwrap();
            let close = |ours: f64, statistic: &dyn Fn(&[usize]) -> f64| {
                let exact = over_subsets(&counts, r, statistic);
                assert!((ours - exact).abs() < 1e-9, "r {r}: {ours} {exact}");
            };
            close(ours.distinct, &|found| found.len() as f64);
            close(ours.unseen, &hill::unseen);
            let plain = |found: &[usize]| {
                found.iter().map(|m| *m as f64 / r as f64).map(|q| -q * q.ln()).sum::<f64>()
            };
            close(ours.hill_1.ln(), &plain);
        }
        assert_eq!(rarefied(&counts, 11), None);
    }

    #[test]
    fn rarefied_measures_do_not_depend_on_accuracy() {
        // Twice as many correct answers in the same proportions.
        let (few, many) =
            (rarefied(&[20, 10, 10], 8).unwrap(), rarefied(&[40, 20, 20], 8).unwrap());
        assert!((few.distinct - many.distinct).abs() < 0.05);
        assert!((few.hill_1 - many.hill_1).abs() < 0.05 && (few.hill_2 - many.hill_2).abs() < 0.1);
    }
}
