//! The layers written out for the CPU against the same decoder as a graph of Candle's operations in f64, in
//! value and gradient, and the promise that a token's numbers do not depend on its batch.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use serde_json::json;
use tealight::model::weights::{self, Weights};
use tealight::model::{Architecture, Precision, Spans};
use tealight::policy::{self, Policy, Sequence};

/// One of every kind of layer: biases, norms of queries and keys, a head of its own.
fn architectures() -> Vec<Architecture> {
    let config = |family: &str, tied: bool| {
        json!({
            "model_type": family, "vocab_size": 50, "hidden_size": 32, "intermediate_size": 40,
            "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
            "max_position_embeddings": 64, "tie_word_embeddings": tied, "initializer_range": 0.3,
            "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
        })
    };
    [("qwen2", true), ("qwen3", false), ("llama", true)]
        .into_iter()
        .map(|(family, tied)| Architecture::from_config(&config(family, tied)).expect("config"))
        .collect()
}

fn to_f64(weights: &Weights) -> Weights {
    let wide = |(name, x): (&String, &Tensor)| (name.clone(), x.to_dtype(DType::F64).expect("f64"));
    weights.iter().map(wide).collect()
}

/// Random weights, norms and biases included.
fn random(architecture: &Architecture) -> Weights {
    let noise = |(index, (name, x)): (usize, (String, Tensor))| {
        let wave = Tensor::arange(0f32, x.elem_count() as f32, &Device::Cpu);
        let wave = wave.and_then(|i| ((i + index as f64)? * 1.7)?.sin()?.reshape(x.shape()));
        (name, (x + (wave.expect("wave") * 0.2).expect("wave")).expect("sum"))
    };
    let fresh = weights::random(architecture, 3, &Device::Cpu).expect("weights");
    fresh.into_iter().enumerate().map(noise).collect()
}

fn flat(x: &Tensor) -> Vec<f64> {
    x.to_dtype(DType::F64).and_then(|x| x.flatten_all()?.to_vec1()).expect("values")
}

fn close(ours: &Tensor, exact: &Tensor, what: &str) {
    let (ours, exact) = (flat(ours), flat(exact));
    let largest = exact.iter().fold(1e-3_f64, |most, x| most.max(x.abs()));
    for (ours, exact) in ours.iter().zip(&exact) {
        assert!((ours - exact).abs() < 2e-5 * largest, "{what}: {ours} is not {exact}");
    }
}

/// Whether what is computed of a token does not depend on its batch, to the bit: Candle's products, which a GPU's
/// path uses, do not promise that.
const IS_EXACT: bool = !cfg!(feature = "emulated-gpu");

/// The same bits, or nearly.
#[track_caller]
fn same(some: &[Vec<f64>], others: &[Vec<f64>]) {
    let (some, others) = (some.concat(), others.concat());
    assert_eq!(some.len(), others.len());
    for (some, other) in some.iter().zip(&others) {
        assert!(some == other || !IS_EXACT && (some - other).abs() < 1e-5, "{some}: {other}");
    }
}

/// Hidden states under `spans` and the gradients of a weighted sum of them.
fn run(policy: &Policy, ids: &Tensor, spans: &Spans) -> (Tensor, BTreeMap<String, Tensor>) {
    let hidden = policy.with_grad().hidden(ids, &Arc::new(spans.clone()), None).expect("hidden");
    let count = hidden.elem_count();
    let weight = Tensor::arange(0f32, count as f32, &Device::Cpu).and_then(|i| (i * 0.61)?.cos());
    let weight = weight.and_then(|w| w.reshape(hidden.shape())?.to_dtype(hidden.dtype()));
    let loss = (&hidden * weight.expect("weights")).and_then(|x| x.sum_all()).expect("loss");
    policy.backward(&loss).expect("gradients");
    (hidden, policy.take_gradients().expect("gradients"))
}

/// Three sequences; two that continue a third, beside one of their own.
fn kinds_of_spans() -> [Spans; 2] {
    let mut branches = Spans::default();
    let trunk = branches.begin(6);
    branches.branch(trunk, 5);
    branches.branch(trunk, 9);
    branches.begin(7);
    [Spans::from_start([9, 11, 7]), branches]
}

#[test]
fn layers_agree_with_the_graph_in_f64_under_every_kind_of_span() {
    let ids = Tensor::from_vec((0..27_u32).map(|i| i * 7 % 50).collect(), 27, &Device::Cpu);
    let ids = ids.expect("ids");
    for architecture in architectures() {
        let weights = random(&architecture);
        let exact = Policy::new(&architecture, &to_f64(&weights)).expect("policy");
        let kept = Policy::new(&architecture, &weights).expect("policy");
        let again = Policy::new(&architecture, &weights).expect("policy").recomputing();
        let again = again.expect("on the CPU");
        for spans in kinds_of_spans() {
            let (hidden, gradients) = run(&exact, &ids, &spans);
            let (ours, found) = run(&kept, &ids, &spans);
            close(&ours, &hidden, "hidden");
            for (name, exact) in &gradients {
                close(&found[name], exact, name);
            }
            assert_eq!(found.len() + usize::from(!architecture.tied_embeddings), weights.len());
            // Computing layers again gives the same bits.
            let (repeated, twice) = run(&again, &ids, &spans);
            assert_eq!(flat(&ours), flat(&repeated));
            for (name, gradient) in &found {
                assert_eq!(flat(gradient), flat(&twice[name]), "{name}");
            }
            // And so does a pass without a gradient.
            let frozen =
                kept.frozen().hidden(&ids, &Arc::new(spans.clone()), None).expect("hidden");
            assert_eq!(flat(&ours), flat(&frozen));
        }
    }
}

#[test]
fn completions_that_share_their_prompt_are_computed_as_if_they_did_not() {
    let row =
        |completion: &[u32]| Sequence { prompt: vec![7, 3, 9], completion: completion.into() };
    let other = Sequence { prompt: vec![1], completion: vec![2] };
    // A neighbour with another prompt in between keeps the last two apart.
    let shared = [row(&[4, 5, 6]), row(&[8]), row(&[]), row(&[4, 4])];
    let apart = [row(&[4, 5, 6]), other.clone(), row(&[8]), other.clone(), row(&[4, 4])];
    for architecture in architectures() {
        let weights = random(&architecture);
        let run = |weights: &Weights, rows: &[Sequence]| {
            let policy = Policy::new(&architecture, weights).expect("policy");
            let logp = policy::token_logp(policy.with_grad(), rows, 0.8).expect("logp").logp;
            let of_other = |row: &Sequence| if *row == other { 0.0 } else { 1.0 };
            let counted: Vec<f64> = rows.iter().map(of_other).collect();
            let counted = Tensor::from_vec(counted, (rows.len(), 1), &Device::Cpu);
            let counted = counted.and_then(|x| x.to_dtype(logp.dtype())).expect("mask");
            let logp = logp.broadcast_mul(&counted).expect("masked");
            let loss = logp.sqr().and_then(|x| x.sum_all()).expect("loss");
            policy.backward(&loss).expect("gradients");
            let logp = logp.to_dtype(DType::F64).and_then(|x| x.to_vec2::<f64>()).expect("logp");
            (logp, policy.take_gradients().expect("gradients"))
        };
        let ((one, found), (each, singly)) = (run(&weights, &shared), run(&weights, &apart));
        let pick = |of: &[Vec<f64>], rows: [usize; 3]| rows.map(|row| of[row].clone());
        same(&pick(&one, [0, 1, 3]), &pick(&each, [0, 2, 4]));
        let (_, exact) = run(&to_f64(&weights), &shared);
        for (name, exact) in &exact {
            close(&found[name], exact, name);
            close(&singly[name], exact, name);
        }
    }
}

#[test]
fn log_probabilities_and_their_gradients_agree_with_the_graph_in_f64() {
    let rows: Vec<Sequence> = (0..4_u32)
        .map(|i| Sequence {
            prompt: vec![i, 3],
            completion: (0..5 - i).map(|t| t * 9 + i).collect(),
        })
        .collect();
    for architecture in architectures() {
        let weights = random(&architecture);
        let run = |weights: &Weights| {
            let policy = Policy::new(&architecture, weights).expect("policy");
            let logp = policy::token_logp(policy.with_grad(), &rows, 0.8).expect("logp").logp;
            policy
                .backward(&logp.sqr().and_then(|x| x.sum_all()).expect("loss"))
                .expect("gradients");
            (logp, policy.take_gradients().expect("gradients"))
        };
        let ((ours, found), (exact, gradients)) = (run(&weights), run(&to_f64(&weights)));
        close(&ours, &exact, "log-probabilities");
        assert_eq!(found.len(), weights.len());
        for (name, exact) in &gradients {
            close(&found[name], exact, name);
        }
    }
}

/// The same bits alone and in company, where the processor has our products.
#[test]
fn a_sequence_is_worth_the_same_bits_in_every_batch() {
    let rows: Vec<Sequence> = (0..9_u32)
        .map(|i| Sequence {
            prompt: vec![i, 1, 2],
            completion: (0..3 + i).map(|t| t * 5 % 50).collect(),
        })
        .collect();
    for precision in [Precision::F32, Precision::Bf16] {
        if !tealight_matmul::supports(precision) {
            continue;
        }
        for mut architecture in architectures() {
            architecture.precision = precision;
            let decoder =
                policy::frozen_decoder(&architecture, &random(&architecture)).expect("decoder");
            let logp = |rows: &[Sequence]| -> Vec<Vec<f64>> {
                let logp = policy::token_logp(&decoder, rows, 1.0).expect("logp").logp;
                logp.to_dtype(DType::F64).and_then(|x| x.to_vec2()).expect("rows")
            };
            let all = logp(&rows);
            for (row, all) in rows.iter().zip(&all) {
                same(&logp(std::slice::from_ref(row)), &[all[..row.completion.len()].to_vec()]);
            }
        }
    }
}

#[test]
fn what_cannot_be_done_is_refused() {
    let architecture = &architectures()[0];
    let policy = Policy::new(architecture, &random(architecture)).expect("policy");
    let ids = Tensor::new(&[1u32, 50], &Device::Cpu).expect("ids");
    let hidden = |spans| policy.frozen().hidden(&ids, &Arc::new(spans), None);
    let said = hidden(Spans::from_start([3])).expect_err("too few").to_string();
    assert!(said.contains("2 tokens where the spans have 3"), "{said}");
    let spans = Arc::new(Spans::from_start([2]));
    let said = policy.frozen().hidden(&ids, &spans, None).expect_err("beyond").to_string();
    assert!(said.contains("token 50 is beyond the vocabulary of 50"), "{said}");
    let row = [Sequence { prompt: vec![1], completion: vec![50] }];
    let said = policy::token_logp(policy.frozen(), &row, 1.0).err().expect("beyond").to_string();
    assert!(said.contains("token 50"), "{said}");
    let row = [Sequence { prompt: vec![1], completion: vec![5] }];
    let logp = policy::token_logp(policy.with_grad(), &row, 1.0).expect("logp").logp;
    let loss = logp.sum_all().expect("loss");
    policy.backward(&loss).expect("once");
    let said = policy.backward(&loss).expect_err("twice").to_string();
    assert!(said.contains("second backward pass"), "{said}");
}
