//! Scalar functions of a log-ratio as losses over tensors `[N]` or `[n, V]`.
//!
//! On the CPU a loss is computed in f64, element by element: what is differentiated is exactly the scalar function that
//! the tests check. On a GPU it is computed in f32 by tensor operations, stable near 0 and far from it, without leaving
//! the device; the tests compare the two.

use std::f64::consts::LN_2;

use candle_core::{CpuStorage, CustomOp1, Device, Layout, Result, Shape, Tensor, bail};
use rayon::prelude::*;

use tealight_divergence::{Divergence, MAX_LOG_RATIO, Number, OnDevice};

/// A function of `x = log(pi / p)` of one token or one completion.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PointwiseLoss {
    /// The generator `f`, for samples of the anchor: rehearsal, and the sum over a vocabulary.
    Generator(Divergence),
    /// `f(u) - f'(inf) (u - 1)` where that limit is finite, else `f`: for samples of a target that
    /// gives no mass to some outputs. `E_p` of it is the whole divergence, the policy's mass outside
    /// the target's support included; for forward KL it is `-log u`, supervised fine-tuning.
    Matching(Divergence),
    /// `x^2 / 2`, Schulman's k2: on policy samples its gradient is that of reverse KL.
    K2,
    /// `e^-x - 1 + x`, Schulman's k3: its value is reverse KL, its gradient that of **forward** KL.
    K3,
    /// `(u - 1) / 2 - log((1 + u) / 2)` on samples of the base: KL(base || M), M the mean of both.
    /// With [`PointwiseLoss::MixturePolicy`], DPH-RL's "definition" form of JS.
    MixtureBase,
    /// `r - 1 - log r`, `r = M / pi`, on samples of the policy: the value of KL(pi || M).
    MixturePolicy,
}

impl PointwiseLoss {
    /// Whether it is flat beyond [`MAX_LOG_RATIO`]: all are but supervised fine-tuning, which exponentiates nothing.
    pub fn is_cut(self) -> bool {
        !matches!(self, PointwiseLoss::Matching(one) if one.equals(Divergence::ForwardKl))
    }

    /// The value at `x`.
    pub fn value(self, x: f64) -> f64 {
        self.value_inside(if self.is_cut() { x.min(MAX_LOG_RATIO) } else { x })
    }

    /// Its derivative in `x`; 0 where the loss is flat.
    pub fn slope(self, x: f64) -> f64 {
        if self.is_cut() && x > MAX_LOG_RATIO { 0.0 } else { self.slope_inside(x) }
    }

    /// The value where nothing is cut.
    fn value_inside<N: Number>(self, x: N) -> N {
        match self {
            PointwiseLoss::Generator(divergence) => divergence.f(x),
            PointwiseLoss::Matching(divergence) => divergence.matching(x),
            PointwiseLoss::K2 => (x.clone() * x).affine(0.5, 0.0),
            // f of forward KL is e^x - 1 - x; k3 is the same of -x.
            PointwiseLoss::K3 => Divergence::ForwardKl.f(-x),
            PointwiseLoss::MixtureBase => mixture(x),
            PointwiseLoss::MixturePolicy => mixture(-x),
        }
    }

    /// Derivative in `x` where nothing is cut.
    fn slope_inside<N: Number>(self, x: N) -> N {
        match self {
            PointwiseLoss::Generator(divergence) => divergence.slope(x),
            PointwiseLoss::Matching(divergence) => divergence.matching_slope(x),
            PointwiseLoss::K2 => x,
            PointwiseLoss::K3 => -(-x).exp_m1(),
            PointwiseLoss::MixtureBase => mixture_slope(x),
            PointwiseLoss::MixturePolicy => -mixture_slope(-x),
        }
    }

    /// The pointwise loss at every element of `x`, with its gradient.
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        // A formula's own f'(inf) (t - 1) leaves few digits of f32 for large t, and completions are few numbers.
        let needs_f64 = matches!(self, PointwiseLoss::Matching(Divergence::Formula(_)));
        match (x.device().is_cpu(), needs_f64) {
            (true, _) => {
                let value = Elementwise { loss: self, function: Self::value };
                x.contiguous()?.apply_op1(value)
            }
            (false, true) => self.apply(&x.to_device(&Device::Cpu)?)?.to_device(x.device()),
            (false, false) => on_device(self, x),
        }
    }
}

/// The loss at every element of `x`, with its gradient, as operations of the device.
fn on_device(loss: PointwiseLoss, x: &Tensor) -> Result<Tensor> {
    let at = x.detach();
    let cut = match loss.is_cut() {
        true => OnDevice::log_ratios(&at, MAX_LOG_RATIO),
        false => OnDevice::new(at.clone()),
    };
    let mut slope = loss.slope_inside(cut.clone()).tensor()?;
    if loss.is_cut() {
        slope = (slope * at.le(MAX_LOG_RATIO)?.to_dtype(x.dtype())?)?;
    }
    // The value, and a term that is zero and has the slope as its gradient.
    loss.value_inside(cut).tensor()? + (slope * (x - at)?)?
}

/// `(u - 1) / 2 - log((1 + u) / 2)`.
fn mixture<N: Number>(x: N) -> N {
    x.clone().exp_m1().affine(0.5, LN_2) - x.softplus()
}

/// `u / 2 - u / (1 + u)`.
fn mixture_slope<N: Number>(x: N) -> N {
    // u / (1 + u) = exp(-log(1 + 1/u)), for every u.
    let logistic = (-(-x.clone()).softplus()).exp();
    x.exp().affine(0.5, 0.0) - logistic
}

/// The pointwise loss over a CPU tensor of f32 or f64, or its derivative, which is not differentiated again.
struct Elementwise {
    loss: PointwiseLoss,
    function: fn(PointwiseLoss, f64) -> f64,
}

impl CustomOp1 for Elementwise {
    fn name(&self) -> &'static str {
        "pointwise"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            bail!("a pointwise loss needs a contiguous tensor");
        };
        let at = |x: f64| (self.function)(self.loss, x);
        let mapped = match storage {
            CpuStorage::F32(values) => CpuStorage::F32(
                values[start..end].par_iter().map(|x| at(f64::from(*x)) as f32).collect(),
            ),
            CpuStorage::F64(values) => {
                CpuStorage::F64(values[start..end].par_iter().map(|x| at(*x)).collect())
            }
            _ => bail!("a pointwise loss needs f32 or f64"),
        };
        Ok((mapped, layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, _value: &Tensor, grad: &Tensor) -> Result<Option<Tensor>> {
        let slope = Self { loss: self.loss, function: PointwiseLoss::slope };
        Ok(Some((grad * x.detach().apply_op1_no_bwd(&slope)?)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Var;

    /// The losses of some divergences, and those that need none.
    fn losses(
        divergences: impl IntoIterator<Item = Divergence>,
    ) -> impl Iterator<Item = PointwiseLoss> {
        let both_losses = |divergence| {
            [PointwiseLoss::Generator(divergence), PointwiseLoss::Matching(divergence)]
        };
        let others = [
            PointwiseLoss::K2,
            PointwiseLoss::K3,
            PointwiseLoss::MixtureBase,
            PointwiseLoss::MixturePolicy,
        ];
        divergences.into_iter().flat_map(both_losses).chain(others)
    }

    fn every() -> impl Iterator<Item = PointwiseLoss> {
        losses(Divergence::all().chain(FORMULAS.map(|text| text.parse().unwrap())))
    }

    const FORMULAS: [&str; 3] = ["f=(t-1)^2/(t+1)", "f=t*log(t)+abs(t-1)", "f=(t-1)*log(t)"];

    #[test]
    fn gradients_are_those_of_finite_differences() {
        for pointwise in every() {
            let points = [-5.0, -0.7, -0.004, 0.003, 0.4, 2.5];
            let x = Var::new(&points, &Device::Cpu).unwrap();
            let value = pointwise.apply(x.as_tensor()).unwrap();
            let grads = value.sum_all().unwrap().backward().unwrap();
            let grads = grads.get(&x).unwrap().to_vec1::<f64>().unwrap();
            for ((x, grad), value) in points.iter().zip(grads).zip(value.to_vec1::<f64>().unwrap())
            {
                let step = 1e-6;
                let exact = (pointwise.value(x + step) - pointwise.value(x - step)) / (2.0 * step);
                assert!(
                    (grad - exact).abs() < 1e-6 * (1.0 + exact.abs()),
                    "{pointwise:?} at {x}: {grad} {exact}"
                );
                assert_eq!(value, pointwise.value(*x));
            }
        }
    }

    #[test]
    fn a_forgotten_token_keeps_its_pull_and_an_overgrown_one_is_bounded() {
        let forward = PointwiseLoss::Generator(Divergence::ForwardKl);
        assert_eq!(forward.slope(-60.0), -1.0);
        assert_eq!(PointwiseLoss::Matching(Divergence::ForwardKl).slope(-60.0), -1.0);
        assert_eq!((forward.slope(25.0), forward.value(25.0)), (0.0, forward.value(20.0)));
        // Supervised fine-tuning exponentiates nothing, and is cut nowhere.
        let supervised = PointwiseLoss::Matching(Divergence::ForwardKl);
        assert_eq!((supervised.slope(900.0), supervised.value(900.0)), (-1.0, -900.0));
        for pointwise in every() {
            assert!(
                pointwise.value(-30.0).is_finite() && pointwise.value(1000.0).is_finite(),
                "{pointwise:?}"
            );
        }
    }

    /// `E_p` of the matching loss, where `p` lacks an output, is the whole divergence.
    #[test]
    fn matching_counts_the_mass_outside_the_support() {
        let (target, policy) = ([0.7_f64, 0.3], [0.5_f64, 0.2, 0.3]);
        let formulas = FORMULAS.map(|text| text.parse::<Divergence>().unwrap());
        let all = Divergence::all().chain(formulas);
        for divergence in all.filter(|d| d.at_infinity().is_finite()) {
            let matching: f64 = target
                .iter()
                .zip(policy)
                .map(|(p, q)| p * PointwiseLoss::Matching(divergence).value((q / p).ln()))
                .sum();
            let inside: f64 =
                target.iter().zip(policy).map(|(p, q)| p * divergence.f((q / p).ln())).sum();
            let exact = inside + policy[2] * divergence.at_infinity();
            assert!((matching - exact).abs() < 1e-12, "{divergence}: {matching} {exact}");
        }
    }

    #[test]
    fn tensors_agree_with_the_scalar_definition() {
        let at = [
            -30.0_f64, -8.0, -2.0, -0.3, -0.05, -1e-3, 0.0, 1e-3, 0.09, 0.11, 1.0, 5.0, 19.0, 25.0,
        ];
        let narrow = at.map(|x| x as f32);
        for loss in losses(Divergence::all()) {
            let x = Var::new(&narrow, &Device::Cpu).unwrap();
            let values = on_device(loss, x.as_tensor()).unwrap();
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
