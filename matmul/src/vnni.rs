//! A tile of a product of 8-bit integers: by AVX-512's instructions for them where there are, else written out. Both
//! come to the same bits.

use super::COLUMNS;
use super::kernel::Target;
use super::quantized::{GROUP, MAX_ROWS, QUAD, Tile};

/// Computes, or with `adds` adds to, the part of the result at row and column `at`.
pub(super) fn tile(tile: &Tile<'_>, adds: bool, at: [usize; 2], target: &Target<'_>) {
    let quads = tile.right.len() / (COLUMNS * QUAD);
    let groups = (quads * QUAD).div_ceil(GROUP);
    assert!((1..=MAX_ROWS).contains(&tile.rows));
    assert_eq!(tile.left.len(), tile.rows * quads * QUAD, "rows of one depth");
    assert_eq!(tile.right_scales.len(), groups * COLUMNS, "scales of every group");
    assert!(tile.left_scales.len() == tile.rows * groups && tile.begin.len() == tile.rows * groups);
    #[cfg(target_arch = "x86_64")]
    {
        if super::kernel::is_supported() && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the processor has the instructions, and the sizes of the tile were checked.
            return unsafe { x86::tile(tile, adds, at, target) };
        }
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            // SAFETY: the processor has AVX2 and fused multiply-adds.
            return unsafe { x86::written_out(tile, adds, at, target) };
        }
    }
    written_out(tile, adds, at, target);
}

#[inline(always)]
fn written_out(tile: &Tile<'_>, adds: bool, [row, column]: [usize; 2], target: &Target<'_>) {
    let width = tile.left.len() / tile.rows;
    let groups = width.div_ceil(GROUP);
    for index in 0..tile.rows {
        let left = tile.left[index * width..][..width].chunks(GROUP);
        let right = tile.right.chunks(GROUP * COLUMNS);
        let scales = tile.right_scales.as_chunks::<COLUMNS>().0;
        let mut sums = [0f32; COLUMNS];
        for (group, ((left, right), scales)) in left.zip(right).zip(scales).enumerate() {
            let mut whole = [tile.begin[index * groups + group]; COLUMNS];
            let quads = left.as_chunks::<QUAD>().0.iter();
            for (left, right) in quads.zip(right.as_chunks::<{ COLUMNS * QUAD }>().0) {
                for (sum, right) in whole.iter_mut().zip(right.as_chunks::<QUAD>().0) {
                    for (x, y) in left.iter().zip(right) {
                        *sum += i32::from(*x) * i32::from(*y);
                    }
                }
            }
            let own = tile.left_scales[index * groups + group];
            for ((sum, whole), scale) in sums.iter_mut().zip(whole).zip(scales) {
                *sum = (whole as f32).mul_add(own * scale, *sum);
            }
        }
        target.put(row + index, column, &sums, adds);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, __m512i, _MM_HINT_T1, _mm_prefetch, _mm512_cvtepi32_ps, _mm512_dpbusd_epi32,
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mul_ps, _mm512_set1_epi32,
        _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    use super::{COLUMNS, GROUP, QUAD, Target, Tile};

    /// Registers of one row of a tile.
    const WIDE: usize = COLUMNS / 16;
    /// How far ahead of the columns in hand memory is asked for, in bytes.
    const AHEAD: usize = 8192;

    /// # Safety
    /// AVX2 and FMA are there.
    #[target_feature(enable = "avx2,fma")]
    pub(super) unsafe fn written_out(
        tile: &Tile<'_>,
        adds: bool,
        at: [usize; 2],
        target: &Target<'_>,
    ) {
        super::written_out(tile, adds, at, target);
    }

    /// # Safety
    /// AVX-512 with VNNI is there, and all parts of the tile are of the sizes that its rows and depth make.
    pub(super) unsafe fn tile(tile: &Tile<'_>, adds: bool, at: [usize; 2], target: &Target<'_>) {
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
        tile: &Tile<'_>,
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
            let mut whole: [[__m512i; WIDE]; ROWS] = std::array::from_fn(|index| {
                [_mm512_set1_epi32(tile.begin[index * groups + group]); WIDE]
            });
            // SAFETY: every row has `width` values, and the panel COLUMNS for each of them.
            let left = unsafe { tile.left.as_ptr().add(group * GROUP) };
            for place in (0..places).step_by(QUAD) {
                // SAFETY: as above; what is asked for ahead need not be there.
                unsafe {
                    _mm_prefetch::<_MM_HINT_T1>(right.wrapping_add(AHEAD).cast());
                    _mm_prefetch::<_MM_HINT_T1>(right.wrapping_add(AHEAD + 64).cast());
                    let columns = [
                        _mm512_loadu_si512(right.cast()),
                        _mm512_loadu_si512(right.add(64).cast()),
                    ];
                    for (index, whole) in whole.iter_mut().enumerate() {
                        let quad = left.add(index * width + place).cast::<i32>();
                        let quad = _mm512_set1_epi32(quad.read_unaligned());
                        whole[0] = _mm512_dpbusd_epi32(whole[0], columns[0], quad);
                        whole[1] = _mm512_dpbusd_epi32(whole[1], columns[1], quad);
                    }
                    right = right.add(COLUMNS * QUAD);
                }
            }
            let scales = &tile.right_scales[group * COLUMNS..][..COLUMNS];
            // SAFETY: there are as many.
            let scales: [__m512; WIDE] = unsafe {
                [_mm512_loadu_ps(scales.as_ptr()), _mm512_loadu_ps(scales.as_ptr().add(16))]
            };
            for (index, (sums, whole)) in sums.iter_mut().zip(whole).enumerate() {
                let own = _mm512_set1_ps(tile.left_scales[index * groups + group]);
                for part in 0..WIDE {
                    let scale = _mm512_mul_ps(own, scales[part]);
                    sums[part] =
                        _mm512_fmadd_ps(_mm512_cvtepi32_ps(whole[part]), scale, sums[part]);
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_loops_come_to_the_same_bits() {
        let byte = |i: usize| (i * 7919 % 255) as i32 - 127;
        for (rows, quads) in [(1, 1), (3, 16), (6, 37), (4, 51)] {
            let (width, groups) = (quads * QUAD, (quads * QUAD).div_ceil(GROUP));
            let left: Vec<i8> = (0..rows * width).map(|i| byte(i) as i8).collect();
            let right: Vec<u8> =
                (0..width * COLUMNS).map(|i| (byte(3 * i + 1) + 128) as u8).collect();
            let begin = left.chunks(width).flat_map(|row| row.chunks(GROUP));
            let begin: Vec<i32> = begin
                .map(|group| -128 * group.iter().map(|x| i32::from(*x)).sum::<i32>())
                .collect();
            let scale = |i: usize| 0.01 + (i as f32 * 0.37).sin().abs() / 50.0;
            let left_scales: Vec<f32> = (0..rows * groups).map(scale).collect();
            let right_scales: Vec<f32> = (0..groups * COLUMNS).map(|i| scale(i + 9)).collect();
            let of = Tile {
                left: &left,
                left_scales: &left_scales,
                begin: &begin,
                right: &right,
                right_scales: &right_scales,
                rows,
            };
            // The last columns of the panel are past the result.
            let (columns, stride) = (COLUMNS - 5, COLUMNS - 2);
            let run = |work: fn(&Tile<'_>, bool, [usize; 2], &Target<'_>)| {
                let mut out = vec![1f32; rows * stride];
                for adds in [false, true] {
                    work(&of, adds, [0, 0], &Target::new(&mut out, rows, columns, stride));
                }
                out
            };
            let (own, loops) = (run(tile), run(written_out));
            assert_eq!(own, loops);
            for (row, out) in own.chunks(stride).enumerate() {
                assert_eq!(out[columns..], [1.0; 3][..stride - columns], "past the result");
                for (column, out) in out[..columns].iter().enumerate() {
                    let term = |k: usize| {
                        let y = i32::from(right[(k / QUAD * COLUMNS + column) * QUAD + k % QUAD]);
                        let x = i32::from(left[row * width + k]);
                        let scale = left_scales[row * groups + k / GROUP]
                            * right_scales[k / GROUP * COLUMNS + column];
                        f64::from(x * (y - 128)) * f64::from(scale)
                    };
                    let exact = 2.0 * (0..width).map(term).sum::<f64>();
                    assert!((f64::from(*out) - exact).abs() < 1e-3, "{out} is not {exact}");
                }
            }
        }
    }
}
