//! Simulated studies with known fronts: how often intervals and bands hold them, how often pairs are found to differ.
//!
//! A problem has a hardness and a taste; a checkpoint raises the log-odds of all problems by a gain and moves them by
//! their taste, which solves some more and some less: accuracy against coverage. Seeds differ in both, the more the
//! further they are trained, and each checkpoint has noise of its own at every problem.

use rayon::prelude::*;

use super::choice::{Means, choose};
use super::{Checkpoint, Fronts, Levels, Measure, ProblemCounts, Request, RunPath, fronts};
use crate::measure::pass_at_k::pass_at_k;
use crate::simulated::Draws;

const N: usize = 32;
const K: usize = 16;
const NOISE: f64 = 0.3;
const CONFIGURATIONS: [f64; 3] = [0.6, 1.0, 1.5];
const PROGRESS: [f64; 3] = [0.33, 0.67, 1.0];
const LEVELS: [f64; 5] = [0.27, 0.30, 0.33, 0.35, 0.37];
const VALID: usize = 40;
const TEST: usize = 60;

/// An objective: what it does to gain and taste at full strength, and how its seeds differ.
#[derive(Clone, Copy)]
pub(super) struct Law {
    gain: f64,
    taste: f64,
    spread: f64,
}

/// Keeps more than `COLLAPSES` at every accuracy.
pub(super) const KEEPS: Law = Law { gain: 0.7, taste: 1.7, spread: 0.15 };
pub(super) const COLLAPSES: Law = Law { gain: 0.7, taste: 3.2, spread: 0.15 };

/// Gain and taste of the checkpoints of one seed, configuration by configuration.
fn path(draws: &mut Draws, law: Law) -> Vec<Vec<(f64, f64)>> {
    let common = (draws.normal(), draws.normal());
    let configuration = |strength: &f64, draws: &mut Draws| -> Vec<(f64, f64)> {
        let own = |common: f64, draws: &mut Draws| 0.6 * common + 0.8 * draws.normal();
        let (a, b) = (own(common.0, draws), own(common.1, draws));
        let at = |u: &f64| {
            let done = strength * u;
            (done * (law.gain + law.spread * a), done * (law.taste + 2.0 * law.spread * b))
        };
        PROGRESS.iter().map(at).collect()
    };
    CONFIGURATIONS.iter().map(|strength| configuration(strength, draws)).collect()
}

/// Hardness and taste of problems.
fn problems(draws: &mut Draws, count: usize) -> Vec<(f64, f64)> {
    (0..count).map(|_| (-1.5 + 1.5 * draws.normal(), draws.normal())).collect()
}

fn logistic(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn counts(draws: &mut Draws, problems: &[(f64, f64)], (gain, taste): (f64, f64)) -> Vec<usize> {
    let one = |(hardness, own): &(f64, f64)| {
        let p = logistic(hardness + gain + taste * own + NOISE * draws.normal());
        draws.binomial(N, p)
    };
    problems.iter().map(one).collect()
}

/// Pass@k over all problems that there are.
fn population(gain: f64, taste: f64, k: usize) -> f64 {
    let spread = (1.5_f64 * 1.5 + taste * taste + NOISE * NOISE).sqrt();
    let (mut sum, mut total) = (0.0, 0.0);
    for step in -40..=40 {
        let x = f64::from(step) / 8.0;
        let weight = (-x * x / 2.0).exp();
        let p = logistic(-1.5 + gain + spread * x);
        sum += weight * (1.0 - (1.0 - p).powi(k as i32));
        total += weight;
    }
    sum / total
}

/// What the rule's choice is worth on average, level by level: the estimand, from many seeds, each with valid problems
/// of its own.
fn truth(law: Law, seeds: usize) -> Vec<f64> {
    let of_seed = |seed: usize| -> Vec<f64> {
        let mut draws = Draws::new(1_000_000 + seed as u64);
        let all: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
            .chain(path(&mut draws, law).into_iter().flatten())
            .collect();
        let valid = problems(&mut draws, VALID);
        let mean = |of: &dyn Fn(usize) -> f64, counts: &[usize]| {
            counts.iter().map(|c| of(*c)).sum::<f64>() / counts.len() as f64
        };
        let drawn: Vec<Vec<usize>> =
            all.iter().map(|point| counts(&mut draws, &valid, *point)).collect();
        let means = Means {
            accuracy: drawn.iter().map(|c| mean(&|c| c as f64 / N as f64, c)).collect(),
            value: drawn.iter().map(|c| mean(&|c| pass_at_k(N, c, K), c)).collect(),
        };
        let candidates: Vec<usize> = (0..all.len()).collect();
        let chosen = |level: &f64| all[choose(*level, &candidates, &means).candidate];
        LEVELS.iter().map(chosen).map(|(g, t)| population(g, t, K)).collect()
    };
    let values: Vec<Vec<f64>> = (0..seeds).into_par_iter().map(of_seed).collect();
    let at = |index: usize| values.iter().map(|of| of[index]).sum::<f64>() / seeds as f64;
    (0..LEVELS.len()).map(at).collect()
}

/// The data of a study of objectives by these laws: the base and every path.
pub(super) fn data(laws: &[Law], seeds: usize, key: u64) -> (Checkpoint, Vec<RunPath>) {
    let mut draws = Draws::new(key);
    let (valid, test) = (problems(&mut draws, VALID), problems(&mut draws, TEST));
    let point = |draws: &mut Draws, step: usize, at: (f64, f64)| {
        let counts = |draws: &mut Draws, problems: &[(f64, f64)]| -> Vec<ProblemCounts> {
            let all = counts(draws, problems, at).into_iter();
            all.map(|correct| ProblemCounts { n: N, correct, classes: Vec::new() }).collect()
        };
        let (valid, test) = (counts(draws, &valid), counts(draws, &test));
        Checkpoint { step: step as u64, generated_tokens: 100 * step as u64, valid, test }
    };
    let base = point(&mut draws, 0, (0.0, 0.0));
    let mut paths = Vec::new();
    for (index, law) in laws.iter().enumerate() {
        for seed in 0..seeds {
            for (number, points) in path(&mut draws, *law).into_iter().enumerate() {
                let checkpoints = points.into_iter().enumerate();
                paths.push(RunPath {
                    objective: format!("objective {index}"),
                    configuration: number.to_string(),
                    seed: Some(seed as u64),
                    checkpoints: checkpoints
                        .map(|(step, at)| point(&mut draws, step + 1, at))
                        .collect(),
                });
            }
        }
    }
    (base, paths)
}

/// What is asked of simulated studies.
pub(super) fn request(key: u64) -> Request {
    Request {
        measure: Measure::PassAtK(K),
        levels: Levels::At(LEVELS.to_vec()),
        resamples: 200,
        key,
        ..Request::default()
    }
}

fn study(laws: &[Law], seeds: usize, key: u64) -> Fronts {
    let (base, paths) = data(laws, seeds, key);
    fronts(&base, &paths, &request(key)).unwrap()
}

/// A study for tests of tables and pictures: three objectives, three seeds, automatic levels.
pub(crate) fn study_of_three() -> Fronts {
    let (base, paths) = data(&[KEEPS, COLLAPSES, KEEPS], 3, 5);
    fronts(&base, &paths, &Request { levels: Levels::Auto, ..request(5) }).unwrap()
}

/// Shares over studies.
#[derive(Default, Debug)]
struct Figures {
    /// Level by level: intervals of the first front that hold the truth, of those there are.
    held: Vec<(usize, usize)>,
    /// Bands of the first front that hold all of it.
    bands: (usize, usize),
    /// Level by level: intervals of the pair's difference.
    differences: Vec<(usize, usize)>,
    /// Bands of the pair.
    pair_bands: (usize, usize),
    /// Pairs found to differ.
    found: (usize, usize),
    /// Mean shortfall of Pass@1 on `test` (over all problems that there are: unbiased) below the level.
    accuracy: Vec<(f64, usize)>,
}

fn figures(laws: [Law; 2], truths: &[Vec<f64>; 2], seeds: usize, studies: usize) -> Figures {
    let all: Vec<Fronts> = (0..studies)
        .into_par_iter()
        .map(|index| study(&laws, seeds, 10_000 * seeds as u64 + index as u64))
        .collect();
    let count = |to: &mut (usize, usize), is: bool| *to = (to.0 + usize::from(is), to.1 + 1);
    let mut figures = Figures {
        held: vec![(0, 0); LEVELS.len()],
        differences: vec![(0, 0); LEVELS.len()],
        accuracy: vec![(0.0, 0); LEVELS.len()],
        ..Figures::default()
    };
    for study in &all {
        let mut is_within = true;
        for (at, level) in study.fronts[0].levels.iter().enumerate() {
            let (Some(value), Some(band)) = (level.value, level.band) else { continue };
            let truth = truths[0][at];
            count(&mut figures.held[at], value.low <= truth && truth <= value.high);
            is_within &= band.0 <= truth && truth <= band.1;
            let short = level.pass_at_1.unwrap().value - level.level;
            figures.accuracy[at] = (figures.accuracy[at].0 + short, figures.accuracy[at].1 + 1);
        }
        count(&mut figures.bands, is_within);
        let (pair, mut is_within) = (&study.pairs[0], true);
        for level in &pair.levels {
            let at = LEVELS.iter().position(|of| *of == level.level).unwrap();
            let truth = truths[0][at] - truths[1][at];
            let difference = level.difference;
            let is_held = difference.low <= truth && truth <= difference.high;
            count(&mut figures.differences[at], is_held);
            is_within &= level.band.0 <= truth && truth <= level.band.1;
        }
        count(&mut figures.pair_bands, is_within);
        if pair.p_value.is_some() {
            count(&mut figures.found, pair.is_significant);
        }
    }
    figures
}

fn share((some, all): (usize, usize)) -> f64 {
    some as f64 / all.max(1) as f64
}

fn shares(all: &[(usize, usize)]) -> String {
    let of = |one: &(usize, usize)| format!("{:.3}", share(*one));
    all.iter().map(of).collect::<Vec<_>>().join(" ")
}

/// Few studies, in seconds; `TEALIGHT_STUDIES=250` for the figures of docs/measures.md.
fn studies() -> Option<usize> {
    std::env::var("TEALIGHT_STUDIES").ok().and_then(|text| text.parse().ok())
}

/// Levels that nearly every study reaches in every seed: of others a study shows those where its seeds were lucky.
fn usual(all: &[(usize, usize)], studies: usize) -> (usize, usize) {
    let usual = all.iter().filter(|(_, count)| count * 10 >= studies * 9);
    usual.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

#[test]
fn intervals_bands_and_tests_hold_what_they_say() {
    let spreads: &[f64] = if studies().is_some() { &[0.05, 0.15, 0.3, 0.6] } else { &[0.3] };
    let count = studies().unwrap_or(60);
    for spread in spreads {
        let keeps = Law { spread: *spread, ..KEEPS };
        let collapses = Law { spread: *spread, ..COLLAPSES };
        for (name, laws) in [("alike", [keeps, keeps]), ("differ", [keeps, collapses])] {
            let truths = laws.map(|law| truth(law, 4000));
            for (which, truth) in truths.iter().enumerate() {
                println!("spread {spread}, objective {which} at levels {LEVELS:?}: {truth:.3?}");
            }
            let mut wrong = (0, 0);
            for seeds in [2, 3, 4, 8] {
                let figures = figures(laws, &truths, seeds, count);
                let at = line(&format!("spread {spread}, {name}, {seeds} seeds"), &figures);
                println!("{at}");
                // Three standard errors of a share of so few below .93; the tables are from many.
                let least = 0.93 - 3.0 * (0.93 * 0.07 / count as f64).sqrt();
                for usual in [&figures.held, &figures.differences].map(|all| usual(all, count)) {
                    assert!(usual.1 == 0 || share(usual) > least, "{at}");
                }
                assert!(share(figures.bands) > least, "{at}");
                assert!(share(figures.pair_bands) > least, "{at}");
                wrong = (wrong.0 + figures.found.0, wrong.1 + figures.found.1);
            }
            match name {
                "alike" => assert!(share(wrong) < 0.07, "{wrong:?}"),
                _ if *spread < 0.5 => assert!(wrong.0 > 0, "no difference was ever found"),
                _ => {}
            }
        }
    }
}

fn line(name: &str, figures: &Figures) -> String {
    let over = figures.accuracy.iter();
    format!(
        "{name}: fronts {}, band {:.3}; differences {}, band {:.3}; found {:.3}; test pass@1 over the level by {}; \
         reached {:?}",
        shares(&figures.held),
        share(figures.bands),
        shares(&figures.differences),
        share(figures.pair_bands),
        share(figures.found),
        over.map(|(sum, count)| format!("{:+.3}", sum / *count as f64))
            .collect::<Vec<_>>()
            .join(" "),
        figures.held.iter().map(|(_, all)| *all).collect::<Vec<_>>(),
    )
}
