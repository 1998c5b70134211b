//! Pointwise losses as tensor operations, for GPUs: what `pointwise` computes in f64 on the host, without leaving the
//! device. In f32, stable near 0 and far from it.

use candle_core::{Result, Tensor};

use super::pointwise::PointwiseLoss;
use crate::divergence::{MAX_LOG_RATIO, OnDevice};

/// The loss at every element of `x`, with its gradient.
pub(super) fn of(loss: PointwiseLoss, x: &Tensor) -> Result<Tensor> {
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

#[cfg(test)]
mod tests {
    use candle_core::{Device, Var};

    use super::*;
    use crate::divergence::Divergence;

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
