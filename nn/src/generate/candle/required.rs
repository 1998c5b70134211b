//! Keys of a configuration that a decoder of candle-transformers requires and that transformers leaves out or null.

use anyhow::{Result, bail};
use serde_json::{Map, Value, json};

/// Sets the keys that the decoder of a family requires; `rope` describes its positions.
pub(super) fn fill(family: &str, keys: &mut Map<String, Value>, rope: &Value) -> Result<()> {
    let size = |key: &str| keys.get(key).and_then(Value::as_u64);
    match (family, size("head_dim"), size("hidden_size"), size("num_attention_heads")) {
        ("qwen3_moe", None, Some(hidden), Some(heads)) => {
            keys.insert("head_dim".into(), json!(hidden.checked_div(heads)));
        }
        ("falcon", ..) => {
            if let Some(theta) = rope.get("rope_theta").filter(|one| one.as_f64() != Some(1e4)) {
                bail!("config.json: rope_theta = {theta}; candle-transformers' Falcon has 10000");
            }
            for (key, value) in [
                ("bos_token_id", json!(11)),
                ("eos_token_id", json!(11)),
                ("hidden_dropout", json!(0.0)),
                ("attention_dropout", json!(0.0)),
                ("initializer_range", json!(0.02)),
                ("use_cache", json!(true)),
            ] {
                keys.insert(key.into(), value);
            }
        }
        ("stablelm", _, Some(hidden), Some(heads)) => {
            let share = keys.get("partial_rotary_factor").and_then(Value::as_f64).unwrap_or(0.25);
            let rotated = share * hidden.checked_div(heads).unwrap_or_default() as f64;
            if rotated < 2.0 {
                bail!(
                    "config.json: {heads} heads of hidden_size {hidden} have fewer than two rotated dimensions, which \
                     candle-transformers' StableLM needs"
                );
            }
        }
        _ => {}
    }
    Ok(())
}
