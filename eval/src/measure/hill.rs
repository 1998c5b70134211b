//! How many correct answers there are in effect, and how many have not been seen: from how often each
//! was drawn.

/// Fewest correct draws that the estimators below say something about.
const LEAST: usize = 4;

/// Whether draws carry the estimators below: there are enough, and some class was drawn twice. Where every draw is of a
/// class of its own, all that they say is that there are many classes; the estimators then depend on the number of
/// draws alone, and their order is not that of the numbers which they estimate.
pub fn is_estimable(counts: &[usize]) -> bool {
    counts.iter().sum::<usize>() >= LEAST && counts.iter().any(|count| *count > 1)
}

/// Whether there are enough draws for the estimators, and each is of a class of its own.
pub fn is_all_different(counts: &[usize]) -> bool {
    counts.iter().sum::<usize>() >= LEAST && counts.iter().all(|count| *count == 1)
}

/// Shannon entropy in nats of how often each class was drawn, with Miller's and Madow's correction
/// `(K - 1) / 2n` for the classes that n draws miss.
pub fn entropy(counts: &[usize]) -> f64 {
    let total: usize = counts.iter().sum();
    if total == 0 {
        return 0.0;
    }
    let n = total as f64;
    let plain: f64 = counts
        .iter()
        .filter(|count| **count > 0)
        .map(|count| *count as f64 / n)
        .map(|share| -share * share.ln())
        .sum();
    // E of the plain estimate is H - (K - 1) / 2n + O(1 / n^2) for K classes; the K that were seen stand for all.
    plain + (counts.len().max(1) - 1) as f64 / (2.0 * n)
}

/// Hill number of order 1, `exp(H)`: the number of equally frequent classes with the same entropy.
/// 0 where nothing was drawn.
pub fn hill_1(counts: &[usize]) -> f64 {
    if counts.is_empty() { 0.0 } else { entropy(counts).exp() }
}

/// Hill number of order 2, the inverse of the chance that two draws agree. That chance is estimated
/// without bias, `sum m (m - 1) / n (n - 1)`; where no two draws agree, from the draws themselves, which
/// gives their number.
pub fn hill_2(counts: &[usize]) -> f64 {
    let n: usize = counts.iter().sum();
    let pairs: usize = counts.iter().map(|count| count * count.saturating_sub(1)).sum();
    match (n, pairs) {
        (0, _) => 0.0,
        (n, 0) => n as f64,
        // Ordered pairs of different draws: n (n - 1) of them, m (m - 1) within a class. Shares squared would count a
        // draw with itself.
        (n, pairs) => (n * (n - 1)) as f64 / pairs as f64,
    }
}

/// Chao's lower bound on the number of classes, seen or not: `S + f1 (f1 - 1) / (2 (f2 + 1))` with f1
/// classes drawn once and f2 drawn twice (bias-corrected Chao1).
pub fn chao_1(counts: &[usize]) -> f64 {
    let seen = |times: usize| counts.iter().filter(|count| **count == times).count() as f64;
    let (once, twice) = (seen(1), seen(2));
    counts.len() as f64 + once * (once - 1.0).max(0.0) / (2.0 * (twice + 1.0))
}

/// Good's and Turing's estimate of the share of correct draws that would be of an unseen class: f1 / n.
pub fn unseen(counts: &[usize]) -> f64 {
    let n: usize = counts.iter().sum();
    let once = counts.iter().filter(|count| **count == 1).count();
    if n == 0 { 0.0 } else { once as f64 / n as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hill_numbers_of_equal_classes_equal_their_count() {
        let counts = [1000; 5];
        assert!((hill_1(&counts) - 5.0).abs() < 0.01);
        assert!((hill_2(&counts) - 5.0).abs() < 0.01);
        assert_eq!(chao_1(&counts), 5.0);
        assert_eq!(unseen(&counts), 0.0);
        assert_eq!((hill_1(&[]), hill_2(&[]), chao_1(&[]), unseen(&[])), (0.0, 0.0, 0.0, 0.0));
        assert_eq!((hill_1(&[7]), hill_2(&[7])), (1.0, 1.0));
    }

    /// The mean over all sequences of n draws from a distribution.
    fn expected(shares: &[f64], n: usize, statistic: &dyn Fn(&[usize]) -> f64) -> f64 {
        let mut total = 0.0;
        for sequence in 0..shares.len().pow(n as u32) {
            let (mut rest, mut chance) = (sequence, 1.0);
            let mut counts = vec![0; shares.len()];
            for _ in 0..n {
                let class = rest % shares.len();
                rest /= shares.len();
                chance *= shares[class];
                counts[class] += 1;
            }
            counts.retain(|count| *count > 0);
            total += chance * statistic(&counts);
        }
        total
    }

    #[test]
    fn estimators_have_the_expectations_they_claim() {
        let shares = [0.5, 0.3, 0.2];
        // The chance that two draws agree, without bias.
        let agree: f64 = shares.iter().map(|share| share * share).sum();
        let pairs = |counts: &[usize]| {
            let n: usize = counts.iter().sum();
            counts.iter().map(|m| (m * (m - 1)) as f64).sum::<f64>() / (n * (n - 1)) as f64
        };
        assert!((expected(&shares, 6, &pairs) - agree).abs() < 1e-12);
        // The correction takes most of the entropy's bias away.
        let exact: f64 = shares.iter().map(|share| -share * share.ln()).sum();
        let plain = |counts: &[usize]| {
            let n: usize = counts.iter().sum();
            entropy(counts) - (counts.len() - 1) as f64 / (2 * n) as f64
        };
        let (biased, corrected) = (expected(&shares, 8, &plain), expected(&shares, 8, &entropy));
        assert!((corrected - exact).abs() < 0.3 * (biased - exact).abs());
        // Good and Turing: the mass of what n draws have not seen is f1 of n + 1 draws over n + 1.
        let missed: f64 = shares.iter().map(|share| share * (1.0 - share).powi(6)).sum();
        assert!((expected(&shares, 7, &unseen) - missed).abs() < 1e-12);
        // Chao's is a lower bound on the three classes in expectation, above what was seen.
        let seen = expected(&shares, 5, &|counts| counts.len() as f64);
        let chao = expected(&shares, 5, &chao_1);
        assert!(seen < chao && chao <= 3.0, "{seen} {chao}");
    }
}
