//! Samples to numbers to a report. No tensors, no tokens, no training.
//!
//! An [`EvalJob`](evaluate::EvalJob) asks a [`Solver`] for n completions of every problem, has them
//! verified and counts them into a [`Tally`] each; [`Summary`] turns tallies into estimates with
//! intervals; [`report`] draws them.

#![warn(missing_docs)]

pub mod answer_rules;
pub mod audit;
mod cautions;
mod classes;
pub mod comparable;
pub mod completion;
pub mod contrast;
pub mod crossing;
pub mod curve;
pub mod evaluate;
pub mod exact;
pub mod export;
#[cfg(test)]
mod fixtures;
pub mod grade;
pub mod inference;
pub mod interval;
pub mod measure;
pub mod number;
pub mod planner;
pub mod report;
pub mod results;
mod richness;
pub mod rules;
mod sample;
mod sample_line;
#[cfg(test)]
mod simulated;
pub mod store;
pub mod summary;
mod thinking;
pub mod transition;

use anyhow::Result;
use tealight_datasets::Problem;

pub use classes::{Classes, Counts, Level};
pub use completion::Completion;
pub use interval::Estimate;
pub use measure::pass_at_k;
pub use rules::Truncated;
pub use sample::{Sample, Tally, note_unjudged};
pub use summary::Summary;

/// Receives all answers to a problem, by its index, as soon as they are there.
pub type AnswerSink<'a> = dyn FnMut(usize, Vec<Completion>) -> Result<()> + 'a;

/// A problem that answers are wanted of, and the key of their randomness: its index in its dataset.
#[derive(Debug, Clone, Copy)]
pub struct ProblemRequest<'a> {
    /// Problem to answer.
    pub problem: &'a Problem,
    /// Key of the random numbers; two requests with different keys are independent.
    pub key: u64,
    /// How many answers are there already: the next one is of this number.
    pub known: usize,
}

/// All that an evaluation asks of a model.
pub trait Solver {
    /// Draws answers to each problem until there are `n`, those that are known included, and hands all answers to a
    /// problem to `sink` at once; problems may end in any order. What is drawn for a problem depends on its key and
    /// the answer's number alone.
    fn solve(
        &self,
        problems: &[ProblemRequest<'_>],
        n: usize,
        sink: &mut AnswerSink<'_>,
    ) -> Result<()>;
}
