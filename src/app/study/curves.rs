//! A study's paths to its curves: of distinct answers, which are tested, and of Pass@k; exact where the correct answers
//! can be listed.

use tealight_eval::Tally;
use tealight_eval::curve::{Answers, Curves, Measure, Request, RunPath, curves};
use tealight_eval::exact::ListedProblem;

use super::listed_set::ListedSet;
use super::sets::StudySet;
use super::{Prepared, StudyOptions};
use tealight_nn::generate::Filters;
use tealight_nn::tokenizer::Tokenizer;

/// Answers are scored where that takes at most so many sequences for each sample that it replaces.
const MOST_FOR_A_SAMPLE: usize = 2;

/// Standard errors by which samples may find more than the listed answers say.
const MOST_ERRORS: f64 = 4.0;

/// The comparison of curves.
#[derive(Default)]
pub(super) struct Compared {
    /// Those of the tested measure, then the others.
    pub(super) curves: Vec<Curves>,
    /// Why there are no curves.
    pub(super) reason: Option<String>,
}

/// Compares the curves of `paths`, all of which begin at `base`.
pub(super) fn compared(
    study: &Prepared,
    (base, is_exact): (&[Answers], bool),
    paths: &[RunPath],
) -> Compared {
    let options = &study.options;
    let request = |measure: Measure, is_tested: bool| Request {
        reference: options.reference(&study.configurations),
        is_tested,
        is_exact,
        ..Request::new(measure)
    };
    let k = options.largest();
    let mut compared = Compared::default();
    match curves(base, paths, &request(Measure::Distinct(k), true)) {
        Ok(one) => compared.curves.push(one),
        Err(error) => {
            let reason = format!("{error:#}");
            tracing::warn!("no curves: {reason}");
            compared.reason = Some(reason);
            return compared;
        }
    }
    // The same checkpoints on the same problems have the other measure too.
    compared.curves.extend(curves(base, paths, &request(Measure::PassAtK(k), false)).ok());
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
    match ListedSet::new(set, tokenizer, longest) {
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
