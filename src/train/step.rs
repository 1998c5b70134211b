//! What one optimizer step needs: micro-batches and padded tensors.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};

use crate::policy::Sequence;

/// Ranges of rows whose tokens, prompts that neighbours share counted once, stay within `tokens`; a longer row
/// stands alone.
pub(super) fn micro_batches(rows: &[Sequence], tokens: usize) -> Vec<Range<usize>> {
    let mut batches = Vec::new();
    let (mut start, mut count) = (0, 0);
    for (index, row) in rows.iter().enumerate() {
        let whole = row.prompt.len() + row.completion.len();
        let shares = index > start && rows[index - 1].prompt == row.prompt;
        let more = if shares { row.completion.len() } else { whole };
        if index > start && count + more > tokens {
            batches.push(start..index);
            (start, count) = (index, whole);
        } else {
            count += more;
        }
    }
    if start < rows.len() {
        batches.push(start..rows.len());
    }
    batches
}

/// `[B, T]` f32 from rows of different lengths, zero where a row has ended.
pub(super) fn padded(rows: &[&[f32]], device: &Device) -> Result<Tensor> {
    let width = rows.iter().map(|row| row.len()).max().unwrap_or(0);
    let mut values = vec![0f32; rows.len() * width];
    for (slots, row) in values.chunks_mut(width.max(1)).zip(rows) {
        slots[..row.len()].copy_from_slice(row);
    }
    Tensor::from_vec(values, (rows.len(), width), device)
}

/// The rows of a `[B, T]` tensor on the host, cut to the lengths of the completions.
pub(super) fn unpadded(tensor: &Tensor, rows: &[Sequence]) -> Result<Vec<Vec<f32>>> {
    let mut values = tensor.to_dtype(DType::F32)?.to_vec2::<f32>()?;
    for (values, row) in values.iter_mut().zip(rows) {
        values.truncate(row.completion.len());
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn micro_batches_cover_every_row_once_within_the_budget() {
        let row = |length: usize| Sequence { prompt: vec![1], completion: vec![2; length - 1] };
        let rows: Vec<_> = [3, 3, 9, 2, 2, 2, 30, 1].map(row).into();
        // One prompt token for all of a batch: 1 + 2 + 2 + 8 + 1, 1 + 1 + 1, and what is too long alone.
        let batches = micro_batches(&rows, 14);
        assert_eq!(batches, [0..4, 4..6, 6..7, 7..8]);
        assert_eq!(micro_batches(&rows, 1000).len(), 1);
        assert!(micro_batches(&[], 10).is_empty());
    }
}
