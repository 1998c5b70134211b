//! Log-probabilities and their gradient.

use candle_core::{DType, Result, Tensor};

use super::{expect, launch};
use crate::empty;
use crate::workspace::Operand;

/// Statistics of rows of logits, `[N]` each.
#[derive(Debug, Clone)]
pub struct RowSums {
    /// Natural log-probability of the target.
    pub logp: Tensor,
    /// Entropy in nats.
    pub entropy: Tensor,
    /// Logarithm of the sum of `exp(logit / temperature)`.
    pub sums: Tensor,
}

/// Log-probabilities of `targets` `[N]` under `softmax(logits / temperature)`, of f32 logits `[N, V]`.
pub fn logp(logits: &dyn Operand, targets: &Tensor, temperature: f64) -> Result<RowSums> {
    let logits = logits.tensor();
    let (rows, width) = logits.dims2()?;
    expect(logits, DType::F32, rows * width, "logp")?;
    expect(targets, DType::U32, rows, "logp")?;
    let row = || empty(rows, DType::F32, logits.device());
    let sums = RowSums { logp: row()?, entropy: row()?, sums: row()? };
    let tensors = [logits, targets, &sums.logp, &sums.entropy, &sums.sums];
    launch("logp", None, rows, &tensors, &[width], &[1.0 / temperature])?;
    Ok(sums)
}

/// The gradient `[N, V]`, in `dtype`, of the logits for the gradient `grad` `[N]` of [`logp`]'s.
pub fn logits_grad(
    logits: &Tensor,
    targets: &Tensor,
    (sums, grad): (&Tensor, &Tensor),
    temperature: f64,
    dtype: DType,
) -> Result<Tensor> {
    let (rows, width) = logits.dims2()?;
    expect(logits, DType::F32, rows * width, "logits_grad")?;
    expect(targets, DType::U32, rows, "logits_grad")?;
    expect(sums, DType::F32, rows, "logits_grad")?;
    expect(grad, DType::F32, rows, "logits_grad")?;
    let out = empty((rows, width), dtype, logits.device())?;
    let tensors = [logits, targets, sums, grad, &out];
    launch("logits_grad", Some(&out), rows, &tensors, &[width], &[1.0 / temperature])?;
    Ok(out)
}
