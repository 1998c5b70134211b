//! Tiles of 14 rows and 32 columns in the registers of AVX-512, of f32 and of pairs of bfloat16.

use std::arch::x86_64::{
    __m512, __m512bh, __mmask16, _MM_HINT_T1, _mm_prefetch, _mm512_add_ps, _mm512_dpbf16_ps,
    _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mask_storeu_ps, _mm512_maskz_loadu_ps, _mm512_set1_ps,
    _mm512_setzero_ps,
};

use super::OutputTile;

/// Columns of a panel: two registers.
const COLUMNS: usize = 32;

/// How far ahead of the columns in hand memory is asked for, in values: weights of a small batch come
/// from memory once, faster than the processor would guess.
const AHEAD: usize = 8192;

/// Registers of one row of a tile.
const WIDE: usize = COLUMNS / 16;

/// Calls a function for tiles of `$height` rows.
macro_rules! by_height {
    ($height:expr, $call:ident $arguments:tt: $($rows:literal)*) => {
        match $height {
            $($rows => $call::<$rows>$arguments,)*
            _ => $call::<14>$arguments,
        }
    };
}

/// The tiles of one form of panels, in a module: `$add(a, b, sums)` is `sums` with the products of two registers added.
macro_rules! tiles {
    ($(#[$doc:meta])* $name:ident, $features:literal, $add:path) => {
        $(#[$doc])*
        pub(super) mod $name {
            use super::*;

            /// # Safety
            /// The processor has the instructions; `place` is valid memory that no one else has.
            pub(in crate::kernel) unsafe fn tile(
                left: &[f32],
                right: &[f32],
                height: usize,
                place: OutputTile,
            ) {
                // SAFETY: as the caller promises.
                unsafe {
                    by_height!(height, rows(left, right, place): 1 2 3 4 5 6 7 8 9 10 11 12 13)
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn rows<const ROWS: usize>(left: &[f32], right: &[f32], place: OutputTile) {
                let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
                let (mut a, mut b) = (left.as_ptr(), right.as_ptr());
                for _ in 0..right.len() / COLUMNS {
                    // SAFETY: both panels have ROWS and COLUMNS values in each line.
                    unsafe {
                        _mm_prefetch::<_MM_HINT_T1>(b.wrapping_add(AHEAD).cast());
                        _mm_prefetch::<_MM_HINT_T1>(b.wrapping_add(AHEAD + 16).cast());
                        let columns: [__m512; WIDE] =
                            [_mm512_loadu_ps(b), _mm512_loadu_ps(b.add(16))];
                        for (row, sums) in sums.iter_mut().enumerate() {
                            // An outer product for each line: each load of columns serves all rows, 28 sums to 2 + 14
                            // loads.
                            let value = _mm512_set1_ps(*a.add(row));
                            sums[0] = $add(value, columns[0], sums[0]);
                            sums[1] = $add(value, columns[1], sums[1]);
                        }
                        a = a.add(ROWS);
                        b = b.add(COLUMNS);
                    }
                }
                // SAFETY: as the caller promises.
                unsafe { store(&sums, place) };
            }
        }
    };
}

tiles!(
    /// Of f32.
    singles, "avx512f,fma", _mm512_fmadd_ps
);
tiles!(
    /// Of pairs of bfloat16, by AVX512-BF16.
    pairs, "avx512f,avx512bf16,fma", add_pairs
);

/// `sums` with both products of each pair added, the upper one first.
#[inline]
#[target_feature(enable = "avx512f,avx512bf16")]
fn add_pairs(a: __m512, b: __m512, sums: __m512) -> __m512 {
    // SAFETY: registers of 512 bits, whatever they hold.
    let [a, b] = unsafe { [a, b].map(|x| std::mem::transmute::<__m512, __m512bh>(x)) };
    _mm512_dpbf16_ps(sums, a, b)
}

#[inline]
#[target_feature(enable = "avx512f")]
unsafe fn store<const ROWS: usize>(sums: &[[__m512; WIDE]; ROWS], place: OutputTile) {
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
