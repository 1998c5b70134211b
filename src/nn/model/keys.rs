//! Typed access to the keys of a `config.json`; errors name the key.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::architecture::{Growth, Rope, RopeScaling};

/// The most that sizes may be; they are far above every model there is, and far below what a machine can hold.
const LIMITS: [(&str, u64); 13] = [
    ("num_hidden_layers", 1024),
    ("vocab_size", 1 << 23),
    ("hidden_size", 1 << 17),
    ("intermediate_size", 1 << 20),
    ("num_attention_heads", 1 << 12),
    ("num_key_value_heads", 1 << 12),
    ("max_position_embeddings", 1 << 32),
    ("sliding_window", 1 << 32),
    ("linear_num_key_heads", 1 << 12),
    ("linear_num_value_heads", 1 << 12),
    ("linear_key_head_dim", 1 << 12),
    ("linear_value_head_dim", 1 << 12),
    ("linear_conv_kernel_dim", 64),
];

/// A JSON object.
pub(super) struct Keys<'a>(pub(super) &'a Value);

impl<'a> Keys<'a> {
    pub(super) fn text(&self, key: &str) -> Result<&'a str> {
        self.0.get(key).and_then(Value::as_str).with_context(|| format!("no text at key `{key}`"))
    }

    pub(super) fn present(&self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn size(&self, key: &str) -> Result<usize> {
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

    pub(super) fn size_or(&self, key: &str, default: usize) -> Result<usize> {
        if self.present(key).is_some() { self.size(key) } else { Ok(default) }
    }

    pub(super) fn number_or(&self, key: &str, default: f64) -> Result<f64> {
        match self.present(key) {
            None => Ok(default),
            Some(value) => number(value, key),
        }
    }

    pub(super) fn flag(&self, key: &str, default: bool) -> Result<bool> {
        match self.present(key) {
            None => Ok(default),
            Some(value) => value
                .as_bool()
                .with_context(|| format!("key `{key}` must be true or false, not {value}")),
        }
    }

    pub(super) fn refuse(&self, key: &str, value: &Value) -> Result<()> {
        if self.0.get(key) == Some(value) {
            bail!("{key} = {value} is not supported");
        }
        Ok(())
    }

    /// A list with an entry a layer, where there is one.
    fn list(&self, key: &str, count: usize) -> Result<Option<&'a [Value]>> {
        let Some(value) = self.present(key) else { return Ok(None) };
        match value.as_array() {
            Some(list) if list.len() == count => Ok(Some(list)),
            _ => bail!("key `{key}` must be a list of {count} entries, one a layer"),
        }
    }

    pub(super) fn texts(&self, key: &str, count: usize) -> Result<Option<Vec<&'a str>>> {
        let Some(list) = self.list(key, count)? else { return Ok(None) };
        let texts: Option<_> = list.iter().map(Value::as_str).collect();
        texts.map(Some).with_context(|| format!("key `{key}` must be a list of texts"))
    }

    pub(super) fn numbers(&self, key: &str, count: usize) -> Result<Option<Vec<f64>>> {
        let Some(list) = self.list(key, count)? else { return Ok(None) };
        list.iter().map(|value| number(value, key)).collect::<Result<_>>().map(Some)
    }

    fn rope_parameters(&self) -> Option<&'a Value> {
        self.present("rope_parameters").or(self.present("rope_scaling"))
    }

    /// A number that belongs to the rotary embedding, from either layout.
    pub(super) fn rope_number(&self, key: &str) -> Result<Option<f64>> {
        let inside = self.rope_parameters().and_then(|parameters| parameters.get(key));
        let value = inside.or(self.present(key));
        value.map(|value| number(value, key)).transpose()
    }

    /// How queries grow with their position, where they do.
    pub(super) fn growth(&self) -> Result<Option<Growth>> {
        let Some(beta) = self.rope_number("llama_4_scaling_beta")? else { return Ok(None) };
        let period = self.rope_number("original_max_position_embeddings")?;
        match period.filter(|period| *period >= 1.0 && beta >= 0.0) {
            Some(period) => Ok(Some(Growth { beta, period: period as usize })),
            None => {
                bail!("llama_4_scaling_beta = {beta} without its original_max_position_embeddings")
            }
        }
    }

    /// The rotary embeddings of layers that see everything and, where theirs differs, of those with windows; and the
    /// original context, where only that is supported.
    pub(super) fn ropes(
        &self,
        theta: f64,
        is_gemma: bool,
        windows_are_plain: bool,
        rotary_dim: usize,
    ) -> Result<(Vec<Rope>, Option<usize>)> {
        let parameters = self.rope_parameters();
        let by_type = |kind: &str| parameters.and_then(|parameters| parameters.get(kind));
        if let (Some(full), Some(sliding)) =
            (by_type("full_attention"), by_type("sliding_attention"))
        {
            let of = |own, theta| self.rope(Some(own), theta, rotary_dim).map(|(rope, _)| rope);
            return Ok((vec![of(full, theta)?, of(sliding, 10_000.0)?], None));
        }
        let (rope, original) =
            self.rope(parameters, self.number_or("rope_theta", theta)?, rotary_dim)?;
        let plain = |theta| Rope { theta, scaling: None, growth: None };
        let mut ropes = vec![rope];
        if is_gemma {
            ropes.push(plain(self.number_or("rope_local_base_freq", 10_000.0)?));
        } else if windows_are_plain && ropes[0].scaling.is_some() {
            ropes.push(plain(ropes[0].theta));
        }
        Ok((ropes, original))
    }

    fn rope(
        &self,
        parameters: Option<&Value>,
        theta: f64,
        rotary_dim: usize,
    ) -> Result<(Rope, Option<usize>)> {
        let Some(parameters) = parameters else {
            return Ok((Rope { theta, scaling: None, growth: None }, None));
        };
        let theta = match parameters.get("rope_theta") {
            Some(theta) => number(theta, "rope_theta")?,
            None => theta,
        };
        let positive = |key: &str| -> Result<Option<f64>> {
            let Some(value) = parameters.get(key).filter(|value| !value.is_null()) else {
                return Ok(None);
            };
            match number(value, key)? {
                number if number > 0.0 => Ok(Some(number)),
                number => bail!("rope scaling: `{key}` must be above 0, not {number}"),
            }
        };
        let needed = |key: &str| {
            positive(key)?.with_context(|| format!("rope scaling has no number at key `{key}`"))
        };
        let original = || -> Result<f64> {
            match positive("original_max_position_embeddings")? {
                Some(original) => Ok(original),
                None => {
                    let key = "original_max_position_embeddings";
                    let key = self.present(key).map_or("max_position_embeddings", |_| key);
                    Ok(self.size(key)? as f64)
                }
            }
        };
        let kind = ["rope_type", "type"].iter().find_map(|key| parameters.get(*key)?.as_str());
        let (scaling, limit) = match kind.unwrap_or("default") {
            "default" => (None, None),
            "linear" => (Some(RopeScaling::Linear { factor: needed("factor")? }), None),
            "llama3" => {
                let scaling = RopeScaling::Llama3 {
                    factor: needed("factor")?,
                    low_freq_factor: needed("low_freq_factor")?,
                    high_freq_factor: needed("high_freq_factor")?,
                    original_max_positions: needed("original_max_position_embeddings")?,
                };
                (Some(scaling), None)
            }
            "yarn" => {
                if parameters.get("truncate").is_some_and(|value| *value != Value::Bool(true)) {
                    bail!("yarn's `truncate` is not supported");
                }
                let factor = needed("factor")?;
                let stretch = |mscale: f64| 0.1 * mscale * factor.max(1.0).ln() + 1.0;
                let scaling = RopeScaling::Yarn {
                    factor,
                    beta_fast: positive("beta_fast")?.unwrap_or(32.0),
                    beta_slow: positive("beta_slow")?.unwrap_or(1.0),
                    original_max_positions: original()?,
                    attention_factor: match positive("attention_factor")? {
                        Some(factor) => factor,
                        None => match (positive("mscale")?, positive("mscale_all_dim")?) {
                            (Some(one), Some(all)) => stretch(one) / stretch(all),
                            _ => stretch(1.0),
                        },
                    },
                };
                (Some(scaling), None)
            }
            "longrope" => {
                let (original, all) = (original()?, self.size("max_position_embeddings")? as f64);
                let factors = parameters.get("short_factor").and_then(Value::as_array);
                let factors = factors.filter(|factors| factors.len() == rotary_dim / 2);
                let Some(factors) = factors else {
                    bail!("longrope's `short_factor` must be a list of {} numbers", rotary_dim / 2);
                };
                let factors = factors.iter().map(|value| number(value, "short_factor"));
                let short_factor: Vec<f64> = factors.collect::<Result<_>>()?;
                if short_factor.iter().any(|factor| *factor <= 0.0) {
                    bail!("longrope's `short_factor` must be above 0");
                }
                let stretch = (all / original).max(1.0);
                let attention_factor = match positive("attention_factor")? {
                    Some(factor) => factor,
                    None => (1.0 + stretch.ln() / original.ln()).sqrt(),
                };
                // Beyond the original context other factors would hold, for the tokens before as well.
                let scaling = RopeScaling::LongRope { short_factor, attention_factor };
                (Some(scaling), Some(original as usize))
            }
            other => bail!(
                "rope scaling `{other}` is not supported; default, linear, llama3, yarn and longrope are"
            ),
        };
        Ok((Rope { theta, scaling, growth: None }, limit))
    }
}

fn number(value: &Value, key: &str) -> Result<f64> {
    let number = value.as_f64().filter(|number| number.is_finite());
    number.with_context(|| format!("key `{key}` must be a number, not {value}"))
}
