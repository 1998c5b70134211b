//! How often intervals hold the known difference, how often an objective is found to differ from itself and from
//! others, and what the spacing of checkpoints changes. `TEALIGHT_STUDIES=2000` simulates as many studies as that.

use rayon::prelude::*;

use super::data::{contenders, reference};
use super::world::{COLLAPSES, KEEPS, Objective, Study};
use super::{Answers, Comparison, Measure, Request, RunPath, comparisons};
use crate::simulated::studies;

/// The comparisons of [`super::curves`] with the reference, without the intervals of each curve.
fn with_reference(measure: Measure, base: &[Answers], paths: &[RunPath]) -> Vec<Comparison> {
    let request = Request::new(measure);
    let (base, contenders) = contenders(base, paths, &request).unwrap();
    let reference = reference(&contenders, &request).unwrap();
    let mut all = comparisons(&contenders, &base, reference, &request);
    all.truncate(contenders.len() - 1);
    all
}

/// The comparisons with the first objective of one study.
fn compared(study: &Study, objectives: &[(&str, Objective)], key: u64) -> Vec<Comparison> {
    let (base, paths) = study.draw(objectives, key);
    with_reference(study.measure(), &base, &paths)
}

/// Of many studies.
#[derive(Debug, Default)]
struct Figures {
    comparisons: usize,
    /// Intervals that hold the truth.
    covered: usize,
    /// Comparisons found significant after Holm's adjustment.
    found: usize,
    studies: usize,
    /// Studies with a significant comparison.
    any: usize,
    sum: f64,
}

impl Figures {
    fn simulate(study: &Study, objectives: &[(&str, Objective)], truth: f64, count: usize) -> Self {
        let one = |key: u64| compared(study, objectives, 1000 + key);
        let all: Vec<Vec<Comparison>> = (0..count as u64).into_par_iter().map(one).collect();
        let mut figures = Self { studies: count, ..Self::default() };
        for study in &all {
            figures.any += usize::from(study.iter().any(|one| one.is_significant));
            for one in study {
                let Some(difference) = one.difference else { continue };
                figures.comparisons += 1;
                figures.covered += usize::from(difference.low <= truth && truth <= difference.high);
                figures.found += usize::from(one.is_significant);
                figures.sum += difference.value;
            }
        }
        figures
    }

    fn share(&self, count: usize) -> f64 {
        count as f64 / self.comparisons as f64
    }

    fn line(&self, name: &str) -> String {
        format!(
            "{name}: covered {:.3}, any significant {:.3}, each significant {:.3}, mean difference {:+.4}",
            self.share(self.covered),
            self.any as f64 / self.studies as f64,
            self.share(self.found),
            self.sum / self.comparisons as f64
        )
    }
}

/// The difference in studies of so many problems and seeds that little is left to chance: about .0015.
fn truth(study: &Study, objectives: &[(&str, Objective)]) -> f64 {
    let large = Study { seeds: 40, problems: 3000, samples: 0, ..*study };
    let one = |key: u64| compared(&large, objectives, key)[0].difference.unwrap().value;
    (0..6).into_par_iter().map(one).sum::<f64>() / 6.0
}

/// The standard deviation over seeds of an objective's measure at equal Pass@1, by single seeds of a large study
/// against the mean of all.
fn seed_spread(study: &Study, objective: Objective) -> f64 {
    let large = Study { seeds: 20, problems: 1000, samples: 0, ..*study };
    let (base, paths) = large.draw(&[("mean", objective)], 9);
    let one = |path: &RunPath| {
        let alone = RunPath { objective: "one".to_owned(), ..path.clone() };
        let all: Vec<RunPath> = paths.iter().cloned().chain([alone]).collect();
        with_reference(study.measure(), &base, &all)[0].difference.unwrap().value
    };
    let all: Vec<f64> = paths.par_iter().map(one).collect();
    let mean = all.iter().sum::<f64>() / all.len() as f64;
    (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (all.len() - 1) as f64).sqrt()
}

/// The worlds: what seeds add, whether all runs lose the same problems, samples or probabilities.
const WORLDS: [Study; 5] = [
    Study { seeds: 3, problems: 80, samples: 0, seed_spread: 0.0, common: 0.5, solutions: 1 },
    Study { seeds: 3, problems: 80, samples: 0, seed_spread: 0.4, common: 0.5, solutions: 1 },
    Study { seeds: 3, problems: 80, samples: 32, seed_spread: 0.4, common: 0.5, solutions: 1 },
    Study { seeds: 5, problems: 80, samples: 0, seed_spread: 0.4, common: 0.9, solutions: 1 },
    Study { seeds: 3, problems: 80, samples: 0, seed_spread: 1.0, common: 0.9, solutions: 1 },
];

/// Checks that objectives which are one are seldom found to differ, and that intervals hold the difference 0.
fn check_size(study: &Study, objectives: &[(&str, Objective)]) {
    let count = studies(120);
    let figures = Figures::simulate(study, objectives, 0.0, count);
    let line = figures.line(&format!("itself, {:?}, {study:?}", objectives[0].1));
    println!("{line}");
    // A share of .05 with three standard errors of the simulation.
    let bound = 0.05 + 3.0 * (0.05 * 0.95 / count as f64).sqrt();
    assert!((figures.any as f64) < bound * count as f64, "{line}");
    assert!(figures.share(figures.covered) > 0.93, "{line}");
}

/// Checks that intervals hold the difference of the first objective from the others, that its estimates are no further
/// from it than `bias` in the mean, and that the share `power` of the differences is found after Holm's adjustment.
/// Returns the difference.
fn check_power(study: &Study, objectives: &[(&str, Objective)], power: f64, bias: f64) -> f64 {
    let count = studies(120);
    let known = truth(study, &objectives[..2]);
    let spread = [objectives[0].1, objectives[1].1].map(|one| seed_spread(study, one));
    let figures = Figures::simulate(study, objectives, known, count);
    let line = figures.line(&format!("truth {known:+.4}, seeds spread {spread:.4?}, {study:?}"));
    println!("{line}");
    // The comparisons of a study being one draw.
    let bound = |share: f64| share - 3.0 * (share * (1.0 - share) / count as f64).sqrt();
    assert!(figures.share(figures.covered) > bound(0.93), "{line}");
    assert!((figures.sum / figures.comparisons as f64 - known).abs() < bias, "{line}");
    assert!(figures.share(figures.found) > bound(power), "{line}");
    known
}

#[test]
fn an_objective_seldom_differs_from_itself() {
    let five = ["a", "b", "c", "d", "e"].map(|name| (name, COLLAPSES));
    for world in &WORLDS {
        check_size(world, &five);
    }
}

#[test]
fn area_intervals_cover_and_tests_have_power() {
    let five = [("a", COLLAPSES), ("b", KEEPS), ("c", KEEPS), ("d", KEEPS), ("e", KEEPS)];
    for (world, power) in WORLDS.iter().zip([0.75, 0.75, 0.6, 0.85, 0.2]) {
        let known = check_power(world, &five, power, 0.01);
        assert!((0.08..0.12).contains(&known), "{known}");
    }
}

#[test]
fn checkpoint_spacing_adds_no_bias() {
    // One course; evaluated six times at a spacing of Pass@1 of .03, or twice at .09.
    let count = studies(400);
    for (gain, collapse) in [(0.9, 1.0), (0.6, 2.5), (0.45, 3.5)] {
        let fine = Objective { gain, collapse, narrowing: 0.0, checkpoints: 6 };
        let study = Study { seeds: 3, seed_spread: 0.4, ..Study::default() };
        let one = |key: u64| {
            let (base, paths) = study.draw(&[("fine", fine)], key);
            let mut coarse = paths.clone();
            for path in &mut coarse {
                path.objective = "coarse".to_owned();
                path.checkpoints.retain(|point| point.step % 3 == 0);
            }
            let all = [coarse, paths].concat();
            with_reference(study.measure(), &base, &all)[0]
                .difference
                .map(|difference| difference.value)
        };
        let all: Vec<f64> = (0..count as u64).into_par_iter().filter_map(one).collect();
        let bias = all.iter().sum::<f64>() / all.len() as f64;
        println!("gain {gain}, collapse {collapse}: bias of spacing .09 beside .03 {bias:+.4}");
        assert!(bias.abs() < 0.003, "gain {gain}, collapse {collapse}: {bias:+.4}");
    }
}

/// Studies of distinct answers: as the default study with five seeds and 80 problems, by samples and exactly.
const OF_DISTINCT: [Study; 3] = [
    Study { seeds: 5, problems: 80, samples: 0, seed_spread: 0.3, common: 0.5, solutions: 24 },
    Study { seeds: 5, problems: 80, samples: 32, seed_spread: 0.3, common: 0.5, solutions: 24 },
    Study { seeds: 3, problems: 80, samples: 32, seed_spread: 0.6, common: 0.9, solutions: 24 },
];

#[test]
fn distinct_answers_seldom_differ_without_a_difference() {
    for objective in [COLLAPSES, KEEPS] {
        for world in &OF_DISTINCT {
            check_size(world, &["a", "b", "c"].map(|name| (name, objective)));
        }
    }
}

#[test]
fn differences_of_distinct_answers_are_covered_and_found() {
    let three = [("a", COLLAPSES), ("b", KEEPS), ("c", KEEPS)];
    for (world, power) in OF_DISTINCT.iter().zip([0.9, 0.9, 0.5]) {
        check_power(world, &three, power, 0.1);
    }
}
