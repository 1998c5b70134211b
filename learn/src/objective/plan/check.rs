//! Which choices of a plan exclude each other, and which of them maximise `E[v] - beta KL(pi || a)`, the objective
//! whose optimum is known in closed form.

use anyhow::{Result, bail};

use super::{Anchor, Estimator, Matching, Plan, Regulariser, SampleSource};
use crate::objective::{Baseline, Divergence, Rule, Target, TrustRegion};

impl Plan {
    /// Refuses combinations that cannot work.
    pub fn check(&self) -> Result<()> {
        match &self.anchor {
            Anchor::None => {}
            Anchor::Base(regulariser) => self.check_regulariser(regulariser)?,
            Anchor::Target(matching) => self.check_matching(matching)?,
        }
        if self.baseline == Baseline::Greedy && self.matching().is_some() {
            bail!(
                "a greedy completion has a reward, and no pseudo-reward of a target: set baseline=loo"
            );
        }
        if self.rule.as_ref().is_some_and(Rule::is_binary) && self.overlong_buffer > 0.0 {
            bail!("this rule reads verdicts and no rewards: `overlong-buffer` has no effect on it");
        }
        if self.rule.is_some() && self.baseline != Baseline::None {
            bail!("this rule brings its own baseline: leave `baseline` at none");
        }
        if self.num_iterations == 0 || self.steps_per_generation == 0 {
            bail!("`num-iterations` and `steps-per-generation` must be at least 1");
        }
        if self.updates() > 1 && self.is_on_policy() && self.trust_region == TrustRegion::None {
            bail!(
                "more than one update on a batch is off-policy, and without a trust region nothing \
                 corrects for it: set num-iterations=1 and steps-per-generation=1, or a trust-region ({})",
                TrustRegion::NAMES[1..].join(", ")
            );
        }
        if !self.is_on_policy() && self.uses_rollouts() {
            bail!(
                "stored samples alone are trained on: baselines, trust regions, several updates a batch, entropy \
                 control and dynamic sampling belong to rollouts (sampler=policy)"
            );
        }
        if !(0.0..1.0).contains(&self.overlong_buffer) {
            bail!("`overlong-buffer` must be at least 0 and below 1");
        }
        Ok(())
    }

    fn uses_rollouts(&self) -> bool {
        self.trust_region != TrustRegion::None
            || self.baseline != Baseline::None
            || self.entropy.bonus != 0.0
            || self.entropy.target.is_some()
            || self.dynamic_sampling
            || self.mask_truncated
            || self.updates() > 1
    }

    fn check_regulariser(&self, regulariser: &Regulariser) -> Result<()> {
        let Regulariser { divergence, beta, sampler, estimator, split } = regulariser;
        if !(*beta > 0.0 && beta.is_finite()) {
            bail!(
                "the coefficient (`beta`) must be above 0; for no divergence use divergence=none"
            );
        }
        if !(0.0..=1.0).contains(&split.pef_threshold) {
            bail!("`pef-threshold` must be between 0 and 1");
        }
        match (sampler, estimator.is_of_policy()) {
            (SampleSource::Policy, false) => bail!(
                "the generator needs samples of the base: set sampler=filtered or stored, or an \
                 estimator for the policy's own ({})",
                Estimator::names(true).join(", ")
            ),
            (SampleSource::Stored | SampleSource::Filtered, true) => bail!(
                "samples of the base are read by estimator={}",
                Estimator::names(false).join(" or ")
            ),
            _ => {}
        }
        let is_k = matches!(estimator, Estimator::K2 | Estimator::K3);
        if is_k && *divergence != Divergence::ReverseKl {
            bail!(
                "k2 and k3 are estimators of reverse-kl; for {divergence} use estimator=score or full"
            );
        }
        if *estimator == Estimator::Definition && *divergence != Divergence::Js {
            bail!("the definition form exists for js alone; use estimator=generator");
        }
        Ok(())
    }

    fn check_matching(&self, matching: &Matching) -> Result<()> {
        let Matching { target, divergence, sampler, beta, max_reward, .. } = matching;
        match target {
            Target::Filtered if divergence.at_infinity().is_infinite() => bail!(
                "{divergence} to p* is infinite for every policy that can be wrong, since p* gives no \
                 mass to wrong answers: aim at p-beta, or take alpha below 1 (0.999 is nearly reverse \
                 KL)"
            ),
            Target::Tilted if !(*beta > 0.0 && beta.is_finite()) => {
                bail!(
                    "target=p-beta needs a `beta` above 0: for a validity mu of the target 1 / (logit mu - logit A)"
                )
            }
            Target::Tilted if *sampler == SampleSource::Filtered => bail!(
                "p-beta gives mass to wrong answers, which filtered samples lack: set sampler=stored \
                 or policy"
            ),
            _ => {}
        }
        if *max_reward <= 0.0 {
            bail!("`max-reward` must be above 0");
        }
        if self.rule.is_some() {
            bail!("a target replaces the reward: `rule` must be plain");
        }
        if self.overlong_buffer > 0.0 {
            bail!(
                "a target has no reward for `overlong-buffer` to shape; truncated answers are wrong"
            );
        }
        Ok(())
    }

    /// The beta of `E[v] - beta KL(pi || a)` where the expected gradient is that of this function, up to a factor; 0
    /// without a divergence. `None` where rewards or prompts are weighted otherwise, where coefficients change, and for
    /// another divergence or target.
    pub fn kl_coefficient(&self) -> Option<f64> {
        let is_plain = self.rule.is_none()
            && matches!(
                self.baseline,
                Baseline::None | Baseline::Loo | Baseline::GroupMean | Baseline::Greedy
            )
            && (self.entropy.bonus, self.entropy.target) == (0.0, None)
            && (!self.dynamic_sampling && !self.mask_truncated && self.overlong_buffer == 0.0);
        match &self.anchor {
            Anchor::None => Some(0.0),
            Anchor::Base(regulariser) => {
                let is_exact = matches!(
                    regulariser.estimator,
                    Estimator::Score | Estimator::K2 | Estimator::Full
                );
                let is_kl = regulariser.divergence == Divergence::ReverseKl;
                let is_of_policy = regulariser.sampler == SampleSource::Policy;
                (is_exact && is_kl && is_of_policy).then_some(regulariser.beta)
            }
            Anchor::Target(_) => None,
        }
        .filter(|_| is_plain)
    }
}

#[cfg(test)]
mod tests {
    use crate::objective::Objective;

    #[test]
    fn objectives_of_the_kl_form_have_its_coefficient() {
        for (text, beta) in [
            ("reverse-kl:0.1", Some(0.1)),
            ("kl-full:0.03", Some(0.03)),
            ("kl-k2:0.2", Some(0.2)),
            ("divergence:reverse-kl:0.3", Some(0.3)),
            ("divergence:none", Some(0.0)),
            ("rloo", Some(0.0)),
            ("grpo", None),
            ("kl-k3:0.1", None),
            ("forward-kl:0.1", None),
            ("rft", None),
            ("alpha-dpg:0.5", None),
            ("rloo:entropy=0.01", None),
        ] {
            let objective: Objective =
                text.parse().unwrap_or_else(|error| panic!("{text}: {error:#}"));
            assert_eq!(objective.plan.kl_coefficient(), beta, "{text}");
        }
    }
}
