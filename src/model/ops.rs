//! The operations of the decoder, each with a gradient on every device.
//!
//! On the CPU in f32 they are fused kernels of ours with a backward pass. Elsewhere they are
//! compositions of Candle's differentiable operations; tensors that need no gradient
//! (`track_op()` is false) take Candle's fused forward-only kernels there.

use std::sync::Arc;

use candle_core::{D, DType, Device, Result, Tensor};

use super::rope::Angles;
use super::{Architecture, Spans};
use crate::kernels::cpu;
use crate::kernels::product::{self, Precision, Ready};

fn has_kernel(x: &Tensor) -> bool {
    x.device().is_cpu() && x.dtype() == DType::F32
}

/// A weight `[out, in]` and perhaps a bias `[out]`.
#[derive(Debug, Clone)]
pub(super) struct Linear {
    pub(super) weight: Tensor,
    pub(super) bias: Option<Tensor>,
    pub(super) precision: Precision,
    /// The weight packed, as it was when this was made.
    pub(super) ready: Option<Ready>,
}

impl Linear {
    pub(super) fn new(weight: Tensor, bias: Option<Tensor>, precision: Precision) -> Self {
        Self { weight, bias, precision, ready: None }
    }

    /// The same weight, packed for many products without a gradient.
    pub(super) fn ready(&self) -> Result<Self> {
        Ok(Self { ready: Ready::new(&self.weight.detach(), self.precision)?, ..self.clone() })
    }

    /// `[.., in]` to `[.., out]`.
    pub(super) fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let mut shape = x.dims().to_vec();
        let (width, inner) = self.weight.dims2()?;
        let flat = x.reshape(((), inner))?;
        let flat = match &self.ready {
            Some(ready) => ready.apply(&flat)?,
            None => product::linear(&flat, &self.weight, self.precision)?,
        };
        *shape.last_mut().expect("at least one dimension") = width;
        let out = flat.reshape(shape)?;
        match &self.bias {
            Some(bias) => out.broadcast_add(bias),
            None => Ok(out),
        }
    }
}

/// Root-mean-square norm over the last dimension.
pub(super) fn rms_norm(x: &Tensor, weight: &Tensor, eps: f64) -> Result<Tensor> {
    if has_kernel(x) {
        x.contiguous()?.apply_op2(weight, cpu::rms_norm::RmsNorm { eps: eps as f32 })
    } else if x.track_op() || weight.track_op() {
        candle_nn::ops::rms_norm_slow(x, weight, eps as f32)
    } else {
        candle_nn::ops::rms_norm(&x.contiguous()?, weight, eps as f32)
    }
}

/// Rotates `x` `[B, T, H * D]` head by head by the angles `[B * T, D / 2]` of its tokens.
pub(super) fn rope(x: &Tensor, angles: &Angles, head_dim: usize) -> Result<Tensor> {
    if has_kernel(x) {
        let kernel = cpu::rope::Rope { head_dim, direction: 1.0 };
        return x.contiguous()?.apply_op3(&angles.cos, &angles.sin, kernel);
    }
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
    if has_kernel(gate) {
        gate.apply_op2(up, cpu::swiglu::SwiGlu)
    } else {
        candle_nn::ops::silu(gate)? * up
    }
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
    if has_kernel(q) {
        let spans = spans.clone();
        let kernel = cpu::attention::Attention { spans, heads, kv_heads, head_dim };
        return q.contiguous()?.apply_op3(&k.contiguous()?, &v.contiguous()?, kernel);
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Var;

    /// The kernels and the compositions, which f64 takes, must agree in value and gradient.
    fn agree(shapes: &[&[usize]], op: impl Fn(&[Tensor]) -> Result<Tensor>) {
        let inputs: Vec<Tensor> = shapes
            .iter()
            .enumerate()
            .map(|(index, shape)| {
                let count: usize = shape.iter().product();
                let values: Vec<f64> =
                    (0..count).map(|i| ((i * 7 + index * 3) as f64 * 0.37).sin()).collect();
                Tensor::from_vec(values, *shape, &Device::Cpu).unwrap()
            })
            .collect();
        let run = |dtype: DType| -> Vec<Vec<f64>> {
            let vars: Vec<Var> = inputs
                .iter()
                .map(|x| Var::from_tensor(&x.to_dtype(dtype).unwrap()).unwrap())
                .collect();
            let operands: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
            let out = op(&operands).unwrap();
            let count = out.elem_count();
            let weights: Vec<f64> = (0..count).map(|i| (i as f64 * 0.61).cos()).collect();
            let weights = Tensor::from_vec(weights, out.shape(), &Device::Cpu).unwrap();
            let loss = (&out * weights.to_dtype(dtype).unwrap()).unwrap().sum_all().unwrap();
            let grads = loss.backward().unwrap();
            let mut all = vec![out];
            all.extend(vars.iter().map(|var| grads.get(var).expect("has a gradient").clone()));
            let flat = |x: &Tensor| x.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>();
            all.iter().map(|x| flat(x).unwrap()).collect()
        };
        for (kernel, exact) in run(DType::F32).iter().zip(run(DType::F64)) {
            let largest = exact.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
            for (kernel, exact) in kernel.iter().zip(exact) {
                assert!((kernel - exact).abs() < 3e-6 * largest, "{kernel} is not {exact}");
            }
        }
    }

    #[test]
    fn the_norm_agrees_with_its_composition() {
        agree(&[&[3, 5, 24], &[24]], |x| rms_norm(&x[0], &x[1], 1e-6));
    }

    #[test]
    fn swiglu_agrees_with_its_composition() {
        agree(&[&[7, 33], &[7, 33]], |x| swiglu(&x[0], &x[1]));
    }

    #[test]
    fn rope_agrees_with_its_composition() {
        let angles: Vec<f32> = (0..6 * 4).map(|i| i as f32 * 0.3).collect();
        let angles = Tensor::from_vec(angles, (6, 4), &Device::Cpu).unwrap();
        let angles = Angles { cos: angles.cos().unwrap(), sin: angles.sin().unwrap() };
        agree(&[&[2, 3, 16]], |x| rope(&x[0], &angles, 8));
    }

    #[test]
    fn attention_agrees_with_its_composition_under_every_kind_of_span() {
        let architecture = Architecture::from_config(&serde_json::json!({
            "model_type": "llama", "vocab_size": 8, "hidden_size": 32, "intermediate_size": 8,
            "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 2,
            "max_position_embeddings": 8}))
        .unwrap();
        for (spans, queries) in [
            (Spans::from_start(2), 5),
            (Spans { first_key: vec![0, 1], first_query: vec![2, 3] }, 2),
            (Spans::after(vec![4, 1]), 1),
        ] {
            let spans = Arc::new(spans);
            let run = |x: &[Tensor]| attention(&x[0], &x[1], &x[2], &spans, &architecture);
            agree(&[&[2, queries, 32], &[2, 5, 16], &[2, 5, 16]], run);
        }
    }
}
