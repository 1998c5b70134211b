//! The gated delta rule as what mixes the tokens of a layer: a convolution, the rule, and a gated norm of its result.

use candle_core::Result;

use super::architecture::DeltaSizes;
use super::layer_parts::{At, Weights};
use super::linear::Joined;
use crate::backend::{Activation, Backend, Delta, GradAccumulator, Norm, Parameter};

/// Projections, the convolution over queries, keys and values, the rule, and the norm of each head.
#[derive(Debug, Clone)]
pub(super) struct DeltaRule {
    /// Queries, keys and values together; gates; `b`; `a`.
    pub(super) inputs: Joined<4>,
    kernel: Parameter,
    rule: Delta,
    norm: Norm,
}

/// The intermediate values of a forward pass.
pub(super) struct SavedDelta<B: Backend> {
    /// Queries, keys and values before the convolution, gates, `b` and `a`.
    inputs: [B::Array; 4],
    mixed: B::Array,
    result: B::Array,
}

impl DeltaRule {
    pub(super) fn new(
        sizes: DeltaSizes,
        inputs: &[&str],
        weights: &mut Weights<'_>,
    ) -> Result<Self> {
        let widths = [sizes.mixed(), sizes.values(), sizes.value_heads, sizes.value_heads];
        let inputs = Joined::new(inputs, widths, &mut |name| weights.linear(name))?;
        let kernel = weights.get("linear_attn.conv1d.weight")?;
        let rule = Delta {
            sizes,
            a_log: weights.get("linear_attn.A_log")?,
            dt_bias: weights.get("linear_attn.dt_bias")?,
        };
        let norm = weights.norm("linear_attn.norm.weight", 0.0)?;
        Ok(Self { inputs, kernel, rule, norm })
    }

    pub(super) fn forward<B: Backend>(
        &self,
        At { backend, pass }: At<'_, B>,
        x: &B::Array,
        mut cache: Option<&mut B::Cache<'_>>,
    ) -> Result<SavedDelta<B>> {
        let inputs = self.inputs.forward(backend, x)?;
        let [raw, _, b, a] = &inputs;
        let mixed = backend.convolution(pass, raw, &self.kernel, cache.as_deref_mut())?;
        let result = backend.delta_rule(pass, &self.rule, [&mixed, b, a], cache)?;
        Ok(SavedDelta { inputs, mixed, result })
    }

    /// The input of the output projection.
    pub(super) fn with_result<B: Backend, R>(
        &self,
        backend: &B,
        saved: &SavedDelta<B>,
        read: impl FnOnce(&B::Array) -> Result<R>,
    ) -> Result<R> {
        let normed = backend.norm(&saved.result, &self.norm)?;
        read(&backend.gated(Activation::Silu, &saved.inputs[1], &normed)?)
    }

    /// Backward: dL/dy -> dL/dx; accumulates weight gradients.
    pub(super) fn backward<B: Backend>(
        &self,
        At { backend, pass }: At<'_, B>,
        saved: SavedDelta<B>,
        grad: B::Array,
        x: impl FnOnce() -> Result<B::Array>,
        grads: &mut GradAccumulator,
    ) -> Result<B::Array> {
        // Of silu(z) norm(delta(conv(x W^T))), factor by factor from the outside.
        let SavedDelta { inputs: [raw, mut gate, b, a], mixed, result } = saved;
        // Computed again from the rule's result, which the norm's gradient reads in any case.
        let mut normed = backend.norm(&result, &self.norm)?;
        backend.gated_backward(Activation::Silu, &mut gate, &mut normed, &grad)?;
        let mut d_result = backend.zeros_like(&result)?;
        backend.norm_backward(&result, &self.norm, &normed, &mut d_result, grads)?;
        drop((grad, normed, result));
        let [d_mixed, d_b, d_a] =
            backend.delta_rule_backward(pass, &self.rule, [&mixed, &b, &a], &d_result, grads)?;
        drop((mixed, d_result));
        let d_raw = backend.convolution_backward(pass, &raw, &self.kernel, &d_mixed, grads)?;
        drop((raw, d_mixed));
        self.inputs.backward(backend, x()?, [d_raw, gate, d_b, d_a], grads)
    }
}
