//! The keys of rules: how rewards become advantages, and which tokens are treated apart.

use anyhow::{Result, bail};

use super::Keys;
use crate::objective::rule::Rule;
use crate::objective::sets::{SetBaseline, SetFunction, SetObjective};
use crate::objective::tokens::{Covariance, SimKo};
use crate::objective::{AdvantageEstimator, Exploration, Gate, VerifierErrors};

/// The rules of papers that a line of text says.
const RULES: [(&str, &str); 5] = [
    // -1 on incorrect answers (NSR and W-REINFORCE, arXiv 2506.01347): in expectation REINFORCE times `1 + positive`.
    ("negative", "where(correct, positive, -1)"),
    // The gradient of -sum_{j < n} (1 - p)^j / j, log p cut after n - 1 terms (MaxRL, arXiv 2602.02710).
    ("maxrl", "where(c > 0, where(correct, 1 - c/n, -c/n) / (c/n + 1e-6), 0)"),
    // n times PKPO's estimate (arXiv 2505.15201): k for a correct sample, else k times the Pass@(k-1) of the others,
    // less the mean of the same over the group without the sample.
    (
        "pkpo",
        "k * (where(correct, 1, pass_at_k(n-1, c, k-1))
            - (c - correct + (n - 1 - c + correct) * pass_at_k(n-2, c - correct, k-1)) / (n - 1))",
    ),
    // A set of k has the reward R = Pass@k with deviation sqrt(R (1 - R)); a correct sample's sets all pass (arXiv
    // 2508.10751).
    (
        "pass-at-k",
        "where((c == 0) + (n - c < k), 0,
            (1 - pass_at_k(n, c, k) - where(correct, 0, 1 - pass_at_k(n-1, c, k-1)))
            / sqrt(pass_at_k(n, c, k) * (1 - pass_at_k(n, c, k))))",
    ),
    // The gradient of log E e^(risk r) / risk, its mean taken from the group (RS-GRPO, arXiv 2509.24261); divided by
    // e^risk, which large risks overflow.
    (
        "risk",
        "where((c == 0) + (c == n), 0,
            (where(correct, 1, exp(-risk)) / (c/n + (1 - c/n) * exp(-risk)) - 1) / risk)",
    ),
];

impl Keys {
    pub(super) fn rule(&mut self) -> Result<AdvantageEstimator> {
        if let Some(text) = self.take("advantage") {
            for key in ["rule", "baseline"] {
                if self.values.remove(key).is_some_and(|(_, is_given)| is_given) {
                    bail!("`advantage` is a rule of its own and replaces `{key}`: leave it out");
                }
            }
            return self.written(&text);
        }
        let name = self.take("rule").unwrap_or_else(|| "plain".into());
        if let Some((_, text)) = RULES.iter().find(|(known, _)| *known == name) {
            return self.written(text);
        }
        Ok(match name.as_str() {
            "plain" => AdvantageEstimator::Plain,
            "unlikeliness" => {
                AdvantageEstimator::Unlikeliness { strength: self.number("strength", 0.25)? }
            }
            "ucpo" => AdvantageEstimator::Ucpo { tau: self.number("tau", 0.2)? },
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

    /// A rule by its text, with the keys that it names.
    fn written(&mut self, text: &str) -> Result<AdvantageEstimator> {
        Rule::parse(text, |name, default| self.number(name, default)).map(AdvantageEstimator::Rule)
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
