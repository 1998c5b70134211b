//! The inner loops: a panel of rows times a panel of columns, sums in registers.

use std::marker::PhantomData;

use super::{COLUMNS, MAX_ROWS, Precision};

/// The result, written by several threads at places that do not overlap.
// Elsewhere nothing is written through it.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub(super) struct Target<'a> {
    start: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
    life: PhantomData<&'a mut [f32]>,
}

// SAFETY: each tile of the result is written by one task alone.
unsafe impl Sync for Target<'_> {}

impl<'a> Target<'a> {
    pub(super) fn new(out: &'a mut [f32], rows: usize, columns: usize, stride: usize) -> Self {
        assert!(out.len() >= (rows - 1) * stride + columns);
        Self { start: out.as_mut_ptr(), rows, columns, stride, life: PhantomData }
    }
}

/// Whether this processor has the instructions.
pub(super) fn supports(precision: Precision) -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        let has_f32 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("fma");
        match precision {
            Precision::F32 => has_f32,
            Precision::Bf16 => has_f32 && is_x86_feature_detected!("avx512bf16"),
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = precision;
        false
    }
}

/// Computes, or with `adds` adds to, the tile of the result at row and column `at`: `left` is
/// `[words]` by up to [`MAX_ROWS`] rows, `right` `[words][COLUMNS]`.
pub(super) fn tile(
    left: &[u32],
    right: &[u32],
    precision: Precision,
    adds: bool,
    at: [usize; 2],
    target: &Target<'_>,
) {
    let [row, column] = at;
    let height = left.len() / (right.len() / COLUMNS).max(1);
    assert_eq!(left.len() * COLUMNS, right.len() * height, "panels of one depth");
    assert!((1..=MAX_ROWS).contains(&height) && row < target.rows && column < target.columns);
    #[cfg(target_arch = "x86_64")]
    {
        let place = x86::Place {
            // SAFETY: row and column are within the result.
            start: unsafe { target.start.add(row * target.stride + column) },
            stride: target.stride,
            rows: height.min(target.rows - row),
            columns: COLUMNS.min(target.columns - column),
            adds,
        };
        // SAFETY: the caller of the crate checked `supports`; the place lies within the result, and no
        // other task has it.
        unsafe {
            match precision {
                Precision::F32 => x86::f32_tile(left, right, height, place),
                Precision::Bf16 => x86::bf16_tile(left, right, height, place),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("no product is begun on a processor that is not supported: {precision:?} {adds}");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, __m512bh, __m512i, __mmask16, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps,
        _mm512_dpbf16_ps, _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_loadu_si512,
        _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_epi32, _mm512_set1_ps,
        _mm512_setzero_ps,
    };

    use super::COLUMNS;

    /// Where a tile goes, and how much of it there is.
    #[derive(Clone, Copy)]
    pub(super) struct Place {
        pub(super) start: *mut f32,
        pub(super) stride: usize,
        pub(super) rows: usize,
        pub(super) columns: usize,
        pub(super) adds: bool,
    }

    /// How far ahead of the columns in hand memory is asked for, in words: weights of a small batch come
    /// from memory once, faster than the processor would guess.
    const AHEAD: usize = 8192;

    /// Registers of one row of a tile.
    const WIDE: usize = COLUMNS / 16;

    /// Calls the tile of this many rows.
    macro_rules! by_height {
        ($tile:ident, $height:expr, $($argument:expr),*) => {
            match $height {
                1 => $tile::<1>($($argument),*), 2 => $tile::<2>($($argument),*),
                3 => $tile::<3>($($argument),*), 4 => $tile::<4>($($argument),*),
                5 => $tile::<5>($($argument),*), 6 => $tile::<6>($($argument),*),
                7 => $tile::<7>($($argument),*), 8 => $tile::<8>($($argument),*),
                9 => $tile::<9>($($argument),*), 10 => $tile::<10>($($argument),*),
                11 => $tile::<11>($($argument),*), 12 => $tile::<12>($($argument),*),
                13 => $tile::<13>($($argument),*), _ => $tile::<14>($($argument),*),
            }
        };
    }

    /// # Safety
    /// AVX-512F is there; `place` is valid memory that no one else has.
    pub(super) unsafe fn f32_tile(left: &[u32], right: &[u32], height: usize, place: Place) {
        // SAFETY: as the caller promises.
        unsafe { by_height!(f32_rows, height, left, right, place) }
    }

    /// # Safety
    /// AVX-512F and AVX-512-BF16 are there; `place` is valid memory that no one else has.
    pub(super) unsafe fn bf16_tile(left: &[u32], right: &[u32], height: usize, place: Place) {
        // SAFETY: as the caller promises.
        unsafe { by_height!(bf16_rows, height, left, right, place) }
    }

    #[target_feature(enable = "avx512f,fma")]
    unsafe fn f32_rows<const ROWS: usize>(left: &[u32], right: &[u32], place: Place) {
        let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
        let (mut a, mut b) = (left.as_ptr().cast::<f32>(), right.as_ptr().cast::<f32>());
        for _ in 0..right.len() / COLUMNS {
            // SAFETY: both panels have ROWS and COLUMNS values for each of the words.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(b.wrapping_add(AHEAD).cast());
                _mm_prefetch::<_MM_HINT_T1>(b.wrapping_add(AHEAD + 16).cast());
                let columns: [__m512; WIDE] = [_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16))];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = _mm512_set1_ps(*a.add(row));
                    sums[0] = _mm512_fmadd_ps(value, columns[0], sums[0]);
                    sums[1] = _mm512_fmadd_ps(value, columns[1], sums[1]);
                }
                a = a.add(ROWS);
                b = b.add(COLUMNS);
            }
        }
        // SAFETY: as the caller promises.
        unsafe { store(&sums, place) };
    }

    #[target_feature(enable = "avx512f,avx512bf16")]
    unsafe fn bf16_rows<const ROWS: usize>(left: &[u32], right: &[u32], place: Place) {
        let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
        let (mut a, mut b) = (left.as_ptr().cast::<i32>(), right.as_ptr().cast::<i32>());
        for _ in 0..right.len() / COLUMNS {
            // SAFETY: both panels have ROWS and COLUMNS words for each of the words along k; a register
            // of words and one of bf16 are the same bits.
            unsafe {
                _mm_prefetch::<_MM_HINT_T1>(b.wrapping_add(AHEAD).cast());
                _mm_prefetch::<_MM_HINT_T1>(b.wrapping_add(AHEAD + 16).cast());
                let columns = [
                    halves(_mm512_loadu_si512(b.cast())),
                    halves(_mm512_loadu_si512(b.add(16).cast())),
                ];
                for (row, sums) in sums.iter_mut().enumerate() {
                    let value = halves(_mm512_set1_epi32(*a.add(row)));
                    sums[0] = _mm512_dpbf16_ps(sums[0], value, columns[0]);
                    sums[1] = _mm512_dpbf16_ps(sums[1], value, columns[1]);
                }
                a = a.add(ROWS);
                b = b.add(COLUMNS);
            }
        }
        // SAFETY: as the caller promises.
        unsafe { store(&sums, place) };
    }

    #[inline(always)]
    fn halves(words: __m512i) -> __m512bh {
        // SAFETY: both are 512 bits of any value.
        unsafe { std::mem::transmute(words) }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn store<const ROWS: usize>(sums: &[[__m512; WIDE]; ROWS], place: Place) {
        let mask = |from: usize| -> __mmask16 {
            match place.columns.saturating_sub(from) {
                0 => 0,
                some @ 1..16 => (1 << some) - 1,
                _ => __mmask16::MAX,
            }
        };
        let masks = [mask(0), mask(16)];
        for (row, sums) in sums.iter().enumerate().take(place.rows) {
            for (index, (sum, mask)) in sums.iter().zip(masks).enumerate() {
                // SAFETY: the mask leaves out what is beyond the result; addresses behind a mask of
                // zero are not touched.
                unsafe {
                    let to = place.start.wrapping_add(row * place.stride + index * 16);
                    let sum = match place.adds {
                        true => _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), *sum),
                        false => *sum,
                    };
                    _mm512_mask_storeu_ps(to, mask, sum);
                }
            }
        }
    }
}
