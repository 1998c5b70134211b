//! `config.json` to an [`Architecture`], by the choices of its family.
//!
//! Both layouts are read: that of models on the Hub (`rope_theta`, `rope_scaling`, `torch_dtype`)
//! and that of transformers 5 (`rope_parameters`, `dtype`). What is not supported is refused here.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::architecture::{Activation, Architecture, DeltaSizes, LayerKind, Rope};
use super::config_keys;
use super::family::{Factor, Windows, families, family};
use super::keys::Keys;
use super::layer_kinds::layers;
use super::text_part;
use tealight_core::run_folder;
use tealight_system::files::{MAX_CONFIG, read_json};

/// The most parameters of a model.
const MAX_PARAMETERS: u64 = 1 << 40;

impl Architecture {
    /// Whether models of this `model_type`, or their text part, can be trained.
    pub fn knows(model_type: &str) -> bool {
        family(model_type).is_some() || text_part::knows(model_type)
    }

    /// Reads `config.json`, of a model of text and images its text part.
    ///
    /// # Errors
    /// A missing or malformed file or key, an architecture or option that is not supported.
    pub fn read(path: &Path) -> Result<(Self, Value)> {
        if !path.exists() {
            // A run has its model one folder further down.
            let trained = path.parent().map(|folder| folder.join(run_folder::FINAL));
            let trained = trained.filter(|folder| folder.is_dir());
            let hint = trained.map(|folder| format!("; a run's model is {}", folder.display()));
            bail!(
                "{}: a model directory needs a config.json{}",
                path.display(),
                hint.unwrap_or_default()
            );
        }
        let at = || path.display().to_string();
        let config = text_part::of_config(read_json(path, MAX_CONFIG)?).with_context(at)?;
        let architecture = Self::from_config(&config).with_context(at)?;
        // With every value that was used, for whoever reads what is saved.
        let config = config_keys::completed(&config, config_keys::Decoder::Own).with_context(at)?;
        Ok((architecture, config))
    }

    /// The choices of a parsed `config.json`.
    pub fn from_config(config: &Value) -> Result<Self> {
        let name = Keys(config).text("model_type")?;
        let Some(family) = family(name) else {
            bail!(
                "architecture `{name}` is not supported; supported are {} (and candle-transformers' for eval and generate)",
                families()
            );
        };
        let config = config_keys::completed(config, config_keys::Decoder::Own)?;
        let keys = Keys(&config);
        if keys.number_or("num_local_experts", 0.0)? != 0.0 {
            bail!("num_local_experts: mixtures of experts are not supported");
        }
        let attention_bias = keys.flag("attention_bias")?;
        let (hidden_size, num_heads) =
            (keys.size("hidden_size")?, keys.size("num_attention_heads")?);
        let head_dim = keys.size("head_dim")?;
        let num_layers = keys.size("num_hidden_layers")?;
        let rotary_dim = rotary_dim(&keys, head_dim)?;
        let (mut ropes, original) = keys.ropes(family.window_rope, rotary_dim)?;
        let layers = layers(&keys, &family, num_layers, ropes.len())?;
        let growth = if family.queries_grow { keys.growth()? } else { None };
        let query_rope = growth.map(|_| ropes.len());
        if let Some(growth) = growth {
            if rotary_dim != head_dim || layers.iter().any(|kind| !kind.turns()) {
                bail!(
                    "llama_4_scaling_beta where positions do not turn whole heads is not supported"
                );
            }
            ropes.push(Rope { growth: Some(growth), ..ropes[0].clone() });
        }
        let factor = |from: Factor| from.read(&keys, head_dim);
        let max_positions = keys.size("max_position_embeddings")?;
        let vocab_size = keys.size("vocab_size")?;
        let architecture = Self {
            vocab_size,
            output_size: vocab_size,
            hidden_size,
            intermediate_size: keys.size(family.width)?,
            num_layers,
            num_heads,
            num_kv_heads: keys.size("num_key_value_heads")?,
            head_dim,
            rotary_dim,
            max_positions: original.map_or(max_positions, |original| max_positions.min(original)),
            rms_norm_eps: keys.needed_number("rms_norm_eps")?,
            norm_offset: family.norm_offset,
            norms: family.norms,
            qk_norm: family.qk_norm,
            activation: activation(&keys)?,
            delta: layers.contains(&LayerKind::Delta).then(|| delta(&keys)).transpose()?,
            output_gate: family.windows == Windows::Delta,
            layers,
            ropes,
            query_rope,
            qkv_bias: family.qkv_bias || attention_bias,
            output_bias: family.has_output_bias && attention_bias,
            fusion: family.fusion,
            tied_embeddings: keys.flag("tie_word_embeddings")?,
            embedding_scale: factor(family.factors.embeddings)?,
            residual_scale: factor(family.factors.residuals)?,
            attention_scale: factor(family.factors.attention)?,
            logits_scale: factor(family.factors.logits)?,
            initializer_range: keys.needed_number("initializer_range")?,
        };
        architecture.check()?;
        Ok(architecture)
    }

    /// Refuses what makes no model.
    fn check(&self) -> Result<()> {
        if !self.num_heads.is_multiple_of(self.num_kv_heads) {
            bail!(
                "num_attention_heads = {} is not a multiple of num_key_value_heads = {}",
                self.num_heads,
                self.num_kv_heads
            );
        }
        if !self.head_dim.is_multiple_of(2) {
            bail!("head_dim = {} must be even", self.head_dim);
        }
        let numbers = [
            ("rms_norm_eps", self.rms_norm_eps),
            ("initializer_range", self.initializer_range),
            ("the multiplier of embeddings", self.embedding_scale),
            ("the multiplier of residuals", self.residual_scale),
            ("the multiplier of attention", self.attention_scale),
            ("the multiplier of logits", self.logits_scale),
        ];
        let thetas = self.ropes.iter().map(|rope| ("rope_theta", rope.theta));
        for (name, number) in numbers.into_iter().chain(thetas) {
            let may_be_zero = ["rms_norm_eps", "initializer_range"].contains(&name);
            if !number.is_finite() || number < 0.0 || (number == 0.0 && !may_be_zero) {
                bail!("{name} is {number}, which is no number for it");
            }
        }
        let parameters = self.parameters();
        if parameters > MAX_PARAMETERS {
            bail!(
                "these sizes make {parameters} parameters; more than {MAX_PARAMETERS} are not supported"
            );
        }
        Ok(())
    }
}

/// How many values of a head positions turn.
fn rotary_dim(keys: &Keys<'_>, head_dim: usize) -> Result<usize> {
    let share = keys.rope_number("partial_rotary_factor")?.unwrap_or(1.0);
    let rotary_dim = (head_dim as f64 * share) as usize;
    if !(0.0..=1.0).contains(&share) || rotary_dim == 0 || !rotary_dim.is_multiple_of(2) {
        bail!(
            "positions turn {rotary_dim} of the {head_dim} values of a head: it must be an even number"
        );
    }
    Ok(rotary_dim)
}

impl Factor {
    fn read(self, keys: &Keys<'_>, head_dim: usize) -> Result<f64> {
        Ok(match self {
            Self::One => 1.0,
            Self::OverRootOfHeadDim => 1.0 / (head_dim as f64).sqrt(),
            Self::Key(key) => keys.needed_number(key)?,
            Self::Over(key) => 1.0 / keys.needed_number(key)?,
            Self::RootOf(key) => keys.needed_number(key)?.sqrt(),
            Self::OverRootOf(key) => keys.needed_number(key)?.powf(-0.5),
        })
    }
}

/// The sizes of the delta rule.
fn delta(keys: &Keys<'_>) -> Result<DeltaSizes> {
    let sizes = DeltaSizes {
        key_heads: keys.size("linear_num_key_heads")?,
        value_heads: keys.size("linear_num_value_heads")?,
        key_dim: keys.size("linear_key_head_dim")?,
        value_dim: keys.size("linear_value_head_dim")?,
        kernel: keys.size("linear_conv_kernel_dim")?,
    };
    let DeltaSizes { key_heads, value_heads, kernel, .. } = sizes;
    if !value_heads.is_multiple_of(key_heads) {
        bail!(
            "linear_num_value_heads = {value_heads} is not a multiple of linear_num_key_heads = {key_heads}"
        );
    }
    if kernel < 2 {
        bail!("linear_conv_kernel_dim = {kernel} must be at least 2");
    }
    Ok(sizes)
}

fn activation(keys: &Keys<'_>) -> Result<Activation> {
    // Gemma's key; the other one means nothing there.
    let newer = "hidden_activation";
    let key = keys.present(newer).map_or("hidden_act", |_| newer);
    match keys.text(key)? {
        "silu" => Ok(Activation::Silu),
        "gelu_pytorch_tanh" => Ok(Activation::GeluTanh),
        other => bail!("{key} = `{other}` is not supported; silu and gelu_pytorch_tanh are"),
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
    fn both_rope_layouts_give_equal_architectures() {
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
        assert_eq!(hub.ropes[0].theta, 5e5);
    }

    #[test]
    fn rope_scaling_wins_over_rope_parameters() {
        let mut both = config();
        both["rope_parameters"] = json!({"rope_type": "default", "rope_theta": 1e6});
        both["rope_scaling"] = json!({"rope_type": "linear", "factor": 2.0});
        let rope = &Architecture::from_config(&both).unwrap().ropes[0];
        // As transformers has it, the theta beside the one that loses is lost as well.
        assert_eq!((rope.theta, rope.scaling.is_some()), (1e4, true));
        both["rope_scaling"] = json!({});
        let rope = &Architecture::from_config(&both).unwrap().ropes[0];
        assert_eq!((rope.theta, rope.scaling.is_some()), (1e6, false));
    }

    #[test]
    fn a_window_that_is_off_may_have_any_size() {
        let mut off = config();
        off["model_type"] = json!("qwen2");
        off["num_key_value_heads"] = json!(2);
        off["sliding_window"] = json!(0);
        off["use_sliding_window"] = json!(false);
        off["layer_types"] = json!(["sliding_attention"]);
        assert_eq!(Architecture::from_config(&off).unwrap().layers[0].window(), None);
    }

    #[test]
    fn unsupported_settings_are_refused_by_name() {
        assert!(refusal("model_type", json!("mamba")).contains("mamba"));
        assert!(refusal("hidden_act", json!("gelu")).contains("gelu"));
        assert!(refusal("rope_scaling", json!({"type": "dynamic"})).contains("dynamic"));
        assert!(refusal("mlp_bias", json!(true)).contains("mlp_bias"));
        assert!(refusal("layer_types", json!(["linear_attention"])).contains("linear_attention"));
        assert!(refusal("rms_norm_eps", json!("1e-5")).contains("rms_norm_eps"));
        assert!(refusal("rms_norm_eps", Value::Null).contains("rms_norm_eps"));
        assert!(refusal("rope_theta", Value::Null).contains("rope_theta"));
        assert!(refusal("num_key_value_heads", json!(3)).contains("num_key_value_heads"));
        assert!(refusal("vocab_size", json!("x")).contains("vocab_size"));
        assert!(refusal("vocab_size", Value::Null).contains("vocab_size"));
    }

    #[test]
    fn huge_sizes_are_refused_before_allocation() {
        for (key, value) in [
            ("num_hidden_layers", 1u64 << 40),
            ("vocab_size", 1 << 62),
            ("hidden_size", u64::MAX),
            ("head_dim", 1 << 40),
        ] {
            let message = refusal(key, json!(value));
            assert!(message.contains(key) && message.contains("above"), "{message}");
        }
        assert!(refusal("rope_theta", json!(0)).contains("rope_theta"));
        let mut huge = config();
        (huge["num_hidden_layers"], huge["hidden_size"]) = (json!(1024), json!(1 << 17));
        huge["intermediate_size"] = json!(1 << 20);
        let message = Architecture::from_config(&huge).unwrap_err().to_string();
        assert!(message.contains("parameters"), "{message}");
    }
}
