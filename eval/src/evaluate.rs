//! Problems, a solver and a verifier to tallies.

use std::collections::HashMap;

use anyhow::Result;
use rayon::prelude::*;
use tealight_datasets::{Dataset, Problem};

use crate::{Keyed, Sample, Solver, Tally};

/// Draws `n` answers to every problem of `dataset`, judges them, and hands the samples of a problem
/// to `sink` as soon as they are there. Problems for which `known` has their samples already are
/// judged again and not drawn. The tallies are in the order of the problems.
///
/// # Errors
/// Whatever the solver or `sink` fails with.
pub fn evaluate(
    dataset: &Dataset,
    solver: &dyn Solver,
    n: usize,
    known: &mut HashMap<String, Vec<Sample>>,
    sink: &mut dyn FnMut(&[Sample]) -> Result<()>,
) -> Result<Vec<Tally>> {
    let mut tallies: Vec<Tally> = dataset.problems.iter().map(Tally::new).collect();
    let mut open: Vec<usize> = Vec::new();
    for (index, problem) in dataset.problems.iter().enumerate() {
        match known.get_mut(&problem.id) {
            Some(samples) => {
                rejudge(dataset, problem, samples);
                samples.iter().for_each(|sample| tallies[index].add(sample));
            }
            None => open.push(index),
        }
    }
    let keyed: Vec<Keyed<'_>> = open
        .iter()
        .map(|index| Keyed { problem: &dataset.problems[*index], key: *index as u64 })
        .collect();
    solver.solve(&keyed, n, &mut |asked, answers| {
        let index = open[asked];
        let problem = &dataset.problems[index];
        let samples: Vec<Sample> = answers
            .into_par_iter()
            .enumerate()
            .map(|(sample, answer)| Sample::judged(dataset, problem, sample, answer))
            .collect();
        samples.iter().for_each(|sample| tallies[index].add(sample));
        sink(&samples)
    })?;
    Ok(tallies)
}

/// Judges stored samples again: the verifier may be another one than when they were drawn.
fn rejudge(dataset: &Dataset, problem: &Problem, samples: &mut [Sample]) {
    samples.par_iter_mut().for_each(|sample| {
        sample.verdict = dataset.verifier.verify(problem, &sample.completion);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, Sink};
    use tealight_datasets::read::Columns;

    /// Answers every problem with its solution, then with nonsense, then cut off, then not at all.
    struct Script;

    impl Solver for Script {
        fn solve(&self, problems: &[Keyed<'_>], n: usize, sink: &mut Sink<'_>) -> Result<()> {
            for (index, asked) in problems.iter().enumerate().rev() {
                let solution = asked.problem.solution.clone().unwrap_or_default();
                let answer = |i: usize| Answer {
                    text: ["", "1+", &solution, &solution][i % 4].into(),
                    is_finished: i % 4 != 2,
                    tokens: 3,
                    logp: Some(-1.0),
                };
                sink(index, (0..n).map(answer).collect())?;
            }
            Ok(())
        }
    }

    #[test]
    fn answers_are_counted_by_what_became_of_them() {
        let dataset = tealight_datasets::open("countdown", &Columns::default(), Some(3)).unwrap();
        let mut seen: HashMap<String, Vec<Sample>> = HashMap::new();
        let tallies = evaluate(&dataset, &Script, 4, &mut HashMap::new(), &mut |samples| {
            seen.insert(samples[0].problem.clone(), samples.to_vec());
            Ok(())
        })
        .unwrap();
        assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 12);
        // What is known is not drawn again, and counts the same.
        let first = dataset.problems[0].id.clone();
        seen.retain(|id, _| *id == first);
        let mut drawn = 0;
        let again = evaluate(&dataset, &Script, 4, &mut seen, &mut |samples| {
            drawn += samples.len();
            Ok(())
        });
        assert_eq!((again.unwrap(), drawn), (tallies.clone(), 8));
        for (tally, problem) in tallies.iter().zip(&dataset.problems) {
            assert_eq!(tally.problem, problem.id);
            assert_eq!((tally.samples, tally.correct, tally.truncated), (4, 1, 1));
            assert_eq!(
                (
                    tally.no_answer,
                    tally.classes.at(crate::Level::Solution).distinct(),
                    tally.tokens
                ),
                (2, 1, 12)
            );
        }
    }
}
