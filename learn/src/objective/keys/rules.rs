//! The keys of rules: how rewards become advantages, and which tokens are treated apart.

use anyhow::{Result, bail};

use super::Keys;
use crate::objective::sets::{SetBaseline, SetFunction, SetObjective};
use crate::objective::tokens::{Covariance, SimKo};
use crate::objective::{AdvantageEstimator, Exploration, Gate, VerifierErrors};

impl Keys {
    pub(super) fn rule(&mut self) -> Result<AdvantageEstimator> {
        let name = self.take("rule").unwrap_or_else(|| "plain".into());
        Ok(match name.as_str() {
            "plain" => AdvantageEstimator::Plain,
            "negative" => AdvantageEstimator::Negative { positive: self.number("positive", 0.0)? },
            "maxrl" => AdvantageEstimator::MaxRl,
            "pkpo" => AdvantageEstimator::Pkpo { k: self.number("k", 4)? },
            "pass-at-k" => AdvantageEstimator::PassAtK { k: self.number("k", 4)? },
            "unlikeliness" => {
                AdvantageEstimator::Unlikeliness { strength: self.number("strength", 0.25)? }
            }
            "ucpo" => AdvantageEstimator::Ucpo { tau: self.number("tau", 0.2)? },
            "risk" => AdvantageEstimator::Risk { risk: self.number("risk", 2.0)? },
            "rarity" => AdvantageEstimator::Rarity { power: self.number("power", 1.0)? },
            "explore" => AdvantageEstimator::Explore(Exploration {
                bonus: self.number("bonus", 0.2)?,
                repeats: self.number("repeats", 0.0)?,
            }),
            "mara" => AdvantageEstimator::Mara,
            "set" => AdvantageEstimator::Set(self.set_objective()?),
            other => bail!(
                "`rule`: `{other}` is not one of plain, negative, maxrl, pkpo, pass-at-k, \
                 unlikeliness, ucpo, risk, rarity, explore, mara, set"
            ),
        })
    }

    fn set_objective(&mut self) -> Result<SetObjective> {
        let function = self.choice("function", SetFunction::Pass, &SetFunction::NAMED)?;
        // A pair is all that this one reads: another k is refused as a key without effect.
        let k = if function == SetFunction::Pair { 2 } else { self.number("k", 4)? };
        let baselines = [
            ("none", SetBaseline::None),
            ("others", SetBaseline::Others),
            ("marginal", SetBaseline::Marginal),
        ];
        let baseline = self.choice("set-baseline", SetBaseline::Others, &baselines)?;
        Ok(SetObjective { function, k, baseline })
    }

    pub(super) fn gate(&mut self) -> Result<Gate> {
        let gates =
            [("all", Gate::All), ("unsolved", Gate::Unsolved), ("gain", Gate::Gain { k: 1 })];
        match self.choice("gate", Gate::All, &gates)? {
            Gate::Gain { .. } => Ok(Gate::Gain { k: self.number("gate-k", 64)? }),
            gate => Ok(gate),
        }
    }

    pub(super) fn verifier_errors(&mut self) -> Result<Option<VerifierErrors>> {
        let is_given = ["false-positives", "false-negatives"]
            .into_iter()
            .any(|key| self.values.contains_key(key));
        let errors = VerifierErrors {
            false_positives: self.number("false-positives", 0.0)?,
            false_negatives: self.number("false-negatives", 0.0)?,
        };
        Ok(is_given.then_some(errors))
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
