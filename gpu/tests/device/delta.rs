//! The gated delta rule and its convolution against graphs of Candle's operations in f64, in f32 and bf16, over runs
//! that share what they begin with.

use candle_core::{DType, Device, Result, Tensor};
use tealight_gpu::kernels::{self, Delta, DeltaRun, Taps};
use tealight_gpu::workspace::{Array, Operand};

use crate::common::{TYPES, Values, close, device, gradients, values};

/// A run that two others go on from, one of them longer than a chunk, and one alone.
fn runs() -> Vec<DeltaRun> {
    let run = |tokens, after| DeltaRun { tokens, after, goes_on: false };
    vec![run(0..3, None), run(3..21, Some(0)), run(21..22, Some(0)), run(22..27, None)]
}

/// The tokens of every sequence that the runs make, and how many of them are its own.
fn sequences() -> Vec<(Vec<u32>, usize)> {
    let sequence = |run: &DeltaRun| match run.after {
        Some(_) => ((0..3).chain(run.tokens.clone()).map(|t| t as u32).collect(), run.tokens.len()),
        None => (run.tokens.clone().map(|t| t as u32).collect(), run.tokens.len()),
    };
    runs().iter().map(sequence).collect()
}

/// Runs `work` on the rows of each sequence, and puts the results of its own tokens one after the other.
fn by_sequence(
    work: impl Fn(&dyn Fn(&Tensor) -> Result<Tensor>) -> Result<Tensor>,
) -> Result<Tensor> {
    let mut all = Vec::new();
    for (tokens, own) in sequences() {
        let ids = Tensor::new(tokens.as_slice(), &Device::Cpu)?;
        let out = work(&|x: &Tensor| x.index_select(&ids, 0))?;
        all.push(out.narrow(0, tokens.len() - own, own)?);
    }
    Tensor::cat(&all, 0)
}

fn sigmoid(x: &Tensor) -> Result<Tensor> {
    (x.neg()?.exp()? + 1.0)?.recip()
}

fn convolved(x: &Tensor, kernel: &Tensor) -> Result<Tensor> {
    by_sequence(|rows| {
        let x = rows(x)?;
        let (tokens, width) = x.dims2()?;
        let padded = Tensor::cat(&[Tensor::zeros((3, width), DType::F64, &Device::Cpu)?, x], 0)?;
        let mut sum = Tensor::zeros((tokens, width), DType::F64, &Device::Cpu)?;
        for tap in 0..4 {
            let own = kernel.narrow(2, tap, 1)?.reshape((1, width))?;
            sum = (sum + padded.narrow(0, tap, tokens)?.broadcast_mul(&own)?)?;
        }
        &sum * sigmoid(&sum)?
    })
}

#[test]
fn convolution_and_gradients_equal_f64() {
    for (dtype, most) in TYPES {
        let (x, x64) = values(&[27, 10], 0.37, dtype);
        let (kernel, kernel64) = values(&[10, 1, 4], 0.9, dtype);
        let (grad, grad64) = values(&[27, 10], 0.61, dtype);
        let taps = Taps::new(&runs(), 27, 4, false, &device()).expect("tables");
        let out = kernels::convolution(&x, &kernel, &taps, None).expect("a convolution");
        close(&out, &convolved(&x64, &kernel64).expect("exact"), most);
        let sums = Tensor::ones(40, DType::F32, &device()).expect("ones");
        let dx = kernels::convolution_back(&x, &kernel, &taps, &grad, Some(&sums)).expect("dx");
        let exact =
            gradients(&[&x64, &kernel64], &grad64, |inputs| convolved(&inputs[0], &inputs[1]));
        close(&dx, &exact[0], most);
        close(&sums, &(&exact[1] + 1.0).expect("sum"), 1e-5);

        // Row by row of a cache, what comes later reads what was left.
        let part = |from, tokens| x.narrow(0, from, tokens).and_then(|x| x.contiguous());
        let run = |tokens, goes_on| DeltaRun { tokens, after: None, goes_on };
        let past = Tensor::zeros((2, 30), dtype, &device()).expect("room");
        let first = Taps::new(&[run(0..3, false), run(3..5, false)], 5, 4, true, &device());
        let both = Tensor::cat(&[part(0, 3).expect("rows"), part(22, 2).expect("rows")], 0);
        let begun =
            kernels::convolution(&both.expect("x"), &kernel, &first.expect("t"), Some(&past));
        close(&begun.expect("begun").part(0..3).expect("rows"), &out_of(&out, 0, 3), 0.0);
        let next = Taps::new(&[run(0..1, true), run(1..2, true)], 2, 4, true, &device());
        let both = Tensor::cat(&[part(3, 1).expect("rows"), part(24, 1).expect("rows")], 0);
        let gone_on =
            kernels::convolution(&both.expect("x"), &kernel, &next.expect("tables"), Some(&past));
        let gone_on = gone_on.expect("gone on");
        close(&out_of(&gone_on, 0, 1), &out_of(&out, 3, 1), 0.0);
        close(&out_of(&gone_on, 1, 1), &out_of(&out, 24, 1), 0.0);
    }
}

fn out_of(x: &impl Values, from: usize, rows: usize) -> Tensor {
    x.tensor().narrow(0, from, rows).and_then(|x| x.contiguous()).expect("rows")
}

const KEY_HEADS: usize = 2;
const HEADS: usize = 4;
const KEY: usize = 6;
const VALUE: usize = 5;

/// Of queries, keys and values, `b`, `a`, `A_log` and `dt_bias`.
fn ruled(inputs: &[Tensor]) -> Result<Tensor> {
    by_sequence(|rows| {
        let (mixed, b, a) = (rows(&inputs[0])?, rows(&inputs[1])?, rows(&inputs[2])?);
        let tokens = mixed.dim(0)?;
        let keys = KEY_HEADS * KEY;
        let heads = Tensor::new(&[0u32, 0, 1, 1], &Device::Cpu)?;
        let unit = |at: usize| {
            let x = mixed.narrow(1, at, keys)?.reshape((tokens, KEY_HEADS, KEY))?;
            x.broadcast_div(&(x.sqr()?.sum_keepdim(2)? + 1e-6)?.sqrt()?)?.index_select(&heads, 1)
        };
        let (q, k) = ((unit(0)? / (KEY as f64).sqrt())?, unit(keys)?);
        let v = mixed.narrow(1, 2 * keys, HEADS * VALUE)?.reshape((tokens, HEADS, VALUE))?;
        let beta = sigmoid(&b)?;
        let soft = (a.broadcast_add(&inputs[4])?.exp()? + 1.0)?.log()?;
        let decay = soft.broadcast_mul(&inputs[3].exp()?)?.neg()?.exp()?;
        let mut state = Tensor::zeros((HEADS, KEY, VALUE), DType::F64, &Device::Cpu)?;
        let mut all = Vec::new();
        for token in 0..tokens {
            let left = state.broadcast_mul(&decay.get(token)?.reshape((HEADS, 1, 1))?)?;
            let (query, key) = (q.get(token)?.unsqueeze(1)?, k.get(token)?.unsqueeze(1)?);
            let missing = (v.get(token)?.unsqueeze(1)? - key.matmul(&left)?)?;
            let change = missing.broadcast_mul(&beta.get(token)?.reshape((HEADS, 1, 1))?)?;
            state = (left + key.t()?.contiguous()?.matmul(&change)?)?;
            all.push(query.matmul(&state)?.reshape((1, HEADS * VALUE))?);
        }
        Tensor::cat(&all, 0)
    })
}

#[test]
fn delta_rule_and_gradients_equal_f64() {
    for (dtype, most) in TYPES {
        let wide = 2 * KEY_HEADS * KEY + HEADS * VALUE;
        let random = |shape: &[usize], by| values(shape, by, dtype);
        let ((mixed, mixed64), (b, b64)) = (random(&[27, wide], 0.37), random(&[27, HEADS], 0.9));
        let ((a, a64), (grad, grad64)) =
            (random(&[27, HEADS], 0.5), random(&[27, HEADS * VALUE], 0.61));
        let ((a_log, a_log64), (bias, bias64)) = (random(&[HEADS], 0.3), random(&[HEADS], 0.7));
        let rule = Delta {
            key_heads: KEY_HEADS,
            value_heads: HEADS,
            key_dim: KEY,
            value_dim: VALUE,
            weights: [&a_log, &bias],
        };
        let inputs: [&dyn Operand; 3] = [&mixed, &b, &a];
        let out = kernels::delta_rule(rule, inputs, &runs(), None).expect("a rule");
        let all = [&mixed64, &b64, &a64, &a_log64, &bias64];
        close(&out, &ruled(&all.map(Clone::clone)).expect("exact"), most);
        let (found, sums) = kernels::delta_back(rule, inputs, &runs(), &grad).expect("gradients");
        let exact = gradients(&all, &grad64, ruled);
        let found = found.map(Array::into_tensor);
        for (found, exact) in found.iter().chain(&sums).zip(&exact) {
            close(found, exact, most);
        }

        // A cache goes on where the tokens before left it.
        let states = Tensor::ones((1, HEADS * KEY * VALUE), DType::F32, &device()).expect("room");
        let part = |from, tokens| [&mixed, &b, &a].map(|x| out_of(x, from, tokens));
        let run = |tokens, goes_on| [DeltaRun { tokens: 0..tokens, after: None, goes_on }];
        let [first, last] = [part(22, 4), part(26, 1)];
        let step = |part: &[Tensor; 3], run: &[DeltaRun]| {
            let [mixed, b, a] = part;
            kernels::delta_rule(rule, [mixed, b, a], run, Some(&states))
        };
        let begun = step(&first, &run(4, false));
        close(&begun.expect("begun"), &out_of(&out, 22, 4), 0.0);
        let gone_on = step(&last, &run(1, true));
        close(&gone_on.expect("gone on"), &out_of(&out, 26, 1), 0.0);
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let weight = values(&[2], 0.3, DType::F32).0;
    let rule = |key_dim| Delta {
        key_heads: 1,
        value_heads: 2,
        key_dim,
        value_dim: 3,
        weights: [&weight, &weight],
    };
    let x = |width| values(&[4, width], 0.1, DType::F32).0;
    let run = [DeltaRun { tokens: 0..4, after: None, goes_on: false }];
    let refused = |rule, mixed: &Tensor, runs: &[DeltaRun]| {
        let gates = x(2);
        kernels::delta_rule(rule, [mixed, &gates, &gates], runs, None).expect_err("no").to_string()
    };
    assert!(refused(rule(300), &x(606), &run).contains("use --device cpu"));
    assert!(refused(rule(2), &x(11), &run).contains("rows of 10"));
    let beyond = [DeltaRun { tokens: 0..9, after: None, goes_on: false }];
    assert!(refused(rule(2), &x(10), &beyond).contains("other tokens"));
    let from_cache = [DeltaRun { goes_on: true, ..run[0].clone() }];
    assert!(refused(rule(2), &x(10), &from_cache).contains("there is no cache"));
    assert!(Taps::new(&run, 4, 99, false, &device()).is_err());
}
