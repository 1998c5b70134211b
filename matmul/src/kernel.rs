//! The inner loops: a panel of rows times a panel of columns, sums in registers.

use std::marker::PhantomData;

use super::{COLUMNS, MAX_ROWS};

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

    /// Writes, or with `adds` adds, what there is room for of a row's values from `column` on; no other task has them.
    #[inline(always)]
    pub(super) fn put(&self, row: usize, column: usize, values: &[f32; COLUMNS], adds: bool) {
        assert!(row < self.rows && column < self.columns);
        let count = COLUMNS.min(self.columns - column);
        // SAFETY: they are within the result, and no one else has them.
        let out = unsafe {
            std::slice::from_raw_parts_mut(self.start.add(row * self.stride + column), count)
        };
        if adds {
            out.iter_mut().zip(values).for_each(|(out, x)| *out += x);
        } else {
            out.copy_from_slice(&values[..count]);
        }
    }
}

/// Whether this processor has the instructions.
pub(super) fn is_supported() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("fma")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Computes, or with `adds` adds to, the tile of the result at row and column `at`: `left` is
/// `[k]` by up to [`MAX_ROWS`] rows, `right` `[k][COLUMNS]`.
pub(super) fn tile(left: &[f32], right: &[f32], adds: bool, at: [usize; 2], target: &Target<'_>) {
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
        // SAFETY: the caller checked `is_supported`; the place lies within the result, and no
        // other task has it.
        unsafe { x86::tile(left, right, height, place) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("no product is begun on a processor that is not supported: {adds}");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m512, __mmask16, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps, _mm512_fmadd_ps,
        _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps,
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

    /// How far ahead of the columns in hand memory is asked for, in values: weights of a small batch come
    /// from memory once, faster than the processor would guess.
    const AHEAD: usize = 8192;

    /// Registers of one row of a tile.
    const WIDE: usize = COLUMNS / 16;

    /// # Safety
    /// AVX-512F is there; `place` is valid memory that no one else has.
    pub(super) unsafe fn tile(left: &[f32], right: &[f32], height: usize, place: Place) {
        macro_rules! by_height {
            ($($rows:literal)*) => {
                match height {
                    $($rows => rows::<$rows>(left, right, place),)*
                    _ => rows::<14>(left, right, place),
                }
            };
        }
        // SAFETY: as the caller promises.
        unsafe { by_height!(1 2 3 4 5 6 7 8 9 10 11 12 13) }
    }

    #[target_feature(enable = "avx512f,fma")]
    unsafe fn rows<const ROWS: usize>(left: &[f32], right: &[f32], place: Place) {
        let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
        let (mut a, mut b) = (left.as_ptr(), right.as_ptr());
        for _ in 0..right.len() / COLUMNS {
            // SAFETY: both panels have ROWS and COLUMNS values for each place along k.
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
