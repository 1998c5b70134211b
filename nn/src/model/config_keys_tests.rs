//! Tests of the table of keys: what is taken, refused by name, ignored, and completed.

use super::*;

fn refusal(config: &Value, decoder: Decoder) -> String {
    completed(config, decoder).err().map_or("taken".into(), |error| format!("{error:#}"))
}

/// Configurations as transformers 5.24 writes them, with each family's defaults.
#[test]
fn what_transformers_writes_is_taken() {
    for (decoder, rows) in [(Decoder::Own, &TABLE.own), (Decoder::Candle, &TABLE.candle)] {
        for (family, row) in rows {
            let mut config = Value::Object(row.keys.clone());
            config["model_type"] = json!(family);
            config["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 1e4});
            for key in ["dtype", "transformers_version", "_name_or_path"] {
                config[key] = json!("x");
            }
            config["use_cache"] = json!(true);
            assert_eq!(refusal(&config, decoder), "taken", "{family}");
        }
    }
}

#[test]
fn keys_that_are_not_honoured_are_refused_by_name() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0});
    for family in TABLE.candle.keys() {
        for (key, value) in [("rope_scaling", &yarn), ("rope_parameters", &yarn)] {
            let mut config = json!({"model_type": family});
            config[key] = value.clone();
            let message = refusal(&config, Decoder::Candle);
            assert!(message.contains(key), "{family}: {message}");
        }
    }
    for (family, key, value) in [
        ("stablelm", "qk_layernorm", json!(true)),
        ("stablelm", "use_parallel_residual", json!(true)),
        ("starcoder2", "mlp_type", json!("gated")),
        ("starcoder2", "tie_word_embeddings", json!(false)),
        ("qwen2_moe", "qkv_bias", json!(false)),
        ("falcon", "alibi", json!(true)),
        ("falcon", "ffn_hidden_size", json!(7)),
        ("qwen3_moe", "mlp_only_layers", json!([1])),
        ("qwen2_moe", "a_key_of_next_year", json!(1.5)),
        ("mixtral", "head_dim", json!(64)),
        ("gemma2", "rope_scaling", json!(3)),
        ("glm4", "quantization_config", json!(4)),
    ] {
        let mut config = json!({"model_type": family, "hidden_size": 64, "num_attention_heads": 4});
        config[key] = value;
        let message = refusal(&config, Decoder::Candle);
        assert!(message.contains(key), "{family}: {message}");
    }
    for (family, key, value) in [
        ("llama", "rope_scaling", json!(3)),
        ("llama", "quantization_config", json!("bitsandbytes")),
        ("llama", "mlp_bias", json!(true)),
        ("mistral", "layer_types", json!(["full_attention"])),
        ("qwen2", "partial_rotary_factor", json!(0.5)),
        ("qwen2", "layer_norm_type", json!("rms")),
        ("qwen3", "rope_parameters", json!({"rope_type": "yarn", "new": 1})),
        ("gemma3_text", "use_bidirectional_attention", json!(true)),
        ("granite", "a_key_of_next_year", json!("x")),
        // Layers of these families share one rotation.
        ("llama", "rope_parameters", json!({"full_attention": {"rope_theta": 77}})),
        ("qwen3", "rope_scaling", json!({"sliding_attention": {"rope_theta": 77}})),
        ("llama", "layer_types", json!(["full_attention", "sliding_attention"])),
    ] {
        let mut config = json!({"model_type": family});
        config[key] = value;
        let message = refusal(&config, Decoder::Own);
        assert!(message.contains(key), "{family}: {message}");
    }
    // Keys of other families, which transformers ignores in this one.
    for (family, key, value) in [
        ("olmo3", "sliding_window_pattern", json!(2)),
        ("qwen2", "attention_bias", json!(true)),
        ("qwen2", "full_attention_interval", json!(2)),
        ("llama", "hidden_activation", json!("gelu_pytorch_tanh")),
        ("llama", "max_window_layers", json!(28)),
        ("qwen3", "partial_rotary_factor", json!(1.0)),
    ] {
        let mut config = json!({"model_type": family});
        config[key] = value;
        let taken = completed(&config, Decoder::Own).unwrap();
        assert!(taken.get(key).is_none() || key == SHARE, "{family} {key}");
    }
    for off in [json!(null), json!(false), json!(0), json!([]), json!("")] {
        let config = json!({"model_type": "llama", "a_key_of_next_year": off});
        assert_eq!(refusal(&config, Decoder::Own), "taken");
    }
}

/// Public configurations have them.
#[test]
fn keys_that_transformers_ignores_are_taken() {
    for (decoder, config) in [
        (
            Decoder::Own,
            json!({"model_type": "qwen3", "rope_scaling": {"rope_type": "yarn", "factor": 4.0,
            "attn_factor": 0.8782488562869419}}),
        ),
        (
            Decoder::Own,
            json!({"model_type": "llama", "rope_scaling": {"type": "yarn", "factor": 16.0,
            "finetuned": true, ORIGINAL: 4096}}),
        ),
        (
            Decoder::Own,
            json!({"model_type": "qwen2", "dual_chunk_attention_config": {"chunk_size": 262144}}),
        ),
        (
            Decoder::Candle,
            json!({"model_type": "qwen2", "rotary_emb_base": 1e6, "seq_length": 65536}),
        ),
        (Decoder::Candle, json!({"model_type": "qwen3_moe", "use_qk_norm": true})),
        (Decoder::Own, json!({"model_type": "llama", ORIGINAL: 4096, "rope_scaling": {}})),
        (
            Decoder::Own,
            json!({"model_type": "granite", ORIGINAL: 4096,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4}}),
        ),
        (Decoder::Own, json!({"model_type": "llama", "layer_types": ["full_attention"]})),
        (Decoder::Candle, json!({"model_type": "glm4", "layer_types": ["full_attention"]})),
    ] {
        assert_eq!(refusal(&config, decoder), "taken", "{config}");
    }
    // transformers reads the original context beside a scaling, ministral3's own included.
    for config in [
        json!({"model_type": "llama", ORIGINAL: 4096, "rope_scaling": {"type": "yarn", "factor": 4.0}}),
        json!({"model_type": "ministral3", ORIGINAL: 4096}),
    ] {
        assert!(refusal(&config, Decoder::Own).contains(ORIGINAL), "{config}");
    }
}

#[test]
fn absent_keys_are_what_transformers_takes() {
    let filled = |family: &str, more: &Value| {
        let mut config = json!({"model_type": family, "num_hidden_layers": 8});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        completed(&config, Decoder::Own).unwrap()
    };
    assert_eq!(filled("olmo2", &json!({}))["rms_norm_eps"], 1e-5);
    assert_eq!(filled("olmo2", &json!({}))["rope_theta"], 1e4);
    assert_eq!(filled("phi3", &json!({}))["rms_norm_eps"], 1e-5);
    assert_eq!(filled("mistral", &json!({}))["sliding_window"], 4096);
    assert_eq!(filled("mistral", &json!({"sliding_window": null}))["sliding_window"], json!(null));
    assert_eq!(filled("qwen2", &json!({}))["num_key_value_heads"], 32);
    for family in ["llama", "mistral"] {
        let few = filled(family, &json!({"num_attention_heads": 4}));
        assert_eq!(few["num_key_value_heads"], 4, "{family}");
    }
    assert_eq!(filled("smollm3", &json!({}))["no_rope_layers"], json!([1, 1, 1, 0, 1, 1, 1, 0]));
    let every = filled("smollm3", &json!({"no_rope_layer_interval": 2}));
    assert_eq!(every["no_rope_layers"], json!([1, 0, 1, 0, 1, 0, 1, 0]));
    let count = |config: &Value, kind: &str| {
        config["layer_types"].as_array().unwrap().iter().filter(|one| **one == kind).count()
    };
    let windows = json!({"use_sliding_window": true, "sliding_window": 8});
    assert_eq!(count(&filled("qwen2", &windows), "sliding_attention"), 0, "from layer 28 on");
    assert_eq!(count(&filled("smollm3", &windows), "sliding_attention"), 2);
    let some = json!({"use_sliding_window": true, "max_window_layers": 5});
    assert_eq!(count(&filled("qwen3", &some), "sliding_attention"), 3);
    assert_eq!(count(&filled("gemma3_text", &json!({})), "sliding_attention"), 7);
    assert_eq!(count(&filled("olmo3", &json!({})), "sliding_attention"), 6);
    assert_eq!(count(&filled("granitemoehybrid", &json!({})), "mamba"), 8);
    assert_eq!(filled("ministral3", &json!({}))["rope_parameters"]["type"], "yarn");
    let plain = json!({"rope_parameters": {"rope_type": "default", "rope_theta": 5e5}});
    assert!(filled("llama", &plain).get("rope_theta").is_none());
}
