//! `y = x / sqrt(mean(x^2) + eps) * (weight + offset)` over rows of `x`, with its gradient.

use rayon::prelude::*;
use tealight_matmul::vectorized;

use super::by_rows;
use super::math::{dot, sum_of};

/// Rows whose share of the weight's gradient is summed by one task.
const BLOCK: usize = 128;

/// `1 / sqrt(mean(x^2) + eps)`.
#[inline(always)]
fn scale(row: &[f32], eps: f32) -> f32 {
    1.0 / (sum_of(row, |x| x * x) / row.len() as f32 + eps).sqrt()
}

/// The scale and the weight of a norm's rows.
#[derive(Clone, Copy)]
pub(crate) struct Gain<'a> {
    pub(crate) weight: &'a [f32],
    /// Added to the weight.
    pub(crate) offset: f32,
    pub(crate) eps: f32,
}

/// The norm of every row of `x`, as wide as the weight, to `out`.
pub(crate) fn rms_norm(x: &[f32], gain: Gain<'_>, out: &mut [f32], parallel: bool) {
    let Gain { weight, offset, eps } = gain;
    let width = weight.len();
    by_rows(parallel, out, width, |first, out| {
        let rows = x[first * width..].chunks_exact(width);
        vectorized(
            #[inline(always)]
            || {
                for (out, x) in out.chunks_exact_mut(width).zip(rows) {
                    let scale = scale(x, eps);
                    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                        *out = x * scale * (weight + offset);
                    }
                }
            },
        );
    });
}

/// Adds the gradient of `x` to `dx` and that of the weight to `dw`. With `s` the scale:
/// `dx = s g w - x s^3 / D sum(g w x)` for `w` with its offset, `dw = sum over rows of g x s`.
pub(crate) fn gradients(
    x: &[f32],
    Gain { weight, offset, eps }: Gain<'_>,
    grad: &[f32],
    dx: &mut [f32],
    dw: &mut [f32],
) {
    let width = weight.len();
    let blocks: Vec<Vec<f32>> = dx
        .par_chunks_mut(width * BLOCK)
        .zip(x.par_chunks(width * BLOCK))
        .zip(grad.par_chunks(width * BLOCK))
        .map(|((dx, x), grad)| {
            let (mut dw, mut weighted) = (vec![0f32; width], vec![0f32; width]);
            vectorized(
                #[inline(always)]
                || {
                    let rows = x.chunks_exact(width).zip(grad.chunks_exact(width));
                    for (dx, (x, grad)) in dx.chunks_exact_mut(width).zip(rows) {
                        let scale = scale(x, eps);
                        for i in 0..width {
                            // y = s w x. Partial sums of dw are of a fixed number of rows: no other order of additions
                            // for other threads.
                            weighted[i] = grad[i] * (weight[i] + offset);
                            dw[i] += grad[i] * x[i] * scale;
                        }
                        // ds / dx_i = -s^3 x_i / D: a longer row has a smaller scale.
                        let shrink = dot(&weighted, x) * scale * scale * scale / width as f32;
                        for i in 0..width {
                            dx[i] += weighted[i] * scale - x[i] * shrink;
                        }
                    }
                },
            );
            dw
        })
        .collect();
    for block in blocks {
        dw.iter_mut().zip(block).for_each(|(sum, part)| *sum += part);
    }
}
