//! Rotary position embedding: rotates the two halves of each head by the angle of its position.

/// Rotates the heads of `row` in place by angles whose cosines and sines are given, half a head of them;
/// `direction` is 1 for the rotation and -1 for its inverse, which is its gradient.
#[inline(always)]
pub(crate) fn rotate(row: &mut [f32], cos: &[f32], sin: &[f32], direction: f32) {
    let half = cos.len();
    for head in row.chunks_exact_mut(2 * half) {
        let (low, high) = head.split_at_mut(half);
        for i in 0..half {
            let (x, y, sin) = (low[i], high[i], sin[i] * direction);
            low[i] = x * cos[i] - y * sin;
            high[i] = y * cos[i] + x * sin;
        }
    }
}
