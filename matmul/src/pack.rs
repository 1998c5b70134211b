//! Operands into panels: for every place along k, the values of a panel's rows or columns side by side. What a
//! panel has too much is zero.

use std::ops::Range;

use rayon::prelude::*;

use super::{COLUMNS, Matrix};

/// Places along k that are transposed at a time.
const BLOCK: usize = 16;

/// Panels of `height` rows of `left` `[m, k]`, each `[k][height]`, to the beginning of `out`.
pub(super) fn left(left: Matrix<'_>, height: usize, serial: bool, out: &mut Vec<f32>) {
    let depth = left.columns;
    let needed = left.rows.div_ceil(height) * height * depth;
    if out.len() < needed {
        out.resize(needed, 0.0);
    }
    let fill = |(panel, out): (usize, &mut [f32])| {
        panel_of(left.transposed(), panel * height, height, 0..depth, out);
    };
    let out = &mut out[..needed];
    if serial {
        out.chunks_mut(height * depth).enumerate().for_each(fill);
    } else {
        out.par_chunks_mut(height * depth).enumerate().for_each(fill);
    }
}

/// The places `range` of the panel of `right` `[k, n]` that begins at column `first`.
pub(super) fn right(right: Matrix<'_>, first: usize, range: Range<usize>, out: &mut [f32]) {
    panel_of(right, first, COLUMNS, range, out);
}

/// Of a matrix `[k, n]`: for each place of `range` along k, the `width` columns from `first` on.
fn panel_of(matrix: Matrix<'_>, first: usize, width: usize, range: Range<usize>, out: &mut [f32]) {
    let panel = Panel { matrix, first, width, range };
    #[cfg(target_arch = "x86_64")]
    if super::kernel::is_supported() {
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
}

impl Panel<'_> {
    #[inline(always)]
    fn fill(&self, out: &mut [f32]) {
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
    unsafe fn fill_wide(&self, out: &mut [f32]) {
        self.fill(out);
    }

    /// Where the columns, of which so many are `there`, stand side by side.
    #[inline(always)]
    fn along_columns(&self, there: usize, out: &mut [f32]) {
        let matrix = self.matrix;
        let row = |k: usize| &matrix.data[k * matrix.row_stride + self.first..][..there];
        for (out, k) in out.chunks_exact_mut(self.width).zip(self.range.clone()) {
            let (out, rest) = out.split_at_mut(there);
            rest.fill(0.0);
            out.copy_from_slice(row(k));
        }
    }

    /// Where the values along k stand side by side: blocks are transposed.
    #[inline(always)]
    fn along_k(&self, there: usize, out: &mut [f32]) {
        let Self { matrix, first, width, range } = self;
        debug_assert_eq!(matrix.row_stride, 1);
        for start in range.clone().step_by(BLOCK) {
            let places = start..(start + BLOCK).min(range.end);
            let out = &mut out[(start - range.start) * width..][..places.len() * width];
            for from in (0..*width).step_by(BLOCK) {
                let columns = from..(from + BLOCK).min(*width);
                // What is not there is zero.
                let mut block = [[0f32; BLOCK]; BLOCK];
                for column in columns.start..columns.end.min(there) {
                    let values = &matrix.data[(first + column) * matrix.column_stride..];
                    let (values, line) = (&values[places.clone()], &mut block[column - from]);
                    match <&[f32; BLOCK]>::try_from(values) {
                        Ok(values) => *line = *values,
                        Err(_) => line[..values.len()].copy_from_slice(values),
                    }
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
