//! Rates of matrix products in GFLOP/s: Tealight's beside those of `gemm` and `faer`, for `scripts/bench-products`.

use std::time::Instant;

use tealight_matmul::{InstructionSet, Matrix, Output, Packed, Right, multiply};

/// Runs `work` for .4 s, and five times at least: operations a second at the median time, in billions.
fn rate(operations: f64, mut work: impl FnMut()) -> f64 {
    work();
    let mut times: Vec<f64> = Vec::new();
    while times.len() < 5 || (times.iter().sum::<f64>() < 0.4 && times.len() < 1000) {
        let start = Instant::now();
        work();
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    operations / times[times.len() / 2] / 1e9
}

fn values(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7919) as f32 * 0.37).sin()).collect()
}

/// One line a shape: rows, k and columns, then packed and `[n, k]` of float32 and of bfloat16, `gemm` and `faer`.
fn main() {
    eprintln!("{}", InstructionSet::in_use().name());
    let sizes: Vec<usize> = std::env::args().skip(1).filter_map(|size| size.parse().ok()).collect();
    for size in sizes.chunks_exact(3) {
        let [m, k, n] = [size[0], size[1], size[2]];
        let (x, w, mut out) = (values(m * k), values(k * n), vec![0f32; m * n]);
        let operations = 2.0 * (m * k * n) as f64;
        let (left, weight) = (Matrix::new(&x, m, k), Matrix::new(&w, n, k).transposed());
        let (single, half) = (Packed::new(weight), Packed::new(Right::Rounded(weight)));
        let mut rates = Vec::new();
        for right in [
            Right::Packed(&single),
            Right::Plain(weight),
            Right::Packed(&half),
            Right::Rounded(weight),
        ] {
            let out = &mut out;
            rates.push(rate(operations, || {
                multiply(left, right, Output { data: &mut *out, stride: n, adds: false }, true);
            }));
        }
        rates.push(rate(operations, || {
            let (to, x, w) = (out.as_mut_ptr(), x.as_ptr(), w.as_ptr());
            let threads = gemm::Parallelism::Rayon(0);
            let lines = [n as isize, k as isize, k as isize];
            // SAFETY: three matrices of these sizes, whose strides lie within them.
            unsafe {
                gemm::gemm(
                    m, n, k, to, 1, lines[0], false, x, 1, lines[1], w, lines[2], 1, 0f32, 1f32,
                    false, false, false, threads,
                );
            }
        }));
        rates.push(rate(operations, || {
            faer::linalg::matmul::matmul(
                faer::MatMut::from_row_major_slice_mut(&mut out, m, n),
                faer::Accum::Replace,
                faer::MatRef::from_row_major_slice(&x, m, k),
                faer::MatRef::from_column_major_slice(&w, k, n),
                1f32,
                faer::Par::rayon(0),
            );
        }));
        let line: Vec<String> = rates.iter().map(|rate| format!("{rate:.1}")).collect();
        println!("{}", line.join(" "));
    }
}
