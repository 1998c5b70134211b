//! Every kernel against its formula in f64, by Candle on the CPU, in f32 and bf16.
//!
//! Without a GPU `cargo test -p tealight-gpu` runs them as C; on a machine with one add `--features cuda` or
//! `--features metal`.

use candle_core::{D, DType, Device, Result, Tensor};
use tealight_gpu::kernels::{self, AdamW, Gain, Gate, Heads, Run, Runs};

use crate::common::{TYPES, close, device, flat, gradients, numbers, values};

/// With half of 1 added to the weight.
fn norm(x: &Tensor, weight: &Tensor) -> Result<Tensor> {
    let scale = ((x.sqr()?.mean_keepdim(D::Minus1)? + 1e-5)?.sqrt()?).recip()?;
    x.broadcast_mul(&scale)?.broadcast_mul(&(weight + 0.5)?)
}

fn gain(weight: &Tensor) -> Gain<'_> {
    Gain { weight, offset: 0.5, eps: 1e-5 }
}

#[test]
fn norms_and_gradients_equal_f64() {
    for (dtype, most) in TYPES {
        let ((x, x64), (y, y64)) =
            (values(&[70, 300], 0.37, dtype), values(&[70, 300], 0.9, dtype));
        let (weight, weight64) = values(&[300], 0.11, dtype);
        let (sum, out) = kernels::add_norm(&x, None, gain(&weight)).expect("norm");
        assert!(sum.is_none(), "there was nothing to add");
        close(&out, &norm(&x64, &weight64).expect("norm"), most);
        let (stream, out) = kernels::add_norm(&x, Some(&y), gain(&weight)).expect("norm");
        let sum = (x64.clone() + &y64).expect("sum");
        close(&stream.expect("a sum"), &sum, most);
        close(&out, &norm(&sum, &weight64).expect("norm"), 2.0 * most);

        let (dx, dx64) = values(&[70, 300], 0.5, dtype);
        let sums = Tensor::ones(300, DType::F32, &device()).expect("ones");
        kernels::norm_back(&x, gain(&weight), &y, &dx, Some(&sums)).expect("gradients");
        let exact = gradients(&[&x64, &weight64], &y64, |inputs| norm(&inputs[0], &inputs[1]));
        close(&dx, &(dx64 + &exact[0]).expect("sum"), most);
        close(&sums, &(&exact[1] + 1.0).expect("sum"), 1e-5);
    }
}

#[test]
fn rope_gates_and_sums_equal_f64() {
    for (dtype, most) in TYPES {
        // Two of ten values of a head do not turn.
        let (x, x64) = values(&[5, 3 * 10], 0.7, dtype);
        let (angle, _) = values(&[5, 4], 0.2, DType::F32);
        let (cos, sin) = (angle.cos().expect("cos"), angle.sin().expect("sin"));
        let rotated = x.copy().expect("copy");
        kernels::rope(&rotated, 10, [&cos, &sin], false).expect("rope");
        let (c, s) = (flat(&cos), flat(&sin));
        let before = flat(&x64);
        let exact: Vec<f64> = (0..5 * 30)
            .map(|i| {
                let (token, d) = (i / 30, i % 10);
                let angle = token * 4 + d % 4;
                if d >= 8 {
                    before[i]
                } else if d < 4 {
                    before[i] * c[angle] - before[i + 4] * s[angle]
                } else {
                    before[i] * c[angle] + before[i - 4] * s[angle]
                }
            })
            .collect();
        close(&rotated, &Tensor::new(exact, &Device::Cpu).expect("exact"), most);
        kernels::rope(&rotated, 10, [&cos, &sin], true).expect("rope");
        close(&rotated, &x64, 2.0 * most);

        stored_rows_are_those_of_the_kernels_in_turn(dtype);

        let shape = [9, 333];
        let ((gate, gate64), (up, up64)) = (values(&shape, 0.3, dtype), values(&shape, 0.8, dtype));
        let (grad, grad64) = values(&shape, 0.21, dtype);
        let silu = |inputs: &[Tensor]| -> Result<Tensor> { silu(&inputs[0])? * &inputs[1] };
        let gelu = |inputs: &[Tensor]| -> Result<Tensor> { inputs[0].gelu()? * &inputs[1] };
        let inputs = [(&gate, &gate64), (&up, &up64), (&grad, &grad64)];
        let out = check_gate(Gate::SILU, silu, inputs, most);
        let open = |inputs: &[Tensor]| silu_ratio(&inputs[0])? * &inputs[1];
        check_gate(Gate::SIGMOID, open, inputs, most);
        check_gate(Gate::GELU_TANH, gelu, inputs, most);

        kernels::add(&out, &grad).expect("add");
        let sum = (silu(&[gate64, up64]).expect("gate") + &grad64).expect("sum");
        close(&out, &sum, 2.0 * most);
        let (bias, bias64) = values(&[333], 0.4, dtype);
        let biased = grad.copy().expect("copy");
        kernels::add_bias(&biased, &bias).expect("bias");
        close(&biased, &grad64.broadcast_add(&bias64).expect("sum"), most);
        let ((x, x64), (few, few64)) = (values(&[9, 7], 0.5, dtype), values(&[7], 0.1, dtype));
        let again = grad.copy().expect("copy");
        let twice = grad.copy().expect("copy");
        kernels::add_biases([(&again, &bias), (&x, &few), (&twice, &bias)]).expect("biases");
        close(&again, &grad64.broadcast_add(&bias64).expect("sum"), most);
        close(&x, &x64.broadcast_add(&few64).expect("sum"), most);
        close(&twice, &biased, 0.0);
        assert!(kernels::add_biases([(&again, &bias), (&x, &bias), (&x, &few)]).is_err());
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

#[test]
fn rows_of_an_embedding_are_picked_and_scaled() {
    for (dtype, most) in TYPES {
        let (table, table64) = values(&[11, 300], 0.37, dtype);
        let ids = [10u32, 0, 3, 3];
        let device = device();
        for scale in [1.0, 5.7] {
            let picked =
                kernels::pick_rows(&table, &numbers(ids.to_vec()), scale, (&device).into());
            let index = Tensor::new(&ids, &Device::Cpu).expect("numbers");
            let exact = (table64.index_select(&index, 0).expect("rows") * scale).expect("scaled");
            close(&picked.expect("rows"), &exact, if scale == 1.0 { 0.0 } else { most });
        }
    }
}

/// One launch leaves in a cache, to the bit, what those of positions and of rows do: 3 query heads, 2 of keys, of 10
/// values, of which 8 turn.
fn stored_rows_are_those_of_the_kernels_in_turn(dtype: DType) {
    let x = |shape: &[usize], by| values(shape, by, dtype).0;
    let angles = |by| {
        let (angle, _) = values(&[5, 4], by, DType::F32);
        [angle.cos().expect("cos"), angle.sin().expect("sin")]
    };
    let (of_queries, of_keys, places) = (angles(0.2), angles(0.7), numbers(vec![3, 0, 8, 1, 7]));
    let (q, k, v) = (x(&[5, 30], 0.7), x(&[5, 20], 0.4), x(&[5, 20], 0.3));
    let cache = || [x(&[9, 20], 0.1), x(&[9, 20], 0.9)];
    let [keys, values] = cache();
    let turned = q.copy().expect("copy");
    let heads = Heads { queries: 3, keys: 2, dim: 10 };
    let angles = [&of_queries, &of_keys];
    kernels::rope_store([&turned, &k, &v], heads, angles, [&keys, &values], &places).expect("rows");
    let [other_keys, other_values] = cache();
    let [cos, sin] = &of_queries;
    kernels::rope(&q, 10, [cos, sin], false).expect("rope");
    let [cos, sin] = &of_keys;
    kernels::rope(&k, 10, [cos, sin], false).expect("rope");
    kernels::store_rows(&k, &other_keys, &places).expect("rows");
    kernels::store_rows(&v, &other_values, &places).expect("rows");
    for (one, other) in [(&turned, &q), (&keys, &other_keys), (&values, &other_values)] {
        close(one, other, 0.0);
    }
    let few = numbers(vec![3, 0]);
    assert!(kernels::rope_store([&q, &k, &v], heads, angles, [&keys, &values], &few).is_err());
}

/// Holds a gate and its gradients to `exact`; returns the gate's result.
fn check_gate(
    f: Gate,
    exact: impl Fn(&[Tensor]) -> Result<Tensor>,
    [(gate, gate64), (up, up64), (grad, grad64)]: [(&Tensor, &Tensor); 3],
    most: f64,
) -> Tensor {
    let out = kernels::gated(gate, up, f).expect("gate");
    close(&out, &exact(&[gate64.clone(), up64.clone()]).expect("gate"), most);
    let exact = gradients(&[gate64, up64], grad64, exact);
    let (gate, up) = (gate.copy().expect("copy"), up.copy().expect("copy"));
    kernels::gated_back(&gate, &up, grad, f).expect("gradients");
    close(&gate, &exact[0], most);
    close(&up, &exact[1], most);
    out.into_tensor()
}

fn silu_ratio(x: &Tensor) -> Result<Tensor> {
    (x.neg()?.exp()? + 1.0)?.recip()
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

#[test]
fn embedding_gradients_of_equal_tokens_add_up() {
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
fn logp_entropy_and_gradients_equal_f64() {
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
        let exact = gradients(&[&logits64], &grad64, |inputs| logps(&inputs[0])?.gather(&index, 1));
        close(&logits_grad.expect("logits_grad"), &exact[0], most);
    }
}

#[test]
fn adamw_and_gradient_norms_equal_f64() {
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
    let norm: f64 = kernels::squares(&[&gradient, &weight]).expect("squares").iter().sum();
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
fn wrong_sizes_are_refused() {
    let x = |shape: &[usize], dtype| values(shape, 0.3, dtype).0;
    let (wide, half) = (x(&[4, 6], DType::F32), x(&[4, 6], DType::BF16));
    assert!(kernels::add(&wide, &half).is_err());
    assert!(kernels::add(&wide, &x(&[4, 5], DType::F32)).is_err());
    assert!(kernels::add_norm(&wide, None, gain(&x(&[5], DType::F32))).is_err());
    assert!(kernels::add(&wide.t().expect("transposed"), &wide).is_err());
    assert!(kernels::gated(&x(&[2], DType::F64), &x(&[2], DType::F64), Gate::SILU).is_err());
    assert!(!Heads { queries: 64, keys: 1, dim: 64 }.are_known());
    let heads = Heads { queries: 2, keys: 1, dim: 4 };
    let run = Run { first: 0, tokens: 3, sees: 1, start: 2, split: 3, rest: 0, until: 3 };
    let runs = Runs::new(&[run], heads, 0.2).expect("tables");
    let (q, k) = (x(&[3, 8], DType::F32), x(&[3, 4], DType::F32));
    let error = kernels::attention(&q, &k, &k, &runs, None).expect_err("too few keys").to_string();
    assert!(error.contains("has not 5 rows of keys"), "{error}");
}
