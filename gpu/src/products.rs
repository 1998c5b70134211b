//! Products of matrices, by the device's library. That of a weight is written to the workspace of its operand, where it
//! is in one.

use candle_core::{DType, Result, Tensor};

use crate::counts::{self, made};
use crate::graph::{self, Identity};
use crate::workspace::{Array, Operand, new_empty};

/// `x w^T`, in the type of `x`, of `x` `[N, D]` and `w` `[M, D]`, which may be of another type.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn product(x: &dyn Operand, w: &Tensor) -> Result<Array> {
    let left = x.tensor();
    if w.dtype() != left.dtype() {
        graph::mark_uncapturable();
    }
    let w = w.to_dtype(left.dtype())?;
    if x.workspace().is_some() {
        return written(x, &w, left.dtype());
    }
    left.matmul(&w.t()?).map(made).map(Array::from)
}

/// The product `x w^T` in f32 of `x` `[N, D]` and `w` `[V, D]`. CUDA multiplies two bf16 matrices as they are and adds
/// up in f32, by a call that names its precision; elsewhere, and of f32, it is a product of f32 matrices. No flag of
/// the process is set, which another thread's products would read.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn wide_product(x: &dyn Operand, w: &Tensor) -> Result<Array> {
    let left = x.tensor();
    let are_halves = left.dtype() == DType::BF16 && w.dtype() == DType::BF16;
    if x.workspace().is_some() || are_halves && crate::multiplies_halves(left.device()) {
        return written(x, w, DType::F32);
    }
    let product = left.to_dtype(DType::F32)?.matmul(&w.to_dtype(DType::F32)?.t()?);
    product.map(made).map(Array::from)
}

/// `x w^T` in a type that is that of `x` or f32, in memory of the workspace of `x` where it is in one.
fn written(x: &dyn Operand, w: &Tensor, dtype: DType) -> Result<Array> {
    let out = new_empty(x, (x.tensor().dim(0)?, w.dim(0)?), dtype)?;
    let tensors = [x.tensor(), w, out.tensor()];
    if !(tensors[0].is_contiguous() && w.is_contiguous()) {
        // It is copied first.
        graph::mark_uncapturable();
    }
    let launch = || {
        counts::launched(counts::OF_CANDLE);
        multiply(tensors)
    };
    let (identity, record) = (
        || Identity::of_product(tensors),
        |replay: &mut graph::Replay| replay.add_product(tensors),
    );
    graph::launched(identity, record, launch)?;
    Ok(out)
}

/// Writes `x w^T` to `out`.
pub(crate) fn multiply([x, w, out]: [&Tensor; 3]) -> Result<()> {
    match x.device() {
        #[cfg(feature = "cuda")]
        candle_core::Device::Cuda(device) => crate::cuda::product(x, w, out, device),
        _ => {
            // Candle has no product that writes where it is told.
            let cast = |matrix: &Tensor| matrix.to_dtype(out.dtype());
            out.slice_set(&cast(x)?.matmul(&cast(w)?.t()?)?, 0, 0)
        }
    }
}

/// `grad w`, the gradient of the `x` of [`product`] for that of its result.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn product_back(grad: &dyn Operand, w: &Tensor) -> Result<Array> {
    let grad = grad.tensor();
    grad.matmul(&w.to_dtype(grad.dtype())?).map(made).map(Array::from)
}

/// `grad^T x`, the gradient of the `w` of [`product`] for that of its result: a tensor that nobody else holds.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn weight_back(grad: &dyn Operand, x: &dyn Operand) -> Result<Tensor> {
    grad.tensor().t()?.matmul(x.tensor()).map(made)
}
