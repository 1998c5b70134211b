//! One evaluation: problems, a solver and a judge to tallies.
//!
//! [`EvalJob::run`] is the whole path of a sample: the solver draws the answers to a problem, the judge verifies them,
//! the ranks hand them to every process, and each process adds them to the problem's [`Tally`] and to the
//! [`SampleStore`]. Whoever samples, a model in this process or a server, is a [`Solver`] and nothing else.

use anyhow::Result;
use rayon::prelude::*;
use tealight_core::ranks::{Ranks, Sink};
use tealight_datasets::{Dataset, Problem, Verifier};

use crate::rules::Rules;
use crate::store::SampleStore;
use crate::{Completion, ProblemRequest, Sample, Solver, Tally};

/// One evaluation. Samples that the store holds already, the first `n` of a problem, are judged again and not drawn.
///
/// ```
/// use tealight_datasets::{Problem, Verdict, Verifier, open, read::Columns};
/// use tealight_eval::evaluate::EvalJob;
/// use tealight_eval::{AnswerSink, Completion, ProblemRequest, Solver};
///
/// /// Answers every problem with its own solution.
/// struct Oracle;
///
/// impl Solver for Oracle {
///     fn solve(&self, problems: &[ProblemRequest<'_>], n: usize, sink: &mut AnswerSink<'_>) -> anyhow::Result<()> {
///         for (index, request) in problems.iter().enumerate() {
///             let text = request.problem.solution.clone().unwrap_or_default();
///             let answer = Completion { text, is_finished: true, ..Completion::default() };
///             sink(index, vec![answer; n - request.known])?;
///         }
///         Ok(())
///     }
/// }
///
/// /// Accepts answers without a product.
/// struct NoProduct;
///
/// impl Verifier for NoProduct {
///     fn name(&self) -> &'static str {
///         "no-product"
///     }
///     fn verify(&self, _: &Problem, completion: &str) -> Verdict {
///         if completion.contains('*') { Verdict::wrong() } else { Verdict::correct(completion, completion) }
///     }
/// }
///
/// let dataset = open("countdown/test", &Columns::default(), Some(4))?;
/// let tallies = EvalJob { judge: &NoProduct, ..EvalJob::new(&dataset, 2, &Oracle) }.run()?;
/// assert_eq!((tallies.len(), tallies[0].samples), (4, 2));
/// # anyhow::Ok(())
/// ```
pub struct EvalJob<'a> {
    /// The problems, in the order of the tallies.
    pub problems: &'a [Problem],
    /// Samples of each problem.
    pub n: usize,
    /// Draws the answers.
    pub solver: &'a dyn Solver,
    /// Verifies the answers.
    pub judge: &'a dyn Verifier,
    /// What completions without an answer count as.
    pub rules: Rules,
    /// The processes that divide the problems among them.
    pub ranks: &'a Ranks,
    /// The samples of earlier calls, and the file that new samples go to.
    pub store: SampleStore,
    /// Is told of every problem whose samples are complete, and may end the evaluation.
    pub progress: Box<dyn EvalProgress + 'a>,
}

/// Follows an evaluation; an error ends it, and the store keeps the samples so far.
pub trait EvalProgress {
    /// Samples are missing for this number of `problems`; those of `known` ones are there.
    ///
    /// # Errors
    /// The reason to end the evaluation.
    fn begin(&mut self, _known: usize, _problems: usize) -> Result<()> {
        Ok(())
    }

    /// The missing samples of one more problem are there.
    ///
    /// # Errors
    /// The reason to end the evaluation.
    fn advance(&mut self, _samples: &[Sample]) -> Result<()> {
        Ok(())
    }
}

/// Follows nothing.
pub struct Silent;

impl EvalProgress for Silent {}

/// The answers to a request as samples.
fn judged(
    judge: &dyn Verifier,
    rules: Rules,
    request: &ProblemRequest<'_>,
    answers: Vec<Completion>,
) -> Vec<Sample> {
    let ProblemRequest { problem, known, .. } = *request;
    let judged =
        |(number, answer)| Sample::judged(problem, judge, known + number, answer).under(rules);
    answers.into_par_iter().enumerate().map(judged).collect()
}

impl<'a> EvalJob<'a> {
    /// An evaluation in this process, judged by the dataset's own verifier, of which only the tallies are kept.
    pub fn new(dataset: &'a Dataset, n: usize, solver: &'a dyn Solver) -> Self {
        Self {
            problems: &dataset.problems,
            n,
            solver,
            judge: &*dataset.verifier,
            rules: Rules::default(),
            ranks: Ranks::one(),
            store: SampleStore::default(),
            progress: Box::new(Silent),
        }
    }

    /// Draws the missing samples and counts all of them; the tallies are in the order of the problems.
    ///
    /// # Errors
    /// The solver, the store, the progress or another rank failed.
    pub fn run(mut self) -> Result<Vec<Tally>> {
        let (problems, solver, ranks) = (self.problems, self.solver, self.ranks);
        let (n, judge, rules) = (self.n, self.judge, self.rules);
        let mut tallies = self.known();
        let known: Vec<usize> = tallies.iter().map(Tally::num_samples).collect();
        let missing: Vec<usize> = (0..problems.len()).filter(|index| known[*index] < n).collect();
        self.progress.begin(problems.len() - missing.len(), missing.len())?;
        // The judged samples of one problem, by its index.
        let mut solve = |share: &[usize], sink: &mut Sink<'_, (usize, Vec<Sample>)>| {
            let request = |index: &usize| ProblemRequest {
                problem: &problems[*index],
                key: *index as u64,
                known: known[*index],
            };
            let requests: Vec<ProblemRequest<'_>> = share.iter().map(request).collect();
            solver.solve(&requests, n, &mut |place, answers| {
                let samples = judged(judge, rules, &requests[place], answers);
                sink((share[place], samples))
            })
        };
        ranks.divide(&missing, n, &mut solve, &mut |batch| self.receive(batch, &mut tallies))?;
        self.store.close(problems, ranks)?;
        Ok(tallies)
    }

    /// Counts the samples of earlier calls by their verdicts of today: the judge may be another one.
    fn known(&mut self) -> Vec<Tally> {
        let (n, judge, rules) = (self.n, self.judge, self.rules);
        let count = |problem: &Problem| {
            let mut tally = Tally::new(problem);
            let samples = self.store.first(&problem.id, n);
            samples.par_iter_mut().filter(|sample| sample.failure.is_none()).for_each(|sample| {
                sample.judge_again(problem, judge);
            });
            for sample in samples {
                sample.apply(rules);
                tally.add(sample);
            }
            tally
        };
        self.problems.iter().map(count).collect()
    }

    fn receive(
        &mut self,
        (index, samples): (usize, Vec<Sample>),
        tallies: &mut [Tally],
    ) -> Result<()> {
        samples.iter().for_each(|sample| tallies[index].add(sample));
        self.store.append(&samples)?;
        self.progress.advance(&samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AnswerSink;
    use tealight_datasets::read::Columns;

    /// Answers every problem with nothing, then with nonsense, then cut off, then with its solution.
    struct Script;

    impl Solver for Script {
        fn solve(
            &self,
            problems: &[ProblemRequest<'_>],
            n: usize,
            sink: &mut AnswerSink<'_>,
        ) -> Result<()> {
            for (index, request) in problems.iter().enumerate().rev() {
                let solution = request.problem.solution.clone().unwrap_or_default();
                let answer = |i: usize| Completion {
                    text: ["", "1+", &solution, &solution][i % 4].into(),
                    is_finished: i % 4 != 2,
                    tokens: 3,
                    logp: Some(-1.0),
                    ..Completion::default()
                };
                sink(index, (request.known..n).map(answer).collect())?;
            }
            Ok(())
        }
    }

    /// Counts the samples that were drawn.
    struct SampleCounter<'a>(&'a mut Vec<usize>);

    impl EvalProgress for SampleCounter<'_> {
        fn advance(&mut self, samples: &[Sample]) -> Result<()> {
            self.0.extend(samples.iter().map(|sample| sample.sample));
            Ok(())
        }
    }

    #[test]
    fn answers_are_sampled_once_and_counted_by_outcome() {
        let dataset = tealight_datasets::open("countdown", &Columns::default(), Some(3)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        let run = |n: usize| {
            let mut numbers = Vec::new();
            let store = SampleStore::open(&path, &dataset.problems, Ranks::one()).unwrap();
            let progress = Box::new(SampleCounter(&mut numbers));
            let job = EvalJob { store, progress, ..EvalJob::new(&dataset, n, &Script) };
            let tallies = job.run().unwrap();
            (tallies, numbers)
        };
        let (tallies, numbers) = run(4);
        assert_eq!(numbers.len(), 12);
        for (tally, problem) in tallies.iter().zip(&dataset.problems) {
            assert_eq!(tally.problem, problem.id);
            assert_eq!((tally.samples, tally.correct, tally.truncated), (4, 1, 1));
            assert_eq!(
                (tally.no_answer, tally.classes.at(crate::Level::Solution).distinct()),
                (2, 1)
            );
            assert_eq!(tally.tokens, 12);
        }
        // Without a file the counts are the same.
        assert_eq!(EvalJob::new(&dataset, 4, &Script).run().unwrap(), tallies);
        // Stored tallies are not sampled again, and count the same.
        assert_eq!(run(4), (tallies.clone(), vec![]));
        // Of more samples than are asked for the first are counted, and the others stay in the file.
        let (fewer, numbers) = run(2);
        assert!(numbers.is_empty() && fewer.iter().all(|tally| tally.samples == 2));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 12);
        // Of a part the rest is drawn: of the second problem its last sample, of the third all.
        let part: Vec<&str> = text.lines().take(7).collect();
        std::fs::write(&path, part.join("\n") + "\n").unwrap();
        let (again, numbers) = run(4);
        assert_eq!((again, numbers), (tallies, vec![0, 1, 2, 3, 3]));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    }

    /// Accepts every answer.
    struct Lenient;

    impl Verifier for Lenient {
        fn name(&self) -> &'static str {
            "lenient"
        }

        fn verify(&self, _: &Problem, completion: &str) -> tealight_datasets::Verdict {
            tealight_datasets::Verdict::correct(completion, completion)
        }
    }

    #[test]
    fn known_samples_are_judged_again_by_another_judge() {
        let dataset = tealight_datasets::open("countdown", &Columns::default(), Some(2)).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("samples.jsonl");
        let store = || SampleStore::open(&path, &dataset.problems, Ranks::one()).unwrap();
        let job = || EvalJob { store: store(), ..EvalJob::new(&dataset, 4, &Script) };
        assert_eq!(job().run().unwrap()[0].correct, 1);
        // One of four was cut off.
        assert_eq!(EvalJob { judge: &Lenient, ..job() }.run().unwrap()[0].correct, 3);
        let stored = crate::store::read(&path).unwrap().problems;
        assert!(stored.values().flatten().all(|sample| sample.verdict.is_correct()));
    }
}
