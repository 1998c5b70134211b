//! The input of a comparison of curves: what is known of every problem at every evaluated checkpoint, run by run.

use anyhow::{Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::LEAST_PROBLEMS;
use super::linear::{Contender, Score};
use crate::exact::ListedProblem;
use crate::measure::pass_at_k::pass_at_k;
use crate::measure::rarefaction::expected;
use crate::{Level, Tally};

/// The samples of one problem.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProblemCounts {
    /// Judged samples.
    pub n: usize,
    /// Correct ones.
    pub correct: usize,
    /// How often each distinct correct solution was sampled; they sum to `correct`.
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

/// What is known of a model's answers to one problem.
#[derive(Debug, Clone, PartialEq)]
pub enum Answers {
    /// Samples of them.
    Sampled(ProblemCounts),
    /// The probability of each correct one.
    Listed(ListedProblem),
}

impl Answers {
    /// The probability that one of `k` samples is correct, or its unbiased estimate; none with fewer samples.
    fn pass(&self, k: usize) -> Option<f64> {
        match self {
            Self::Sampled(counts) => {
                (counts.n >= k).then(|| pass_at_k(counts.n, counts.correct, k))
            }
            Self::Listed(listed) => Some(listed.pass(k)),
        }
    }

    /// The expected number of distinct correct answers among `k` samples, likewise.
    fn distinct(&self, k: usize) -> Option<f64> {
        match self {
            Self::Sampled(counts) => {
                (counts.n >= k).then(|| expected(&counts.classes, counts.n, k))
            }
            Self::Listed(listed) => Some(listed.unique(k)),
        }
    }
}

/// One evaluated checkpoint.
#[derive(Debug, Clone, PartialEq)]
pub struct Checkpoint {
    /// Optimizer steps since the base; of a baseline that is not trained the place in its row, from 1.
    pub step: u64,
    /// What is known of each held-out problem, in the same order everywhere.
    pub problems: Vec<Answers>,
}

/// A run's path from the base: one objective, one configuration, one seed.
#[derive(Debug, Clone, PartialEq)]
pub struct RunPath {
    /// The objective's name; a baseline has a name of its own.
    pub objective: String,
    /// Its configuration, as tables show it.
    pub configuration: String,
    /// The training seed; none where nothing random was trained, as for the base at lower temperatures.
    pub seed: Option<u64>,
    /// Whether it is a baseline: compared with the reference, and not tested.
    pub is_baseline: bool,
    /// The beta of the objective `E[v] - beta KL(pi || a)`; none of another objective.
    pub beta: Option<f64>,
    /// Its checkpoints without the base, in order.
    pub checkpoints: Vec<Checkpoint>,
}

/// The measure that is compared at equal accuracy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Pass@k of so many samples.
    PassAtK(usize),
    /// Distinct correct answers among so many samples. At equal Pass@1 as many of the samples are correct.
    Distinct(usize),
}

impl Measure {
    /// Pass@1 and the measure of one problem; none where it has too few samples.
    pub(super) fn score(self, answers: &Answers) -> Option<(f64, f64)> {
        let value = match self {
            Self::PassAtK(k) => answers.pass(k),
            Self::Distinct(k) => answers.distinct(k),
        };
        Some((answers.pass(1)?, value?))
    }

    /// The most that one problem changes a curve by over a range of Pass@1: half of what it can have, as one that is
    /// lost on the way; of distinct answers, half of the most that the base has of any problem.
    pub(super) fn largest(self, base: &[Score]) -> f64 {
        match self {
            Self::PassAtK(_) => 0.5,
            Self::Distinct(_) => 0.5 * base.iter().map(|score| score.1).fold(1.0, f64::max),
        }
    }

    /// The largest value that the measure can have.
    pub fn most(self) -> f64 {
        match self {
            Self::PassAtK(_) => 1.0,
            Self::Distinct(k) => k as f64,
        }
    }
}

impl std::fmt::Display for Measure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::PassAtK(k) => write!(f, "pass@{k}"),
            Self::Distinct(k) => write!(f, "distinct@{k}"),
        }
    }
}

/// The measure of a comparison, and what is tested.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The measure that is compared at equal Pass@1.
    pub measure: Measure,
    /// The objective that every other one is compared with; none takes the first that was trained.
    pub reference: Option<String>,
    /// Whether trained objectives are tested against the reference; otherwise all differences are descriptive.
    pub is_tested: bool,
    /// Whether scores are probabilities of listed answers, without sampling noise.
    pub is_exact: bool,
    /// Of every interval, as .95.
    pub confidence: f64,
}

impl Request {
    /// Intervals of 95 %, tested against the first objective.
    pub fn new(measure: Measure) -> Self {
        Self { measure, reference: None, is_tested: true, is_exact: false, confidence: 0.95 }
    }
}

/// The base's scores on the problems that every checkpoint has scores of, and every objective with its seeds' scores.
pub(super) fn contenders(
    base: &[Answers],
    paths: &[RunPath],
    request: &Request,
) -> Result<(Vec<Score>, Vec<Contender>)> {
    ensure!(!paths.is_empty(), "curves need at least one run with checkpoints");
    ensure!(
        request.confidence > 0.5 && request.confidence < 1.0,
        "confidence {} is out of range: between .5 and 1, as .95",
        request.confidence
    );
    if let Measure::PassAtK(0 | 1) | Measure::Distinct(0 | 1) = request.measure {
        bail!("{} says no more than pass@1: choose a k of 2 or more", request.measure);
    }
    for path in paths {
        let at = |step: u64| format!("{}, {}, step {step}", path.objective, path.configuration);
        ensure!(
            !path.checkpoints.is_empty(),
            "{}, {}: no checkpoints",
            path.objective,
            path.configuration
        );
        for point in &path.checkpoints {
            ensure!(
                point.problems.len() == base.len(),
                "{}: {} problems, but the base has {}; evaluate every checkpoint on the same problems",
                at(point.step),
                point.problems.len(),
                base.len()
            );
        }
    }
    let points = || paths.iter().flat_map(|path| &path.checkpoints);
    let is_scored = |index: &usize| {
        let has = |answers: &Answers| request.measure.score(answers).is_some();
        has(&base[*index]) && points().all(|point| has(&point.problems[*index]))
    };
    let scored: Vec<usize> = (0..base.len()).filter(is_scored).collect();
    ensure!(
        scored.len() >= LEAST_PROBLEMS,
        "{} is known of {} problems at every checkpoint, and {LEAST_PROBLEMS} are needed: raise -n or the number of \
         problems",
        request.measure,
        scored.len()
    );
    let scores = |problems: &[Answers]| -> Vec<(f64, f64)> {
        scored.iter().filter_map(|index| request.measure.score(&problems[*index])).collect()
    };
    let mut all: Vec<Contender> = Vec::new();
    for path in paths {
        let index = all.iter().position(|one| one.objective == path.objective);
        let index = index.unwrap_or_else(|| {
            all.push(Contender::new(path));
            all.len() - 1
        });
        all[index]
            .add(path, path.checkpoints.iter().map(|point| scores(&point.problems)).collect())?;
    }
    Ok((scores(base), all))
}

/// The gap to p_beta of an objective's runs at a checkpoint, mean over seeds and problems; none where the objective is
/// not J or answers are not listed.
pub(super) fn gap(
    base: &[Answers],
    paths: &[RunPath],
    (objective, place): (&str, usize),
) -> Option<f64> {
    let mut all = Vec::new();
    for path in paths.iter().filter(|path| path.objective == objective) {
        for pair in base.iter().zip(&path.checkpoints.get(place)?.problems) {
            let (Answers::Listed(base), Answers::Listed(own)) = pair else { return None };
            all.push(own.gap_to_p_beta(base, path.beta?));
        }
    }
    (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
}

/// The place of the reference among the contenders.
pub(super) fn reference(contenders: &[Contender], request: &Request) -> Result<usize> {
    let found = match &request.reference {
        Some(name) => contenders.iter().position(|one| one.objective == *name),
        None => contenders.iter().position(Contender::is_trained).or(Some(0)),
    };
    match found {
        Some(index) => Ok(index),
        None => {
            let names: Vec<&str> = contenders.iter().map(|one| one.objective.as_str()).collect();
            bail!(
                "the reference `{}` is no objective here; there are {}",
                request.reference.as_deref().unwrap_or_default(),
                names.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled(n: usize, classes: &[usize]) -> Answers {
        let correct = classes.iter().sum();
        Answers::Sampled(ProblemCounts { n, correct, classes: classes.to_vec() })
    }

    #[test]
    fn samples_and_probabilities_are_one_measure() {
        // A sample of four with two correct answers, and the probabilities one half each.
        let (pass, distinct) = (Measure::PassAtK(2), Measure::Distinct(2));
        let four = sampled(4, &[1, 1]);
        let (x, y) = pass.score(&four).unwrap();
        assert!((x - 0.5).abs() < 1e-12 && (y - 5.0 / 6.0).abs() < 1e-12);
        assert_eq!(distinct.score(&four), Some((0.5, 1.0)));
        let listed = Answers::Listed(ListedProblem { logp: vec![0.25_f64.ln(); 2], total: None });
        let (x, y) = pass.score(&listed).unwrap();
        assert!((x - 0.5).abs() < 1e-12 && (y - 0.75).abs() < 1e-12);
        let (_, y) = distinct.score(&listed).unwrap();
        assert!((y - 2.0 * (1.0 - 0.75 * 0.75)).abs() < 1e-12);
        assert_eq!(Measure::PassAtK(5).score(&four), None);
        assert_eq!(Measure::Distinct(8).most(), 8.0);
    }

    fn path(objective: &str, seed: u64, problems: usize, steps: &[u64]) -> RunPath {
        let checkpoint =
            |step: &u64| Checkpoint { step: *step, problems: vec![sampled(8, &[2, 1]); problems] };
        RunPath {
            objective: objective.into(),
            configuration: objective.into(),
            seed: Some(seed),
            is_baseline: false,
            beta: None,
            checkpoints: steps.iter().map(checkpoint).collect(),
        }
    }

    #[test]
    fn invalid_comparisons_are_refused() {
        let base = vec![sampled(8, &[2]); 12];
        let refusal = |paths: &[RunPath], request: &Request| -> String {
            super::super::curves(&base, paths, request).unwrap_err().to_string()
        };
        let request = Request::new(Measure::PassAtK(8));
        let one = path("grpo", 0, 12, &[1, 2]);
        assert!(refusal(&[], &request).contains("at least one run"));
        assert!(
            refusal(&[path("js", 0, 11, &[1])], &request)
                .contains("11 problems, but the base has 12")
        );
        let other = RunPath { configuration: "other".into(), ..one.clone() };
        assert!(refusal(&[one.clone(), other], &request).contains("one configuration"));
        assert!(refusal(&[one.clone(), one.clone()], &request).contains("given twice"));
        let unknown = Request { reference: Some("dapo".into()), ..request.clone() };
        let alone = std::slice::from_ref(&one);
        assert!(refusal(alone, &unknown).contains("is no objective here"));
        assert!(refusal(alone, &Request::new(Measure::PassAtK(9))).contains("raise -n"));
        assert!(refusal(&[one], &Request::new(Measure::PassAtK(1))).contains("2 or more"));
    }
}
