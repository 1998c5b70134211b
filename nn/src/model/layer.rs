//! One layer of a decoder, forward and backward, over any backend.

use candle_core::{Result, bail};

use super::architecture::{Activation, Architecture, LayerKind};
use super::attention::{self, Attention};
use super::delta::{self, DeltaRule};
use super::layer_parts::{At, Weights};
use super::linear::{Joined, Linear};
use crate::backend::{Backend, GradAccumulator, Norm, Parameter};

/// A token mixer and a gated feed-forward block, each with norms where the family has them, each added to the residual
/// stream.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    mixer: Mixer,
    mixing: Block,
    gate_up: Joined<2>,
    activation: Activation,
    feed_forward: Block,
}

/// The token mixer of a layer.
#[derive(Debug, Clone)]
enum Mixer {
    Attention(Box<Attention>),
    Delta(Box<DeltaRule>),
}

/// The intermediate values of a mixer.
enum Mixed<B: Backend> {
    Attention(attention::SavedAttention<B>),
    Delta(delta::SavedDelta<B>),
}

/// The norms and the last projection around a block.
#[derive(Debug, Clone)]
struct Block {
    before: Option<Norm>,
    /// The projection back to the residual stream, `o_proj` or `down_proj`.
    output: Linear,
    after: Option<Norm>,
    /// The factor of the result.
    scale: f64,
}

/// The values that the backward pass of a layer reads.
pub(super) struct SavedActivations<B: Backend> {
    /// The stream that went in.
    input: B::Array,
    /// The values that can be recomputed from the input.
    inside: Option<Inside<B>>,
}

/// The intermediate values of a layer.
struct Inside<B: Backend> {
    mixed: Mixed<B>,
    /// The stream between mixing and the feed-forward block.
    middle: B::Array,
    gate_up: [B::Array; 2],
    /// Of both blocks: the result before its norm, where it has one.
    results: [Option<B::Array>; 2],
}

impl<B: Backend> SavedActivations<B> {
    /// Keeps the layer's input alone: the rest is computed again.
    pub(super) fn input_only(self) -> Self {
        Self { inside: None, ..self }
    }
}

impl Block {
    /// The input of the block, from the stream.
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
        At { backend, .. }: At<'_, B>,
        x: &B::Array,
        stream: &mut B::Stream,
    ) -> Result<Option<B::Array>> {
        if self.after.is_none() && self.scale == 1.0 {
            self.output.forward_residual(backend, x, stream)?;
            return Ok(None);
        }
        // stream += s norm(x W^T + b); the norm's gradient reads its input, which is returned.
        let mut out = self.output.forward(backend, x)?;
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

    /// Backward: dL/d(stream) -> dL/dx; accumulates weight gradients.
    fn result_backward<B: Backend>(
        &self,
        At { backend, .. }: At<'_, B>,
        x: &B::Array,
        raw: Option<B::Array>,
        dx: &B::Array,
        grads: &mut GradAccumulator,
    ) -> Result<B::Array> {
        if self.after.is_none() && self.scale == 1.0 {
            self.output.weight_backward(backend, x, dx, grads)?;
            return self.output.input_backward(backend, dx, None);
        }
        // A copy: `dx` itself goes on to the layers before, by the residual connection.
        let mut grad = backend.copy(dx)?;
        if self.scale != 1.0 {
            backend.scale(&mut grad, self.scale)?;
        }
        if let (Some(norm), Some(raw)) = (&self.after, raw) {
            let mut d_raw = backend.zeros_like(&raw)?;
            backend.norm_backward(&raw, norm, &grad, &mut d_raw, grads)?;
            grad = d_raw;
        }
        self.output.weight_backward(backend, x, &grad, grads)?;
        self.output.input_backward(backend, &grad, None)
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

impl Mixer {
    fn forward<B: Backend>(
        &self,
        at: At<'_, B>,
        x: &B::Array,
        cache: Option<&mut B::Cache<'_>>,
    ) -> Result<Mixed<B>> {
        match self {
            Self::Attention(mixer) => mixer.forward(at, x, cache).map(Mixed::Attention),
            Self::Delta(mixer) => mixer.forward(at, x, cache).map(Mixed::Delta),
        }
    }

    /// The input of the output projection.
    fn with_result<B: Backend, R>(
        &self,
        backend: &B,
        mixed: &Mixed<B>,
        read: impl FnOnce(&B::Array) -> Result<R>,
    ) -> Result<R> {
        match (self, mixed) {
            (Self::Attention(mixer), Mixed::Attention(mixed)) => {
                mixer.with_result(backend, mixed, read)
            }
            (Self::Delta(mixer), Mixed::Delta(mixed)) => mixer.with_result(backend, mixed, read),
            _ => unreachable!("a layer saves what its own mixer computes"),
        }
    }

    /// Backward: dL/dy -> dL/dx; accumulates weight gradients.
    fn backward<B: Backend>(
        &self,
        at: At<'_, B>,
        mixed: Mixed<B>,
        grad: B::Array,
        x: impl FnOnce() -> Result<B::Array>,
        grads: &mut GradAccumulator,
    ) -> Result<B::Array> {
        match (self, mixed) {
            (Self::Attention(mixer), Mixed::Attention(mixed)) => {
                mixer.backward(at, mixed, grad, x, grads)
            }
            (Self::Delta(mixer), Mixed::Delta(mixed)) => mixer.backward(at, mixed, grad, x, grads),
            _ => unreachable!("a layer saves what its own mixer computes"),
        }
    }

    fn linears(&self) -> &[Linear] {
        match self {
            Self::Attention(mixer) => mixer.qkv.linears(),
            Self::Delta(mixer) => mixer.inputs.linears(),
        }
    }

    fn linears_mut(&mut self) -> &mut [Linear] {
        match self {
            Self::Attention(mixer) => mixer.qkv.linears_mut(),
            Self::Delta(mixer) => mixer.inputs.linears_mut(),
        }
    }
}

impl Layer {
    /// Layer `index` from weights under the names that follow the layer's own.
    pub(super) fn new(
        architecture: &Architecture,
        index: usize,
        mut weight: impl FnMut(&str) -> Result<Parameter>,
    ) -> Result<Self> {
        let a = architecture;
        let [inputs, output, gates, down] = a.roles(index);
        let mut weights = Weights { architecture, find: &mut weight };
        let mixer = match (a.layers[index], a.delta) {
            (LayerKind::Attention { window, rope }, _) => {
                let sight = (window, rope);
                Mixer::Attention(Box::new(Attention::new(a, sight, inputs, &mut weights)?))
            }
            (LayerKind::Delta, Some(sizes)) => {
                Mixer::Delta(Box::new(DeltaRule::new(sizes, inputs, &mut weights)?))
            }
            (LayerKind::Delta, None) => bail!("the sizes of the delta rule are not known"),
        };
        let widths = [a.intermediate_size; 2];
        let gate_up = Joined::new(gates, widths, &mut |name| weights.linear(name))?;
        let [before, after, before_mlp, after_mlp] = a.norm_names();
        let mut block = |before: Option<_>, output: &str, after: Option<_>| -> Result<Block> {
            let mut norm = |name| weights.norm(name, a.norm_offset);
            let before = before.map(&mut norm).transpose()?;
            let after = after.map(&mut norm).transpose()?;
            let output = weights.linear(output)?;
            Ok(Block { before, output, after, scale: a.residual_scale })
        };
        let mixing = block(before, output[0], after)?;
        let feed_forward = block(before_mlp, down[0], after_mlp)?;
        Ok(Self { mixer, mixing, gate_up, activation: a.activation, feed_forward })
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
        let At { backend, .. } = at;
        let saved = |stream: &mut B::Stream| saves.then(|| backend.saved(stream)).transpose();

        // h = x + mix(norm(x)), then y = h + W_down (act(W_gate n) W_up n) with n = norm(h).
        let x = self.mixing.input(backend, stream)?;
        let input = saved(stream)?;
        let mixed = self.mixer.forward(at, &x, cache)?;
        drop(x);
        let of_mixing = self
            .mixer
            .with_result(backend, &mixed, |result| self.mixing.add_result(at, result, stream))?;

        let x = self.feed_forward.input(backend, stream)?;
        let middle = saved(stream)?;
        let gate_up = self.gate_up.forward(backend, &x)?;
        drop(x);
        let gated = backend.gated(self.activation, &gate_up[0], &gate_up[1])?;
        let of_feed_forward = self.feed_forward.add_result(at, &gated, stream)?;

        let (Some(input), Some(middle)) = (input, middle) else { return Ok(None) };
        let results = [of_mixing, of_feed_forward];
        let inside = Some(Inside { mixed, middle, gate_up, results });
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
        let At { backend, .. } = at;
        let input = saved.input;
        let inside = match saved.inside {
            Some(inside) => inside,
            None => {
                // Gradient checkpointing: one more forward pass of this layer instead of its activations in memory for
                // all layers.
                let mut stream = backend.stream(&input)?;
                let again = self.forward_saved(at, &mut stream)?;
                again.inside.expect("just computed")
            }
        };
        let Inside { mixed, middle, gate_up, results } = inside;
        let [mut gate, mut up] = gate_up;
        let [of_mixing, of_feed_forward] = results;

        let block = &self.feed_forward;
        // y = x + f(norm(x)): dx = dy + J_norm^T J_f^T dy, so that `dx` keeps dy and each block adds its own part. The
        // gated product [N, intermediate] is computed again: an element-wise step costs less than keeping it.
        let gated = backend.gated(self.activation, &gate, &up)?;
        let d_gated = block.result_backward(at, &gated, of_feed_forward, dx, grads)?;
        drop(gated);
        backend.gated_backward(self.activation, &mut gate, &mut up, &d_gated)?;
        drop(d_gated);
        let x = block.input_again(backend, &middle)?;
        let dx_of_block = self.gate_up.backward(backend, x, [gate, up], grads)?;
        block.input_backward(backend, &middle, &dx_of_block, dx, grads)?;
        drop((middle, dx_of_block));

        let block = &self.mixing;
        let d_mixed = self.mixer.with_result(backend, &mixed, |result| {
            block.result_backward(at, result, of_mixing, dx, grads)
        })?;
        let again = || block.input_again(backend, &input);
        let dx_of_block = self.mixer.backward(at, mixed, d_mixed, again, grads)?;
        block.input_backward(backend, &input, &dx_of_block, dx, grads)
    }

    /// The projections, in the order of [`Architecture::modules`].
    pub(super) fn linears(&self) -> Vec<&Linear> {
        let mixing = self.mixer.linears().iter().chain([&self.mixing.output]);
        mixing.chain(self.gate_up.linears()).chain([&self.feed_forward.output]).collect()
    }

    pub(super) fn linears_mut(&mut self) -> Vec<&mut Linear> {
        let Self { mixer, mixing, gate_up, feed_forward, .. } = self;
        let mixing = mixer.linears_mut().iter_mut().chain([&mut mixing.output]);
        let rest = gate_up.linears_mut().iter_mut().chain([&mut feed_forward.output]);
        mixing.chain(rest).collect()
    }
}
