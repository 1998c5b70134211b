//! `key=value` settings to a [`Plan`]: the language that presets are written in and users refine.
//!
//! Every key that a user gives must matter: one that the resulting plan does not read is refused.

pub(super) mod controlled_family;

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use clap::ValueEnum;
use tealight_system::choices::names;

use crate::objective::plan::{
    Anchor, Entropy, Estimator, Matching, Partition, Plan, Regulariser, SampleSource, Split,
};
use crate::objective::rule::{FUNCTION, ROWS, Rule};
use crate::objective::{Baseline, Divergence, LossType, Target, TrustRegion};

/// Why a coefficient has no effect on an objective of the reward alone, and the objectives on which it has one.
const NO_PENALTY: &str = "`beta` has no effect, because this objective has no KL penalty; with one: kl-k3 (GRPO with the \
KL of its paper), reverse-kl or forward-kl (tealight objectives)";

/// Largest number that a key takes.
const LARGEST: f64 = 1e6;

/// Settings by name, each known to come from the user or from a preset.
pub(super) struct Keys {
    values: BTreeMap<String, (String, bool)>,
}

/// The canonical form of a key: kebab case, with the field's other words for `beta`.
pub(super) fn canonical(key: &str, value: &str) -> String {
    match key.replace('_', "-").as_str() {
        "eta" | "coefficient" => "beta".into(),
        "advantage" if named::<Baseline>(value).is_some() => "baseline".into(),
        other => other.into(),
    }
}

/// The settings of an objective, which colons separate. `advantage=python:FILE.py:FUNCTION` is one.
pub(super) fn settings(text: &str) -> Vec<&str> {
    let mut rest = text;
    let mut all = Vec::new();
    loop {
        let is_function = rest.split_once('=').is_some_and(|(key, value)| {
            canonical(key, value) == "advantage" && value.starts_with(FUNCTION)
        });
        let name = match is_function {
            true => rest.find(".py:").map_or(rest.len(), |at| at + ".py:".len()),
            false => 0,
        };
        let end = rest[name..].find(':').map(|at| name + at);
        all.push(&rest[..end.unwrap_or(rest.len())]);
        let Some(end) = end else { return all };
        rest = &rest[end + 1..];
    }
}

/// The value of this name, with `_` or `-`, in letters of any size.
fn named<T: ValueEnum>(text: &str) -> Option<T> {
    let spellings = [text.replace('_', "-"), text.replace('-', "_")];
    spellings.iter().find_map(|text| T::from_str(text, true).ok())
}

impl Keys {
    /// A preset's settings, written `key=value key=value`.
    pub(super) fn of_preset(text: &str) -> Self {
        let pair = |word: &str| {
            let (key, value) = word.split_once('=').expect("presets are well-formed");
            (key.to_owned(), (value.to_owned(), false))
        };
        Self { values: text.split_whitespace().map(pair).collect() }
    }

    /// Puts a user's setting over the preset's.
    pub(super) fn set(&mut self, key: &str, value: &str) {
        let key = canonical(key, value);
        if key == "advantage" {
            // The rule takes the place of the preset's.
            self.values
                .retain(|key, (_, is_given)| *is_given || !["rule", "baseline"].contains(&&**key));
        }
        self.values.insert(key, (value.to_owned(), true));
    }

    /// The settings, in alphabetical order.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(key, (value, _))| (key.as_str(), value.as_str()))
    }

    fn take(&mut self, key: &str) -> Option<String> {
        self.values.remove(key).map(|(value, _)| value)
    }

    fn number<T: FromStr + Display>(&mut self, key: &str, default: T) -> Result<T> {
        match self.take(key) {
            None => Ok(default),
            Some(text) => {
                let size = text.parse::<f64>().unwrap_or(0.0).abs();
                if size.is_nan() || size > LARGEST {
                    bail!("`{key}`: {text} is not between -{LARGEST} and {LARGEST}");
                }
                text.parse().map_err(|_| anyhow!("`{key}`: `{text}` is not a number"))
            }
        }
    }

    fn choice<T: Copy>(&mut self, key: &str, default: T, choices: &[(&str, T)]) -> Result<T> {
        let Some(text) = self.take(key) else { return Ok(default) };
        let known = text.replace('_', "-");
        if let Some((_, choice)) = choices.iter().find(|(name, _)| *name == known) {
            return Ok(*choice);
        }
        let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
        bail!("`{key}`: `{text}` is not known; choose one of {}", names.join(", "))
    }

    /// One of the values of `T`, by its name.
    fn value<T: ValueEnum>(&mut self, key: &str, default: T) -> Result<T> {
        let Some(text) = self.take(key) else { return Ok(default) };
        named(&text).ok_or_else(|| anyhow!("`{key}`: `{text}` is not one of {}", names::<T>()))
    }

    fn flag(&mut self, key: &str) -> Result<bool> {
        self.choice(key, false, &[("true", true), ("false", false)])
    }

    /// The plan that the settings describe.
    pub(super) fn plan(mut self) -> Result<Plan> {
        let anchor = self.anchor()?;
        let rule = self.rule()?;
        let plan = Plan {
            anchor,
            rule,
            baseline: self.value("baseline", Baseline::None)?,
            trust_region: self.trust_region()?,
            loss_type: self.value("loss-type", LossType::Dapo)?,
            num_iterations: self.number("num-iterations", 1)?,
            steps_per_generation: self.number("steps-per-generation", 1)?,
            entropy: Entropy {
                bonus: self.number("entropy", 0.0)?,
                target: match self.values.contains_key("target-entropy") {
                    true => Some(self.number("target-entropy", 0.0)?),
                    false => None,
                },
            },
            dynamic_sampling: self.flag("dynamic-sampling")?,
            overlong_buffer: self.number("overlong-buffer", 0.0)?,
            mask_truncated: self.flag("mask-truncated")?,
        };
        // TRL's `beta = 0.0` says the same as an objective without a penalty.
        let is_none = |key: &str, value: &str| {
            key == "beta" && plan.anchor == Anchor::None && value.parse::<f64>() == Ok(0.0)
        };
        let mut unread = self.values.iter().filter(|(_, (_, is_given))| *is_given);
        match unread.find(|(key, (value, _))| !is_none(key, value)) {
            Some((key, _)) if key == "beta" && plan.anchor == Anchor::None => bail!(NO_PENALTY),
            Some((key, _)) => {
                bail!("`{key}` has no effect here; tealight objectives --all lists the keys")
            }
            None => {}
        }
        plan.check()?;
        Ok(plan)
    }

    fn anchor(&mut self) -> Result<Anchor> {
        let targets = [
            ("max-reward", None),
            ("p-star", Some(Target::Filtered)),
            ("p-beta", Some(Target::Tilted)),
        ];
        let target = self.choice("target", None, &targets)?;
        let divergence = self.take("divergence").unwrap_or_else(|| "none".into());
        let divergence = match divergence.as_str() {
            "none" => None,
            "alpha" => {
                let alpha: f64 = self.number("alpha", 0.5)?;
                if alpha < 0.0 {
                    bail!("`alpha`: {alpha} is below 0, which is forward KL");
                }
                Some(Divergence::alpha(alpha))
            }
            name => Some(name.parse()?),
        };
        match (target, divergence) {
            (None, None) => Ok(Anchor::None),
            (Some(_), None) => bail!("a target needs a `divergence`"),
            (None, Some(divergence)) => self.regulariser(divergence).map(Anchor::Base),
            (Some(target), Some(divergence)) => {
                let sampler = self.value("sampler", SampleSource::Policy)?;
                let (mut max_reward, mut partition) = (f64::INFINITY, Partition::Fixed);
                if sampler == SampleSource::Policy {
                    max_reward = self.number("max-reward", f64::INFINITY)?;
                    partition = self.value("partition", Partition::Fixed)?;
                }
                let beta = match target {
                    Target::Tilted => self.number("beta", 0.0)?,
                    Target::Filtered => 0.0,
                };
                Ok(Anchor::Target(Matching {
                    target,
                    divergence,
                    beta,
                    sampler,
                    max_reward,
                    partition,
                }))
            }
        }
    }

    /// The divergence from the base, with its estimator.
    fn regulariser(&mut self, divergence: Divergence) -> Result<Regulariser> {
        let sampler = self.value("sampler", SampleSource::Policy)?;
        let default = match sampler {
            SampleSource::Policy => Estimator::Score,
            SampleSource::Stored | SampleSource::Filtered => Estimator::Generator,
        };
        if self.values.get("estimator").is_some_and(|(value, _)| value == "k1") {
            bail!(
                "the expected gradient of k1 in the loss is 0; estimator=score subtracts k1 from the reward instead"
            );
        }
        let estimator = self.value("estimator", default)?;
        let beta = self.number("beta", 0.05)?;
        let split = self.split(sampler)?;
        Ok(Regulariser { divergence, beta, sampler, estimator, split })
    }

    fn split(&mut self, sampler: SampleSource) -> Result<Split> {
        let mut split = Split::default();
        if sampler != SampleSource::Policy {
            split.pef_threshold = self.number("pef-threshold", 0.0)?;
            split.pef_samples = self.number("pef-samples", 0)?;
            split.extra_check = self.flag("extra-check")?;
            let explored = [("all", false), ("rest", true)];
            split.explores_rest = self.choice("explore", false, &explored)?;
            split.drop_unsolved = self.flag("drop-unsolved")?;
            let samples = [("all", false), ("one", true)];
            split.one_sample = self.choice("rehearsal-samples", false, &samples)?;
            let means = [("own", false), ("joint", true)];
            split.is_joint_mean = self.choice("rehearsal-mean", false, &means)?;
        }
        Ok(split)
    }

    /// The rule of the advantage; none is the reward less the baseline.
    fn rule(&mut self) -> Result<Option<Rule>> {
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

    fn trust_region(&mut self) -> Result<TrustRegion> {
        let name = self.take("trust-region").unwrap_or_else(|| "none".into());
        let mut number = |key: &str, default| -> Result<f64> {
            let value: f64 = self.number(key, default)?;
            if value.is_finite() && value >= 0.0 {
                Ok(value)
            } else {
                bail!("`{key}` must be at least 0")
            }
        };
        let region = match name.as_str() {
            "none" => TrustRegion::None,
            "ppo" => {
                let low = number("epsilon", 0.2)?;
                let high = number("epsilon-high", low)?;
                let dual = number("dual-clip", 0.0)?;
                TrustRegion::Ppo { low, high, dual: (dual > 0.0).then_some(dual) }
            }
            "gspo" => {
                let low = number("epsilon", 3e-4)?;
                TrustRegion::Gspo { low, high: number("epsilon-high", low)? }
            }
            "cispo" => TrustRegion::Cispo { high: number("epsilon-high", 5.0)? },
            other => {
                let known = TrustRegion::NAMES.join(", ");
                bail!("`trust-region`: `{other}` is not one of {known}")
            }
        };
        if let TrustRegion::Ppo { low, .. } | TrustRegion::Gspo { low, .. } = region
            && low >= 1.0
        {
            bail!("`epsilon` must be below 1");
        }
        Ok(region)
    }
}
