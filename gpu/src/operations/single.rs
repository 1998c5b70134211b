//! Logits and the optimizer: `kernels/single.c`.

use candle_core::{D, DType, Result, Tensor};

use crate::Call;
use crate::sizes::SQUARES;

pub(super) fn add_or_narrow(call: &Call<'_>) -> Result<()> {
    match call.name.starts_with("narrow") {
        true => call.put(1, &call.wide(0)?),
        false => call.put(0, &(call.wide(0)? + call.wide(1)?)?),
    }
}

/// Logits `[rows, V]` over the temperature, and the targets as `[rows, 1]`.
fn of_targets(call: &Call<'_>) -> Result<[Tensor; 2]> {
    let logits = (call.rows(0, call.n(0))? * call.f(0))?;
    Ok([logits, call.tensors[1].flatten_all()?.unsqueeze(1)?])
}

pub(super) fn logits_grad(call: &Call<'_>) -> Result<()> {
    let [logits, targets] = of_targets(call)?;
    let p = logits.broadcast_sub(&call.wide(2)?.unsqueeze(1)?)?.exp()?;
    let ones = targets.ones_like()?.to_dtype(DType::F32)?;
    // d log p_target / dz = (onehot - p) / temperature.
    let d_logp = p.neg()?.scatter_add(&targets, &ones, 1)?;
    let slope = (call.wide(3)?.unsqueeze(1)? * call.f(0))?;
    call.put(4, &d_logp.broadcast_mul(&slope)?)
}

pub(super) fn logp(call: &Call<'_>) -> Result<()> {
    let [logits, targets] = of_targets(call)?;
    let top = logits.max_keepdim(D::Minus1)?;
    let x = logits.broadcast_sub(&top)?;
    let share = x.exp()?;
    let mass = share.sum_keepdim(D::Minus1)?;
    // H = log sum e^x - sum x e^x / sum e^x, x less its largest.
    let moment = (share * &x)?.sum_keepdim(D::Minus1)?;
    let log_mass = mass.log()?;
    call.put(2, &(x.gather(&targets, 1)? - &log_mass)?)?;
    call.put(3, &(&log_mass - (moment / mass)?)?)?;
    call.put(4, &(top + log_mass)?)
}

pub(super) fn adamw(call: &Call<'_>) -> Result<()> {
    let gradient = (call.wide(3)? * call.f(0))?;
    let mean = ((call.wide(1)? * call.f(1))? + (&gradient * call.f(2))?)?;
    let square = ((call.wide(2)? * call.f(3))? + (gradient.sqr()? * call.f(4))?)?;
    let root = ((&square * call.f(6))?.sqrt()? + call.f(7))?;
    let step = ((&mean * call.f(5))? / root)?;
    call.put(0, &((call.wide(0)? * call.f(8))? - step)?)?;
    call.put(1, &mean)?;
    call.put(2, &square)
}

pub(super) fn squares(call: &Call<'_>) -> Result<()> {
    let x = call.wide(0)?.sqr()?;
    let count = x.elem_count();
    let parts = count.div_ceil(SQUARES);
    let padded = x.pad_with_zeros(0, 0, parts * SQUARES - count)?;
    call.put_from(1, call.n(1), &padded.reshape((parts, SQUARES))?.sum(1)?)
}
