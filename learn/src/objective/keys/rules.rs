//! The keys of rules: how rewards become advantages, and which tokens are treated apart.

use anyhow::{Result, bail};

use super::Keys;
use crate::objective::rule::{ROWS, Rule};
use crate::objective::tokens::{Covariance, SimKo};

impl Keys {
    /// The rule of the advantage; none is the reward less the baseline.
    pub(super) fn rule(&mut self) -> Result<Option<Rule>> {
        let text = match self.take("advantage") {
            Some(text) => {
                for key in ["rule", "baseline"] {
                    // Those of a preset went when the rule was set.
                    if self.values.contains_key(key) {
                        bail!(
                            "`advantage` is a rule of its own and replaces `{key}`: leave it out"
                        );
                    }
                }
                text
            }
            None => match self.take("rule").as_deref() {
                None | Some("plain") => return Ok(None),
                Some(name) => match ROWS.iter().find(|row| row.name == name) {
                    Some(row) => row.text.to_owned(),
                    None => {
                        let known = ROWS.map(|row| row.name).join(", ");
                        bail!("`rule`: `{name}` is not one of plain, {known}")
                    }
                },
            },
        };
        Rule::parse(&text, |name, default| self.number(name, default)).map(Some)
    }

    pub(super) fn covariance(&mut self) -> Result<Option<Covariance>> {
        let name = self.take("covariance").unwrap_or_else(|| "none".into());
        Ok(match name.as_str() {
            "none" => None,
            "clip" => Some(Covariance::Clip {
                share: self.number("covariance-share", 2e-4)?,
                low: self.number("covariance-low", 1.0)?,
                high: self.number("covariance-high", 5.0)?,
            }),
            "kl" => Some(Covariance::Kl {
                share: self.number("covariance-share", 2e-4)?,
                coefficient: self.number("covariance-coefficient", 1.0)?,
            }),
            other => bail!("`covariance`: `{other}` is not one of none, clip, kl"),
        })
    }

    pub(super) fn simko(&mut self) -> Result<Option<SimKo>> {
        if !self.flag("simko")? {
            return Ok(None);
        }
        let simko = SimKo {
            quantile: self.number("quantile", 0.8)?,
            mix: self.number("mix", 0.01)?,
            top: self.number("top", 3)?,
            penalty: self.number("penalty", 1.1)?,
        };
        if !(0.0..=1.0).contains(&simko.quantile) || simko.top == 0 {
            bail!("`quantile` must be between 0 and 1, `top` at least 1");
        }
        Ok(Some(simko))
    }
}
