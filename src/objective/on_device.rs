//! Pointwise losses as tensor operations, for GPUs: what `pointwise` computes in f64 on the host, without leaving the
//! device. In f32, stable near 0 and far from it.

use candle_core::{Result, Tensor};

use super::Divergence;
use super::pointwise::{MAX_LOG_RATIO, PointwiseLoss};

/// Below this size of `x` power series replace what would cancel.
const SERIES: f64 = 0.1;
/// Log-ratios are no lower here: `e^x` is nothing to f32 well before.
const LOWEST: f64 = -100.0;

/// The loss at every element of `x`, with its gradient.
pub(super) fn of(loss: PointwiseLoss, x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    let inside = at.le(MAX_LOG_RATIO)?.to_dtype(x.dtype())?;
    let cut = if loss.is_cut() { at.clamp(LOWEST, MAX_LOG_RATIO)? } else { at.clone() };
    let mut slope = slope(loss, &cut)?;
    if loss.is_cut() {
        slope = (slope * inside)?;
    }
    // The value, and a term that is zero and has the slope as its gradient.
    value(loss, &cut)? + (slope * (x - at)?)?
}

fn value(loss: PointwiseLoss, x: &Tensor) -> Result<Tensor> {
    match loss {
        PointwiseLoss::Generator(divergence) => generator(divergence, x),
        PointwiseLoss::Matching(divergence) => matching(divergence, x),
        PointwiseLoss::K2 => x.sqr()? * 0.5,
        PointwiseLoss::K3 => generator(Divergence::ForwardKl, &x.neg()?),
        PointwiseLoss::MixtureBase => mixture(x),
        PointwiseLoss::MixturePolicy => mixture(&x.neg()?),
    }
}

fn slope(loss: PointwiseLoss, x: &Tensor) -> Result<Tensor> {
    match loss {
        PointwiseLoss::Generator(divergence) => generator_slope(divergence, x),
        PointwiseLoss::Matching(divergence) => matching_slope(divergence, x),
        PointwiseLoss::K2 => Ok(x.clone()),
        PointwiseLoss::K3 => exp_m1(&x.neg()?)?.neg(),
        PointwiseLoss::MixtureBase => mixture_slope(x),
        PointwiseLoss::MixturePolicy => mixture_slope(&x.neg()?)?.neg(),
    }
}

/// `(u - 1) / 2 - log((1 + u) / 2)`.
fn mixture(x: &Tensor) -> Result<Tensor> {
    (exp_m1(x)? * 0.5)? - (softplus(x)? - std::f64::consts::LN_2)?
}

fn mixture_slope(x: &Tensor) -> Result<Tensor> {
    (x.exp()? * 0.5)? - x.neg()?.exp()?.affine(1.0, 1.0)?.recip()?
}

fn generator(divergence: Divergence, x: &Tensor) -> Result<Tensor> {
    let (u, u_1) = (x.exp()?, exp_m1(x)?);
    match divergence {
        Divergence::ForwardKl => near_zero(x, 0.0, (u_1 - x)?),
        Divergence::ReverseKl => near_zero(x, 1.0, ((u * x)? - u_1)?),
        Divergence::Js => {
            let half = (x * 0.5)?;
            ((u_1 * &half)? - (u.affine(1.0, 1.0)? * log_cosh(&half)?)?)? * 0.5
        }
        Divergence::Alpha(alpha) => {
            let direct = (exp_m1(&(x * alpha)?)? - (u_1 * alpha)?)?;
            near_zero(x, alpha, (direct / (alpha * (alpha - 1.0)))?)
        }
        Divergence::TotalVariation => u_1.abs()? * 0.5,
        Divergence::ForwardChiSquared => u_1.sqr()? / u,
        Divergence::ReverseChiSquared => u_1.sqr(),
        Divergence::Hellinger => exp_m1(&(x * 0.5)?)?.sqr()? * 0.5,
    }
}

fn generator_slope(divergence: Divergence, x: &Tensor) -> Result<Tensor> {
    let u = x.exp()?;
    match divergence {
        Divergence::ForwardKl => exp_m1(x),
        Divergence::ReverseKl => u * x,
        Divergence::Js => (u * (softplus(&x.neg()?)?.neg()? + std::f64::consts::LN_2)?)? * 0.5,
        Divergence::Alpha(alpha) => (u * exp_m1(&(x * (alpha - 1.0))?)?)? / (alpha - 1.0),
        Divergence::TotalVariation => (u * x.sign()?)? * 0.5,
        Divergence::ForwardChiSquared => exp_m1(x)? - exp_m1(&x.neg()?)?,
        Divergence::ReverseChiSquared => (u * exp_m1(x)?)? * 2.0,
        Divergence::Hellinger => {
            let half = (x * 0.5)?;
            (half.exp()? * exp_m1(&half)?)? * 0.5
        }
    }
}

/// `f(u) - f'(inf) (u - 1)`, put so that large `u` do not cancel.
fn matching(divergence: Divergence, x: &Tensor) -> Result<Tensor> {
    match divergence {
        Divergence::ForwardKl => x.neg(),
        Divergence::Js => {
            let both = ((x.exp()? * softplus(&x.neg()?)?)? + softplus(x)?)?;
            both.affine(-0.5, std::f64::consts::LN_2)
        }
        Divergence::Alpha(alpha) if alpha < 1.0 => exp_m1(&(x * alpha)?)? / (alpha * (alpha - 1.0)),
        Divergence::TotalVariation => exp_m1(x)?.neg()?.relu(),
        Divergence::ForwardChiSquared => exp_m1(&x.neg()?),
        Divergence::Hellinger => exp_m1(&(x * 0.5)?)?.neg(),
        Divergence::Alpha(_) | Divergence::ReverseKl | Divergence::ReverseChiSquared => {
            generator(divergence, x)
        }
    }
}

fn matching_slope(divergence: Divergence, x: &Tensor) -> Result<Tensor> {
    match divergence {
        Divergence::ForwardKl => x.ones_like()?.neg(),
        Divergence::Js => (x.exp()? * softplus(&x.neg()?)?)? * -0.5,
        Divergence::Alpha(alpha) if alpha < 1.0 => (x * alpha)?.exp()? / (alpha - 1.0),
        // From -u below 0 to 0 above, and halfway at 0.
        Divergence::TotalVariation => (x.exp()? * (x.sign()? - 1.0)?)? * 0.5,
        Divergence::ForwardChiSquared => x.neg()?.exp()?.neg(),
        Divergence::Hellinger => (x * 0.5)?.exp()? * -0.5,
        Divergence::Alpha(_) | Divergence::ReverseKl | Divergence::ReverseChiSquared => {
            generator_slope(divergence, x)
        }
    }
}

/// Amari's generator by its series where `x` is small, else `direct`.
fn near_zero(x: &Tensor, alpha: f64, direct: Tensor) -> Result<Tensor> {
    let (mut term, mut geometric) = (x.clone(), 0.0);
    let mut total = x.zeros_like()?;
    for n in 2..=8 {
        term = ((term * x)? / f64::from(n))?;
        geometric = geometric * alpha + 1.0;
        total = (total + (&term * geometric)?)?;
    }
    x.abs()?.lt(SERIES)?.where_cond(&total, &direct)
}

/// `e^x - 1`, which tanh keeps exact near 0.
fn exp_m1(x: &Tensor) -> Result<Tensor> {
    (x * 0.5)?.tanh()? * x.exp()?.affine(1.0, 1.0)?
}

/// `log(1 + e^x)`.
fn softplus(x: &Tensor) -> Result<Tensor> {
    x.relu()? + log_1p(&x.abs()?.neg()?.exp()?)?
}

/// `log(1 + y)` for `y` from 0 to 1.
fn log_1p(y: &Tensor) -> Result<Tensor> {
    let series = (y * ((y * ((y / 3.0)? - 0.5)?)? + 1.0)?)?;
    y.lt(1e-2)?.where_cond(&series, &y.affine(1.0, 1.0)?.log()?)
}

/// `log(cosh(y))`.
fn log_cosh(y: &Tensor) -> Result<Tensor> {
    let square = y.sqr()?;
    let series = (&square * ((&square * (-1.0 / 12.0))? + 0.5)?)?;
    let size = y.abs()?;
    let direct = (&size + log_1p(&size.affine(-2.0, 0.0)?.exp()?)?)?;
    let direct = (direct - std::f64::consts::LN_2)?;
    size.lt(SERIES)?.where_cond(&series, &direct)
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    #[test]
    fn tensors_agree_with_the_scalar_definition() {
        let at = [
            -30.0_f64, -8.0, -2.0, -0.3, -0.05, -1e-3, 0.0, 1e-3, 0.09, 0.11, 1.0, 5.0, 19.0, 25.0,
        ];
        let narrow = at.map(|x| x as f32);
        let generators = Divergence::ALL
            .iter()
            .flat_map(|d| [PointwiseLoss::Generator(*d), PointwiseLoss::Matching(*d)]);
        let others = [
            PointwiseLoss::K2,
            PointwiseLoss::K3,
            PointwiseLoss::MixtureBase,
            PointwiseLoss::MixturePolicy,
        ];
        for loss in generators.chain(others) {
            let x = Var::new(&narrow, &Device::Cpu).unwrap();
            let values = of(loss, x.as_tensor()).unwrap();
            let slopes = values.sum_all().unwrap().backward().unwrap();
            let slopes: Vec<f32> = slopes.get(&x).unwrap().to_vec1().unwrap();
            let values: Vec<f32> = values.to_vec1().unwrap();
            for (index, x) in at.iter().enumerate() {
                for (ours, exact) in
                    [(values[index], loss.value(*x)), (slopes[index], loss.slope(*x))]
                {
                    let error = (f64::from(ours) - exact).abs();
                    assert!(error <= 3e-5 * exact.abs() + 2e-7, "{loss:?} at {x}: {ours}, {exact}");
                }
            }
        }
    }
}
