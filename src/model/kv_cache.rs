//! Keys and values of past tokens, preallocated and written in place.
//!
//! The first rows are in use. Only forward passes that need no gradient may use it: writing in place is
//! invisible to autograd. On the CPU in f32 keys are kept as `kernels::cpu::attention` wants them; elsewhere
//! both are tensors `[rows, slots, K * D]` for each layer, K key-value heads of D values.

use std::sync::{Mutex, MutexGuard};

use candle_core::{DType, Device, Result, Tensor, bail};

use super::Architecture;
use super::host::{self, Slots};
use super::ops::View;
use crate::kernels::cpu::attention::Heads;

/// The cache of one batch of sequences.
#[derive(Debug)]
pub struct KvCache {
    storage: Storage,
    slots: usize,
}

#[derive(Debug)]
enum Storage {
    Host(Heads, Vec<Mutex<HostLayer>>),
    Tensors(Vec<[Tensor; 2]>),
}

/// One layer's keys and values on the host.
#[derive(Debug)]
pub(super) struct HostLayer {
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl HostLayer {
    /// The first `count` of both.
    pub(super) fn rows(&mut self, count: usize) -> Slots<'_> {
        (&mut self.keys[..count], &mut self.values[..count])
    }
}

impl KvCache {
    /// Room for `rows` sequences of up to `slots` tokens.
    ///
    /// # Errors
    /// No memory on the device.
    pub fn new(
        architecture: &Architecture,
        rows: usize,
        slots: usize,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let layers = 0..architecture.num_layers;
        if host::runs(dtype, device) {
            let heads = host::heads(architecture, slots);
            let empty = || vec![0f32; rows * heads.row()];
            let layer = |_| Mutex::new(HostLayer { keys: empty(), values: empty() });
            return Ok(Self { storage: Storage::Host(heads, layers.map(layer).collect()), slots });
        }
        let width = architecture.num_kv_heads * architecture.head_dim;
        let tensor = || Tensor::zeros((rows, slots, width), dtype, device);
        let layers = layers.map(|_| Ok([tensor()?, tensor()?]));
        Ok(Self { storage: Storage::Tensors(layers.collect::<Result<_>>()?), slots })
    }

    /// Tokens a row has room for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// All layers, to be written.
    pub(super) fn lock(&self) -> Result<Vec<MutexGuard<'_, HostLayer>>> {
        match &self.storage {
            Storage::Host(_, layers) => Ok(layers.iter().map(held).collect()),
            Storage::Tensors(_) => bail!("the cache is not that of a decoder on the CPU"),
        }
    }

    /// The keys and values of a layer on a GPU, `[rows, slots, K * D]` each.
    pub(super) fn layer(&self, index: usize) -> Result<&[Tensor; 2]> {
        match &self.storage {
            Storage::Tensors(layers) => Ok(&layers[index]),
            Storage::Host(..) => bail!("the cache is that of a decoder on the CPU"),
        }
    }

    /// Writes the keys and values `[B, T, K * D]` of a layer's new tokens where `view` says, and
    /// returns those of the first B rows, old and new, `[B, slots, K * D]`.
    pub(super) fn extend(
        &self,
        layer: usize,
        k: &Tensor,
        v: &Tensor,
        view: &View,
    ) -> Result<(Tensor, Tensor)> {
        let Storage::Tensors(layers) = &self.storage else {
            bail!("the cache is that of a decoder on the CPU");
        };
        let (rows, tokens, width) = k.dims3()?;
        if k.track_op() {
            bail!("a forward pass with a cache has no gradient");
        }
        let at_start = view.pasts.iter().all(|slot| *slot == 0);
        let index =
            if at_start { None } else { Some(slot_index(&view.pasts, tokens, width, k.device())?) };
        let write = |cache: &Tensor, new: &Tensor| -> Result<Tensor> {
            let live = cache.narrow(0, 0, rows)?;
            match &index {
                None => live.slice_set(&new.contiguous()?, 1, 0)?,
                Some(index) => live.scatter_set(index, &new.contiguous()?, 1)?,
            }
            Ok(live)
        };
        let [keys, values] = &layers[layer];
        Ok((write(keys, k)?, write(values, v)?))
    }

    /// Copies the first `tokens` slots of `row` of another cache into `to`.
    ///
    /// # Errors
    /// Rows or slots out of range.
    pub fn copy_from(&self, other: &KvCache, row: usize, tokens: usize, to: usize) -> Result<()> {
        match (&self.storage, &other.storage) {
            (Storage::Host(mine, layers), Storage::Host(theirs, others)) => {
                for (layer, other) in layers.iter().zip(others) {
                    let (mut layer, other) = (held(layer), held(other));
                    let from = (&other.keys[..], &other.values[..], theirs, row);
                    copy(from, (&mut layer, mine, to), tokens);
                }
                Ok(())
            }
            (Storage::Tensors(layers), Storage::Tensors(others)) => {
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
    pub fn move_row(&self, from: usize, to: usize, tokens: usize) -> Result<()> {
        match &self.storage {
            Storage::Host(heads, layers) => {
                for layer in layers {
                    let mut layer = held(layer);
                    // Whole rows, room included: that is one copy.
                    let (from, to, size) = (from * heads.row(), to * heads.row(), heads.row());
                    layer.keys.copy_within(from..from + size, to);
                    layer.values.copy_within(from..from + size, to);
                }
            }
            Storage::Tensors(layers) => {
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

fn held(layer: &Mutex<HostLayer>) -> MutexGuard<'_, HostLayer> {
    layer.lock().expect("no panic while the lock is held")
}

/// Copies `tokens` slots of a row of one cache to a row of another, which may have other room.
fn copy(
    (keys, values, theirs, from): (&[f32], &[f32], &Heads, usize),
    (layer, mine, to): (&mut HostLayer, &Heads, usize),
    tokens: usize,
) {
    let keys = keys[from * theirs.row()..][..theirs.row()].chunks_exact(theirs.slots);
    let own = layer.keys[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.slots);
    own.zip(keys).for_each(|(own, keys)| own[..tokens].copy_from_slice(&keys[..tokens]));
    let (width, size) = (theirs.slots * theirs.dim, tokens * mine.dim);
    let values = values[from * theirs.row()..][..theirs.row()].chunks_exact(width);
    let own = layer.values[to * mine.row()..][..mine.row()].chunks_exact_mut(mine.slots * mine.dim);
    own.zip(values).for_each(|(own, values)| own[..size].copy_from_slice(&values[..size]));
}

/// `[B, T, width]`: the slot of every value that is written.
fn slot_index(pasts: &[u32], tokens: usize, width: usize, device: &Device) -> Result<Tensor> {
    let slots = pasts.iter().flat_map(|past| *past..past + tokens as u32).collect();
    let slots = Tensor::from_vec(slots, (pasts.len(), tokens, 1), device)?;
    slots.expand((pasts.len(), tokens, width))?.contiguous()
}
