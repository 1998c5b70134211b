//! Problems, a solver and a verifier to tallies.

use std::collections::HashMap;

use anyhow::Result;
use rayon::prelude::*;
use tealight_datasets::{Dataset, Problem};

use crate::{Keyed, Sample, Solver, Tally};

/// The judged answers to the problem at a place of the dataset.
pub type Drawn = (usize, Vec<Sample>);
/// Receives what was drawn, a problem at a time.
pub type DrawnSink<'a> = dyn FnMut(Drawn) -> Result<()> + 'a;
/// Draws and judges answers to the problems at some places.
pub type DrawPart<'a> = dyn FnMut(&[usize], &mut DrawnSink<'_>) -> Result<()> + 'a;

/// Who draws: this process, or several that divide the problems.
pub trait Team {
    /// Has every member draw its part of `places`, and hands all that they drew to `sink`, on each of them.
    ///
    /// # Errors
    /// Whatever `draw` or `sink` fails with.
    fn divide(
        &self,
        places: &[usize],
        draw: &mut DrawPart<'_>,
        sink: &mut DrawnSink<'_>,
    ) -> Result<()>;
}

/// One process.
pub struct Alone;

impl Team for Alone {
    fn divide(
        &self,
        places: &[usize],
        draw: &mut DrawPart<'_>,
        sink: &mut DrawnSink<'_>,
    ) -> Result<()> {
        draw(places, sink)
    }
}

/// Draws `n` answers to every problem of `dataset`, judges them, and hands the samples of a problem
/// to `sink` as soon as they are there. Samples that `known` has already, the first so many of a problem, are
/// judged again and not drawn; at the end it has all. The tallies are in the order of the problems.
///
/// # Errors
/// Whatever the solver or `sink` fails with.
pub fn evaluate(
    dataset: &Dataset,
    (solver, team): (&dyn Solver, &dyn Team),
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
    let counts: Vec<usize> =
        dataset.problems.iter().map(|problem| known[&problem.id].len()).collect();
    let mut draw = |places: &[usize], sink: &mut DrawnSink<'_>| {
        let keyed = |place: &usize| {
            let (place, problem) = (*place, &dataset.problems[*place]);
            Keyed { problem, key: place as u64, known: counts[place] }
        };
        let keyed: Vec<Keyed<'_>> = places.iter().map(keyed).collect();
        solver.solve(&keyed, n, &mut |asked, answers| {
            let Keyed { problem, known, .. } = keyed[asked];
            let samples = answers
                .into_par_iter()
                .enumerate()
                .map(|(sample, answer)| Sample::judged(dataset, problem, known + sample, answer))
                .collect();
            sink((places[asked], samples))
        })
    };
    team.divide(&open, &mut draw, &mut |(place, samples)| {
        samples.iter().for_each(|sample| tallies[place].add(sample));
        sink(&samples)?;
        known.entry(dataset.problems[place].id.clone()).or_default().extend(samples);
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
        let tallies =
            evaluate(&dataset, (&Script, &Alone), 4, &mut HashMap::new(), &mut |samples| {
                seen.insert(samples[0].problem.clone(), samples.to_vec());
                Ok(())
            })
            .unwrap();
        assert_eq!(seen.values().map(Vec::len).sum::<usize>(), 12);
        // What is known is not drawn again, and counts the same.
        let first = dataset.problems[0].id.clone();
        seen.retain(|id, _| *id == first);
        let mut drawn = 0;
        let again = evaluate(&dataset, (&Script, &Alone), 4, &mut seen, &mut |samples| {
            drawn += samples.len();
            Ok(())
        });
        assert_eq!((again.unwrap(), drawn), (tallies.clone(), 8));
        // Of a part, the rest is drawn; of more than is asked for, the first are taken.
        for samples in seen.values_mut() {
            samples.truncate(3);
        }
        let mut numbers = Vec::new();
        let again = evaluate(&dataset, (&Script, &Alone), 4, &mut seen, &mut |samples| {
            numbers.extend(samples.iter().map(|sample| sample.sample));
            Ok(())
        });
        assert_eq!((again.unwrap(), numbers), (tallies.clone(), vec![3, 3, 3]));
        let fewer = evaluate(&dataset, (&Script, &Alone), 2, &mut seen, &mut |_| {
            panic!("nothing is drawn")
        });
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
