//! Settings that flags override in an objective, each in its own type, to changes of its plan and of its name.

use anyhow::{Result, bail};
use clap::ValueEnum;

use super::plan::{Anchor, Plan};
use super::surrogate::{LossType, TrustRegion};
use super::target::Target;

/// Changes of a plan; `None` leaves what the objective says. The fields are the keys of `tealight objectives`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PlanPatch {
    /// Key `loss-type`: how tokens are averaged.
    pub loss_type: Option<LossType>,
    /// `epsilon`: the lower clip, and the upper one where the objective has no `epsilon-high`.
    pub epsilon: Option<f64>,
    /// `epsilon-high`: the upper clip.
    pub epsilon_high: Option<f64>,
    /// Key `num-iterations`: passes over a batch.
    pub num_iterations: Option<usize>,
    /// `beta`: the penalty coefficient, or the temperature of p_beta.
    pub beta: Option<f64>,
    /// Key `steps-per-generation`: mini-batches of a batch.
    pub steps_per_generation: Option<usize>,
}

impl PlanPatch {
    /// The changes, as keys and values of the language of objectives.
    pub(super) fn words(&self) -> Vec<(&'static str, String)> {
        let number = |value: Option<f64>| value.map(|value| value.to_string());
        let count = |value: Option<usize>| value.map(|value| value.to_string());
        let words = [
            ("loss-type", self.loss_type.as_ref().map(spelled)),
            ("epsilon", number(self.epsilon)),
            ("epsilon-high", number(self.epsilon_high)),
            ("num-iterations", count(self.num_iterations)),
            ("beta", number(self.beta)),
            ("steps-per-generation", count(self.steps_per_generation)),
        ];
        words.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }

    /// Changes a plan, of which `has_epsilon_high` says whether its upper clip has a value of its own.
    pub(super) fn apply(&self, plan: &mut Plan, has_epsilon_high: bool) -> Result<()> {
        plan.loss_type = self.loss_type.unwrap_or(plan.loss_type);
        plan.num_iterations = self.num_iterations.unwrap_or(plan.num_iterations);
        plan.steps_per_generation = self.steps_per_generation.unwrap_or(plan.steps_per_generation);
        self.apply_clip(&mut plan.trust_region, has_epsilon_high)?;
        self.apply_beta(&mut plan.anchor)?;
        plan.check()
    }

    fn apply_clip(&self, region: &mut TrustRegion, has_epsilon_high: bool) -> Result<()> {
        for (key, value) in [("epsilon", self.epsilon), ("epsilon-high", self.epsilon_high)] {
            if value.is_some_and(|value| !(value.is_finite() && value >= 0.0)) {
                bail!("`{key}` must be at least 0");
            }
        }
        match region {
            TrustRegion::Ppo { low, high, .. } | TrustRegion::Gspo { low, high } => {
                *low = self.epsilon.unwrap_or(*low);
                // `epsilon` alone is both ends, unless the objective clips higher above (DAPO).
                let linked = self.epsilon.filter(|_| !has_epsilon_high);
                *high = self.epsilon_high.or(linked).unwrap_or(*high);
                if *low >= 1.0 {
                    bail!("`epsilon` must be below 1");
                }
                Ok(())
            }
            TrustRegion::Cispo { high } => {
                *high = self.epsilon_high.unwrap_or(*high);
                effective("epsilon", self.epsilon.is_none())
            }
            TrustRegion::None => {
                effective("epsilon", self.epsilon.is_none())?;
                effective("epsilon-high", self.epsilon_high.is_none())
            }
        }
    }

    fn apply_beta(&self, anchor: &mut Anchor) -> Result<()> {
        let Some(beta) = self.beta else { return Ok(()) };
        match anchor {
            Anchor::Base(regulariser) => regulariser.beta = beta,
            Anchor::Target(matching) if matching.target == Target::Tilted => matching.beta = beta,
            Anchor::None => bail!(NO_PENALTY),
            Anchor::Target(_) => return effective("beta", false),
        }
        Ok(())
    }
}

/// Why a coefficient has no effect on an objective of the reward alone, and the objectives on which it has one.
pub(super) const NO_PENALTY: &str = "`beta` has no effect, because this objective has no KL penalty; with one: kl-k3 (GRPO \
with the KL of its paper), reverse-kl or forward-kl (tealight objectives)";

/// Refuses a key that the plan does not read.
fn effective(key: &str, is_read: bool) -> Result<()> {
    match is_read {
        true => Ok(()),
        false => {
            bail!("`{key}` has no effect here; tealight objectives --all lists the keys")
        }
    }
}

/// The name that a value has in the language of objectives.
fn spelled(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Objective;

    /// A patch and the words that say the same.
    fn patches() -> Vec<(PlanPatch, &'static str)> {
        let none = PlanPatch::default;
        vec![
            (none(), ""),
            (PlanPatch { loss_type: Some(LossType::DrGrpo), ..none() }, ":loss-type=dr_grpo"),
            (PlanPatch { epsilon: Some(0.1), ..none() }, ":epsilon=0.1"),
            (PlanPatch { epsilon: Some(1.5), ..none() }, ":epsilon=1.5"),
            (PlanPatch { epsilon_high: Some(0.4), ..none() }, ":epsilon-high=0.4"),
            (
                PlanPatch { epsilon: Some(0.1), epsilon_high: Some(0.3), ..none() },
                ":epsilon=0.1:epsilon-high=0.3",
            ),
            (PlanPatch { num_iterations: Some(2), ..none() }, ":num-iterations=2"),
            (PlanPatch { num_iterations: Some(0), ..none() }, ":num-iterations=0"),
            (PlanPatch { beta: Some(0.3), ..none() }, ":beta=0.3"),
            (PlanPatch { beta: Some(-1.0), ..none() }, ":beta=-1"),
            (PlanPatch { steps_per_generation: Some(4), ..none() }, ":steps-per-generation=4"),
        ]
    }

    #[test]
    fn patch_equals_its_keys_for_every_objective() {
        let (mut same, mut refused) = (0, 0);
        for name in Objective::names() {
            let objective: Objective = name.parse().unwrap();
            for (patch, words) in patches() {
                let patched = objective.with(&patch);
                match format!("{name}{words}").parse::<Objective>() {
                    Ok(read) => {
                        let patched = patched.unwrap_or_else(|e| panic!("{name}{words}: {e:#}"));
                        assert_eq!(patched.plan, read.plan, "{name}{words}");
                        assert_eq!(patched.to_string().parse::<Objective>().unwrap(), patched);
                        same += 1;
                    }
                    Err(error) => {
                        let message = format!("{:#}", patched.expect_err(words));
                        let known = format!("{error:#}");
                        let reason = known.split("`: ").last().unwrap_or_default();
                        assert!(message.ends_with(reason), "{name}{words}: {message}, not {known}");
                        refused += 1;
                    }
                }
            }
        }
        assert!(same > 100 && refused > 100, "{same}, {refused}");
    }
}
