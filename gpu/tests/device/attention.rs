//! Attention and its gradients against its formula in f64, and over a cache.

use candle_core::{D, DType, Device, Result, Tensor};
use tealight_gpu::kernels::{self, Heads, Run, Runs};

use crate::common::{TYPES, close, device, gradients, numbers, values};

/// A prefix of 35 tokens with suffixes of 20 and 1, and a sequence of 40.
fn runs() -> Vec<Run> {
    let run = |first, tokens, past, until| Run {
        first,
        tokens,
        sees: past + 1,
        start: if past > 0 { 0 } else { first },
        split: if past > 0 { past } else { tokens },
        rest: first,
        until,
    };
    vec![run(0, 35, 0, 56), run(35, 20, 35, 55), run(55, 1, 35, 56), run(56, 40, 0, 96)]
}

/// Whether token `query` sees token `key`.
fn sees(query: usize, key: usize, window: Option<usize>) -> bool {
    let run = |token: usize| [0, 35, 55, 56].iter().filter(|first| **first <= token).count();
    let is_own = run(query) == run(key) || (run(query) <= 3 && run(key) == 1);
    // The second suffix stands right behind the prefix as well.
    let position = |token: usize| if token == 55 { 35 } else { token };
    let is_near = window.is_none_or(|window| position(query) < position(key) + window);
    key <= query && is_own && is_near
}

fn attend(inputs: &[Tensor], heads: Heads, window: Option<usize>) -> Result<Tensor> {
    let tokens = inputs[0].dim(0)?;
    let split = |x: &Tensor, count: usize| {
        x.reshape((tokens, count, heads.dim))?.transpose(0, 1)?.contiguous()
    };
    let share = heads.queries / heads.keys;
    let repeat = |x: &Tensor| {
        let x = split(x, heads.keys)?.unsqueeze(1)?;
        x.expand((heads.keys, share, tokens, heads.dim))?.contiguous()?.reshape((
            heads.queries,
            tokens,
            heads.dim,
        ))
    };
    let mask: Vec<f64> = (0..tokens * tokens)
        .map(|i| if sees(i / tokens, i % tokens, window) { 0.0 } else { -1e9 })
        .collect();
    let mask = Tensor::from_vec(mask, (1, tokens, tokens), &Device::Cpu)?;
    let scores = split(&inputs[0], heads.queries)?
        .matmul(&repeat(&inputs[1])?.transpose(1, 2)?.contiguous()?)?;
    let scores = (scores / (heads.dim as f64).sqrt())?.broadcast_add(&mask)?;
    let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    let out = weights.matmul(&repeat(&inputs[2])?)?.transpose(0, 1)?.contiguous()?;
    out.reshape((tokens, heads.queries * heads.dim))
}

#[test]
fn packed_attention_and_gradients_equal_f64() {
    for (queries, keys, dim, window) in [
        (4, 2, 12, None),
        (14, 2, 64, None),
        (8, 1, 128, None),
        (3, 3, 16, None),
        (4, 2, 12, Some(9)),
        (4, 1, 256, Some(30)),
    ] {
        let heads = Heads { queries, keys, dim };
        let scale = 1.0 / (dim as f64).sqrt();
        let runs = Runs::new(&runs(), heads, scale).expect("tables");
        for (dtype, most) in TYPES {
            let (q, q64) = values(&[96, queries * dim], 0.37, dtype);
            let (k, k64) = values(&[96, keys * dim], 0.71, dtype);
            let (v, v64) = values(&[96, keys * dim], 0.13, dtype);
            let (grad, grad64) = values(&[96, queries * dim], 0.29, dtype);
            let (out, sums) = kernels::attention(&q, &k, &v, &runs, window).expect("attention");
            let inputs = [q64.clone(), k64.clone(), v64.clone()];
            close(&out, &attend(&inputs, heads, window).expect("attention"), most);
            let found = kernels::attention_back([&q, &k, &v], [&out, &sums], &grad, &runs, window);
            let exact =
                gradients(&[&q64, &k64, &v64], &grad64, |inputs| attend(inputs, heads, window));
            // In bf16 the result that the backward pass starts from has been rounded, and differences of its
            // products are what remains.
            let most = if dtype == DType::BF16 { 5e-2 } else { most };
            for (found, exact) in found.expect("gradients").iter().zip(&exact) {
                close(found, exact, most);
            }
        }
    }
}

#[test]
fn attention_over_a_cache_is_that_over_the_tokens_to_the_bit() {
    // Of 64 and more on tensor cores, where there are any. Windows reach into the second tile of keys and beyond.
    for dim in [32, 64, 80, 96, 128, 256] {
        for (dtype, _) in TYPES {
            let windows = [None, Some(29), Some(70)];
            windows.into_iter().for_each(|window| over_a_cache(dim, dtype, window));
        }
    }
}

fn over_a_cache(dim: usize, dtype: DType, window: Option<usize>) {
    let heads = Heads { queries: 2, keys: 1, dim };
    let own = Run { first: 0, tokens: 150, sees: 1, start: 0, split: 150, rest: 0, until: 150 };
    let (q, _) = values(&[150, 2 * dim], 0.37, dtype);
    let (k, _) = values(&[150, dim], 0.71, dtype);
    let (v, _) = values(&[150, dim], 0.13, dtype);
    let runs = Runs::new(&[own], heads, 0.2).expect("tables");
    let whole = kernels::attention(&q, &k, &v, &runs, window).expect("attention").0;
    // The same keys in the second row of a cache of three rows of 160 slots.
    let cache = || Tensor::zeros((3 * 160, dim), dtype, &device()).expect("cache");
    let (keys, values) = (cache(), cache());
    let places = numbers((160..310).collect());
    kernels::store_rows(&k, &keys, &places).expect("stored");
    kernels::store_rows(&v, &values, &places).expect("stored");
    let last = Run { tokens: 1, sees: 150, start: 160, split: 160, until: 1, ..own };
    let runs = Runs::new(&[last], heads, 0.2).expect("tables");
    let q = q.narrow(0, 149, 1).expect("the last");
    let alone = kernels::attention(&q, &keys, &values, &runs, window).expect("attention").0;
    let whole = whole.part(149..150).expect("the last");
    close(&alone, &whole, 0.0);
}

/// Heads of every size that there is a kernel on tensor cores for: as much of a tile as tokens fill.
#[test]
fn attention_of_every_head_size_of_tensor_cores() {
    for dim in [64, 80, 96, 128, 256] {
        for window in [None, Some(29)] {
            let heads = Heads { queries: 4, keys: 2, dim };
            let runs = Runs::new(&runs(), heads, 1.0 / (dim as f64).sqrt()).expect("tables");
            let (q, q64) = values(&[96, 4 * dim], 0.37, DType::BF16);
            let (k, k64) = values(&[96, 2 * dim], 0.71, DType::BF16);
            let (v, v64) = values(&[96, 2 * dim], 0.13, DType::BF16);
            let attend_here = || kernels::attention(&q, &k, &v, &runs, window);
            let (done, counts) = tealight_gpu::counts::counted(attend_here);
            let kernel = match tealight_gpu::has_tensor_cores(&device()) {
                true => format!("attention_mma_{dim}_bf16"),
                false => "attention_bf16".to_owned(),
            };
            assert_eq!(counts.launches.get(&kernel), Some(&1), "{counts:?}");
            let (out, sums) = done.expect("attention");
            let exact =
                attend(&[q64.clone(), k64.clone(), v64.clone()], heads, window).expect("attention");
            close(&out, &exact, 1e-2);
            let (grad, grad64) = values(&[96, 4 * dim], 0.29, DType::BF16);
            let found = kernels::attention_back([&q, &k, &v], [&out, &sums], &grad, &runs, window);
            let exact =
                gradients(&[&q64, &k64, &v64], &grad64, |inputs| attend(inputs, heads, window));
            for (found, exact) in found.expect("gradients").iter().zip(&exact) {
                close(found, exact, 5e-2);
            }
        }
    }
}
