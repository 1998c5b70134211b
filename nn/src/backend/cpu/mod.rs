//! The backend on the CPU: f32 operations on slices, written out; operands of products, keys and values may be bf16.
//!
//! Every reduction has a fixed order that does not depend on the number of threads, and what is computed
//! of a token does not depend on the tokens beside it, so results are the same bits from run to run and
//! from batch to batch.

pub mod adamw;
mod attention;
mod attention_sums;
mod convolution;
mod delta;
mod delta_tile;
mod full_vocabulary;
mod gate;
pub mod key_layout;
pub(crate) mod logp;
mod math;
mod mixing;
mod ops;
mod output;
pub(crate) mod pass;
pub(crate) mod product;
mod rms_norm;
mod rope;
mod rows;
pub(crate) mod slots;
mod vocabulary;

use std::sync::{Arc, Mutex};

use candle_core::{CpuStorage, InplaceOp1, Layout, Result, Tensor, bail};
use rayon::prelude::*;
use tealight_matmul::vectorized;

use super::Pool;

/// The CPU, with the memory that its passes leave for the next.
#[derive(Debug, Clone)]
pub(crate) struct Cpu {
    pub(crate) pool: Arc<Pool>,
    /// Whether an operation is shared out to all threads, or runs on one.
    pub(crate) is_parallel: bool,
    /// Whether keys and values are rounded to bfloat16, as the operands of products are.
    pub(crate) rounds_keys: bool,
}

impl Default for Cpu {
    fn default() -> Self {
        Self { pool: Arc::default(), is_parallel: true, rounds_keys: false }
    }
}

/// The values of a contiguous f32 operand.
pub(crate) fn values<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (layout.contiguous_offsets(), storage.as_slice::<f32>()) {
        (Some((start, end)), Ok(values)) => Ok(&values[start..end]),
        (None, _) => bail!("operand {:?} is not contiguous", layout.shape()),
        (_, Err(error)) => Err(error),
    }
}

/// Runs `read` on the values of a CPU tensor, made contiguous first.
pub fn with_values<R>(tensor: &Tensor, read: impl FnOnce(&[f32]) -> Result<R>) -> Result<R> {
    let tensor = tensor.contiguous()?;
    let (storage, layout) = tensor.storage_and_layout();
    match &*storage {
        candle_core::Storage::Cpu(storage) => read(values(storage, layout)?),
        _ => bail!("an operation on the CPU was given a tensor of {:?}", tensor.device()),
    }
}

/// Runs `change` on the values of a contiguous f32 tensor on the CPU, in place: every tensor that shares
/// its storage sees it.
pub fn with_values_mut(
    tensor: &Tensor,
    change: impl FnOnce(&mut [f32]) -> Result<()>,
) -> Result<()> {
    tensor.inplace_op1(&InPlace(Mutex::new(Some(change))))
}

/// Candle calls an operation by reference; this one is called once.
struct InPlace<F>(Mutex<Option<F>>);

impl<F: FnOnce(&mut [f32]) -> Result<()>> InplaceOp1 for InPlace<F> {
    fn name(&self) -> &'static str {
        "in-place"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, layout: &Layout) -> Result<()> {
        let change = self.0.lock().expect("no panic while the lock is held").take();
        match (change, layout.contiguous_offsets(), storage) {
            (Some(change), Some((start, end)), CpuStorage::F32(values)) => {
                change(&mut values[start..end])
            }
            _ => bail!("{:?} is not contiguous f32", layout.shape()),
        }
    }
}

/// Rows a task works on, where `rows` are shared out to all threads or, unless `parallel`, to one.
fn share(rows: usize, parallel: bool) -> usize {
    if parallel { rows.div_ceil(4 * rayon::current_num_threads()).max(1) } else { rows.max(1) }
}

/// Runs `work` on parts of `out`, rows of `width` values, with the index of each part's first row.
pub(crate) fn by_rows(
    parallel: bool,
    out: &mut [f32],
    width: usize,
    work: impl Fn(usize, &mut [f32]) + Sync,
) {
    let part = share(out.len() / width, parallel);
    let work = |(index, out): (usize, &mut [f32])| work(index * part, out);
    if parallel {
        out.par_chunks_mut(part * width).enumerate().for_each(work);
    } else {
        out.chunks_mut(part * width).enumerate().for_each(work);
    }
}

/// Writes `exp((logits - max) * inverse_temperature)` to `out` and returns its sum; the largest
/// value written is 1.
pub(crate) fn exp_row(logits: &[f32], inverse_temperature: f32, out: &mut [f32]) -> f32 {
    vectorized(
        #[inline(always)]
        || {
            let top = math::max(logits);
            for (out, x) in out.iter_mut().zip(logits) {
                *out = math::exp((x - top) * inverse_temperature);
            }
            math::sum_of(out, |mass| mass)
        },
    )
}
