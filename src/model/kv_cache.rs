//! Keys and values of past tokens, preallocated and written in place.
//!
//! `[rows, slots, K * D]` for each layer, K key-value heads of D values. The first `live` rows are in
//! use. Only forward passes that need no gradient may use it: writing in place is invisible to
//! autograd.

use candle_core::{DType, Device, Result, Tensor, bail};

use super::{Architecture, Spans};

/// The cache of one batch of sequences.
#[derive(Debug)]
pub struct KvCache {
    layers: Vec<[Tensor; 2]>,
    slots: usize,
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
        let width = architecture.num_kv_heads * architecture.head_dim;
        let tensor = || Tensor::zeros((rows, slots, width), dtype, device);
        let layers = (0..architecture.num_layers).map(|_| Ok([tensor()?, tensor()?]));
        Ok(Self { layers: layers.collect::<Result<_>>()?, slots })
    }

    /// Tokens a row has room for.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Writes the keys and values `[B, T, K * D]` of a layer's new tokens where `spans` says, and
    /// returns those of the first B rows, old and new, `[B, slots, K * D]`.
    pub(super) fn extend(
        &self,
        layer: usize,
        k: &Tensor,
        v: &Tensor,
        spans: &Spans,
    ) -> Result<(Tensor, Tensor)> {
        let (rows, tokens, width) = k.dims3()?;
        if k.track_op() {
            bail!("a forward pass with a cache has no gradient");
        }
        let at_start = spans.first_query.iter().all(|slot| *slot == 0);
        let index =
            if at_start { None } else { Some(slot_index(spans, tokens, width, k.device())?) };
        let write = |cache: &Tensor, new: &Tensor| -> Result<Tensor> {
            let live = cache.narrow(0, 0, rows)?;
            match &index {
                None => live.slice_set(&new.contiguous()?, 1, 0)?,
                Some(index) => live.scatter_set(index, &new.contiguous()?, 1)?,
            }
            Ok(live)
        };
        let [keys, values] = &self.layers[layer];
        Ok((write(keys, k)?, write(values, v)?))
    }

    /// Copies the first `tokens` slots of `row` of another cache into `to`.
    ///
    /// # Errors
    /// Rows or slots out of range.
    pub fn copy_from(&self, other: &KvCache, row: usize, tokens: usize, to: usize) -> Result<()> {
        for (mine, theirs) in self.layers.iter().flatten().zip(other.layers.iter().flatten()) {
            let past = theirs.narrow(0, row, 1)?.narrow(1, 0, tokens)?.contiguous()?;
            mine.narrow(0, to, 1)?.slice_set(&past, 1, 0)?;
        }
        Ok(())
    }

    /// Copies the first `tokens` slots of row `from` over row `to`.
    ///
    /// # Errors
    /// Rows or slots out of range.
    pub fn move_row(&self, from: usize, to: usize, tokens: usize) -> Result<()> {
        for tensor in self.layers.iter().flatten() {
            let past = tensor.narrow(0, from, 1)?.narrow(1, 0, tokens)?.force_contiguous()?;
            tensor.narrow(0, to, 1)?.slice_set(&past, 1, 0)?;
        }
        Ok(())
    }
}

/// `[B, T, width]`: the slot of every value that is written.
fn slot_index(spans: &Spans, tokens: usize, width: usize, device: &Device) -> Result<Tensor> {
    let starts = spans.first_query.iter();
    let slots: Vec<u32> =
        starts.flat_map(|start| (0..tokens as u32).map(move |t| start + t)).collect();
    let slots = Tensor::from_vec(slots, (spans.first_query.len(), tokens, 1), device)?;
    slots.expand((spans.first_query.len(), tokens, width))?.contiguous()
}
