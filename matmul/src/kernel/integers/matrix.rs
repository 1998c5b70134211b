//! The kernel of ARM's `usmmla` (FEAT_I8MM): of two columns and two rows the sums of eight products of 8 bits.
#![allow(
    unsafe_op_in_unsafe_fn,
    reason = "every function is called where the instructions are there"
)]

use std::arch::aarch64::{
    float32x4_t, int8x16_t, int32x4_t, uint8x16_t, vcombine_s8, vcombine_s32, vcvtq_f32_s32,
    vdup_n_s32, vdupq_n_f32, vfmaq_f32, vld1_s8, vld1q_f32, vld1q_u8, vmulq_n_f32, vst1q_f32,
    vuzp1q_s32, vuzp2q_s32, vzip1_s32,
};

use super::{GROUP, Target, Tile};

/// Columns of a panel.
const COLUMNS: usize = 16;
/// Values along k that an instruction adds up.
const STEP: usize = 8;
/// Pairs of columns whose sums of a group are in registers at a time: half a panel's.
const TOGETHER: usize = 4;

/// # Safety
/// The instructions are there, and all parts of the tile are of the sizes that its rows, at most 4, and layout make.
#[target_feature(enable = "neon,i8mm")]
pub(in crate::kernel::integers) unsafe fn tile(
    tile: &Tile<'_, i8>,
    adds: bool,
    at: [usize; 2],
    target: &Target<'_>,
) {
    match tile.rows {
        1 | 2 => rows::<1>(tile, adds, at, target),
        _ => rows::<2>(tile, adds, at, target),
    }
}

/// Up to so many pairs of rows.
#[inline]
#[target_feature(enable = "neon,i8mm")]
unsafe fn rows<const PAIRS: usize>(
    tile: &Tile<'_, i8>,
    adds: bool,
    [row, column]: [usize; 2],
    target: &Target<'_>,
) {
    let width = tile.left.len() / tile.rows;
    let groups = width.div_ceil(GROUP);
    // A row that is not there is the last one again, and is not written.
    let two = |pair: usize| [2 * pair, 2 * pair + 1].map(|index| index.min(tile.rows - 1));
    let mut sums = [[[vdupq_n_f32(0.0); COLUMNS / 4]; 2]; PAIRS];
    for group in 0..groups {
        let start = group * GROUP;
        let count = GROUP.min(width - start);
        for half in 0..2 {
            let mut whole = [[vcombine_s32(vdup_n_s32(0), vdup_n_s32(0)); TOGETHER]; PAIRS];
            for (pair, whole) in whole.iter_mut().enumerate() {
                let [first, second] = two(pair)
                    .map(|row| vdup_n_s32(*tile.begin.get_unchecked(row * groups + group)));
                let begin = vzip1_s32(first, second);
                *whole = [vcombine_s32(begin, begin); TOGETHER];
            }
            for place in (start..start + count).step_by(STEP) {
                let right = tile.right.as_ptr().add(place * COLUMNS + half * COLUMNS / 2 * STEP);
                let columns: [uint8x16_t; TOGETHER] =
                    std::array::from_fn(|index| vld1q_u8(right.add(2 * STEP * index)));
                for (pair, whole) in whole.iter_mut().enumerate() {
                    let [first, second] =
                        two(pair).map(|row| vld1_s8(tile.left.as_ptr().add(row * width + place)));
                    let left = vcombine_s8(first, second);
                    for (sums, columns) in whole.iter_mut().zip(columns) {
                        *sums = add_products(*sums, columns, left);
                    }
                }
            }
            let scales = tile.right_scales.as_ptr().add(group * COLUMNS + half * COLUMNS / 2);
            for (pair, (sums, whole)) in sums.iter_mut().zip(whole).enumerate() {
                let left =
                    two(pair).map(|row| *tile.left_scales.get_unchecked(row * groups + group));
                for part in 0..2 {
                    // Of each two columns both rows become of each row four columns.
                    let (low, high) = (whole[2 * part], whole[2 * part + 1]);
                    let of_rows = [vuzp1q_s32(low, high), vuzp2q_s32(low, high)];
                    let right = vld1q_f32(scales.add(4 * part));
                    for ((sums, whole), left) in sums.iter_mut().zip(of_rows).zip(left) {
                        let sums: &mut float32x4_t = &mut sums[2 * half + part];
                        *sums = vfmaq_f32(*sums, vcvtq_f32_s32(whole), vmulq_n_f32(right, left));
                    }
                }
            }
        }
    }
    for (index, sums) in sums.iter().flatten().enumerate().take(tile.rows) {
        let mut out = [0f32; COLUMNS];
        for (part, sums) in sums.iter().enumerate() {
            vst1q_f32(out.as_mut_ptr().add(4 * part), *sums);
        }
        target.put(row + index, column, &out, adds);
    }
}

/// Sums of two columns, of two rows each, with eight products added. The compiler's own function for the instruction is
/// not stable yet.
#[inline]
#[target_feature(enable = "neon,i8mm")]
unsafe fn add_products(sums: int32x4_t, columns: uint8x16_t, rows: int8x16_t) -> int32x4_t {
    let mut out = sums;
    // The instruction reads and writes these registers alone.
    std::arch::asm!(
        "usmmla {0:v}.4s, {1:v}.16b, {2:v}.16b",
        inout(vreg) out,
        in(vreg) columns,
        in(vreg) rows,
        options(pure, nomem, nostack, preserves_flags)
    );
    out
}
