//! Tokens drawn from logits on the device.

use candle_core::{DType, Result, bail};

use super::{expect, launch};
use crate::workspace::{Destination, Operand};

/// How tokens are sampled. Filters apply after the temperature, in the order top-k, top-p, min-p.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SampleArgs {
    /// Divides the logits; at 0 the most likely token is taken, whatever the filters.
    pub temperature: f64,
    /// Only the k most likely tokens, of equal ones the first; 0 for all.
    pub top_k: usize,
    /// The most likely tokens up to this share of the mass; 1 for all.
    pub top_p: f64,
    /// Tokens of at least this share of the most likely one's probability; 0 for all.
    pub min_p: f64,
}

impl SampleArgs {
    /// From the whole distribution at a temperature.
    pub fn whole(temperature: f64) -> Self {
        Self { temperature, top_k: 0, top_p: 1.0, min_p: 0.0 }
    }
}

/// Draws `N` tokens from f32 logits `[R, V]`, each from its row of `rows`, or, where there are none, from a row each,
/// by inverse CDF of `uniform` `[N]` (24 bits of it count). Writes tokens `[N]` and their log-probabilities `[N]` at
/// the temperature (at 1 where that is 0) and after the filters. Where logits are not finite the token is 0 and its
/// log-probability is not a number.
///
/// Masses are `exp` in f32, sums are in f32 and in one order. A token differs from one that is drawn from exact sums
/// where `uniform`, or a filter's limit, is within rounding of the border between two tokens.
///
/// # Errors
/// Sizes that do not fit, rows that are not there.
pub fn sample(
    logits: &dyn Operand,
    rows: Option<&[u32]>,
    uniform: &dyn Operand,
    draw: SampleArgs,
    into: [&dyn Operand; 2],
) -> Result<()> {
    let at = Destination::like(logits);
    let (logits, uniform) = (logits.tensor(), uniform.tensor());
    let [tokens, logp] = into.map(|x| x.tensor());
    let (batch, width) = logits.dims2()?;
    let count = uniform.elem_count();
    // Tokens are counted in f32, which has every whole number up to there.
    if width == 0 || width > 1 << 24 {
        bail!("sample: a vocabulary of {width} tokens");
    }
    expect(logits, DType::F32, batch * width, "sample")?;
    expect(uniform, DType::F32, count, "sample")?;
    expect(tokens, DType::U32, count, "sample")?;
    expect(logp, DType::F32, count, "sample")?;
    let rows = match rows {
        None if batch != count => bail!("sample: {count} tokens from {batch} rows"),
        None => None,
        Some(rows) if rows.len() != count || rows.iter().any(|row| *row as usize >= batch) => {
            bail!("sample: {count} tokens from rows {rows:?} of {batch}")
        }
        Some(rows) => Some(at.upload(rows.to_vec(), count)?),
    };
    let is_greedy = draw.temperature == 0.0;
    let draw = if is_greedy { SampleArgs::whole(1.0) } else { draw };
    // A k of the whole vocabulary filters nothing; 0 spares the search for it.
    let top_k = if draw.top_k < width { draw.top_k } else { 0 };
    let numbers = [width, usize::from(rows.is_some()), usize::from(is_greedy), top_k];
    let shares = [1.0 / draw.temperature, draw.top_p, draw.min_p];
    let rows = rows.as_ref().map_or(uniform, |rows| rows.tensor());
    let tensors = [logits, uniform, rows, tokens, logp];
    launch("sample", None, count, &tensors, &numbers, &shares)
}
