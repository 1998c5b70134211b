//! Simulated studies whose curves are known: problems of a beta-like difficulty, each of whose log-odds of a correct
//! answer rises along training and spreads as answers are lost.
//!
//! Problem p has the chance q of a correct sample, at the base from Beta(2, 6): Pass@1 .25 and Pass@8 .80, as
//! `colouring` has. At the share t of a run its log-odds are `logit q + gain t + collapse t w`, w being standard normal
//! and partly the run's own: without collapse Pass@8 rises with Pass@1; with it some problems become sure and others
//! are lost. Seeds differ in how fast they gain, in how much they collapse, and by noise at each checkpoint.
//!
//! A study of distinct answers has several solutions of each problem, which share q by weights `e^(normal)`. At the
//! share t of a run their logarithms have moved apart by `narrowing t` times a standard normal of each, drawn like w:
//! as many correct samples, of fewer solutions.

use super::data::{Answers, Checkpoint, Measure, ProblemCounts, Request, RunPath};
use super::result::Curves;
use crate::exact::ListedProblem;
use crate::simulated::Draws;

/// How an objective changes the base over a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Objective {
    /// Rise of the log-odds.
    pub(super) gain: f64,
    /// Their spread at the end.
    pub(super) collapse: f64,
    /// Standard deviation of what the weights of a problem's solutions have moved apart at the end.
    pub(super) narrowing: f64,
    /// Number of evaluated checkpoints.
    pub(super) checkpoints: usize,
}

/// Raises Pass@1 to .39 and Pass@8 to .87.
pub(super) const KEEPS: Objective =
    Objective { gain: 0.7, collapse: 0.8, narrowing: 0.5, checkpoints: 4 };
/// Raises Pass@1 to .37 and lowers Pass@8 to .72.
pub(super) const COLLAPSES: Objective =
    Objective { gain: 0.42, collapse: 2.6, narrowing: 2.0, checkpoints: 4 };

/// Size and randomness of a simulated study.
#[derive(Debug, Clone, Copy)]
pub(super) struct Study {
    pub(super) seeds: usize,
    pub(super) problems: usize,
    /// Samples of a problem; 0 for exact probabilities.
    pub(super) samples: usize,
    /// Standard deviation over seeds of the collapse at the end.
    pub(super) seed_spread: f64,
    /// Share of the variance of w that all runs have in common.
    pub(super) common: f64,
    /// Distinct solutions of each problem.
    pub(super) solutions: usize,
}

impl Default for Study {
    /// Three seeds whose curves spread by .01 to .02 in Pass@8, and 80 problems.
    fn default() -> Self {
        Self { seeds: 3, problems: 80, samples: 0, seed_spread: 0.4, common: 0.5, solutions: 1 }
    }
}

impl Study {
    /// What is compared: Pass@8, or distinct answers where problems have several solutions.
    pub(super) fn measure(&self) -> Measure {
        if self.solutions > 1 { Measure::Distinct(32) } else { Measure::PassAtK(8) }
    }

    /// The base and all runs, by random numbers of this key.
    pub(super) fn draw(
        &self,
        objectives: &[(&str, Objective)],
        key: u64,
    ) -> (Vec<Answers>, Vec<RunPath>) {
        let mut draws = Draws::new(key);
        let logit = |q: f64| (q / (1.0 - q)).ln();
        let hardness: Vec<f64> = (0..self.problems).map(|_| logit(beta_2_6(&mut draws))).collect();
        let common: Vec<f64> = (0..self.problems).map(|_| draws.normal()).collect();
        let parts = Parts { weights: self.normals(&mut draws), common: self.normals(&mut draws) };
        let world = World { hardness, common, parts };
        let untrained =
            |(odds, weights): (&f64, &Vec<f64>)| self.answers(&mut draws, *odds, weights);
        let base = world.hardness.iter().zip(&world.parts.weights).map(untrained).collect();
        let mut paths = Vec::new();
        for (name, objective) in objectives {
            for seed in 0..self.seeds {
                let checkpoints = self.run(&mut draws, objective, &world);
                paths.push(RunPath {
                    objective: (*name).to_owned(),
                    configuration: (*name).to_owned(),
                    seed: Some(seed as u64),
                    is_baseline: false,
                    beta: None,
                    checkpoints,
                });
            }
        }
        (base, paths)
    }

    /// A standard normal of each solution of each problem; nothing where no problem has two.
    fn normals(&self, draws: &mut Draws) -> Vec<Vec<f64>> {
        let of_each = if self.solutions > 1 { self.solutions } else { 0 };
        (0..self.problems).map(|_| (0..of_each).map(|_| draws.normal()).collect()).collect()
    }

    fn run(&self, draws: &mut Draws, objective: &Objective, world: &World) -> Vec<Checkpoint> {
        let speed = 1.0 + 0.15 * draws.normal();
        let by_seed = self.seed_spread * draws.normal();
        let own: Vec<f64> = (0..self.problems).map(|_| draws.normal()).collect();
        let own_parts = self.normals(draws);
        let (shared, rest) = (self.common.sqrt(), (1.0 - self.common).sqrt());
        let checkpoint = |step: usize| {
            let t = step as f64 / objective.checkpoints as f64;
            let shift = objective.gain * t * speed + 0.03 * draws.normal() * t.min(objective.gain);
            let spread = ((objective.collapse + by_seed) * t).max(0.0);
            let narrowing = ((objective.narrowing + by_seed) * t).max(0.0);
            let answers = |p: usize| {
                let odds =
                    world.hardness[p] + shift + spread * (shared * world.common[p] + rest * own[p]);
                let weight = |j: usize| {
                    let apart = shared * world.parts.common[p][j] + rest * own_parts[p][j];
                    world.parts.weights[p][j] + narrowing * apart
                };
                let weights: Vec<f64> = (0..own_parts[p].len()).map(weight).collect();
                self.answers(draws, odds, &weights)
            };
            let problems = (0..self.problems).map(answers).collect();
            Checkpoint { step: step as u64, problems }
        };
        (1..=objective.checkpoints).map(checkpoint).collect()
    }

    /// Of a problem whose solutions have the weights `e^weights`.
    fn answers(&self, draws: &mut Draws, odds: f64, weights: &[f64]) -> Answers {
        let q = 1.0 / (1.0 + (-odds).exp());
        let all: f64 = weights.iter().map(|weight| weight.exp()).sum();
        let shares: Vec<f64> = match weights {
            [] => vec![1.0],
            _ => weights.iter().map(|weight| weight.exp() / all).collect(),
        };
        match self.samples {
            0 => {
                let logp: Vec<f64> = shares.iter().map(|share| (q * share).ln()).collect();
                Answers::Listed(ListedProblem { total: Some(logp.len() as u64), logp })
            }
            n => {
                let correct = draws.binomial(n, q);
                let mut classes = vec![0; shares.len()];
                match &mut classes[..] {
                    [only] => *only = correct,
                    many => (0..correct).for_each(|_| many[draws.pick(&shares)] += 1),
                }
                Answers::Sampled(ProblemCounts { n, correct, classes })
            }
        }
    }
}

/// What all runs of a study have in common.
struct World {
    /// Log-odds of a correct sample of the base.
    hardness: Vec<f64>,
    /// The common part of w.
    common: Vec<f64>,
    parts: Parts,
}

/// Solutions, by problem: their log-weights under the base, and the common part of how they move apart.
struct Parts {
    weights: Vec<Vec<f64>>,
    common: Vec<Vec<f64>>,
}

/// A draw from Beta(2, 6): the second smallest of seven uniform numbers.
fn beta_2_6(draws: &mut Draws) -> f64 {
    let mut all: Vec<f64> = (0..7).map(|_| draws.uniform()).collect();
    all.sort_by(f64::total_cmp);
    all[1]
}

/// A reference that collapses, one objective that does not, and another that does, five seeds each.
pub(crate) fn study_of_three() -> Curves {
    let objectives = [("grpo", COLLAPSES), ("js", KEEPS), ("dapo", COLLAPSES)];
    let (base, paths) = Study { seeds: 5, ..Study::default() }.draw(&objectives, 3);
    let request = Request { is_exact: true, ..Request::new(Measure::PassAtK(8)) };
    super::curves(&base, &paths, &request).expect("a study")
}
