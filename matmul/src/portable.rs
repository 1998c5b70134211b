//! Products by the `gemm` crate, on processors without our instructions.

use super::{Blocks, Matrix, Output, Packed, Right};

/// Rows of blocks that are widened at a time.
const LINES: usize = 256;

/// Writes what [`Packed`] holds here: the values row after row.
pub(super) fn rows(matrix: Matrix<'_>, out: &mut [f32]) {
    for (row, out) in out.chunks_exact_mut(matrix.columns.max(1)).enumerate() {
        for (column, out) in out.iter_mut().enumerate() {
            *out = matrix.data[row * matrix.row_stride + column * matrix.column_stride];
        }
    }
}

pub(super) fn multiply(left: Matrix<'_>, right: Right<'_>, out: Output<'_>, parallel: bool) {
    let right = match right {
        Right::Blocks(blocks) => return widened(left, blocks, out, parallel),
        Right::Plain(matrix) => matrix,
        Right::Quantized(_) => unreachable!("its products are integers'"),
        Right::Packed(Packed { values, k, columns }) => Matrix::new(values, *k, *columns),
    };
    let parallelism = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    // SAFETY: the caller checked that `out` holds the result; the operands hold what their sizes say.
    unsafe {
        gemm::gemm(
            left.rows,
            right.columns,
            right.rows,
            out.data.as_mut_ptr(),
            1,
            out.stride as isize,
            out.adds,
            left.data.as_ptr(),
            left.column_stride as isize,
            left.row_stride as isize,
            right.data.as_ptr(),
            right.column_stride as isize,
            right.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

/// The product with some rows of the matrix after the others.
fn widened(left: Matrix<'_>, blocks: Blocks<'_>, out: Output<'_>, parallel: bool) {
    let Output { data, stride, mut adds } = out;
    let (k, columns) = blocks.sizes();
    let (count, width) = if blocks.is_transposed() { (columns, k) } else { (k, columns) };
    let mut buffer = vec![0f32; LINES.min(count) * width];
    for first in (0..count).step_by(LINES) {
        let lines = LINES.min(count - first);
        let values = &mut buffer[..lines * width];
        for (index, line) in values.chunks_exact_mut(width).enumerate() {
            blocks.widen(first + index, 0, line);
        }
        let values = Matrix::new(values, lines, width);
        if blocks.is_transposed() {
            let out = Output { data: &mut data[first..], stride, adds };
            multiply(left, Right::Plain(values.transposed()), out, parallel);
        } else {
            let part = &left.data[first * left.column_stride..];
            let left = Matrix { data: part, columns: lines, ..left };
            multiply(left, Right::Plain(values), Output { data, stride, adds }, parallel);
            adds = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_agrees_with_our_kernels() {
        let values =
            |count: usize| -> Vec<f32> { (0..count).map(|i| (i as f32 * 0.7).sin()).collect() };
        let (a, b) = (values(9 * 70), values(70 * 45));
        let (left, right) = (Matrix::new(&a, 9, 70), Matrix::new(&b, 45, 70).transposed());
        let ours = crate::product(left, Right::Plain(right));
        let mut own = vec![0.0; 70 * 45];
        rows(right, &mut own);
        let packed = Packed { k: 70, columns: 45, values: own };
        for right in [Right::Plain(right), Right::Packed(&packed)] {
            let mut out = vec![1f32; 9 * 50];
            let data = out.as_mut_slice();
            multiply(left, right, Output { data, stride: 50, adds: true }, true);
            for (row, ours) in out.chunks(50).zip(ours.chunks(45)) {
                for (x, y) in row.iter().zip(ours) {
                    assert!((x - y - 1.0).abs() < 1e-5, "{x} {y}");
                }
                assert!(row[45..].iter().all(|x| *x == 1.0));
            }
        }
    }

    #[test]
    fn blocks_are_widened_some_at_a_time() {
        let (out, inner) = (2 * LINES + 5, 64);
        let bytes: Vec<u8> = (0..out * 2 * crate::BLOCK_BYTES)
            .map(|i| if i % crate::BLOCK_BYTES == 1 { 0x20 } else { (i * 7919 % 256) as u8 })
            .collect();
        let blocks = Blocks::new(&bytes, out, inner);
        let mut wide = vec![0f32; out * inner];
        for (row, wide) in wide.chunks_exact_mut(inner).enumerate() {
            blocks.widen(row, 0, wide);
        }
        let matrix = Matrix::new(&wide, out, inner);
        let values = |count: usize| (0..count).map(|i| (i as f32 * 0.7).sin()).collect::<Vec<_>>();
        let (x, grad) = (values(3 * inner), values(3 * out));
        let (x, grad) = (Matrix::new(&x, 3, inner), Matrix::new(&grad, 3, out));
        for (left, blocks, plain) in
            [(x, blocks.transposed(), matrix.transposed()), (grad, blocks, matrix)]
        {
            let columns = blocks.sizes().1;
            for adds in [false, true] {
                let of = |right: Right<'_>| {
                    let mut out = vec![1f32; 3 * columns];
                    multiply(left, right, Output { data: &mut out, stride: columns, adds }, true);
                    out
                };
                let (found, exact) = (of(Right::Blocks(blocks)), of(Right::Plain(plain)));
                for (found, exact) in found.iter().zip(&exact) {
                    assert!((found - exact).abs() <= 1e-4 * exact.abs().max(10.0));
                }
            }
        }
    }
}
