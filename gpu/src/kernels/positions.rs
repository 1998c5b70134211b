//! Rotary positions, and rows of a cache.

use candle_core::{DType, Result, Tensor, bail};

use super::{Heads, expect, launch, rows};

/// Rotates `x` `[N, heads * D]` head by head, from its first value on, by the angles `[N, pairs]` of cosines and sines,
/// at most `D / 2` pairs, or, `back`, by their inverse, which is the gradient.
///
/// # Errors
/// Sizes that do not fit.
pub fn rope(x: &Tensor, dim: usize, [cos, sin]: [&Tensor; 2], back: bool) -> Result<()> {
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
pub fn store_rows(x: &Tensor, out: &Tensor, places: &Tensor) -> Result<()> {
    let count = places.elem_count();
    expect(places, DType::U32, count, "store_rows")?;
    let width = rows(x, count, "store_rows")?;
    expect(out, x.dtype(), rows(out, width, "store_rows")? * width, "store_rows")?;
    launch("store_rows", Some(x), count, &[x, out, places], &[width], &[])
}

/// [`rope`] of queries `q` `[N, H * D]` in place and of keys `k` `[N, K * D]`, and [`store_rows`] of the turned keys
/// and of the values `v` `[N, K * D]` in a cache's keys and values, in one launch. `k` stays as it was.
///
/// # Errors
/// Sizes that do not fit.
pub fn rope_store(
    [q, k, v]: [&Tensor; 3],
    heads: Heads,
    [of_queries, of_keys]: [&[Tensor; 2]; 2],
    [keys, values]: [&Tensor; 2],
    places: &Tensor,
) -> Result<()> {
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
