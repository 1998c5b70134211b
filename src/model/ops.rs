//! The operations of the decoder as graphs of Candle's, each with a gradient: for GPUs, and for f64 as the
//! yardstick of what `host` does by hand.
//!
//! Tensors that need no gradient (`track_op()` is false) take Candle's fused forward-only kernels.

use std::sync::Arc;

use candle_core::{D, DType, Device, Result, Tensor};
use tealight_matmul::Packed;

use super::lora::LowRank;
use super::pool::Pool;
use super::rope::Angles;
use super::{Architecture, Spans};
use crate::kernels::product::{self, Precision};

/// A weight `[out, in]` and perhaps a bias `[out]`.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) precision: Precision,
    /// What is added to the weight, and trained in its place.
    pub(super) adapter: Option<LowRank>,
    /// The weight packed, as it was when this was made.
    pub(super) ready: Option<Arc<Ready>>,
}

/// A packed weight, whose memory goes back where it came from.
#[derive(Debug)]
pub(super) struct Ready {
    packed: Option<Packed>,
    pool: Arc<Pool>,
}

impl Ready {
    fn new(weight: &Tensor, precision: Precision, pool: &Arc<Pool>) -> Result<Self> {
        let packed = product::packed(weight, precision, |count| pool.take_words(count))?;
        Ok(Self { packed: Some(packed), pool: pool.clone() })
    }

    pub(super) fn packed(&self) -> &Packed {
        self.packed.as_ref().expect("there until it is dropped")
    }
}

impl Drop for Ready {
    fn drop(&mut self) {
        if let Some(packed) = self.packed.take() {
            self.pool.give_words(packed.into_words());
        }
    }
}

impl Linear {
    pub(super) fn new(weight: Tensor, bias: Option<Tensor>, precision: Precision) -> Self {
        Self { weight, bias, precision, adapter: None, ready: None }
    }

    /// The same weight, packed for many products without a gradient in memory of `pool`; what is packed stays
    /// as it is.
    pub(super) fn ready(&self, pool: &Arc<Pool>) -> Result<Self> {
        if self.ready.is_some() {
            return Ok(self.clone());
        }
        let ready = Ready::new(&self.weight.detach(), self.precision, pool)?;
        let adapter = self.adapter.as_ref().map(LowRank::ready).transpose()?;
        Ok(Self { ready: Some(Arc::new(ready)), adapter, ..self.clone() })
    }

    /// `[.., in]` to `[.., out]`.
    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        let (width, inner) = self.weight.dims2()?;
        let flat = x.reshape(((), inner))?;
        let mut out = match &self.ready {
            Some(ready) => product::with_packed(&flat, ready.packed())?,
            None => product::linear(&flat, &self.weight, self.precision)?,
        };
        if let Some(adapter) = &self.adapter {
            out = (out + adapter.graph(&flat)?)?;
        }
        *shape.last_mut().expect("at least one dimension") = width;
        let out = out.reshape(shape)?;
        match &self.bias {
            Some(bias) => out.broadcast_add(bias),
            None => Ok(out),
        }
    }
}

/// Root-mean-square norm over the last dimension.
pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    // Its fast path knows no f64.
    if x.track_op() || weight.track_op() || x.dtype() == DType::F64 {
        candle_nn::ops::rms_norm_slow(x, weight, eps as f32)
    } else {
        candle_nn::ops::rms_norm(&x.contiguous()?, weight, eps as f32)
    }
}

/// Rotates `x` `[B, T, H * D]` head by head by the angles `[B * T, D / 2]` of its tokens.
pub(super) fn rope(x: &Tensor, angles: &Angles, head_dim: usize) -> Result<Tensor> {
    let (rows, queries, width) = x.dims3()?;
    let half = head_dim / 2;
    let x = x.reshape((rows * queries, width / head_dim, head_dim))?;
    let (x_1, x_2) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let cos = angles.cos.to_dtype(x.dtype())?.unsqueeze(1)?;
    let sin = angles.sin.to_dtype(x.dtype())?.unsqueeze(1)?;
    let out_1 = (x_1.broadcast_mul(&cos)? - x_2.broadcast_mul(&sin)?)?;
    let out_2 = (x_2.broadcast_mul(&cos)? + x_1.broadcast_mul(&sin)?)?;
    Tensor::cat(&[out_1, out_2], D::Minus1)?.reshape((rows, queries, width))
}

/// `silu(gate) * up`.
pub(super) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    candle_nn::ops::silu(gate)? * up
}

/// Causal attention of `q` `[B, T, H * D]` over `k`, `v` `[B, S, K * D]`.
pub(super) fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    spans: &Arc<Spans>,
    architecture: &Architecture,
) -> Result<Tensor> {
    let (heads, kv_heads) = (architecture.num_heads, architecture.num_kv_heads);
    let head_dim = architecture.head_dim;
    let (rows, queries, width) = q.dims3()?;
    let keys = k.dim(1)?;
    let split = |x: &Tensor, tokens: usize, heads: usize| {
        x.reshape((rows, tokens, heads, head_dim))?.transpose(1, 2)?.contiguous()
    };
    let repeat = |x: &Tensor| {
        let groups = heads / kv_heads;
        split(x, keys, kv_heads)?
            .unsqueeze(2)?
            .expand((rows, kv_heads, groups, keys, head_dim))?
            .contiguous()?
            .reshape((rows, heads, keys, head_dim))
    };
    let (q, k, v) = (split(q, queries, heads)?, repeat(k)?, repeat(v)?);
    let scores = (q.matmul(&k.t()?)? * (1.0 / (head_dim as f64).sqrt()))?;
    let scores = scores.broadcast_add(&mask(spans, queries, keys, q.dtype(), q.device())?)?;
    let weights = if scores.track_op() {
        candle_nn::ops::softmax(&scores, D::Minus1)?
    } else {
        candle_nn::ops::softmax_last_dim(&scores)?
    };
    weights.matmul(&v)?.transpose(1, 2)?.contiguous()?.reshape((rows, queries, width))
}

/// `[B, 1, T, S]`: 0 where a query sees a key, a large negative number where it does not.
fn mask(
    spans: &Spans,
    queries: usize,
    keys: usize,
    dtype: DType,
    device: &Device,
) -> Result<Tensor> {
    let rows = spans.first_key.len();
    let mut mask = Vec::with_capacity(rows * queries * keys);
    for (first, start) in spans.first_key.iter().zip(&spans.first_query) {
        for query in 0..queries as u32 {
            let seen = |key: u32| key >= *first && key <= start + query;
            // Finite, so that a query in padding, which sees nothing, gives no NaN.
            mask.extend((0..keys as u32).map(|key| if seen(key) { 0f32 } else { -1e9 }));
        }
    }
    Tensor::from_vec(mask, (rows, 1, queries, keys), device)?.to_dtype(dtype)
}
