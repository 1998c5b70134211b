//! Rotary position embedding: rotates the two halves of each head by the angle of its position.
//!
//! `x` `[.., H, D]` seen as `N` tokens of `H` heads, `cos` and `sin` `[N, D / 2]`. The gradient is
//! the rotation back.

use candle_core::{CpuStorage, CustomOp3, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::simd;
use super::values;

/// Operands `x`, `cos`, `sin`; `direction` is 1 for the rotation and -1 for its inverse.
pub(crate) struct Rope {
    pub(crate) head_dim: usize,
    pub(crate) direction: f32,
}

impl CustomOp3 for Rope {
    fn name(&self) -> &'static str {
        "rope"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        cos: &CpuStorage,
        cos_layout: &Layout,
        sin: &CpuStorage,
        sin_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = values(x, x_layout)?;
        let (cos, sin) = (values(cos, cos_layout)?, values(sin, sin_layout)?);
        let half = self.head_dim / 2;
        let width = x.len() / (cos.len() / half);
        let mut out = vec![0f32; x.len()];
        out.par_chunks_mut(width).with_min_len(32).enumerate().for_each(|(token, out)| {
            let angles = token * half..(token + 1) * half;
            let (cos, sin) = (&cos[angles.clone()], &sin[angles]);
            let x = &x[token * width..(token + 1) * width];
            simd(|| {
                let heads = out.chunks_exact_mut(self.head_dim).zip(x.chunks_exact(self.head_dim));
                for (out, x) in heads {
                    let ((out_1, out_2), (x_1, x_2)) = (out.split_at_mut(half), x.split_at(half));
                    for i in 0..half {
                        let sin = sin[i] * self.direction;
                        out_1[i] = x_1[i] * cos[i] - x_2[i] * sin;
                        out_2[i] = x_2[i] * cos[i] + x_1[i] * sin;
                    }
                }
            });
        });
        Ok((CpuStorage::F32(out), x_layout.shape().clone()))
    }

    fn bwd(
        &self,
        _x: &Tensor,
        cos: &Tensor,
        sin: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let inverse = Rope { head_dim: self.head_dim, direction: -self.direction };
        let dx = grad.contiguous()?.apply_op3_no_bwd(cos, sin, &inverse)?;
        Ok((Some(dx), None, None))
    }
}
