//! The output layer on the CPU: log-probabilities and gradients of logits.

use candle_core::{Device, Result, Tensor};
use tealight_matmul::{Matrix, Right, product};

use super::super::{Parameter, TokenLogp, check_tokens};
use super::logp::{Head, RowSums};
use super::product::with_weight;
use super::with_values;

/// Log-probabilities `[N]` and entropies `[N]` of targets at a temperature.
pub(super) fn logp(
    hidden: &Tensor,
    head: &Parameter,
    (targets, temperature): (&[u32], f64),
) -> Result<TokenLogp<Vec<RowSums>>> {
    let found = with_head(hidden, head, (targets, temperature), |head| head.forward())?;
    let inverse = (1.0 / temperature) as f32;
    let tensor = |of: &dyn Fn(&RowSums) -> f32| {
        Tensor::from_vec(found.iter().map(of).collect(), targets.len(), &Device::Cpu)
    };
    let (logp, entropy) = (tensor(&|row| row.logp(inverse))?, tensor(&RowSums::entropy)?);
    Ok(TokenLogp { logp, entropy, saved: found })
}

/// The gradient of the hidden states; that of the weight is added where it is trained.
pub(super) fn logp_backward(
    hidden: &Tensor,
    head: &Parameter,
    targets: (&[u32], f64),
    (saved, grad): (&[RowSums], &Tensor),
    d_weight: Option<&mut [f32]>,
) -> Result<Tensor> {
    let mut d_hidden = vec![0f32; hidden.elem_count()];
    with_values(grad, |grad| {
        with_head(hidden, head, targets, |head| {
            head.backward(saved, grad, &mut d_hidden, d_weight);
        })
    })?;
    Tensor::from_vec(d_hidden, hidden.shape(), &Device::Cpu)
}

/// The gradients of the hidden states and, where it is trained, of the weight for that of logits `[N, V]`.
pub(super) fn logits_backward(
    hidden: &Tensor,
    head: &Parameter,
    grad: &Tensor,
) -> Result<(Tensor, Option<Tensor>)> {
    let (vocabulary, inner) = head.dims2()?;
    let rows = hidden.elem_count() / inner;
    with_values(grad, |grad| {
        let grad = Matrix::new(grad, rows, vocabulary);
        let d_hidden = with_weight(head, |weight| Ok(product(grad, weight.plain())))?;
        let d_hidden = Tensor::from_vec(d_hidden, hidden.shape(), &Device::Cpu)?;
        if !head.is_trained {
            return Ok((d_hidden, None));
        }
        let d_head = with_values(hidden, |hidden| {
            Ok(product(grad.transposed(), Right::Plain(Matrix::new(hidden, rows, inner))))
        })?;
        Ok((d_hidden, Some(Tensor::from_vec(d_head, head.values.shape(), &Device::Cpu)?)))
    })
}

/// Calls `work` with the output layer at these targets.
fn with_head<R>(
    hidden: &Tensor,
    head: &Parameter,
    (targets, temperature): (&[u32], f64),
    work: impl FnOnce(Head<'_>) -> R,
) -> Result<R> {
    check_tokens(targets, head.dims2()?.0)?;
    let inverse = (1.0 / temperature) as f32;
    with_values(hidden, |hidden| {
        with_weight(head, |weight| Ok(work(Head { hidden, weight, targets, inverse })))
    })
}
