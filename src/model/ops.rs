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

/// Rotates `x` `[N, H * D]` head by head by the angles `[N, D / 2]` of its tokens.
pub(super) fn rope(x: &Tensor, angles: &Angles, head_dim: usize) -> Result<Tensor> {
    let (tokens, width) = x.dims2()?;
    let half = head_dim / 2;
    let x = x.reshape((tokens, width / head_dim, head_dim))?;
    let (x_1, x_2) = (x.narrow(D::Minus1, 0, half)?, x.narrow(D::Minus1, half, half)?);
    let cos = angles.cos.to_dtype(x.dtype())?.unsqueeze(1)?;
    let sin = angles.sin.to_dtype(x.dtype())?.unsqueeze(1)?;
    let out_1 = (x_1.broadcast_mul(&cos)? - x_2.broadcast_mul(&sin)?)?;
    let out_2 = (x_2.broadcast_mul(&cos)? + x_1.broadcast_mul(&sin)?)?;
    Tensor::cat(&[out_1, out_2], D::Minus1)?.reshape((tokens, width))
}

/// `silu(gate) * up`.
pub(super) fn swiglu(gate: &Tensor, up: &Tensor) -> Result<Tensor> {
    candle_nn::ops::silu(gate)? * up
}

/// The tokens of a pass spread over rows of one length, which Candle's products want: a branch stands behind
/// a copy of its trunk.
pub(super) struct View {
    rows: usize,
    queries: usize,
    /// `[rows * queries]`: the token of each place, any token where there is none.
    tokens: Tensor,
    /// `[N]`: a place of each token.
    places: Tensor,
    /// `[rows, 1, queries, keys]`: 0 where a query sees a key, a large negative number where it does not.
    mask: Tensor,
    /// Keys of each row's first query.
    pub(super) pasts: Vec<u32>,
}

impl View {
    /// Of `spans`, whose cache has `slots` a row.
    pub(super) fn new(
        spans: &Spans,
        slots: Option<usize>,
        dtype: DType,
        device: &Device,
    ) -> Result<Self> {
        let (rows, seen) = spans.rows();
        let queries = rows.iter().map(|row| row.trunk.len() + row.own.len()).max().unwrap_or(0);
        // Rows begin with their trunk; without one they begin after what the cache holds.
        let pasts: Vec<usize> = rows.iter().map(|row| row.past - row.trunk.len()).collect();
        let mut tokens = vec![0u32; rows.len() * queries];
        for (row, places) in rows.iter().zip(tokens.chunks_mut(queries.max(1))) {
            let own = row.trunk.clone().chain(row.own.clone());
            places.iter_mut().zip(own).for_each(|(place, token)| *place = token as u32);
        }
        let places = seen.iter().map(|seen| seen.row * queries + seen.count - 1 - pasts[seen.row]);
        let places: Vec<u32> = places.map(|place| place as u32).collect();
        let keys = slots.unwrap_or(queries);
        let sees = pasts.iter().flat_map(|past| (0..queries).map(move |query| past + query));
        // Finite, so that a query that stands for no token gives no NaN.
        let mask: Vec<f32> = sees
            .flat_map(|last| (0..keys).map(move |key| if key <= last { 0.0 } else { -1e9 }))
            .collect();
        let count = rows.len();
        Ok(Self {
            rows: count,
            queries,
            tokens: Tensor::from_vec(tokens, count * queries, device)?,
            places: Tensor::from_vec(places, spans.tokens(), device)?,
            mask: Tensor::from_vec(mask, (count, 1, queries, keys), device)?.to_dtype(dtype)?,
            pasts: pasts.into_iter().map(|past| past as u32).collect(),
        })
    }

    /// `[N, width]` to `[rows, queries, width]`.
    pub(super) fn spread(&self, x: &Tensor) -> Result<Tensor> {
        x.index_select(&self.tokens, 0)?.reshape((self.rows, self.queries, x.dim(1)?))
    }
}

/// Causal attention of `q` `[N, H * D]` over the keys and values `[rows, S, K * D]` of the rows of `view`.
pub(super) fn attention(
    q: &Tensor,
    k: &Tensor,
    v: &Tensor,
    view: &View,
    architecture: &Architecture,
) -> Result<Tensor> {
    let (heads, kv_heads) = (architecture.num_heads, architecture.num_kv_heads);
    let head_dim = architecture.head_dim;
    let (rows, queries, keys) = (view.rows, view.queries, k.dim(1)?);
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
    let (spread, k, v) = (split(&view.spread(q)?, queries, heads)?, repeat(k)?, repeat(v)?);
    let scores = (spread.matmul(&k.t()?)? * (1.0 / (head_dim as f64).sqrt()))?;
    let scores = scores.broadcast_add(&view.mask)?;
    let weights = if scores.track_op() {
        candle_nn::ops::softmax(&scores, D::Minus1)?
    } else {
        candle_nn::ops::softmax_last_dim(&scores)?
    };
    let all = weights.matmul(&v)?.transpose(1, 2)?.contiguous()?;
    all.reshape((rows * queries, q.dim(1)?))?.index_select(&view.places, 0)
}
