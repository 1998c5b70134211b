//! Products of bfloat16: operands are rounded to 16 bits, and sums are in f32.
//!
//! Values along k go in pairs. Of a pair the product of the second place is added first, then that of the first place,
//! each rounded once: so does `vdpbf16ps` of AVX512-BF16, and so do f32 multiply-adds over panels whose places are
//! exchanged. Both come to the same bits, unless a partial sum is below 1.2e-38, which the instruction takes for zero.
//!
//! AMX has another order: of 16 pairs the products of all first places are summed, apart from them those of all second
//! places, each by fused multiply-adds from zero, then both sums, and that is added to what the pairs before came to.

use half::bf16;

use super::InstructionSet;
use super::instructions::TileShape;

/// How panels hold the places along k.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// f32, a line for each place.
    Single,
    /// bfloat16, a line for every two places: in a value's bits the second place above the first. Such a value is
    /// never computed with.
    Pairs,
    /// As `Pairs`, in whole tiles of AMX: of the right operand so many lines, and of the left one
    /// `[16 rows][16 pairs]`, tile after tile along k for each 16 rows.
    Tiles,
    /// bfloat16 widened to f32, a line for each place, the two of a pair exchanged.
    Exchanged,
}

/// Rows, and pairs along k, of a tile of AMX.
pub(crate) const TILE: usize = 16;

impl Form {
    /// That of products of bfloat16.
    pub(crate) fn half() -> Self {
        match InstructionSet::in_use() {
            InstructionSet::Amx => Self::Tiles,
            _ if multiplies_bfloat16() => Self::Pairs,
            _ => Self::Exchanged,
        }
    }

    /// The shape of the tiles that its products are computed in.
    pub(crate) fn tile(self) -> TileShape {
        let shape = InstructionSet::in_use().tile();
        if self == Self::Tiles { TileShape { rows: 2 * TILE, ..shape } } else { shape }
    }

    /// Rows of a left operand that are packed together: a panel of rows is some of them.
    pub(crate) fn rows_together(self) -> usize {
        if self == Self::Tiles { TILE } else { 1 }
    }

    /// Lines of so many places: a pair whose second place is missing has a zero there, and so has a tile that is not
    /// full.
    pub(crate) fn lines(self, places: usize) -> usize {
        match self {
            Self::Single => places,
            Self::Pairs => places.div_ceil(2),
            Self::Tiles => places.div_ceil(2).next_multiple_of(TILE),
            Self::Exchanged => places.next_multiple_of(2),
        }
    }
}

/// Whether this processor multiplies bfloat16 faster than f32 with the instruction set in use; else such products are
/// as slow as those of f32, or a little slower.
pub fn multiplies_bfloat16() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        InstructionSet::in_use().has_avx512() && is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}

/// The bits of the nearest bfloat16, the even one of two, widened. What is below the smallest normal number is zero,
/// since the instructions take it for that.
#[inline(always)]
pub(crate) fn rounded(x: f32) -> u32 {
    const SIZE: u32 = 0x7fff_ffff;
    let bits = x.to_bits();
    let near = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) & 0xffff_0000;
    let near = if bits & SIZE < 0x0080_0000 { bits & !SIZE } else { near };
    // What is not a number would become infinite, or zero.
    if bits & SIZE > 0x7f80_0000 { (bits | 0x0040_0000) & 0xffff_0000 } else { near }
}

/// A value that a matrix consists of.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Value: Wide + super::kernel::packing::Packable<2> {}

/// A value that a matrix consists of.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) trait Value: Wide {}

impl Value for f32 {}
impl Value for bf16 {}

/// A value that f32 holds exactly.
pub(crate) trait Wide: Copy + Sync {
    fn wide(self) -> f32;
}

impl Wide for f32 {
    #[inline(always)]
    fn wide(self) -> f32 {
        self
    }
}

impl Wide for bf16 {
    #[inline(always)]
    fn wide(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_half_but_for_subnormals() {
        for step in 0..200_000u32 {
            let x = f32::from_bits(step.wrapping_mul(21_473));
            let (ours, theirs) = (f32::from_bits(rounded(x)), bf16::from_f32(x).to_f32());
            match x.is_nan() {
                true => assert!(ours.is_nan()),
                false if x.abs() < f32::MIN_POSITIVE => {
                    assert!(ours == 0.0 && ours.is_sign_negative() == x.is_sign_negative());
                }
                false => assert_eq!(ours, theirs, "{x}"),
            }
        }
    }
}
