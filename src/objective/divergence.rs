//! f-divergences `D_f(pi || a) = E_a[f(pi / a)]` in log-ratio form, `x = log(pi / a)`.
//!
//! Forward KL is `KL(a || pi)` (mass-covering: the base's mass must not be lost), reverse KL is
//! `KL(pi || a)` (what RLVR calls "the KL"). JS is at its true scale, between 0 and log 2; DPH-RL's
//! code uses twice that, so its coefficient 0.2 is 0.4 here.

use candle_core::{Result, Tensor};

/// How far the policy is from the base.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    /// `KL(a || pi)`: `f = u - 1 - log u`.
    ForwardKl,
    /// `KL(pi || a)`: `f = u log u - u + 1`.
    ReverseKl,
    /// Jensen-Shannon: `f = (u log u - (u + 1) log((u + 1) / 2)) / 2`.
    Js,
}

impl Divergence {
    /// Every divergence, for tests and tables.
    pub const ALL: [Divergence; 3] = [Divergence::ForwardKl, Divergence::ReverseKl, Divergence::Js];

    /// `f(e^x)`, element by element, with its gradient; 0 at `x = 0` and never below.
    ///
    /// # Errors
    /// No memory.
    pub fn f(self, x: &Tensor) -> Result<Tensor> {
        match self {
            Divergence::ForwardKl => expm1(x)? - x,
            Divergence::ReverseKl => (x.exp()? * x)? - expm1(x)?,
            Divergence::Js => {
                // With log((u + 1) / 2) = x / 2 + log cosh(x / 2) nothing cancels near 0.
                let growth = expm1(x)?;
                let outer = (&growth * x)?.affine(0.5, 0.0)?;
                (outer - ((growth + 2.0)? * log_cosh(&x.affine(0.5, 0.0)?)?)?)? * 0.5
            }
        }
    }

    /// `f'(e^x)`: the cost, up to a constant, of a sample drawn from the policy.
    pub fn f_prime(self, x: f64) -> f64 {
        match self {
            Divergence::ForwardKl => -(-x).exp_m1(),
            Divergence::ReverseKl => x,
            Divergence::Js => {
                // log 2 - softplus(-x), with softplus written so that it never overflows.
                let softplus = (-x).max(0.0) + (-x.abs()).exp().ln_1p();
                0.5 * (std::f64::consts::LN_2 - softplus)
            }
        }
    }
}

/// `e^x - 1`. Near 0, where the difference would cancel, its series.
fn expm1(x: &Tensor) -> Result<Tensor> {
    // x (1 + x/2 (1 + x/3 (1 + x/4))) is exact to 1e-9 relative for |x| < 0.02.
    let series = x.affine(0.25, 1.0)?;
    let series = (x * series)?.affine(1.0 / 3.0, 1.0)?;
    let series = (x * series)?.affine(0.5, 1.0)?;
    let series = (x * series)?;
    let is_small = x.abs()?.lt(0.02)?;
    is_small.where_cond(&series, &(x.exp()? - 1.0)?)
}

/// `log(cosh(y))` without overflow; near 0 its series.
fn log_cosh(y: &Tensor) -> Result<Tensor> {
    let square = y.sqr()?;
    // y^2 / 2 (1 - y^2 / 6 (1 - 4 y^2 / 15)) is exact to 1e-9 relative for |y| < 0.02.
    let series = square.affine(-4.0 / 15.0, 1.0)?;
    let series = (&square * series)?.affine(-1.0 / 6.0, 1.0)?;
    let series = (&square * series)?.affine(0.5, 0.0)?;
    let size = y.abs()?;
    let decay = size.affine(-2.0, 0.0)?.exp()?;
    let far = ((&size + decay.affine(1.0, 1.0)?.log()?)? - std::f64::consts::LN_2)?;
    size.lt(0.02)?.where_cond(&series, &far)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{Device, Var};

    const BASE: [f64; 4] = [0.5, 0.3, 0.15, 0.05];

    fn softmax(logits: &[f64]) -> Vec<f64> {
        let total: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.iter().map(|x| x.exp() / total).collect()
    }

    /// By its textbook definition, not by `f`.
    fn exact(divergence: Divergence, logits: &[f64]) -> f64 {
        let policy = softmax(logits);
        let kl =
            |p: &[f64], q: &[f64]| -> f64 { p.iter().zip(q).map(|(p, q)| p * (p / q).ln()).sum() };
        match divergence {
            Divergence::ForwardKl => kl(&BASE, &policy),
            Divergence::ReverseKl => kl(&policy, &BASE),
            Divergence::Js => {
                let middle: Vec<f64> =
                    policy.iter().zip(BASE).map(|(p, a)| (p + a) / 2.0).collect();
                (kl(&policy, &middle) + kl(&BASE, &middle)) / 2.0
            }
        }
    }

    fn exact_gradient(divergence: Divergence, logits: &[f64]) -> Vec<f64> {
        let step = 1e-6;
        let shifted = |index: usize, by: f64| {
            let mut logits = logits.to_vec();
            logits[index] += by;
            exact(divergence, &logits)
        };
        (0..logits.len()).map(|i| (shifted(i, step) - shifted(i, -step)) / (2.0 * step)).collect()
    }

    const LOGITS: [f64; 4] = [0.3, -0.2, 1.1, -2.0];

    #[test]
    fn samples_of_the_base_estimate_value_and_gradient_exactly() {
        for divergence in Divergence::ALL {
            let logits = Var::new(&LOGITS, &Device::Cpu).unwrap();
            let logp = candle_nn::ops::log_softmax(logits.as_tensor(), 0).unwrap();
            let base = Tensor::new(&BASE, &Device::Cpu).unwrap();
            let x = (logp - base.log().unwrap()).unwrap();
            let value = (divergence.f(&x).unwrap() * base).unwrap().sum_all().unwrap();
            let error = value.to_scalar::<f64>().unwrap() - exact(divergence, &LOGITS);
            assert!(error.abs() < 1e-9, "{divergence:?} value is off by {error:e}");
            let grad = value.backward().unwrap().get(&logits).unwrap().to_vec1::<f64>().unwrap();
            for (ours, exact) in grad.iter().zip(exact_gradient(divergence, &LOGITS)) {
                assert!((ours - exact).abs() < 1e-8, "{divergence:?}: {ours} is not {exact}");
            }
        }
    }

    #[test]
    fn samples_of_the_policy_estimate_the_gradient_exactly() {
        for divergence in Divergence::ALL {
            let policy = softmax(&LOGITS);
            let exact = exact_gradient(divergence, &LOGITS);
            for (index, exact) in exact.iter().enumerate() {
                // grad log pi(y) of logit i is [y = i] - pi_i.
                let ours: f64 = (0..4)
                    .map(|y| {
                        let score = f64::from(y == index) - policy[index];
                        policy[y] * divergence.f_prime((policy[y] / BASE[y]).ln()) * score
                    })
                    .sum();
                assert!((ours - exact).abs() < 1e-8, "{divergence:?}: {ours} is not {exact}");
            }
        }
    }

    #[test]
    fn extreme_ratios_stay_finite_and_tiny_ones_do_not_cancel() {
        for divergence in Divergence::ALL {
            for x in [-50.0_f32, -20.0, -1e-4, 0.0, 1e-4, 20.0] {
                let value = divergence.f(&Tensor::new(&[x], &Device::Cpu).unwrap()).unwrap();
                let value = value.to_vec1::<f32>().unwrap()[0];
                assert!(value.is_finite() && value >= -1e-7, "{divergence:?} at {x}: {value}");
                assert!(divergence.f_prime(f64::from(x)).is_finite());
            }
            let tiny = Tensor::new(&[1e-3_f32], &Device::Cpu).unwrap();
            let value = divergence.f(&tiny).unwrap().to_vec1::<f32>().unwrap()[0];
            let scale = if divergence == Divergence::Js { 0.125 } else { 0.5 };
            assert!(
                (f64::from(value) / (scale * 1e-6) - 1.0).abs() < 0.2,
                "{divergence:?}: {value}"
            );
        }
    }
}
