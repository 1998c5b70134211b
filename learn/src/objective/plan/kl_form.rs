//! Whether a plan maximises `E[v] - beta KL(pi || a)`, the objective whose optimum is known in closed form.

use super::{Anchor, Estimator, Plan, SampleSource};
use crate::objective::{Baseline, Divergence};

impl Plan {
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
