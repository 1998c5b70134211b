//! Gradients of gates, norms and the embedding, and sums over tokens.

use candle_core::{DType, Result, Tensor, bail};

use super::{Gain, Gate, expect, launch, rows};
use crate::counts::upload;
use crate::empty;
use crate::sizes::{BLOCK, ELEMENTS, PART};
use crate::workspace::Operand;

/// Puts in place of `gate` and `up` their gradients for that of [`super::gated`]'s result with the same gate.
pub fn gated_back(
    gate: &dyn Operand,
    up: &dyn Operand,
    grad: &dyn Operand,
    through: Gate,
) -> Result<()> {
    let [gate, up, grad] = [gate, up, grad].map(|x| x.tensor());
    let count = gate.elem_count();
    expect(up, gate.dtype(), count, "gated_back")?;
    expect(grad, gate.dtype(), count, "gated_back")?;
    let tensors = [gate, up, grad];
    let (ints, floats) = through.numbers(count);
    launch("gated_back", Some(gate), count.div_ceil(ELEMENTS), &tensors, &ints, &floats)
}

/// Adds to `dx` the gradient of a norm's input `x`, and to `sums`, where there are any, that of its weight, for
/// the gradient `grad` of its result.
pub fn norm_back(
    x: &dyn Operand,
    Gain { weight, offset, eps }: Gain<'_>,
    grad: &dyn Operand,
    dx: &dyn Operand,
    sums: Option<&Tensor>,
) -> Result<()> {
    let [x, grad, dx] = [x, grad, dx].map(|x| x.tensor());
    let width = weight.elem_count();
    let rows = rows(x, width, "norm_back")?;
    expect(weight, x.dtype(), width, "norm_back")?;
    expect(grad, x.dtype(), x.elem_count(), "norm_back")?;
    expect(dx, x.dtype(), x.elem_count(), "norm_back")?;
    let scales = empty(rows, DType::F32, x.device())?;
    let tensors = [x, weight, grad, dx, &scales];
    launch("norm_inputs", Some(x), rows, &tensors, &[width], &[eps, offset])?;
    let Some(sums) = sums else { return Ok(()) };
    // Sums over PART rows each, then over the parts, in an order that no scheduling changes.
    let parts = empty((rows.div_ceil(PART), width), DType::F32, x.device())?;
    let tensors = [x, grad, &scales, &parts];
    launch("norm_weights", Some(x), rows.div_ceil(PART), &tensors, &[width, rows], &[])?;
    sum_parts(&parts, sums)
}

/// Adds the sums of the columns of `x` to `sums` `[width]`.
pub fn column_sums(x: &dyn Operand, sums: &Tensor) -> Result<()> {
    let x = x.tensor();
    let width = sums.elem_count();
    let rows = rows(x, width, "column_sums")?;
    let parts = empty((rows.div_ceil(PART), width), DType::F32, x.device())?;
    launch("column_sums", Some(x), rows.div_ceil(PART), &[x, &parts], &[width, rows], &[])?;
    sum_parts(&parts, sums)
}

fn sum_parts(parts: &Tensor, sums: &Tensor) -> Result<()> {
    let (count, width) = parts.dims2()?;
    expect(sums, DType::F32, width, "sum_parts")?;
    launch("sum_parts", None, width.div_ceil(BLOCK), &[parts, sums], &[width, count], &[])
}

/// Adds the rows of `dx` `[N, width]` to the rows `ids` of `sums` `[V, width]`.
///
/// # Errors
/// Ids beyond the rows, sizes that do not fit, no memory, the device's.
pub fn embedding_back(dx: &dyn Operand, ids: &[u32], sums: &Tensor) -> Result<()> {
    let dx = dx.tensor();
    let width = rows(dx, ids.len(), "embedding_back")?;
    let vocabulary = rows(sums, width, "embedding_back")?;
    expect(sums, DType::F32, vocabulary * width, "embedding_back")?;
    let mut order: Vec<u32> = (0..ids.len() as u32).collect();
    // Tokens with one id side by side: one group adds up each row, and repeated tokens need no atomic additions.
    order.sort_by_key(|token| ids[*token as usize]);
    let (mut unique, mut starts) = (Vec::new(), Vec::new());
    for (at, token) in order.iter().enumerate() {
        let id = ids[*token as usize];
        if id as usize >= vocabulary {
            bail!("token {id} is beyond the vocabulary of {vocabulary}");
        }
        if unique.last() != Some(&id) {
            unique.push(id);
            starts.push(at as u32);
        }
    }
    starts.push(order.len() as u32);
    let groups = unique.len();
    let table = |values: Vec<u32>| {
        let count = values.len();
        upload(values, count, dx.device())
    };
    let (order, unique, starts) = (table(order)?, table(unique)?, table(starts)?);
    let tensors = [dx, &order, sums, &unique, &starts];
    launch("embedding_back", Some(dx), groups, &tensors, &[width], &[])
}

/// Adds `x` to the f32 `sums`.
pub fn add_to(sums: &Tensor, x: &Tensor) -> Result<()> {
    let count = x.elem_count();
    expect(sums, DType::F32, count, "add_to")?;
    launch("add_to", Some(x), count.div_ceil(ELEMENTS), &[sums, x], &[count], &[])
}

/// Writes the f32 values of `x` to `out`.
pub fn narrow(x: &Tensor, out: &Tensor) -> Result<()> {
    let count = x.elem_count();
    expect(x, DType::F32, count, "narrow")?;
    expect(out, out.dtype(), count, "narrow")?;
    launch("narrow", Some(out), count.div_ceil(ELEMENTS), &[x, out], &[count], &[])
}
