//! Rotary positions, and rows of an embedding and of a cache.

use candle_core::{DType, Result, Tensor, bail};

use super::{Heads, expect, launch, rows};
use crate::workspace::{Array, Destination, Operand};

/// Rotates `x` `[N, heads * D]` head by head, from its first value on, by the angles `[N, pairs]` of cosines and sines,
/// at most `D / 2` pairs, or, `back`, by the transpose, which is the gradient.
///
/// # Errors
/// Sizes that do not fit.
pub fn rope(x: &dyn Operand, dim: usize, angles: [&dyn Operand; 2], back: bool) -> Result<()> {
    let (x, [cos, sin]) = (x.tensor(), angles.map(|x| x.tensor()));
    let (tokens, pairs) = cos.dims2()?;
    let heads = rows(x, dim * tokens.max(1), "rope")?;
    if 2 * pairs > dim {
        bail!("rope: {pairs} pairs of {dim} values");
    }
    expect(cos, DType::F32, tokens * pairs, "rope")?;
    expect(sin, DType::F32, tokens * pairs, "rope")?;
    let direction = if back { -1.0 } else { 1.0 };
    launch("rope", Some(x), tokens, &[x, cos, sin], &[heads, pairs, dim], &[direction])
}

/// Copies the rows of `x` `[N, width]` to those rows of `out` that `places` `[N]` names: each must be one.
///
/// # Errors
/// Sizes that do not fit.
pub fn store_rows(x: &dyn Operand, out: &Tensor, places: &dyn Operand) -> Result<()> {
    let (x, places) = (x.tensor(), places.tensor());
    let count = places.elem_count();
    expect(places, DType::U32, count, "store_rows")?;
    let width = rows(x, count, "store_rows")?;
    expect(out, x.dtype(), rows(out, width, "store_rows")? * width, "store_rows")?;
    launch("store_rows", Some(x), count, &[x, out, places], &[width], &[])
}

/// The rows of `table` `[V, width]` that `ids` `[N]` names, times `scale` in the table's type. Each must be a row of
/// it: the kernel does not look.
///
/// # Errors
/// Sizes that do not fit, no memory, the device's.
pub fn pick_rows(
    table: &Tensor,
    ids: &dyn Operand,
    scale: f64,
    to: Destination<'_>,
) -> Result<Array> {
    let (ids, (_, width)) = (ids.tensor(), table.dims2()?);
    let count = ids.elem_count();
    expect(ids, DType::U32, count, "pick_rows")?;
    let out = to.empty((count, width), table.dtype())?;
    let scale = match table.dtype() {
        DType::BF16 => half::bf16::from_f64(scale).to_f64(),
        _ => scale,
    };
    launch("pick_rows", Some(table), count, &[table, out.tensor(), ids], &[width], &[scale])?;
    Ok(out)
}

/// [`rope`] of queries `q` `[N, H * D]` in place and of keys `k` `[N, K * D]`, and [`store_rows`] of the turned keys
/// and of the values `v` `[N, K * D]` in a cache's keys and values, in one launch. `k` stays as it was.
///
/// # Errors
/// Sizes that do not fit.
pub fn rope_store<T: Operand>(
    qkv: [&dyn Operand; 3],
    heads: Heads,
    angles: [&[T; 2]; 2],
    [keys, values]: [&Tensor; 2],
    places: &dyn Operand,
) -> Result<()> {
    let ([q, k, v], places) = (qkv.map(|x| x.tensor()), places.tensor());
    let [of_queries, of_keys] = angles.map(|angles| angles.each_ref().map(|x| x.tensor()));
    let (tokens, pairs) = of_queries[0].dims2()?;
    let width = heads.keys * heads.dim;
    if 2 * pairs > heads.dim {
        bail!("rope_store: {pairs} pairs of {} values", heads.dim);
    }
    for angles in [of_queries, of_keys].into_iter().flatten() {
        expect(angles, DType::F32, tokens * pairs, "rope_store")?;
    }
    expect(places, DType::U32, tokens, "rope_store")?;
    expect(q, q.dtype(), tokens * heads.queries * heads.dim, "rope_store")?;
    for x in [k, v] {
        expect(x, q.dtype(), tokens * width, "rope_store")?;
    }
    for cache in [keys, values] {
        expect(cache, q.dtype(), rows(cache, width, "rope_store")? * width, "rope_store")?;
    }
    let [cos, sin] = of_queries;
    let [key_cos, key_sin] = of_keys;
    let tensors = [q, k, v, keys, values, places, cos, sin, key_cos, key_sin];
    let numbers = [heads.queries, heads.keys, pairs, heads.dim];
    launch("rope_store", Some(q), tokens, &tensors, &numbers, &[])
}
