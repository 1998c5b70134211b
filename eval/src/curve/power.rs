//! How large a difference a study finds, and how many seeds find half of it.

use super::result::Power;
use crate::inference::Variances;
use crate::inference::student::Test;
use crate::inference::two_way::planned_freedom;

/// The probability with which a difference is found.
pub const POWER: f64 = 0.8;

/// Most seeds that are worth planning.
pub(super) const MOST_SEEDS: usize = 100;

/// The power of a study of so many seeds and problems between two objectives, if variances are these and `tests`
/// differences are tested at `confidence` (Bonferroni's threshold, which is Holm's first). None for fewer than two
/// seeds: their spread is then unknown.
pub fn plan(
    variances: &Variances,
    seeds: usize,
    problems: usize,
    tests: usize,
    confidence: f64,
) -> Option<Power> {
    // Holm's first step is Bonferroni's; planning with it promises no more than the tests find.
    let alpha = (1.0 - confidence) / tests.max(1) as f64;
    let at = |seeds: usize| least(variances, seeds, problems, alpha);
    if seeds < 2 || problems < 2 {
        return None;
    }
    let minimum = at(seeds);
    // More seeds never find less.
    let (mut too_few, mut enough) = (seeds, MOST_SEEDS.max(seeds + 1));
    let is_possible = at(enough) <= minimum / 2.0;
    while is_possible && enough - too_few > 1 {
        let middle = (too_few + enough) / 2;
        if at(middle) <= minimum / 2.0 { enough = middle } else { too_few = middle }
    }
    let seeds_for_half = is_possible.then_some(enough);
    Some(Power { seeds, problems, least: minimum, seeds_for_half })
}

impl Variances {
    /// The variance of a mean over so many seeds and problems.
    pub fn of_mean(&self, seeds: usize, problems: usize) -> f64 {
        let (s, p) = (seeds as f64, problems as f64);
        self.seed / s + self.problem / p + self.rest / (s * p)
    }
}

/// The least difference that is found with probability [`POWER`].
fn least(variances: &Variances, seeds: usize, problems: usize, alpha: f64) -> f64 {
    let test = Test::new(alpha, planned_freedom(variances, seeds, problems));
    test.least(POWER) * variances.of_mean(seeds, problems).sqrt()
}
