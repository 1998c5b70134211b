//! Samples to numbers to a report. No tensors, no tokens, no training.
//!
//! [`evaluate`](evaluate::evaluate) asks a [`Solver`] for n completions of every problem, has them
//! verified and counts them into a [`Tally`] each; [`Summary`] turns tallies into estimates with
//! intervals; [`report`] draws them. To add a measure, add a function and a field of [`Summary`].

#![warn(missing_docs)]

mod classes;
pub mod compare;
pub mod diversity;
pub mod evaluate;
pub mod interval;
pub mod pass_at_k;
pub mod reject;
pub mod report;
pub mod self_check;
mod summary;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tealight_datasets::{Dataset, Problem, Verdict};

pub use classes::{Classes, Counts, Level};
pub use interval::Estimate;
pub use summary::Summary;

/// A completion, as an evaluation sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The text, without special tokens.
    pub text: String,
    /// Whether it ended by itself; one that was cut off counts as wrong.
    pub is_finished: bool,
    /// How many tokens it took.
    pub tokens: usize,
    /// Log-probability of the whole completion under the sampling distribution, in nats.
    pub logp: f64,
}

/// Receives all answers to a problem, by its index, as soon as they are there.
pub type Sink<'a> = dyn FnMut(usize, Vec<Answer>) -> Result<()> + 'a;

/// All that an evaluation asks of a model.
pub trait Solver {
    /// Draws `n` answers to each problem; problems may end in any order.
    ///
    /// # Errors
    /// Whatever the model or `sink` fails with.
    fn solve(&self, problems: &[Problem], n: usize, sink: &mut Sink<'_>) -> Result<()>;
}

/// One judged answer: a line of a samples file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The problem's id.
    pub problem: String,
    /// Which of the n answers.
    pub sample: usize,
    /// The text.
    pub completion: String,
    /// What the verifier said.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether it ended by itself.
    pub is_finished: bool,
    /// How many tokens it took.
    pub tokens: usize,
    /// Log-probability of the completion, in nats.
    pub logp: f64,
}

impl Sample {
    /// Has `answer` judged as the answer number `sample` to `problem` of `dataset`.
    pub fn judged(dataset: &Dataset, problem: &Problem, sample: usize, answer: Answer) -> Self {
        Self {
            problem: problem.id.clone(),
            sample,
            verdict: dataset.verifier.verify(problem, &answer.text),
            completion: answer.text,
            is_finished: answer.is_finished,
            tokens: answer.tokens,
            logp: answer.logp,
        }
    }
}

/// The counts of one problem: all that estimates need.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Tally {
    /// The problem's id.
    pub problem: String,
    /// Answers drawn.
    pub samples: usize,
    /// Right ones.
    pub correct: usize,
    /// How often each distinct right answer was drawn.
    pub classes: Classes,
    /// Answers that were cut off.
    pub truncated: usize,
    /// Answers in which none was found or none could be read.
    pub no_answer: usize,
    /// Answers that could not be judged; they are not among `samples`.
    #[serde(default)]
    pub unjudged: usize,
    /// Tokens drawn.
    pub tokens: usize,
}

impl Tally {
    /// No answers to `problem` yet.
    pub fn new(problem: &str) -> Self {
        Self { problem: problem.into(), ..Self::default() }
    }

    /// Counts one answer.
    pub fn add(&mut self, sample: &Sample) {
        if let Verdict::Unjudged { .. } = sample.verdict {
            self.unjudged += 1;
            return;
        }
        self.samples += 1;
        self.tokens += sample.tokens;
        self.truncated += usize::from(!sample.is_finished);
        match &sample.verdict {
            Verdict::Correct { class, value } if sample.is_finished => {
                self.correct += 1;
                self.classes.add(&sample.completion, class, value);
            }
            Verdict::NoAnswer | Verdict::Unparsable { .. } => self.no_answer += 1,
            Verdict::Correct { .. } | Verdict::Wrong { .. } | Verdict::Unjudged { .. } => {}
        }
    }
}
