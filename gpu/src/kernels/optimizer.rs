//! The optimizer.

use candle_core::{DType, Result, Tensor};

use super::{expect, launch};
use crate::counts::download;
use crate::empty;
use crate::sizes::{self, ELEMENTS};

/// The values of a tensor whose squares [`squares`] adds to one sum.
pub const SQUARES: usize = sizes::SQUARES;

/// The numbers of a step of AdamW, in the order in which they are used.
#[derive(Debug, Clone, Copy)]
pub struct AdamW {
    /// The factor of the gradient.
    pub scale: f32,
    /// Shares of the old and the new mean.
    pub beta1: [f32; 2],
    /// Shares of the old and the new mean square.
    pub beta2: [f32; 2],
    /// The learning rate over the mean's correction.
    pub rate: f32,
    /// One over the mean square's correction.
    pub correct_2: f32,
    /// Added to the root of the mean square.
    pub epsilon: f32,
    /// The factor of weights before the step.
    pub keep: f32,
}

/// One step on f32 `weight` with its moments and its gradient, all of one size, in place.
pub fn adamw(step: AdamW, weight: &Tensor, moments: [&Tensor; 2], gradient: &Tensor) -> Result<()> {
    let count = weight.elem_count();
    let [mean, square] = moments;
    for tensor in [weight, mean, square, gradient] {
        expect(tensor, DType::F32, count, "adamw")?;
    }
    let AdamW { scale, beta1, beta2, rate, correct_2, epsilon, keep } = step;
    let floats = [scale, beta1[0], beta1[1], beta2[0], beta2[1], rate, correct_2, epsilon, keep]
        .map(f64::from);
    let tensors = [weight, mean, square, gradient];
    launch("adamw", None, count.div_ceil(ELEMENTS), &tensors, &[count], &floats)
}

/// The sums of the squares of every [`SQUARES`] values of each of `tensors`, f32 on one device, in their order; fewer
/// values are left at the end of a tensor.
///
/// # Errors
/// Types that are not f32, no memory, the device's.
pub fn squares(tensors: &[&Tensor]) -> Result<Vec<f64>> {
    let groups = |x: &Tensor| x.elem_count().div_ceil(SQUARES);
    let Some(first) = tensors.first() else { return Ok(Vec::new()) };
    let parts =
        empty(tensors.iter().map(|x| groups(x)).sum::<usize>(), DType::F32, first.device())?;
    let mut at = 0;
    for x in tensors {
        expect(x, DType::F32, x.elem_count(), "squares")?;
        launch("squares", None, groups(x), &[x, &parts], &[x.elem_count(), at], &[])?;
        at += groups(x);
    }
    // Added up by the host in f64: a million partial sums of one sign would lose digits in f32.
    Ok(download::<f32>(&parts)?.into_iter().map(f64::from).collect())
}
