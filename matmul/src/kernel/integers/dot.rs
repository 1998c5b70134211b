//! Tiles of up to 5 rows and 16 columns by ARM's `sdot`: four products of 8 bits to a sum.

use std::arch::aarch64::{
    float32x4_t, int8x16_t, int32x4_t, vcvtq_f32_s32, vdupq_n_f32, vdupq_n_s8, vdupq_n_s32,
    veorq_s8, vfmaq_f32, vld1q_f32, vld1q_s8, vmulq_n_f32, vreinterpretq_s8_s32, vst1q_f32,
};

use super::{GROUP, Target, Tile};

/// Columns of a panel.
const COLUMNS: usize = 16;
/// Values along k that one instruction adds up.
const STEP: usize = 4;
/// Registers of one row of a tile.
const WIDE: usize = COLUMNS / 4;

/// # Safety
/// The instructions are there, and all parts of the tile are of the sizes that its rows and layout make.
pub(super) unsafe fn tile(tile: &Tile<'_, i8>, adds: bool, at: [usize; 2], target: &Target<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match tile.rows {
            1 => rows::<1>(tile, adds, at, target),
            2 => rows::<2>(tile, adds, at, target),
            3 => rows::<3>(tile, adds, at, target),
            4 => rows::<4>(tile, adds, at, target),
            _ => rows::<5>(tile, adds, at, target),
        }
    }
}

/// Adds to each of four sums four products. The compiler's own function for the instruction is not stable yet.
///
/// # Safety
/// The processor has `sdot`.
#[inline(always)]
unsafe fn dot(sums: int32x4_t, left: int8x16_t, right: int8x16_t) -> int32x4_t {
    let mut out = sums;
    // SAFETY: the instruction reads and writes these registers alone.
    unsafe {
        std::arch::asm!(
            "sdot {0:v}.4s, {1:v}.16b, {2:v}.16b",
            inout(vreg) out,
            in(vreg) left,
            in(vreg) right,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    out
}

#[target_feature(enable = "neon,dotprod")]
unsafe fn rows<const ROWS: usize>(
    tile: &Tile<'_, i8>,
    adds: bool,
    [row, column]: [usize; 2],
    target: &Target<'_>,
) {
    let width = tile.left.len() / ROWS;
    let groups = width.div_ceil(GROUP);
    let mut sums = [[vdupq_n_f32(0.0); WIDE]; ROWS];
    let mut right = tile.right.as_ptr();
    // The right operand is stored 128 too large; with the sign bit flipped it is the value itself, so that sums begin
    // at zero: the same whole numbers as with what `begin` takes off.
    let sign = vdupq_n_s8(i8::MIN);
    for group in 0..groups {
        let mut group_sums = [[vdupq_n_s32(0); WIDE]; ROWS];
        // SAFETY: every row has `width` values.
        let left = unsafe { tile.left.as_ptr().add(group * GROUP) };
        for position in (0..GROUP.min(width - group * GROUP)).step_by(STEP) {
            // SAFETY: the panel has COLUMNS for each value of a row.
            unsafe {
                let columns: [int8x16_t; WIDE] = std::array::from_fn(|part| {
                    veorq_s8(vld1q_s8(right.add(16 * part).cast()), sign)
                });
                for (index, sums) in group_sums.iter_mut().enumerate() {
                    let four = left.add(index * width + position).cast::<i32>().read_unaligned();
                    let four = vreinterpretq_s8_s32(vdupq_n_s32(four));
                    for (sum, column) in sums.iter_mut().zip(columns) {
                        *sum = dot(*sum, column, four);
                    }
                }
                right = right.add(COLUMNS * STEP);
            }
        }
        let scales = &tile.right_scales[group * COLUMNS..][..COLUMNS];
        // SAFETY: there are as many.
        let scales: [float32x4_t; WIDE] =
            std::array::from_fn(|part| unsafe { vld1q_f32(scales.as_ptr().add(4 * part)) });
        for (index, (sums, group_sums)) in sums.iter_mut().zip(group_sums).enumerate() {
            let left_scale = tile.left_scales[index * groups + group];
            for part in 0..WIDE {
                let scale = vmulq_n_f32(scales[part], left_scale);
                sums[part] = vfmaq_f32(sums[part], vcvtq_f32_s32(group_sums[part]), scale);
            }
        }
    }
    for (index, sums) in sums.iter().enumerate() {
        let mut out = [0f32; COLUMNS];
        for (part, sum) in sums.iter().enumerate() {
            // SAFETY: there is room for all.
            unsafe { vst1q_f32(out.as_mut_ptr().add(4 * part), *sum) };
        }
        target.put(row + index, column, &out, adds);
    }
}
