//! Means over prompts with bootstrap intervals.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};

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
    bootstrap_all(std::slice::from_ref(&values)).remove(0)
}

/// The same for several measures of the same prompts, whose resamples are drawn once.
pub fn bootstrap_all(columns: &[&[f64]]) -> Vec<Estimate> {
    let mut all = resampled(columns);
    let estimates = columns.iter().zip(&mut all).map(|(values, means)| {
        means.sort_by(f64::total_cmp);
        let percentile = |share: f64| means[((RESAMPLES - 1) as f64 * share).round() as usize];
        let value = values.iter().sum::<f64>() / values.len() as f64;
        Estimate { value, low: percentile(0.025), high: percentile(0.975) }
    });
    estimates.collect()
}

/// The means of all resamples, in order of size.
pub(crate) fn resampled_means(values: &[f64]) -> Vec<f64> {
    let mut means = resampled(&[values]).remove(0);
    means.sort_by(f64::total_cmp);
    means
}

/// For each column its mean in each resample: prompts are drawn, counted, and the counts weigh every
/// column.
fn resampled(columns: &[&[f64]]) -> Vec<Vec<f64>> {
    let count = columns.first().map_or(0, |values| values.len());
    debug_assert!(columns.iter().all(|values| values.len() == count));
    let by_resample: Vec<Vec<f64>> = (0..RESAMPLES)
        .into_par_iter()
        .map_init(
            || vec![0.0; count],
            |weights: &mut Vec<f64>, resample| {
                weights.fill(0.0);
                let mut rng = ChaCha8Rng::seed_from_u64(resample);
                for _ in 0..count {
                    weights[(rng.next_u64() % count as u64) as usize] += 1.0;
                }
                let mean = |values: &&[f64]| {
                    let sum: f64 = weights.iter().zip(*values).map(|(w, v)| w * v).sum();
                    sum / count as f64
                };
                columns.iter().map(mean).collect()
            },
        )
        .collect();
    (0..columns.len())
        .map(|column| by_resample.iter().map(|means| means[column]).collect())
        .collect()
}

/// Collects the columns of many estimates, so that their resamples are drawn once, and then hands the
/// estimates out in the same order: `of` is called with the same calls in both phases.
pub(crate) fn together<T>(of: impl Fn(&Estimates) -> T) -> T {
    let estimates = Estimates::default();
    of(&estimates);
    estimates.compute();
    of(&estimates)
}

/// The two phases of [`together`].
#[derive(Default)]
pub(crate) struct Estimates {
    columns: RefCell<Vec<Vec<f64>>>,
    found: RefCell<Option<VecDeque<Estimate>>>,
}

impl Estimates {
    /// The estimate of the mean of `values`, which are worked out in the first phase only.
    pub(crate) fn of(&self, values: impl FnOnce() -> Vec<f64>) -> Estimate {
        if let Some(found) = self.found.borrow_mut().as_mut() {
            return found.pop_front().expect("the second phase makes the calls of the first");
        }
        self.columns.borrow_mut().push(values());
        Estimate { value: 0.0, low: 0.0, high: 0.0 }
    }

    fn compute(&self) {
        let columns = self.columns.borrow();
        let mut found: Vec<Option<Estimate>> = vec![None; columns.len()];
        let lengths: BTreeSet<usize> = columns.iter().map(Vec::len).collect();
        for length in lengths {
            let alike: Vec<usize> =
                (0..columns.len()).filter(|i| columns[*i].len() == length).collect();
            let values: Vec<&[f64]> = alike.iter().map(|i| columns[*i].as_slice()).collect();
            for (index, estimate) in alike.into_iter().zip(bootstrap_all(&values)) {
                found[index] = Some(estimate);
            }
        }
        *self.found.borrow_mut() = Some(found.into_iter().flatten().collect());
    }
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
