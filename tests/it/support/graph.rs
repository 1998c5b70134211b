//! The yardstick of the layers: the same decoder as a graph of Candle's operations in f64, one sequence at a time,
//! whose gradients Candle finds.

use std::collections::BTreeMap;

use candle_core::{D, DType, Device, Tensor, Var};
use candle_nn::ops::{log_softmax, rms_norm_slow, silu, softmax};
use tealight::model::weights::Weights;
use tealight::model::{Activation, Architecture, NormPlacement, QkNorm, Rope};
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
    let a = architecture;
    let norm = |x: &Tensor, weight: &Tensor| {
        rms_norm_slow(&x.contiguous()?, &(weight + a.norm_offset)?, a.rms_norm_eps as f32)
    };
    let ids = Tensor::new(ids, &Device::Cpu)?;
    let mut x = weights["model.embed_tokens.weight"].index_select(&ids, 0)?;
    x = (x * a.embedding_scale)?;
    for (layer, kind) in a.layers.iter().enumerate() {
        let find = |name: &str| weights.get(&format!("model.layers.{layer}.{name}"));
        let weight = |name: &str| find(name).unwrap_or_else(|| panic!("no {name}"));
        let linear = |x: &Tensor, name: &str| -> Result<Tensor> {
            let out = x.matmul(&weight(&format!("{name}.weight")).t()?)?;
            match find(&format!("{name}.bias")) {
                Some(bias) => out.broadcast_add(bias),
                None => Ok(out),
            }
        };
        let normed = |x: &Tensor, name: &str| match name {
            "" => Ok(x.clone()),
            name => norm(x, weight(&format!("{name}.weight"))),
        };
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
        let (queries, keys) = (a.num_heads * a.head_dim, a.num_kv_heads * a.head_dim);
        let inner = normed(&x, before)?;
        let [inputs, _, gates, down] = a.roles();
        let [q, k, v] = match inputs {
            [fused] => {
                let all = linear(&inner, fused)?;
                let part = |at, width| all.narrow(1, at, width)?.contiguous();
                [part(0, queries)?, part(queries, keys)?, part(queries + keys, keys)?]
            }
            apart => {
                let part = |index: usize| linear(&inner, apart[index]);
                [part(0)?, part(1)?, part(2)?]
            }
        };
        let heads = |x: Tensor, name: &str| -> Result<Tensor> {
            let key = format!("self_attn.{name}_norm.weight");
            let x = match a.qk_norm {
                QkNorm::Whole if name != "v" => norm(&x, weight(&key))?,
                _ => x,
            };
            let mut x = x.reshape(((), x.dim(1)? / a.head_dim, a.head_dim))?;
            if a.qk_norm == QkNorm::Heads && name != "v" {
                x = norm(&x, weight(&key))?;
            }
            // Heads first; each key-value head once for every query head that reads it.
            let count = x.dim(1)?;
            x = x.transpose(0, 1)?.contiguous()?;
            if let Some(rope) = kind.rope.filter(|_| name != "v") {
                x = turned(&x, &a.ropes[rope], a.rotary_dim)?.contiguous()?;
            }
            let share = a.num_heads / count;
            let of: Vec<u32> = (0..a.num_heads).map(|h| (h / share) as u32).collect();
            x.index_select(&Tensor::new(of, &Device::Cpu)?, 0)
        };
        let (q, k, v) = (heads(q, "q")?, heads(k, "k")?, heads(v, "v")?);
        let scores = (q.matmul(&k.t()?)? * a.attention_scale)?;
        let tokens = x.dim(0)?;
        let window = kind.window.unwrap_or(tokens);
        let sees = |query: usize, key: usize| key <= query && query < key + window;
        let pairs = (0..tokens).flat_map(|query| (0..tokens).map(move |key| (query, key)));
        let mask = pairs.map(|(query, key)| if sees(query, key) { 0.0 } else { -1e30 });
        let mask: Vec<f64> = mask.collect();
        let mask = Tensor::from_vec(mask, (1, tokens, tokens), &Device::Cpu)?;
        let seen = softmax(&scores.broadcast_add(&mask)?, D::Minus1)?.matmul(&v)?;
        let seen = seen.transpose(0, 1)?.contiguous()?.reshape((tokens, ()))?;
        let out = normed(&linear(&seen, "self_attn.o_proj")?, after)?;
        x = (x + (out * a.residual_scale)?)?;
        let inner = normed(&x, before_mlp)?;
        let [gate, up] = match gates {
            [fused] => {
                let all = linear(&inner, fused)?;
                let part = |at| all.narrow(1, at, a.intermediate_size)?.contiguous();
                [part(0)?, part(a.intermediate_size)?]
            }
            apart => [linear(&inner, apart[0])?, linear(&inner, apart[1])?],
        };
        let gate = match a.activation {
            Activation::Silu => silu(&gate)?,
            Activation::GeluTanh => gate.gelu()?,
        };
        let out = normed(&linear(&(gate * up)?, down[0])?, after_mlp)?;
        x = (x + (out * a.residual_scale)?)?;
    }
    norm(&x, &weights["model.norm.weight"])? * a.logits_scale
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
