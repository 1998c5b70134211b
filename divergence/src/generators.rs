//! Generators and their slopes in the log-ratio `x`, `u = e^x`, for every kind of number.

use std::f64::consts::LN_2;

use super::{Divergence, Number};

impl Divergence {
    /// `f(e^x)`: 0 at `x = 0` and never below; `x` may be minus infinity (the policy has lost `y`).
    #[inline(always)]
    pub fn f<N: Number>(self, x: N) -> N {
        let lost = || x.clone().exp_m1();
        match self {
            // e^x - 1 - x: two numbers near x whose difference is near x^2 / 2, so that small x takes the series.
            Divergence::ForwardKl => near_zero(&x, 0.0, lost() - x.clone()),
            Divergence::ReverseKl => near_zero(&x, 1.0, x.clone().exp().times(x.clone()) - lost()),
            Divergence::Js => {
                // With log((u + 1) / 2) = x / 2 + log cosh(x / 2) nothing cancels near 0.
                let cosh = log_cosh(x.clone().affine(0.5, 0.0));
                let u = x.clone().exp();
                let near =
                    lost().affine(0.5, 0.0).times(x.clone()) - u.clone().affine(1.0, 1.0) * cosh;
                // u (log 2 - log(1 + 1/u)) - log((1 + u) / 2): far from 0 `near` is the difference of two terms of size
                // u x / 2.
                let far = u.times(js_slope(x.clone())) - x.clone().softplus().affine(1.0, -LN_2);
                x.below(1.0, near, far).affine(0.5, 0.0)
            }
            Divergence::Alpha(alpha) => {
                // u^alpha - 1 - alpha (u - 1), over alpha (alpha - 1).
                let direct = x.clone().affine(alpha, 0.0).exp_m1() - lost().affine(alpha, 0.0);
                near_zero(&x, alpha, direct.affine(1.0 / (alpha * (alpha - 1.0)), 0.0))
            }
            Divergence::TotalVariation => lost().abs().affine(0.5, 0.0),
            // -(u - 1)(1/u - 1) = (u - 1)^2 / u, which is infinite at u = 0 and not 0/0.
            Divergence::ForwardChiSquared => -(lost() * (-x).exp_m1()),
            Divergence::ReverseChiSquared => lost() * lost(),
            Divergence::Hellinger => {
                let root = x.affine(0.5, 0.0).exp_m1();
                (root.clone() * root).affine(0.5, 0.0)
            }
            Divergence::Formula(formula) => formula.f(x),
        }
    }

    /// `d f(e^x) / dx = u f'(u)`: what a sample of the anchor pulls with.
    #[inline(always)]
    pub fn slope<N: Number>(self, x: N) -> N {
        let u = || x.clone().exp();
        match self {
            Divergence::ForwardKl => x.exp_m1(),
            Divergence::ReverseKl => u().times(x),
            Divergence::Js => u().times(js_slope(x)).affine(0.5, 0.0),
            Divergence::Alpha(alpha) => {
                // (u - u^alpha) / (1 - alpha) as u^alpha expm1((1 - alpha) x): nothing cancels near u = 1.
                let power = x.clone().affine(alpha, 0.0).exp();
                power.times(x.affine(1.0 - alpha, 0.0).exp_m1()).affine(1.0 / (1.0 - alpha), 0.0)
            }
            Divergence::TotalVariation => (u() * x.sign()).affine(0.5, 0.0),
            Divergence::ForwardChiSquared => x.clone().exp_m1() - (-x).exp_m1(),
            Divergence::ReverseChiSquared => u().times(x.exp_m1()).affine(2.0, 0.0),
            Divergence::Hellinger => {
                let half = x.affine(0.5, 0.0);
                (half.clone().exp() * half.exp_m1()).affine(0.5, 0.0)
            }
            Divergence::Formula(formula) => formula.slope(x),
        }
    }

    /// `f(u) - f'(inf) (u - 1)` where that limit is finite, else `f(u)`, put so that large `u` do not cancel.
    #[inline(always)]
    pub fn matching<N: Number>(self, x: N) -> N {
        match self {
            Divergence::ForwardKl => -x,
            Divergence::Js => {
                // log 2 - (u log(1 + 1/u) + log(1 + u)) / 2: u log u has cancelled against f'(inf) (u - 1).
                let both = x.clone().exp().times((-x.clone()).softplus()) + x.softplus();
                both.affine(-0.5, LN_2)
            }
            Divergence::Alpha(alpha) if alpha < 1.0 => {
                // (u^alpha - 1) / (alpha (alpha - 1)): the terms linear in u cancel.
                x.affine(alpha, 0.0).exp_m1().affine(1.0 / (alpha * (alpha - 1.0)), 0.0)
            }
            // -(u - 1) below 1, nothing above.
            Divergence::TotalVariation => {
                let lost = x.exp_m1();
                (lost.clone().abs() - lost).affine(0.5, 0.0)
            }
            // 1/u - 1, and below it 1 - sqrt(u).
            Divergence::ForwardChiSquared => (-x).exp_m1(),
            Divergence::Hellinger => -x.affine(0.5, 0.0).exp_m1(),
            Divergence::Formula(formula) => formula.matching(x),
            Divergence::Alpha(_) | Divergence::ReverseKl | Divergence::ReverseChiSquared => {
                self.f(x)
            }
        }
    }

    /// The derivative of [`Divergence::matching`] in `x`.
    #[inline(always)]
    pub fn matching_slope<N: Number>(self, x: N) -> N {
        match self {
            Divergence::ForwardKl => x.affine(0.0, -1.0),
            // -u log(1 + 1/u) / 2: the two terms u / (1 + u) of the derivative cancel.
            Divergence::Js => x.clone().exp().times((-x).softplus()).affine(-0.5, 0.0),
            Divergence::Alpha(alpha) if alpha < 1.0 => {
                x.affine(alpha, 0.0).exp().affine(1.0 / (alpha - 1.0), 0.0)
            }
            // From -u below 0 to 0 above, and halfway at 0.
            Divergence::TotalVariation => {
                (x.clone().exp() * x.sign().affine(1.0, -1.0)).affine(0.5, 0.0)
            }
            Divergence::ForwardChiSquared => -(-x).exp(),
            Divergence::Hellinger => x.affine(0.5, 0.0).exp().affine(-0.5, 0.0),
            Divergence::Formula(formula) => formula.matching_slope(x),
            Divergence::Alpha(_) | Divergence::ReverseKl | Divergence::ReverseChiSquared => {
                self.slope(x)
            }
        }
    }
}

/// Amari's generator by `sum_{n >= 2} x^n / n! (1 + alpha + ... + alpha^(n-2))` where `x` is small, else `direct`.
#[inline(always)]
fn near_zero<N: Number>(x: &N, alpha: f64, direct: N) -> N {
    // (alpha^n - alpha) / (alpha (alpha - 1)) is this geometric sum, which has no pole at 0 and 1.
    let (mut geometric, mut coefficients) = (0.0, [0.0; 7]);
    let mut factorial = 1.0;
    for (place, coefficient) in coefficients.iter_mut().enumerate() {
        factorial *= (place + 2) as f64;
        geometric = geometric * alpha + 1.0;
        *coefficient = geometric / factorial;
    }
    // By Horner, from the highest power.
    let mut series = x.clone().affine(coefficients[6], coefficients[5]);
    for coefficient in coefficients[..5].iter().rev() {
        series = (series * x.clone()).affine(1.0, *coefficient);
    }
    let series = series * x.clone() * x.clone();
    x.clone().below(N::SERIES, series, direct)
}

/// `f'` of JS without its half: `log 2 - log(1 + 1 / u)`.
#[inline(always)]
pub(super) fn js_slope<N: Number>(x: N) -> N {
    (-x).softplus().affine(-1.0, LN_2)
}

/// `log(cosh(y))` without overflow or cancellation.
#[inline(always)]
fn log_cosh<N: Number>(y: N) -> N {
    let square = y.clone() * y.clone();
    // y^2 / 2 - y^4 / 12 + y^6 / 45.
    let series = square.clone() * square.clone().affine(1.0 / 45.0, -1.0 / 12.0);
    let series = square * series.affine(1.0, 0.5);
    // log((e^y + e^-y) / 2) = log(1 + e^2y) - y - log 2.
    let direct = y.clone().affine(2.0, 0.0).softplus() - y.clone();
    y.below(N::SERIES, series, direct.affine(1.0, -LN_2))
}
