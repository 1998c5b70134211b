//! One layer of a decoder, forward and backward, over any backend.

use candle_core::Result;

use super::architecture::{Activation, Architecture, LayerKind, QkNorm};
use super::linear::{Joined, Linear};
use crate::backend::{Backend, GradAccumulator, Norm, Parameter, Turn};

/// Attention and a gated feed-forward block, each with norms where the family has them, each added to the residual
/// stream.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    kind: LayerKind,
    qkv: Joined<3>,
    /// Norms of queries and keys.
    qk_norm: Option<[Norm; 2]>,
    attention: Block,
    gate_up: Joined<2>,
    activation: Activation,
    feed_forward: Block,
}

/// What goes into a block and what becomes of its result.
#[derive(Debug, Clone)]
struct Block {
    before: Option<Norm>,
    /// The last projection.
    output: Linear,
    after: Option<Norm>,
    /// What the result is multiplied by.
    scale: f64,
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
    gate_up: [B::Array; 2],
    /// Of attention and of the feed-forward block: the result before its norm, where it has one.
    results: [Option<B::Array>; 2],
}

/// The pass that a layer is part of.
pub(super) struct At<'a, B: Backend> {
    pub(super) backend: &'a B,
    pub(super) pass: &'a B::Pass,
    /// Of a training pass.
    pub(super) number: Option<u64>,
}

impl<B: Backend> Clone for At<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B: Backend> Copy for At<'_, B> {}

impl<B: Backend> SavedActivations<B> {
    /// Keeps the layer's input alone: the rest is computed again.
    pub(super) fn input_only(self) -> Self {
        Self { inside: None, ..self }
    }
}

impl Block {
    /// What the block reads of the stream.
    fn input<B: Backend>(&self, backend: &B, stream: &mut B::Stream) -> Result<B::Array> {
        match &self.before {
            Some(norm) => backend.add_norm(stream, norm),
            None => backend.saved(stream),
        }
    }

    /// The same of the stream as it was then.
    fn input_again<B: Backend>(&self, backend: &B, stream: &B::Array) -> Result<B::Array> {
        match &self.before {
            Some(norm) => backend.norm(stream, norm),
            None => backend.copy(stream),
        }
    }

    /// Adds what the block computes from `x` to the stream; returns what a norm of it reads.
    fn add_result<B: Backend>(
        &self,
        At { backend, number, .. }: At<'_, B>,
        x: &B::Array,
        stream: &mut B::Stream,
    ) -> Result<Option<B::Array>> {
        if self.after.is_none() && self.scale == 1.0 {
            self.output.forward_residual(backend, x, stream, number)?;
            return Ok(None);
        }
        let mut out = self.output.forward(backend, x, number)?;
        let mut raw = None;
        if let Some(norm) = &self.after {
            let normed = backend.norm(&out, norm)?;
            raw = Some(std::mem::replace(&mut out, normed));
        }
        if self.scale != 1.0 {
            backend.scale(&mut out, self.scale)?;
        }
        backend.add_residual(stream, out)?;
        Ok(raw)
    }

    /// The gradient of `x` for that of the stream; the weights' are added.
    fn result_backward<B: Backend>(
        &self,
        At { backend, number, .. }: At<'_, B>,
        x: &B::Array,
        raw: Option<B::Array>,
        dx: &B::Array,
        grads: &mut GradAccumulator,
    ) -> Result<B::Array> {
        if self.after.is_none() && self.scale == 1.0 {
            self.output.weight_backward(backend, x, dx, number, grads)?;
            return self.output.input_backward(backend, dx, None, number);
        }
        let mut grad = backend.copy(dx)?;
        if self.scale != 1.0 {
            backend.scale(&mut grad, self.scale)?;
        }
        if let (Some(norm), Some(raw)) = (&self.after, raw) {
            let mut d_raw = backend.zeros_like(&raw)?;
            backend.norm_backward(&raw, norm, &grad, &mut d_raw, grads)?;
            grad = d_raw;
        }
        self.output.weight_backward(backend, x, &grad, number, grads)?;
        self.output.input_backward(backend, &grad, None, number)
    }

    /// Adds to `dx` the gradient of the stream for that of what the block read of it.
    fn input_backward<B: Backend>(
        &self,
        backend: &B,
        stream: &B::Array,
        grad: &B::Array,
        dx: &mut B::Array,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        match &self.before {
            Some(norm) => backend.norm_backward(stream, norm, grad, dx, grads),
            None => backend.add(dx, grad),
        }
    }
}

impl Layer {
    /// A layer from weights under the names that follow the layer's own.
    pub(super) fn new(
        architecture: &Architecture,
        kind: LayerKind,
        mut weight: impl FnMut(&str) -> Result<Parameter>,
    ) -> Result<Self> {
        let a = architecture;
        let mut norm = |name: &str| {
            let (eps, offset) = (a.rms_norm_eps, a.norm_offset);
            Ok::<_, candle_core::Error>(Norm { weight: weight(name)?, eps, offset })
        };
        let norms = a.norm_names().map(|name| name.map(&mut norm).transpose());
        let [before_attention, after_attention, before_mlp, after_mlp] = norms;
        let qk_norm = match a.qk_norm {
            QkNorm::No => None,
            _ => Some([norm("self_attn.q_norm.weight")?, norm("self_attn.k_norm.weight")?]),
        };
        let mut linear = |name: &str| -> Result<Linear> {
            let bias = a.has_bias(name).then(|| weight(&format!("{name}.bias"))).transpose()?;
            Ok(Linear { weight: weight(&format!("{name}.weight"))?, bias, adapter: None })
        };
        let ([q, kv], ff) = (a.widths(), a.intermediate_size);
        let [inputs, output, gates, down] = a.roles();
        let qkv = Joined::new(inputs, [q, kv, kv], &mut linear)?;
        let gate_up = Joined::new(gates, [ff, ff], &mut linear)?;
        let mut block = |before: Result<_>, name: &str, after: Result<_>| -> Result<Block> {
            let output = linear(name)?;
            Ok(Block { before: before?, output, after: after?, scale: a.residual_scale })
        };
        let attention = block(before_attention, output[0], after_attention)?;
        let feed_forward = block(before_mlp, down[0], after_mlp)?;
        Ok(Self { kind, qkv, qk_norm, attention, gate_up, activation: a.activation, feed_forward })
    }

    /// The layer on the residual stream.
    pub(super) fn forward<B: Backend>(
        &self,
        at: At<'_, B>,
        stream: &mut B::Stream,
        cache: Option<&mut B::Cache<'_>>,
    ) -> Result<()> {
        self.run(at, stream, cache, false).map(|_| ())
    }

    /// The same without a cache, and what the backward pass reads.
    pub(super) fn forward_saved<B: Backend>(
        &self,
        at: At<'_, B>,
        stream: &mut B::Stream,
    ) -> Result<SavedActivations<B>> {
        let saved = self.run(at, stream, None, true)?;
        Ok(saved.expect("a pass that saves returns what it saved"))
    }

    fn run<B: Backend>(
        &self,
        at: At<'_, B>,
        stream: &mut B::Stream,
        cache: Option<&mut B::Cache<'_>>,
        saves: bool,
    ) -> Result<Option<SavedActivations<B>>> {
        let At { backend, pass, number } = at;
        let saved = |stream: &mut B::Stream| saves.then(|| backend.saved(stream)).transpose();

        let x = self.attention.input(backend, stream)?;
        let input = saved(stream)?;
        let [mut q, mut k, v] = self.qkv.forward(backend, &x, number)?;
        drop(x);
        let mut raw = None;
        if let Some([q_norm, k_norm]) = &self.qk_norm {
            let normed = [backend.head_norm(&q, q_norm)?, backend.head_norm(&k, k_norm)?];
            let [normed_q, normed_k] = normed;
            raw = Some([std::mem::replace(&mut q, normed_q), std::mem::replace(&mut k, normed_k)]);
        }
        if let Some(rope) = self.kind.rope {
            backend.rope(pass, rope, &mut q, Turn::Forward)?;
            backend.rope(pass, rope, &mut k, Turn::Forward)?;
        }
        let attended = backend.attention(pass, self.kind.window, [&q, &k, &v], cache)?;
        let of_attention = self.attention.add_result(at, &attended.0, stream)?;

        let x = self.feed_forward.input(backend, stream)?;
        let middle = saved(stream)?;
        let gate_up = self.gate_up.forward(backend, &x, number)?;
        drop(x);
        let gated = backend.gated(self.activation, &gate_up[0], &gate_up[1])?;
        let of_feed_forward = self.feed_forward.add_result(at, &gated, stream)?;

        let (Some(input), Some(middle)) = (input, middle) else { return Ok(None) };
        let results = [of_attention, of_feed_forward];
        let inside = Some(Inside { qkv: [q, k, v], raw, attended, middle, gate_up, results });
        Ok(Some(SavedActivations { input, inside }))
    }

    /// Adds the gradients of all weights; `dx` goes in as the gradient of the layer's result and comes out as that
    /// of its input.
    pub(super) fn backward<B: Backend>(
        &self,
        at: At<'_, B>,
        saved: SavedActivations<B>,
        dx: &mut B::Array,
        grads: &mut GradAccumulator,
    ) -> Result<()> {
        let At { backend, pass, number } = at;
        let input = saved.input;
        let inside = match saved.inside {
            Some(inside) => inside,
            None => {
                let mut stream = backend.stream(&input)?;
                let again = self.forward_saved(at, &mut stream)?;
                again.inside.expect("just computed")
            }
        };
        let Inside { qkv: [q, k, v], raw, attended, middle, gate_up, results } = inside;
        let [mut gate, mut up] = gate_up;
        let [of_attention, of_feed_forward] = results;

        let block = &self.feed_forward;
        let gated = backend.gated(self.activation, &gate, &up)?;
        let d_gated = block.result_backward(at, &gated, of_feed_forward, dx, grads)?;
        drop(gated);
        backend.gated_backward(self.activation, &mut gate, &mut up, &d_gated)?;
        drop(d_gated);
        let x = block.input_again(backend, &middle)?;
        let dx_of_block = self.gate_up.backward(backend, x, [gate, up], number, grads)?;
        block.input_backward(backend, &middle, &dx_of_block, dx, grads)?;
        drop((middle, dx_of_block));

        let block = &self.attention;
        let d_attended = block.result_backward(at, &attended.0, of_attention, dx, grads)?;
        let out = (&attended.0, &attended.1);
        let window = self.kind.window;
        let [mut dq, mut dk, dv] =
            backend.attention_backward(pass, window, [&q, &k, &v], out, &d_attended)?;
        drop((q, k, v, attended, d_attended));
        if let Some(rope) = self.kind.rope {
            backend.rope(pass, rope, &mut dq, Turn::Back)?;
            backend.rope(pass, rope, &mut dk, Turn::Back)?;
        }
        if let (Some(norms), Some(raw)) = (&self.qk_norm, &raw) {
            for ((norm, raw), grad) in norms.iter().zip(raw).zip([&mut dq, &mut dk]) {
                let mut d_raw = backend.zeros_like(raw)?;
                backend.norm_backward(raw, norm, grad, &mut d_raw, grads)?;
                *grad = d_raw;
            }
        }
        let x = block.input_again(backend, &input)?;
        let dx_of_block = self.qkv.backward(backend, x, [dq, dk, dv], number, grads)?;
        block.input_backward(backend, &input, &dx_of_block, dx, grads)
    }

    /// The projections, in the order of [`Architecture::modules`].
    pub(super) fn linears(&self) -> Vec<&Linear> {
        let (qkv, gate_up) = (self.qkv.linears(), self.gate_up.linears());
        let attention = qkv.iter().chain([&self.attention.output]);
        attention.chain(gate_up).chain([&self.feed_forward.output]).collect()
    }

    pub(super) fn linears_mut(&mut self) -> Vec<&mut Linear> {
        let Self { qkv, attention, gate_up, feed_forward, .. } = self;
        let attention = qkv.linears_mut().iter_mut().chain([&mut attention.output]);
        let rest = gate_up.linears_mut().iter_mut().chain([&mut feed_forward.output]);
        attention.chain(rest).collect()
    }
}
