//! Averages over the sets of a domain, with intervals over seeds and problems.

use super::tables::{has_greedy, runs};
use super::{Evaluated, Study};
use crate::inference::average;
use crate::interval::{Estimate, bounded};
use crate::measure::pass_at_k::tally_pass_at_k;
use crate::measure::rarefaction::unique_correct;
use crate::number::fixed;
use crate::{Level, Tally};

/// A number of a problem: what its column is called, digits after the point, the most it can be, the value.
struct Number {
    title: String,
    digits: usize,
    most: f64,
    value: Box<dyn Fn(&Tally) -> f64>,
}

impl Number {
    fn pass(k: usize) -> Self {
        let value = Box::new(move |tally: &Tally| tally_pass_at_k(tally, k));
        Self { title: format!("pass@{k}"), digits: 3, most: 1.0, value }
    }

    fn greedy() -> Self {
        let value = Box::new(|tally: &Tally| f64::from(u8::from(tally.greedy == Some(true))));
        Self { title: "greedy".into(), digits: 3, most: 1.0, value }
    }

    fn distinct(k: usize) -> Self {
        let value =
            move |tally: &Tally| unique_correct(tally, Level::Solution, k.min(tally.samples));
        Self { title: "distinct".into(), digits: 2, most: k as f64, value: Box::new(value) }
    }

    /// The value with its interval.
    fn cell(&self, sets: &[Vec<Vec<f64>>]) -> String {
        // Of a number of answers the most that a problem has, which another may have too.
        let shown = sets.iter().flatten().flatten().copied().fold(1.0, f64::max);
        let Estimate { value, low, high } = level(sets, shown.ceil().min(self.most));
        let [value, low, high] = [value, low, high].map(|x| fixed(x, self.digits));
        format!("{value} ({low} to {high})")
    }
}

/// The mean of the means of sets, each with a row a seed and a value a problem, between 0 and `most`. The interval is
/// over seeds and problems, with one seed over problems alone; of one set it holds that of [`bounded`] over problems,
/// which near the ends of the range lies to one side.
fn level(sets: &[Vec<Vec<f64>>], most: f64) -> Estimate {
    let mean = average(sets, most).within(0.0, most);
    let (mut low, mut high) = (mean.low, mean.high);
    if let [set] = sets {
        if set.len() < 2 {
            return bounded(set.first().map_or(&[], Vec::as_slice), 0.0, most);
        }
        let mean = |i: usize| set.iter().map(|row| row[i]).sum::<f64>() / set.len() as f64;
        let count = set.first().map_or(0, Vec::len);
        let of_problems = bounded(&(0..count).map(mean).collect::<Vec<_>>(), 0.0, most);
        (low, high) = (low.min(of_problems.low), high.max(of_problems.high));
    }
    Estimate { value: mean.value, low, high }
}

/// A row a run with the values of the problems that all of them were judged on.
fn values(all: &[&[Tally]], value: &dyn Fn(&Tally) -> f64) -> Vec<Vec<f64>> {
    let problems = all.first().map_or(0, |run| run.len());
    let judged: Vec<usize> =
        (0..problems).filter(|i| all.iter().all(|run| run[*i].samples > 0)).collect();
    all.iter().map(|run| judged.iter().map(|i| value(&run[*i])).collect()).collect()
}

/// Averages over the sets of each domain that has several, with 95 % intervals: a name and rows with their header first.
pub fn averages(study: &Study) -> Vec<(String, Vec<Vec<String>>)> {
    let mut tables = Vec::new();
    for (domain, title) in [("in", "in domain"), ("out", "out of domain")] {
        let sets: Vec<&Evaluated> =
            study.datasets.iter().filter(|set| set.domain == domain).collect();
        if sets.len() < 2 {
            continue;
        }
        let mut numbers = Vec::new();
        numbers.extend(sets.iter().all(|set| has_greedy(set)).then(Number::greedy));
        numbers.extend(study.ks.iter().map(|k| Number::pass(*k)));
        numbers.push(Number::distinct(study.largest()));
        let titles = numbers.iter().map(|number| number.title.clone());
        let mut table = vec![std::iter::once("objective".to_owned()).chain(titles).collect()];
        for name in std::iter::once("base").chain(study.labels()) {
            let cell = |number: &Number| {
                let rows = |set: &&Evaluated| values(&runs(set, name), &number.value);
                number.cell(&sets.iter().map(rows).collect::<Vec<_>>())
            };
            table.push(std::iter::once(name.to_owned()).chain(numbers.iter().map(cell)).collect());
        }
        let names: Vec<&str> = sets.iter().map(|set| set.name.as_str()).collect();
        tables.push((format!("{title}, mean of {}", names.join(", ")), table));
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::pass_at_k::pass_at_k;
    use crate::simulated::Draws;

    fn odds(draws: &mut Draws, problems: usize, mean: f64) -> Vec<f64> {
        (0..problems).map(|_| mean + 1.5 * draws.normal()).collect()
    }

    /// Problems of these log-odds, solved by runs that move them by seed, and each by something of its own: Pass@1 of
    /// 32
    /// samples, a row a run.
    fn set(draws: &mut Draws, seeds: &[f64], odds: &[f64]) -> Vec<Vec<f64>> {
        let mut row = |seed: &f64| {
            odds.iter()
                .map(|odds| {
                    let p = 1.0 / (1.0 + (-(odds + seed + 0.5 * draws.normal())).exp());
                    pass_at_k(32, draws.binomial(32, p), 1)
                })
                .collect()
        };
        seeds.iter().map(&mut row).collect()
    }

    #[test]
    fn set_average_intervals_cover_95_percent() {
        // An easy set of 20 problems, a hard one of 80; a run's seed moves it on both.
        let study = |draws: &mut Draws, (seeds, problems): (usize, usize)| {
            let seeds: Vec<f64> = (0..seeds).map(|_| 0.25 * draws.normal()).collect();
            let all = [odds(draws, problems, 0.5), odds(draws, 4 * problems, -2.5)];
            all.map(|odds| set(draws, &seeds, &odds))
        };
        let mut draws = Draws::new(21);
        let truth = level(&study(&mut draws, (300, 1000)), 1.0).value;
        for seeds in [2, 3, 5] {
            let (mut covered, studies) = (0, 1500);
            for _ in 0..studies {
                let estimate = level(&study(&mut draws, (seeds, 20)), 1.0);
                assert!(
                    estimate.low >= 0.0 && estimate.high <= 1.0 && estimate.low < estimate.high
                );
                covered += i32::from(estimate.low <= truth && truth <= estimate.high);
            }
            let covered = f64::from(covered) / f64::from(studies);
            println!("average of two sets, {seeds} seeds: covered {covered:.3}");
            assert!(covered >= 0.93, "{seeds} seeds: {covered}");
        }
    }

    #[test]
    fn level_intervals_stay_in_range_and_have_width() {
        let seeds = vec![vec![0.0, 1.0, 0.0, 0.0], vec![1.0, 1.0, 1.0, 0.0]];
        let estimate = level(&[seeds], 1.0);
        assert!(estimate.low == 0.0 && estimate.high == 1.0, "{estimate:?}");
        let zeros = || vec![0.0; 4];
        for (sets, most) in [(vec![vec![zeros()]], 0.61), (vec![vec![zeros(); 2]; 2], 0.77)] {
            let estimate = level(&sets, 1.0);
            let has_width = estimate.high > 0.5 && estimate.high < most;
            assert!(estimate.low == 0.0 && has_width, "{estimate:?}");
        }
    }
}
