//! Fused multiply-adds along vectors, for code that is not compiled for registers of several values.

/// Values of a line of [`block_products`].
pub const LANES: usize = 16;

/// `out += scale * x`, each sum rounded once.
#[inline(always)]
pub fn add_scaled(out: &mut [f32], scale: f32, x: &[f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = scale.mul_add(*x, *out);
    }
}

/// Products of a vector `[D]` with the [`LANES`] columns of a block `[D, LANES]`: the sum over even places plus that
/// over odd ones, each added up in order.
///
/// # Panics
/// If the block has another size.
#[inline(always)]
pub fn block_products(vector: &[f32], block: &[f32]) -> [f32; LANES] {
    assert_eq!(block.len(), vector.len() * LANES);
    let mut sums = [[0f32; LANES]; 2];
    for (place, (value, line)) in vector.iter().zip(block.as_chunks::<LANES>().0).enumerate() {
        for (sum, x) in sums[place % 2].iter_mut().zip(line) {
            *sum = value.mul_add(*x, *sum);
        }
    }
    let [even, odd] = sums;
    std::array::from_fn(|lane| even[lane] + odd[lane])
}
