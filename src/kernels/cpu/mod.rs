//! CPU kernels over contiguous f32 rows, parallel over rows with rayon.
//!
//! Every reduction has a fixed order that does not depend on the number of threads, so results are
//! the same bits from run to run.

pub(crate) mod attention;
pub(crate) mod logp;
mod math;
pub(crate) mod rms_norm;
pub(crate) mod rope;
pub(crate) mod swiglu;

use candle_core::{CpuStorage, Layout, Result, Tensor, bail};

/// The values of a contiguous f32 operand.
pub(crate) fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (layout.contiguous_offsets(), storage.as_slice::<f32>()) {
        (Some((start, end)), Ok(values)) => Ok(&values[start..end]),
        (None, _) => bail!("kernel operand {:?} is not contiguous", layout.shape()),
        (_, Err(error)) => Err(error),
    }
}

/// Runs `read` on the values of a CPU tensor, made contiguous first.
pub(crate) fn with_values<R>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        candle_core::Storage::Cpu(storage) => read(values(storage, layout)?),
        _ => bail!("a CPU kernel was given a tensor of {:?}", tensor.device()),
    }
}

/// A tensor of `values` with the shape of `like`, on its device.
fn shaped_like(values: Vec<f32>, like: &Tensor) -> Result<Tensor> {
    Tensor::from_vec(values, like.shape(), like.device())
}

/// Writes `exp((logits - max) * inverse_temperature)` to `out` and returns its sum; the largest
/// value written is 1.
pub(crate) fn exp_row(logits: &[f32], inverse_temperature: f32, out: &mut [f32]) -> f32 {
    math::simd(|| {
        let top = math::max(logits);
        for (out, x) in out.iter_mut().zip(logits) {
            *out = math::exp((x - top) * inverse_temperature);
        }
        math::sum_of(out, |mass| mass)
    })
}
