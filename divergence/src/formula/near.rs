//! The power series of a formula for `t` near 1, as far as it is exact, for the digits of either kind of number.

use super::series::Series;
use crate::Number;

/// A series around `x = 0` and how far it holds.
#[derive(Debug)]
pub(super) struct Near {
    /// The series replaces the formula where the size of x is below this; 0 for never.
    pub(super) limit: f64,
    /// Coefficients from `x^1` on: the mean of the two sides.
    mean: Vec<f64>,
    /// Half of the right side's less half of the left's; empty without a kink.
    odd: Vec<f64>,
}

impl Near {
    /// From the series of the left and the right side, with errors of the share `precision` at most.
    pub(super) fn new([left, right]: &[Series; 2], precision: f64) -> Self {
        let known = left.len().min(right.len());
        let size = |n: usize| n as f64 * left[n].abs().max(right[n].abs());
        let fits = |limit: f64| {
            let lead = (1..4).map(|n| size(n) * limit.powi(n as i32)).fold(0.0, f64::max);
            let terms: Vec<f64> = (0..known).map(|n| size(n) * limit.powi(n as i32)).collect();
            // Terms are dropped from the end while all that is dropped stays small.
            let (mut count, mut dropped) = (known, 0.0);
            while count > 2 && dropped + terms[count - 1] <= precision * lead {
                dropped += terms[count - 1];
                count -= 1;
            }
            // Some must have been dropped, or the terms that are not known may matter as well.
            (count + 4 <= known && dropped.is_finite()).then_some((limit, count))
        };
        let (limit, count) =
            [0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02].into_iter().find_map(fits).unwrap_or((0.0, 2));
        let half =
            |by: f64| -> Vec<f64> { (1..count).map(|n| 0.5 * (right[n] + by * left[n])).collect() };
        let odd = half(-1.0);
        let has_kink = odd.iter().any(|one| *one != 0.0);
        Self { limit, mean: half(1.0), odd: if has_kink { odd } else { vec![] } }
    }

    #[inline(always)]
    pub(super) fn value<N: Number>(&self, x: &N) -> N {
        self.both_sides(x, |coefficients| horner(x, coefficients, |_, c| c) * x.clone())
    }

    /// The derivative at `x`.
    #[inline(always)]
    pub(super) fn slope<N: Number>(&self, x: &N) -> N {
        self.both_sides(x, |coefficients| horner(x, coefficients, |n, c| n as f64 * c))
    }

    #[inline(always)]
    fn both_sides<N: Number>(&self, x: &N, sum: impl Fn(&[f64]) -> N) -> N {
        let mean = sum(&self.mean);
        if self.odd.is_empty() { mean } else { mean + x.clone().sign() * sum(&self.odd) }
    }
}

/// `c_1 + c_2 x + c_3 x^2 + ..`, each coefficient changed by its number.
#[inline(always)]
fn horner<N: Number>(x: &N, coefficients: &[f64], scaled: impl Fn(usize, f64) -> f64) -> N {
    let at = |index: usize| scaled(index + 1, coefficients[index]);
    let last = coefficients.len() - 1;
    let mut sum = x.clone().affine(0.0, at(last));
    for index in (0..last).rev() {
        sum = (sum * x.clone()).affine(1.0, at(index));
    }
    sum
}
