//! Sampling until valid (GUARD, arXiv 2410.06716): what a model gives when incorrect answers are thrown
//! away, and how often that happens.
//!
//! With `g'` the model given that it is correct and AR its acceptance rate,
//! `KL(p* || model) = KL(p* || g') - log AR`: one number measures both fidelity and cost.

use anyhow::Result;
use serde::{Deserialize, Serialize};
use tealight_datasets::Dataset;

use crate::{Classes, ProblemRequest, Sample, Solver, Tally};

/// The result of rejection sampling on one problem.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rejected {
    /// The problem's id.
    pub problem: String,
    /// Correct answers kept, at most as many as wanted.
    pub accepted: usize,
    /// Answers sampled until then.
    #[serde(rename = "drawn")]
    pub num_samples: usize,
    /// Estimate of the chance that an answer is correct: `(n - 1) / (num_samples - 1)` where the wanted n
    /// were found (unbiased for a count that stops at the n-th), else `accepted / num_samples`.
    pub acceptance_rate: f64,
    /// How often each distinct correct answer was kept.
    pub classes: Classes,
}

/// Sampling until every problem has as many correct answers as are wanted.
pub struct RejectionJob<'a> {
    /// The problems and their verifier.
    pub dataset: &'a Dataset,
    /// Correct answers wanted of each problem.
    pub wanted: usize,
    /// Most rounds, each of `wanted` answers to every problem that still lacks some.
    pub rounds: usize,
    /// The solver of a round, counted from 0; rounds need random numbers of their own.
    pub solver: &'a dyn Fn(usize) -> Result<Box<dyn Solver + 'a>>,
}

impl RejectionJob<'_> {
    /// Samples, and hands each correct answer that is kept to `accept`.
    pub fn run(&self, accept: &mut dyn FnMut(&Sample) -> Result<()>) -> Result<Vec<Rejected>> {
        let Self { dataset, wanted, .. } = *self;
        let mut tallies: Vec<Tally> = dataset.problems.iter().map(Tally::new).collect();
        for round in 0..self.rounds {
            let open: Vec<usize> =
                (0..tallies.len()).filter(|index| tallies[*index].correct < wanted).collect();
            if open.is_empty() {
                break;
            }
            let request = |index: &usize| ProblemRequest {
                problem: &dataset.problems[*index],
                key: *index as u64,
                known: 0,
            };
            let requests: Vec<ProblemRequest<'_>> = open.iter().map(request).collect();
            (self.solver)(round)?.solve(&requests, wanted, &mut |place, answers| {
                let tally = &mut tallies[open[place]];
                for answer in answers {
                    if tally.correct == wanted {
                        break;
                    }
                    let problem = requests[place].problem;
                    let sample = Sample::judged(problem, &*dataset.verifier, tally.samples, answer);
                    tally.add(&sample);
                    if sample.is_correct() {
                        accept(&sample)?;
                    }
                }
                Ok(())
            })?;
        }
        Ok(tallies.into_iter().map(|tally| Rejected::from_tally(tally, wanted)).collect())
    }
}

impl Rejected {
    /// The logarithm of the chance that an answer is correct, without bias where the wanted n were found: `n` correct
    /// answers among `num_samples` give `-(1/n + ... + 1/(num_samples - 1))`. `None` where no answer was correct.
    pub fn log_acceptance_rate(&self) -> Option<f64> {
        // N of the n-th success is negative binomial: E[1/n + .. + 1/(N - 1)] = -log p.
        let terms = (self.accepted..self.num_samples).map(|i| 1.0 / i as f64);
        (self.accepted > 0).then(|| -terms.sum::<f64>())
    }

    fn from_tally(tally: Tally, wanted: usize) -> Self {
        let (accepted, num_samples) = (tally.correct as f64, tally.samples as f64);
        // n / N is too high where sampling stops at a success.
        let acceptance_rate = if tally.correct == wanted && wanted > 1 {
            (accepted - 1.0) / (num_samples - 1.0)
        } else {
            accepted / num_samples
        };
        Self {
            problem: tally.problem,
            accepted: tally.correct,
            num_samples: tally.samples,
            acceptance_rate,
            classes: tally.classes,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;
    use crate::{Answer, AnswerSink};
    use tealight_datasets::read::Columns;

    #[test]
    fn log_acceptance_rate_is_unbiased() {
        let mut draws = crate::simulated::Draws::new(2);
        for (p, wanted) in [(0.3, 4), (0.8, 2), (0.1, 1)] {
            let runs = 40_000;
            let mut sum = 0.0;
            for _ in 0..runs {
                let (mut accepted, mut num_samples) = (0, 0);
                while accepted < wanted {
                    num_samples += 1;
                    accepted += usize::from(draws.uniform() < p);
                }
                let rejected = Rejected {
                    problem: String::new(),
                    accepted,
                    num_samples,
                    acceptance_rate: 0.0,
                    classes: Classes::default(),
                };
                sum += rejected.log_acceptance_rate().unwrap();
            }
            let mean = sum / f64::from(runs);
            assert!((mean - f64::ln(p)).abs() < 0.02, "{p}, {wanted}: {mean}");
        }
    }

    /// Answers the first problem correctly every third time, others never.
    struct EveryThird<'a> {
        first: &'a str,
        num_samples: &'a Cell<usize>,
        calls: &'a RefCell<Vec<(usize, usize)>>,
        round: usize,
    }

    impl Solver for EveryThird<'_> {
        fn solve(
            &self,
            problems: &[ProblemRequest<'_>],
            n: usize,
            sink: &mut AnswerSink<'_>,
        ) -> Result<()> {
            self.calls.borrow_mut().push((self.round, problems.len()));
            for (index, request) in problems.iter().enumerate() {
                let problem = request.problem;
                let answer = |_| {
                    self.num_samples.set(self.num_samples.get() + 1);
                    let is_correct =
                        problem.id == self.first && self.num_samples.get().is_multiple_of(3);
                    let text = match is_correct {
                        true => problem.solution.clone().unwrap(),
                        false => "1".into(),
                    };
                    let logp = Some(-1.0);
                    Answer { text, is_finished: true, tokens: 1, logp, ..Answer::default() }
                };
                sink(index, (0..n).map(answer).collect())?;
            }
            Ok(())
        }
    }

    #[test]
    fn rejection_stops_at_the_wanted_count_and_counts_samples() {
        let dataset = tealight_datasets::open("countdown", &Columns::default(), Some(2)).unwrap();
        let (num_samples, calls) = (Cell::new(0), RefCell::new(Vec::new()));
        let first = dataset.problems[0].id.as_str();
        let solver = |round| -> Result<Box<dyn Solver + '_>> {
            Ok(Box::new(EveryThird { first, num_samples: &num_samples, calls: &calls, round }))
        };
        let job = RejectionJob { dataset: &dataset, wanted: 4, rounds: 5, solver: &solver };
        let accept = &mut |sample: &Sample| {
            assert!(sample.verdict.is_correct());
            Ok(())
        };
        let rejected = job.run(accept).unwrap();
        assert_eq!((rejected[0].accepted, rejected[1].accepted), (4, 0));
        assert_eq!(rejected[1].num_samples, 20);
        assert!(rejected[0].num_samples < 20 && rejected[1].acceptance_rate == 0.0);
        let exact = 3.0 / (rejected[0].num_samples as f64 - 1.0);
        assert_eq!(rejected[0].acceptance_rate, exact);
        let calls = calls.borrow();
        assert_eq!((calls[0], calls.last()), ((0, 2), Some(&(4, 1))));
    }
}
