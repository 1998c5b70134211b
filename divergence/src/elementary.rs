//! Elementary functions with the same bits on every system.
//!
//! The functions of `std` are those of the system's C library, which differ in last bits between Linux, macOS and
//! Windows, and even between processors under one system. The `libm` crate is plain Rust. Functions of f32 are computed
//! in f64 and rounded once.

use candle_core::backend::BackendStorage;
use candle_core::{CpuStorage, CustomOp1, Error, Layout, Result, Shape, Tensor};

/// The natural logarithm.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    libm::log(f64::from(x)) as f32
}

/// `log(1 + x)`.
pub fn ln_1p(x: f32) -> f32 {
    libm::log1p(f64::from(x)) as f32
}

/// `x^power`.
pub fn powf(x: f32, power: f32) -> f32 {
    libm::pow(f64::from(x), f64::from(power)) as f32
}

/// Sine and cosine of an angle in radians.
pub fn sin_cos(x: f32) -> (f32, f32) {
    let (sin, cos) = libm::sincos(f64::from(x));
    (sin as f32, cos as f32)
}

/// A function of every value of a tensor, with its gradient.
#[derive(Debug, Clone, Copy)]
pub enum Elementwise {
    /// `e^x`.
    Exp,
    /// The natural logarithm.
    Log,
    /// The hyperbolic tangent.
    Tanh,
}

impl Elementwise {
    /// The function of a tensor of f32 or f64: by `libm` on the CPU, by the device's own library elsewhere.
    pub fn apply(self, x: &Tensor) -> Result<Tensor> {
        if x.device().is_cpu() {
            return x.contiguous()?.apply_op1(self);
        }
        match self {
            Self::Exp => x.exp(),
            Self::Log => x.log(),
            Self::Tanh => x.tanh(),
        }
    }

    fn value(self, x: f64) -> f64 {
        match self {
            Self::Exp => libm::exp(x),
            Self::Log => libm::log(x),
            Self::Tanh => libm::tanh(x),
        }
    }
}

impl CustomOp1 for Elementwise {
    fn name(&self) -> &'static str {
        "elementwise"
    }

    fn cpu_fwd(&self, storage: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let Some((start, end)) = layout.contiguous_offsets() else {
            return Err(Error::RequiresContiguous { op: self.name() });
        };
        let values = match storage {
            CpuStorage::F32(x) => CpuStorage::F32(
                x[start..end].iter().map(|x| self.value(f64::from(*x)) as f32).collect(),
            ),
            CpuStorage::F64(x) => {
                CpuStorage::F64(x[start..end].iter().map(|x| self.value(*x)).collect())
            }
            _ => return Err(Error::Msg(format!("{self:?} of {:?}", storage.dtype()))),
        };
        Ok((values, layout.shape().clone()))
    }

    fn bwd(&self, x: &Tensor, value: &Tensor, slope: &Tensor) -> Result<Option<Tensor>> {
        Ok(Some(match self {
            // (e^x)' = e^x, (log x)' = 1 / x, (tanh x)' = 1 - tanh^2 x; the first and the last read the value, not x.
            Self::Exp => (slope * value)?,
            Self::Log => (slope / x)?,
            Self::Tanh => (slope * (1.0 - value.sqr()?)?)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;

    #[test]
    fn functions_of_f32_are_rounded_once() {
        for i in 1..2000 {
            let x = i as f32 * 0.013;
            let wide = f64::from(x);
            let close = |ours: f32, exact: f64| {
                // Half of the distance between neighbours, and a little for f64's own error.
                let half = f64::from(f32::EPSILON) * exact.abs() * 0.5001;
                assert!((f64::from(ours) - exact).abs() <= half, "{x}: {ours} for {exact}");
            };
            close(ln(x), wide.ln());
            close(ln_1p(x), wide.ln_1p());
            close(powf(x, 0.3), wide.powf(f64::from(0.3f32)));
            close(sin_cos(x).0, wide.sin());
            close(sin_cos(x).1, wide.cos());
        }
    }

    #[test]
    fn values_and_gradients_equal_candles() {
        // A transposed view, so that the layout is not contiguous.
        let x: Vec<f64> = (0..6).map(|i| 0.1 + 0.37 * f64::from(i)).collect();
        let x = Var::from_tensor(&Tensor::from_vec(x, (2, 3), &Device::Cpu).unwrap()).unwrap();
        let theirs: [fn(&Tensor) -> Result<Tensor>; 3] = [Tensor::exp, Tensor::log, Tensor::tanh];
        for (ours, theirs) in
            [Elementwise::Exp, Elementwise::Log, Elementwise::Tanh].into_iter().zip(theirs)
        {
            let both = [ours.apply(&x.t().unwrap()), theirs(&x.t().unwrap())].map(|y| {
                let y = y.unwrap();
                let weighted = (&y * &x.t().unwrap().detach()).unwrap().sum_all().unwrap();
                let gradients = weighted.backward().unwrap();
                [y, gradients.get(&x).unwrap().t().unwrap()]
            });
            let [ours_of, theirs_of] = both;
            for (a, b) in ours_of.iter().zip(&theirs_of) {
                let gap = (a - b).unwrap().abs().unwrap().max_all().unwrap();
                assert!(gap.to_scalar::<f64>().unwrap() < 1e-12, "{ours:?}");
            }
        }
    }
}
