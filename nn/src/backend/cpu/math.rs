//! Scalar and short-vector arithmetic that the compiler turns into SIMD inside [`vectorized`], fused multiply-adds
//! included. Sums go through [`LANES`] lanes whatever the width of a register is, so every instruction set gives the
//! same bits.
//!
//! [`vectorized`]: tealight_matmul::vectorized

pub(super) use tealight_divergence::single::exp;
pub(super) use tealight_matmul::{LANES, add_scaled};

/// Sum of products, in an order fixed by the length alone.
#[inline(always)]
pub(super) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0f32; LANES];
    let (a_blocks, b_blocks) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let tail: f32 = a_blocks.remainder().iter().zip(b_blocks.remainder()).map(|(x, y)| x * y).sum();
    for (x, y) in a_blocks.zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] = x[lane].mul_add(y[lane], sums[lane]);
        }
    }
    fold(sums) + tail
}

/// Adds up the lanes pairwise.
#[inline(always)]
pub(super) fn fold(mut sums: [f32; LANES]) -> f32 {
    // A tree of fixed shape: the order of additions is part of the result.
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// The largest value; negative infinity for none.
#[inline(always)]
pub(super) fn max(values: &[f32]) -> f32 {
    let mut best = [f32::NEG_INFINITY; LANES];
    let blocks = values.chunks_exact(LANES);
    let tail = blocks.remainder().iter().fold(f32::NEG_INFINITY, |a, b| a.max(*b));
    for block in blocks {
        for lane in 0..LANES {
            best[lane] = if block[lane] > best[lane] { block[lane] } else { best[lane] };
        }
    }
    best.iter().fold(tail, |a, b| a.max(*b))
}

/// Sums `term(value)` over `values` in lanes.
#[inline(always)]
pub(super) fn sum_of(values: &[f32], term: impl Fn(f32) -> f32) -> f32 {
    let mut sums = [0f32; LANES];
    let blocks = values.chunks_exact(LANES);
    let tail: f32 = blocks.remainder().iter().map(|x| term(*x)).sum();
    for block in blocks {
        for lane in 0..LANES {
            sums[lane] += term(block[lane]);
        }
    }
    fold(sums) + tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_cover_blocks_and_tails() {
        for n in [0, 1, 15, 16, 17, 64, 100] {
            let values: Vec<f32> = (0..n).map(|i| (i as f32 * 0.7).sin()).collect();
            let exact: f32 = values.iter().map(|x| x * x).sum();
            assert!((dot(&values, &values) - exact).abs() < 1e-4);
            assert!((sum_of(&values, |x| x * x) - exact).abs() < 1e-4);
            let largest = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(&values), largest);
        }
    }
}
