//! Rotary embeddings from a `config.json`, with their scaling.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::architecture::{Rope, RopeScaling};
use super::family::WindowRope;
use super::keys::{Keys, number};

impl Keys<'_> {
    /// The rotary embeddings of layers that see everything and, where theirs differs, of those with windows; and the
    /// original context, where only that is supported.
    pub(super) fn ropes(
        &self,
        theta: f64,
        window_rope: WindowRope,
        rotary_dim: usize,
    ) -> Result<(Vec<Rope>, Option<usize>)> {
        let parameters = self.rope_parameters();
        let by_type = |kind: &str| parameters.and_then(|parameters| parameters.get(kind));
        if let (Some(full), Some(sliding)) =
            (by_type("full_attention"), by_type("sliding_attention"))
        {
            let build = |parameters, theta| {
                self.rope(Some(parameters), theta, rotary_dim).map(|(rope, _)| rope)
            };
            return Ok((vec![build(full, theta)?, build(sliding, 10_000.0)?], None));
        }
        let (rope, original) =
            self.rope(parameters, self.number_or("rope_theta", theta)?, rotary_dim)?;
        let plain = |theta| Rope { theta, scaling: None, growth: None };
        let mut ropes = vec![rope];
        match window_rope {
            WindowRope::Shared => {}
            WindowRope::Local => {
                ropes.push(plain(self.number_or("rope_local_base_freq", 10_000.0)?));
            }
            WindowRope::Unscaled if ropes[0].scaling.is_some() => ropes.push(plain(ropes[0].theta)),
            WindowRope::Unscaled => {}
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
        let scaling = Scaling { keys: self, parameters };
        let kind = ["rope_type", "type"].iter().find_map(|key| parameters.get(*key)?.as_str());
        let (scaling, limit) = match kind.unwrap_or("default") {
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
        if let Some(original) = self.positive(key)? {
            return Ok(original);
        }
        let key = self.keys.present(key).map_or("max_position_embeddings", |_| key);
        Ok(self.keys.size(key)? as f64)
    }

    fn llama3(&self) -> Result<RopeScaling> {
        Ok(RopeScaling::Llama3 {
            factor: self.needed("factor")?,
            low_freq_factor: self.needed("low_freq_factor")?,
            high_freq_factor: self.needed("high_freq_factor")?,
            original_max_positions: self.needed("original_max_position_embeddings")?,
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
        let stretch = (all / original).max(1.0);
        let attention_factor = match self.positive("attention_factor")? {
            Some(factor) => factor,
            None => (1.0 + stretch.ln() / original.ln()).sqrt(),
        };
        Ok((RopeScaling::LongRope { short_factor, attention_factor }, original as usize))
    }
}
