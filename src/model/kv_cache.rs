//! Keys and values of past tokens, preallocated and written in place. The first rows are in use.

use candle_core::{Result, Tensor, bail};

use crate::backend::cpu::Cpu;
use crate::backend::cpu::attention::KeyLayout;
use crate::backend::gpu::Gpu;
use crate::backend::{AnyBackend, Backend, Heads};

/// The cache of one batch of sequences.
#[derive(Debug)]
pub struct KvCache {
    storage: Storage,
    slots: usize,
}

#[derive(Debug)]
enum Storage {
    /// Keys and values of every layer, each row laid out as attention reads it.
    Cpu(KeyLayout, Vec<[Vec<f32>; 2]>),
    /// The same as `[rows, slots, K * D]`.
    Gpu(Vec<[Tensor; 2]>),
}

/// A backend whose keys and values a cache can hold.
pub(super) trait Cached: Backend {
    /// The first `rows` rows of every layer.
    fn layers(cache: &mut KvCache, rows: usize) -> Result<Vec<Self::Cache<'_>>>;
}

impl Cached for Cpu {
    fn layers(cache: &mut KvCache, rows: usize) -> Result<Vec<Self::Cache<'_>>> {
        let Storage::Cpu(layout, layers) = &mut cache.storage else {
            bail!("the cache is that of a decoder on a GPU");
        };
        let count = rows * layout.row();
        let layers = layers.iter_mut();
        Ok(layers.map(|[keys, values]| (&mut keys[..count], &mut values[..count])).collect())
    }
}

impl Cached for Gpu {
    fn layers(cache: &mut KvCache, _: usize) -> Result<Vec<Self::Cache<'_>>> {
        match &cache.storage {
            Storage::Gpu(layers) => Ok(layers.iter().collect()),
            Storage::Cpu(..) => bail!("the cache is that of a decoder on the CPU"),
        }
    }
}

impl KvCache {
    /// Room for `rows` sequences of up to `slots` tokens, with values like those of `like`.
    pub(super) fn new(
        backend: &AnyBackend,
        layers: usize,
        heads: Heads,
        (rows, slots): (usize, usize),
        like: &Tensor,
    ) -> Result<Self> {
        let storage = match backend {
            AnyBackend::Cpu(_) => {
                let layout = KeyLayout::new(heads, slots);
                let empty = || vec![0f32; rows * layout.row()];
                Storage::Cpu(layout, (0..layers).map(|_| [empty(), empty()]).collect())
            }
            AnyBackend::Gpu(_) => {
                let shape = (rows, slots, heads.keys * heads.dim);
                let empty = || Tensor::zeros(shape, like.dtype(), like.device());
                let layers = (0..layers).map(|_| Ok([empty()?, empty()?]));
                Storage::Gpu(layers.collect::<Result<_>>()?)
            }
        };
        Ok(Self { storage, slots })
    }

    /// Tokens a row has room for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Copies the first `tokens` slots of `row` of another cache into `to`.
    ///
    /// # Errors
    /// Rows or slots out of range.
    pub fn copy_from(
        &mut self,
        other: &KvCache,
        row: usize,
        tokens: usize,
        to: usize,
    ) -> Result<()> {
        match (&mut self.storage, &other.storage) {
            (Storage::Cpu(mine, layers), Storage::Cpu(theirs, others)) => {
                for (layer, other) in layers.iter_mut().zip(others) {
                    copy((other, theirs, row), (layer, mine, to), tokens);
                }
                Ok(())
            }
            (Storage::Gpu(layers), Storage::Gpu(others)) => {
                for (mine, theirs) in layers.iter().flatten().zip(others.iter().flatten()) {
                    let past = theirs.narrow(0, row, 1)?.narrow(1, 0, tokens)?.contiguous()?;
                    mine.narrow(0, to, 1)?.slice_set(&past, 1, 0)?;
                }
                Ok(())
            }
            _ => bail!("the caches are on different devices"),
        }
    }

    /// Copies the first `tokens` slots of row `from` over row `to`.
    ///
    /// # Errors
    /// Rows or slots out of range.
    pub fn move_row(&mut self, from: usize, to: usize, tokens: usize) -> Result<()> {
        match &mut self.storage {
            Storage::Cpu(layout, layers) => {
                // Whole rows, room included: that is one copy.
                let (from, to, size) = (from * layout.row(), to * layout.row(), layout.row());
                for values in layers.iter_mut().flatten() {
                    values.copy_within(from..from + size, to);
                }
            }
            Storage::Gpu(layers) => {
                for tensor in layers.iter().flatten() {
                    let past =
                        tensor.narrow(0, from, 1)?.narrow(1, 0, tokens)?.force_contiguous()?;
                    tensor.narrow(0, to, 1)?.slice_set(&past, 1, 0)?;
                }
            }
        }
        Ok(())
    }
}

/// Copies `tokens` slots of a row of one cache to a row of another, which may have other room.
fn copy(
    ([keys, values], theirs, from): (&[Vec<f32>; 2], &KeyLayout, usize),
    ([own_keys, own_values], mine, to): (&mut [Vec<f32>; 2], &KeyLayout, usize),
    tokens: usize,
) {
    let keys = keys[from * theirs.row()..][..theirs.row()].chunks_exact(theirs.slots);
    let own = own_keys[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.slots);
    own.zip(keys).for_each(|(own, keys)| own[..tokens].copy_from_slice(&keys[..tokens]));
    let (width, size) = (theirs.slots * theirs.dim, tokens * mine.dim);
    let values = values[from * theirs.row()..][..theirs.row()].chunks_exact(width);
    let own = own_values[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.slots * mine.dim);
    own.zip(values).for_each(|(own, values)| own[..size].copy_from_slice(&values[..size]));
}
