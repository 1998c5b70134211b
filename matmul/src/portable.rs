//! Products by the `gemm` crate, on processors without our instructions.

use super::{Matrix, Output, Packed, Right};

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
        Right::Plain(matrix) => matrix,
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
}
