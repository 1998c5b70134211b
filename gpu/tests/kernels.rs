//! Every kernel against its formula in f64, by Candle on the CPU, in f32 and bf16.
//!
//! Without a GPU: `cargo test -p tealight-gpu --features emulated`. On a machine with one: `--features cuda` or
//! `--features metal` in its place.
#![cfg(any(feature = "emulated", feature = "cuda", feature = "metal"))]

use candle_core::{D, DType, Device, Result, Tensor, Var};
use tealight_gpu::kernels::{self, AdamW, Heads, Run, Runs};

fn device() -> Device {
    if cfg!(feature = "cuda") {
        Device::new_cuda(0).expect("a GPU")
    } else if cfg!(feature = "metal") {
        Device::new_metal(0).expect("a GPU")
    } else {
        Device::Cpu
    }
}

/// Types of activations, and how close results must be to the largest of them.
const TYPES: [(DType, f64); 2] = [(DType::F32, 1e-5), (DType::BF16, 1e-2)];

/// Values of no meaning, as `dtype` rounds them, on the device and in f64 on the CPU.
fn values(shape: &[usize], by: f64, dtype: DType) -> (Tensor, Tensor) {
    let count: usize = shape.iter().product();
    let wave: Vec<f32> = (0..count).map(|i| (1.3 * (i as f64 * by + by).sin()) as f32).collect();
    let tensor = Tensor::from_vec(wave, shape, &Device::Cpu).and_then(|x| x.to_dtype(dtype));
    let tensor = tensor.expect("values");
    let wide = tensor.to_dtype(DType::F64).expect("f64");
    (tensor.to_device(&device()).expect("there"), wide)
}

fn numbers(values: Vec<u32>) -> Tensor {
    let count = values.len();
    Tensor::from_vec(values, count, &device()).expect("numbers")
}

fn flat(x: &Tensor) -> Vec<f64> {
    let x = x.to_device(&Device::Cpu).and_then(|x| x.to_dtype(DType::F64));
    x.and_then(|x| x.flatten_all()?.to_vec1()).expect("values")
}

#[track_caller]
fn close(ours: &Tensor, exact: &Tensor, most: f64) {
    let (ours, exact) = (flat(ours), flat(exact));
    assert_eq!(ours.len(), exact.len());
    let largest = exact.iter().fold(1e-2_f64, |most, x| most.max(x.abs()));
    for (ours, exact) in ours.iter().zip(&exact) {
        assert!((ours - exact).abs() <= most * largest, "{ours} is not {exact}");
    }
}

/// The gradients of `sum(f(vars) * grad)`.
fn gradients(
    of: &[&Tensor],
    grad: &Tensor,
    f: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Vec<Tensor> {
    let vars: Vec<Var> = of.iter().map(|x| Var::from_tensor(x).expect("var")).collect();
    let tensors: Vec<Tensor> = vars.iter().map(|var| var.as_tensor().clone()).collect();
    let loss = f(&tensors).and_then(|out| (out * grad)?.sum_all()).expect("loss");
    let grads = loss.backward().expect("gradients");
    vars.iter().map(|var| grads.get(var).expect("a gradient").clone()).collect()
}

fn norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let scale = ((x.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?).recip()?;
    x.broadcast_mul(&scale)?.broadcast_mul(weight)
}

#[test]
fn norms_and_their_gradients() {
    for (dtype, most) in TYPES {
        let ((x, x64), (y, y64)) =
            (values(&[70, 300], 0.37, dtype), values(&[70, 300], 0.9, dtype));
        let (weight, weight64) = values(&[300], 0.11, dtype);
        let (same, out) = kernels::add_norm(&x, None, &weight, 1e-5).expect("norm");
        close(&same, &x64, 0.0);
        close(&out, &norm(&x64, &weight64).expect("norm"), most);
        let (stream, out) = kernels::add_norm(&x, Some(&y), &weight, 1e-5).expect("norm");
        let sum = (x64.clone() + &y64).expect("sum");
        close(&stream, &sum, most);
        close(&out, &norm(&sum, &weight64).expect("norm"), 2.0 * most);

        let (dx, dx64) = values(&[70, 300], 0.5, dtype);
        let sums = Tensor::ones(300, DType::F32, &device()).expect("ones");
        kernels::norm_back(&x, &weight, &y, &dx, Some(&sums), 1e-5).expect("gradients");
        let exact = gradients(&[&x64, &weight64], &y64, |of| norm(&of[0], &of[1]));
        close(&dx, &(dx64 + &exact[0]).expect("sum"), most);
        close(&sums, &(&exact[1] + 1.0).expect("sum"), 1e-5);
    }
}

#[test]
fn positions_gates_and_sums() {
    for (dtype, most) in TYPES {
        let (x, x64) = values(&[5, 3 * 8], 0.7, dtype);
        let (angle, _) = values(&[5, 4], 0.2, DType::F32);
        let (cos, sin) = (angle.cos().expect("cos"), angle.sin().expect("sin"));
        let rotated = x.copy().expect("copy");
        kernels::rope(&rotated, &cos, &sin, false).expect("rope");
        let (c, s) = (flat(&cos), flat(&sin));
        let before = flat(&x64);
        let exact: Vec<f64> = (0..5 * 24)
            .map(|i| {
                let (token, d) = (i / 24, i % 8);
                let angle = token * 4 + d % 4;
                if d < 4 {
                    before[i] * c[angle] - before[i + 4] * s[angle]
                } else {
                    before[i] * c[angle] + before[i - 4] * s[angle]
                }
            })
            .collect();
        close(&rotated, &Tensor::new(exact, &Device::Cpu).expect("exact"), most);
        kernels::rope(&rotated, &cos, &sin, true).expect("rope");
        close(&rotated, &x64, 2.0 * most);

        let shape = [9, 333];
        let ((gate, gate64), (up, up64)) = (values(&shape, 0.3, dtype), values(&shape, 0.8, dtype));
        let gated = |of: &[Tensor]| -> Result<Tensor> { silu(&of[0])? * &of[1] };
        let out = kernels::swiglu(&gate, &up).expect("swiglu");
        close(&out, &gated(&[gate64.clone(), up64.clone()]).expect("swiglu"), most);
        let (grad, grad64) = values(&shape, 0.21, dtype);
        let exact = gradients(&[&gate64, &up64], &grad64, gated);
        kernels::swiglu_back(&gate, &up, &grad).expect("gradients");
        close(&gate, &exact[0], most);
        close(&up, &exact[1], most);

        kernels::add(&out, &grad).expect("add");
        let sum = (gated(&[gate64, up64]).expect("swiglu") + &grad64).expect("sum");
        close(&out, &sum, 2.0 * most);
        let (bias, bias64) = values(&[333], 0.4, dtype);
        let biased = grad.copy().expect("copy");
        kernels::add_bias(&biased, &bias).expect("bias");
        close(&biased, &grad64.broadcast_add(&bias64).expect("sum"), most);
        let sums = Tensor::zeros(333, DType::F32, &device()).expect("zeros");
        kernels::column_sums(&grad, &sums).expect("sums");
        close(&sums, &grad64.sum(0).expect("sums"), 1e-5);
        let total = Tensor::zeros(9 * 333, DType::F32, &device()).expect("zeros");
        kernels::add_to(&total, &grad).expect("add");
        close(&total, &grad64, 0.0);
        let narrow = Tensor::zeros(9 * 333, dtype, &device()).expect("zeros");
        kernels::narrow(&total, &narrow).expect("narrow");
        close(&narrow, &grad64, 0.0);
    }
}

fn silu(x: &Tensor) -> Result<Tensor> {
    x / (x.neg()?.exp()? + 1.0)?
}

#[test]
fn halves_round_to_the_nearest_and_ties_to_even() {
    let given = [1.0_f32, 1.003_906_2, 1.011_718_8, -2.7, 3e38, f32::MIN_POSITIVE, 0.0];
    let x = Tensor::new(&given, &Device::Cpu).expect("values");
    let out = Tensor::zeros(given.len(), DType::BF16, &device()).expect("zeros");
    kernels::narrow(&x.to_device(&device()).expect("there"), &out).expect("narrow");
    close(&out, &x.to_dtype(DType::BF16).expect("bf16"), 0.0);
}

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
fn sees(query: usize, key: usize) -> bool {
    let run = |token: usize| [0, 35, 55, 56].iter().filter(|first| **first <= token).count();
    let is_own = run(query) == run(key) || (run(query) <= 3 && run(key) == 1);
    key <= query && is_own
}

fn attend(of: &[Tensor], heads: Heads) -> Result<Tensor> {
    let tokens = of[0].dim(0)?;
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
        .map(|i| if sees(i / tokens, i % tokens) { 0.0 } else { -1e9 })
        .collect();
    let mask = Tensor::from_vec(mask, (1, tokens, tokens), &Device::Cpu)?;
    let scores =
        split(&of[0], heads.queries)?.matmul(&repeat(&of[1])?.transpose(1, 2)?.contiguous()?)?;
    let scores = (scores / (heads.dim as f64).sqrt())?.broadcast_add(&mask)?;
    let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?)?.exp()?;
    let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
    let out = weights.matmul(&repeat(&of[2])?)?.transpose(0, 1)?.contiguous()?;
    out.reshape((tokens, heads.queries * heads.dim))
}

#[test]
fn attention_over_prefixes_and_suffixes_and_its_gradients() {
    for (queries, keys, dim) in [(4, 2, 12), (14, 2, 64), (8, 1, 128), (3, 3, 16)] {
        let heads = Heads { queries, keys, dim };
        let runs = Runs::new(&runs(), heads, &device()).expect("tables");
        for (dtype, most) in TYPES {
            let (q, q64) = values(&[96, queries * dim], 0.37, dtype);
            let (k, k64) = values(&[96, keys * dim], 0.71, dtype);
            let (v, v64) = values(&[96, keys * dim], 0.13, dtype);
            let (grad, grad64) = values(&[96, queries * dim], 0.29, dtype);
            let (out, sums) = kernels::attention(&q, &k, &v, &runs).expect("attention");
            let of = [q64.clone(), k64.clone(), v64.clone()];
            close(&out, &attend(&of, heads).expect("attention"), most);
            let found = kernels::attention_back([&q, &k, &v], (&out, &sums), &grad, &runs);
            let exact = gradients(&[&q64, &k64, &v64], &grad64, |of| attend(of, heads));
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
    let heads = Heads { queries: 6, keys: 2, dim: 32 };
    let own = Run { first: 0, tokens: 50, sees: 1, start: 0, split: 50, rest: 0, until: 50 };
    for (dtype, _) in TYPES {
        let (q, _) = values(&[50, 6 * 32], 0.37, dtype);
        let (k, _) = values(&[50, 2 * 32], 0.71, dtype);
        let (v, _) = values(&[50, 2 * 32], 0.13, dtype);
        let runs = Runs::new(&[own], heads, &device()).expect("tables");
        let whole = kernels::attention(&q, &k, &v, &runs).expect("attention").0;
        // The same keys in the second row of a cache of three rows of 60 slots.
        let cache = || Tensor::zeros((3 * 60, 2 * 32), dtype, &device()).expect("cache");
        let (keys, values) = (cache(), cache());
        let places = numbers((60..110).collect());
        kernels::store_rows(&k, &keys, &places).expect("stored");
        kernels::store_rows(&v, &values, &places).expect("stored");
        let last = Run { tokens: 1, sees: 50, start: 60, split: 60, until: 1, ..own };
        let runs = Runs::new(&[last], heads, &device()).expect("tables");
        let q = q.narrow(0, 49, 1).expect("the last");
        let alone = kernels::attention(&q, &keys, &values, &runs).expect("attention").0;
        let whole = whole.narrow(0, 49, 1).expect("the last");
        close(&alone, &whole, 0.0);
    }
}

#[test]
fn rows_of_the_embedding_add_up() {
    for (dtype, _) in TYPES {
        let (dx, dx64) = values(&[6, 40], 0.3, dtype);
        let ids = [4_u32, 0, 4, 2, 4, 0];
        let sums = Tensor::ones((5, 40), DType::F32, &device()).expect("ones");
        kernels::embedding_back(&dx, &ids, &sums).expect("sums");
        let index = Tensor::new(&ids, &Device::Cpu).expect("ids");
        let exact = Tensor::ones((5, 40), DType::F64, &Device::Cpu).expect("ones");
        close(&sums, &exact.index_add(&index, &dx64, 0).expect("sums"), 1e-6);
        assert!(kernels::embedding_back(&dx, &[0, 1, 2, 3, 4, 5], &sums).is_err());
    }
}

#[test]
fn log_probabilities_entropies_and_slopes() {
    let (logits, logits64) = values(&[7, 1000], 1.7, DType::F32);
    let (logits, logits64) = ((logits * 6.0).expect("wide"), (logits64 * 6.0).expect("wide"));
    let targets: Vec<u32> = (0..7).map(|i| i * 142 + 3).collect();
    let found = kernels::logp(&logits, &numbers(targets.clone()), 0.7).expect("logp");
    let index = Tensor::from_vec(targets.clone(), (7, 1), &Device::Cpu).expect("targets");
    let logps = |x: &Tensor| {
        let x = (x / 0.7)?;
        let top = x.max_keepdim(1)?.detach();
        let mass = x.broadcast_sub(&top)?.exp()?.sum_keepdim(1)?.log()?;
        x.broadcast_sub(&(mass + top)?)
    };
    let all = logps(&logits64).expect("logp");
    close(&found.logp, &all.gather(&index, 1).expect("gather"), 1e-5);
    let entropy = (all.exp().expect("p") * &all).and_then(|x| x.sum(1)?.neg()).expect("entropy");
    close(&found.entropy, &entropy, 1e-5);
    for (dtype, most) in TYPES {
        let (grad, grad64) = values(&[7], 0.9, DType::F32);
        let known = (&found.sums, &grad);
        let logits_grad =
            kernels::logits_grad(&logits, &numbers(targets.clone()), known, 0.7, dtype);
        let grad64 = grad64.reshape((7, 1)).expect("column");
        let exact = gradients(&[&logits64], &grad64, |of| logps(&of[0])?.gather(&index, 1));
        close(&logits_grad.expect("logits_grad"), &exact[0], most);
    }
}

#[test]
fn samples_are_where_the_distribution_function_crosses() {
    let (logits, logits64) = values(&[64, 700], 2.3, DType::F32);
    let uniform: Vec<f32> = (0..64).map(|i| (i as f32 + 0.5) / 64.0).collect();
    let at = Tensor::from_vec(uniform.clone(), 64, &device()).expect("numbers");
    for temperature in [1.0, 0.3, 0.0] {
        let (tokens, logp) = kernels::sample(&logits, &at, temperature).expect("samples");
        let (tokens, logp) = (tokens.to_vec1::<u32>().expect("tokens"), flat(&logp));
        for (row, logits) in logits64.to_vec2::<f64>().expect("rows").iter().enumerate() {
            let token = tokens[row] as usize;
            let by = if temperature == 0.0 { 1.0 } else { temperature };
            let mass: Vec<f64> = logits.iter().map(|x| (x / by).exp()).collect();
            let total: f64 = mass.iter().sum();
            assert!((logp[row] - (mass[token] / total).ln()).abs() < 1e-4);
            if temperature == 0.0 {
                assert!(logits.iter().all(|x| *x <= logits[token]));
                continue;
            }
            let before: f64 = mass[..token].iter().sum::<f64>() / total;
            let goal = f64::from(uniform[row]);
            let room = 1e-5;
            assert!(before <= goal + room && goal <= before + mass[token] / total + room);
        }
    }
    let broken = Tensor::full(f32::NAN, (1, 9), &device()).expect("not numbers");
    let (tokens, _) =
        kernels::sample(&broken, &at.narrow(0, 0, 1).expect("one"), 1.0).expect("said");
    assert_eq!(tokens.to_vec1::<u32>().expect("tokens"), [u32::MAX]);
}

#[test]
fn the_optimizer_and_norms_of_gradients() {
    let (weight, w64) = values(&[3001], 0.3, DType::F32);
    let (mean, m64) = values(&[3001], 0.7, DType::F32);
    let (square, s64) = values(&[3001], 0.2, DType::F32);
    let (square, s64) = (square.sqr().expect("squares"), s64.sqr().expect("squares"));
    let (gradient, g64) = values(&[3001], 0.5, DType::F32);
    let step = AdamW {
        scale: 0.5,
        beta1: [0.9, 0.1],
        beta2: [0.99, 0.01],
        rate: 0.02,
        correct_2: 3.0,
        epsilon: 1e-3,
        keep: 0.98,
    };
    let norm = kernels::sum_of_squares(&[&gradient, &weight]).expect("squares");
    let exact: f64 = flat(&g64).iter().chain(&flat(&w64)).map(|x| x * x).sum();
    assert!((norm - exact).abs() < 1e-4 * exact);
    kernels::adamw(step, &weight, [&mean, &square], &gradient).expect("step");
    let update = || -> Result<[Tensor; 3]> {
        let g = (g64 * 0.5)?;
        let m = ((m64 * 0.9)? + (&g * 0.1)?)?;
        let s = ((s64 * 0.99)? + (g.sqr()? * 0.01)?)?;
        let w = ((w64 * 0.98)? - ((&m * 0.02)? / ((&s * 3.0)?.sqrt()? + 1e-3)?)?)?;
        Ok([w, m, s])
    };
    for (ours, exact) in [&weight, &mean, &square].into_iter().zip(&update().expect("step")) {
        close(ours, exact, 1e-5);
    }
}

#[test]
fn what_does_not_fit_is_refused() {
    let x = |shape: &[usize], dtype| values(shape, 0.3, dtype).0;
    let (wide, half) = (x(&[4, 6], DType::F32), x(&[4, 6], DType::BF16));
    assert!(kernels::add(&wide, &half).is_err());
    assert!(kernels::add(&wide, &x(&[4, 5], DType::F32)).is_err());
    assert!(kernels::add_norm(&wide, None, &x(&[5], DType::F32), 1e-5).is_err());
    assert!(kernels::add(&wide.t().expect("transposed"), &wide).is_err());
    assert!(kernels::swiglu(&x(&[2], DType::F64), &x(&[2], DType::F64)).is_err());
    assert!(!Heads { queries: 64, keys: 1, dim: 64 }.are_known());
    let heads = Heads { queries: 2, keys: 1, dim: 4 };
    let run = Run { first: 0, tokens: 3, sees: 1, start: 2, split: 3, rest: 0, until: 3 };
    let runs = Runs::new(&[run], heads, &device()).expect("tables");
    let (q, k) = (x(&[3, 8], DType::F32), x(&[3, 4], DType::F32));
    let said = kernels::attention(&q, &k, &k, &runs).expect_err("too few keys").to_string();
    assert!(said.contains("has not 5 rows of keys"), "{said}");
}
