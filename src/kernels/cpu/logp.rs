//! Log-probability of one target a row, and the entropy of the row, from logits `[N, V]`.
//!
//! N tokens, V vocabulary. Log-softmax in f32 of `logits / temperature`; nothing of size `[N, V]` is
//! written in the forward pass.

use candle_core::{CpuStorage, CustomOp2, CustomOp3, Layout, Result, Shape, bail};
use rayon::prelude::*;

use super::math::{exp, max, simd, sum_of};
use super::values;

/// Operands `logits` `[N, V]`, `targets` u32 `[N]`; result `[N, 2]`: log-probability and entropy.
pub(crate) struct LogpEntropy {
    pub(crate) temperature: f32,
}

/// Operands `logits` `[N, V]`, `targets` u32 `[N]`, `grad` `[N]` of the log-probabilities; result
/// the gradient `[N, V]` of the logits: `(onehot - p) grad / temperature`.
pub(crate) struct LogpGradient {
    pub(crate) temperature: f32,
}

fn targets<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [u32]> {
    match (layout.contiguous_offsets(), storage) {
        (Some((start, end)), CpuStorage::U32(ids)) => Ok(&ids[start..end]),
        _ => bail!("targets must be contiguous u32"),
    }
}

impl CustomOp2 for LogpEntropy {
    fn name(&self) -> &'static str {
        "logp-entropy"
    }

    fn cpu_fwd(
        &self,
        logits: &CpuStorage,
        logits_layout: &Layout,
        ids: &CpuStorage,
        ids_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (rows, vocabulary) = logits_layout.shape().dims2()?;
        let (logits, ids) = (values(logits, logits_layout)?, targets(ids, ids_layout)?);
        let inverse = 1.0 / self.temperature;
        let mut out = vec![0f32; rows * 2];
        out.par_chunks_mut(2)
            .zip(logits.par_chunks(vocabulary))
            .zip(ids)
            .with_min_len(1 + 4096 / vocabulary)
            .for_each(|((out, row), id)| {
                simd(|| {
                    let top = max(row);
                    let mass = sum_of(row, |x| exp((x - top) * inverse));
                    let mean = sum_of(row, |x| exp((x - top) * inverse) * (x - top)) / mass;
                    out[0] = (row[*id as usize] - top) * inverse - mass.ln();
                    out[1] = mass.ln() - mean * inverse;
                });
            });
        Ok((CpuStorage::F32(out), Shape::from((rows, 2))))
    }
}

impl CustomOp3 for LogpGradient {
    fn name(&self) -> &'static str {
        "logp-gradient"
    }

    fn cpu_fwd(
        &self,
        logits: &CpuStorage,
        logits_layout: &Layout,
        ids: &CpuStorage,
        ids_layout: &Layout,
        grad: &CpuStorage,
        grad_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let (_, vocabulary) = logits_layout.shape().dims2()?;
        let (logits, ids) = (values(logits, logits_layout)?, targets(ids, ids_layout)?);
        let grad = values(grad, grad_layout)?;
        let inverse = 1.0 / self.temperature;
        let mut out = vec![0f32; logits.len()];
        out.par_chunks_mut(vocabulary)
            .zip(logits.par_chunks(vocabulary))
            .zip(ids)
            .zip(grad)
            .with_min_len(1 + 4096 / vocabulary)
            .for_each(|(((out, row), id), grad)| {
                simd(|| {
                    let top = max(row);
                    for (out, x) in out.iter_mut().zip(row) {
                        *out = exp((x - top) * inverse);
                    }
                    let scale = -grad * inverse / sum_of(out, |mass| mass);
                    out.iter_mut().for_each(|mass| *mass *= scale);
                    out[*id as usize] += grad * inverse;
                });
            });
        Ok((CpuStorage::F32(out), logits_layout.shape().clone()))
    }
}
