//! The input of a comparison of fronts: counts by problem of every evaluated checkpoint, run by run.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

use crate::measure::pass_at_k::pass_at_k;
use crate::measure::rarefied::distinct_of;
use crate::{Level, Tally};

/// The samples of one problem.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProblemCounts {
    /// Judged samples.
    pub n: usize,
    /// Correct ones.
    pub correct: usize,
    /// How often each distinct correct solution was sampled; they sum to `correct`. [`Measure::Distinct`] alone
    /// reads them.
    pub classes: Vec<usize>,
}

impl From<&Tally> for ProblemCounts {
    fn from(tally: &Tally) -> Self {
        Self {
            n: tally.samples,
            correct: tally.correct,
            classes: tally.classes.at(Level::Solution).multiplicities(),
        }
    }
}

/// One evaluated checkpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checkpoint {
    /// Optimizer steps since the base.
    pub step: u64,
    /// Tokens sampled since the base.
    pub generated_tokens: u64,
    /// The split that checkpoints are chosen on, in the same order of problems everywhere.
    pub valid: Vec<ProblemCounts>,
    /// The split that is reported, likewise.
    pub test: Vec<ProblemCounts>,
}

/// A run's path from the base: one objective, one configuration, one seed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPath {
    /// The objective's name; a baseline (interpolated weights, the base at lower temperatures) has a name of its own.
    pub objective: String,
    /// Its strength, learning rate or length, as tables show it.
    pub configuration: String,
    /// The training seed; none where nothing random was trained, as for the base at a lower temperature.
    pub seed: Option<u64>,
    /// Its checkpoints without the base, in any order.
    pub checkpoints: Vec<Checkpoint>,
}

/// How far runs may go, so that all of them are given as much.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Budget {
    /// At most so many sampled tokens.
    GeneratedTokens(u64),
    /// At most so many optimizer steps.
    Steps(u64),
}

impl RunPath {
    /// The path up to the end of a budget.
    pub fn within(&self, budget: Budget) -> Self {
        let is_within = |point: &&Checkpoint| match budget {
            Budget::GeneratedTokens(most) => point.generated_tokens <= most,
            Budget::Steps(most) => point.step <= most,
        };
        let checkpoints = self.checkpoints.iter().filter(is_within).cloned().collect();
        Self { checkpoints, ..self.clone() }
    }
}

/// The measure that is compared at equal accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Pass@k, over all problems.
    PassAtK(usize),
    /// Distinct solutions among so many correct ones, over the problems of which the base and every checkpoint have as
    /// many.
    Distinct(usize),
}

impl Measure {
    /// The value of one problem; none where it has too few correct samples.
    pub fn of(self, counts: &ProblemCounts) -> Option<f64> {
        match self {
            Measure::PassAtK(k) => Some(pass_at_k(counts.n, counts.correct, k.min(counts.n))),
            Measure::Distinct(correct) => distinct_of(&counts.classes, correct),
        }
    }

    /// The largest value.
    pub fn most(self) -> f64 {
        match self {
            Measure::PassAtK(_) => 1.0,
            Measure::Distinct(correct) => correct as f64,
        }
    }

    pub(super) fn check(self) -> Result<()> {
        match self {
            Measure::PassAtK(0) => bail!("pass@0 is no measure: choose a k of 1 or more"),
            Measure::Distinct(0 | 1) => {
                bail!("distinct solutions are counted among at least 2 correct samples")
            }
            _ => Ok(()),
        }
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Measure::PassAtK(k) => write!(f, "pass@{k}"),
            Measure::Distinct(correct) => write!(f, "distinct among {correct} correct"),
        }
    }
}

/// The levels of Pass@1 that fronts are compared at.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Levels {
    /// Round numbers, about ten, from the base's Pass@1 on `valid` (rounded down) to the largest of any checkpoint.
    #[default]
    Auto,
    /// These.
    At(Vec<f64>),
}

/// The pairs of objectives that are tested; all others are shown without a p-value.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TestedPairs {
    /// All.
    #[default]
    All,
    /// Those with the reference: fewer tests, so that smaller differences from it are found.
    Reference,
}

/// The measure, levels and confidence of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The measure that is compared at equal accuracy.
    pub measure: Measure,
    /// The levels of Pass@1.
    pub levels: Levels,
    /// The objective that the verdict compares with; none takes the two that are best on `valid`.
    pub reference: Option<String>,
    /// The pairs that are tested. Without a reference all are.
    pub tested: TestedPairs,
    /// In what runs were given as much, for titles: "generated tokens".
    pub matched: String,
    /// Of every interval, as .95.
    pub confidence: f64,
    /// Resamples of the problems, at least 100.
    pub resamples: usize,
    /// Key of the resampling: the same key, the same bits.
    pub key: u64,
}

impl Default for Request {
    /// Pass@32 at 95 % with 2,000 resamples.
    fn default() -> Self {
        Self {
            measure: Measure::PassAtK(32),
            levels: Levels::Auto,
            reference: None,
            tested: TestedPairs::All,
            matched: "generated tokens".to_owned(),
            confidence: 0.95,
            resamples: 2000,
            key: 0,
        }
    }
}
