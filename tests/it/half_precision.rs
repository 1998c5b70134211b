//! Training in bf16: on a GPU, or on the CPU in its place, and by the CPU's own products.

use candle_core::{DType, Device, Tensor};
use serde_json::json;
use tealight::nn::model::weights::{self, Weights};
use tealight::nn::model::{Architecture, BackendKind};
use tealight::nn::policy::Sequence;

use crate::support::{apart, backends, extend, flat, gradients, graph, tiny};

fn architecture(family: &str) -> Architecture {
    let mut config = json!({"intermediate_size": 40, "head_dim": 12, "tie_word_embeddings": false,
        "initializer_range": 0.2, "rope_theta": 10000.0, "rms_norm_eps": 1e-6});
    if family == "qwen3_5_text" {
        extend(
            &mut config,
            &json!({"full_attention_interval": 2, "partial_rotary_factor": 0.5,
            "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8,
            "linear_value_head_dim": 8}),
        );
    }
    tiny(family, &config)
}

fn rows() -> Vec<Sequence> {
    let completion = |i: u32| (0..6 - i).map(|t| (t * 9 + i) % 50).collect();
    (0..4).map(|i| Sequence { prompt: vec![i / 2, 3, 7], completion: completion(i) }).collect()
}

/// The mean of all tokens' log-probabilities.
fn mean(logp: &Tensor) -> candle_core::Result<Tensor> {
    logp.mean_all()
}

#[test]
fn gradients_in_bf16_point_where_those_in_f64_do() {
    for (family, backend) in ["qwen2", "qwen3", "llama", "qwen3_5_text"]
        .into_iter()
        .flat_map(|f| backends().into_iter().map(move |p| (f, p)))
    {
        let architecture = architecture(family);
        let fresh = weights::random(&architecture, 3, &Device::Cpu).expect("weights");
        let half = backend.halves(&fresh);
        let variables = graph::variables(&half);
        let tracked = graph::tracked(&variables);
        let (exact_logp, exact) =
            graph::gradients(&architecture, &tracked, &variables, (&rows(), 0.9), mean);
        for is_again in [false, true] {
            let mut policy = backend.policy(&architecture, &half);
            if is_again {
                policy = policy.recomputing();
            }
            let (logp, found) = gradients(&policy, (&rows(), 0.9), mean);
            for (ours, exact) in logp.iter().zip(&exact_logp) {
                assert!((f64::from(*ours) - exact).abs() < 0.1, "{ours} is not {exact}");
            }
            assert_eq!(found.len(), fresh.len());
            for (name, exact) in &exact {
                let (ours, exact) = (flat(&found[name]), flat(exact));
                let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
                let cosine = dot(&ours, &exact) / (dot(&ours, &ours) * dot(&exact, &exact)).sqrt();
                assert!(cosine > 0.99, "{family} {name}: {cosine}");
            }
        }
    }
}

#[test]
fn weights_stay_f32_and_steps_too_small_for_bf16_add_up() {
    for backend in backends() {
        let architecture = architecture("qwen2");
        let fresh = weights::random(&architecture, 3, &Device::Cpu).expect("weights");
        let policy = backend.policy(&architecture, &backend.halves(&fresh));
        let value = || gradients(&policy, (&rows(), 0.9), mean).0;
        assert!(policy.weights().values().all(|var| var.dtype() == DType::F32));
        let is_gpu = backend.kind == BackendKind::Gpu;
        assert_eq!(policy.decoder().dtype(), if is_gpu { DType::BF16 } else { DType::F32 });
        let before = value();
        let name = "model.layers.0.mlp.down_proj.weight";
        let copy = |(name, x): (String, Tensor)| (name, x.copy().expect("a copy"));
        let mut moved: Weights = policy.tensors().into_iter().map(copy).collect();
        for _ in 0..64 {
            // 2^-12 of a weight is nothing to bf16, sixty-four of them are 2^-6.
            moved.insert(name.into(), (&moved[name] * (1.0 + 1.0 / 4096.0)).expect("larger"));
            policy.restore(&moved).expect("restored");
        }
        assert_ne!(value(), before, "the decoder sees the sum of the steps");
        let tensors = policy.tensors();
        assert_eq!(apart(&tensors[name], &moved[name]), 0.0);
    }
}
