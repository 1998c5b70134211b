//! How many of the correct samples fall into a part of all: exact chances, so that nothing depends on a split's luck.

/// How many of `c` correct ones among `n` fall into `half` of the samples: each number with its chance.
pub fn halves(n: usize, c: usize, half: usize) -> impl Iterator<Item = (usize, f64)> {
    let least = (c + half).saturating_sub(n);
    let most = c.min(half);
    // Log-factorials keep large counts finite.
    let log_choose =
        |n: usize, k: usize| -> f64 { (1..=k).map(|i| ((n - k + i) as f64 / i as f64).ln()).sum() };
    // Hypergeometric: C(c, a) C(n - c, half - a) / C(n, half).
    let all = log_choose(n, half);
    (least..=most).map(move |a| (a, (log_choose(c, a) + log_choose(n - c, half - a) - all).exp()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
