//! The text part of models that read images too: what of their `config.json` and of their weights it is.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

/// A model's `model_type`, those that its text part may have, and the class that transformers loads that as.
type Kind = (&'static str, &'static str, &'static str);

const KINDS: [Kind; 4] = [
    ("qwen3_5", "qwen3_5_text", "Qwen3_5ForCausalLM"),
    ("gemma3", "gemma3_text", "Gemma3ForCausalLM"),
    ("mistral3", "mistral", "MistralForCausalLM"),
    ("mistral3", "ministral3", "Ministral3ForCausalLM"),
];

/// The prefix of the names of a text part's weights in the whole, and by itself.
const PREFIXES: [(&str, &str); 3] = [
    ("model.language_model.", "model."),
    ("language_model.model.", "model."),
    ("language_model.lm_head.", "lm_head."),
];

/// The prefixes of other parts' weights.
const OTHERS: [&str; 8] = [
    // TRL's value head, and layers that predict several tokens.
    "v_head.",
    "mtp.",
    "model.visual.",
    "visual.",
    "model.vision_tower.",
    "vision_tower.",
    "model.multi_modal_projector.",
    "multi_modal_projector.",
];

/// Whether models of this `model_type` have a text part that is known.
pub(super) fn knows(model_type: &str) -> bool {
    KINDS.iter().any(|(whole, ..)| *whole == model_type)
}

/// The configuration of the text part, as transformers would write it; that of a model of text alone as it is.
pub(super) fn of_config(mut config: Value) -> Result<Value> {
    // MLX has a key of its own for it, with or without the usual one.
    if config["quantization"].is_object() {
        config["quantization_config"] = config["quantization"].take();
        config["quantization_config"]["quant_method"] = json!("MLX");
        config.as_object_mut().map(|config| config.shift_remove("quantization"));
    }
    let Some(whole) = config["model_type"].as_str().filter(|kind| knows(kind)) else {
        return Ok(config);
    };
    let text = config.get("text_config").and_then(Value::as_object);
    let mut text =
        text.with_context(|| format!("a `{whole}` model without a text_config"))?.clone();
    let kinds = || KINDS.iter().filter(|(family, ..)| *family == whole);
    let kind_of_text = text.get("model_type").and_then(Value::as_str).unwrap_or_default();
    let Some((_, _, class)) = kinds().find(|(_, kind, ..)| *kind == kind_of_text) else {
        let known: Vec<_> = kinds().map(|(_, kind, ..)| *kind).collect();
        bail!(
            "a `{whole}` model whose text is `{kind_of_text}` is not supported; {} is",
            known.join(" or ")
        );
    };
    // The type of the weights and how they are quantised are said of the whole.
    for key in
        ["bos_token_id", "eos_token_id", "pad_token_id", "torch_dtype", "quantization_config"]
    {
        if let Some(value) = config.get(key) {
            text.entry(key).or_insert(value.clone());
        }
    }
    // The output layer belongs to the whole, and so does the key that ties it.
    if let Some(value) = config.get("tie_word_embeddings") {
        text.insert("tie_word_embeddings".into(), value.clone());
    }
    text.insert("architectures".into(), json!([class]));
    Ok(Value::Object(text))
}

/// The name by itself of a weight of the text part; none where it has no other.
pub(super) fn name(stored: &str) -> Option<String> {
    let renamed = |(from, to): &(&str, &str)| Some(format!("{to}{}", stored.strip_prefix(from)?));
    PREFIXES.iter().find_map(renamed)
}

/// Whether a weight belongs to what sees images, predicts several tokens at once, or values a text.
pub(super) fn is_other_part(stored: &str) -> bool {
    OTHERS.iter().any(|prefix| stored.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outer_config_decides_tied_embeddings() {
        for (whole, text, tied) in [
            (json!(true), json!(false), json!(true)),
            (json!(false), json!(true), json!(false)),
            (json!(null), json!(true), json!(true)),
        ] {
            let text = json!({"model_type": "ministral3", "tie_word_embeddings": text});
            let mut config = json!({"model_type": "mistral3", "text_config": text});
            if !whole.is_null() {
                config["tie_word_embeddings"] = whole.clone();
            }
            assert_eq!(of_config(config).unwrap()["tie_word_embeddings"], tied, "{whole}");
        }
    }

    #[test]
    fn text_config_is_extracted_with_tokens_of_the_whole() {
        let text = json!({"model_type": "gemma3_text", "hidden_size": 8});
        let whole = json!({"model_type": "gemma3", "text_config": text, "eos_token_id": [1, 106],
            "vision_config": {"hidden_size": 4}, "quantization_config": {"quant_method": "fp8"}});
        let text = of_config(whole).unwrap();
        assert_eq!(text["quantization_config"]["quant_method"], "fp8");
        assert_eq!(text["hidden_size"], 8);
        assert_eq!(text["architectures"], json!(["Gemma3ForCausalLM"]));
        assert_eq!(text["eos_token_id"], json!([1, 106]));
        assert!(text.get("vision_config").is_none());
        let alone = json!({"model_type": "llama"});
        assert_eq!(of_config(alone.clone()).unwrap(), alone);
        let quantization = json!({"bits": 4, "group_size": 64});
        let mlx = json!({"model_type": "llama", "quantization": quantization, "quantization_config": quantization});
        let read = of_config(mlx).unwrap();
        assert_eq!(read["quantization_config"]["quant_method"], "MLX");
        assert!(read.get("quantization").is_none());
        let error = |config: Value| of_config(config).unwrap_err().to_string();
        assert!(error(json!({"model_type": "gemma3"})).contains("without a text_config"));
        let other = json!({"model_type": "mistral3", "text_config": {"model_type": "mamba"}});
        assert!(error(other).contains("mistral or ministral3 is"));
    }
}
