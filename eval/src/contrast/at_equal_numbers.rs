//! Diversity among equal numbers of correct answers: a more accurate model draws more of them, and more draws show
//! more kinds.

use serde::{Deserialize, Serialize};

use super::Evaluations;
use crate::features::{at, kinds};
use crate::inference::{Effect, crossed};
use crate::measure::rarefied::{Rarefied, rarefied};
use crate::profiles::MOST_ANSWERS;
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
    /// Each measure by its name: the base's mean, the model's mean, the difference. Measures of classes first,
    /// then, where the verifier lists features, two of each kind.
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
    /// The measures of features.
    pub fn features(&self) -> &[Row] {
        &self.measures[MEASURES.len().min(self.measures.len())..]
    }

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
        let features = features(evaluations, &shared, right);
        Some(Self { right, problems: shared.len(), measures: measures.chain(features).collect() })
    }
}

/// The largest value of any of these problems, which another may gain or lose.
fn largest<T>(base: &[T], runs: &[Vec<T>], value: &dyn Fn(&T) -> f64) -> f64 {
    base.iter().chain(runs.iter().flatten()).map(value).fold(0.0, f64::max)
}

/// Diversity of features, two measures a kind. None where the features of some answers are not known: an evaluation
/// of an earlier version, or by another verifier.
fn features(evaluations: &Evaluations<'_>, shared: &[usize], right: usize) -> Vec<Row> {
    let everyone =
        || std::iter::once(&evaluations.base).chain(evaluations.runs).chain(evaluations.table);
    let is_known = |tally: &Tally| tally.features.answers() == tally.correct.min(MOST_ANSWERS);
    if !everyone().flat_map(|run| run.iter()).all(is_known) {
        return Vec::new();
    }
    let mut rows = Vec::new();
    for kind in kinds(everyone().flat_map(|run| run.iter())) {
        let of_run = |run: &&[Tally]| -> Vec<(f64, f64)> {
            shared.iter().filter_map(|i| at(&run[*i], &kind, right)).collect()
        };
        let base = of_run(&evaluations.base);
        let runs: Vec<Vec<(f64, f64)>> = evaluations.runs.iter().map(of_run).collect();
        let mut row = |name: &str, value: fn(&(f64, f64)) -> f64, most: f64| {
            let differences = |run: &Vec<(f64, f64)>| {
                run.iter().zip(&base).map(|(m, b)| value(m) - value(b)).collect()
            };
            let mean = base.iter().map(value).sum::<f64>() / base.len() as f64;
            let changes: Vec<Vec<f64>> = runs.iter().map(differences).collect();
            let effect = crossed(&changes, largest(&base, &runs, &value)).within(-most, most);
            rows.push((format!("{name}, {kind}"), mean, mean + effect.value, effect));
        };
        row("Shannon", |pair| pair.0, (right as f64).ln());
        row("Gini-Simpson", |pair| pair.1, 1.0);
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::Contrast;
    use super::*;
    use crate::simulated::Draws;
    use tealight_datasets::Features;

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
    fn features_tell_collapse_from_accuracy() {
        let mut draws = Draws::new(8);
        let mut model = |p: f64, plus: f64| -> Vec<Tally> {
            let mut one = |_| {
                let correct = draws.binomial(32, p);
                let mut tally = Tally { samples: 32, correct, ..Tally::default() };
                for _ in 0..correct {
                    let name = |is: bool| if is { "operator:+" } else { "operator:*" }.to_owned();
                    let list = [draws.uniform() < plus, draws.uniform() < plus].map(name);
                    tally.features.add(&Features::new(list.to_vec()).unwrap());
                    tally.classes.add("a", "a", "a");
                }
                tally
            };
            (0..100).map(&mut one).collect()
        };
        let (base, better, collapsed) = (model(0.4, 0.6), model(0.9, 0.6), model(0.9, 0.97));
        let at = |run: &[Tally], right: usize| {
            let evaluations = Evaluations { base: &base, runs: &[run], table: &[run] };
            Matched::new(&evaluations, right).unwrap()
        };
        let same = at(&better, 4);
        let names: Vec<&str> = same.features().iter().map(|(name, ..)| name.as_str()).collect();
        assert_eq!(names, ["Shannon, operator", "Gini-Simpson, operator"]);
        assert!((same.features()[1].1 - 2.0 * 0.6 * 0.4).abs() < 0.03, "{same:?}");
        for (name, _, _, effect) in same.features() {
            assert!(effect.low < 0.03 && effect.high > -0.03, "{name}: {effect:?}");
        }
        for (name, _, _, effect) in at(&collapsed, 8).features() {
            assert!(effect.high < -0.2, "{name}: {effect:?}");
        }
        // Answers whose features were never written say nothing of features.
        let mut old = better;
        old[3].features = crate::Profiles::default();
        assert!(at(&old, 4).features().is_empty());
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
