//! One layer forward.

use candle_core::{Result, Tensor};
use tealight_gpu::kernels;

use super::super::Decoder;
use super::super::decoder::Layer;
use super::super::ops::Linear;
use super::Pass;

/// What the backward pass of a layer needs; N tokens, Q and K values of all query and key heads, I inner values.
pub(super) struct Kept {
    /// `[N, D]`: what goes in.
    pub(super) input: Tensor,
    /// What can be computed from it again.
    pub(super) rest: Option<Inside>,
}

/// What a layer computes on its way.
pub(super) struct Inside {
    /// `[N, Q]`, `[N, K]`, `[N, K]`: queries, keys, values, rotated.
    pub(super) qkv: [Tensor; 3],
    /// Queries and keys before their norms, where they have any.
    pub(super) raw: Option<[Tensor; 2]>,
    /// `[N, Q]`: what attention gathers, and the logarithms of the sums of its weights.
    pub(super) attended: (Tensor, Tensor),
    /// `[N, D]`: the stream between attention and the feed-forward block.
    pub(super) middle: Tensor,
    /// `[N, I]` each.
    pub(super) gate: Tensor,
    pub(super) up: Tensor,
}

impl Linear {
    /// `x` `[N, in]` to `[N, out]`.
    pub(super) fn on_gpu(&self, x: &Tensor, pass: &Pass) -> Result<Tensor> {
        let out = x.matmul(&self.weight.detach().t()?)?;
        if let Some(bias) = &self.bias {
            kernels::add_bias(&out, &bias.detach())?;
        }
        if let Some(adapter) = &self.adapter {
            kernels::add(&out, &adapter.on_gpu(x, pass.dropout)?)?;
        }
        Ok(out)
    }
}

impl Layer {
    /// The stream after the layer's attention and what its feed-forward block adds to it, for the stream `x` and
    /// what is still to be added to that.
    pub(super) fn on_gpu(
        &self,
        decoder: &Decoder,
        pass: &Pass,
        x: &Tensor,
        more: Option<&Tensor>,
        cache: Option<&[Tensor; 2]>,
    ) -> Result<(Tensor, Tensor, Kept)> {
        let eps = decoder.architecture.rms_norm_eps;
        let (input, normed) = kernels::add_norm(x, more, &self.input_norm.detach(), eps)?;
        let (mut q, mut k) = (self.q.on_gpu(&normed, pass)?, self.k.on_gpu(&normed, pass)?);
        let v = self.v.on_gpu(&normed, pass)?;
        let mut raw = None;
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            let normed_q = kernels::add_norm(&q, None, &q_norm.detach(), eps)?.1;
            let normed_k = kernels::add_norm(&k, None, &k_norm.detach(), eps)?.1;
            raw = Some([std::mem::replace(&mut q, normed_q), std::mem::replace(&mut k, normed_k)]);
        }
        kernels::rope(&q, &pass.cos, &pass.sin, false)?;
        kernels::rope(&k, &pass.cos, &pass.sin, false)?;
        let attended = match (cache, &pass.places) {
            (Some([keys, values]), Some(places)) => {
                kernels::store_rows(&k, keys, places)?;
                kernels::store_rows(&v, values, places)?;
                kernels::attention(&q, keys, values, &pass.runs)?
            }
            _ => kernels::attention(&q, &k, &v, &pass.runs)?,
        };
        let gathered = self.output.on_gpu(&attended.0, pass)?;
        let (middle, normed) =
            kernels::add_norm(&input, Some(&gathered), &self.post_norm.detach(), eps)?;
        let (gate, up) = (self.gate.on_gpu(&normed, pass)?, self.up.on_gpu(&normed, pass)?);
        let out = self.down.on_gpu(&kernels::swiglu(&gate, &up)?, pass)?;
        let rest = Some(Inside { qkv: [q, k, v], raw, attended, middle: middle.clone(), gate, up });
        Ok((middle, out, Kept { input, rest }))
    }
}
