//! Exact accuracy and diversity of a model on problems that it is not trained on, from its probability of every correct
//! answer.

use anyhow::{Context, Result};
use serde::Serialize;
use tealight_datasets::Dataset;
use tealight_eval::exact::ListedProblem;
use tealight_learn::listed::{self, ProblemAnswers};
use tealight_nn::model::Decoder;
use tealight_nn::tokenizer::HubTokenizer;

/// The problems that are measured.
const DATASET: &str = "colouring/test";
/// How many of them.
const PROBLEMS: usize = 8;

/// Problems with all their correct answers.
pub struct TestSet {
    dataset: Dataset,
    answers: Vec<ProblemAnswers>,
}

/// A problem as the page draws it.
#[derive(Debug, Clone, Serialize)]
pub struct ShownProblem<'a> {
    /// Colours and edges: `c3|ab,ac`.
    pub statement: &'a str,
    /// Every correct answer: the colours of the nodes.
    pub answers: Vec<&'a str>,
}

/// A model's measures on one problem.
#[derive(Debug, Clone, Serialize)]
pub struct Measured {
    /// The probability of every correct answer, in the order of [`ShownProblem::answers`].
    pub probabilities: Vec<f64>,
    /// Probability that one sample is correct.
    pub pass_1: f64,
    /// Probability that at least one of 8 samples is correct.
    pub pass_8: f64,
    /// Expected number of distinct correct answers among 8 samples.
    pub distinct_8: f64,
    /// The same among 32 samples.
    pub distinct_32: f64,
}

impl TestSet {
    /// The first problems of the split, whose answers have at most `longest` tokens.
    ///
    /// # Errors
    /// An answer that cannot be sampled.
    pub fn new(tokenizer: &HubTokenizer, longest: usize) -> Result<Self> {
        let dataset = tealight_datasets::open(DATASET, &Default::default(), Some(PROBLEMS))?;
        let answers = listed::problems(&dataset, tokenizer, longest)?;
        Ok(Self { dataset, answers })
    }

    /// All problems, to be drawn.
    pub fn shown(&self) -> Vec<ShownProblem<'_>> {
        let problems = self.dataset.problems.iter().zip(&self.answers);
        let shown = problems.map(|(problem, listed)| ShownProblem {
            statement: &problem.answer,
            answers: listed.answers.modes.iter().map(|mode| mode.answer.as_str()).collect(),
        });
        shown.collect()
    }

    /// A model's measures on one problem.
    ///
    /// # Errors
    /// No problem of this index, a failed pass.
    pub fn measure(&self, decoder: &Decoder, problem: usize, temperature: f64) -> Result<Measured> {
        let listed = self.answers.get(problem).context("no problem of this index")?;
        let logp = listed.answers.logp(decoder, temperature, &mut || Ok(()))?;
        let exact = ListedProblem { logp, total: listed.total };
        Ok(Measured {
            probabilities: exact.logp.iter().map(|logp| logp.exp()).collect(),
            pass_1: exact.pass(1),
            pass_8: exact.pass(8),
            distinct_8: exact.unique(8),
            distinct_32: exact.unique(32),
        })
    }

    /// A model's measures on every problem.
    ///
    /// # Errors
    /// A failed pass.
    pub fn measure_all(&self, decoder: &Decoder, temperature: f64) -> Result<Vec<Measured>> {
        let all = 0..self.answers.len();
        all.map(|problem| self.measure(decoder, problem, temperature)).collect()
    }
}
