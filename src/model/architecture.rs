//! `config.json` to a list of flags that says how the decoder is put together.
//!
//! Both layouts are read: that of models on the Hub (`rope_theta`, `rope_scaling`, `torch_dtype`)
//! and that of transformers 5 (`rope_parameters`, `dtype`). What is not supported is refused here,
//! so that nothing beyond this file asks for a brand.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::files::read_json;

/// Families that are supported, as `model_type` in `config.json` names them.
const FAMILIES: &str = "qwen2 (Qwen2, Qwen2.5), qwen3, llama (Llama 3.x, SmolLM2)";

/// The most that sizes may be; they are far above every model there is, and far below what a machine can hold.
const LIMITS: [(&str, u64); 7] = [
    ("num_hidden_layers", 1024),
    ("vocab_size", 1 << 23),
    ("hidden_size", 1 << 17),
    ("intermediate_size", 1 << 20),
    ("num_attention_heads", 1 << 12),
    ("num_key_value_heads", 1 << 12),
    ("max_position_embeddings", 1 << 32),
];
/// The most parameters of a model.
const MAX_PARAMETERS: u64 = 1 << 40;
/// Largest `config.json`, in bytes.
const MAX_CONFIG: u64 = 16 << 20;

/// How the decoder is put together. Letters in shapes: B sequences, T tokens, D hidden size.
#[derive(Debug, Clone, PartialEq)]
pub struct Architecture {
    /// Rows of the embedding.
    pub vocab_size: usize,
    /// D.
    pub hidden_size: usize,
    /// Width of the feed-forward layer.
    pub intermediate_size: usize,
    /// Number of layers.
    pub num_layers: usize,
    /// Query heads.
    pub num_heads: usize,
    /// Key-value heads; divides the query heads.
    pub num_kv_heads: usize,
    /// Values a head; times the heads it need not be D.
    pub head_dim: usize,
    /// Longest sequence in tokens.
    pub max_positions: usize,
    /// Added to the mean square inside every norm.
    pub rms_norm_eps: f64,
    /// Base of the rotary frequencies.
    pub rope_theta: f64,
    /// Llama 3's stretching of the low frequencies.
    pub rope_scaling: Option<RopeScaling>,
    /// Whether the query, key and value projections have biases.
    pub qkv_bias: bool,
    /// Whether the output projection of attention has a bias.
    pub output_bias: bool,
    /// Whether queries and keys are normalised per head.
    pub qk_norm: bool,
    /// Whether the output layer is the embedding.
    pub tied_embeddings: bool,
    /// Standard deviation of fresh weights.
    pub initializer_range: f64,
}

/// Llama 3's rope scaling: low frequencies are divided by `factor`, high ones kept, those between
/// blended.
#[derive(Debug, Clone, PartialEq)]
pub struct RopeScaling {
    /// What low frequencies are divided by.
    pub factor: f64,
    /// Below this many turns over the original context a frequency is low.
    pub low_freq_factor: f64,
    /// Above this many turns it is high.
    pub high_freq_factor: f64,
    /// The original context in tokens.
    pub original_max_positions: f64,
}

impl Architecture {
    /// Reads `config.json`.
    ///
    /// # Errors
    /// A missing or malformed file or key, an architecture or option that is not supported.
    pub fn read(path: &Path) -> Result<(Self, Value)> {
        if !path.exists() {
            bail!("{}: a model directory needs a config.json", path.display());
        }
        let config = read_json(path, MAX_CONFIG)?;
        let architecture =
            Self::from_config(&config).with_context(|| path.display().to_string())?;
        Ok((architecture, config))
    }

    /// The flags for a parsed `config.json`.
    ///
    /// # Errors
    /// See [`Architecture::read`].
    pub fn from_config(config: &Value) -> Result<Self> {
        let keys = Keys(config);
        let family = keys.text("model_type")?;
        let attention_bias = keys.flag("attention_bias", false)?;
        let (qkv_bias, output_bias, qk_norm) = match family {
            "qwen2" => (true, false, false),
            "qwen3" => (attention_bias, attention_bias, true),
            "llama" => (attention_bias, attention_bias, false),
            other => bail!("architecture `{other}` is not supported; supported are {FAMILIES}"),
        };
        keys.refuse("mlp_bias", &Value::Bool(true))?;
        keys.refuse("use_sliding_window", &Value::Bool(true))?;
        if let Some(activation) = config.get("hidden_act")
            && activation != "silu"
        {
            bail!("hidden_act = {activation} is not supported; only \"silu\" is");
        }
        let (hidden_size, num_heads) =
            (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
        let (rope_theta, rope_scaling) = keys.rope()?;
        let architecture = Self {
            vocab_size: keys.size("vocab_size")?,
            hidden_size,
            intermediate_size: keys.size("intermediate_size")?,
            num_layers: keys.size("num_hidden_layers")?,
            num_heads,
            num_kv_heads: keys.size_or("num_key_value_heads", num_heads)?,
            head_dim: keys.size_or("head_dim", hidden_size / num_heads)?,
            max_positions: keys.size("max_position_embeddings")?,
            rms_norm_eps: keys.number_or("rms_norm_eps", 1e-6)?,
            rope_theta,
            rope_scaling,
            qkv_bias,
            output_bias,
            qk_norm,
            tied_embeddings: keys.flag("tie_word_embeddings", false)?,
            initializer_range: keys.number_or("initializer_range", 0.02)?,
        };
        if !num_heads.is_multiple_of(architecture.num_kv_heads) {
            bail!(
                "num_attention_heads = {num_heads} is not a multiple of num_key_value_heads = {}",
                architecture.num_kv_heads
            );
        }
        if !architecture.head_dim.is_multiple_of(2) {
            bail!("head_dim = {} must be even", architecture.head_dim);
        }
        let numbers =
            [architecture.rms_norm_eps, architecture.rope_theta, architecture.initializer_range];
        if !numbers.iter().all(|number| number.is_finite() && *number >= 0.0)
            || architecture.rope_theta == 0.0
        {
            bail!(
                "rms_norm_eps, rope_theta and initializer_range must be finite and not below 0: they are {numbers:?}"
            );
        }
        let parameters = architecture.parameters();
        if parameters > MAX_PARAMETERS {
            bail!(
                "these sizes make {parameters} parameters; more than {MAX_PARAMETERS} are not supported"
            );
        }
        Ok(architecture)
    }

    /// The name and shape of every weight, as safetensors files hold them.
    pub fn tensors(&self) -> Vec<(String, Vec<usize>)> {
        let (hidden, ff) = (self.hidden_size, self.intermediate_size);
        let q = self.num_heads * self.head_dim;
        let kv = self.num_kv_heads * self.head_dim;
        let mut tensors = vec![("model.embed_tokens.weight".into(), vec![self.vocab_size, hidden])];
        for layer in 0..self.num_layers {
            let mut add = |name: &str, shape: &[usize]| {
                tensors.push((format!("model.layers.{layer}.{name}"), shape.to_vec()));
            };
            add("input_layernorm.weight", &[hidden]);
            add("post_attention_layernorm.weight", &[hidden]);
            for (name, width) in [("q", q), ("k", kv), ("v", kv)] {
                add(&format!("self_attn.{name}_proj.weight"), &[width, hidden]);
                if self.qkv_bias {
                    add(&format!("self_attn.{name}_proj.bias"), &[width]);
                }
            }
            add("self_attn.o_proj.weight", &[hidden, q]);
            if self.output_bias {
                add("self_attn.o_proj.bias", &[hidden]);
            }
            if self.qk_norm {
                add("self_attn.q_norm.weight", &[self.head_dim]);
                add("self_attn.k_norm.weight", &[self.head_dim]);
            }
            add("mlp.gate_proj.weight", &[ff, hidden]);
            add("mlp.up_proj.weight", &[ff, hidden]);
            add("mlp.down_proj.weight", &[hidden, ff]);
        }
        tensors.push(("model.norm.weight".into(), vec![hidden]));
        if !self.tied_embeddings {
            tensors.push(("lm_head.weight".into(), vec![self.vocab_size, hidden]));
        }
        tensors
    }

    /// How many numbers the weights hold.
    pub fn parameters(&self) -> u64 {
        let count =
            |shape: &[usize]| shape.iter().fold(1u64, |all, dim| all.saturating_mul(*dim as u64));
        self.tensors().iter().fold(0u64, |all, (_, shape)| all.saturating_add(count(shape)))
    }
}

/// Typed access to the keys of a JSON object; errors name the key.
struct Keys<'a>(&'a Value);

impl Keys<'_> {
    fn text(&self, key: &str) -> Result<&str> {
        self.0.get(key).and_then(Value::as_str).with_context(|| format!("no text at key `{key}`"))
    }

    fn present(&self, key: &str) -> Option<&Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    fn size(&self, key: &str) -> Result<usize> {
        let value = self.present(key).with_context(|| format!("no key `{key}`"))?;
        let most = LIMITS.iter().find(|(name, _)| *name == key).map_or(1 << 20, |(_, most)| *most);
        match value.as_u64() {
            Some(size) if size > 0 && size <= most => Ok(size as usize),
            Some(size) if size > most => {
                bail!("key `{key}` is {size}, above {most}, the most that is supported")
            }
            _ => bail!("key `{key}` must be a positive whole number, not {value}"),
        }
    }

    fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.present(key).is_some() { self.size(key) } else { Ok(default) }
    }

    fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        match self.present(key) {
            None => Ok(default),
            Some(value) => {
                value.as_f64().with_context(|| format!("key `{key}` must be a number, not {value}"))
            }
        }
    }

    fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.present(key) {
            None => Ok(default),
            Some(value) => value
                .as_bool()
                .with_context(|| format!("key `{key}` must be true or false, not {value}")),
        }
    }

    fn refuse(&self, key: &str, value: &Value) -> Result<()> {
        if self.0.get(key) == Some(value) {
            bail!("{key} = {value} is not supported");
        }
        Ok(())
    }

    /// Base and scaling of the rotary embedding, from either layout.
    fn rope(&self) -> Result<(f64, Option<RopeScaling>)> {
        let parameters = self.present("rope_parameters").or(self.present("rope_scaling"));
        let theta = match parameters.and_then(|p| p.get("rope_theta")).and_then(Value::as_f64) {
            Some(theta) => theta,
            None => self.number_or("rope_theta", 10_000.0)?,
        };
        let Some(parameters) = parameters else { return Ok((theta, None)) };
        let kind = ["rope_type", "type"].iter().find_map(|key| parameters.get(*key)?.as_str());
        match kind.unwrap_or("default") {
            "default" => Ok((theta, None)),
            "llama3" => {
                let number = |key: &str| {
                    parameters
                        .get(key)
                        .and_then(Value::as_f64)
                        .with_context(|| format!("rope scaling has no number at key `{key}`"))
                };
                let scaling = RopeScaling {
                    factor: number("factor")?,
                    low_freq_factor: number("low_freq_factor")?,
                    high_freq_factor: number("high_freq_factor")?,
                    original_max_positions: number("original_max_position_embeddings")?,
                };
                Ok((theta, Some(scaling)))
            }
            other => bail!("rope scaling `{other}` is not supported; only llama3 and default are"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn config() -> Value {
        json!({"model_type": "llama", "vocab_size": 10, "hidden_size": 8, "intermediate_size": 16,
            "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 32})
    }

    fn refusal(key: &str, value: Value) -> String {
        let mut config = config();
        config[key] = value;
        format!("{:#}", Architecture::from_config(&config).unwrap_err())
    }

    #[test]
    fn both_rope_layouts_mean_the_same() {
        let scaling = json!({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64});
        let mut hub = config();
        hub["rope_theta"] = json!(5e5);
        hub["rope_scaling"] = scaling.clone();
        let mut five = config();
        five["rope_parameters"] = scaling;
        five["rope_parameters"]["rope_theta"] = json!(5e5);
        let hub = Architecture::from_config(&hub).unwrap();
        assert_eq!(hub, Architecture::from_config(&five).unwrap());
        assert_eq!(hub.rope_theta, 5e5);
    }

    #[test]
    fn what_is_not_supported_is_refused_by_name() {
        assert!(refusal("model_type", json!("mamba")).contains("mamba"));
        assert!(refusal("hidden_act", json!("gelu")).contains("gelu"));
        assert!(refusal("rope_scaling", json!({"type": "yarn"})).contains("yarn"));
        assert!(refusal("use_sliding_window", json!(true)).contains("use_sliding_window"));
        assert!(refusal("num_key_value_heads", json!(3)).contains("num_key_value_heads"));
        assert!(refusal("vocab_size", json!("x")).contains("vocab_size"));
        assert!(refusal("vocab_size", Value::Null).contains("vocab_size"));
    }

    #[test]
    fn sizes_that_no_model_has_are_refused_before_anything_is_made() {
        for (key, value) in [
            ("num_hidden_layers", 1u64 << 40),
            ("vocab_size", 1 << 62),
            ("hidden_size", u64::MAX),
            ("head_dim", 1 << 40),
        ] {
            let said = refusal(key, json!(value));
            assert!(said.contains(key) && said.contains("above"), "{said}");
        }
        assert!(refusal("rope_theta", json!(0)).contains("rope_theta"));
        let mut huge = config();
        (huge["num_hidden_layers"], huge["hidden_size"]) = (json!(1024), json!(1 << 17));
        huge["intermediate_size"] = json!(1 << 20);
        let said = Architecture::from_config(&huge).unwrap_err().to_string();
        assert!(said.contains("parameters"), "{said}");
    }
}
