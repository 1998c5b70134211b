//! The schedule of a plan: which ends its coefficients can reach, and their values at a step.

use anyhow::{Result, bail};

use super::{Anchor, Plan, SampleSource};
use crate::objective::annealing::{Annealing, Coefficients, Shape};

impl Annealing {
    /// Refuses ends that cannot be reached or change nothing.
    pub(super) fn check(&self, plan: &Plan) -> Result<()> {
        let Self { shape, beta_end, entropy_end, rehearsal_end } = *self;
        if let Some(end) = beta_end {
            let is_tilted = match &plan.anchor {
                Anchor::None => bail!("`beta-end` needs a divergence or a target p-beta"),
                Anchor::Base(_) => false,
                Anchor::Target(matching) if matching.beta == 0.0 => {
                    bail!("`beta-end` needs target=p-beta: p-star has no beta")
                }
                Anchor::Target(_) => true,
            };
            let least_is_above = is_tilted || shape == Shape::Geometric;
            if !end.is_finite() || end < 0.0 || (least_is_above && end == 0.0) {
                bail!("`beta-end` must be above 0, or 0 for a regulariser that falls to nothing");
            }
        }
        if let Some(end) = entropy_end {
            if plan.entropy.bonus == 0.0 {
                bail!("`entropy-end` needs an `entropy` to start from");
            }
            if !end.is_finite() || (shape == Shape::Geometric && end * plan.entropy.bonus <= 0.0) {
                bail!("`entropy-end`: {end} cannot be reached from {}", plan.entropy.bonus);
            }
        }
        if let Some(end) = rehearsal_end {
            let reads_stored = plan
                .regulariser()
                .is_some_and(|regulariser| regulariser.sampler != SampleSource::Policy);
            if !reads_stored {
                bail!("`rehearsal-end` needs an objective that rehearses beside its rollouts");
            }
            let least = if shape == Shape::Geometric { f64::MIN_POSITIVE } else { 0.0 };
            if !(least..=1.0).contains(&end) {
                bail!("`rehearsal-end` must be between 0 and 1 (above 0 for anneal=geometric)");
            }
        }
        Ok(())
    }
}

impl Plan {
    /// The share of `total` steps that is over: 0 at the first step, 1 at the last and after it.
    pub fn progress(step: usize, total: usize) -> f64 {
        (step as f64 / total.saturating_sub(1).max(1) as f64).min(1.0)
    }

    /// The coefficients of step `step` (from 0) of `total`.
    pub fn coefficients(&self, step: usize, total: usize) -> Coefficients {
        let progress = Self::progress(step, total);
        let Annealing { shape, beta_end, entropy_end, rehearsal_end } = self.annealing;
        let at = |start: f64, end: Option<f64>| {
            end.map_or(start, |end| shape.between(start, end, progress))
        };
        let start = self.beta();
        Coefficients {
            beta: if beta_end.is_some() { at(start, beta_end) / start } else { 1.0 },
            entropy: at(self.entropy.bonus, entropy_end),
            rehearsal: at(1.0, rehearsal_end),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::objective::Objective;

    #[test]
    fn every_shape_goes_from_its_start_to_its_end() {
        let parse = |text: &str| text.parse::<Objective>().unwrap().plan;
        for shape in ["linear", "cosine", "geometric"] {
            let plan = parse(&format!("kl-full:0.2:beta-end=0.05:anneal={shape}"));
            let beta = |step| 0.2 * plan.coefficients(step, 11).beta;
            assert!((beta(0) - 0.2).abs() < 1e-12 && (beta(10) - 0.05).abs() < 1e-12, "{shape}");
            let middle = if shape == "geometric" { 0.1 } else { 0.125 };
            assert!((beta(5) - middle).abs() < 1e-12, "{shape}: {}", beta(5));
            assert_eq!(beta(99), beta(10));
        }
        let plan = parse("entropy-bonus:0.01:entropy-end=0");
        assert!((plan.coefficients(5, 11).entropy - 0.005).abs() < 1e-12);
        let plan = parse("js:1:rehearsal-end=0");
        assert!((plan.coefficients(10, 11).rehearsal).abs() < 1e-12);
        assert_eq!(parse("grpo").coefficients(3, 4).beta, 1.0);
    }

    #[test]
    fn invalid_ends_are_refused_with_the_reason() {
        for (text, reason) in [
            ("grpo:beta-end=1", "needs a divergence"),
            ("alpha-dpg:0.5:beta-end=1", "p-star"),
            ("kl-full:0.1:beta-end=-1", "above 0"),
            ("kl-full:0.1:anneal=linear", "no effect"),
            ("match:p-beta:forward-kl:stored:beta=0.1:beta-end=0", "above 0"),
            ("grpo:entropy-end=0", "start from"),
            ("kl-full:rehearsal-end=0", "rehearses"),
            ("js:rehearsal-end=2", "between 0 and 1"),
            ("js:rehearsal-end=0:anneal=geometric", "above 0"),
        ] {
            let message = format!("{:#}", text.parse::<Objective>().expect_err(text));
            assert!(message.contains(reason), "{text}: {message}");
        }
    }
}
