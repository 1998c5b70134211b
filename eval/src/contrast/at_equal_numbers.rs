//! Diversity among equal numbers of correct answers: a more accurate model draws more of them, and more draws show
//! more kinds.

use serde::{Deserialize, Serialize};

use super::Evaluations;
use crate::inference::{Effect, crossed};
use crate::measure::rarefied::{Rarefied, rarefied};
use crate::{Level, Tally};

/// Problems that a comparison at equal numbers of correct answers needs at least.
const LEAST: usize = 5;

/// A measure with the base's mean, the model's and the difference.
pub type Row = (String, f64, f64, Effect);

/// Diversity among r correct answers, on the problems where the base and every model of the table have so many under
/// every seed: the rows of one table share their problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// Number r of correct answers that are compared.
    pub right: usize,
    /// Number of problems that are compared.
    pub problems: usize,
    /// Each measure by its name: the base's mean, the model's mean, the difference.
    pub measures: Vec<Row>,
}

/// A measure, and the most it can be among r correct answers.
type Measure = (&'static str, fn(&Rarefied) -> f64, fn(f64) -> f64);

const MEASURES: [Measure; 5] = [
    ("distinct", |r| r.distinct, |most| most),
    ("hill 1", |r| r.hill_1, |most| most),
    ("hill 2", |r| r.hill_2, |most| most),
    // All of r seen once: `r + r (r - 1) / 2`.
    ("chao 1", |r| r.chao_1, |most| 0.5 * most * (most + 1.0)),
    ("unseen", |r| r.unseen, |_| 1.0),
];

impl Matched {
    pub(super) fn new(evaluations: &Evaluations<'_>, right: usize) -> Option<Self> {
        let at =
            |tally: &Tally| rarefied(&tally.classes.at(Level::Solution).multiplicities(), right);
        let has_enough = |tally: &Tally| {
            let counts = tally.classes.at(Level::Solution).multiplicities();
            counts.into_iter().sum::<usize>() >= right
        };
        // Problems that all have: other problems for each model would compare easy ones with hard ones.
        let everyone = |i: &usize| {
            has_enough(&evaluations.base[*i])
                && evaluations.runs.iter().chain(evaluations.table).all(|run| has_enough(&run[*i]))
        };
        let shared: Vec<usize> = (0..evaluations.base.len()).filter(everyone).collect();
        if shared.len() < LEAST || evaluations.runs.is_empty() {
            return None;
        }
        let of_run = |run: &[Tally]| -> Vec<Rarefied> {
            shared.iter().filter_map(|i| at(&run[*i])).collect()
        };
        let base = of_run(evaluations.base);
        let runs: Vec<Vec<Rarefied>> = evaluations.runs.iter().map(|run| of_run(run)).collect();
        let measures = MEASURES.iter().map(|(name, value, most)| {
            let row = |run: &Vec<Rarefied>| {
                run.iter().zip(&base).map(|(m, b)| value(m) - value(b)).collect()
            };
            let mean = base.iter().map(value).sum::<f64>() / base.len() as f64;
            let most = most(right as f64);
            // Where the model shows nothing, and where it shows the most there can be.
            let rows: Vec<Vec<f64>> = runs.iter().map(row).collect();
            let effect = crossed(&rows, largest(&base, &runs, value)).within(-most, most);
            ((*name).to_owned(), mean, mean + effect.value, effect)
        });
        Some(Self { right, problems: shared.len(), measures: measures.collect() })
    }
}

/// The largest value of any of these problems, which another may gain or lose.
fn largest<T>(base: &[T], runs: &[Vec<T>], value: &dyn Fn(&T) -> f64) -> f64 {
    base.iter().chain(runs.iter().flatten()).map(value).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::super::Contrast;
    use super::*;
    use crate::simulated::Draws;

    /// A model's counts on problems of one chance, each correct answer one of classes.
    fn tallies(draws: &mut Draws, problems: usize, p: f64, classes: &[f64]) -> Vec<Tally> {
        let mut one = |_| {
            let correct = draws.binomial(32, p);
            let mut tally = Tally { samples: 32, correct, ..Tally::default() };
            for _ in 0..correct {
                let class = draws.pick(classes).to_string();
                tally.classes.add(&class, &class, &class);
            }
            tally
        };
        (0..problems).map(&mut one).collect()
    }

    #[test]
    fn more_correct_answers_of_the_same_kinds_are_no_more_diverse() {
        let mut draws = Draws::new(6);
        let kinds = [0.5, 0.3, 0.15, 0.05];
        let base = tallies(&mut draws, 150, 0.3, &kinds);
        let better = tallies(&mut draws, 150, 0.9, &kinds);
        let collapsed = tallies(&mut draws, 150, 0.9, &[0.97, 0.01, 0.01, 0.01]);
        let at = |run: &[Tally]| {
            let evaluations = Evaluations { base: &base, runs: &[run], table: &[run] };
            let result = Contrast::new(&evaluations, &[1, 32]);
            let matched = result.matched.iter().find(|m| m.right == 4).unwrap().clone();
            (result.distinct[1].1, matched)
        };
        // Among all samples the better model shows more; among four correct answers as many.
        let (all, matched) = at(&better);
        assert!(all.low > 0.3, "{all:?}");
        for (name, _, _, effect) in &matched.measures {
            assert!(effect.low < 0.1 && effect.high > -0.1, "{name}: {effect:?}");
        }
        // Accuracy hides a collapse from the count among all samples, not from this.
        let (_, matched) = at(&collapsed);
        assert!(matched.measures.iter().take(3).all(|(.., effect)| effect.high < -0.3));
    }

    #[test]
    fn the_rows_of_a_table_share_their_problems() {
        let mut draws = Draws::new(7);
        let kinds = [0.5, 0.5];
        let base = tallies(&mut draws, 60, 0.9, &kinds);
        let good = tallies(&mut draws, 60, 0.9, &kinds);
        // Solves the first forty alone.
        let mut narrow = tallies(&mut draws, 60, 0.9, &kinds);
        narrow[40..].fill(Tally { samples: 32, ..Tally::default() });
        let table = [good.as_slice(), narrow.as_slice()];
        let matched_at = |run: usize| {
            let runs = &table[run..=run];
            Matched::new(&Evaluations { base: &base, runs, table: &table }, 4)
        };
        let matched = [matched_at(0).unwrap(), matched_at(1).unwrap()];
        assert_eq!(matched.each_ref().map(|matched| matched.problems), [40, 40]);
        // And so the base's mean beside them is one number.
        assert_eq!(matched[0].measures[0].1, matched[1].measures[0].1);
        let alone = Evaluations { base: &base, runs: &table[..1], table: &[] };
        assert_eq!(Matched::new(&alone, 4).unwrap().problems, 60);
    }
}
