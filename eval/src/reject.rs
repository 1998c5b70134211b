//! Sampling until valid (GUARD, arXiv 2410.06716): what a model gives when wrong answers are thrown
//! away, and how often that happens.
//!
//! With `g'` the model given that it is right and AR its acceptance rate,
//! `KL(p* || model) = KL(p* || g') - log AR`: one number prices both fidelity and cost.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;

use crate::{AnswerSink, Classes, Keyed, Sample, Tally};

/// Draws answers to problems: the round, the problems, how many each.
pub type Draw<'a> = dyn FnMut(usize, &[Keyed<'_>], usize, &mut AnswerSink<'_>) -> Result<()> + 'a;

/// What became of one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejected {
    /// The problem's id.
    pub problem: String,
    /// Right answers kept, at most as many as wanted.
    pub accepted: usize,
    /// Answers drawn until then.
    pub drawn: usize,
    /// Estimate of the chance that an answer is right: `(n - 1) / (drawn - 1)` where the wanted n
    /// were found (unbiased for a count that stops at the n-th), else `accepted / drawn`.
    pub acceptance_rate: f64,
    /// How often each distinct right answer was kept.
    pub classes: Classes,
}

/// Draws until every problem has `wanted` right answers, at most `rounds` times `wanted` each. Kept
/// answers go to `sink`.
///
/// # Errors
/// Whatever `draw` or `sink` fails with.
pub fn reject(
    dataset: &Dataset,
    wanted: usize,
    rounds: usize,
    draw: &mut Draw<'_>,
    sink: &mut dyn FnMut(&Sample) -> Result<()>,
) -> Result<Vec<Rejected>> {
    let mut tallies: Vec<Tally> = dataset.problems.iter().map(Tally::new).collect();
    for round in 0..rounds {
        let open: Vec<usize> =
            (0..tallies.len()).filter(|i| tallies[*i].correct < wanted).collect();
        if open.is_empty() {
            break;
        }
        let problems: Vec<Keyed<'_>> = open
            .iter()
            .map(|i| Keyed { problem: &dataset.problems[*i], key: *i as u64, known: 0 })
            .collect();
        draw(round, &problems, wanted, &mut |index, answers| {
            let tally = &mut tallies[open[index]];
            for answer in answers {
                if tally.correct == wanted {
                    break;
                }
                let sample =
                    Sample::judged(dataset, problems[index].problem, tally.samples, answer);
                let before = tally.correct;
                tally.add(&sample);
                if tally.correct > before {
                    sink(&sample)?;
                }
            }
            Ok(())
        })?;
    }
    Ok(tallies.into_iter().map(|tally| Rejected::of(tally, wanted)).collect())
}

impl Rejected {
    /// The logarithm of the chance that an answer is right, without bias where the wanted n were found: `n` right ones
    /// among `drawn` give `-(1/n + ... + 1/(drawn - 1))`. `None` where nothing was right.
    pub fn log_acceptance_rate(&self) -> Option<f64> {
        let terms = (self.accepted..self.drawn).map(|i| 1.0 / i as f64);
        (self.accepted > 0).then(|| -terms.sum::<f64>())
    }

    fn of(tally: Tally, wanted: usize) -> Self {
        let (accepted, drawn) = (tally.correct as f64, tally.samples as f64);
        let acceptance_rate = if tally.correct == wanted && wanted > 1 {
            (accepted - 1.0) / (drawn - 1.0)
        } else {
            accepted / drawn
        };
        Self {
            problem: tally.problem,
            accepted: tally.correct,
            drawn: tally.samples,
            acceptance_rate,
            classes: tally.classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Answer;
    use tealight_datasets::read::Columns;

    #[test]
    fn the_logarithm_of_the_rate_is_without_bias() {
        let mut draws = crate::simulated::Draws::new(2);
        for (p, wanted) in [(0.3, 4), (0.8, 2), (0.1, 1)] {
            let runs = 40_000;
            let mut sum = 0.0;
            for _ in 0..runs {
                let (mut accepted, mut drawn) = (0, 0);
                while accepted < wanted {
                    drawn += 1;
                    accepted += usize::from(draws.uniform() < p);
                }
                let found = Rejected {
                    problem: String::new(),
                    accepted,
                    drawn,
                    acceptance_rate: 0.0,
                    classes: Classes::default(),
                };
                sum += found.log_acceptance_rate().unwrap();
            }
            let mean = sum / f64::from(runs);
            assert!((mean - f64::ln(p)).abs() < 0.02, "{p}, {wanted}: {mean}");
        }
    }

    #[test]
    fn it_draws_until_there_are_enough_and_counts_what_that_took() {
        let dataset = tealight_datasets::open("countdown", &Columns::default(), Some(2)).unwrap();
        let mut calls = Vec::new();
        // Problem 0 is right every third time, problem 1 never.
        let mut number = 0;
        let rejected = reject(
            &dataset,
            4,
            5,
            &mut |round, problems, count, sink| {
                calls.push((round, problems.len()));
                for (index, asked) in problems.iter().enumerate() {
                    let problem = asked.problem;
                    let answers = (0..count).map(|_| {
                        number += 1;
                        let is_right = problem.id == dataset.problems[0].id && number % 3 == 0;
                        let text =
                            if is_right { problem.solution.clone().unwrap() } else { "1".into() };
                        Answer {
                            text,
                            is_finished: true,
                            tokens: 1,
                            logp: Some(-1.0),
                            ..Answer::default()
                        }
                    });
                    let answers = answers.collect();
                    sink(index, answers)?;
                }
                Ok(())
            },
            &mut |sample| {
                assert!(sample.verdict.is_correct());
                Ok(())
            },
        )
        .unwrap();
        assert_eq!((rejected[0].accepted, rejected[1].accepted), (4, 0));
        assert_eq!(rejected[1].drawn, 20);
        assert!(rejected[0].drawn < 20 && rejected[1].acceptance_rate == 0.0);
        let exact = 3.0 / (rejected[0].drawn as f64 - 1.0);
        assert_eq!(rejected[0].acceptance_rate, exact);
        assert_eq!(calls[0], (0, 2));
        assert_eq!(calls.last().unwrap(), &(4, 1));
    }
}
