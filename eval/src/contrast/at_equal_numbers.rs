//! Diversity among equal numbers of correct answers: a more accurate model draws more of them, and more draws show
//! more kinds.

use serde::{Deserialize, Serialize};

use super::{Evaluations, LEAST};
use crate::inference::{Effect, crossed};
use crate::measure::rarefaction::distinct_of;
use crate::{Level, Tally};

/// Distinct answers among r correct ones, on the problems where the base and every model of the table have so many
/// under every seed: the rows of one table share their problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matched {
    /// Number r of correct answers that are compared.
    pub right: usize,
    /// Number of problems that are compared.
    pub problems: usize,
    /// The base's mean.
    pub base: f64,
    /// The model's.
    pub model: f64,
    /// The difference.
    pub change: Effect,
}

impl Matched {
    pub(super) fn new(evaluations: &Evaluations<'_>, right: usize) -> Option<Self> {
        let at =
            |tally: &Tally| distinct_of(&tally.classes.at(Level::Solution).multiplicities(), right);
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
        let of_run =
            |run: &[Tally]| -> Vec<f64> { shared.iter().filter_map(|i| at(&run[*i])).collect() };
        let base = of_run(evaluations.base);
        let runs: Vec<Vec<f64>> = evaluations.runs.iter().map(|run| of_run(run)).collect();
        let row = |run: &Vec<f64>| run.iter().zip(&base).map(|(m, b)| m - b).collect();
        let rows: Vec<Vec<f64>> = runs.iter().map(row).collect();
        // The largest number of any of these problems, which another may gain or lose.
        let largest = base.iter().chain(runs.iter().flatten()).copied().fold(0.0, f64::max);
        // Where the model shows nothing, and where it shows the most there can be.
        let change = crossed(&rows, largest).within(-(right as f64), right as f64);
        let mean = base.iter().sum::<f64>() / base.len() as f64;
        let model = mean + change.value;
        Some(Self { right, problems: shared.len(), base: mean, model, change })
    }
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
        assert!(matched.change.low < 0.1 && matched.change.high > -0.1, "{matched:?}");
        // Accuracy hides a collapse from the count among all samples, not from this.
        let (_, matched) = at(&collapsed);
        assert!(matched.change.high < -0.3, "{matched:?}");
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
        assert_eq!(matched[0].base, matched[1].base);
        let alone = Evaluations { base: &base, runs: &table[..1], table: &[] };
        assert_eq!(Matched::new(&alone, 4).unwrap().problems, 60);
    }
}
