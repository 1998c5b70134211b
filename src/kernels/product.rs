//! Matrix products of tensors: ours on the CPU in f32, else Candle's.
//!
//! A weight is `[out, in]`. On the CPU a row of a result depends on that row of the operand alone, bit for
//! bit, where the processor has AVX-512.

use candle_core::{CpuStorage, CustomOp1, CustomOp2, DType, Layout, Result, Shape, Tensor};
pub use tealight_matmul::Precision;
use tealight_matmul::{Matrix, Packed, Right, product};

use super::cpu::{values, with_values};

/// Packs a weight `[out, in]` on the CPU for many products, into the words that `room` gives.
pub(crate) fn packed(
    weight: &Tensor,
    precision: Precision,
    room: impl FnOnce(usize) -> Vec<u32>,
) -> Result<Packed> {
    let (out, inner) = weight.dims2()?;
    with_values(weight, |values| {
        Ok(Packed::within(Matrix::new(values, out, inner).transposed(), precision, room))
    })
}

/// `x` `[n, in]` and a packed weight to `[n, out]`, without a gradient.
pub(crate) fn with_packed(x: &Tensor, weight: &Packed) -> Result<Tensor> {
    x.contiguous()?.apply_op1_no_bwd(&WithPacked(weight))
}

struct WithPacked<'a>(&'a Packed);

impl CustomOp1 for WithPacked<'_> {
    fn name(&self) -> &'static str {
        "packed-product"
    }

    fn cpu_fwd(&self, x: &CpuStorage, layout: &Layout) -> Result<(CpuStorage, Shape)> {
        let (rows, inner) = layout.shape().dims2()?;
        let out = product(Matrix::new(values(x, layout)?, rows, inner), Right::Packed(self.0));
        let width = out.len() / rows.max(1);
        Ok((CpuStorage::F32(out), Shape::from((rows, width))))
    }
}

/// `x` `[n, in]` and a weight `[out, in]` to `[n, out]`, with its gradient.
pub(crate) fn linear(x: &Tensor, weight: &Tensor, precision: Precision) -> Result<Tensor> {
    if is_ours(x) {
        return x.contiguous()?.apply_op2(weight, Linear { precision });
    }
    x.matmul(&weight.t()?)
}

/// `x` `[n, k]` times `y` `[k, m]`, without a gradient.
pub(crate) fn times(x: &Tensor, y: &Tensor, precision: Precision) -> Result<Tensor> {
    if is_ours(x) {
        return x
            .contiguous()?
            .apply_op2_no_bwd(&y.contiguous()?, &Times { precision, is_transposed: false });
    }
    x.matmul(y)
}

/// `x` `[k, n]`, transposed, times `y` `[k, m]`, without a gradient: a weight's.
pub(crate) fn transposed_times(x: &Tensor, y: &Tensor, precision: Precision) -> Result<Tensor> {
    if is_ours(x) {
        return x
            .contiguous()?
            .apply_op2_no_bwd(&y.contiguous()?, &Times { precision, is_transposed: true });
    }
    x.t()?.matmul(y)
}

fn is_ours(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

struct Linear {
    precision: Precision,
}

impl CustomOp2 for Linear {
    fn name(&self) -> &'static str {
        "linear"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, inner) = x_layout.shape().dims2()?;
        let (width, _) = weight_layout.shape().dims2()?;
        let x = Matrix::new(values(x, x_layout)?, rows, inner);
        let weight = Matrix::new(values(weight, weight_layout)?, width, inner).transposed();
        let out = product(x, Right::Plain(weight, self.precision));
        Ok((CpuStorage::F32(out), Shape::from((rows, width))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        let (x, weight, grad) = (x.detach(), weight.detach(), grad.detach());
        let dx = times(&grad, &weight, self.precision)?;
        Ok((Some(dx), Some(transposed_times(&grad, &x, self.precision)?)))
    }
}

/// A product of two operands row after row, the first perhaps transposed.
struct Times {
    precision: Precision,
    is_transposed: bool,
}

impl CustomOp2 for Times {
    fn name(&self) -> &'static str {
        "times"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        y: &CpuStorage,
        y_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let matrix = |storage, layout: &Layout| -> Result<Matrix<'_>> {
            let (rows, columns) = layout.shape().dims2()?;
            Ok(Matrix::new(values(storage, layout)?, rows, columns))
        };
        let (x, y) = (matrix(x, x_layout)?, matrix(y, y_layout)?);
        let x = if self.is_transposed { x.transposed() } else { x };
        let columns = y_layout.shape().dims2()?.1;
        let out = product(x, Right::Plain(y, self.precision));
        let rows = out.len() / columns.max(1);
        Ok((CpuStorage::F32(out), Shape::from((rows, columns))))
    }
}
