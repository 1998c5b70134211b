//! One layer of a decoder, forward and backward, over any backend.

use candle_core::Result;

use super::architecture::Architecture;
use super::linear::Linear;
use crate::backend::{Backend, GradAccumulator, Parameter, Turn};

/// Attention and a gated feed-forward block, each behind a norm, each added to the residual stream.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    pub(super) input_norm: Parameter,
    pub(super) q: Linear,
    pub(super) k: Linear,
    pub(super) v: Linear,
    pub(super) output: Linear,
    /// Norms of single heads of queries and keys.
    pub(super) qk_norm: Option<[Parameter; 2]>,
    pub(super) post_norm: Parameter,
    pub(super) gate: Linear,
    pub(super) up: Linear,
    pub(super) down: Linear,
    pub(super) eps: f64,
}

/// What the backward pass of a layer reads.
pub(super) struct SavedActivations<B: Backend> {
    /// The stream that went in.
    input: B::Array,
    /// What can be computed from it again.
    inside: Option<Inside<B>>,
}

/// What a layer computes on its way.
struct Inside<B: Backend> {
    /// Queries, keys and values, as attention reads them.
    qkv: [B::Array; 3],
    /// Queries and keys before their norms, where they have any.
    raw: Option<[B::Array; 2]>,
    attended: (B::Array, B::AttentionSums),
    /// The stream between attention and the feed-forward block.
    middle: B::Array,
    gate: B::Array,
    up: B::Array,
}

impl<B: Backend> SavedActivations<B> {
    /// Keeps the layer's input alone: the rest is computed again.
    pub(super) fn input_only(self) -> Self {
        Self { inside: None, ..self }
    }
}

impl Layer {
    /// A layer from weights under the names that follow the layer's own.
    pub(super) fn new(
        architecture: &Architecture,
        mut weight: impl FnMut(&str) -> Result<Parameter>,
    ) -> Result<Self> {
        let mut linear = |name: &str, has_bias: bool| -> Result<Linear> {
            let bias = has_bias.then(|| weight(&format!("{name}.bias"))).transpose()?;
            Ok(Linear { weight: weight(&format!("{name}.weight"))?, bias, adapter: None })
        };
        let q = linear("self_attn.q_proj", architecture.qkv_bias)?;
        let k = linear("self_attn.k_proj", architecture.qkv_bias)?;
        let v = linear("self_attn.v_proj", architecture.qkv_bias)?;
        let output = linear("self_attn.o_proj", architecture.output_bias)?;
        let gate = linear("mlp.gate_proj", false)?;
        let up = linear("mlp.up_proj", false)?;
        let down = linear("mlp.down_proj", false)?;
        let qk_norm = match architecture.qk_norm {
            true => Some([weight("self_attn.q_norm.weight")?, weight("self_attn.k_norm.weight")?]),
            false => None,
        };
        let input_norm = weight("input_layernorm.weight")?;
        let post_norm = weight("post_attention_layernorm.weight")?;
        let eps = architecture.rms_norm_eps;
        Ok(Self { input_norm, q, k, v, output, qk_norm, post_norm, gate, up, down, eps })
    }

    /// The layer on the residual stream; `number` is that of a training pass.
    pub(super) fn forward<B: Backend>(
        &self,
        backend: &B,
        pass: &B::Pass,
        stream: &mut B::Stream,
        cache: Option<&mut B::Cache<'_>>,
        number: Option<u64>,
    ) -> Result<()> {
        self.run(backend, pass, stream, cache, number, false).map(|_| ())
    }

    /// The same without a cache, and what the backward pass reads.
    pub(super) fn forward_saved<B: Backend>(
        &self,
        backend: &B,
        pass: &B::Pass,
        stream: &mut B::Stream,
        number: Option<u64>,
    ) -> Result<SavedActivations<B>> {
        let saved = self.run(backend, pass, stream, None, number, true)?;
        Ok(saved.expect("a pass that saves returns what it saved"))
    }

    fn run<B: Backend>(
        &self,
        backend: &B,
        pass: &B::Pass,
        stream: &mut B::Stream,
        cache: Option<&mut B::Cache<'_>>,
        number: Option<u64>,
        saves: bool,
    ) -> Result<Option<SavedActivations<B>>> {
        let saved = |stream: &B::Stream| saves.then(|| backend.saved(stream)).transpose();

        let normed = backend.add_norm(stream, &self.input_norm, self.eps)?;
        let input = saved(stream)?;
        let mut q = self.q.forward(backend, &normed, number)?;
        let mut k = self.k.forward(backend, &normed, number)?;
        let v = self.v.forward(backend, &normed, number)?;
        drop(normed);
        let mut raw = None;
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            let normed_q = backend.head_norm(&q, q_norm, self.eps)?;
            let normed_k = backend.head_norm(&k, k_norm, self.eps)?;
            raw = Some([std::mem::replace(&mut q, normed_q), std::mem::replace(&mut k, normed_k)]);
        }
        backend.rope(pass, &mut q, Turn::Forward)?;
        backend.rope(pass, &mut k, Turn::Forward)?;
        let attended = backend.attention(pass, [&q, &k, &v], cache)?;
        self.output.forward_residual(backend, &attended.0, stream, number)?;

        let normed = backend.add_norm(stream, &self.post_norm, self.eps)?;
        let middle = saved(stream)?;
        let gate = self.gate.forward(backend, &normed, number)?;
        let up = self.up.forward(backend, &normed, number)?;
        drop(normed);
        let gated = backend.swiglu(&gate, &up)?;
        self.down.forward_residual(backend, &gated, stream, number)?;

        let (Some(input), Some(middle)) = (input, middle) else { return Ok(None) };
        let inside = Some(Inside { qkv: [q, k, v], raw, attended, middle, gate, up });
        Ok(Some(SavedActivations { input, inside }))
    }

    /// Adds the gradients of all weights; `dx` goes in as the gradient of the layer's result and comes out as that
    /// of its input.
    pub(super) fn backward<B: Backend>(
        &self,
        backend: &B,
        pass: &B::Pass,
        saved: SavedActivations<B>,
        dx: &mut B::Array,
        number: Option<u64>,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let (eps, input) = (self.eps, saved.input);
        let inside = match saved.inside {
            Some(inside) => inside,
            None => {
                let mut stream = backend.stream(&input)?;
                let again = self.forward_saved(backend, pass, &mut stream, number)?;
                again.inside.expect("just computed")
            }
        };
        let Inside { qkv: [q, k, v], raw, attended, middle, mut gate, mut up } = inside;

        // The feed-forward block.
        let gated = backend.swiglu(&gate, &up)?;
        self.down.weight_backward(backend, &gated, dx, number, grads)?;
        drop(gated);
        let d_gated = self.down.input_backward(backend, dx, None, number)?;
        backend.swiglu_backward(&mut gate, &mut up, &d_gated)?;
        drop(d_gated);
        let normed = backend.norm(&middle, &self.post_norm, eps)?;
        self.gate.weight_backward(backend, &normed, &gate, number, grads)?;
        self.up.weight_backward(backend, &normed, &up, number, grads)?;
        drop(normed);
        let d_normed = self.gate.input_backward(backend, &gate, None, number)?;
        let d_normed = self.up.input_backward(backend, &up, Some(d_normed), number)?;
        drop((gate, up));
        backend.norm_backward(&middle, &self.post_norm, eps, &d_normed, dx, grads)?;
        drop((middle, d_normed));

        // Attention.
        self.output.weight_backward(backend, &attended.0, dx, number, grads)?;
        let d_attended = self.output.input_backward(backend, dx, None, number)?;
        let out = (&attended.0, &attended.1);
        let [mut dq, mut dk, dv] =
            backend.attention_backward(pass, [&q, &k, &v], out, &d_attended)?;
        drop((q, k, v, attended, d_attended));
        backend.rope(pass, &mut dq, Turn::Back)?;
        backend.rope(pass, &mut dk, Turn::Back)?;
        if let (Some(norms), Some(raw)) = (&self.qk_norm, &raw) {
            for ((norm, raw), grad) in norms.iter().zip(raw).zip([&mut dq, &mut dk]) {
                let mut d_raw = backend.zeros_like(raw)?;
                backend.norm_backward(raw, norm, eps, grad, &mut d_raw, grads)?;
                *grad = d_raw;
            }
        }
        let normed = backend.norm(&input, &self.input_norm, eps)?;
        let mut d_normed = None;
        for (linear, grad) in [(&self.q, dq), (&self.k, dk), (&self.v, dv)] {
            linear.weight_backward(backend, &normed, &grad, number, grads)?;
            d_normed = Some(linear.input_backward(backend, &grad, d_normed, number)?);
        }
        let d_normed = d_normed.expect("three projections");
        backend.norm_backward(&input, &self.input_norm, eps, &d_normed, dx, grads)
    }

    /// The projections, in the order of [`super::lora::MODULES`].
    pub(super) fn linears(&self) -> [&Linear; 7] {
        [&self.q, &self.k, &self.v, &self.output, &self.gate, &self.up, &self.down]
    }

    pub(super) fn linears_mut(&mut self) -> [&mut Linear; 7] {
        let Self { q, k, v, output, gate, up, down, .. } = self;
        [q, k, v, output, gate, up, down]
    }
}
