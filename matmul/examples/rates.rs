//! Measures the products of a decoder here, in GFLOP/s, for each shape (rows by k by columns): packed, in bfloat16 and
//! in 8 bits, and not packed. The first line names the instruction set.

use std::time::Instant;

use tealight_matmul::{InstructionSet, Matrix, Packed, Quantized, Right, product};

fn main() {
    println!("{}", InstructionSet::in_use().name());
    for [m, k, n] in [
        [4864, 256, 896],
        [4864, 512, 896],
        [4864, 896, 896],
        [1920, 576, 1536],
        [1920, 1536, 576],
        [2048, 2048, 2048],
        [1, 896, 151_936],
        [16, 896, 4864],
        [16, 896, 151_936],
        [32, 896, 4864],
        [32, 896, 151_936],
        [64, 896, 4864],
        [128, 576, 1536],
        [128, 1536, 576],
        [128, 576, 576],
        [128, 576, 49_152],
        [512, 896, 4864],
        [512, 4864, 896],
        [4864, 512, 896],
        [1024, 896, 128],
        [64, 192, 704],
        [64, 192, 192],
        [3072, 192, 704],
    ] {
        let (left, right) = (vec![0.5f32; m * k], vec![0.25f32; k * n]);
        let left = Matrix::new(&left, m, k);
        let weight = Matrix::new(&right, n, k).transposed();
        let packed = Packed::new(weight);
        let half = Packed::new(Right::Rounded(weight));
        let quantized = Quantized::new(Right::Plain(weight));
        let rate = |work: &dyn Fn() -> Vec<f32>| {
            let flops = 2.0 * (m * k * n) as f64;
            let mut times: Vec<f64> = Vec::new();
            while times.len() < 5 || (times.iter().sum::<f64>() < 0.3 && times.len() < 1000) {
                let start = Instant::now();
                std::hint::black_box(work());
                times.push(start.elapsed().as_secs_f64());
            }
            times.sort_by(f64::total_cmp);
            flops / times[times.len() / 2] / 1e9
        };
        println!(
            "{m:5} x {k:5} x {n:6}: packed {:6.1}, bfloat16 {:6.1}, 8 bits {:6.1}, \
             weight [n, k] {:6.1} and {:6.1}, [k, n] {:6.1} and {:6.1} GFLOP/s",
            rate(&|| product(left, Right::Packed(&packed))),
            rate(&|| product(left, Right::Packed(&half))),
            rate(&|| product(left, Right::Quantized(&quantized))),
            rate(&|| product(left, Right::Plain(weight))),
            rate(&|| product(left, Right::Rounded(weight))),
            rate(&|| product(left, Right::Plain(Matrix::new(&right, k, n)))),
            rate(&|| product(left, Right::Rounded(Matrix::new(&right, k, n)))),
        );
    }
}
