//! Norms, positions, gates and sums over tokens, forward and backward: `kernels/layers.c` and `kernels/gradients.c`.

use candle_core::{D, Result, Tensor};

use super::{index, sigmoid, sums_of_parts};
use crate::Call;
use crate::sizes::PART;

pub(super) fn add_norm(call: &Call<'_>) -> Result<()> {
    let width = call.n(0);
    let mut x = call.rows(0, width)?;
    if call.n(1) == 1 {
        call.put(2, &(x + call.rows(1, width)?)?)?;
        // As it is kept.
        x = call.rows(2, width)?;
    }
    let scale = scales(&x, call.f(0))?;
    let gain = (call.wide(3)? + call.f(1))?;
    call.put(4, &x.broadcast_mul(&scale)?.broadcast_mul(&gain)?)
}

/// `1 / sqrt(mean(x^2) + eps)` of every row.
fn scales(x: &Tensor, eps: f64) -> Result<Tensor> {
    (x.sqr()?.mean_keepdim(D::Minus1)? + eps)?.sqrt()?.recip()
}

pub(super) fn add(call: &Call<'_>) -> Result<()> {
    call.put(0, &(call.wide(0)? + call.wide(1)?)?)
}

pub(super) fn add_bias(call: &Call<'_>) -> Result<()> {
    call.put(0, &call.rows(0, call.n(0))?.broadcast_add(&call.wide(1)?)?)
}

pub(super) fn add_biases(call: &Call<'_>) -> Result<()> {
    for at in 0..3 {
        let x = call.rows(2 * at, call.n(at))?;
        call.put(2 * at, &x.broadcast_add(&call.wide(2 * at + 1)?)?)?;
    }
    Ok(())
}

pub(super) fn rope(call: &Call<'_>) -> Result<()> {
    let [heads, pairs, dim] = [0, 1, 2].map(|at| call.n(at));
    let x = call.wide(0)?.reshape(((), heads, dim))?;
    let (cos, sin) = (call.rows(1, pairs)?, (call.rows(2, pairs)? * call.f(0))?);
    call.put(0, &turned(&x, &cos, &sin)?)
}

/// `x` `[N, heads, dim]` by angles `[N, pairs]`.
fn turned(x: &Tensor, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
    let (pairs, dim) = (cos.dim(1)?, x.dim(2)?);
    let (cos, sin) = (cos.unsqueeze(1)?, sin.unsqueeze(1)?);
    let (low, high) = (x.narrow(2, 0, pairs)?, x.narrow(2, pairs, pairs)?);
    let first = (low.broadcast_mul(&cos)? - high.broadcast_mul(&sin)?)?;
    let second = (high.broadcast_mul(&cos)? + low.broadcast_mul(&sin)?)?;
    let mut parts = vec![first, second];
    if 2 * pairs < dim {
        parts.push(x.narrow(2, 2 * pairs, dim - 2 * pairs)?);
    }
    Tensor::cat(&parts, 2)
}

pub(super) fn rope_store(call: &Call<'_>) -> Result<()> {
    let [queries, keys, pairs, dim] = [0, 1, 2, 3].map(|at| call.n(at));
    let turned = |index: usize, heads: usize, angles: usize| {
        let x = call.wide(index)?.reshape(((), heads, dim))?;
        turned(&x, &call.rows(angles, pairs)?, &call.rows(angles + 1, pairs)?)
    };
    call.put(0, &turned(0, queries, 6)?)?;
    let (width, places) = (keys * dim, call.table(5)?);
    store(call, 3, width, &turned(1, keys, 8)?.reshape(((), width))?, &places)?;
    store(call, 4, width, &call.rows(2, width)?, &places)
}

/// How far a gate is open, and the slope of what it passes through.
fn gate(call: &Call<'_>) -> Result<[Tensor; 3]> {
    let x = call.wide(0)?;
    let square = (x.sqr()? * call.f(1))?;
    let open = sigmoid(&((&x * (&square + 1.0)?)? * call.f(0))?)?;
    let inner = ((square * 3.0)? + 1.0)?;
    Ok([x, open, (inner * call.f(0))?])
}

pub(super) fn gated(call: &Call<'_>) -> Result<()> {
    let [x, open, _] = gate(call)?;
    let passed = if call.n(1) == 1 { open } else { (x * open)? };
    call.put(2, &(passed * call.wide(1)?)?)
}

pub(super) fn gated_back(call: &Call<'_>) -> Result<()> {
    let [x, open, inner] = gate(call)?;
    let (up, grad) = (call.wide(1)?, call.wide(2)?);
    // (x s(f(x)))' = s (1 + x f' (1 - s)); of the sigmoid alone f' s (1 - s).
    let shut = (1.0 - &open)?;
    let (passed, slope) = if call.n(1) == 1 {
        (open.clone(), ((inner * shut)? * &open)?)
    } else {
        let turn = ((&x * inner)? * shut)?;
        ((&x * &open)?, ((turn + 1.0)? * &open)?)
    };
    call.put(0, &((&grad * up)? * slope)?)?;
    call.put(1, &(grad * passed)?)
}

pub(super) fn store_rows(call: &Call<'_>) -> Result<()> {
    let width = call.n(0);
    store(call, 1, width, &call.rows(0, width)?, &call.table(2)?)
}

pub(super) fn pick_rows(call: &Call<'_>) -> Result<()> {
    let picked = call.rows(0, call.n(0))?.index_select(&call.tensors[2].flatten_all()?, 0)?;
    call.put(1, &(picked * call.f(0))?)
}

/// Puts the rows of `x` at places of the `to`th tensor.
fn store(call: &Call<'_>, to: usize, width: usize, x: &Tensor, places: &[i32]) -> Result<()> {
    // Places that follow each other are one piece.
    let mut first = 0;
    while first < places.len() {
        let follows = |at: usize| places[at] == places[at - 1] + 1;
        let end = (first + 1..places.len()).find(|at| !follows(*at)).unwrap_or(places.len());
        let piece = x.narrow(0, first, end - first)?;
        call.put_from(to, places[first] as usize * width, &piece)?;
        first = end;
    }
    Ok(())
}

pub(super) fn columns(call: &Call<'_>) -> Result<()> {
    let [values, count, width, first, to_width, to_first] = [0, 1, 2, 3, 4, 5].map(|at| call.n(at));
    let rows = values / count;
    let moved = (call.rows(0, width)?.narrow(0, 0, rows)?.narrow(1, first, count)? * call.f(0))?;
    let to = call.rows(1, to_width)?;
    let after = to_first + count;
    let parts = [to.narrow(1, 0, to_first)?, moved, to.narrow(1, after, to_width - after)?];
    let parts: Vec<Tensor> = parts.into_iter().filter(|part| part.elem_count() > 0).collect();
    call.put(1, &Tensor::cat(&parts, 1)?)
}

pub(super) fn norm_inputs(call: &Call<'_>) -> Result<()> {
    let width = call.n(0);
    let (x, grad) = (call.rows(0, width)?, call.rows(2, width)?);
    let weighted = grad.broadcast_mul(&(call.wide(1)? + call.f(1))?)?;
    let scale = scales(&x, call.f(0))?;
    // y = s w x, s = (mean x^2 + eps)^(-1/2): dx = s g w - x s^3 / D sum(g w x).
    let product = (&x * &weighted)?.sum_keepdim(1)?;
    let shrink = ((product * scale.powf(3.0)?)? / width as f64)?;
    let gradient = (weighted.broadcast_mul(&scale)? - x.broadcast_mul(&shrink)?)?;
    call.put(3, &(call.rows(3, width)? + gradient)?)?;
    call.put(4, &scale)
}

pub(super) fn norm_weights(call: &Call<'_>) -> Result<()> {
    let width = call.n(0);
    let products = (call.rows(0, width)? * call.rows(1, width)?)?;
    let scales = call.wide(2)?.unsqueeze(1)?;
    call.put(3, &sums_of_parts(&products.broadcast_mul(&scales)?, PART)?)
}

pub(super) fn column_sums(call: &Call<'_>) -> Result<()> {
    call.put(1, &sums_of_parts(&call.rows(0, call.n(0))?, PART)?)
}

pub(super) fn sum_parts(call: &Call<'_>) -> Result<()> {
    call.put(1, &(call.rows(0, call.n(0))?.sum(0)? + call.wide(1)?)?)
}

pub(super) fn embedding_back(call: &Call<'_>) -> Result<()> {
    let width = call.n(0);
    let [order, ids, starts] = [call.table(1)?, call.table(3)?, call.table(4)?];
    let of_id = |(id, ends): (&i32, &[i32])| vec![*id as u32; (ends[1] - ends[0]) as usize];
    let ids: Vec<u32> = ids.iter().zip(starts.windows(2)).flat_map(of_id).collect();
    let order = index(order.into_iter().map(|at| at as u32).collect(), call.device())?;
    let dx = call.rows(0, width)?.index_select(&order, 0)?;
    let sums = call.rows(2, width)?;
    call.put(2, &sums.index_add(&index(ids, call.device())?, &dx, 0)?)
}
