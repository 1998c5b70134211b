//! Named objectives: `--objective NAME[:COEFFICIENT]`.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::Divergence;

/// What `--help` says of `--objective`.
pub(crate) const HELP: &str = "\
What is optimised besides the reward, NAME[:COEFFICIENT].
  none               the reward alone
  reverse-kl[:0.05]  KL(policy || base) of whole completions, charged to the
                     advantage: the exact gradient, not GRPO's k3
  forward-kl[:0.3]   KL(base || policy) per token on the base's own right answers
                     (DPH-F, arXiv 2509.07430)
  js[:2.4]           Jensen-Shannon, generator form, on the same (DPH-JS); at its true
                     scale, so DPH's 0.2 is 0.4 here";

/// Whose samples a divergence is estimated on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawnFrom {
    /// The policy's own rollouts.
    Policy,
    /// Stored right answers of the base.
    Reference,
}

/// A divergence from the base and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Penalty {
    /// Which.
    pub divergence: Divergence,
    /// How much: TRL's `beta`, DPH-RL's `eta`.
    pub coefficient: f64,
    /// Estimated on whose samples.
    pub drawn_from: DrawnFrom,
}

/// What a run optimises besides the reward.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Objective {
    name: &'static str,
    /// The divergence, if any.
    pub penalty: Option<Penalty>,
}

/// The names, and their divergences with the default coefficients.
///
/// 0.3 on forward KL is what our prototype settled on before this code existed; JS has DPH-RL's
/// ratio to it (their 0.2 to 0.05, times two for the scale).
const PRESETS: [(&str, Option<Penalty>); 4] = [
    ("none", None),
    ("reverse-kl", Some(Penalty::new(Divergence::ReverseKl, 0.05, DrawnFrom::Policy))),
    ("forward-kl", Some(Penalty::new(Divergence::ForwardKl, 0.3, DrawnFrom::Reference))),
    ("js", Some(Penalty::new(Divergence::Js, 2.4, DrawnFrom::Reference))),
];

impl Penalty {
    const fn new(divergence: Divergence, coefficient: f64, drawn_from: DrawnFrom) -> Self {
        Self { divergence, coefficient, drawn_from }
    }
}

impl Objective {
    /// The name without the coefficient.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Whether the base must be sampled before training starts.
    pub fn needs_presamples(&self) -> bool {
        self.penalty.is_some_and(|penalty| penalty.drawn_from == DrawnFrom::Reference)
    }
}

impl FromStr for Objective {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, coefficient) = match text.split_once(':') {
            Some((name, coefficient)) => (name, Some(coefficient)),
            None => (text, None),
        };
        let known = name.replace('_', "-");
        let Some((name, preset)) = PRESETS.iter().find(|(preset, _)| *preset == known) else {
            let names: Vec<_> = PRESETS.iter().map(|(name, _)| *name).collect();
            bail!("objective `{name}` is not known; choose one of {}", names.join(", "));
        };
        let penalty = match (preset, coefficient) {
            (None, None) => None,
            (None, Some(_)) => bail!("objective `{name}` has no divergence to weigh"),
            (Some(preset), given) => {
                let coefficient = match given {
                    None => preset.coefficient,
                    Some(text) => text.parse().map_err(|_| {
                        anyhow!("objective `{name}`: coefficient `{text}` is not a number")
                    })?,
                };
                if !(coefficient > 0.0 && f64::is_finite(coefficient)) {
                    bail!(
                        "objective `{name}`: the coefficient must be above 0; for none use `none`"
                    );
                }
                Some(Penalty { coefficient, ..*preset })
            }
        };
        Ok(Self { name, penalty })
    }
}

impl fmt::Display for Objective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.penalty {
            None => f.write_str(self.name),
            Some(penalty) => write!(f, "{}:{}", self.name, penalty.coefficient),
        }
    }
}

impl Serialize for Objective {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Objective {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_coefficients_are_read_and_printed_back() {
        for text in ["none", "reverse-kl:0.1", "forward-kl:0.3", "js:2"] {
            assert_eq!(text.parse::<Objective>().unwrap().to_string(), text);
        }
        assert_eq!("reverse_kl".parse::<Objective>().unwrap().name(), "reverse-kl");
        assert!("js".parse::<Objective>().unwrap().needs_presamples());
        for text in ["kl", "none:1", "js:x", "js:0", "js:-1", "js:inf"] {
            assert!(text.parse::<Objective>().is_err(), "{text}");
        }
    }
}
