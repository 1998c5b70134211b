//! Simulated studies whose curves are known: problems of a beta-like difficulty, each of whose log-odds of a correct
//! answer
//! rises along training and spreads as answers are lost.
//!
//! Problem p has the chance q of a correct sample, at the base from Beta(2, 6): Pass@1 .25 and Pass@8 .80, as
//! `colouring`
//! has. At the share t of a run its log-odds are `logit q + gain t + collapse t w`, w being standard normal and partly
//! the run's own: without collapse Pass@8 rises with Pass@1; with it some problems become sure and others are lost.
//! Seeds differ in how fast they gain, in how much they collapse, and by noise at each checkpoint.

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
    /// Evaluated checkpoints.
    pub(super) checkpoints: usize,
}

/// Raises Pass@1 to .39 and Pass@8 to .87.
pub(super) const KEEPS: Objective = Objective { gain: 0.7, collapse: 0.8, checkpoints: 4 };
/// Raises Pass@1 to .37 and lowers Pass@8 to .72.
pub(super) const COLLAPSES: Objective = Objective { gain: 0.42, collapse: 2.6, checkpoints: 4 };

/// A study.
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
}

impl Default for Study {
    /// Three seeds whose curves spread by .01 to .02 in Pass@8, and 80 problems.
    fn default() -> Self {
        Self { seeds: 3, problems: 80, samples: 0, seed_spread: 0.4, common: 0.5 }
    }
}

impl Study {
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
        let base = hardness.iter().map(|odds| self.answers(&mut draws, *odds)).collect();
        let mut paths = Vec::new();
        for (name, objective) in objectives {
            for seed in 0..self.seeds {
                let checkpoints = self.run(&mut draws, objective, (&hardness, &common));
                paths.push(RunPath {
                    objective: (*name).to_owned(),
                    configuration: (*name).to_owned(),
                    seed: Some(seed as u64),
                    is_baseline: false,
                    checkpoints,
                });
            }
        }
        (base, paths)
    }

    fn run(
        &self,
        draws: &mut Draws,
        objective: &Objective,
        (hardness, common): (&[f64], &[f64]),
    ) -> Vec<Checkpoint> {
        let speed = 1.0 + 0.15 * draws.normal();
        let collapse = objective.collapse + self.seed_spread * draws.normal();
        let own: Vec<f64> = (0..self.problems).map(|_| draws.normal()).collect();
        let (shared, rest) = (self.common.sqrt(), (1.0 - self.common).sqrt());
        let checkpoint = |step: usize| {
            let t = step as f64 / objective.checkpoints as f64;
            let shift = objective.gain * t * speed + 0.03 * draws.normal() * t.min(objective.gain);
            let answers = |(odds, (a, b)): (&f64, (&f64, &f64))| {
                let spread = (collapse * t).max(0.0) * (shared * a + rest * b);
                self.answers(draws, odds + shift + spread)
            };
            let problems = hardness.iter().zip(common.iter().zip(&own)).map(answers).collect();
            Checkpoint { step: step as u64, problems, colder: Vec::new() }
        };
        (1..=objective.checkpoints).map(checkpoint).collect()
    }

    fn answers(&self, draws: &mut Draws, odds: f64) -> Answers {
        let q = 1.0 / (1.0 + (-odds).exp());
        match self.samples {
            0 => Answers::Listed(ListedProblem { logp: vec![q.ln()], total: Some(1) }),
            n => {
                let correct = draws.binomial(n, q);
                Answers::Sampled(ProblemCounts { n, correct, classes: vec![correct] })
            }
        }
    }
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
