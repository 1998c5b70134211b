//! Simulated studies with known fronts.
//!
//! A problem has a hardness and a taste; a checkpoint raises the log-odds of all problems by a gain and moves them by
//! their taste, which solves some more and some less: accuracy against coverage. Seeds differ in both, the more the
//! further they are trained, and each checkpoint has noise of its own at every problem. A problem has up to twelve
//! solutions; taste makes the first of them likelier.

use rayon::prelude::*;

use super::choice::{Chosen, Means, choose};
use super::field::field;
use super::{Checkpoint, Fronts, Levels, Measure, ProblemCounts, Request, RunPath, fronts};
use crate::measure::pass_at_k::pass_at_k;
use crate::simulated::Draws;

pub(super) const N: usize = 32;
pub(super) const K: usize = 16;
const NOISE: f64 = 0.3;
const CONFIGURATIONS: [f64; 3] = [0.6, 1.0, 1.5];
const PROGRESS: [f64; 3] = [0.33, 0.67, 1.0];
pub(super) const LEVELS: [f64; 5] = [0.27, 0.30, 0.33, 0.35, 0.37];
/// Problems of each split where a test does not say otherwise.
pub(super) const VALID: usize = 40;
pub(super) const TEST: usize = 60;

/// An objective: what it does to gain and taste at full strength, and how its seeds differ.
#[derive(Clone, Copy, PartialEq)]
pub(super) struct Law {
    pub(super) gain: f64,
    pub(super) taste: f64,
    pub(super) spread: f64,
}

/// A study to simulate.
#[derive(Clone)]
pub(super) struct Design {
    pub(super) laws: Vec<Law>,
    /// The last objective is a baseline without seeds: one path, without their spread.
    pub(super) has_baseline: bool,
    pub(super) seeds: usize,
    pub(super) valid: usize,
    pub(super) test: usize,
    pub(super) measure: Measure,
    pub(super) levels: Levels,
}

/// Keeps more than `COLLAPSES` at every accuracy.
pub(super) const KEEPS: Law = Law { gain: 0.7, taste: 1.7, spread: 0.15 };
pub(super) const COLLAPSES: Law = Law { gain: 0.7, taste: 3.2, spread: 0.15 };

/// Gain and taste of the checkpoints of one seed, configuration by configuration.
fn path(draws: &mut Draws, law: Law) -> Vec<Vec<(f64, f64)>> {
    let common = (draws.normal(), draws.normal());
    let configuration = |strength: &f64, draws: &mut Draws| -> Vec<(f64, f64)> {
        let correlated = |common: f64, draws: &mut Draws| 0.6 * common + 0.8 * draws.normal();
        let (a, b) = (correlated(common.0, draws), correlated(common.1, draws));
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

/// Pass@k of the rule's choice on average, level by level: the estimand, from many seeds, each with valid problems of
/// its own.
fn truth_of_pass_at_k(law: Law, valid: usize, levels: &[f64], seeds: usize) -> Vec<f64> {
    let of_seed = |seed: usize| -> Vec<f64> {
        let mut draws = Draws::new(1_000_000 + seed as u64);
        let all: Vec<(f64, f64)> = std::iter::once((0.0, 0.0))
            .chain(path(&mut draws, law).into_iter().flatten())
            .collect();
        let valid = problems(&mut draws, valid);
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
        let worth: Vec<f64> = all.iter().map(|(g, t)| population(*g, *t, K)).collect();
        levels.iter().map(|level| worth[choose(*level, &candidates, &means).candidate]).collect()
    };
    mean_of(&(0..seeds).into_par_iter().map(of_seed).collect::<Vec<_>>())
}

/// Distinct solutions of the rule's choice on average over studies of this size with many test problems, level by
/// level, objective by objective, whether it is reached or not: which problems are measured depends on every
/// checkpoint.
fn truth_of_distinct(design: &Design, levels: &[f64], studies: usize) -> Vec<Vec<f64>> {
    let large = Design { test: 500, ..design.clone() };
    let of_study = |index: usize| -> Option<Vec<f64>> {
        let key = 2_000_000 + index as u64;
        let (base, paths) = data(&large, key);
        let field = field(&base, &paths, &request(&large, key)).ok()?;
        let choices = field.choices(levels, &field.valid_means());
        let value = |seeds: &Vec<Vec<Chosen>>, at: usize| {
            let all = seeds.iter().map(|seed| field.test_mean(seed[at].candidate).1);
            all.sum::<f64>() / seeds.len() as f64
        };
        let of = |seeds| (0..levels.len()).map(move |at| value(seeds, at));
        Some(choices.iter().flat_map(of).collect())
    };
    let all: Vec<Vec<f64>> = (0..studies).into_par_iter().filter_map(of_study).collect();
    mean_of(&all).chunks(levels.len()).map(<[f64]>::to_vec).collect()
}

fn mean_of(rows: &[Vec<f64>]) -> Vec<f64> {
    let columns = rows.first().map_or(0, Vec::len);
    let at = |index: usize| rows.iter().map(|row| row[index]).sum::<f64>() / rows.len() as f64;
    (0..columns).map(at).collect()
}

/// The estimand of every objective at these levels: Pass@k from so many seeds, distinct solutions from so many studies.
/// Objectives of one law have one truth, and their difference is exactly 0.
pub(super) fn truths(
    design: &Design,
    levels: &[f64],
    (seeds, studies): (usize, usize),
) -> Vec<Vec<f64>> {
    let objectives = || 0..design.laws.len();
    let all = match design.measure {
        Measure::Distinct(_) => truth_of_distinct(design, levels, studies),
        Measure::PassAtK(_) => objectives()
            .map(|index| truth_of_pass_at_k(design.law(index), design.valid, levels, seeds))
            .collect(),
    };
    let alike = |index: usize| -> Vec<Vec<f64>> {
        let is_alike = |other: &usize| design.law(*other) == design.law(index);
        objectives().filter(is_alike).map(|other| all[other].clone()).collect()
    };
    objectives().map(|index| mean_of(&alike(index))).collect()
}

impl Design {
    /// Two objectives, three configurations each, at [`LEVELS`].
    pub(super) fn new(laws: &[Law], seeds: usize) -> Self {
        Self {
            laws: laws.to_vec(),
            has_baseline: false,
            seeds,
            valid: VALID,
            test: TEST,
            measure: Measure::PassAtK(K),
            levels: Levels::At(LEVELS.to_vec()),
        }
    }

    fn is_baseline(&self, objective: usize) -> bool {
        self.has_baseline && objective + 1 == self.laws.len()
    }

    fn law(&self, objective: usize) -> Law {
        let law = self.laws[objective];
        if self.is_baseline(objective) { Law { spread: 0.0, ..law } } else { law }
    }
}

/// How often each of a problem's solutions was sampled: the further by taste, the more often the first.
fn classes(draws: &mut Draws, (_, own): (f64, f64), taste: f64, correct: usize) -> Vec<usize> {
    let there_are = 1 + (11.0 * logistic(own)) as usize;
    let steepness = (0.25 + 0.15 * taste).max(0.0);
    let chances: Vec<f64> = (0..there_are).map(|u| (-steepness * u as f64).exp()).collect();
    let mut classes = vec![0; there_are];
    (0..correct).for_each(|_| classes[draws.pick(&chances)] += 1);
    classes.retain(|count| *count > 0);
    classes
}

/// The data of a study: the base and every path.
pub(super) fn data(design: &Design, key: u64) -> (Checkpoint, Vec<RunPath>) {
    let mut draws = Draws::new(key);
    let (valid, test) = (problems(&mut draws, design.valid), problems(&mut draws, design.test));
    let is_classified = matches!(design.measure, Measure::Distinct(_));
    let point = |draws: &mut Draws, step: usize, at: (f64, f64)| {
        let counts = |draws: &mut Draws, problems: &[(f64, f64)]| -> Vec<ProblemCounts> {
            let mut all: Vec<ProblemCounts> = counts(draws, problems, at)
                .into_iter()
                .map(|correct| ProblemCounts { n: N, correct, classes: Vec::new() })
                .collect();
            for (of, problem) in all.iter_mut().zip(problems).filter(|_| is_classified) {
                of.classes = classes(draws, *problem, at.1, of.correct);
            }
            all
        };
        let (valid, test) = (counts(draws, &valid), counts(draws, &test));
        Checkpoint { step: step as u64, generated_tokens: 100 * step as u64, valid, test }
    };
    let base = point(&mut draws, 0, (0.0, 0.0));
    let mut paths = Vec::new();
    for index in 0..design.laws.len() {
        let is_baseline = design.is_baseline(index);
        for seed in 0..if is_baseline { 1 } else { design.seeds } {
            for (number, points) in path(&mut draws, design.law(index)).into_iter().enumerate() {
                let checkpoints = points.into_iter().enumerate();
                paths.push(RunPath {
                    objective: format!("objective {index}"),
                    configuration: number.to_string(),
                    seed: (!is_baseline).then_some(seed as u64),
                    checkpoints: checkpoints
                        .map(|(step, at)| point(&mut draws, step + 1, at))
                        .collect(),
                });
            }
        }
    }
    (base, paths)
}

/// The request to a simulated study.
pub(super) fn request(design: &Design, key: u64) -> Request {
    Request {
        measure: design.measure,
        levels: design.levels.clone(),
        resamples: 200,
        key,
        ..Request::default()
    }
}

/// A study for tests of tables and pictures: three objectives, three seeds, automatic levels.
pub(crate) fn study_of_three() -> Fronts {
    let design = Design { levels: Levels::Auto, ..Design::new(&[KEEPS, COLLAPSES, KEEPS], 3) };
    let (base, paths) = data(&design, 5);
    fronts(&base, &paths, &request(&design, 5)).unwrap()
}
