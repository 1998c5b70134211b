//! The causal convolution before the delta rule.

use candle_core::{DType, Result, Tensor, bail};

use super::delta::{DeltaRun, NONE, table};
use super::{expect, launch, rows};
use crate::empty;
use crate::sizes::BLOCK;
use crate::workspace::{Array, Destination, Operand, new_empty};

/// Most taps, as the kernels have it.
const MAX_TAPS: usize = 64;

/// Which tokens a convolution reads: tables on the device.
#[derive(Debug)]
pub struct Taps {
    count: usize,
    tokens: usize,
    /// Of every token its predecessors, the nearest first.
    sources: Array,
    /// Of every run the last tokens, the oldest first: what the cache holds afterwards.
    ends: Array,
    /// Where each token's readers begin, and the readers: their places, and how far before each it is.
    starts: Array,
    readers: Array,
    has_cache: bool,
}

impl Taps {
    /// The tables of `runs` over so many tokens for a convolution of `count` taps; with a cache each run is a row of
    /// it.
    ///
    /// # Errors
    /// Too many taps, runs that go on from others where there is a cache.
    pub fn new<'a>(
        runs: &[DeltaRun],
        tokens: usize,
        count: usize,
        has_cache: bool,
        to: impl Into<Destination<'a>>,
    ) -> Result<Self> {
        let to = to.into();
        if !(2..=MAX_TAPS).contains(&count) {
            bail!("a convolution of {count} taps; kernels know 2 to {MAX_TAPS}");
        }
        if has_cache && runs.iter().any(|run| run.after.is_some()) {
            bail!("a cache of states takes whole sequences or what continues them");
        }
        // The token `back` tokens before token `inside` of a run, or before the one that would follow its last.
        let before = |index: usize, inside: usize, back: usize| -> i32 {
            let run = &runs[index];
            if back <= inside {
                return (run.tokens.start + inside - back) as i32;
            }
            let beyond = back - inside;
            match run.after.map(|after| &runs[after].tokens) {
                Some(prefix) if beyond <= prefix.len() => (prefix.end - beyond) as i32,
                // Below -1: rows of the cache, counted from -2 down.
                None if run.goes_on => -2 - ((index + 1) * (count - 1) - beyond) as i32,
                _ => NONE,
            }
        };
        let mut sources = vec![NONE; tokens * (count - 1)];
        let mut read_by = vec![Vec::new(); tokens];
        let mut ends = Vec::with_capacity(runs.len() * (count - 1));
        for (index, run) in runs.iter().enumerate() {
            for (inside, token) in run.tokens.clone().enumerate() {
                for back in 0..count {
                    let source = before(index, inside, back);
                    if back > 0 {
                        sources[token * (count - 1) + back - 1] = source;
                    }
                    if let Ok(source) = usize::try_from(source) {
                        // The transposed table: the backward pass gathers from readers, so that no two threads add to
                        // one value.
                        read_by[source].push([token as i32, back as i32]);
                    }
                }
            }
            ends.extend((1..count).rev().map(|back| before(index, run.tokens.len(), back)));
        }
        let mut starts = vec![0i32];
        for readers in &read_by {
            starts.push(starts[starts.len() - 1] + readers.len() as i32);
        }
        Ok(Self {
            count,
            tokens,
            sources: table(&sources, to)?,
            ends: table(&ends, to)?,
            starts: table(&starts, to)?,
            readers: table(&read_by.concat().concat(), to)?,
            has_cache,
        })
    }
}

/// The causal convolution of every column of `x` `[N, C]` with its own `kernel` `[C, 1, taps]`, through SiLU. With
/// `past` `[rows, (taps - 1) * C]` runs that go on read what is there, and leave what the next will read.
pub fn convolution(
    x: &dyn Operand,
    kernel: &Tensor,
    taps: &Taps,
    past: Option<&Tensor>,
) -> Result<Array> {
    let out = new_empty(x, x.tensor().shape(), x.tensor().dtype())?;
    let x = x.tensor();
    let width = checked(x, kernel, taps, "convolution")?;
    let cached = taps.ends.elem_count() * width;
    if past.is_some() != taps.has_cache {
        bail!("convolution: a pass with a cache and one without");
    }
    if let Some(past) = past
        && (past.dtype() != x.dtype() || past.elem_count() < cached)
    {
        bail!("convolution: {:?} has no room for {cached} values", past.shape());
    }
    let sizes = [width, taps.count];
    let tensors = [x, kernel, taps.sources.tensor(), past.unwrap_or(x), out.tensor()];
    launch("convolution", Some(x), taps.tokens, &tensors, &sizes, &[])?;
    if let Some(past) = past {
        let runs = taps.ends.elem_count() / (taps.count - 1);
        let tensors = [x, taps.ends.tensor(), past];
        launch("convolution_past", Some(x), runs, &tensors, &sizes, &[])?;
    }
    Ok(out)
}

/// The gradient of [`convolution`]'s `x` for that of its result, without a cache; the kernel's is added to `sums`.
pub fn convolution_back(
    x: &dyn Operand,
    kernel: &Tensor,
    taps: &Taps,
    grad: &dyn Operand,
    sums: Option<&Tensor>,
) -> Result<Array> {
    let (x, grad) = (x.tensor(), grad.tensor());
    let width = checked(x, kernel, taps, "convolution_back")?;
    expect(grad, x.dtype(), x.elem_count(), "convolution_back")?;
    if taps.has_cache {
        bail!("convolution_back: a pass with a cache has no gradient");
    }
    let sizes = [width, taps.count, taps.tokens];
    let slopes = empty(x.shape(), DType::F32, x.device())?;
    let tensors = [x, kernel, taps.sources.tensor(), grad, &slopes];
    launch("convolution_slopes", Some(x), taps.tokens, &tensors, &sizes, &[])?;
    let dx = empty(x.shape(), x.dtype(), x.device())?;
    let tensors = [&slopes, kernel, taps.starts.tensor(), taps.readers.tensor(), &dx];
    launch("convolution_inputs", Some(x), taps.tokens, &tensors, &sizes, &[])?;
    if let Some(sums) = sums {
        expect(sums, DType::F32, kernel.elem_count(), "convolution_back")?;
        let tensors = [&slopes, x, taps.sources.tensor(), sums];
        let groups = width.div_ceil(BLOCK);
        launch("convolution_weights", Some(x), groups, &tensors, &sizes, &[])?;
    }
    Ok(dx.into())
}

/// The number of columns.
fn checked(x: &Tensor, kernel: &Tensor, taps: &Taps, what: &str) -> Result<usize> {
    let width = rows(kernel, taps.count, what)?;
    expect(kernel, x.dtype(), width * taps.count, what)?;
    expect(x, x.dtype(), width * taps.tokens, what)?;
    Ok(width)
}
