//! Keys and values of past tokens, preallocated and written in place. The first rows are in use.

use std::ops::Range;

use candle_core::{Result, Tensor, bail};

use crate::backend::cpu::Cpu;
use crate::backend::cpu::attention::KeyLayout;
use crate::backend::cpu::pass::Slots;
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
    Cpu(Vec<(KeyLayout, [Vec<f32>; 2])>),
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
        let Storage::Cpu(layers) = &mut cache.storage else {
            bail!("the cache is that of a decoder on a GPU");
        };
        let layers = layers.iter_mut().map(|(layout, [keys, values])| {
            let (count, layout) = (rows * layout.row(), *layout);
            Slots { keys: &mut keys[..count], values: &mut values[..count], layout }
        });
        Ok(layers.collect())
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
    /// Room for `rows` sequences of up to `slots` tokens, with values like those of `like`; on the CPU layers with a
    /// window, of which `windows` says it, have room for little more than that.
    pub(super) fn new(
        backend: &AnyBackend,
        windows: &[Option<usize>],
        heads: Heads,
        (rows, slots): (usize, usize),
        like: &Tensor,
    ) -> Result<Self> {
        let storage = match backend {
            AnyBackend::Cpu(_) => {
                let layer = |window: &Option<usize>| {
                    let layout = match window {
                        Some(window) => KeyLayout::sliding(heads, slots, *window),
                        None => KeyLayout::new(heads, slots),
                    };
                    (layout, [0, 1].map(|_| vec![0f32; rows * layout.row()]))
                };
                Storage::Cpu(windows.iter().map(layer).collect())
            }
            AnyBackend::Gpu(_) => {
                let shape = (rows, slots, heads.keys * heads.dim);
                let empty = || Tensor::zeros(shape, like.dtype(), like.device());
                let layers = windows.iter().map(|_| Ok([empty()?, empty()?]));
                Storage::Gpu(layers.collect::<Result<_>>()?)
            }
        };
        Ok(Self { storage, slots })
    }

    /// Tokens a row has room for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Copies the `tokens` tokens that `row` of another cache was given, without windows, into `to`.
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
            (Storage::Cpu(layers), Storage::Cpu(others)) => {
                for ((mine, layer), (theirs, other)) in layers.iter_mut().zip(others) {
                    copy((other, theirs, row), (layer, mine, to), mine.first(tokens)..tokens);
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
            Storage::Cpu(layers) => {
                for (layout, values) in layers {
                    // Whole rows, room included: that is one copy.
                    let size = layout.row();
                    let own = from * size..(from + 1) * size;
                    values.iter_mut().for_each(|values| values.copy_within(own.clone(), to * size));
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

/// Copies the slots `held` of a row of one cache to the beginning of a row of another, which may have other room.
fn copy(
    ([keys, values], theirs, from): (&[Vec<f32>; 2], &KeyLayout, usize),
    ([own_keys, own_values], mine, to): (&mut [Vec<f32>; 2], &KeyLayout, usize),
    held: Range<usize>,
) {
    let count = held.len();
    let keys = keys[from * theirs.row()..][..theirs.row()].chunks_exact(theirs.slots);
    let own = own_keys[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.slots);
    own.zip(keys).for_each(|(own, keys)| own[..count].copy_from_slice(&keys[held.clone()]));
    let (dim, width) = (theirs.dim, theirs.slots * theirs.dim);
    let values = values[from * theirs.row()..][..theirs.row()].chunks_exact(width);
    let own = own_values[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.slots * dim);
    let held = held.start * dim..held.end * dim;
    own.zip(values).for_each(|(own, values)| {
        own[..count * dim].copy_from_slice(&values[held.clone()]);
    });
}
