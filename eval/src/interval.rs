//! Means over prompts with bootstrap intervals.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

/// Resamples of the bootstrap.
const RESAMPLES: u64 = 10_000;

/// A mean over prompts and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean.
    pub value: f64,
    /// 2.5th percentile of resampled means.
    pub low: f64,
    /// 97.5th percentile.
    pub high: f64,
}

/// The mean of one value a prompt, with a percentile bootstrap over prompts.
///
/// Prompts are resampled, never the samples within a prompt: that would count duplicates as
/// agreement. The same prompts are drawn for every call with as many values, so intervals of
/// models on the same prompts are paired.
pub fn bootstrap(values: &[f64]) -> Estimate {
    let value = values.iter().sum::<f64>() / values.len() as f64;
    let means = resampled_means(values);
    let percentile = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
    Estimate { value, low: percentile(0.025), high: percentile(0.975) }
}

/// The means of all resamples, in order of size.
pub(crate) fn resampled_means(values: &[f64]) -> Vec<f64> {
    let count = values.len();
    let mut means: Vec<f64> = (0..RESAMPLES)
        .into_par_iter()
        .map(|resample| {
            let mut rng = ChaCha8Rng::seed_from_u64(resample);
            let draws = (0..count).map(|_| values[(rng.next_u64() % count as u64) as usize]);
            draws.sum::<f64>() / count as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    means
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_that_of_the_binomial() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 4 == 0)).collect();
        let estimate = bootstrap(&values);
        let half = 1.96 * (0.25_f64 * 0.75 / 400.0).sqrt();
        assert_eq!(estimate.value, 0.25);
        assert!((estimate.low - (0.25 - half)).abs() < 0.01, "{estimate:?}");
        assert!((estimate.high - (0.25 + half)).abs() < 0.01, "{estimate:?}");
        assert_eq!(bootstrap(&values), estimate);
    }
}
