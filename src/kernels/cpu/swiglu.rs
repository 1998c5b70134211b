//! `silu(gate) * up`, element by element, with its gradient.

use candle_core::{CpuStorage, CustomOp2, Layout, Result, Shape, Tensor};
use rayon::prelude::*;

use super::math::{exp, simd};
use super::{shaped_like, values, with_values};

/// Elements that one task works on.
const BLOCK: usize = 16_384;

/// Operands `gate` and `up`, of one shape.
pub(crate) struct SwiGlu;

impl CustomOp2 for SwiGlu {
    fn name(&self) -> &'static str {
        "swiglu"
    }

    fn cpu_fwd(
        &self,
        gate: &CpuStorage,
        gate_layout: &Layout,
        up: &CpuStorage,
        up_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (gate, up) = (values(gate, gate_layout)?, values(up, up_layout)?);
        let mut out = vec![0f32; gate.len()];
        out.par_chunks_mut(BLOCK).zip(gate.par_chunks(BLOCK)).zip(up.par_chunks(BLOCK)).for_each(
            |((out, gate), up)| {
                simd(|| {
                    for i in 0..out.len() {
                        out[i] = gate[i] / (1.0 + exp(-gate[i])) * up[i];
                    }
                });
            },
        );
        Ok((CpuStorage::F32(out), gate_layout.shape().clone()))
    }

    fn bwd(
        &self,
        gate: &Tensor,
        up: &Tensor,
        _out: &Tensor,
        grad: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>)> {
        with_values(gate, |gates| {
            with_values(up, |ups| {
                with_values(grad, |grads| {
                    let (d_gate, d_up) = gradients(gates, ups, grads);
                    Ok((Some(shaped_like(d_gate, gate)?), Some(shaped_like(d_up, up)?)))
                })
            })
        })
    }
}

/// With `s = sigmoid(gate)`: `d_gate = g up s (1 + gate (1 - s))`, `d_up = g gate s`.
fn gradients(gate: &[f32], up: &[f32], grad: &[f32]) -> (Vec<f32>, Vec<f32>) {
    let (mut d_gate, mut d_up) = (vec![0f32; gate.len()], vec![0f32; gate.len()]);
    d_gate
        .par_chunks_mut(BLOCK)
        .zip(d_up.par_chunks_mut(BLOCK))
        .zip(gate.par_chunks(BLOCK).zip(up.par_chunks(BLOCK)).zip(grad.par_chunks(BLOCK)))
        .for_each(|((d_gate, d_up), ((gate, up), grad))| {
            simd(|| {
                for i in 0..d_gate.len() {
                    let s = 1.0 / (1.0 + exp(-gate[i]));
                    d_gate[i] = grad[i] * up[i] * s * (1.0 + gate[i] * (1.0 - s));
                    d_up[i] = grad[i] * gate[i] * s;
                }
            });
        });
    (d_gate, d_up)
}
