//! Optima in a class of policies, found from the base, as training does: of reverse KL along beta, and of divergences
//! to p* along alpha.

use anyhow::{Result, ensure};

use super::decompose::{best, log_target};
use super::member::{Family, Member};
use super::{Class, Descent, World};
use tealight_learn::objective::Divergence;

/// A class of policies in a world, in which optima are sought.
pub struct ClassSearch<'a> {
    member: Member<'a>,
    descent: Descent,
}

impl<'a> ClassSearch<'a> {
    /// The policies of `class`.
    ///
    /// # Errors
    /// A table of the base that cannot be made.
    pub fn new(world: &'a World, class: Class, descent: Descent) -> Result<Self> {
        Ok(Self { member: Member::new(world, Family::Class(class))?, descent })
    }

    /// The optimum of `E[v] - beta KL(q || a)`, the reverse KL to p_beta: its distributions, prompt by prompt.
    ///
    /// # Errors
    /// A beta that is not above 0; a search that fails.
    pub fn at_beta(&self, beta: f64) -> Result<Vec<Vec<f64>>> {
        ensure!(beta.is_finite() && beta > 0.0, "beta {beta}: must be above 0");
        self.optimum(Divergence::ReverseKl, &log_target(self.member.world, beta))
    }

    /// The optimum of the alpha divergence to p*: its distributions, prompt by prompt. Alpha 0 is forward KL.
    ///
    /// # Errors
    /// An alpha from 1 on, where the divergence is infinite; a search that fails.
    pub fn at_alpha(&self, alpha: f64) -> Result<Vec<Vec<f64>>> {
        ensure!((0.0..1.0).contains(&alpha), "alpha {alpha}: must be at least 0 and below 1");
        self.optimum(Divergence::alpha(alpha), &log_target(self.member.world, 0.0))
    }

    fn optimum(&self, divergence: Divergence, log_p: &[f64]) -> Result<Vec<Vec<f64>>> {
        let starts = vec![self.member.start(0)];
        let (at, _) = best(&self.member, starts, (divergence, log_p), self.descent)?;
        Ok(self.member.policy(&at).distributions(self.member.world))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Measures;
    use super::super::sweep::{Point, Start, sweep};
    use super::*;

    #[test]
    fn optima_are_those_of_the_objective_that_training_uses() {
        let world = World::named("ends").unwrap();
        let descent = Descent { iterations: 2000, ..Descent::default() };
        let search = ClassSearch::new(&world, Class::Bigram, descent).unwrap();
        let points = [Point::Beta(0.3), Point::Filtered(Divergence::alpha(0.5))];
        let swept = sweep(&world, Class::Bigram, &points, Start::Base, descent).unwrap();
        let found = [search.at_beta(0.3).unwrap(), search.at_alpha(0.5).unwrap()];
        for (found, swept) in found.iter().zip(swept) {
            let measures = Measures::new(&world, found);
            assert!((measures.validity - swept.measures.validity).abs() < 1e-6);
            assert!((measures.effective_valid / swept.measures.effective_valid - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn targets_without_a_finite_optimum_are_refused() {
        let world = World::named("ends").unwrap();
        let search = ClassSearch::new(&world, Class::Bigram, Descent::default()).unwrap();
        for beta in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(search.at_beta(beta).is_err(), "{beta}");
        }
        for alpha in [1.0, -0.1, f64::NAN] {
            assert!(search.at_alpha(alpha).is_err(), "{alpha}");
        }
    }
}
