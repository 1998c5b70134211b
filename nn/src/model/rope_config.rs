//! Rotary embeddings from a `config.json`, with their scaling.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::architecture::{Rope, RopeScaling};
use super::config_keys::rope_kind;
use super::family::WindowRope;
use super::keys::{Keys, number};

impl Keys<'_> {
    /// The rotary embeddings of layers that see everything and, where theirs differs, of those with windows; and the
    /// original context, where only that is supported.
    pub(super) fn ropes(
        &self,
        window_rope: WindowRope,
        rotary_dim: usize,
    ) -> Result<(Vec<Rope>, Option<usize>)> {
        let window_theta = match window_rope {
            WindowRope::Shared => return self.shared_ropes(rotary_dim),
            WindowRope::Local => self.needed_number("rope_local_base_freq")?,
            // As transformers has it, whatever the other layers' is.
            WindowRope::Unscaled => OLMO_THETA,
        };
        let theta = self.number_or("rope_theta", OLMO_THETA)?;
        let by_kind = self.present("rope_parameters");
        let of_kind = |kind: &str| by_kind.and_then(|given| given.get(kind)).cloned();
        let (full, sliding) = (of_kind("full_attention"), of_kind("sliding_attention"));
        if by_kind.is_some() && full.is_none() && sliding.is_none() {
            bail!("rope_parameters needs objects full_attention and sliding_attention");
        }
        let mut full = full.filter(Value::is_object).unwrap_or(json!({}));
        if let (Some(full), Some(scaling)) =
            (full.as_object_mut(), self.present("rope_scaling").and_then(Value::as_object))
        {
            let has_new_name = scaling.contains_key("rope_type");
            if window_rope == WindowRope::Unscaled && scaling.contains_key("type") && !has_new_name
            {
                bail!("rope_scaling: transformers ignores `type` here; name it `rope_type`");
            }
            full.extend(scaling.clone());
        }
        let (full, original) = self.rope(Some(&full), theta, rotary_dim)?;
        let sliding = self.rope(sliding.as_ref(), window_theta, rotary_dim)?.0;
        let ropes = if full == sliding { vec![full] } else { vec![full, sliding] };
        Ok((ropes, original))
    }

    fn shared_ropes(&self, rotary_dim: usize) -> Result<(Vec<Rope>, Option<usize>)> {
        let parameters = self.rope_parameters();
        let theta = match parameters.and_then(|parameters| parameters.get("rope_theta")) {
            Some(theta) => number(theta, "rope_theta")?,
            None => self.needed_number("rope_theta")?,
        };
        let (rope, original) = self.rope(parameters, theta, rotary_dim)?;
        Ok((vec![rope], original))
    }

    fn is_phi3(&self) -> bool {
        self.0["model_type"] == "phi3"
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
        let scaling = Scaling { keys: self, parameters };
        let (scaling, limit) = match rope_kind(parameters).unwrap_or("default") {
            // Names of longrope in older files.
            "su" | "yarn" if self.is_phi3() => {
                let (scaling, original) = scaling.longrope(rotary_dim)?;
                (Some(scaling), Some(original))
            }
            "default" => (None, None),
            "linear" => (Some(RopeScaling::Linear { factor: scaling.needed("factor")? }), None),
            "llama3" => (Some(scaling.llama3()?), None),
            "yarn" => (Some(scaling.yarn()?), None),
            "longrope" => {
                let (scaling, original) = scaling.longrope(rotary_dim)?;
                (Some(scaling), Some(original))
            }
            other => bail!(
                "rope scaling `{other}` is not supported; default, linear, llama3, yarn and longrope are"
            ),
        };
        Ok((Rope { theta, scaling, growth: None }, limit))
    }
}

/// The base frequency of OLMo 3 where no key has one.
const OLMO_THETA: f64 = 500_000.0;

/// The object that describes a scaling, and the whole configuration.
struct Scaling<'a> {
    keys: &'a Keys<'a>,
    parameters: &'a Value,
}

impl Scaling<'_> {
    fn positive(&self, key: &str) -> Result<Option<f64>> {
        let Some(value) = self.parameters.get(key).filter(|value| !value.is_null()) else {
            return Ok(None);
        };
        match number(value, key)? {
            number if number > 0.0 => Ok(Some(number)),
            number => bail!("rope scaling: `{key}` must be above 0, not {number}"),
        }
    }

    fn needed(&self, key: &str) -> Result<f64> {
        self.positive(key)?.with_context(|| format!("rope scaling has no number at key `{key}`"))
    }

    /// The context that the scaling starts from.
    fn original(&self) -> Result<f64> {
        let key = "original_max_position_embeddings";
        // Phi-3 has it beside the scaling.
        if self.keys.is_phi3() && self.keys.present(key).is_some() {
            return Ok(self.keys.size(key)? as f64);
        }
        match self.positive(key)? {
            Some(original) => Ok(original),
            None => Ok(self.keys.size("max_position_embeddings")? as f64),
        }
    }

    fn llama3(&self) -> Result<RopeScaling> {
        Ok(RopeScaling::Llama3 {
            factor: self.needed("factor")?,
            low_freq_factor: self.needed("low_freq_factor")?,
            high_freq_factor: self.needed("high_freq_factor")?,
            original_max_positions: self.original()?,
        })
    }

    fn yarn(&self) -> Result<RopeScaling> {
        if self.parameters.get("truncate").is_some_and(|value| *value != Value::Bool(true)) {
            bail!("yarn's `truncate` is not supported");
        }
        let factor = self.needed("factor")?;
        // YaRN's temperature t of attention over a longer context: sqrt(1 / t) = 0.1 ln(factor) + 1. `mscale` scales
        // its growth.
        let stretch = |mscale: f64| 0.1 * mscale * factor.max(1.0).ln() + 1.0;
        Ok(RopeScaling::Yarn {
            factor,
            beta_fast: self.positive("beta_fast")?.unwrap_or(32.0),
            beta_slow: self.positive("beta_slow")?.unwrap_or(1.0),
            original_max_positions: self.original()?,
            attention_factor: match self.positive("attention_factor")? {
                Some(factor) => factor,
                None => match (self.positive("mscale")?, self.positive("mscale_all_dim")?) {
                    (Some(one), Some(all)) => stretch(one) / stretch(all),
                    _ => stretch(1.0),
                },
            },
        })
    }

    /// The scaling, and the original context: beyond it other factors would hold, for the tokens before as well.
    fn longrope(&self, rotary_dim: usize) -> Result<(RopeScaling, usize)> {
        let original = self.original()?;
        let all = self.keys.size("max_position_embeddings")? as f64;
        let factors = self.parameters.get("short_factor").and_then(Value::as_array);
        let factors = factors.filter(|factors| factors.len() == rotary_dim / 2);
        let Some(factors) = factors else {
            bail!("longrope's `short_factor` must be a list of {} numbers", rotary_dim / 2);
        };
        let factors = factors.iter().map(|value| number(value, "short_factor"));
        let short_factor: Vec<f64> = factors.collect::<Result<_>>()?;
        if short_factor.iter().any(|factor| *factor <= 0.0) {
            bail!("longrope's `short_factor` must be above 0");
        }
        let stretch = self.positive("factor")?.unwrap_or(all / original).max(1.0);
        let attention_factor = match self.positive("attention_factor")? {
            Some(factor) => factor,
            None => (1.0 + stretch.ln() / original.ln()).sqrt(),
        };
        Ok((RopeScaling::LongRope { short_factor, attention_factor }, original as usize))
    }
}
