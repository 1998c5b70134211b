//! Scalar and short-vector arithmetic that the compiler turns into SIMD inside [`vectorized`], fused multiply-adds
//! included. Sums go through [`LANES`] lanes whatever the width of a register is, so every instruction set gives the
//! same bits.
//!
//! [`vectorized`]: tealight_matmul::vectorized

use crate::divergence::Number;

/// Independent partial sums of a reduction.
pub(super) const LANES: usize = 16;

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
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            sums[lane] += sums[lane + width];
        }
        width /= 2;
    }
    sums[0]
}

/// `out += scale * x`.
#[inline(always)]
pub(super) fn add_scaled(out: &mut [f32], scale: f32, x: &[f32]) {
    for (out, x) in out.iter_mut().zip(x) {
        *out = scale.mul_add(*x, *out);
    }
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

/// `e^x` to about 1e-7 relative, without a branch, so that loops over it vectorise.
///
/// `e^x = 2^n e^r` with `n = round(x / ln 2)`; `e^r` for `|r| <= ln 2 / 2` is its Taylor series.
/// Saturates at the ends of the f32 range instead of returning 0 or infinity.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    let n = x.mul_add(std::f32::consts::LOG2_E, ROUND) - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    let mut p: f32 = 1.0 / 5040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, term);
    }
    p * f32::from_bits(((n as i32 + 127) << 23) as u32)
}

/// The numbers of divergences in loops over a vocabulary.
impl Number for f32 {
    const SERIES: f64 = 0.1;

    #[inline(always)]
    fn affine(self, by: f64, plus: f64) -> Self {
        self.mul_add(by as f32, plus as f32)
    }

    #[inline(always)]
    fn exp(self) -> Self {
        exp(self)
    }

    #[inline(always)]
    fn exp_m1(self) -> Self {
        // Its Taylor series where the difference would cancel.
        let mut p: f32 = 1.0 / 40320.0;
        for term in [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0] {
            p = p.mul_add(self, term);
        }
        self.below(0.5, p * self, exp(self) - 1.0)
    }

    #[inline(always)]
    fn softplus(self) -> Self {
        // log(1 + y) = 2 artanh(y / (2 + y)), y at most 1.
        let y = exp(-self.abs());
        let ratio = y / (2.0 + y);
        let square = ratio * ratio;
        let mut p: f32 = 2.0 / 15.0;
        for term in [2.0 / 13.0, 2.0 / 11.0, 2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0] {
            p = p.mul_add(square, term);
        }
        p.mul_add(ratio, self.max(0.0))
    }

    #[inline(always)]
    fn abs(self) -> Self {
        self.abs()
    }

    #[inline(always)]
    fn sign(self) -> Self {
        let size = if self < 0.0 { -1.0 } else { 1.0 };
        if self == 0.0 { 0.0 } else { size }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        // Nothing here is infinite.
        self * other
    }

    #[inline(always)]
    fn below(self, limit: f64, near: Self, far: Self) -> Self {
        if self.abs() < limit as f32 { near } else { far }
    }
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
    use crate::divergence::Divergence;

    #[test]
    fn exp_is_accurate_over_the_range() {
        for step in -8600..8700 {
            let x = step as f32 / 100.0;
            let (ours, exact) = (f64::from(exp(x)), f64::from(x).exp());
            assert!(((ours - exact) / exact).abs() < 3e-7, "exp({x}) = {ours}, not {exact}");
        }
        assert!(exp(f32::NEG_INFINITY) < 1e-37 && exp(1e9).is_finite());
    }

    #[test]
    fn divergences_of_f32_are_those_of_f64() {
        for divergence in Divergence::ALL {
            for step in -4000..400 {
                let x = step as f32 / 50.0 + 0.003;
                let wide = f64::from(x);
                let pairs = [
                    (divergence.f(x), divergence.f(wide)),
                    (divergence.slope(x), divergence.slope(wide)),
                ];
                for (ours, exact) in pairs {
                    let error = (f64::from(ours) - exact).abs();
                    // Beyond what f32 can say both grow without end.
                    let is_fine = error <= 1e-5 * exact.abs() + 1e-9 || exact.abs() > 1e37;
                    assert!(is_fine, "{divergence} at {x}: {ours}, not {exact}");
                }
            }
        }
    }

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
