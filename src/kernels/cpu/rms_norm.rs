//! `y = x / sqrt(mean(x^2) + eps) * weight` over rows of `x` `[.., D]`, with its gradient.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::{dot, simd, sum_of};
use super::{shaped_like, values, with_values};

/// Rows whose share of the weight's gradient is summed by one task.
const BLOCK: usize = 128;

/// Operands `x` `[.., D]`, `weight` `[D]`.
pub(crate) struct RmsNorm {
    pub(crate) eps: f32,
}

impl RmsNorm {
    /// `1 / sqrt(mean(x^2) + eps)`.
    #[inline(always)]
    fn scale(&self, row: &[f32]) -> f32 {
        1.0 / (sum_of(row, |x| x * x) / row.len() as f32 + self.eps).sqrt()
    }
}

impl CustomOp2 for RmsNorm {
    fn name(&self) -> &'static str {
        "rms-norm"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weight: &CpuStorage,
        weight_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (x, weight) = (values(x, x_layout)?, values(weight, weight_layout)?);
        let width = weight.len();
        let mut out = vec![0f32; x.len()];
        out.par_chunks_mut(width * BLOCK).zip(x.par_chunks(width * BLOCK)).for_each(|(out, x)| {
            simd(|| {
                for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
                    let scale = self.scale(x);
                    for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                        *out = x * scale * weight;
                    }
                }
            });
        });
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weight: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        with_values(x, |xs| {
            with_values(weight, |weights| {
                with_values(grad, |grads| {
                    let (dx, dw) = self.gradients(xs, weights, grads);
                    Ok((Some(shaped_like(dx, x)?), Some(shaped_like(dw, weight)?)))
                })
            })
        })
    }
}

impl RmsNorm {
    /// With `s` the scale: `dx = s g w - x s^3 / D sum(g w x)`, `dw = sum over rows of g x s`.
    fn gradients(&self, x: &[f32], weight: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
        let width = weight.len();
        let mut dx = vec![0f32; x.len()];
        let blocks: Vec<Vec<f32>> = dx
            .par_chunks_mut(width * BLOCK)
            .zip(x.par_chunks(width * BLOCK))
            .zip(grad.par_chunks(width * BLOCK))
            .map(|((dx, x), grad)| {
                let mut dw = vec![0f32; width];
                let mut weighted = vec![0f32; width];
                simd(|| {
                    let rows = x.chunks_exact(width).zip(grad.chunks_exact(width));
                    for (dx, (x, grad)) in dx.chunks_exact_mut(width).zip(rows) {
                        let scale = self.scale(x);
                        for i in 0..width {
                            weighted[i] = grad[i] * weight[i];
                            dw[i] += grad[i] * x[i] * scale;
                        }
                        let pull = dot(&weighted, x) * scale * scale * scale / width as f32;
                        for i in 0..width {
                            dx[i] = weighted[i] * scale - x[i] * pull;
                        }
                    }
                });
                dw
            })
            .collect();
        let mut dw = vec![0f32; width];
        for block in blocks {
            dw.iter_mut().zip(block).for_each(|(sum, part)| *sum += part);
        }
        (dx, dw)
    }
}
