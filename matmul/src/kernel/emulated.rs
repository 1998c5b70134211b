//! Tiles of up to 4 rows and 16 columns on any processor, with fused multiply-adds emulated in f64.

use super::{Panels, Target};

/// Columns of a panel.
const COLUMNS: usize = 16;

/// `a * b + c`, rounded once.
///
/// The product of two f32 is exact in f64. The sum is rounded to odd: where f64 cannot hold the exact sum, the last bit
/// of the one below is set. Rounding that to f32, which has less than half as many bits, is rounding the exact sum
/// (Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008).
#[inline(always)]
pub(super) fn fused(a: f32, b: f32, c: f32) -> f32 {
    let (product, c) = (f64::from(a) * f64::from(b), f64::from(c));
    let sum = product + c;
    // The rounding error of the sum, exactly (Knuth's two-sum): sum + error is product + c, with no condition on their
    // sizes.
    let part = sum - product;
    let error = (product - (sum - part)) + (c - part);
    let bits = sum.to_bits();
    // To odd: where the exact sum lies between two f64, the one of them whose last bit is 1.
    let is_even = bits & 1 == 0;
    let grows = is_even & ((error > 0.0) & (sum > 0.0) | (error < 0.0) & (sum < 0.0));
    let shrinks = is_even & ((error > 0.0) & (sum < 0.0) | (error < 0.0) & (sum > 0.0));
    f64::from_bits(bits + u64::from(grows) - u64::from(shrinks)) as f32
}

/// [`fused`] in fewer steps, for sums that are rarely near the middle between two f32.
#[cfg(any(test, all(windows, target_env = "gnu")))]
fn fused_once(a: f32, b: f32, c: f32) -> f32 {
    let sum = f64::from(a) * f64::from(b) + f64::from(c);
    if may_round_twice(sum) { fused(a, b, c) } else { sum as f32 }
}

/// The function that `f32::mul_add` calls in code that is compiled for processors without such an instruction: MinGW's
/// rounds twice.
// SAFETY: it has the name, the arguments and the result of C's `fmaf`.
#[cfg(all(windows, target_env = "gnu"))]
#[unsafe(no_mangle)]
extern "C" fn fmaf(a: f32, b: f32, c: f32) -> f32 {
    fused_once(a, b, c)
}

/// Whether a sum in f64 may become another f32 than the exact sum does: where it lies in the middle between two of
/// them, or where they have fewer bits than elsewhere.
#[inline(always)]
fn may_round_twice(sum: f64) -> bool {
    const BITS_BELOW: u64 = (1 << 29) - 1;
    let is_middle = sum.to_bits() & BITS_BELOW == 1 << 28;
    is_middle | (sum.abs() < f64::from(f32::MIN_POSITIVE)) & (sum != 0.0)
}

/// [`fused`] of a row: sums are rounded to f64 and then to f32, which is the same but for rare sums, and those are
/// rounded to odd.
#[inline(always)]
fn add_products(a: f32, row: &[f32; COLUMNS], sums: &mut [f32; COLUMNS]) {
    let (mut next, mut is_doubtful) = ([0f32; COLUMNS], false);
    for ((next, b), c) in next.iter_mut().zip(row).zip(&*sums) {
        let sum = f64::from(a) * f64::from(*b) + f64::from(*c);
        is_doubtful |= may_round_twice(sum);
        *next = sum as f32;
    }
    if is_doubtful {
        for ((next, b), c) in next.iter_mut().zip(row).zip(&*sums) {
            *next = fused(a, *b, *c);
        }
    }
    *sums = next;
}

/// Computes, or with `adds` adds to, the tile of the result at row and column `at`.
pub(super) fn tile(panels: Panels<'_>, adds: bool, [row, column]: [usize; 2], target: &Target<'_>) {
    let Panels { left, right, height, .. } = panels;
    for index in 0..height {
        let mut sums = [0f32; COLUMNS];
        for (values, columns) in left.chunks_exact(height).zip(right.as_chunks::<COLUMNS>().0) {
            add_products(values[index], columns, &mut sums);
        }
        target.put(row + index, column, &sums, adds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, since on some systems `mul_add` is the function under test: 24929 * 673 = 2^24 + 1, so the product lies
    /// halfway between two numbers, and the small term decides. Rounded first to f64, the term is lost.
    #[test]
    fn a_term_below_the_last_place_of_f64_decides_between_neighbours() {
        let (a, b, small) = (24929.0 / 16384.0, 673.0 / 1024.0, 2f32.powi(-60));
        assert_eq!(fused(a, b, small).to_bits(), 0x3f80_0001);
        assert_eq!(fused(a, b, -small).to_bits(), 0x3f80_0000);
        assert_eq!(fused(a, b, 0.0).to_bits(), 0x3f80_0000, "ties go to even");
        assert_eq!(fused(-a, b, -small).to_bits(), 0xbf80_0001);
        assert_eq!(fused(a * 2f32.powi(40), b, small * 2f32.powi(40)).to_bits(), 0x5380_0001);
    }

    #[test]
    fn emulated_multiply_adds_are_rounded_once() {
        let mut state = 1u64;
        let mut bits = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 32) as u32
        };
        let check = |a: f32, b: f32, c: f32| {
            let mut sums = [c; COLUMNS];
            add_products(a, &[b; COLUMNS], &mut sums);
            let exact = a.mul_add(b, c);
            for ours in [fused(a, b, c), fused_once(a, b, c), sums[0], sums[COLUMNS - 1]] {
                let is_same =
                    ours.to_bits() == exact.to_bits() || (ours.is_nan() && exact.is_nan());
                assert!(is_same, "{a:e} * {b:e} + {c:e} is {exact:e}, not {ours:e}");
            }
        };
        for _ in 0..2_000_000 {
            // Any bits; sums that nearly cancel; ties of the product's last places; small numbers.
            let (a, b, c) =
                (f32::from_bits(bits()), f32::from_bits(bits()), f32::from_bits(bits()));
            check(a, b, c);
            let near =
                f32::from_bits((-(a * b)).to_bits().wrapping_add(bits() % 5).wrapping_sub(2));
            check(a, b, near);
            let [a, b] = [a, b].map(|x| f32::from_bits(x.to_bits() & 0xffff_f000));
            check(a, b, c);
            let scale = |x: f32| f32::from_bits(x.to_bits() & 0x807f_ffff | 0x2000_0000);
            check(scale(a), scale(b), f32::from_bits(c.to_bits() & 0x80ff_ffff));
            let unit = |x: u32| f32::from_bits(x & 0x807f_ffff | 0x3f80_0000);
            check(unit(bits()), unit(bits()), unit(bits()) * 2f32.powi((bits() % 60) as i32 - 30));
        }
    }
}
