//! Problems, a solver and a verifier to tallies.

use std::collections::HashMap;

use anyhow::Result;
use rayon::prelude::*;
use tealight_datasets::{Dataset, Problem};

use crate::{Keyed, Sample, Solver, Tally};

/// Draws `n` answers to every problem of `dataset`, judges them, and hands the samples of a problem
/// to `sink` as soon as they are there. Samples that `known` has already, the first so many of a problem, are
/// judged again and not drawn; at the end it has all. The tallies are in the order of the problems.
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
        let samples = known.entry(problem.id.clone()).or_default();
        samples.truncate(n);
        rejudge(dataset, problem, samples);
        samples.iter().for_each(|sample| tallies[index].add(sample));
        if samples.len() < n {
            open.push(index);
        }
    }
    let keyed: Vec<Keyed<'_>> = open
        .iter()
        .map(|index| {
            let problem = &dataset.problems[*index];
            Keyed { problem, key: *index as u64, known: known[&problem.id].len() }
        })
        .collect();
    solver.solve(&keyed, n, &mut |asked, answers| {
        let index = open[asked];
        let problem = &dataset.problems[index];
        let first = keyed[asked].known;
        let samples: Vec<Sample> = answers
            .into_par_iter()
            .enumerate()
            .map(|(sample, answer)| Sample::judged(dataset, problem, first + sample, answer))
            .collect();
        samples.iter().for_each(|sample| tallies[index].add(sample));
        sink(&samples)?;
        known.entry(problem.id.clone()).or_default().extend(samples);
        Ok(())
    })?;
    Ok(tallies)
}

/// Judges stored samples again: the verifier may be another one than when they were drawn.
fn rejudge(dataset: &Dataset, problem: &Problem, samples: &mut [Sample]) {
    samples.par_iter_mut().filter(|sample| sample.failure.is_none()).for_each(|sample| {
        sample.judge_again(problem, &*dataset.verifier);
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Answer, AnswerSink};
    use tealight_datasets::read::Columns;

    /// Answers every problem with its solution, then with nonsense, then cut off, then not at all.
    struct Script;

    impl Solver for Script {
        fn solve(&self, problems: &[Keyed<'_>], n: usize, sink: &mut AnswerSink<'_>) -> Result<()> {
            for (index, asked) in problems.iter().enumerate().rev() {
                let solution = asked.problem.solution.clone().unwrap_or_default();
                let answer = |i: usize| Answer {
                    text: ["", "1+", &solution, &solution][i % 4].into(),
                    is_finished: i % 4 != 2,
                    tokens: 3,
                    logp: Some(-1.0),
                    ..Answer::default()
                };
                sink(index, (asked.known..n).map(answer).collect())?;
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
        // Of a part, the rest is drawn; of more than is asked for, the first are taken.
        for samples in seen.values_mut() {
            samples.truncate(3);
        }
        let mut numbers = Vec::new();
        let again = evaluate(&dataset, &Script, 4, &mut seen, &mut |samples| {
            numbers.extend(samples.iter().map(|sample| sample.sample));
            Ok(())
        });
        assert_eq!((again.unwrap(), numbers), (tallies.clone(), vec![3, 3, 3]));
        let fewer = evaluate(&dataset, &Script, 2, &mut seen, &mut |_| panic!("nothing is drawn"));
        assert!(fewer.unwrap().iter().all(|tally| tally.samples == 2));
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
