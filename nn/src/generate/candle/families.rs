//! The architectures, by the `model_type` of their configurations.

use anyhow::{Context, Result, bail};
use candle_core::{DType, Device, Tensor};
use candle_nn::VarBuilder;
use candle_transformers::models as m;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Network, clearing, required, tensor_names};
use crate::model::config_keys;
use crate::model::weights::Weights;

/// Makes a decoder of a configuration and weights.
type Build = fn(&Value, VarBuilder<'static>) -> Result<Box<dyn Network>>;

clearing!(
    m::gemma::Model,
    m::gemma2::Model,
    m::glm4_new::ModelForCausalLM,
    m::olmo::Model,
    m::qwen2::ModelForCausalLM,
    m::qwen2_moe::Model,
    m::qwen3::ModelForCausalLM,
    m::qwen3_moe::ModelForCausalLM,
    m::starcoder2::Model
);

/// Gemma 3, whose cache takes no more than a token at a time in this version of candle-transformers.
struct TokenByToken(m::gemma3::Model);

impl Network for TokenByToken {
    fn forward(&mut self, ids: &Tensor, offset: usize) -> candle_core::Result<Tensor> {
        let before = ids.dim(1)? - 1;
        for at in 0..before {
            self.0.forward(&ids.narrow(1, at, 1)?, offset + at)?;
        }
        self.0.forward(&ids.narrow(1, before, 1)?, offset + before)
    }

    fn reset(&mut self) -> candle_core::Result<()> {
        self.0.clear_kv_cache();
        Ok(())
    }
}

/// A decoder that counts for itself what it has seen.
macro_rules! counting {
    ($($model:ty),*) => {$(
        impl Network for $model {
            fn forward(&mut self, ids: &Tensor, _: usize) -> candle_core::Result<Tensor> {
                <$model>::forward(self, ids)
            }

            fn reset(&mut self) -> candle_core::Result<()> {
                self.clear_kv_cache();
                Ok(())
            }
        }
    )*};
}

counting!(m::falcon::Falcon, m::phi::Model);

/// A decoder that cannot forget: another over the same weights takes its place.
struct Rebuilt<N, C> {
    network: N,
    config: C,
    weights: VarBuilder<'static>,
    build: fn(&C, VarBuilder<'static>) -> candle_core::Result<N>,
    forward: fn(&mut N, &Tensor, usize) -> candle_core::Result<Tensor>,
}

impl<N: Send, C: Send> Network for Rebuilt<N, C> {
    fn forward(&mut self, ids: &Tensor, offset: usize) -> candle_core::Result<Tensor> {
        (self.forward)(&mut self.network, ids, offset)
    }

    fn reset(&mut self) -> candle_core::Result<()> {
        self.network = (self.build)(&self.config, self.weights.clone())?;
        Ok(())
    }
}

/// Llama, whose cache stands beside it.
struct Llama {
    network: m::llama::Llama,
    cache: m::llama::Cache,
    config: m::llama::Config,
    dtype: DType,
    device: Device,
}

impl Llama {
    fn new(config: &Value, weights: &VarBuilder<'static>) -> Result<Self> {
        let config = parsed::<m::llama::LlamaConfig>(config)?.into_config(false);
        let (dtype, device) = (weights.dtype(), weights.device().clone());
        let network = m::llama::Llama::load(weights.clone(), &config)?;
        let cache = m::llama::Cache::new(true, dtype, &config, &device)?;
        Ok(Self { network, cache, config, dtype, device })
    }
}

impl Network for Llama {
    fn forward(&mut self, ids: &Tensor, offset: usize) -> candle_core::Result<Tensor> {
        self.network.forward(ids, offset, &mut self.cache)
    }

    fn reset(&mut self) -> candle_core::Result<()> {
        self.cache = m::llama::Cache::new(true, self.dtype, &self.config, &self.device)?;
        Ok(())
    }
}

/// Refuses sizes by which candle-transformers would take memory that the weights do not account for: tables of
/// positions, and a layer's own structures.
fn check_sizes(config: &Value) -> Result<()> {
    /// Most bytes of the sines and cosines of all positions.
    const MOST: u64 = 1 << 30;
    let most = [
        ("num_hidden_layers", 1024),
        ("num_attention_heads", 1024),
        ("num_key_value_heads", 1024),
        ("head_dim", 1024),
        ("hidden_size", 1 << 17),
        ("intermediate_size", 1 << 20),
        ("vocab_size", 1 << 23),
        ("max_position_embeddings", 1 << 23),
        ("num_experts", 4096),
        ("n_layer", 1024),
        ("n_head", 1024),
    ];
    let number = |key: &str| config[key].as_u64();
    for (key, most) in most {
        if let Some(value) = number(key).filter(|value| *value > most) {
            bail!("config.json: {key} = {value} is more than {most}, the limit");
        }
    }
    let heads = number("num_attention_heads").or(number("n_head")).unwrap_or(1).max(1);
    let width = number("hidden_size").unwrap_or(0) / heads;
    let dim = number("head_dim").unwrap_or(width);
    let positions = number("max_position_embeddings").unwrap_or(0);
    // These make tables for every layer.
    let copies = match config["model_type"].as_str() {
        Some("phi" | "gemma3_text") => number("num_hidden_layers").unwrap_or(1),
        _ => 1,
    };
    let bytes = dim.saturating_mul(positions).saturating_mul(8).saturating_mul(copies);
    if bytes > MOST {
        bail!(
            "config.json: max_position_embeddings = {positions} and heads of {dim} values take {:.1} GB for positions \
             alone, above the limit of {:.1} GB",
            bytes as f64 / 1e9,
            MOST as f64 / 1e9
        );
    }
    let share = &config["partial_rotary_factor"];
    if share.as_f64().is_some_and(|share| !(0.0..=1.0).contains(&share)) {
        bail!("config.json: partial_rotary_factor = {share} is not from 0 to 1");
    }
    Ok(())
}

/// A configuration with a value for every key that the decoder honours, where candle-transformers looks for it.
pub(super) fn completed(config: &Value) -> Result<Value> {
    let mut config = config.clone();
    let family = config["model_type"].as_str().unwrap_or_default().to_owned();
    // Two names of one key.
    let names = ["num_local_experts", "num_experts"];
    let [local, experts] = names.map(|name| config.get(name).cloned());
    if family == "qwen3_moe"
        && let Some(local) = local
    {
        if experts.as_ref().is_some_and(|experts| *experts != local) {
            bail!("config.json: num_experts and num_local_experts differ");
        }
        config["num_experts"] = local;
    }
    let mut config = config_keys::completed(&config, config_keys::Decoder::Candle)?;
    check_sizes(&config)?;
    let scalar = [&config["query_pre_attn_scalar"], &config["head_dim"]].map(Value::as_u64);
    if let [Some(scalar), Some(dim)] = scalar
        && scalar != dim
    {
        bail!(
            "candle-transformers ignores query_pre_attn_scalar = {scalar}, where heads have {dim} values"
        );
    }
    let full = config["layer_types"]
        .as_array()
        .and_then(|layers| layers.iter().position(|layer| layer == "full_attention"));
    let says = |value: &&Value| value.as_object().is_some_and(|fields| !fields.is_empty());
    let rope = ["rope_scaling", "rope_parameters"].map(|key| &config[key]).into_iter().find(says);
    let rope = rope.cloned().unwrap_or_default();
    let longest = config["max_position_embeddings"].clone();
    let Some(keys) = config.as_object_mut() else { bail!("config.json is no object") };
    keys.entry("use_flash_attn").or_insert(Value::Bool(false));
    let full_rope = rope.get("full_attention").unwrap_or(&rope);
    for (name, value) in [
        ("rope_theta", full_rope.get("rope_theta")),
        ("partial_rotary_factor", full_rope.get("partial_rotary_factor")),
        ("rope_local_base_freq", rope["sliding_attention"].get("rope_theta")),
    ] {
        if let Some(value) = value {
            keys.insert(name.into(), value.clone());
        }
    }
    let is_scaled = full_rope["rope_type"] == "llama3";
    keys.insert("rope_scaling".into(), if is_scaled { full_rope.clone() } else { Value::Null });
    let is_off = keys.get("sliding_window").is_none_or(Value::is_null)
        || keys.get("use_sliding_window") == Some(&Value::Bool(false));
    if is_off {
        // They have a window in any case there.
        let is_windowed = ["mixtral", "qwen2", "qwen2_moe"].contains(&family.as_str());
        keys.insert("sliding_window".into(), if is_windowed { longest } else { Value::Null });
    }
    for key in ["num_key_value_heads", "head_dim"] {
        if keys.get(key) == Some(&Value::Null) {
            keys.remove(key);
        }
    }
    if let (None, Some(heads)) =
        (keys.get("num_key_value_heads"), keys.get("num_attention_heads").cloned())
    {
        keys.insert("num_key_value_heads".into(), heads);
    }
    required::fill(&family, keys, full_rope)?;
    // As transformers reads Gemma's files: one of the keys means nothing, and the first Gemma has one activation.
    if family.starts_with("gemma") {
        keys.insert("hidden_act".into(), Value::Null);
        let usual = keys.get("sliding_window_pattern").cloned().unwrap_or(Value::from(6));
        let pattern = full.map_or(usual, |layer| Value::from(layer + 1));
        keys.insert("sliding_window_pattern".into(), pattern);
        if family == "gemma" || keys.get("hidden_activation").is_none_or(Value::is_null) {
            keys.insert("hidden_activation".into(), Value::from("gelu_pytorch_tanh"));
        }
    }
    Ok(config)
}

/// A completed configuration as candle-transformers reads it.
fn parsed<C: DeserializeOwned>(config: &Value) -> Result<C> {
    let read = serde_json::from_value(config.clone());
    read.context("config.json lacks what candle-transformers needs")
}

/// Builds the other families: `new(&config, weights)`.
macro_rules! plain {
    ($config:ty, $model:ty) => {
        |config, weights| {
            let config = parsed::<$config>(config)?;
            Ok(Box::new(<$model>::new(&config, weights)?))
        }
    };
}

/// Gemmas take one argument more: whether to use flash attention.
macro_rules! gemma {
    ($config:ty, $model:ty) => {
        |config, weights| {
            let config = parsed::<$config>(config)?;
            Ok(Box::new(<$model>::new(false, &config, weights)?))
        }
    };
}

macro_rules! rebuilt {
    ($config:ty, $model:ty) => {
        |config, weights| {
            let config = parsed::<$config>(config)?;
            let network = <$model>::new(&config, weights.clone())?;
            let (build, forward) = (<$model>::new, <$model>::forward);
            Ok(Box::new(Rebuilt::<$model, $config> { network, config, weights, build, forward }))
        }
    };
}

/// Those that we train, Llama, Qwen and Gemma 3, are here as a second implementation for the tests.
const FAMILIES: [(&str, Build); 15] = [
    ("falcon", |config, weights| {
        Ok(Box::new(m::falcon::Falcon::load(weights, parsed::<m::falcon::Config>(config)?)?))
    }),
    ("gemma", gemma!(m::gemma::Config, m::gemma::Model)),
    ("gemma2", gemma!(m::gemma2::Config, m::gemma2::Model)),
    ("gemma3_text", |config, weights| {
        let config = parsed::<m::gemma3::Config>(config)?;
        Ok(Box::new(TokenByToken(m::gemma3::Model::new(false, &config, weights)?)))
    }),
    ("glm4", plain!(m::glm4_new::Config, m::glm4_new::ModelForCausalLM)),
    ("llama", |config, weights| Ok(Box::new(Llama::new(config, &weights)?))),
    ("mixtral", rebuilt!(m::mixtral::Config, m::mixtral::Model)),
    ("olmo", plain!(m::olmo::Config, m::olmo::Model)),
    ("phi", plain!(m::phi::Config, m::phi::Model)),
    ("qwen2", plain!(m::qwen2::Config, m::qwen2::ModelForCausalLM)),
    ("qwen2_moe", plain!(m::qwen2_moe::Config, m::qwen2_moe::Model)),
    ("qwen3", plain!(m::qwen3::Config, m::qwen3::ModelForCausalLM)),
    ("qwen3_moe", plain!(m::qwen3_moe::Config, m::qwen3_moe::ModelForCausalLM)),
    ("stablelm", rebuilt!(m::stable_lm::Config, m::stable_lm::Model)),
    ("starcoder2", plain!(m::starcoder2::Config, m::starcoder2::Model)),
];

/// The families that are known.
pub fn names() -> impl Iterator<Item = &'static str> {
    FAMILIES.iter().map(|(name, _)| *name)
}

pub(super) fn build(
    family: &str,
    config: &Value,
    weights: Weights,
    device: &Device,
) -> Result<Box<dyn Network>> {
    let Some((_, build)) = FAMILIES.iter().find(|(name, _)| *name == family) else {
        let known: Vec<_> = names().collect();
        bail!("candle-transformers' decoders are of {}, not `{family}`", known.join(", "));
    };
    let weights = tensor_names::usual(config, weights);
    let dtype = weights.values().next().map_or(DType::F32, Tensor::dtype);
    let weights = VarBuilder::from_tensors(weights.into_iter().collect(), dtype, device);
    build(config, weights)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_of_positions_are_bounded_before_they_are_made() {
        let sizes = |more: &Value| {
            let mut config =
                json!({"num_hidden_layers": 16, "hidden_size": 64, "num_attention_heads": 1});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            check_sizes(&config)
        };
        let long = 1 << 21;
        sizes(&json!({"model_type": "gemma2", "max_position_embeddings": long})).unwrap();
        for refused in [
            // One table a layer.
            json!({"model_type": "phi", "max_position_embeddings": long}),
            json!({"model_type": "gemma3_text", "max_position_embeddings": long}),
            json!({"model_type": "gemma2", "max_position_embeddings": long, "head_dim": 1 << 24}),
            json!({"model_type": "gemma2", "max_position_embeddings": long, "head_dim": 1024}),
            json!({"model_type": "glm4", "num_hidden_layers": 1 << 24}),
            json!({"model_type": "stablelm", "partial_rotary_factor": 1e6}),
        ] {
            assert!(sizes(&refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn keys_are_where_candle_looks_for_them() {
        let filled = |more: Value| {
            let mut config = json!({"hidden_size": 64, "num_attention_heads": 4, "max_position_embeddings": 256});
            config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            completed(&config).unwrap()
        };
        let off =
            json!({"model_type": "qwen2_moe", "sliding_window": 0, "use_sliding_window": false});
        assert_eq!(filled(off)["sliding_window"], 256);
        let rope =
            json!({"rope_type": "default", "rope_theta": 5.0, "partial_rotary_factor": 0.75});
        let phi = filled(json!({"model_type": "phi", "rope_parameters": rope}));
        assert_eq!(
            (&phi["rope_theta"], &phi["partial_rotary_factor"]),
            (&json!(5.0), &json!(0.75))
        );
        assert_eq!(filled(json!({"model_type": "glm4"}))["partial_rotary_factor"], 0.5);
        assert_eq!(filled(json!({"model_type": "mixtral"}))["rope_theta"], 1e6);
        let experts = filled(json!({"model_type": "qwen3_moe", "num_local_experts": 4}));
        assert_eq!((&experts["num_experts"], &experts["head_dim"]), (&json!(4), &json!(16)));
        assert_eq!(
            filled(json!({"model_type": "falcon", "bos_token_id": null}))["bos_token_id"],
            11
        );
        let theta = json!({"model_type": "falcon", "hidden_size": 64, "num_attention_heads": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 5.0}});
        assert!(completed(&theta).unwrap_err().to_string().contains("rope_theta"));
    }
}
