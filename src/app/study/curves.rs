//! A study's paths to its curves: of Pass@k and of distinct answers; exact where the correct answers can be listed.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tealight_eval::Tally;
use tealight_eval::curve::{Answers, Choices, Curves, Measure, Request, RunPath, choices, curves};
use tealight_eval::exact::ListedProblem;

use super::listed_set::ListedSet;
use super::sets::StudySet;
use super::{Prepared, StudyOptions};
use crate::nn::generate::Filters;
use crate::nn::tokenizer::Tokenizer;

/// Answers are scored where that takes at most so many sequences for each sample that it replaces.
const MOST_FOR_A_SAMPLE: usize = 2;

/// Standard errors by which samples may find more than the listed answers say.
const MOST_ERRORS: f64 = 4.0;

/// Which curves are tested; those of the other measure are described.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub enum TestMeasure {
    /// Pass@k at the largest k.
    #[default]
    #[value(name = "pass@k")]
    #[serde(rename = "pass@k")]
    PassAtK,
    /// Number of distinct correct answers among k samples, at the largest k.
    #[serde(rename = "distinct")]
    Distinct,
}

impl TestMeasure {
    /// The measure that is tested, then the other.
    fn measures(self, k: usize) -> [Measure; 2] {
        match self {
            TestMeasure::PassAtK => [Measure::PassAtK(k), Measure::Distinct(k)],
            TestMeasure::Distinct => [Measure::Distinct(k), Measure::PassAtK(k)],
        }
    }

    /// Whether `measure` is of this kind.
    pub(super) fn is(self, measure: Measure) -> bool {
        matches!(measure, Measure::Distinct(_)) == (self == TestMeasure::Distinct)
    }
}

/// The comparison of curves.
#[derive(Default)]
pub(super) struct Compared {
    /// Those of the tested measure, then the others.
    pub(super) curves: Vec<Curves>,
    /// The best checkpoint and temperature of every objective, where there are several temperatures.
    pub(super) choices: Option<Choices>,
    /// Why there are no curves.
    pub(super) reason: Option<String>,
}

/// Compares the curves of `paths`, all of which begin at `base`.
pub(super) fn compared(
    study: &Prepared,
    (base, is_exact): (&[Vec<Answers>], bool),
    paths: &[RunPath],
) -> Compared {
    let Some((warm, _)) = base.split_first() else { return Compared::default() };
    let options = &study.options;
    let request = |measure: Measure, is_tested: bool| Request {
        reference: options.reference(&study.configurations),
        is_tested,
        is_exact,
        ..Request::new(measure)
    };
    let k = options.largest();
    let mut compared = Compared::default();
    let [tested, described] = options.test_measure.measures(k);
    match curves(warm, paths, &request(tested, true)) {
        Ok(one) => compared.curves.push(one),
        Err(error) => {
            let reason = format!("{error:#}");
            tracing::warn!("no curves: {reason}");
            compared.reason = Some(reason);
            return compared;
        }
    }
    // The same checkpoints on the same problems have the other measure too.
    compared.curves.extend(curves(warm, paths, &request(described, false)).ok());
    let temperatures = [&[1.0], options.temperatures.as_slice()].concat();
    compared.choices = choices(base, paths, &temperatures, tested);
    compared
}

/// The listed answers of the set that curves report, where scoring them is no dearer than sampling.
pub(super) fn listed(
    options: &StudyOptions,
    set: &StudySet,
    tokenizer: &dyn Tokenizer,
    longest: usize,
) -> Option<ListedSet> {
    let sampled = |reason: String| {
        tracing::info!("curves are estimated from samples: {reason}");
        None
    };
    if options.sets.filters() != Filters::default() {
        return sampled("evaluations filter tokens".to_owned());
    }
    let problems = set.dataset.problems.len();
    match ListedSet::new(set, (problems, "answers"), tokenizer, longest) {
        Ok(listed) if listed.sequences() <= MOST_FOR_A_SAMPLE * problems * options.n => {
            Some(listed)
        }
        Ok(listed) => sampled(format!(
            "{} has {} listed correct answers, which take longer to score than {} samples of each of {problems} problems",
            set.dataset.name,
            listed.sequences(),
            options.n
        )),
        Err(error) => sampled(format!("{error:#}")),
    }
}

/// Whether samples of the base find no more correct answers than are listed: a model may spell answers otherwise.
pub(super) fn is_whole(listed: &[ListedProblem], sampled: &[Tally]) -> bool {
    let (mut excess, mut variance) = (0.0, 0.0);
    for (problem, tally) in listed.iter().zip(sampled).filter(|(_, tally)| tally.samples > 0) {
        let (mass, n) = (problem.mass(), tally.samples as f64);
        excess += tally.correct as f64 / n - mass;
        variance += mass * (1.0 - mass) / n;
    }
    excess <= MOST_ERRORS * variance.sqrt() + 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unlisted_correct_answers_are_detected() {
        let listed = |mass: f64| ListedProblem { logp: vec![mass.ln()], total: Some(1) };
        let tally = |correct: usize| Tally { samples: 32, correct, ..Tally::default() };
        let problems: Vec<ListedProblem> = (0..80).map(|_| listed(0.25)).collect();
        let tallies = |correct: usize| (0..80).map(|_| tally(correct)).collect::<Vec<_>>();
        assert!(is_whole(&problems, &tallies(8)), "as many as listed");
        assert!(is_whole(&problems, &tallies(7)), "fewer are noise, or are never more than that");
        assert!(!is_whole(&problems, &tallies(10)), "a quarter more");
    }
}
