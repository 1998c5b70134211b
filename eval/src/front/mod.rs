//! Fronts, not points: how much diversity an objective keeps at an accuracy, and whose front lies above.
//!
//! Every objective is trained in several configurations and seeds and evaluated along the way, so that each run is a
//! path from the base. For a level L of Pass@1, each seed chooses among its objective's checkpoints, the base included,
//! on `valid`: of those with Pass@1 of at least L the one with the largest measure; where there is none, the one with
//! the largest Pass@1, and the level counts as not reached. **Estimand**: the expected measure on `test` of the
//! checkpoint that this rule chooses, over seeds, valid problems and test problems. It is unbiased, since test samples have no
//! part in the choice.

mod data;
mod power;
mod result;

use anyhow::Result;

pub use data::{Budget, Checkpoint, Levels, Measure, ProblemCounts, Request, RunPath};
pub use power::plan;
pub use result::{
    BasePoint, Choice, Front, FrontLevel, Fronts, Interval, Pair, PairLevel, Power, Variances,
    Verdict,
};

/// Fewest problems that a measure is over.
pub const LEAST_PROBLEMS: usize = 10;

/// Compares the objectives of `paths`, all of which begin at `base`.
///
/// # Errors
/// No paths; problems that differ in number between checkpoints; k above a problem's samples; classes that do not sum to
/// `correct`; fewer than [`LEAST_PROBLEMS`] problems with enough correct samples; a reference that is no objective.
pub fn fronts(base: &Checkpoint, paths: &[RunPath], request: &Request) -> Result<Fronts> {
    let _ = (base, paths, request);
    anyhow::bail!("the statistics of fronts are being written")
}
