//! Rotary position embedding: rotates the two halves of what turns of each head by the angle of its position.

use tealight_matmul::vectorized;

/// Rotates the heads of `row`, `dim` values each, in place by angles whose cosines and sines are given: as many pairs
/// of a head as there are, from its first value on; `direction` is 1 for the rotation and -1 for its transpose, which
/// is its gradient.
#[inline(always)]
pub(crate) fn rotate(row: &mut [f32], dim: usize, (cos, sin): (&[f32], &[f32]), direction: f32) {
    let half = cos.len();
    vectorized(
        #[inline(always)]
        || {
            for head in row.chunks_exact_mut(dim) {
                let (low, rest) = head.split_at_mut(half);
                let high = &mut rest[..half];
                for i in 0..half {
                    // (x, y) to (x cos - y sin, y cos + x sin); pairs are (i, i + half), as in Llama's checkpoints on
                    // the Hub.
                    let (x, y, sin) = (low[i], high[i], sin[i] * direction);
                    low[i] = x * cos[i] - y * sin;
                    high[i] = y * cos[i] + x * sin;
                }
            }
        },
    );
}
