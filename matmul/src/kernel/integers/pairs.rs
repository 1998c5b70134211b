//! Tiles of up to 5 rows and 16 columns by AVX2: bytes are widened to 16 bits, of which an instruction multiplies two
//! and adds them up. No sum of a group leaves 32 bits.

use std::arch::x86_64::{
    __m128i, __m256, __m256i, _MM_HINT_T0, _mm_loadu_si128, _mm_prefetch, _mm256_add_epi32,
    _mm256_cvtepi32_ps, _mm256_cvtepu8_epi16, _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_madd_epi16,
    _mm256_mul_ps, _mm256_set1_epi32, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
};

use super::{GROUP, Target, Tile};

/// Columns of a panel.
const COLUMNS: usize = 16;
/// Values along k that one instruction adds up.
const STEP: usize = 2;
/// Registers of one row of a tile.
const WIDE: usize = COLUMNS / 8;
/// How far ahead of the columns in hand memory is asked for, in bytes.
const AHEAD: usize = 1024;

/// # Safety
/// AVX2 and FMA are there, and all parts of the tile are of the sizes that its rows and layout make.
pub(super) unsafe fn tile(tile: &Tile<'_, i16>, adds: bool, at: [usize; 2], target: &Target<'_>) {
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

#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const ROWS: usize>(
    tile: &Tile<'_, i16>,
    adds: bool,
    [row, column]: [usize; 2],
    target: &Target<'_>,
) {
    let width = tile.left.len() / ROWS;
    let groups = width.div_ceil(GROUP);
    let mut sums = [[_mm256_setzero_ps(); WIDE]; ROWS];
    for group in 0..groups {
        // SAFETY: every row has `width` values, and the panel COLUMNS for each of them.
        let (left, right) = unsafe {
            let right = tile.right.as_ptr().add(group * GROUP * COLUMNS);
            (tile.left.as_ptr().add(group * GROUP), right)
        };
        // SAFETY: every row has as many groups.
        let begin: [i32; ROWS] = std::array::from_fn(|index| unsafe {
            *tile.begin.get_unchecked(index * groups + group)
        });
        // SAFETY: all of a group is there but for the last.
        let group_sums = unsafe {
            match width - group * GROUP {
                GROUP.. => group_sums::<ROWS>(begin, left, width, right, GROUP),
                rest => group_sums::<ROWS>(begin, left, width, right, rest),
            }
        };
        // SAFETY: there are COLUMNS scales of a group, and a row has as many scales as groups.
        unsafe {
            let scales = tile.right_scales.as_ptr().add(group * COLUMNS);
            let scales: [__m256; WIDE] = [_mm256_loadu_ps(scales), _mm256_loadu_ps(scales.add(8))];
            for (index, (sums, group_sums)) in sums.iter_mut().zip(group_sums).enumerate() {
                let left_scale = tile.left_scales.get_unchecked(index * groups + group);
                let left_scale = _mm256_set1_ps(*left_scale);
                for part in 0..WIDE {
                    let scale = _mm256_mul_ps(left_scale, scales[part]);
                    let sum = _mm256_cvtepi32_ps(group_sums[part]);
                    sums[part] = _mm256_fmadd_ps(sum, scale, sums[part]);
                }
            }
        }
    }
    for (index, sums) in sums.iter().enumerate() {
        let mut out = [0f32; COLUMNS];
        // SAFETY: there is room for both.
        unsafe {
            _mm256_storeu_ps(out.as_mut_ptr(), sums[0]);
            _mm256_storeu_ps(out.as_mut_ptr().add(8), sums[1]);
        }
        target.put(row + index, column, &out, adds);
    }
}

/// Adds `count` products a row and column to where the rows begin.
///
/// # Safety
/// Rows are `width` values apart, `right` has COLUMNS for each of the `count`.
#[inline(always)]
unsafe fn group_sums<const ROWS: usize>(
    begin: [i32; ROWS],
    left: *const i16,
    width: usize,
    right: *const u8,
    count: usize,
) -> [[__m256i; WIDE]; ROWS] {
    // SAFETY: as the caller promises; what is asked for ahead need not be there.
    unsafe {
        let mut sums = begin.map(|begin| [_mm256_set1_epi32(begin); WIDE]);
        for place in (0..count).step_by(STEP) {
            let right = right.add(place * COLUMNS);
            _mm_prefetch::<_MM_HINT_T0>(right.wrapping_add(AHEAD).cast());
            let half = |at: usize| -> __m256i {
                _mm256_cvtepu8_epi16(_mm_loadu_si128(right.add(at).cast::<__m128i>()))
            };
            let columns = [half(0), half(16)];
            for (index, sums) in sums.iter_mut().enumerate() {
                let pair = left.add(index * width + place).cast::<i32>();
                let pair = _mm256_set1_epi32(pair.read_unaligned());
                for part in 0..WIDE {
                    // 255 * 127 * 2 fits 32 bits; the instruction for bytes would saturate its sums at 16.
                    let products = _mm256_madd_epi16(columns[part], pair);
                    sums[part] = _mm256_add_epi32(sums[part], products);
                }
            }
        }
        sums
    }
}
