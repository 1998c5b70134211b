//! Operands into panels: for every word along k, the values of a panel's rows or columns side by side.
//!
//! A word is one f32, or two bf16 of neighbouring k, the first in the lower half. What a panel has too much
//! is zero.

use std::ops::Range;

use rayon::prelude::*;

use super::{COLUMNS, Matrix, Precision};

/// Words along k that are transposed at a time.
const BLOCK: usize = 16;

/// Panels of `height` rows of `left` `[m, k]`, each `[words along k][height]`, to the beginning of `words`.
pub(super) fn left(
    left: Matrix<'_>,
    height: usize,
    precision: Precision,
    serial: bool,
    words: &mut Vec<u32>,
) {
    let depth = precision.words(left.columns);
    let needed = left.rows.div_ceil(height) * height * depth;
    if words.len() < needed {
        words.resize(needed, 0);
    }
    let fill = |(panel, out): (usize, &mut [u32])| {
        panel_of(left.transposed(), panel * height, height, 0..depth, precision, out);
    };
    let words = &mut words[..needed];
    if serial {
        words.chunks_mut(height * depth).enumerate().for_each(fill);
    } else {
        words.par_chunks_mut(height * depth).enumerate().for_each(fill);
    }
}

/// The words `range` of the panel of `right` `[k, n]` that begins at column `first`.
pub(super) fn right(
    right: Matrix<'_>,
    first: usize,
    range: Range<usize>,
    precision: Precision,
    out: &mut [u32],
) {
    panel_of(right, first, COLUMNS, range, precision, out);
}

/// Of a matrix `[k, n]`: for each word of `range` along k, the `width` columns from `first` on.
fn panel_of(
    matrix: Matrix<'_>,
    first: usize,
    width: usize,
    range: Range<usize>,
    precision: Precision,
    out: &mut [u32],
) {
    let panel = Panel { matrix, first, width, range, precision };
    #[cfg(target_arch = "x86_64")]
    if super::kernel::supports(Precision::F32) {
        // SAFETY: the processor has AVX-512.
        return unsafe { panel.fill_wide(out) };
    }
    panel.fill(out);
}

/// A panel to be filled.
struct Panel<'a> {
    matrix: Matrix<'a>,
    first: usize,
    width: usize,
    range: Range<usize>,
    precision: Precision,
}

impl Panel<'_> {
    #[inline(always)]
    fn fill(&self, out: &mut [u32]) {
        let there = self.width.min(self.matrix.columns - self.first);
        if self.matrix.column_stride == 1 {
            self.along_columns(there, out);
        } else {
            self.along_k(there, out);
        }
    }

    /// The same, compiled for AVX-512.
    ///
    /// # Safety
    /// The processor has it.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,fma")]
    unsafe fn fill_wide(&self, out: &mut [u32]) {
        self.fill(out);
    }

    /// Where the columns, of which so many are `there`, stand side by side.
    #[inline(always)]
    fn along_columns(&self, there: usize, out: &mut [u32]) {
        let matrix = self.matrix;
        let row = |k: usize| &matrix.data[k * matrix.row_stride + self.first..][..there];
        for (out, word) in out.chunks_exact_mut(self.width).zip(self.range.clone()) {
            let (out, rest) = out.split_at_mut(there);
            rest.fill(0);
            match self.precision {
                Precision::F32 => {
                    out.iter_mut().zip(row(word)).for_each(|(out, x)| *out = x.to_bits());
                }
                Precision::Bf16 if 2 * word + 1 < matrix.rows => {
                    let pairs = row(2 * word).iter().zip(row(2 * word + 1));
                    out.iter_mut().zip(pairs).for_each(|(out, (a, b))| *out = pair(*a, *b));
                }
                Precision::Bf16 => {
                    out.iter_mut().zip(row(2 * word)).for_each(|(out, a)| *out = pair(*a, 0.0));
                }
            }
        }
    }

    /// Where the values along k stand side by side: blocks are transposed.
    #[inline(always)]
    fn along_k(&self, there: usize, out: &mut [u32]) {
        let Self { matrix, first, width, range, precision } = self;
        debug_assert_eq!(matrix.row_stride, 1);
        for start in range.clone().step_by(BLOCK) {
            let words = start..(start + BLOCK).min(range.end);
            let out = &mut out[(start - range.start) * width..][..words.len() * width];
            for from in (0..*width).step_by(BLOCK) {
                let columns = from..(from + BLOCK).min(*width);
                // What is not there is zero.
                let mut block = [[0u32; BLOCK]; BLOCK];
                for column in columns.start..columns.end.min(there) {
                    let values = &matrix.data[(first + column) * matrix.column_stride..];
                    let values = &values[..matrix.rows];
                    line(values, words.clone(), *precision, &mut block[column - from]);
                }
                for (index, out) in out.chunks_exact_mut(*width).enumerate() {
                    for (column, out) in out[columns.clone()].iter_mut().enumerate() {
                        *out = block[column][index];
                    }
                }
            }
        }
    }
}

/// The `words` along k of a column.
#[inline(always)]
fn line(values: &[f32], words: Range<usize>, precision: Precision, out: &mut [u32; BLOCK]) {
    match precision {
        Precision::F32 => {
            let values = &values[words];
            if let Ok(values) = <&[f32; BLOCK]>::try_from(values) {
                *out = values.map(f32::to_bits);
            } else {
                out.iter_mut().zip(values).for_each(|(word, x)| *word = x.to_bits());
            }
        }
        Precision::Bf16 => {
            let values = &values[2 * words.start..(2 * words.end).min(values.len())];
            let (pairs, last) = values.as_chunks::<2>();
            for (word, [a, b]) in out.iter_mut().zip(pairs) {
                *word = pair(*a, *b);
            }
            if let [last] = last {
                out[pairs.len()] = pair(*last, 0.0);
            }
        }
    }
}

/// Two numbers rounded to bf16, in one word.
#[inline(always)]
fn pair(low: f32, high: f32) -> u32 {
    round(low) >> 16 | round(high) & 0xffff_0000
}

/// The bits of a number rounded to the nearest bf16, ties to even, in the upper half; what is not a number
/// stays so.
#[inline(always)]
pub(super) fn round(x: f32) -> u32 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
    if x.is_nan() { bits | 0x0040_0000 } else { rounded }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_to_the_nearest_even() {
        for (x, bits) in [
            (1.0_f32, 0x3f80),
            (-2.5, 0xc020),
            // Halfway between two: to the even one, down and up.
            (f32::from_bits(0x3f80_8000), 0x3f80),
            (f32::from_bits(0x3f81_8000), 0x3f82),
            (f32::from_bits(0x3f80_8001), 0x3f81),
            (f32::MAX, 0x7f80),
            (f32::INFINITY, 0x7f80),
        ] {
            assert_eq!(round(x) >> 16, bits, "{x}");
        }
        assert!(f32::from_bits(round(f32::NAN) & 0xffff_0000).is_nan());
        assert!(f32::from_bits(round(f32::from_bits(0x7f80_0001)) & 0xffff_0000).is_nan());
    }
}
