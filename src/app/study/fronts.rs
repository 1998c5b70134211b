//! A study's paths to its fronts: coverage, and distinct solutions at equal correct answers, with runs matched both
//! ways.

use tealight_eval::front::{
    Budget, Checkpoint, Fronts, Levels, Measure, Request, RunPath, TestedPairs, fronts,
};

use super::Prepared;
use super::runs::{Matched, TestPairs};

/// Correct answers that distinct solutions are counted among by default: the first of these that enough problems have.
const CORRECT: [usize; 3] = [4, 3, 2];

/// The comparison of fronts.
#[derive(Default)]
pub(super) struct Compared {
    /// Coverage as runs were matched, then matched otherwise, then distinct solutions.
    pub(super) fronts: Vec<Fronts>,
    /// Why there are none.
    pub(super) reason: Option<String>,
    /// Why there are none of distinct solutions, where there are others.
    pub(super) without_distinct: Option<String>,
}

/// Compares the fronts of `paths`, all of which begin at `base`.
pub(super) fn compared(study: &Prepared, base: &Checkpoint, paths: &[RunPath]) -> Compared {
    let options = &study.options;
    let (as_run, otherwise) = match options.matched {
        Matched::Completions => ("sampled completions", "optimizer steps"),
        Matched::Tokens => ("sampled tokens", "optimizer steps"),
        Matched::Updates => ("optimizer steps", "sampled tokens"),
    };
    let request = |measure: Measure, matched: &str| Request {
        measure,
        levels: Levels::Auto,
        reference: options.reference(&study.configurations),
        tested: match options.test_pairs {
            TestPairs::All => TestedPairs::All,
            TestPairs::Reference => TestedPairs::Reference,
        },
        matched: matched.to_owned(),
        ..Request::default()
    };
    let coverage = Measure::PassAtK(options.largest());
    let mut compared = Compared::default();
    match fronts(base, paths, &request(coverage, as_run)) {
        Ok(one) => compared.fronts.push(one),
        Err(error) => {
            let reason = format!("{error:#}");
            tracing::warn!("no fronts: {reason}");
            compared.reason = Some(reason);
            return compared;
        }
    }
    let within: Vec<RunPath> = paths
        .iter()
        .map(|path| path.within(least(paths, options.matched)))
        .filter(|path| !path.checkpoints.is_empty())
        .collect();
    // A comparison that cannot be made is left out: the fronts above say what there is.
    compared.fronts.extend(fronts(base, &within, &request(coverage, otherwise)).ok());
    let asked = options.distinct_among.map(|correct| vec![usize::from(correct)]);
    // As many on every task: numbers of distinct solutions among 4 and among 2 correct ones have no mean.
    let from = if options.is_one_of_tasks { CORRECT.len() - 1 } else { 0 };
    for correct in asked.unwrap_or_else(|| CORRECT[from..].to_vec()) {
        match fronts(base, paths, &request(Measure::Distinct(correct), as_run)) {
            Ok(one) => {
                compared.fronts.push(one);
                compared.without_distinct = None;
                return compared;
            }
            Err(error) => compared.without_distinct = Some(format!("{error:#}")),
        }
    }
    if let Some(reason) = &compared.without_distinct {
        tracing::info!("no fronts of distinct solutions: {reason}");
    }
    compared
}

/// The budget that every trained run has spent at its end, of what runs were not matched by.
fn least(paths: &[RunPath], matched: Matched) -> Budget {
    let trained = || paths.iter().filter(|path| path.seed.is_some());
    let end = |of: fn(&Checkpoint) -> u64| {
        trained().filter_map(|path| path.checkpoints.iter().map(of).max()).min().unwrap_or(0)
    };
    match matched {
        Matched::Completions | Matched::Tokens => Budget::Steps(end(|point| point.step)),
        Matched::Updates => Budget::GeneratedTokens(end(|point| point.generated_tokens)),
    }
}
