//! The operations of a layer and their gradients, on the CPU or on a GPU.
//!
//! `Backend` is everything that a layer is made of; `model::Layer` is written once over it. An operation reads
//! and writes arrays of the backend's own kind, which need no graph: the forward pass hands out what the backward
//! pass reads, and gradients are added to a [`GradAccumulator`] that the caller owns.
//!
//! Letters: N tokens of a pass, D hidden size, H query heads, K key-value heads, V vocabulary.

pub mod cpu;
mod delta;
mod distributions;
pub mod gpu;
mod gradients;
pub mod int8;
mod packed;
mod parameter;
mod pool;

use std::ops::Range;

use candle_core::{Result, Tensor, bail};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

pub(crate) use delta::Delta;
pub use delta::DeltaSizes;
pub(crate) use distributions::{Anchor, Divergences, LogpGrads, Targets, TokenLogp};
pub use gradients::GradAccumulator;
pub use gradients::Gradient;
pub use packed::{PackedSequences, Segment};
pub use parameter::{Parameter, PooledPacked, Prepacked};
pub(crate) use pool::{Buffer, Pool};

/// The sizes of attention.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Heads {
    /// Query heads.
    pub(crate) queries: usize,
    /// Key-value heads; divides the query heads.
    pub(crate) keys: usize,
    /// Values a head.
    pub(crate) dim: usize,
    /// Values of a head that positions turn.
    pub(crate) rotary_dim: usize,
    /// The factor of products of queries and keys.
    pub(crate) scale: f32,
}

/// The type of the weights that are sampled from, where it is not that of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[value(rename_all = "lowercase")]
pub enum RolloutDtype {
    /// 16 bits with the range of float32, for weights and for activations as products read them.
    Bfloat16,
    /// 8-bit integers with a scale for every 32 values, for weights and activations.
    Int8,
}

impl RolloutDtype {
    /// The value of the option.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bfloat16 => "bfloat16",
            Self::Int8 => "int8",
        }
    }
}

/// A root-mean-square norm: `x / sqrt(mean(x^2) + eps) * (weight + offset)`.
#[derive(Debug, Clone)]
pub(crate) struct Norm {
    pub(crate) weight: Parameter,
    pub(crate) eps: f64,
    pub(crate) offset: f64,
}

/// The activation of a gate, of the form `x sigmoid(f(x))` or `sigmoid(x)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activation {
    /// `f(x) = x`.
    Silu,
    /// GELU by the hyperbolic tangent: `f(x) = 2 sqrt(2 / pi) (x + 0.044715 x^3)`.
    GeluTanh,
    /// `sigmoid(x)`, of attention's output.
    Sigmoid,
}

/// The angles of a pass's tokens, `[N, rotary_dim / 2]` each.
pub(crate) struct Angles {
    pub(crate) cos: Vec<f32>,
    pub(crate) sin: Vec<f32>,
}

/// Which way angles turn: the gradient of a rotation is its transpose, the rotation back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Forward,
    Back,
}

/// A weight and its bias.
pub(crate) type WithBias<'a> = (&'a Parameter, Option<&'a Parameter>);

/// What a backend computes with.
pub(crate) trait Arrays {
    /// Values of every token, row after row.
    type Array;
    /// The residual stream `[N, D]`, to which blocks add what they compute.
    type Stream;
    /// The values that attention's gradient needs beside the operands and the result.
    type AttentionSums;
    /// The values that the gradient of log-probabilities needs.
    type LogpSums;
    /// Where the tokens of a pass are, and what they see.
    type Pass;
    /// A layer's keys and values of the past, or the state in their place.
    type Cache<'a>;
}

/// The layers that keep a state in place of keys and values.
pub(crate) trait Mixing: Arrays {
    /// The causal convolution of every column of `x` `[N, C]` with its own `kernel` `[C, 1, W]`, through SiLU.
    fn convolution(
        &self,
        pass: &Self::Pass,
        x: &Self::Array,
        kernel: &Parameter,
        cache: Option<&mut Self::Cache<'_>>,
    ) -> Result<Self::Array>;
    /// Backward of [`Mixing::convolution`] without a cache: dL/dy -> dL/dx `[N, C]`; accumulates dL/dkernel in `grads`.
    fn convolution_backward(
        &self,
        pass: &Self::Pass,
        x: &Self::Array,
        kernel: &Parameter,
        grad: &Self::Array,
        grads: &mut GradAccumulator,
    ) -> Result<Self::Array>;
    /// The gated delta rule of queries, keys and values side by side, `b` and `a` ->
    /// `[N, value_heads * value_dim]`.
    fn delta_rule(
        &self,
        pass: &Self::Pass,
        delta: &Delta,
        inputs: [&Self::Array; 3],
        cache: Option<&mut Self::Cache<'_>>,
    ) -> Result<Self::Array>;
    /// Backward of [`Mixing::delta_rule`] without a cache: dL/dy -> gradients of `inputs`; accumulates those of the
    /// weights in `grads`.
    fn delta_rule_backward(
        &self,
        pass: &Self::Pass,
        delta: &Delta,
        inputs: [&Self::Array; 3],
        grad: &Self::Array,
        grads: &mut GradAccumulator,
    ) -> Result<[Self::Array; 3]>;
}

/// The output layer, and what losses ask of it.
pub(crate) trait OutputLayer: Arrays {
    /// Log-probabilities of `targets` under `softmax(hidden W^T / temperature)` of hidden states `[N, D]`; logits
    /// of all tokens never exist at once.
    fn logp(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: Targets<'_>,
    ) -> Result<TokenLogp<Self::LogpSums>>;
    /// Divergence of each position's next-token distribution from the anchor's, `[N]`.
    fn divergences(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: Targets<'_>,
        saved: &Self::LogpSums,
        anchor: &Anchor,
    ) -> Result<Divergences>;
    /// Backward of [`OutputLayer::logp`] and [`OutputLayer::divergences`]: `grad` -> dL/dhidden `[N, D]`; accumulates
    /// dL/dW in `grads`.
    fn logp_backward(
        &self,
        hidden: &Tensor,
        head: &Parameter,
        targets: Targets<'_>,
        saved: &Self::LogpSums,
        grad: &LogpGrads<'_>,
        grads: &mut GradAccumulator,
    ) -> Result<Tensor>;
    /// Logits `[N, V]` in f32.
    fn logits(&self, hidden: &Tensor, head: &Parameter) -> Result<Tensor>;
}

/// The operations of a decoder. Weights are `[out, in]`, arrays rows of values.
///
/// Errors are those of the device: no memory, sizes that do not fit.
pub(crate) trait Backend: Mixing + OutputLayer {
    /// A pass over whole sequences; with `slots`, over tokens that continue the rows of a cache with so many each.
    fn pass(
        &self,
        packed: &PackedSequences,
        heads: Heads,
        angles: Vec<Angles>,
        slots: Option<usize>,
    ) -> Result<Self::Pass>;

    /// The rows `ids` of the embedding, times `scale`.
    fn embed(&self, table: &Parameter, ids: &[u32], scale: f64) -> Result<Self::Stream>;
    /// Adds the gradient of the embedding for that of the stream.
    fn embed_backward(
        &self,
        table: &Parameter,
        ids: &[u32],
        grad: &Self::Array,
        grads: &mut GradAccumulator,
    ) -> Result<()>;

    /// A copy of the stream as it is now.
    fn saved(&self, stream: &mut Self::Stream) -> Result<Self::Array>;
    /// A stream that begins with `x`.
    fn stream(&self, x: &Self::Array) -> Result<Self::Stream>;
    /// The root-mean-square norm of the stream, what was added to it included.
    fn add_norm(&self, stream: &mut Self::Stream, norm: &Norm) -> Result<Self::Array>;
    /// The norm of every stretch of `x` that is as wide as the weight: of its rows, or of its heads.
    fn norm(&self, x: &Self::Array, norm: &Norm) -> Result<Self::Array>;
    /// Adds to `dx` the gradient of a norm's input `x` for that of its result, and to `grads` that of its weight.
    fn norm_backward(
        &self,
        x: &Self::Array,
        norm: &Norm,
        grad: &Self::Array,
        dx: &mut Self::Array,
        grads: &mut GradAccumulator,
    ) -> Result<()>;

    /// `x W^T + b` for each weight and its bias.
    fn linears(&self, x: &Self::Array, weights: &[WithBias<'_>]) -> Result<Vec<Self::Array>>;
    /// Adds `x W^T` to `to`.
    fn linear_add(&self, x: &Self::Array, weight: &Parameter, to: &mut Self::Array) -> Result<()>;
    /// Adds `x W^T + b` to the stream.
    fn linear_residual(
        &self,
        x: &Self::Array,
        weight: &Parameter,
        bias: Option<&Parameter>,
        stream: &mut Self::Stream,
    ) -> Result<()>;
    /// Adds `x` to the stream.
    fn add_residual(&self, stream: &mut Self::Stream, x: Self::Array) -> Result<()>;
    /// `grad W`, the gradient of a product's input, added to `to` where there is one.
    fn linear_backward(
        &self,
        grad: &Self::Array,
        weight: &Parameter,
        to: Option<Self::Array>,
    ) -> Result<Self::Array>;
    /// Adds `grad^T x`, the gradient of a product's weight, and the sums of `grad`, that of its bias.
    fn weight_backward(
        &self,
        x: &Self::Array,
        grad: &Self::Array,
        weight: &Parameter,
        bias: Option<&Parameter>,
        grads: &mut GradAccumulator,
    ) -> Result<()>;

    /// `activation(gate) * up`.
    fn gated(
        &self,
        activation: Activation,
        gate: &Self::Array,
        up: &Self::Array,
    ) -> Result<Self::Array>;
    /// Puts in place of `gate` and `up` their gradients.
    fn gated_backward(
        &self,
        activation: Activation,
        gate: &mut Self::Array,
        up: &mut Self::Array,
        grad: &Self::Array,
    ) -> Result<()>;

    /// Turns every head of `x` by its token's angles, the `rope`th of the pass.
    fn rope(&self, pass: &Self::Pass, rope: usize, x: &mut Self::Array, turn: Turn) -> Result<()>;
    /// Causal attention to the last `window` tokens or to all; keys and values are stored in the cache where there is
    /// one.
    fn attention(
        &self,
        pass: &Self::Pass,
        window: Option<usize>,
        qkv: [&Self::Array; 3],
        cache: Option<&mut Self::Cache<'_>>,
    ) -> Result<(Self::Array, Self::AttentionSums)>;
    /// The same of queries and keys that are turned first, by their ropes of the pass, where there are any. Where there
    /// is a cache, keys may be turned there alone.
    fn rope_attention(
        &self,
        pass: &Self::Pass,
        ropes: Option<[usize; 2]>,
        window: Option<usize>,
        [q, k, v]: [&mut Self::Array; 3],
        cache: Option<&mut Self::Cache<'_>>,
    ) -> Result<(Self::Array, Self::AttentionSums)> {
        if let Some([of_queries, of_keys]) = ropes {
            self.rope(pass, of_queries, q, Turn::Forward)?;
            self.rope(pass, of_keys, k, Turn::Forward)?;
        }
        self.attention(pass, window, [q, k, v], cache)
    }
    /// The gradients of queries, keys and values.
    fn attention_backward(
        &self,
        pass: &Self::Pass,
        window: Option<usize>,
        qkv: [&Self::Array; 3],
        out: (&Self::Array, &Self::AttentionSums),
        grad: &Self::Array,
    ) -> Result<[Self::Array; 3]>;

    /// Columns of every stretch of `width` values of `x`.
    fn columns(&self, x: &Self::Array, width: usize, columns: Range<usize>) -> Result<Self::Array>;
    /// The stretches of several arrays side by side, each of its width.
    fn joined(&self, parts: &[&Self::Array], widths: &[usize]) -> Result<Self::Array>;
    /// A copy, which may be changed.
    fn copy(&self, x: &Self::Array) -> Result<Self::Array>;
    /// Zeros of the size of `x`.
    fn zeros_like(&self, x: &Self::Array) -> Result<Self::Array>;
    /// Adds `y` to `x`.
    fn add(&self, x: &mut Self::Array, y: &Self::Array) -> Result<()>;
    /// Multiplies `x` by a number.
    fn scale(&self, x: &mut Self::Array, by: f64) -> Result<()>;

    /// `[N, D]`, to be read outside.
    fn to_tensor(&self, x: Self::Array, width: usize) -> Result<Tensor>;
    /// The values of a tensor `[N, D]`.
    fn of_tensor(&self, x: &Tensor) -> Result<Self::Array>;

    /// `[rows, D]` with the rows of `x` `[N, D]` added at `indices`.
    fn scatter(&self, x: &Tensor, indices: &[u32], rows: usize) -> Result<Tensor>;
    /// A layer's weight with a copy as it is now that products read fastest, of its own type or of another.
    fn prepack(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter>;
    /// The same of an adapter's matrix beside the weight `like`.
    fn prepack_adapter(&self, matrix: &Parameter, _like: &Parameter) -> Result<Parameter> {
        self.prepack(matrix, None)
    }
    /// The same of the output layer's weight.
    fn prepack_head(&self, weight: &Parameter, dtype: Option<RolloutDtype>) -> Result<Parameter>;
}

/// Refuses tokens that have no row in a vocabulary of this size: a kernel would not.
pub(crate) fn check_tokens(tokens: &[u32], vocabulary: usize) -> Result<()> {
    match tokens.iter().find(|id| **id as usize >= vocabulary) {
        Some(id) => bail!("token {id} is beyond the vocabulary of {vocabulary}"),
        None => Ok(()),
    }
}

/// Runs `$work` with `$backend` bound to the backend that `$any` is.
macro_rules! on_backend {
    ($any:expr, $backend:ident => $work:expr) => {
        match $any {
            $crate::backend::AnyBackend::Cpu($backend) => $work,
            $crate::backend::AnyBackend::Gpu($backend) => $work,
        }
    };
}
pub(crate) use on_backend;

/// A value of either backend.
#[derive(Debug, Clone)]
pub(crate) enum Either<C, G> {
    Cpu(C),
    Gpu(G),
}

/// A backend that was chosen at run time.
pub(crate) type AnyBackend = Either<cpu::Cpu, gpu::Gpu>;

impl AnyBackend {
    /// Has keys and values rounded to bfloat16, on the CPU: on a GPU they are of the model's type.
    pub(crate) fn round_keys(&mut self) {
        if let Self::Cpu(cpu) = self {
            cpu.rounds_keys = true;
        }
    }
}
