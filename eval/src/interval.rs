//! Means over problems with 95 % intervals for the mean over all problems of the kind.
//!
//! Problems are what varies: the samples of one problem are no independent evidence about others. Measures that
//! lie between 0 and 1 get an interval that never leaves that range and never shrinks to a point; `inference::coverage`
//! simulates its coverage.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF, Normal};

use crate::inference::student::{ends, quantile, skew_of_mean};

/// The chance that an interval misses on either side.
const TAIL: f64 = 0.025;

/// Estimates by k.
pub type ByK = BTreeMap<usize, Estimate>;

/// A mean over problems and its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// The mean over problems.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
}

impl Estimate {
    /// The estimate from no values: not a number.
    pub const NONE: Self = Self { value: f64::NAN, low: f64::NAN, high: f64::NAN };

    /// The same with its interval cut to the range that the quantity has, which excludes nothing that can be true.
    pub fn within(self, least: f64, most: f64) -> Self {
        let inside = |end: f64| end.clamp(least.min(self.value), most.max(self.value));
        Self { low: inside(self.low), high: inside(self.high), ..self }
    }
}

/// Values more, as far from the mean as the others on average, that count into the variance of values of any size.
const TAIL_VALUES: f64 = 6.0;

/// The mean of values of any size, with Student's interval for the skewness that they show (Hall 1992): few values show
/// little of a long tail.
pub fn mean(values: &[f64]) -> Estimate {
    let Some((value, variance)) = moments(values) else { return Estimate::NONE };
    let count = values.len() as f64;
    let error = (variance * (1.0 + TAIL_VALUES / count) / count).sqrt();
    let deviations: Vec<f64> = values.iter().map(|x| x - value).collect();
    let skew = skew_of_mean(&deviations, variance / count);
    let t = quantile(2.0 * TAIL, count - 1.0);
    let [low, high] = ends(t, skew).map(|t| value - error * t);
    Estimate { value, low, high }
}

/// The mean of values that a problem has between `least` and `most`: the interval of [`share`], on that range.
pub fn bounded(values: &[f64], least: f64, most: f64) -> Estimate {
    let range = most - least;
    let inside = |value: &f64| ((value - least) / range).clamp(0.0, 1.0);
    let of_shares = share(&values.iter().map(inside).collect::<Vec<_>>());
    let Some((value, _)) = moments(values) else { return Estimate::NONE };
    let end = |end: f64| least + range * end;
    Estimate { value, low: end(of_shares.low).min(value), high: end(of_shares.high).max(value) }
}

/// The mean of values that cannot be negative, such as counts. What the largest of them is, any problem may have.
pub fn amount(values: &[f64]) -> Estimate {
    let most = values.iter().copied().fold(0.0, f64::max);
    bounded(values, 0.0, if most > 0.0 { most } else { 1.0 })
}

/// Problems that the interval of numbers of answers in effect needs to hold the truth in 95 % of evaluations; of fewer
/// it is a range.
pub const EFFECTIVE_NEEDS: usize = 24;

/// The mean of numbers of answers in effect: from 1 to one more than the most of any problem.
pub fn effective(values: &[f64]) -> Estimate {
    bounded(values, 1.0, values.iter().copied().fold(1.0, f64::max) + 1.0)
}

/// Problems that the interval of distinct answers needs to hold the truth in 93 % of evaluations; of fewer it is a
/// range: six may all show one answer where others have several.
pub const DISTINCT_NEEDS: usize = 12;

/// The mean number of distinct correct answers among k samples, of which no problem showed more than `most`, at most k.
/// With one answer each it is Pass@k, and has the interval of Pass@k; where a problem shows several, another may have
/// one more.
pub fn distinct(values: &[f64], most: usize, k: usize) -> Estimate {
    let possible = if most > 1 { (most + 1).min(k) } else { 1 };
    bounded(values, 0.0, possible as f64)
}

/// The mean of shares: values between 0 and 1.
///
/// Clopper and Pearson's interval of a binomial with as many trials as the variance of the values makes the
/// problems worth (Korn and Graubard 1998), never fewer than there are problems. Two problems more, one at 0 and one at
/// 1, count into the variance, since few problems show few of the extremes.
pub fn share(values: &[f64]) -> Estimate {
    let Some((value, variance)) = moments(values) else { return Estimate::NONE };
    let count = values.len() as f64;
    // m (1 - m) is the largest variance that values in [0, 1] with mean m can have: that of single trials.
    let largest = value * (1.0 - value);
    // The squares of the distances of 0 and 1 from the mean.
    let both_ends = value * value + (1.0 - value) * (1.0 - value);
    let variance = variance + both_ends / count;
    // n' = n m (1 - m) / variance binomial trials have a mean with the variance that these n problems show.
    let worth = (count * largest / variance).max(count);
    let narrower = match values.len() {
        1 => 1.0,
        // Of the normal distribution over Student's.
        _ => (Normal::standard().inverse_cdf(TAIL) / quantile(2.0 * TAIL, count - 1.0)).powi(2),
    };
    let trials = (worth * narrower).max(count);
    let right = trials * value;
    let beta = |a: f64, b: f64, p: f64| Beta::new(a, b).map_or(f64::NAN, |d| d.inverse_cdf(p));
    // A mean of ones may differ from one by rounding.
    let is_zero = right < 1e-9;
    let is_one = trials - right < 1e-9;
    Estimate {
        value,
        low: if is_zero { 0.0 } else { beta(right, trials - right + 1.0, TAIL).min(value) },
        high: if is_one { 1.0 } else { beta(right + 1.0, trials - right, 1.0 - TAIL).max(value) },
    }
}

/// Mean and unbiased variance; of one value the variance is 0.
fn moments(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    if values.is_empty() {
        return None;
    }
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|x| (x - mean) * (x - mean)).sum();
    Some((mean, squares / (count - 1.0).max(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::pass_at_k::pass_at_k;

    #[test]
    fn share_interval_never_shrinks_to_a_point() {
        let whole = share(&[1.0; 48]);
        assert_eq!((whole.value, whole.high), (1.0, 1.0));
        assert!((whole.low - 0.925).abs() < 0.01, "{whole:?}");
        let none = share(&[0.0; 48]);
        assert!(none.low == 0.0 && (none.high - 0.075).abs() < 0.01, "{none:?}");
        // As many trials as problems, however few: 1 - .025^(1/4).
        let few = share(&[0.0; 4]);
        assert!(few.low == 0.0 && (few.high - 0.6024).abs() < 1e-3, "{few:?}");
        let half = share(&[0.5; 10]);
        assert!(half.low < 0.45 && half.high > 0.55, "{half:?}");
        assert!(share(&[0.3]).low < 0.1);
        assert!(share(&[]).value.is_nan());
    }

    #[test]
    fn distinct_answers_have_the_interval_of_their_range() {
        let values = [1.0, 0.25, 0.0, 0.0];
        let (one, pass) = (distinct(&values, 1, 4), share(&values));
        assert_eq!([one.low, one.value, one.high], [pass.low, pass.value, pass.high]);
        let four = distinct(&values.map(|value| 4.0 * value), 4, 4);
        assert!((four.low - 4.0 * pass.low).abs() < 1e-12 && four.high <= 4.0);
        // Six problems, each with one answer in 4 of 8 samples, or 5 once: at k = 4 these are nearly the same.
        let [equal, near] = [[4; 6], [4, 4, 4, 4, 4, 5]]
            .map(|correct| distinct(&correct.map(|c| pass_at_k(8, c, 4)), 1, 4));
        assert!((equal.low - near.low).abs() < 0.02 && near.high - near.low > 0.3, "{near:?}");
        for (value, most) in [(0.0, 8), (8.0, 8), (2.0, 8), (2.0, 2)] {
            let estimate = distinct(&[value; 6], most, 8);
            assert!(estimate.value == value && estimate.high - estimate.low > 0.5, "{estimate:?}");
        }
        let solved = effective(&[1.0; 6]);
        assert!(solved.low == 1.0 && solved.high > 1.4 && solved.high < 2.0, "{solved:?}");
        assert!(amount(&[0.0; 6]).high > 0.4 && amount(&[3.0, 5.0]).high <= 5.0);
    }

    #[test]
    fn large_samples_give_the_binomial_interval() {
        let values: Vec<f64> = (0..400).map(|i| f64::from(i % 4 == 0)).collect();
        let half = 1.96 * (0.25_f64 * 0.75 / 400.0).sqrt();
        for estimate in [share(&values), mean(&values), amount(&values)] {
            assert_eq!(estimate.value, 0.25);
            assert!((estimate.low - (0.25 - half)).abs() < 0.005, "{estimate:?}");
            assert!((estimate.high - (0.25 + half)).abs() < 0.005, "{estimate:?}");
        }
    }
}
