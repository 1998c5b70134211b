//! Softmax attention as what mixes the tokens of a layer.

use candle_core::Result;

use super::architecture::{Architecture, QkNorm};
use super::layer_parts::{At, Weights};
use super::linear::Joined;
use crate::backend::{Activation, Backend, GradAccumulator, Norm, Turn};

/// Queries, keys and values, what norms and positions make of them, and what queries gather.
#[derive(Debug, Clone)]
pub(super) struct Attention {
    pub(super) qkv: Joined<3>,
    /// Norms of queries and keys.
    qk_norm: Option<[Norm; 2]>,
    window: Option<usize>,
    /// Of queries, and of keys.
    ropes: Option<[usize; 2]>,
    /// Values of a head, where half of what is projected for queries are gates.
    gated: Option<usize>,
}

/// The intermediate values of a forward pass.
pub(super) struct SavedAttention<B: Backend> {
    /// Queries, keys and values, as attention reads them.
    qkv: [B::Array; 3],
    /// Queries and keys before their norms, where they have any.
    raw: Option<[B::Array; 2]>,
    gate: Option<B::Array>,
    attended: (B::Array, B::AttentionSums),
}

impl Attention {
    pub(super) fn new(
        architecture: &Architecture,
        (window, rope): (Option<usize>, Option<usize>),
        inputs: &[&str],
        weights: &mut Weights<'_>,
    ) -> Result<Self> {
        let a = architecture;
        let qk_norm = match a.qk_norm {
            QkNorm::No => None,
            _ => Some([
                weights.norm("self_attn.q_norm.weight", a.norm_offset)?,
                weights.norm("self_attn.k_norm.weight", a.norm_offset)?,
            ]),
        };
        let [q, kv] = a.widths();
        let qkv = Joined::new(inputs, [q, kv, kv], &mut |name| weights.linear(name))?;
        let gated = a.output_gate.then_some(a.head_dim);
        let ropes = rope.map(|rope| [a.query_rope.unwrap_or(rope), rope]);
        Ok(Self { qkv, qk_norm, window, ropes, gated })
    }

    pub(super) fn forward<B: Backend>(
        &self,
        At { backend, pass }: At<'_, B>,
        x: &B::Array,
        cache: Option<&mut B::Cache<'_>>,
    ) -> Result<SavedAttention<B>> {
        let [mut q, mut k, mut v] = self.qkv.forward(backend, x)?;
        let mut gate = None;
        if let Some(dim) = self.gated {
            // Query and gate of each head stand side by side: [N, H, 2 dim].
            gate = Some(backend.columns(&q, 2 * dim, dim..2 * dim)?);
            q = backend.columns(&q, 2 * dim, 0..dim)?;
        }
        let mut raw = None;
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            let normed = [backend.norm(&q, q_norm)?, backend.norm(&k, k_norm)?];
            let [normed_q, normed_k] = normed;
            raw = Some([std::mem::replace(&mut q, normed_q), std::mem::replace(&mut k, normed_k)]);
        }
        let qkv = [&mut q, &mut k, &mut v];
        let attended = backend.rope_attention(pass, self.ropes, self.window, qkv, cache)?;
        Ok(SavedAttention { qkv: [q, k, v], raw, gate, attended })
    }

    /// The input of the output projection.
    pub(super) fn with_result<B: Backend, R>(
        &self,
        backend: &B,
        saved: &SavedAttention<B>,
        read: impl FnOnce(&B::Array) -> Result<R>,
    ) -> Result<R> {
        match &saved.gate {
            None => read(&saved.attended.0),
            Some(gate) => read(&backend.gated(Activation::Sigmoid, gate, &saved.attended.0)?),
        }
    }

    /// Backward: dL/dy -> dL/dx; accumulates weight gradients.
    pub(super) fn backward<B: Backend>(
        &self,
        At { backend, pass }: At<'_, B>,
        saved: SavedAttention<B>,
        grad: B::Array,
        x: impl FnOnce() -> Result<B::Array>,
        grads: &mut GradAccumulator,
    ) -> Result<B::Array> {
        let SavedAttention { qkv: [q, k, v], raw, gate, attended } = saved;
        let (mut d_attended, mut d_gate) = (grad, None);
        if let Some(mut gate) = gate {
            let mut up = backend.copy(&attended.0)?;
            // y = sigmoid(g) o: the gradients of g and o take the places of both operands.
            backend.gated_backward(Activation::Sigmoid, &mut gate, &mut up, &d_attended)?;
            (d_attended, d_gate) = (up, Some(gate));
        }
        let out = (&attended.0, &attended.1);
        let [mut dq, mut dk, dv] =
            backend.attention_backward(pass, self.window, [&q, &k, &v], out, &d_attended)?;
        drop((q, k, v, attended, d_attended));
        if let Some([of_queries, of_keys]) = self.ropes {
            // The steps of the forward pass backward: rotation (its transpose), norms of queries and keys, projections.
            backend.rope(pass, of_queries, &mut dq, Turn::Back)?;
            backend.rope(pass, of_keys, &mut dk, Turn::Back)?;
        }
        if let (Some(norms), Some(raw)) = (&self.qk_norm, &raw) {
            for ((norm, raw), grad) in norms.iter().zip(raw).zip([&mut dq, &mut dk]) {
                let mut d_raw = backend.zeros_like(raw)?;
                backend.norm_backward(raw, norm, grad, &mut d_raw, grads)?;
                *grad = d_raw;
            }
        }
        if let (Some(dim), Some(d_gate)) = (self.gated, d_gate) {
            dq = backend.joined(&[&dq, &d_gate], &[dim, dim])?;
        }
        self.qkv.backward(backend, x()?, [dq, dk, dv], grads)
    }
}
