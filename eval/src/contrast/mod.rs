//! A model, trained with one or several seeds, beside its base on the same problems: what rose, what fell, and how
//! diverse correct answers are at equal accuracy. Base and model are sampled with the same random numbers, which makes
//! differences precise; [`Lost`](crate::audit::Lost) has what was lost beyond chance.

mod at_equal_numbers;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::crossing::{Crossing, crossing};
use crate::inference::{Effect, crossed};
use crate::interval::share;
use crate::measure::pass_at_k::tally_pass_at_k;
use crate::measure::rarefaction::unique_correct;
use crate::{Level, Tally};

pub use at_equal_numbers::Matched;

/// Numbers of correct answers that diversity is compared at.
pub(crate) const CORRECT: [usize; 4] = [2, 4, 8, 16];
/// Problems that a comparison at such a number needs at least.
pub(crate) const LEAST: usize = 5;

/// The counts that a contrast is made of, everywhere of the same problems in the same order.
#[derive(Debug, Clone, Copy)]
pub struct Evaluations<'a> {
    /// The base; the random numbers may be those of the runs.
    pub base: &'a [Tally],
    /// The model's runs, one a seed.
    pub runs: &'a [&'a [Tally]],
    /// The runs of every model of the same table, this one's among them: rows share their problems.
    pub table: &'a [&'a [Tally]],
}

/// The change of a base under one objective, over its seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Difference of Pass@k to the base, by k.
    pub pass: Vec<(usize, Effect)>,
    /// Difference of distinct correct answers among k samples, by k; accuracy raises it too.
    pub distinct: Vec<(usize, Effect)>,
    /// Diversity at equal numbers of correct answers.
    pub matched: Vec<Matched>,
    /// Where the base's Pass@k overtakes.
    pub crossing: Crossing,
    /// Problems of which the base has a correct sample.
    pub base_solved: usize,
    /// Those of them of which this has one too, on average over seeds.
    #[serde(rename = "kept")]
    pub retained: f64,
    /// Problems of which this alone has one, likewise.
    pub newly_solved: f64,
}

impl Contrast {
    /// Of one model and its base, at these k.
    pub fn new(evaluations: &Evaluations<'_>, ks: &[usize]) -> Self {
        let Evaluations { base, runs, .. } = *evaluations;
        let to_base = |value: Value<'_>, largest| crossed(&differences(base, runs, value), largest);
        let solved = |run: &[Tally], with: bool| {
            let pairs = base.iter().zip(run);
            pairs.filter(|(b, m)| m.correct > 0 && (b.correct > 0) == with).count() as f64
        };
        let mean = |value: &dyn Fn(&[Tally]) -> f64| {
            runs.iter().map(|run| value(run)).sum::<f64>() / runs.len() as f64
        };
        let pass = |k: &usize| {
            // The model's share is between 0 and 1, the base's inside its own interval.
            let base =
                share(&base.iter().map(|tally| tally_pass_at_k(tally, *k)).collect::<Vec<_>>());
            let change = to_base(&|tally| tally_pass_at_k(tally, *k), 1.0);
            (*k, change.within(-base.high, 1.0 - base.low))
        };
        let distinct = |k: &usize| {
            let value =
                |tally: &Tally| unique_correct(tally, Level::Solution, (*k).min(tally.samples));
            // As many distinct answers as any problem showed, another may gain or lose.
            let most = most_distinct(base, runs).min(*k) as f64;
            (*k, to_base(&value, most).within(-most, most))
        };
        Self {
            pass: ks.iter().map(pass).collect(),
            distinct: ks.iter().map(distinct).collect(),
            matched: CORRECT
                .iter()
                .filter_map(|correct| Matched::new(evaluations, *correct))
                .collect(),
            crossing: crossing(ks, base, runs),
            base_solved: base.iter().filter(|tally| tally.correct > 0).count(),
            retained: mean(&|run| solved(run, true)),
            newly_solved: mean(&|run| solved(run, false)),
        }
    }
}

/// The most distinct correct answers that a problem showed under any model.
fn most_distinct(base: &[Tally], runs: &[&[Tally]]) -> usize {
    let all = base.iter().chain(runs.iter().flat_map(|run| run.iter()));
    all.map(|tally| tally.classes.at(Level::Solution).distinct()).max().unwrap_or(1).max(1)
}

/// A measure of a problem.
type Value<'a> = &'a (dyn Fn(&Tally) -> f64 + Sync);

/// Of each run, problem by problem, a value less the base's.
fn differences(base: &[Tally], runs: &[&[Tally]], value: Value<'_>) -> Vec<Vec<f64>> {
    let values = |run: &[Tally]| -> Vec<f64> { run.par_iter().map(value).collect() };
    // Paired by problem: the variance of problems cancels in a difference.
    let values_of_base = values(base);
    let row =
        |run: &&[Tally]| values(run).iter().zip(&values_of_base).map(|(m, b)| m - b).collect();
    runs.iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_of_two_opposite_seeds_stay_in_range() {
        let solved = |correct: usize| vec![Tally { samples: 8, correct, ..Tally::default() }; 12];
        let (base, none, all) = (solved(4), solved(0), solved(8));
        let runs = [none.as_slice(), all.as_slice()];
        let values = differences(&base, &runs, &|tally| tally_pass_at_k(tally, 1));
        assert!(crossed(&values, 1.0).low < -1.0, "two seeds alone say nothing");
        let evaluations = Evaluations { base: &base, runs: &runs, table: &runs };
        let result = Contrast::new(&evaluations, &[1, 8]);
        let pass = result.pass[0].1;
        assert!(pass.low > -1.0 && pass.low <= -0.5 && pass.high < 1.0 && pass.high >= 0.5);
        let inside = |effect: &Effect, most: f64| effect.low >= -most && effect.high <= most;
        assert!(result.distinct.iter().all(|(k, effect)| inside(effect, *k as f64)));
    }
}
