//! Fronts, not points: how much diversity an objective keeps at an accuracy, and whose front lies above.
//!
//! Every objective is trained in several configurations and seeds and evaluated along the way, so that each run is a
//! path from the base. For a level L of Pass@1, each seed chooses among its objective's checkpoints, the base
//! included, on `valid`: of those with Pass@1 of at least L the one with the largest measure; where there is none,
//! the one with the largest Pass@1, and the level counts as not reached. **Estimand**: the expected measure on `test`
//! of the checkpoint that this rule chooses, over seeds, valid problems and test problems. It is unbiased, since test
//! samples have no part in the choice.

mod band;
mod choice;
mod compare;
#[cfg(test)]
mod coverage;
mod data;
mod field;
mod power;
mod result;
mod skewness;
mod student;
pub mod tasks;
#[cfg(test)]
mod tests;
mod variance;
mod verdict;
#[cfg(test)]
mod world;

use anyhow::Result;

use compare::Comparison;
pub use data::{Budget, Checkpoint, Levels, Measure, ProblemCounts, Request, RunPath, TestedPairs};
pub use power::{POWER, plan};
pub use result::{
    BasePoint, Choice, Front, FrontLevel, Fronts, Interval, Pair, PairLevel, Power, Variances,
    Verdict,
};
pub use verdict::power_line;
pub(crate) use verdict::{ONE_SEED, level_of};
#[cfg(test)]
pub(crate) use world::study_of_three;

/// Fewest problems that a measure is over.
pub const LEAST_PROBLEMS: usize = 10;

/// Compares the objectives of `paths`, all of which begin at `base`.
///
/// # Errors
/// No paths; problems that differ in number between checkpoints; k above a problem's samples; classes that do not sum
/// to `correct`; fewer than [`LEAST_PROBLEMS`] problems with enough correct samples; seeds of an objective with
/// different configurations; a reference that is no objective.
pub fn fronts(base: &Checkpoint, paths: &[RunPath], request: &Request) -> Result<Fronts> {
    let field = field::field(base, paths, request)?;
    let levels = field::levels(&request.levels, &field.valid_means().accuracy);
    let comparison = Comparison::new(&field, request, &levels);
    let count = field.contenders.len();
    let mut fronts = Fronts {
        measure: request.measure,
        matched: request.matched.clone(),
        confidence: request.confidence,
        levels: levels.clone(),
        valid_problems: field.measured_valid.len(),
        test_problems: field.measured_test.len(),
        measured_problems: comparison.problems,
        base: comparison.base(),
        fronts: (0..count).map(|index| comparison.front(index)).collect(),
        pairs: comparison.pairs(),
        verdict: None,
    };
    fronts.verdict = verdict::verdict(&comparison, &fronts);
    Ok(fronts)
}
