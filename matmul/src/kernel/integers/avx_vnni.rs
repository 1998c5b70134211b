//! Tiles of up to 6 rows and 16 columns by the 256-bit dot products of AVX-VNNI: four products of 8 bits to a sum.
//!
//! AVX-512's VNNI has the same instruction on the same registers under another encoding; the tests run the tile by that
//! one where a processor has it and lacks AVX-VNNI.

/// A module with the tile for one encoding of the instruction.
macro_rules! tile_by {
    ($name:ident, $features:literal, $dot:ident) => {
        pub(super) mod $name {
            use std::arch::x86_64::{
                __m256, __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_cvtepi32_ps, _mm256_fmadd_ps,
                _mm256_loadu_ps, _mm256_loadu_si256, _mm256_mul_ps, _mm256_set1_epi32,
                _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps, $dot,
            };

            use super::super::{GROUP, Target, Tile};

            /// Columns of a panel.
            const COLUMNS: usize = 16;
            /// Values along k that one instruction adds up.
            const STEP: usize = 4;
            /// Registers of one row of a tile.
            const WIDE: usize = COLUMNS / 8;
            /// Distance in bytes at which the right operand is prefetched.
            const AHEAD: usize = 2048;

            /// # Safety
            /// The instructions are there, and all parts of the tile are of the sizes that its rows and layout make.
            pub(in super::super) unsafe fn tile(
                tile: &Tile<'_, i8>,
                adds: bool,
                at: [usize; 2],
                target: &Target<'_>,
            ) {
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

            #[target_feature(enable = $features)]
            unsafe fn rows<const ROWS: usize>(
                tile: &Tile<'_, i8>,
                adds: bool,
                [row, column]: [usize; 2],
                target: &Target<'_>,
            ) {
                let width = tile.left.len() / ROWS;
                let groups = width.div_ceil(GROUP);
                let mut sums = [[_mm256_setzero_ps(); WIDE]; ROWS];
                let mut right = tile.right.as_ptr();
                for group in 0..groups {
                    let mut group_sums: [[__m256i; WIDE]; ROWS] = std::array::from_fn(|index| {
                        [_mm256_set1_epi32(tile.begin[index * groups + group]); WIDE]
                    });
                    // SAFETY: every row has `width` values.
                    let left = unsafe { tile.left.as_ptr().add(group * GROUP) };
                    for position in (0..GROUP.min(width - group * GROUP)).step_by(STEP) {
                        // SAFETY: the panel has COLUMNS for each value of a row; a prefetch may name any address.
                        unsafe {
                            _mm_prefetch::<_MM_HINT_T0>(right.wrapping_add(AHEAD).cast());
                            let columns = [
                                _mm256_loadu_si256(right.cast()),
                                _mm256_loadu_si256(right.add(32).cast()),
                            ];
                            for (index, sums) in group_sums.iter_mut().enumerate() {
                                let four = left.add(index * width + position).cast::<i32>();
                                let four = _mm256_set1_epi32(four.read_unaligned());
                                sums[0] = $dot(sums[0], columns[0], four);
                                sums[1] = $dot(sums[1], columns[1], four);
                            }
                            right = right.add(COLUMNS * STEP);
                        }
                    }
                    let scales = &tile.right_scales[group * COLUMNS..][..COLUMNS];
                    // SAFETY: there are as many.
                    let scales: [__m256; WIDE] = unsafe {
                        [_mm256_loadu_ps(scales.as_ptr()), _mm256_loadu_ps(scales.as_ptr().add(8))]
                    };
                    for (index, (sums, group_sums)) in sums.iter_mut().zip(group_sums).enumerate() {
                        let left_scale = _mm256_set1_ps(tile.left_scales[index * groups + group]);
                        for part in 0..WIDE {
                            let scale = _mm256_mul_ps(left_scale, scales[part]);
                            let sum = _mm256_cvtepi32_ps(group_sums[part]);
                            sums[part] = _mm256_fmadd_ps(sum, scale, sums[part]);
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
        }
    };
}

tile_by!(vex, "avx2,fma,avxvnni", _mm256_dpbusd_avx_epi32);
#[cfg(test)]
tile_by!(evex, "avx2,fma,avx512vl,avx512vnni", _mm256_dpbusd_epi32);
