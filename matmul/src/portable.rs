//! Products by the `gemm` crate, on processors without our instructions.

use super::{Matrix, Output, Packed, Precision, Right, pack};

/// What [`Packed`] holds here: the values row after row, rounded as the precision says.
pub(super) fn rows(matrix: Matrix<'_>, precision: Precision) -> Vec<u32> {
    let mut words = Vec::with_capacity(matrix.rows * matrix.columns);
    for row in 0..matrix.rows {
        let values = (0..matrix.columns)
            .map(|column| matrix.data[row * matrix.row_stride + column * matrix.column_stride]);
        match precision {
            Precision::F32 => words.extend(values.map(f32::to_bits)),
            Precision::Bf16 => words.extend(values.map(|x| pack::round(x) & 0xffff_0000)),
        }
    }
    words
}

fn values(words: &[u32]) -> Vec<f32> {
    words.iter().map(|word| f32::from_bits(*word)).collect()
}

pub(super) fn multiply(left: Matrix<'_>, right: Right<'_>, out: Output<'_>, parallel: bool) {
    let (k, columns, precision) = right.sizes();
    let rounded = |matrix: Matrix<'_>| values(&rows(matrix, precision));
    let (rows, is_rounded) = (left.rows, precision == Precision::Bf16);
    let (own_left, own_right);
    let left = if is_rounded {
        own_left = rounded(left);
        Matrix::new(&own_left, rows, k)
    } else {
        left
    };
    let right = match right {
        Right::Plain(matrix, _) if !is_rounded => matrix,
        Right::Plain(matrix, _) => {
            own_right = rounded(matrix);
            Matrix::new(&own_right, k, columns)
        }
        Right::Packed(Packed { words, .. }) => {
            own_right = values(words);
            Matrix::new(&own_right, k, columns)
        }
    };
    let parallelism = if parallel { gemm::Parallelism::Rayon(0) } else { gemm::Parallelism::None };
    // SAFETY: the caller checked that `out` holds the result; the operands hold what their sizes say.
    unsafe {
        gemm::gemm(
            rows,
            columns,
            k,
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
        for precision in [Precision::F32, Precision::Bf16] {
            let (left, right) = (Matrix::new(&a, 9, 70), Matrix::new(&b, 45, 70).transposed());
            let ours = crate::product(left, Right::Plain(right, precision));
            let packed = Packed { precision, k: 70, columns: 45, words: rows(right, precision) };
            for right in [Right::Plain(right, precision), Right::Packed(&packed)] {
                let mut out = vec![1f32; 9 * 50];
                let data = out.as_mut_slice();
                multiply(left, right, Output { data, stride: 50, adds: true }, true);
                for (row, ours) in out.chunks(50).zip(ours.chunks(45)) {
                    for (x, y) in row.iter().zip(ours) {
                        assert!((x - y - 1.0).abs() < 1e-5, "{precision:?}: {x} {y}");
                    }
                    assert!(row[45..].iter().all(|x| *x == 1.0));
                }
            }
        }
    }
}
