//! Divergences of `f32`, for loops over a vocabulary: no function has a branch, so that the compiler turns such loops
//! into SIMD, and every instruction set gives the same bits.

use super::Number;

/// `e^x` to about 1e-7 relative, without a branch, so that loops over it vectorise.
///
/// `e^x = 2^n e^r` with `n = round(x / ln 2)`; `e^r` for `|r| <= ln 2 / 2` is its Taylor series.
/// Saturates at the ends of the f32 range instead of returning 0 or infinity.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding and subtracting 1.5 * 2^23 rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    let x = x.clamp(-87.0, 88.0);
    // Cody and Waite: ln 2 in two parts, the high one so short that n times it is exact, so that r keeps its digits.
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN2_LOW, n.mul_add(-LN2_HIGH, x));
    // e^r by Horner to r^7; |r| <= .35 leaves an error of 1e-8.
    let mut p: f32 = 1.0 / 5040.0;
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        p = p.mul_add(r, term);
    }
    // 2^n is the number with the exponent bits n + 127 and no fraction. The shifted number has n in its last bits; as a
    // conversion to i32, which saturates, LLVM would take each lane by itself.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits());
    p * f32::from_bits(n.wrapping_add(127) << 23)
}

impl Number for f32 {
    const SERIES: f64 = 0.1;
    const IS_DOUBLE: bool = false;

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
    fn below(self, limit: f64, near: Self, far: Self) -> Self {
        if self.abs() < limit as f32 { near } else { far }
    }

    #[inline(always)]
    fn within(self, low: f64, high: f64) -> Self {
        self.clamp(low as f32, high as f32)
    }

    #[inline(always)]
    fn larger(self, other: Self) -> Self {
        if self < other { other } else { self }
    }

    #[inline(always)]
    fn over(self, other: Self) -> Self {
        self / other
    }

    #[inline(always)]
    fn log(self) -> Self {
        log(self)
    }

    #[inline(always)]
    fn log_1p(self) -> Self {
        // What 1 + x rounded away comes back by the slope of the logarithm.
        let above = 1.0 + self;
        log(above) + (self - (above - 1.0)) / above
    }

    #[inline(always)]
    fn root(self) -> Self {
        self.sqrt()
    }

    #[inline(always)]
    fn tangent(self) -> Self {
        // (e^2x - 1) / (e^2x + 1); beyond 20 it is 1.
        let grown = Number::exp_m1(2.0 * self.clamp(-20.0, 20.0));
        grown / (grown + 2.0)
    }
}

/// The natural logarithm to about 1e-7 relative, without a branch; of positive numbers that are no subnormal ones.
#[inline(always)]
fn log(x: f32) -> f32 {
    // x = 2^n m with m from sqrt(1/2) to sqrt(2), so that log m is small where x is near 1.
    const ROOT_HALF: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_sub(ROOT_HALF);
    let n = ((shifted as i32) >> 23) as f32;
    let m = f32::from_bits((shifted & 0x007f_ffff).wrapping_add(ROOT_HALF));
    // log m = 2 artanh((m - 1) / (m + 1)), whose argument is at most .172.
    let ratio = (m - 1.0) / (m + 1.0);
    let square = ratio * ratio;
    let mut p: f32 = 2.0 / 11.0;
    for term in [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0, 2.0] {
        p = p.mul_add(square, term);
    }
    n.mul_add(std::f32::consts::LN_2, p * ratio)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Divergence;

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
    fn logarithms_and_tangents_are_accurate() {
        for step in -800..800 {
            let x = (step as f32 / 20.0).exp();
            let wide = f64::from(x);
            let error = (f64::from(Number::log(x)) - wide.ln()).abs();
            assert!(error <= 2e-7 * wide.ln().abs() + 1e-9, "log({x}) = {}", Number::log(x));
            for y in [x, -0.9 * x.min(1.0)] {
                let wide = f64::from(y);
                let error = (f64::from(y.log_1p()) - wide.ln_1p()).abs();
                assert!(error <= 5e-7 * wide.ln_1p().abs(), "log1p({y}) = {}", y.log_1p());
                let error = (f64::from(y.tangent()) - wide.tanh()).abs();
                assert!(error <= 5e-7 * wide.tanh().abs(), "tanh({y}) = {}", y.tangent());
            }
        }
    }

    #[test]
    fn divergences_of_f32_are_those_of_f64() {
        for divergence in Divergence::all() {
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
}
