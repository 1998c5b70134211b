//! How often the base solved each prompt -> how often the best policy under a KL penalty would, and the penalty
//! coefficient for a target validity: estimates with intervals.
//!
//! On a prompt with base validity A the best policy at coefficient beta is correct with chance `mu = sigma(1 / beta +
//! logit A)` ([`target::validity_of`]). A is not known, only c correct of n completions, and mu bends in A: the share
//! `c / n` put in its place misses the target, most where many prompts were never solved. So mu is averaged over each
//! prompt's posterior under the population that all prompts were drawn from ([`tealight_eval::population`]), which
//! says too how far the completions tell: an interval without an assumption on the population's shape.

use anyhow::{Result, bail};
use serde::Serialize;
use tealight_eval::population::{self, Atom, Population, Trials};

use crate::objective::target;

/// An interval of validity from this width on is a reason to warn.
const WIDE: f64 = 0.1;

/// The validity of the base, prompt by prompt.
#[derive(Debug, Clone)]
pub struct BaseValidity {
    /// The validities of the prompts: the mean of their posteriors.
    atoms: Vec<Atom>,
    /// Where they come from; none for a validity that was given.
    measured: Option<(Population, Vec<Trials>)>,
}

/// A validity that the best policy would reach.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Reached {
    /// The expectation, over prompts and what each may be.
    pub expected: f64,
    /// Its 95 % interval, whatever shape the population of prompts has. None where the base's validity was given.
    pub interval: Option<(f64, f64)>,
}

impl Reached {
    /// How wide the interval is.
    pub fn width(&self) -> f64 {
        self.interval.map_or(0.0, |(low, high)| high - low)
    }
}

impl BaseValidity {
    /// A validity that is known.
    ///
    /// # Errors
    /// One that is not between 0 and 1.
    pub fn given(validity: f64) -> Result<Self> {
        if !(validity > 0.0 && validity < 1.0) {
            bail!("the base validity must be between 0 and 1, both excluded, not {validity}");
        }
        let atom = Atom { logit: target::logit(validity), weight: 1.0 };
        Ok(Self { atoms: vec![atom], measured: None })
    }

    /// Of prompts that were solved so often.
    ///
    /// # Errors
    /// No prompt, or none that was ever solved: nothing bounds how rare a correct completion is.
    pub fn measured(trials: Vec<Trials>) -> Result<Self> {
        let population = Population::fit(&trials)?;
        if trials.iter().all(|one| one.correct == 0) {
            let num_samples: usize = trials.iter().map(|one| one.num_samples).sum();
            bail!(
                "the base solved none of {} prompts in {num_samples} completions, so its validity has no lower bound: draw \
                 more, or choose easier problems",
                trials.len()
            );
        }
        let atoms = population.of_problems(&trials);
        Ok(Self { atoms, measured: Some((population, trials)) })
    }

    /// Number of prompts; 1 for a validity that was given.
    pub fn prompts(&self) -> usize {
        self.measured.as_ref().map_or(1, |(_, trials)| trials.len())
    }

    /// The mean over prompts of a function of the base's validity.
    pub fn mean(&self, f: &dyn Fn(f64) -> f64) -> f64 {
        population::mean(&self.atoms, &|logit| f(population::validity(logit)))
    }

    /// The validity of each prompt: the mean of its posterior.
    pub fn of_prompts(&self) -> Vec<f64> {
        match &self.measured {
            None => vec![self.mean(&|validity| validity)],
            Some((population, trials)) => {
                trials.iter().map(|one| population.moments(*one, &population::validity).0).collect()
            }
        }
    }

    /// The mean over prompts of the best policy's validity.
    pub fn reached(&self, beta: f64) -> Reached {
        let value = |logit: f64| population::validity(1.0 / beta + logit);
        let interval = self.measured.as_ref().map(|(population, _)| population.interval(&value));
        Reached { expected: population::mean(&self.atoms, &value), interval }
    }

    /// The one coefficient at which that mean is expected to be `target`.
    ///
    /// # Errors
    /// A target that is not above the base's validity, or not below 1.
    pub fn common_beta(&self, target: f64) -> Result<f64> {
        let atoms: Vec<(f64, f64)> = self.atoms.iter().map(|one| (one.logit, one.weight)).collect();
        target::common_beta(&atoms, target)
    }

    /// A warning where the completions do not tell what is reached.
    pub fn caution(&self, reached: &Reached) -> Option<String> {
        let (_, trials) = self.measured.as_ref()?;
        let (low, high) = reached.interval.filter(|_| reached.width() > WIDE)?;
        let unsolved = trials.iter().filter(|one| one.correct == 0).count();
        Some(format!(
            "the samples do not tell the validity that beta leads to, {low:.3} to {high:.3}: {unsolved} of {} prompts \
             were never solved, and how rarely they are solved decides it",
            trials.len()
        ))
    }
}
