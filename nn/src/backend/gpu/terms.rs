//! Norms, activations and delta rules in the kernels' terms, and what these do not know.

use candle_core::{DType, Device, Result, bail};
use tealight_gpu::kernels;

use super::super::{Activation, Delta, DeltaSizes, Heads, Norm};

pub(super) fn gain(norm: &Norm) -> kernels::Gain<'_> {
    kernels::Gain { weight: &norm.weight.values, offset: norm.offset, eps: norm.eps }
}

pub(super) fn through(activation: Activation) -> kernels::Gate {
    match activation {
        Activation::Silu => kernels::Gate::SILU,
        Activation::GeluTanh => kernels::Gate::GELU_TANH,
        Activation::Sigmoid => kernels::Gate::SIGMOID,
    }
}

pub(super) fn rule(delta: &Delta) -> kernels::Delta<'_> {
    let DeltaSizes { key_heads, value_heads, key_dim, value_dim, .. } = delta.sizes;
    let weights = [&delta.a_log.values, &delta.dt_bias.values];
    kernels::Delta { key_heads, value_heads, key_dim, value_dim, weights }
}

/// Refuses what kernels do not know.
pub(crate) fn check(
    heads: Heads,
    delta: Option<DeltaSizes>,
    dtype: DType,
    device: &Device,
) -> Result<()> {
    let Heads { queries, keys, dim, rotary_dim: _, scale: _ } = heads;
    if !tealight_gpu::runs_on(device) {
        bail!("this binary has no kernels for {device:?}");
    }
    if !matches!(dtype, DType::F32 | DType::BF16) {
        bail!("a decoder on a GPU is of float32 or bfloat16, not {dtype:?}");
    }
    if !(kernels::Heads { queries, keys, dim }).are_known() {
        bail!(
            "our kernels do not know {queries} query heads over {keys} key-value heads of {dim} values; use --device \
             cpu"
        );
    }
    if let Some(DeltaSizes { key_dim, value_dim, .. }) = delta
        && key_dim.max(value_dim) > kernels::MAX_STATE
    {
        bail!(
            "our kernels do not know states of {key_dim} by {value_dim} values; use --device cpu"
        );
    }
    Ok(())
}
