//! Tiles of 6 rows and 16 columns in the registers of AVX2.

use std::arch::x86_64::{
    __m256, __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_ps, _mm256_fmadd_ps, _mm256_loadu_ps,
    _mm256_loadu_si256, _mm256_maskload_ps, _mm256_maskstore_ps, _mm256_set1_ps, _mm256_setzero_ps,
    _mm256_storeu_ps,
};

use super::OutputTile;

/// Columns of a panel: two registers.
const COLUMNS: usize = 16;
/// Registers of one row of a tile.
const WIDE: usize = COLUMNS / 8;
/// Distance in values at which the right operand is prefetched: one stretch along k, which later tiles read.
const AHEAD: usize = 4096;

/// # Safety
/// AVX2 and FMA are there; `place` is valid memory that no one else has.
pub(super) unsafe fn tile(left: &[f32], right: &[f32], height: usize, place: OutputTile) {
    // SAFETY: as the caller promises.
    unsafe {
        match height {
            1 => rows::<1>(left, right, place),
            2 => rows::<2>(left, right, place),
            3 => rows::<3>(left, right, place),
            4 => rows::<4>(left, right, place),
            5 => rows::<5>(left, right, place),
            _ => rows::<6>(left, right, place),
        }
    }
}

#[target_feature(enable = "avx2,fma")]
unsafe fn rows<const ROWS: usize>(left: &[f32], right: &[f32], place: OutputTile) {
    let mut sums = [[_mm256_setzero_ps(); WIDE]; ROWS];
    let (mut a, mut b) = (left.as_ptr(), right.as_ptr());
    for _ in 0..right.len() / COLUMNS {
        // SAFETY: both panels have ROWS and COLUMNS values for each index along k; a prefetch may name any address.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(b.wrapping_add(AHEAD).cast());
            let columns: [__m256; WIDE] = [_mm256_loadu_ps(b), _mm256_loadu_ps(b.add(8))];
            for (row, sums) in sums.iter_mut().enumerate() {
                // An outer product for each place along k: each load of columns serves all rows, 12 sums to 2 + 6
                // loads.
                let value = _mm256_set1_ps(*a.add(row));
                sums[0] = _mm256_fmadd_ps(value, columns[0], sums[0]);
                sums[1] = _mm256_fmadd_ps(value, columns[1], sums[1]);
            }
            a = a.add(ROWS);
            b = b.add(COLUMNS);
        }
    }
    // SAFETY: as the caller promises.
    unsafe { store(&sums, place) };
}

/// Lanes of a mask: eight ones, then eight zeros.
static LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const ROWS: usize>(sums: &[[__m256; WIDE]; ROWS], place: OutputTile) {
    if place.columns == COLUMNS {
        for (row, sums) in sums.iter().enumerate().take(place.rows) {
            for (index, sum) in sums.iter().enumerate() {
                // SAFETY: the whole row of the tile is within the result.
                unsafe {
                    let to = place.start.add(row * place.stride + index * 8);
                    let sum = match place.adds {
                        true => _mm256_add_ps(_mm256_loadu_ps(to), *sum),
                        false => *sum,
                    };
                    _mm256_storeu_ps(to, sum);
                }
            }
        }
        return;
    }
    let mask = |from: usize| -> __m256i {
        let lanes = place.columns.saturating_sub(from).min(8);
        // SAFETY: eight lanes from one of the first nine on are within the table.
        unsafe { _mm256_loadu_si256(LANES.as_ptr().add(8 - lanes).cast()) }
    };
    let masks = [mask(0), mask(8)];
    for (row, sums) in sums.iter().enumerate().take(place.rows) {
        for (index, (sum, mask)) in sums.iter().zip(masks).enumerate() {
            // SAFETY: the mask leaves out what is beyond the result; masked addresses are not touched.
            unsafe {
                let to = place.start.wrapping_add(row * place.stride + index * 8);
                let sum = match place.adds {
                    true => _mm256_add_ps(_mm256_maskload_ps(to, mask), *sum),
                    false => *sum,
                };
                _mm256_maskstore_ps(to, mask, sum);
            }
        }
    }
}
