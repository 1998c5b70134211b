//! The yardstick of the layers: the same decoder as a graph of Candle's operations in f64, one sequence at a time,
//! whose gradients Candle finds.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::ops::{log_softmax, rms_norm_slow, silu, softmax};
use tealight::model::Architecture;
use tealight::model::weights::Weights;
use tealight::policy::Sequence;

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
    let of = |(name, var): (&String, &Var)| Some((name.clone(), found.get(var)?.clone()));
    (logp.to_vec1().expect("values"), variables.iter().filter_map(of).collect())
}

/// Log-probabilities `[N]` of all completion tokens.
pub(crate) fn token_logp(
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
        let logp = log_softmax(&logits, D::Minus1)?.narrow(0, first, row.completion.len())?;
        let targets = Tensor::new(&row.completion[..], &Device::Cpu)?.unsqueeze(1)?;
        all.push(logp.gather(&targets, 1)?.squeeze(1)?);
    }
    Tensor::cat(&all, 0)
}

/// Hidden states `[T, D]` of one sequence.
pub(crate) fn hidden(
    architecture: &Architecture,
    weights: &Weights,
    ids: &[u32],
) -> Result<Tensor> {
    let eps = architecture.rms_norm_eps as f32;
    let ids = Tensor::new(ids, &Device::Cpu)?;
    let mut x = weights["model.embed_tokens.weight"].index_select(&ids, 0)?;
    for layer in 0..architecture.num_layers {
        let weight = |name: &str| &weights[&format!("model.layers.{layer}.{name}")];
        let linear = |x: &Tensor, name: &str, has_bias: bool| -> Result<Tensor> {
            let out = x.matmul(&weight(&format!("{name}.weight")).t()?)?;
            match has_bias {
                true => out.broadcast_add(weight(&format!("{name}.bias"))),
                false => Ok(out),
            }
        };
        let norm = |x: &Tensor, name: &str| rms_norm_slow(x, weight(name), eps);
        let normed = norm(&x, "input_layernorm.weight")?;
        let heads = |name: &str, count: usize, normalised: Option<&str>, turns: bool| {
            let x = linear(&normed, &format!("self_attn.{name}"), architecture.qkv_bias)?;
            let mut x = x.reshape(((), count, architecture.head_dim))?;
            if let Some(name) = normalised.filter(|_| architecture.qk_norm) {
                x = rms_norm_slow(&x.contiguous()?, weight(name), eps)?;
            }
            // Heads first; each key-value head once for every query head that reads it.
            let x = x.transpose(0, 1)?.contiguous()?;
            let x = if turns { turned(&x, architecture)? } else { x };
            let share = architecture.num_heads / count;
            let of: Vec<u32> = (0..architecture.num_heads).map(|h| (h / share) as u32).collect();
            x.index_select(&Tensor::new(of, &Device::Cpu)?, 0)
        };
        let (queries, keys) = (architecture.num_heads, architecture.num_kv_heads);
        let q = heads("q_proj", queries, Some("self_attn.q_norm.weight"), true)?;
        let k = heads("k_proj", keys, Some("self_attn.k_norm.weight"), true)?;
        let v = heads("v_proj", keys, None, false)?;
        let scores = (q.matmul(&k.t()?)? / (architecture.head_dim as f64).sqrt())?;
        let tokens = x.dim(0)?;
        let sees = |query: usize, key: usize| if key <= query { 0.0 } else { -1e30 };
        let mask: Vec<f64> =
            (0..tokens).flat_map(|q| (0..tokens).map(move |k| sees(q, k))).collect();
        let mask = Tensor::from_vec(mask, (1, tokens, tokens), &Device::Cpu)?;
        let seen = softmax(&scores.broadcast_add(&mask)?, D::Minus1)?.matmul(&v)?;
        let seen = seen.transpose(0, 1)?.contiguous()?.reshape((tokens, ()))?;
        x = (x + linear(&seen, "self_attn.o_proj", architecture.output_bias)?)?;
        let normed = norm(&x, "post_attention_layernorm.weight")?;
        let gate = silu(&linear(&normed, "mlp.gate_proj", false)?)?;
        let wide = (gate * linear(&normed, "mlp.up_proj", false)?)?;
        x = (x + linear(&wide, "mlp.down_proj", false)?)?;
    }
    rms_norm_slow(&x, &weights["model.norm.weight"], eps)
}

/// Rotates `x` `[H, T, D]` by the angles of its positions.
fn turned(x: &Tensor, architecture: &Architecture) -> Result<Tensor> {
    assert!(architecture.rope_scaling.is_none(), "the yardstick knows the plain rotation");
    let (_, tokens, dim) = x.dims3()?;
    let frequency = |i: usize| architecture.rope_theta.powf(-2.0 * i as f64 / dim as f64);
    let angles: Vec<f64> =
        (0..tokens).flat_map(|t| (0..dim / 2).map(move |i| t as f64 * frequency(i))).collect();
    let angles = Tensor::from_vec(angles, (1, tokens, dim / 2), &Device::Cpu)?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);
    let (low, high) = (x.narrow(2, 0, dim / 2)?, x.narrow(2, dim / 2, dim / 2)?);
    let first = (low.broadcast_mul(&cos)? - high.broadcast_mul(&sin)?)?;
    let second = (high.broadcast_mul(&cos)? + low.broadcast_mul(&sin)?)?;
    Tensor::cat(&[first, second], 2)
}
