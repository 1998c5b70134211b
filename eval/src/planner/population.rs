//! The pass rates of base and tuned model over the problems that were evaluated, as a distribution from which further
//! problems are drawn.
//!
//! Observed pass rates spread more than true ones: n samples add `p (1 - p) / n`, and a plan from them would ask for
//! too many problems or promise too much of more samples. The distribution here is the one of maximum likelihood over
//! pairs of pass rates on a grid (Kiefer and Wolfowitz 1956), found by expectation maximisation: the noise of
//! sampling is taken out, and whatever shape and correlation the pairs have stays.

use std::collections::BTreeMap;

use crate::Tally;

/// Pass rates of the grid, `sin^2` of equal steps: as dense at 0 and 1 as binomial counts can tell.
const POINTS: usize = 33;
/// Steps of expectation maximisation.
const STEPS: usize = 1000;

/// Correct samples of all samples.
type Count = (usize, usize);

/// Pairs of pass rates with their shares.
#[derive(Debug, Clone)]
pub struct PassRates {
    /// The base's pass rate, the tuned model's, the share of problems.
    pub pairs: Vec<(f64, f64, f64)>,
}

/// The pass rates of the grid.
fn grid() -> Vec<f64> {
    let step = std::f64::consts::FRAC_PI_2 / (POINTS - 1) as f64;
    (0..POINTS).map(|i| (i as f64 * step).sin().powi(2)).collect()
}

/// The likelihood of `c` correct of `n` samples at each pass rate of the grid, up to a factor.
fn likelihood(grid: &[f64], (c, n): (usize, usize)) -> Vec<f64> {
    let log = |p: &f64| {
        let term = |count: usize, p: f64| if count == 0 { 0.0 } else { count as f64 * p.ln() };
        term(c, *p) + term(n - c, 1.0 - p)
    };
    let logs: Vec<f64> = grid.iter().map(log).collect();
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    logs.iter().map(|log| (log - most).exp()).collect()
}

impl PassRates {
    /// Of two models on the same problems in the same order.
    pub fn fit(base: &[Tally], tuned: &[Tally]) -> Self {
        let grid = grid();
        // By the base's count: how many problems have it with each count of the tuned model.
        let mut counts = BTreeMap::<Count, BTreeMap<Count, f64>>::new();
        let mut total = 0.0;
        for (b, t) in base.iter().zip(tuned).filter(|(b, t)| b.samples > 0 && t.samples > 0) {
            let row = counts.entry((b.correct, b.samples)).or_default();
            *row.entry((t.correct, t.samples)).or_insert(0.0) += 1.0;
            total += 1.0;
        }
        let pair = |(t, count)| (likelihood(&grid, t), count / total);
        let row = |(b, row): (Count, BTreeMap<Count, f64>)| {
            (likelihood(&grid, b), row.into_iter().map(pair).collect::<Vec<_>>())
        };
        let observed: Vec<_> = counts.into_iter().map(row).collect();
        let mut shares = vec![1.0 / (POINTS * POINTS) as f64; POINTS * POINTS];
        for _ in 0..STEPS {
            // Bayes: by what the shares are multiplied, the mean of likelihood / evidence over what was observed.
            let mut factors = vec![0.0; shares.len()];
            for (base, row) in &observed {
                let mut given = [0.0; POINTS];
                for (b, shares) in base.iter().zip(shares.chunks(POINTS)) {
                    given.iter_mut().zip(shares).for_each(|(sum, share)| *sum += b * share);
                }
                let mut weights = [0.0; POINTS];
                for (tuned, share) in row {
                    let evidence: f64 = given.iter().zip(tuned).map(|(g, t)| g * t).sum();
                    let weight = share / evidence;
                    weights.iter_mut().zip(tuned).for_each(|(sum, t)| *sum += weight * t);
                }
                for (b, factors) in base.iter().zip(factors.chunks_mut(POINTS)) {
                    factors.iter_mut().zip(weights).for_each(|(sum, weight)| *sum += b * weight);
                }
            }
            shares.iter_mut().zip(factors).for_each(|(share, factor)| *share *= factor);
        }
        let at = |i: usize| (grid[i / POINTS], grid[i % POINTS], shares[i]);
        let pairs = (0..shares.len()).map(at).filter(|(.., share)| *share > 1e-9);
        Self { pairs: pairs.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;

    #[test]
    fn the_noise_of_sampling_is_taken_out() {
        let mut draws = Draws::new(8);
        let (mut base, mut tuned) = (Vec::new(), Vec::new());
        let (mut mean, mut square) = (0.0, 0.0);
        let problems = 4000;
        for _ in 0..problems {
            let p = draws.beta(0.6, 0.9);
            let q = p + (1.0 - p) * 0.3 * draws.uniform();
            let mut tally =
                |p| Tally { samples: 8, correct: draws.binomial(8, p), ..Tally::default() };
            base.push(tally(p));
            tuned.push(tally(q));
            mean += (q - p) / f64::from(problems);
            square += (q - p).powi(2) / f64::from(problems);
        }
        let rates = PassRates::fit(&base, &tuned);
        let sum = |value: &dyn Fn(f64, f64) -> f64| -> f64 {
            rates.pairs.iter().map(|(b, t, share)| share * value(*b, *t)).sum()
        };
        assert!((sum(&|_, _| 1.0) - 1.0).abs() < 1e-6);
        let fitted = sum(&|b, t| t - b);
        let observed = base.iter().zip(&tuned).map(|(b, t)| t.correct as f64 - b.correct as f64);
        let observed: Vec<f64> = observed.map(|d| d / 8.0).collect();
        let raw = observed.iter().map(|d| d * d).sum::<f64>() / f64::from(problems);
        assert!((fitted - mean).abs() < 0.01, "{fitted} {mean}");
        // The mean square of differences: the samples' is several times the truth's, the fitted one near it.
        assert!(raw > 3.0 * square, "{raw} {square}");
        assert!((sum(&|b, t| (t - b).powi(2)) / square - 1.0).abs() < 0.3, "{raw} {square}");
    }
}
