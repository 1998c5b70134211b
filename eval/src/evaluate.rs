//! Problems, a solver and a verifier to tallies.

use anyhow::Result;
use tealight_datasets::Dataset;

use crate::{Sample, Solver, Tally};

/// Draws `n` answers to every problem of `dataset`, judges them, and hands the samples of a problem
/// to `sink` as soon as they are there. The tallies are in the order of the problems.
///
/// # Errors
/// Whatever the solver or `sink` fails with.
pub fn evaluate(
    dataset: &Dataset,
    solver: &dyn Solver,
    n: usize,
    sink: &mut dyn FnMut(&[Sample]) -> Result<()>,
) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> =
        dataset.problems.iter().map(|problem| Tally::new(&problem.id)).collect();
    solver.solve(&dataset.problems, n, &mut |index, answers| {
        let problem = &dataset.problems[index];
        let samples: Vec<Sample> = answers
            .into_iter()
            .enumerate()
            .map(|(sample, answer)| Sample::judged(dataset, problem, sample, answer))
            .collect();
        samples.iter().for_each(|sample| tallies[index].add(sample));
        sink(&samples)
    })?;
    Ok(tallies)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Sink};
    use tealight_datasets::{Problem, read::Columns};

    /// Answers every problem with its solution, then with nonsense, then cut off, then not at all.
    struct Script;

    impl Solver for Script {
        fn solve(&self, problems: &[Problem], n: usize, sink: &mut Sink<'_>) -> Result<()> {
            for (index, problem) in problems.iter().enumerate().rev() {
                let solution = problem.solution.clone().unwrap_or_default();
                let answer = |i: usize| Answer {
                    text: ["", "1+", &solution, &solution][i % 4].into(),
                    is_finished: i % 4 != 2,
                    tokens: 3,
                    logp: -1.0,
                };
                sink(index, (0..n).map(answer).collect())?;
            }
            Ok(())
        }
    }

    #[test]
    fn answers_are_counted_by_what_became_of_them() {
        let dataset = tealight_datasets::open("countdown", &Columns::default(), Some(3)).unwrap();
        let mut seen = 0;
        let tallies = evaluate(&dataset, &Script, 4, &mut |samples| {
            seen += samples.len();
            Ok(())
        })
        .unwrap();
        assert_eq!(seen, 12);
        for (tally, problem) in tallies.iter().zip(&dataset.problems) {
            assert_eq!(tally.problem, problem.id);
            assert_eq!((tally.samples, tally.correct, tally.truncated), (4, 1, 1));
            assert_eq!(
                (tally.no_answer, tally.classes.at(crate::Level::Solution).len(), tally.tokens),
                (2, 1, 12)
            );
        }
    }
}
