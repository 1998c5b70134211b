//! What a second draw of the same model would show: the null of every comparison with a base that was drawn once.
//!
//! Everything here is an exact expectation over which of the n samples fall into which half, so that nothing
//! depends on a split's luck.

use super::pass_at_k::pass_at_k;

/// Without bias, the square of the chance that one of k samples is right, from `c` right of `n`: the share of pairs
/// of disjoint k-subsets that both hold a right one, `1 - 2 C(n-c,k)/C(n,k) + C(n-c,2k)/C(n,2k)`. `None` where
/// 2k samples are more than there are.
pub fn squared(n: usize, c: usize, k: usize) -> Option<f64> {
    (2 * k <= n).then(|| 2.0 * pass_at_k(n, c, k) - pass_at_k(n, c, 2 * k))
}

/// How many of `c` right ones among `n` fall into `half` of the samples: each number with its chance.
pub fn halves(n: usize, c: usize, half: usize) -> impl Iterator<Item = (usize, f64)> {
    let least = (c + half).saturating_sub(n);
    let most = c.min(half);
    // Log-factorials keep large counts finite.
    let log_choose =
        |n: usize, k: usize| -> f64 { (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum() };
    let all = log_choose(n, half);
    (least..=most).map(move |a| (a, (log_choose(c, a) + log_choose(n - c, half - a) - all).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_square_is_the_mean_over_disjoint_subsets() {
        let n = 6_usize;
        for c in 0..=n {
            for k in 1..=3 {
                let (mut both, mut all) = (0, 0);
                let subsets = || (0_u32..1 << n).filter(|set| set.count_ones() as usize == k);
                for a in subsets() {
                    for b in subsets().filter(|b| a & b == 0) {
                        let right = (1_u32 << c) - 1;
                        both += i32::from(a & right != 0 && b & right != 0);
                        all += 1;
                    }
                }
                let exact = f64::from(both) / f64::from(all);
                assert!((squared(n, c, k).unwrap() - exact).abs() < 1e-12, "c {c} k {k}");
            }
        }
        assert_eq!(squared(6, 3, 4), None);
    }

    #[test]
    fn halves_are_hypergeometric() {
        for (n, c) in [(8, 3), (7, 7), (9, 0), (64, 20)] {
            let all: Vec<(usize, f64)> = halves(n, c, n / 2).collect();
            let sum: f64 = all.iter().map(|(_, p)| p).sum();
            let mean: f64 = all.iter().map(|(a, p)| *a as f64 * p).sum();
            assert!((sum - 1.0).abs() < 1e-9, "{n} {c}: {sum}");
            assert!((mean - (c * (n / 2)) as f64 / n as f64).abs() < 1e-9);
        }
    }
}
