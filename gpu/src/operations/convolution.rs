//! The convolution before the delta rule: the first part of `kernels/delta.c`.

use candle_core::{Result, Tensor};

use super::{index, sigmoid};
use crate::Call;

/// Rows that a table of sources names: of `x`, of the past, or zeros.
struct Rows {
    all: Tensor,
    tokens: usize,
    zero: u32,
}

impl Rows {
    fn new(x: Tensor, past: Option<Tensor>) -> Result<Self> {
        let (tokens, width) = x.dims2()?;
        let mut parts = vec![x.clone()];
        parts.extend(past);
        parts.push(Tensor::zeros((1, width), x.dtype(), x.device())?);
        let all = Tensor::cat(&parts, 0)?;
        Ok(Self { tokens, zero: all.dim(0)? as u32 - 1, all })
    }

    /// The rows of these sources: a row of `x`, none (-1), or row `-2 - source` of the past.
    fn pick(&self, sources: impl Iterator<Item = i32>) -> Result<Tensor> {
        let place = |source: i32| match source {
            0.. => source as u32,
            -1 => self.zero,
            _ => self.tokens as u32 + (-2 - source) as u32,
        };
        self.all.index_select(&index(sources.map(place).collect(), self.all.device())?, 0)
    }

    /// The rows `back` tokens before every token.
    fn before(&self, back: usize, sources: &[i32], taps: usize) -> Result<Tensor> {
        match back {
            0 => self.all.narrow(0, 0, self.tokens),
            _ => self.pick(sources.chunks_exact(taps - 1).map(|row| row[back - 1])),
        }
    }
}

/// The tap that reads `back` tokens before, `[C]`.
fn tap(kernel: &Tensor, back: usize) -> Result<Tensor> {
    kernel.narrow(1, kernel.dim(1)? - 1 - back, 1)?.squeeze(1)
}

/// The convolution's sums, before SiLU.
fn convolved(call: &Call<'_>, past: Option<Tensor>) -> Result<Tensor> {
    let (width, taps) = (call.n(0), call.n(1));
    let rows = Rows::new(call.rows(0, width)?, past)?;
    let (kernel, sources) = (call.rows(1, taps)?, call.table(2)?);
    let mut sum = Tensor::zeros((rows.tokens, width), rows.all.dtype(), call.device())?;
    for back in 0..taps {
        let more = rows.before(back, &sources, taps)?.broadcast_mul(&tap(&kernel, back)?)?;
        sum = (sum + more)?;
    }
    Ok(sum)
}

pub(super) fn forward(call: &Call<'_>) -> Result<()> {
    // Without a cache the past is another name of `x`, which no source names.
    let sum = convolved(call, Some(call.rows(3, call.n(0))?))?;
    call.put(4, &(&sum * sigmoid(&sum)?)?)
}

pub(super) fn past(call: &Call<'_>) -> Result<()> {
    let width = call.n(0);
    let rows = Rows::new(call.rows(0, width)?, Some(call.rows(2, width)?))?;
    call.put(2, &rows.pick(call.table(1)?.into_iter())?)
}

pub(super) fn slopes(call: &Call<'_>) -> Result<()> {
    let sum = convolved(call, None)?;
    let open = sigmoid(&sum)?;
    // (z sigmoid(z))' = s (1 + z (1 - s)).
    let slope = (((sum * (1.0 - &open)?)? + 1.0)? * open)?;
    call.put(4, &(slope * call.rows(3, call.n(0))?)?)
}

pub(super) fn inputs(call: &Call<'_>) -> Result<()> {
    let (width, taps) = (call.n(0), call.n(1));
    let (slopes, kernel) = (call.rows(0, width)?, call.rows(1, taps)?);
    let (starts, readers) = (call.table(2)?, call.table(3)?);
    let mut dx = slopes.zeros_like()?;
    for back in 0..taps {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for (token, ends) in starts.windows(2).enumerate() {
            for reader in readers[2 * ends[0] as usize..2 * ends[1] as usize].chunks_exact(2) {
                if reader[1] as usize == back {
                    from.push(reader[0] as u32);
                    to.push(token as u32);
                }
            }
        }
        if from.is_empty() {
            continue;
        }
        let gradient = slopes.index_select(&index(from, call.device())?, 0)?;
        let gradient = gradient.broadcast_mul(&tap(&kernel, back)?)?;
        dx = dx.index_add(&index(to, call.device())?, &gradient, 0)?;
    }
    call.put(4, &dx)
}

pub(super) fn weights(call: &Call<'_>) -> Result<()> {
    let (width, taps) = (call.n(0), call.n(1));
    let slopes = call.rows(0, width)?;
    let rows = Rows::new(call.rows(1, width)?, None)?;
    let sources = call.table(2)?;
    let of_tap = |back| (&slopes * rows.before(back, &sources, taps)?)?.sum(0);
    let gradients: Vec<Tensor> = (0..taps).rev().map(of_tap).collect::<Result<_>>()?;
    call.put(3, &(call.rows(3, taps)? + Tensor::stack(&gradients, 1)?)?)
}
