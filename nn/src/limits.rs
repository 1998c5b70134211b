//! The peak performance of this machine or its GPU.

use std::time::Instant;

use candle_core::{DType, Device, Result, Tensor};
use rayon::prelude::*;
use serde::Serialize;
use tealight_matmul::{Matrix, Right, bfloat16_peak, peak, product};

/// Rates that were measured here, with all threads.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Limits {
    /// Floating-point operations a second on values in registers; on a GPU, in a large product.
    pub peak: f64,
    /// The same in a product of two large matrices.
    pub product: f64,
    /// Bytes a second that a large array is read at; on a GPU, read and written at.
    pub read: f64,
}

/// Measures the limits of `device` for products of this type; takes about a second.
pub fn measure(device: &Device, dtype: DType) -> Result<Limits> {
    if device.is_cpu() {
        let (size, side) = (2048 * 2048, 2048);
        let (left, right) = (vec![0.5f32; size], vec![0.25f32; size]);
        let (left, right) = (Matrix::new(&left, side, side), Matrix::new(&right, side, side));
        let is_half = dtype == DType::BF16;
        let right = if is_half { Right::Rounded(right) } else { Right::Plain(right) };
        let seconds = best(5, || {
            std::hint::black_box(product(left, right));
            Ok(())
        })?;
        let product = 2.0 * (side as f64).powi(3) / seconds;
        let peak = if is_half { bfloat16_peak() } else { peak() };
        return Ok(Limits { peak, product, read: read()? });
    }
    const LARGEST: usize = 8192;
    let values = unequal(LARGEST * LARGEST, device)?;
    let read = scaled(&values)?;
    let values = values.to_dtype(dtype)?;
    // A slow device would take minutes for the largest matrices, and needs no large ones to be at its limit.
    let (mut side, mut rate) = (512, 0.0);
    while side <= LARGEST {
        let matrix = values.narrow(0, 0, side * side)?.reshape((side, side))?;
        let seconds = best(5, || {
            matrix.matmul(&matrix)?;
            device.synchronize()
        })?;
        rate = 2.0 * (side as f64).powi(3) / seconds;
        side = if seconds > 0.05 { LARGEST + 1 } else { 2 * side };
    }
    Ok(Limits { peak: rate, product: rate, read })
}

/// Values on a device of which none is like the next: the clock of a GPU that multiplies equal numbers is higher.
fn unequal(count: usize, device: &Device) -> Result<Tensor> {
    let value =
        |at: usize| ((at as u32).wrapping_mul(2_654_435_761) >> 8) as f32 / (1 << 24) as f32;
    Tensor::from_vec((0..count).map(|at| value(at) - 0.5).collect(), count, device)
}

/// Bytes a second that the CPU reads 512 MiB at.
fn read() -> Result<f64> {
    const VALUES: usize = 128 << 20;
    let values = vec![1f32; VALUES];
    let seconds = best(5, || {
        // Parts large enough to stream, summed in independent lanes.
        let sum = |part: &[f32]| {
            let mut lanes = [0f32; 64];
            for block in part.as_chunks::<64>().0 {
                lanes.iter_mut().zip(block).for_each(|(lane, x)| *lane += x);
            }
            lanes.iter().sum::<f32>()
        };
        std::hint::black_box(values.par_chunks(1 << 20).map(sum).sum::<f32>());
        Ok(())
    })?;
    Ok(4.0 * VALUES as f64 / seconds)
}

/// Bytes a second that these values are read and written at, each by itself, on their device. Candle's sum of an array
/// would be no measure: one of a GPU's many multiprocessors adds up all of it.
fn scaled(values: &Tensor) -> Result<f64> {
    let bytes = values.elem_count() * values.dtype().size_in_bytes();
    let seconds = best(5, || {
        values.affine(0.5, 0.0)?;
        values.device().synchronize()
    })?;
    Ok(2.0 * bytes as f64 / seconds)
}

/// The fewest seconds of several tries.
fn best(tries: usize, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut least = f64::INFINITY;
    for _ in 0..tries {
        let start = Instant::now();
        work()?;
        least = least.min(start.elapsed().as_secs_f64());
    }
    Ok(least)
}
