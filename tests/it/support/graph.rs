//! The yardstick of the layers: the same decoder as a graph of Candle's operations in f64, one sequence at a time,
//! whose gradients Candle finds.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::ops::{log_softmax, rms_norm_slow, sigmoid, silu, softmax};
use tealight::nn::model::weights::Weights;
use tealight::nn::model::{Activation, Architecture, LayerKind, NormPlacement, QkNorm, Rope};
use tealight::nn::policy::Sequence;

type Result<T> = candle_core::Result<T>;

/// Weights in f64 that gradients are found of.
pub(crate) fn variables(weights: &Weights) -> BTreeMap<String, Var> {
    let wide = |x: &Tensor| Var::from_tensor(&x.to_dtype(DType::F64)?.to_device(&Device::Cpu)?);
    weights.iter().map(|(name, x)| (name.clone(), wide(x).expect("f64"))).collect()
}

/// Those weights as tensors of the graph.
pub(crate) fn tracked(variables: &BTreeMap<String, Var>) -> Weights {
    variables.iter().map(|(name, var)| (name.clone(), var.as_tensor().clone())).collect()
}

/// A value and the gradients of `loss`, a function of the log-probabilities `[N]` of completion tokens.
pub(crate) fn gradients(
    architecture: &Architecture,
    weights: &Weights,
    variables: &BTreeMap<String, Var>,
    (rows, temperature): (&[Sequence], f64),
    loss: impl Fn(&Tensor) -> Result<Tensor>,
) -> (Vec<f64>, BTreeMap<String, Tensor>) {
    let logp = token_logp(architecture, weights, rows, temperature).expect("a graph");
    let found = loss(&logp).and_then(|loss| loss.backward()).expect("gradients");
    let named_gradient =
        |(name, var): (&String, &Var)| Some((name.clone(), found.get(var)?.clone()));
    (logp.to_vec1().expect("values"), variables.iter().filter_map(named_gradient).collect())
}

/// Log-probabilities `[N]` of all completion tokens.
pub(crate) fn token_logp(
    architecture: &Architecture,
    weights: &Weights,
    rows: &[Sequence],
    temperature: f64,
) -> Result<Tensor> {
    let next = next_logp(architecture, weights, rows, temperature)?;
    let targets: Vec<u32> = rows.iter().flat_map(|row| row.completion.clone()).collect();
    next.gather(&Tensor::new(targets, &Device::Cpu)?.unsqueeze(1)?, 1)?.squeeze(1)
}

/// The distributions `[N, V]` that they are from.
pub(crate) fn next_logp(
    architecture: &Architecture,
    weights: &Weights,
    rows: &[Sequence],
    temperature: f64,
) -> Result<Tensor> {
    let mut all = Vec::new();
    for row in rows.iter().filter(|row| !row.completion.is_empty()) {
        let ids = [&row.prompt[..], &row.completion].concat();
        let hidden = hidden(architecture, weights, &ids[..ids.len() - 1])?;
        let head = match architecture.tied_embeddings {
            true => &weights["model.embed_tokens.weight"],
            false => &weights["lm_head.weight"],
        };
        let logits = (hidden.matmul(&head.t()?)? / temperature)?;
        let first = row.prompt.len() - 1;
        all.push(log_softmax(&logits, D::Minus1)?.narrow(0, first, row.completion.len())?);
    }
    Tensor::cat(&all, 0)
}

/// Hidden states `[T, D]` of one sequence.
pub(crate) fn hidden(
    architecture: &Architecture,
    weights: &Weights,
    ids: &[u32],
) -> Result<Tensor> {
    let a = architecture;
    let ids = Tensor::new(ids, &Device::Cpu)?;
    let mut x = weights["model.embed_tokens.weight"].index_select(&ids, 0)?;
    x = (x * a.embedding_scale)?;
    for (layer, kind) in a.layers.iter().enumerate() {
        let layer = Layer { a, weights, layer };
        let [before, after, before_mlp, after_mlp] = match a.norms {
            NormPlacement::Before => ["input_layernorm", "", "post_attention_layernorm", ""],
            NormPlacement::After => {
                ["", "post_attention_layernorm", "", "post_feedforward_layernorm"]
            }
            NormPlacement::Around => [
                "input_layernorm",
                "post_attention_layernorm",
                "pre_feedforward_layernorm",
                "post_feedforward_layernorm",
            ],
        };
        let inner = layer.normed(&x, before)?;
        let mixed = match kind {
            LayerKind::Attention { window, rope } => layer.attention(&inner, *window, *rope)?,
            LayerKind::Delta => layer.delta(&inner)?,
        };
        let [_, output, gates, down] = a.roles(layer.layer);
        let out = layer.normed(&layer.linear(&mixed, output[0])?, after)?;
        x = (x + (out * a.residual_scale)?)?;
        let inner = layer.normed(&x, before_mlp)?;
        let [gate, up] = match gates {
            [fused] => {
                let all = layer.linear(&inner, fused)?;
                let part = |at| all.narrow(1, at, a.intermediate_size)?.contiguous();
                [part(0)?, part(a.intermediate_size)?]
            }
            apart => [layer.linear(&inner, apart[0])?, layer.linear(&inner, apart[1])?],
        };
        let gate = match a.activation {
            Activation::Silu => silu(&gate)?,
            Activation::GeluTanh => gate.gelu()?,
            Activation::Sigmoid => sigmoid(&gate)?,
        };
        let out = layer.normed(&layer.linear(&(gate * up)?, down[0])?, after_mlp)?;
        x = (x + (out * a.residual_scale)?)?;
    }
    norm(a, &x, &weights["model.norm.weight"], a.norm_offset)? * a.logits_scale
}

fn norm(a: &Architecture, x: &Tensor, weight: &Tensor, offset: f64) -> Result<Tensor> {
    rms_norm_slow(&x.contiguous()?, &(weight + offset)?, a.rms_norm_eps as f32)
}

/// A layer and its weights.
struct Layer<'a> {
    a: &'a Architecture,
    weights: &'a Weights,
    layer: usize,
}

impl Layer<'_> {
    fn find(&self, name: &str) -> Option<&Tensor> {
        self.weights.get(&format!("model.layers.{}.{name}", self.layer))
    }

    fn weight(&self, name: &str) -> &Tensor {
        self.find(name).unwrap_or_else(|| panic!("no {name}"))
    }

    fn linear(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        let out = x.matmul(&self.weight(&format!("{name}.weight")).t()?)?;
        match self.find(&format!("{name}.bias")) {
            Some(bias) => out.broadcast_add(bias),
            None => Ok(out),
        }
    }

    fn normed(&self, x: &Tensor, name: &str) -> Result<Tensor> {
        match name {
            "" => Ok(x.clone()),
            name => norm(self.a, x, self.weight(&format!("{name}.weight")), self.a.norm_offset),
        }
    }

    /// The values that queries gather, `[T, H * D]`.
    fn attention(
        &self,
        inner: &Tensor,
        window: Option<usize>,
        rope: Option<usize>,
    ) -> Result<Tensor> {
        let a = self.a;
        let (queries, keys) = (a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim);
        let [inputs, ..] = a.roles(self.layer);
        let [mut q, k, v] = match inputs {
            [fused] => {
                let all = self.linear(inner, fused)?;
                let part = |at, width| all.narrow(1, at, width)?.contiguous();
                [part(0, queries)?, part(queries, keys)?, part(queries + keys, keys)?]
            }
            apart => {
                let part = |index: usize| self.linear(inner, apart[index]);
                [part(0)?, part(1)?, part(2)?]
            }
        };
        let tokens = inner.dim(0)?;
        let mut gate = None;
        if a.output_gate {
            let heads = q.reshape((tokens, a.num_heads, 2 * a.head_dim))?;
            let half = |at| heads.narrow(2, at, a.head_dim)?.reshape((tokens, queries));
            (q, gate) = (half(0)?, Some(half(a.head_dim)?));
        }
        let heads = |x: Tensor, name: &str| -> Result<Tensor> {
            let key = format!("self_attn.{name}_norm.weight");
            let norm = |x: &Tensor| norm(a, x, self.weight(&key), a.norm_offset);
            let x = if a.qk_norm == QkNorm::Whole && name != "v" { norm(&x)? } else { x };
            let mut x = x.reshape(((), x.dim(1)? / a.head_dim, a.head_dim))?;
            if a.qk_norm == QkNorm::Heads && name != "v" {
                x = norm(&x)?;
            }
            // Heads first; each key-value head once for every query head that reads it.
            let count = x.dim(1)?;
            x = x.transpose(0, 1)?.contiguous()?;
            if let Some(rope) = rope.filter(|_| name != "v") {
                x = turned(&x, &a.ropes[rope], a.rotary_dim)?.contiguous()?;
            }
            repeated(&x, 0, a.num_heads / count)
        };
        let (q, k, v) = (heads(q, "q")?, heads(k, "k")?, heads(v, "v")?);
        let scores = (q.matmul(&k.t()?)? * a.attention_scale)?;
        let window = window.unwrap_or(tokens);
        let sees = |query: usize, key: usize| key <= query && query < key + window;
        let pairs = (0..tokens).flat_map(|query| (0..tokens).map(move |key| (query, key)));
        let mask = pairs.map(|(query, key)| if sees(query, key) { 0.0 } else { -1e30 });
        let mask: Vec<f64> = mask.collect();
        let mask = Tensor::from_vec(mask, (1, tokens, tokens), &Device::Cpu)?;
        let seen = softmax(&scores.broadcast_add(&mask)?, D::Minus1)?.matmul(&v)?;
        let seen = seen.transpose(0, 1)?.contiguous()?.reshape((tokens, ()))?;
        match gate {
            Some(gate) => seen * sigmoid(&gate)?,
            None => Ok(seen),
        }
    }

    /// The values of the states for the queries, normed and gated, `[T, values]`.
    fn delta(&self, inner: &Tensor) -> Result<Tensor> {
        let sizes = self.a.delta.expect("sizes");
        let (key_dim, value_dim, heads) = (sizes.key_dim, sizes.value_dim, sizes.value_heads);
        let keys = sizes.key_heads * key_dim;
        let [inputs, ..] = self.a.roles(self.layer);
        let part = |index: usize| self.linear(inner, inputs[index]);
        let (raw, z, b, a) = (part(0)?, part(1)?, part(2)?, part(3)?);
        let (tokens, width) = raw.dims2()?;
        let before = Tensor::zeros((sizes.kernel - 1, width), raw.dtype(), raw.device())?;
        let padded = Tensor::cat(&[before, raw], 0)?;
        let kernel = self.weight("linear_attn.conv1d.weight");
        let tap = |tap: usize| {
            let own = kernel.narrow(2, tap, 1)?.reshape((1, width))?;
            padded.narrow(0, tap, tokens)?.broadcast_mul(&own)
        };
        let mut mixed = tap(0)?;
        for index in 1..sizes.kernel {
            mixed = (mixed + tap(index)?)?;
        }
        let mixed = silu(&mixed)?;
        let unit = |at: usize, scale: f64| {
            let x = mixed.narrow(1, at, keys)?.reshape((tokens, sizes.key_heads, key_dim))?;
            let length = (x.sqr()?.sum_keepdim(2)? + 1e-6)?.sqrt()?;
            repeated(&(x.broadcast_div(&length)? * scale)?, 1, heads / sizes.key_heads)
        };
        let (q, k) = (unit(0, 1.0 / (key_dim as f64).sqrt())?, unit(keys, 1.0)?);
        let v = mixed.narrow(1, 2 * keys, heads * value_dim)?;
        let v = v.reshape((tokens, heads, value_dim))?;
        let beta = sigmoid(&b)?;
        let rate = self.weight("linear_attn.A_log").exp()?;
        let step = (a.broadcast_add(self.weight("linear_attn.dt_bias"))?.exp()? + 1.0)?.log()?;
        let decay = step.broadcast_mul(&rate)?.neg()?.exp()?;
        let mut state = Tensor::zeros((heads, key_dim, value_dim), v.dtype(), v.device())?;
        let mut found = Vec::new();
        for token in 0..tokens {
            let at_token = |x: &Tensor, shape: (usize, usize, usize)| x.get(token)?.reshape(shape);
            let (query, key) =
                (at_token(&q, (heads, 1, key_dim))?, at_token(&k, (heads, 1, key_dim))?);
            let left = state.broadcast_mul(&at_token(&decay, (heads, 1, 1))?)?;
            let missing = (at_token(&v, (heads, 1, value_dim))? - key.matmul(&left)?)?;
            let change = missing.broadcast_mul(&at_token(&beta, (heads, 1, 1))?)?;
            state = (left + key.t()?.contiguous()?.matmul(&change)?)?;
            found.push(query.matmul(&state)?.reshape((1, heads, value_dim))?);
        }
        let found = Tensor::cat(&found, 0)?;
        let normed = norm(self.a, &found, self.weight("linear_attn.norm.weight"), 0.0)?;
        normed.reshape((tokens, ()))? * silu(&z)?
    }
}

/// Every head along `axis` so many times, one after the other.
fn repeated(x: &Tensor, axis: usize, times: usize) -> Result<Tensor> {
    let head_index: Vec<u32> =
        (0..x.dim(axis)? * times).map(|head| (head / times) as u32).collect();
    x.index_select(&Tensor::new(head_index, &Device::Cpu)?, axis)
}

/// Rotates the first `dim` values of the heads of `x` `[H, T, D]` by the angles of their positions.
fn turned(x: &Tensor, rope: &Rope, dim: usize) -> Result<Tensor> {
    assert!(rope.scaling.is_none(), "the yardstick knows the plain rotation");
    let (_, tokens, all) = x.dims3()?;
    let frequency = |i: usize| rope.theta.powf(-2.0 * i as f64 / dim as f64);
    let angles: Vec<f64> =
        (0..tokens).flat_map(|t| (0..dim / 2).map(move |i| t as f64 * frequency(i))).collect();
    let angles = Tensor::from_vec(angles, (1, tokens, dim / 2), &Device::Cpu)?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);
    let (low, high) = (x.narrow(2, 0, dim / 2)?, x.narrow(2, dim / 2, dim / 2)?);
    let first = (low.broadcast_mul(&cos)? - high.broadcast_mul(&sin)?)?;
    let second = (high.broadcast_mul(&cos)? + low.broadcast_mul(&sin)?)?;
    Tensor::cat(&[first, second, x.narrow(2, dim, all - dim)?], 2)
}
