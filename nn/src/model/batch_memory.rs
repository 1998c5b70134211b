//! Rows of a batch on a GPU to the memory that they take: how many fit, and room that grows with them.

use candle_core::{DType, Result, bail};

use super::architecture::{Architecture, LayerKind};
use super::decoder::Decoder;
use super::kv_cache::KvCache;
use crate::backend::PackedSequences;

/// Bytes of keys and values, or of states, that a row of so many tokens takes on a GPU in all layers.
pub fn row_bytes(architecture: &Architecture, tokens: usize, dtype: DType) -> u64 {
    let width = dtype.size_in_bytes();
    let keys = architecture.num_kv_heads * architecture.head_dim;
    let layer_values = |layer: &LayerKind| match (layer, architecture.delta) {
        // The state is added up in f32, whatever the layers are in.
        (LayerKind::Delta, Some(sizes)) => {
            let [state, past] = sizes.state();
            4 * state + width * past
        }
        _ => 2 * keys * tokens * width,
    };
    architecture.layers.iter().map(layer_values).sum::<usize>() as u64
}

/// Bytes that a decoding step on a GPU computes in for each row, beside its logits: those of the arrays that it
/// holds at once, of each size the most that a layer needs. Memory of one size is not used for another.
pub fn step_bytes(architecture: &Architecture, dtype: DType) -> u64 {
    let a = architecture;
    let (queries, keys) = (a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim);
    let delta = a.delta.map_or(0, |d| 2 * d.mixed() + 4 * d.values() + 2 * d.value_heads);
    let values = 7 * a.hidden_size + 5 * a.intermediate_size + 5 * (queries + keys) + delta;
    // In f32 whatever the layers are in: the sums of attention, unit vectors and gates of the delta rule, angles; and
    // tables, random numbers and what is drawn for several tokens.
    let unit = a.delta.map_or(0, |d| 2 * (d.key_heads * d.key_dim + d.value_heads));
    let single = a.num_heads + unit + a.ropes.len() * a.rotary_dim + 64;
    (dtype.size_in_bytes() * values + 4 * single) as u64
}

/// How many rows of `row` bytes each, of those that are wanted, fit what is free beside `fixed` bytes. A tenth is left
/// to what is not counted: the driver's pools, and the layer that is there twice while a cache grows.
fn fitting(wanted: usize, free: u64, fixed: u64, row: u64) -> usize {
    let left = (free / 10 * 9).saturating_sub(fixed);
    wanted.min(usize::try_from(left / row.max(1)).unwrap_or(usize::MAX))
}

/// Makes room in a cache for the tokens of a pass; how many a row has room for then.
pub(super) fn grown(
    cache: Option<&mut KvCache>,
    packed: &PackedSequences,
) -> Result<Option<usize>> {
    let Some(cache) = cache else { return Ok(None) };
    cache.grow(packed.longest())?;
    Ok(Some(cache.slots()))
}

impl Decoder {
    /// How many of `wanted` rows of up to `tokens` tokens a batch may have, where a pass over `prompts` tokens of
    /// prompts goes before: on a GPU as many as its free memory holds should all of them grow to their end.
    pub(crate) fn rows_that_fit(
        &self,
        wanted: usize,
        tokens: usize,
        prompts: usize,
    ) -> Result<usize> {
        let free = tealight_gpu::free_memory(self.device()).filter(|_| self.is_on_gpu());
        let (Some(free), true) = (free, wanted > 0) else { return Ok(wanted) };
        let (a, dtype) = (&self.architecture, self.dtype());
        // Logits of rows and of the prompts that they begin with, and what is computed of a prompt's tokens.
        let row = row_bytes(a, tokens, dtype) + 8 * a.vocab_size as u64 + step_bytes(a, dtype);
        let fixed = prefill_bytes(a, prompts, dtype);
        let rows = fitting(wanted, free, fixed, row);
        let gigabytes = |bytes: u64| bytes as f64 / 1e9;
        if rows == 0 {
            bail!(
                "a row of {tokens} tokens takes {:.2} GB of keys, values and logits and prompts {:.2} GB, and {:.2} GB of \
                 the GPU's memory are free: lower --max-completion-length",
                gigabytes(row),
                gigabytes(fixed),
                gigabytes(free)
            );
        }
        if rows < wanted {
            tracing::info!(
                "{rows} sequences at a time instead of {wanted}: {:.1} GB of the GPU's memory are free",
                gigabytes(free)
            );
        }
        Ok(rows)
    }
}

/// Bytes that a pass over so many tokens of prompts takes: their keys and values, and a layer's activations.
pub fn prefill_bytes(architecture: &Architecture, tokens: usize, dtype: DType) -> u64 {
    let a = architecture;
    let inner = 6 * a.hidden_size + 3 * a.intermediate_size + 2 * a.num_heads * a.head_dim;
    row_bytes(a, tokens, dtype) + (tokens * inner * dtype.size_in_bytes()) as u64
}

#[cfg(test)]
mod tests {
    use super::fitting;

    #[test]
    fn rows_fill_nine_tenths_of_free_memory() {
        assert_eq!(fitting(256, 100, 0, 1), 90);
        assert_eq!(fitting(256, 100, 30, 2), 30);
        assert_eq!(fitting(16, 100, 30, 2), 16);
        assert_eq!(fitting(16, 100, 90, 1), 0);
        assert_eq!(fitting(16, 100, 200, 1), 0);
    }
}
