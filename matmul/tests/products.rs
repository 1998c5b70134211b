//! Products against sums in f64, and the promise that a row does not depend on the others.

use tealight_matmul::{Matrix, Output, Packed, Right, is_supported, multiply, product};

fn values(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919 + seed * 104_729) as f32 * 0.37).sin()).collect()
}

const SIZES: [[usize; 3]; 9] = [
    [1, 1, 1],
    [1, 5, 33],
    [3, 896, 31],
    [14, 64, 32],
    [15, 65, 100],
    [16, 513, 128],
    [64, 192, 704],
    [100, 1030, 7],
    [257, 300, 65],
];

#[test]
fn products_are_those_of_f64_in_every_layout() {
    for [m, k, n] in SIZES {
        let (left, right) = (values(m * k, 1), values(k * n, 2));
        let mut exact = vec![0f64; m * n];
        for i in 0..m {
            for l in 0..k {
                let a = f64::from(left[i * k + l]);
                for j in 0..n {
                    exact[i * n + j] += a * f64::from(right[l * n + j]);
                }
            }
        }
        let transposed = |values: &[f32], rows: usize, columns: usize| -> Vec<f32> {
            (0..rows * columns).map(|i| values[i % rows * columns + i / rows]).collect()
        };
        let (left_t, right_t) = (transposed(&left, m, k), transposed(&right, k, n));
        let lefts = [Matrix::new(&left, m, k), Matrix::new(&left_t, k, m).transposed()];
        let rights = [Matrix::new(&right, k, n), Matrix::new(&right_t, n, k).transposed()];
        for a in lefts {
            for b in rights {
                let packed = product(a, Right::Packed(&Packed::new(b)));
                let plain = product(a, Right::Plain(b));
                assert_eq!(packed, plain, "{m} {k} {n}");
                for (got, exact) in plain.iter().zip(&exact) {
                    let error = (f64::from(*got) - exact).abs();
                    let bound = 2e-6 * (k as f64).sqrt() + 1e-7;
                    assert!(error < bound, "{m} {k} {n}: {got} is not {exact}");
                }
            }
        }
    }
}

#[test]
fn a_row_is_the_same_bits_in_every_batch() {
    if !is_supported() {
        return;
    }
    let (k, n) = (700, 90);
    let (left, right) = (values(40 * k, 3), values(k * n, 4));
    let right = Right::Plain(Matrix::new(&right, k, n));
    let all = product(Matrix::new(&left, 40, k), right);
    for rows in [1, 2, 13, 14, 15, 29] {
        let some = product(Matrix::new(&left[..rows * k], rows, k), right);
        assert_eq!(some, all[..rows * n], "{rows} rows");
    }
}

#[test]
fn a_product_may_be_added_to_columns_of_something_wider() {
    let (left, right) = (values(17 * 300, 5), values(300 * 40, 6));
    let (left, right) = (Matrix::new(&left, 17, 300), Matrix::new(&right, 300, 40));
    let right = Right::Plain(right);
    let alone = product(left, right);
    for parallel in [false, true] {
        let mut out = vec![2f32; 17 * 64];
        let data = &mut out[8..];
        multiply(left, right, Output { data, stride: 64, adds: true }, parallel);
        for (row, alone) in out.chunks(64).zip(alone.chunks(40)) {
            assert!(row[..8].iter().chain(&row[48..]).all(|x| *x == 2.0));
            for (x, y) in row[8..48].iter().zip(alone) {
                assert!((x - y - 2.0).abs() < 1e-5, "{x} {y}");
            }
        }
    }
}
