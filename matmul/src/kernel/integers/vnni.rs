//! Tiles of up to 6 rows and 32 columns by AVX-512's VNNI.

use std::arch::x86_64::{
    __m512, __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi32,
    _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
};

use super::{GROUP, Target, Tile};

/// Columns of a panel.
const COLUMNS: usize = 32;
/// Values along k that one instruction adds up.
const QUAD: usize = 4;

/// Registers of one row of a tile.
const WIDE: usize = COLUMNS / 16;
/// How far ahead of the columns in hand memory is asked for, in bytes.
const AHEAD: usize = 8192;

/// # Safety
/// AVX-512 with VNNI is there, and all parts of the tile are of the sizes that its rows and depth make.
pub(super) unsafe fn tile(tile: &Tile<'_, i8>, adds: bool, at: [usize; 2], target: &Target<'_>) {
    // SAFETY: as the caller promises.
    unsafe {
        match tile.rows {
            1 => rows::<1>(tile, adds, at, target),
            2 => rows::<2>(tile, adds, at, target),
            3 => rows::<3>(tile, adds, at, target),
            4 => rows::<4>(tile, adds, at, target),
            5 => rows::<5>(tile, adds, at, target),
            _ => rows::<6>(tile, adds, at, target),
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni,fma")]
unsafe fn rows<const ROWS: usize>(
    tile: &Tile<'_, i8>,
    adds: bool,
    [row, column]: [usize; 2],
    target: &Target<'_>,
) {
    let width = tile.left.len() / ROWS;
    let groups = width.div_ceil(GROUP);
    let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
    let mut right = tile.right.as_ptr();
    for group in 0..groups {
        let places = GROUP.min(width - group * GROUP);
        let mut group_sums: [[__m512i; WIDE]; ROWS] = std::array::from_fn(|index| {
            [_mm512_set1_epi32(tile.begin[index * groups + group]); WIDE]
        });
        // SAFETY: every row has `width` values, and the panel COLUMNS for each of them.
        let left = unsafe { tile.left.as_ptr().add(group * GROUP) };
        for place in (0..places).step_by(QUAD) {
            // SAFETY: as above; what is asked for ahead need not be there.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(right.wrapping_add(AHEAD).cast());
                _mm_prefetch::<_MM_HINT_T1>(right.wrapping_add(AHEAD + 64).cast());
                let columns =
                    [_mm512_loadu_si512(right.cast()), _mm512_loadu_si512(right.add(64).cast())];
                for (index, group_sums) in group_sums.iter_mut().enumerate() {
                    let quad = left.add(index * width + place).cast::<i32>();
                    let quad = _mm512_set1_epi32(quad.read_unaligned());
                    // The instruction takes an unsigned and a signed operand: columns are stored 128 too large, which
                    // `begin` takes off.
                    group_sums[0] = _mm512_dpbusd_epi32(group_sums[0], columns[0], quad);
                    group_sums[1] = _mm512_dpbusd_epi32(group_sums[1], columns[1], quad);
                }
                right = right.add(COLUMNS * QUAD);
            }
        }
        let scales = &tile.right_scales[group * COLUMNS..][..COLUMNS];
        // SAFETY: there are as many.
        let scales: [__m512; WIDE] =
            unsafe { [_mm512_loadu_ps(scales.as_ptr()), _mm512_loadu_ps(scales.as_ptr().add(16))] };
        for (index, (sums, group_sums)) in sums.iter_mut().zip(group_sums).enumerate() {
            let left_scale = _mm512_set1_ps(tile.left_scales[index * groups + group]);
            for part in 0..WIDE {
                let scale = _mm512_mul_ps(left_scale, scales[part]);
                sums[part] =
                    _mm512_fmadd_ps(_mm512_cvtepi32_ps(group_sums[part]), scale, sums[part]);
            }
        }
    }
    for (index, sums) in sums.iter().enumerate() {
        let mut out = [0f32; COLUMNS];
        // SAFETY: there is room for both.
        unsafe {
            _mm512_storeu_ps(out.as_mut_ptr(), sums[0]);
            _mm512_storeu_ps(out.as_mut_ptr().add(16), sums[1]);
        }
        target.put(row + index, column, &out, adds);
    }
}
