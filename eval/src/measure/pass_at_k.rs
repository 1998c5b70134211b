//! Pass@k: the chance that at least one of k samples is correct.

use anyhow::{Result, bail};

use crate::Tally;
use crate::number::counted;

/// The unbiased estimate from `c` correct of `n` samples (Chen et al., arXiv 2107.03374):
/// `1 - C(n - c, k) / C(n, k)`, computed as a product so that nothing overflows.
///
/// `k` must be between 1 and `n`; [`check`] refuses others before any work is done.
///
/// ```
/// use tealight_eval::pass_at_k::pass_at_k;
///
/// // Of the six pairs of four samples, three contain the one correct sample.
/// assert!((pass_at_k(4, 1, 2) - 0.5).abs() < 1e-12);
/// ```
pub fn pass_at_k(n: usize, c: usize, k: usize) -> f64 {
    let wrong = n.saturating_sub(c);
    if wrong < k {
        return 1.0;
    }
    // C(n - c, k) / C(n, k) = prod_{i = n - c + 1}^{n} (1 - k / i). 1 - (1 - c / n)^k instead is too low: the power is
    // convex.
    let all_wrong: f64 = (wrong + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product();
    1.0 - all_wrong
}

/// Pass^k: the chance that all of k samples are correct, `C(c, k) / C(n, k)`, without bias.
pub fn pass_all_k(n: usize, c: usize, k: usize) -> f64 {
    if c < k {
        return 0.0;
    }
    (0..k).map(|i| (c - i) as f64 / (n - i) as f64).product()
}

/// Refuses a k that n samples cannot estimate.
///
/// # Errors
/// No samples, no k, a k of 0, or a k above `n`.
pub fn check(n: usize, ks: &[usize]) -> Result<()> {
    if n == 0 || ks.is_empty() {
        bail!("pass@k needs at least one sample (-n) and one k (-k)");
    }
    if let Some(k) = ks.iter().find(|k| **k == 0 || **k > n) {
        bail!(
            "pass@{k} cannot be estimated from {} a prompt: choose k from 1 to {n}, or take more samples",
            counted(n, "sample")
        );
    }
    Ok(())
}

/// Pass@k of one problem, at the samples that could be judged where those are fewer.
pub fn tally_pass_at_k(tally: &Tally, k: usize) -> f64 {
    pass_at_k(tally.samples, tally.correct, k.min(tally.samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pass_at_k_equals_the_share_of_solved_subsets() {
        for n in 1..=8 {
            for c in 0..=n {
                for k in 1..=n {
                    let subsets = (0_u32..1 << n).filter(|set| set.count_ones() as usize == k);
                    let (mut hits, mut whole, mut all) = (0, 0, 0);
                    for set in subsets {
                        all += 1;
                        whole += i32::from(set & !((1 << c) - 1) == 0);
                        // The first c samples are the correct ones.
                        hits += usize::from(set & ((1 << c) - 1) != 0);
                    }
                    let exact = hits as f64 / f64::from(all);
                    assert!((pass_at_k(n, c, k) - exact).abs() < 1e-12, "n {n} c {c} k {k}");
                    let exact = f64::from(whole) / f64::from(all);
                    assert!((pass_all_k(n, c, k) - exact).abs() < 1e-12, "n {n} c {c} k {k}");
                }
            }
        }
    }

    #[test]
    fn large_counts_do_not_overflow() {
        assert!((pass_at_k(100_000, 1, 50_000) - 0.5).abs() < 1e-9);
        assert_eq!(pass_at_k(4096, 0, 4096), 0.0);
    }

    #[test]
    fn k_beyond_n_is_refused() {
        assert!(check(16, &[1, 16]).is_ok());
        assert!(check(16, &[32]).unwrap_err().to_string().contains("pass@32"));
        assert!(check(16, &[0]).is_err() && check(0, &[1]).is_err() && check(4, &[]).is_err());
    }
}
