//! Tuning: which configuration of an objective is studied, by one rule that is written before.
//!
//! Of each configuration counts the last checkpoint whose Pass@1, mean over seeds and problems, is at least a
//! threshold. The configuration with the largest measure there is chosen; if none reaches the threshold, the one with
//! the largest Pass@1. Ties go to the smaller learning rate.

use std::cmp::Ordering;

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use super::data::{Answers, Measure, RunPath};

/// What was tried, and what was chosen.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tuning {
    /// The problems that chose.
    pub dataset: String,
    /// Their number.
    pub problems: usize,
    /// The seeds of the runs.
    pub seeds: Vec<u64>,
    /// The measure that is maximised.
    pub measure: Measure,
    /// The least Pass@1 of a checkpoint that is chosen by its measure.
    pub least_pass_at_1: f64,
    /// Every configuration of every objective that has several.
    pub tried: Vec<Tried>,
}

/// One configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tried {
    /// The objective that it is of.
    pub objective: String,
    /// Its name.
    pub configuration: String,
    /// Its learning rate.
    pub learning_rate: f64,
    /// Optimizer steps of the checkpoint that counts: the last at the threshold, or the one with the largest Pass@1.
    pub step: u64,
    /// Pass@1 there, mean over seeds and problems.
    #[serde(rename = "pass@1")]
    pub pass_at_1: f64,
    /// The measure there.
    pub value: f64,
    /// Whether it is studied.
    pub is_chosen: bool,
}

impl Tuning {
    /// The choice by runs, each with its learning rate, on the problems of `dataset`: the measure is maximised among
    /// checkpoints of at least this Pass@1.
    ///
    /// # Errors
    /// A run without checkpoints, a checkpoint without scores.
    pub fn new(
        dataset: &str,
        (measure, least): (Measure, f64),
        runs: &[(RunPath, f64)],
    ) -> Result<Self> {
        let mut tried: Vec<Tried> = Vec::new();
        let mut seeds: Vec<u64> = runs.iter().filter_map(|(run, _)| run.seed).collect();
        seeds.sort_unstable();
        seeds.dedup();
        for (run, rate) in runs {
            if tried.iter().any(|known| known.configuration == run.configuration) {
                continue;
            }
            let own = runs.iter().map(|(other, _)| other);
            let own: Vec<&RunPath> =
                own.filter(|other| other.configuration == run.configuration).collect();
            let points = means(&own, measure)?;
            let counts = points.iter().rfind(|point| point.1 >= least);
            let counts = counts.or(points.iter().max_by(|a, b| a.1.total_cmp(&b.1)));
            let (step, pass_at_1, value) = *counts.expect("`means` refuses runs without points");
            tried.push(Tried {
                objective: run.objective.clone(),
                configuration: run.configuration.clone(),
                learning_rate: *rate,
                step,
                pass_at_1,
                value,
                is_chosen: false,
            });
        }
        let better = |a: &Tried, b: &Tried| -> Ordering {
            let [x, y] = [a, b].map(|one| one.pass_at_1 >= least);
            let of_equals = match x {
                true => a.value.total_cmp(&b.value),
                false => a.pass_at_1.total_cmp(&b.pass_at_1),
            };
            x.cmp(&y).then(of_equals).then(b.learning_rate.total_cmp(&a.learning_rate))
        };
        for place in 0..tried.len() {
            let others = tried.iter().enumerate();
            let mut others = others.filter(|(_, one)| one.objective == tried[place].objective);
            tried[place].is_chosen = others
                .all(|(other, one)| better(&tried[place], one).then(other.cmp(&place)).is_ge());
        }
        let problems = runs[0].0.checkpoints[0].problems.len();
        let dataset = dataset.to_owned();
        Ok(Self { dataset, problems, seeds, measure, least_pass_at_1: least, tried })
    }

    /// Whether the configuration of this name is studied.
    pub fn is_chosen(&self, configuration: &str) -> bool {
        self.tried.iter().any(|one| one.is_chosen && one.configuration == configuration)
    }
}

/// The step, Pass@1 and measure of every checkpoint that all runs of a configuration have, means over runs and
/// problems.
fn means(runs: &[&RunPath], measure: Measure) -> Result<Vec<(u64, f64, f64)>> {
    let count = runs.iter().map(|run| run.checkpoints.len()).min().unwrap_or(0);
    ensure!(count > 0, "tuning needs at least one checkpoint of every run");
    let at = |place: usize| -> Result<(u64, f64, f64)> {
        let all = runs.iter().flat_map(|run| &run.checkpoints[place].problems);
        let scores: Vec<(f64, f64)> =
            all.filter_map(|answers: &Answers| measure.score(answers)).collect();
        ensure!(!scores.is_empty(), "tuning: no problem has enough samples for {measure}");
        let mean = |value: fn(&(f64, f64)) -> f64| {
            scores.iter().map(value).sum::<f64>() / scores.len() as f64
        };
        Ok((runs[0].checkpoints[place].step, mean(|one| one.0), mean(|one| one.1)))
    };
    (0..count).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::curve::Checkpoint;
    use crate::exact::ListedProblem;

    /// A run whose checkpoints have a correct answer of this probability, and another of the second.
    fn run(configuration: &str, seed: u64, points: &[(f64, f64)]) -> RunPath {
        let checkpoint = |(place, (one, other)): (usize, &(f64, f64))| {
            let logp = vec![one.ln(), other.ln()];
            let listed = Answers::Listed(ListedProblem { logp, total: Some(2) });
            Checkpoint { step: 25 * (place as u64 + 1), problems: vec![listed; 2] }
        };
        RunPath {
            objective: "grpo".into(),
            configuration: configuration.into(),
            seed: Some(seed),
            is_baseline: false,
            beta: None,
            checkpoints: points.iter().enumerate().map(checkpoint).collect(),
        }
    }

    fn chosen(least: f64, runs: &[(RunPath, f64)]) -> (String, u64) {
        let found = Tuning::new("valid", (Measure::Distinct(32), least), runs).unwrap();
        let all: Vec<&Tried> = found.tried.iter().filter(|one| one.is_chosen).collect();
        assert_eq!(all.len(), 1, "one of an objective: {all:?}");
        assert!(found.is_chosen(&all[0].configuration));
        (all[0].configuration.clone(), all[0].step)
    }

    #[test]
    fn the_most_answers_at_the_threshold_are_chosen_then_accuracy_then_the_smaller_rate() {
        let sharp = |seed| (run("sharp", seed, &[(0.5, 0.1), (0.8, 1e-4)]), 2e-4);
        let broad = |seed| (run("broad", seed, &[(0.3, 0.3), (0.4, 0.3)]), 1e-4);
        let both = [sharp(0), broad(0), sharp(1), broad(1)];
        assert_eq!(chosen(0.5, &both), ("broad".into(), 50));
        // Its end is the last checkpoint that reaches the threshold; the other does not reach it.
        assert_eq!(chosen(0.75, &both), ("sharp".into(), 50));
        // Nothing does: accuracy decides.
        assert_eq!(chosen(0.9, &both), ("sharp".into(), 50));
        // One that falls below the threshold again counts where it was last above.
        let falls = (run("falls", 0, &[(0.3, 0.3), (0.2, 0.2)]), 1e-5);
        assert_eq!(chosen(0.5, &[sharp(0), falls]), ("falls".into(), 25));
        // The mean over seeds counts, and of equal ones the smaller rate.
        let [worse, better] = [0.02, 0.4].map(|other| run("uneven", 7, &[(0.5, other)]));
        let even = |name: &str, rate| (run(name, 7, &[(0.5, 0.4)]), rate);
        let uneven = [(worse, 1e-5), (better, 1e-5)];
        let all = [uneven.to_vec(), vec![even("fast", 3e-4), even("slow", 1e-4)]].concat();
        assert_eq!(chosen(0.5, &all), ("slow".into(), 25));
    }
}
