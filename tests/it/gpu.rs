//! Training in bf16 on a GPU's path, which runs on the CPU here: `cargo test --features emulated-gpu`.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use tealight::model::Architecture;
use tealight::model::weights::{self, Weights};
use tealight::policy::{self, Policy, Sequence};

fn architecture(family: &str) -> Architecture {
    let config = serde_json::json!({
        "model_type": family, "vocab_size": 50, "hidden_size": 32, "intermediate_size": 40,
        "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12,
        "max_position_embeddings": 64, "tie_word_embeddings": false, "initializer_range": 0.2,
        "rope_theta": 10000.0, "rms_norm_eps": 1e-6,
    });
    Architecture::from_config(&config).expect("config")
}

fn rows() -> Vec<Sequence> {
    let completion = |i: u32| (0..6 - i).map(|t| (t * 9 + i) % 50).collect();
    (0..4).map(|i| Sequence { prompt: vec![i / 2, 3, 7], completion: completion(i) }).collect()
}

/// The mean log-probability of all tokens and its gradients.
fn value(policy: &Policy) -> (f64, BTreeMap<String, Tensor>) {
    let logp = policy::token_logp(policy.with_grad(), &rows(), 0.9).expect("logp").logp;
    let mean = (logp.sum_all().expect("sum") / 18.0).expect("mean");
    policy.backward(&mean).expect("gradients");
    let value = mean.to_dtype(DType::F64).and_then(|x| x.to_scalar()).expect("value");
    (value, policy.take_gradients().expect("gradients"))
}

fn cast(weights: &Weights, dtype: DType) -> Weights {
    let cast = |(name, x): (&String, &Tensor)| (name.clone(), x.to_dtype(dtype).expect("cast"));
    weights.iter().map(cast).collect()
}

#[test]
fn gradients_in_bf16_point_where_those_in_f64_do() {
    for family in ["qwen2", "qwen3", "llama"] {
        let architecture = architecture(family);
        let fresh = weights::random(&architecture, 3, &Device::Cpu).expect("weights");
        let half = cast(&fresh, DType::BF16);
        let exact = Policy::new(&architecture, &cast(&half, DType::F64)).expect("policy");
        let (exact_value, exact) = value(&exact);
        for is_again in [false, true] {
            let mut policy = Policy::new(&architecture, &half).expect("policy");
            if is_again {
                policy = policy.recomputing().expect("known layers");
            }
            let (ours, found) = value(&policy);
            assert!((ours - exact_value).abs() < 2e-2, "{ours} is not {exact_value}");
            assert_eq!(found.len(), fresh.len());
            for (name, exact) in &exact {
                let flat = |x: &Tensor| {
                    x.to_dtype(DType::F64).and_then(|x| x.flatten_all()?.to_vec1::<f64>())
                };
                let (ours, exact) = (flat(&found[name]).expect("f64"), flat(exact).expect("f64"));
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let cosine = dot(&ours, &exact) / (dot(&ours, &ours) * dot(&exact, &exact)).sqrt();
                assert!(cosine > 0.99, "{family} {name}: {cosine}");
            }
        }
    }
}

#[test]
fn weights_stay_f32_and_steps_too_small_for_bf16_add_up() {
    let architecture = architecture("qwen2");
    let fresh = weights::random(&architecture, 3, &Device::Cpu).expect("weights");
    let policy = Policy::new(&architecture, &cast(&fresh, DType::BF16)).expect("policy");
    assert!(policy.weights().values().all(|var| var.dtype() == DType::F32));
    assert_eq!(policy.frozen().embedding().dtype(), DType::BF16);
    let before = value(&policy).0;
    let name = "model.layers.0.mlp.down_proj.weight";
    let copy = |(name, x): (String, Tensor)| (name, x.copy().expect("a copy"));
    let mut moved: Weights = policy.tensors().into_iter().map(copy).collect();
    for _ in 0..64 {
        // 2^-12 of a weight is nothing to bf16, sixty-four of them are 2^-6.
        moved.insert(name.into(), (&moved[name] * (1.0 + 1.0 / 4096.0)).expect("larger"));
        policy.restore(&moved).expect("restored");
    }
    assert_ne!(value(&policy).0, before, "the decoders see the sum of the steps");
    let kept = policy.tensors();
    let apart = (&kept[name] - &moved[name]).and_then(|x| x.abs()?.max_all()).expect("difference");
    assert_eq!(apart.to_scalar::<f32>().expect("f32"), 0.0);
}
