//! Models of candle-transformers: a second implementation of ours, and families that are evaluated and not trained.

use std::path::Path;

use candle_core::{DType, Device, Tensor};
use candle_nn::{VarBuilder, VarMap};
use candle_transformers::models as m;
use serde_json::{Value, json};
use tealight::formats::gguf::GgufType;
use tealight::nn::device::{Placement, Precision};
use tealight::nn::generate::{CandleModel, RngKey, candle_families};
use tealight::nn::model::{Architecture, PackedSequences, weights};
use tealight::nn::policy::frozen_decoder;
use tealight::solvers::sampled::Sampled;

use crate::support::binary::{Folder, command, ok, refused};
use crate::support::runs::{json as read_json, summary};
use crate::support::{conformance as fixture, extend, load, remade, sampling};

const IDS: [u32; 9] = [5, 7, 100, 12, 64, 3, 99, 41, 8];

/// Our logits of the last token.
fn ours(architecture: &Architecture, weights: &weights::Weights) -> Vec<f32> {
    let decoder = frozen_decoder(architecture, weights).expect("a decoder");
    let packed = PackedSequences::from_start([IDS.len()]);
    let hidden = decoder.hidden(&IDS, &packed, None).expect("a pass");
    let last = hidden.narrow(0, IDS.len() - 1, 1).expect("the last");
    decoder.logits(&last).and_then(|x| x.flatten_all()?.to_vec1()).expect("logits")
}

fn row(logits: &Tensor, index: usize) -> Vec<f32> {
    logits.get(index).and_then(|x| x.to_vec1()).expect("a row")
}

fn assert_close(found: &[f32], exact: &[f32], most: f32, what: &str) {
    assert_eq!(found.len(), exact.len(), "{what}");
    for (found, exact) in found.iter().zip(exact) {
        assert!((found - exact).abs() < most, "{what}: {found} is not {exact}");
    }
}

#[test]
fn candle_transformers_logits_equal_ours() {
    for name in ["micro-llama", "micro-llama-tied", "micro-qwen2", "micro-qwen3", "family-gemma3"] {
        let folder = fixture(name);
        let (_, mut config) = Architecture::read(&folder.join("config.json")).expect("a config");
        if name == "family-gemma3" {
            let result = CandleModel::new(&config, weights::Weights::new(), &Device::Cpu);
            let error = format!("{:#}", result.err().expect("another scale"));
            assert!(error.contains("query_pre_attn_scalar"), "{error}");
            config["query_pre_attn_scalar"] = config["head_dim"].clone();
        }
        let architecture = Architecture::from_config(&config).expect("a config");
        let own = weights::load(&folder, &architecture, Placement::F32).expect("weights");
        let all = weights::load_all(&folder, Placement::F32).expect("weights");
        let model = CandleModel::new(&config, all, &Device::Cpu).expect(name);
        let exact = ours(&architecture, &own);
        let found = model.logits(&[&IDS, &IDS]).expect("logits");
        assert_close(&row(&found, 0), &exact, 1e-4, name);
        assert_close(&row(&found, 1), &exact, 1e-4, name);
    }
}

#[test]
fn quantised_files_agree_with_their_dequantised_weights() {
    for name in ["micro-llama", "micro-qwen2", "micro-qwen3"] {
        let place = tempfile::tempdir().expect("a folder");
        let model = remade(name, 1, |config| config["intermediate_size"] = json!(160));
        let precision = Precision::default();
        for (kind, most) in [(GgufType::F32, 1e-3), (GgufType::Q8_0, 4e-2)] {
            let file = model.save_gguf(&model.weights, kind, place.path()).expect("written");
            let file = file.display().to_string();
            let wide = load(&file);
            let exact = ours(&wide.architecture, &wide.weights);
            let narrow = Sampled::quantized(&file, precision, &Device::Cpu).expect(name);
            let found = narrow.candle().expect("candle's").logits(&[&IDS]).expect("logits");
            // Candle rounds activations to 8 bits for products with such weights.
            let found = row(&found, 0);
            let size = |values: &[f32]| values.iter().map(|x| x * x).sum::<f32>().sqrt();
            let apart: Vec<f32> = found.iter().zip(&exact).map(|(a, b)| a - b).collect();
            let share = size(&apart) / size(&exact);
            assert!(share < most, "{name} {kind:?}: {share} of the logits");
        }
    }
}

type Make = fn(&Value, VarBuilder<'_>) -> candle_core::Result<()>;

fn parsed<C: serde::de::DeserializeOwned>(config: &Value) -> C {
    serde_json::from_value(config.clone()).expect("a config")
}

macro_rules! made {
    ($config:ty, $model:ty) => {
        |config, vb| <$model>::new(&parsed::<$config>(config), vb).map(drop)
    };
}

/// Families that only candle-transformers knows: what makes their weights, and what their configurations say beside
/// what all say; `null` is said of keys that a family has not.
fn foreign() -> Vec<(&'static str, Make, Value)> {
    let gemma = json!({"hidden_act": null, "tie_word_embeddings": true, "attention_bias": false, "head_dim": 8, "hidden_activation": "gelu_pytorch_tanh"});
    let mut gemma2 = gemma.clone();
    extend(
        &mut gemma2,
        &json!({"final_logit_softcapping": 30.0, "attn_logit_softcapping": 50.0,
        "query_pre_attn_scalar": 8, "sliding_window": 64}),
    );
    let mut experts = json!({"sliding_window": 64, "max_window_layers": 2, "use_sliding_window": false,
        "decoder_sparse_step": 1, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 16,
        "num_experts_per_tok": 2, "num_experts": 4, "norm_topk_prob": true, "attention_bias": false});
    let shared = experts.clone();
    extend(&mut experts, &json!({"head_dim": 8, "shared_expert_intermediate_size": null}));
    vec![
        ("gemma", |c, vb| m::gemma::Model::new(false, &parsed(c), vb).map(drop), gemma),
        ("gemma2", |c, vb| m::gemma2::Model::new(false, &parsed(c), vb).map(drop), gemma2),
        (
            "falcon",
            |c, vb| m::falcon::Falcon::load(vb, parsed(c)).map(drop),
            json!({"layer_norm_epsilon": 1e-5, "use_cache": true, "bos_token_id": 1, "eos_token_id": 1,
                "hidden_dropout": 0.0, "attention_dropout": 0.0, "alibi": false, "intermediate_size": null,
                "num_key_value_heads": null, "rms_norm_eps": null, "hidden_act": null,
                "new_decoder_architecture": false, "multi_query": true, "parallel_attn": true, "bias": false}),
        ),
        (
            "glm4",
            made!(m::glm4_new::Config, m::glm4_new::ModelForCausalLM),
            json!({"partial_rotary_factor": 0.5, "attention_bias": true, "head_dim": 8}),
        ),
        (
            "mixtral",
            made!(m::mixtral::Config, m::mixtral::Model),
            json!({"sliding_window": 64, "num_experts_per_tok": 2, "num_local_experts": 4,
                "use_flash_attn": false}),
        ),
        (
            "olmo",
            made!(m::olmo::Config, m::olmo::Model),
            json!({"attention_bias": false, "rms_norm_eps": null}),
        ),
        (
            "phi",
            made!(m::phi::Config, m::phi::Model),
            json!({"hidden_act": "gelu_new", "layer_norm_eps": 1e-5, "partial_rotary_factor": 0.5,
                "qk_layernorm": false, "rms_norm_eps": null}),
        ),
        ("qwen2_moe", made!(m::qwen2_moe::Config, m::qwen2_moe::Model), shared),
        ("qwen3_moe", made!(m::qwen3_moe::Config, m::qwen3_moe::ModelForCausalLM), experts),
        (
            "stablelm",
            made!(m::stable_lm::Config, m::stable_lm::Model),
            json!({"partial_rotary_factor": 0.5, "layer_norm_eps": 1e-5, "use_cache": true, "rms_norm_eps": null}),
        ),
        (
            "starcoder2",
            made!(m::starcoder2::Config, m::starcoder2::Model),
            json!({"norm_epsilon": 1e-5, "use_bias": true, "hidden_act": "gelu_pytorch_tanh",
                "tie_word_embeddings": true, "rms_norm_eps": null}),
        ),
    ]
}

/// Writes a small model of random weights.
fn write(folder: &Path, family: &str, make: Make, more: &Value) {
    let mut config = json!({"model_type": family, "vocab_size": 128, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": false, "hidden_act": "silu",
        "initializer_range": 0.02});
    extend(&mut config, more);
    config.as_object_mut().expect("keys").retain(|_, value| !value.is_null());
    let made = VarMap::new();
    make(&config, VarBuilder::from_varmap(&made, DType::F32, &Device::Cpu)).expect(family);
    // Candle's own start is random; this is the same every time.
    let vars = made.data().lock().expect("no panic");
    let mut names: Vec<_> = vars.keys().cloned().collect();
    names.sort();
    let mut weights = weights::Weights::new();
    for (number, name) in names.into_iter().enumerate() {
        let shape = vars[&name].shape().clone();
        let base = if name.contains("norm") && name.ends_with("weight") { 1.0 } else { 0.0 };
        let wave = (0..shape.elem_count())
            .map(|i| base + 0.2 * ((i * 7919 + number * 104_729) as f32 * 0.37).sin())
            .collect();
        weights.insert(name, Tensor::from_vec(wave, shape, &Device::Cpu).expect("a weight"));
    }
    weights::save(&weights, &folder.join("model.safetensors")).expect("written");
    std::fs::write(folder.join("config.json"), config.to_string()).expect("written");
    for file in ["tokenizer.json", "tokenizer_config.json", "generation_config.json"] {
        std::fs::copy(fixture("micro-llama").join(file), folder.join(file)).expect(file);
    }
}

#[test]
fn cached_sampling_equals_uncached_for_every_family() {
    let greedy = sampling(0.0, 6, &[]);
    for (family, make, more) in foreign() {
        assert!(!Architecture::knows(family) && candle_families().any(|name| name == family));
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), family, make, &more);
        let name = folder.path().display().to_string();
        let model = Sampled::open_candle_transformers(&name, Precision::default(), &Device::Cpu);
        let model = model.expect(family).expect("not ours");
        let candle = model.candle().expect("candle's");
        // Twice: what the first has seen is forgotten.
        for _ in 0..2 {
            let mut ids = IDS.to_vec();
            let mut sampled = Vec::new();
            let key = RngKey { seed: 0, step: 0 };
            let mut sink = |token: u32, logp: f32| {
                sampled.push((token, logp));
                Ok(())
            };
            model.stream(&IDS, &greedy, key, &mut sink).expect(family);
            for (token, logp) in sampled {
                let logits = row(&candle.logits(&[&ids]).expect("logits"), 0);
                let top = logits.iter().copied().fold(f32::MIN, f32::max);
                let mass: f32 = logits.iter().map(|x| (x - top).exp()).sum();
                let exact = logits[token as usize] - top - mass.ln();
                assert!((logp - exact).abs() < 1e-4, "{family}: {logp} is not {exact}");
                assert!(logits[token as usize] > top - 1e-4, "{family}: not the most likely");
                ids.push(token);
            }
        }
    }
}

#[test]
fn candle_models_evaluate_and_generate_but_do_not_train() {
    let folder = Folder::new();
    let model = folder.path("gemma2");
    std::fs::create_dir(&model).expect("a folder");
    let (family, make, more) = foreign().swap_remove(1);
    write(Path::new(&model), family, make, &more);
    let out = folder.path("eval");
    let eval = format!("eval --dataset countdown -n 4 -k 1,4 --max-samples 3 --model {model}");
    let stderr = ok(command!("{eval} --max-completion-length 6 --output {out}"));
    assert!(stderr.contains("evaluation only, candle-transformers' gemma2"), "{stderr}");
    assert_eq!(summary(&out)["problems"], 3);
    ok(command!("generate 2+2 --model {model} -n 2 --max-completion-length 6"));
    let run = folder.path("run");
    refused!("train --model {model} --output {run}" => "`gemma2` is not supported", "for eval");
    refused!("eval --quantized --model {model} --output {out}" => "for GGUF files");
    // Untrusted sizes, and a configuration that makes the library panic or fail.
    for (key, value, reason) in [
        ("num_attention_heads", json!(0), "num_attention_heads"),
        ("vocab_size", json!(1_u64 << 40), "vocab_size"),
        ("hidden_size", json!(64), "shape"),
        ("max_position_embeddings", json!(1 << 22), "a context of"),
        ("hidden_activation", json!(7), "candle-transformers"),
    ] {
        let path = Path::new(&model).join("config.json");
        let good = std::fs::read(&path).expect("a config");
        let mut config = read_json(&path);
        config[key] = value;
        std::fs::write(&path, config.to_string()).expect("written");
        refused!("eval --model {model} --output {out}" => reason);
        std::fs::write(&path, good).expect("written");
    }
}
