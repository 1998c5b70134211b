//! Completions to samples, on all threads.

use std::sync::Arc;

use rayon::prelude::*;
use tealight_datasets::Verdict;

use super::GradeJob;
use super::line::short;
use super::problems::Target;
use super::tallies::Judged;
use crate::{Completion, Sample, Tally};

/// A completion to judge.
pub(super) struct Task {
    pub(super) problem: usize,
    pub(super) target: Arc<Target>,
    /// Which of the problem's completions it is.
    pub(super) number: usize,
    pub(super) answer: Completion,
}

/// The completions of a chunk, and the empty tallies of the problems that no chunk before it named.
#[derive(Default)]
pub(super) struct Work {
    pub(super) new: Vec<Tally>,
    pub(super) tasks: Vec<Task>,
}

impl GradeJob<'_> {
    /// Judges the completions of a chunk, on all threads.
    pub(super) fn judge(&self, Work { new, tasks }: Work) -> Judged {
        let problems = tasks.iter().map(|task| task.problem).collect();
        let samples = tasks.into_par_iter().map(|task| self.sample(task)).collect();
        Judged { new, problems, samples }
    }

    /// Judges a completion by its problem's gold answer, or by the first of several that it is right by.
    fn sample(&self, Task { target, number, mut answer, .. }: Task) -> Sample {
        // A request that failed counts by the same rule as an answer that was refused.
        answer.is_missing = false;
        let Target { problem, alternatives, refusal, .. } = &*target;
        let is_judged_again = !alternatives.is_empty() && answer.failure.is_none();
        let again = is_judged_again.then(|| answer.clone());
        let mut sample = Sample::judged(problem, self.verifier, number, answer).under(self.rules);
        // Those that repeat its text would be correct, and no other incorrect.
        if let (Some(why), None) = (refusal, &sample.failure) {
            let why = format!("the gold `{}` cannot be read: {why}", short(&problem.answer));
            return Sample { verdict: Verdict::unjudged(why), reward: None, found: None, ..sample };
        }
        if let Some(answer) = again.filter(|_| !sample.verdict.is_correct()) {
            let judged = |other| Sample::judged(other, self.verifier, number, answer.clone());
            let others: Vec<Sample> = alternatives.iter().map(judged).collect();
            let is_unread = |one: &Sample| matches!(one.verdict, Verdict::Unjudged { .. });
            let right = others.iter().find(|other| other.verdict.is_correct());
            let wrong = || others.iter().find(|other| is_unread(&sample) && !is_unread(other));
            if let Some(other) = right.or_else(wrong).cloned() {
                (sample.verdict, sample.reward, sample.found) =
                    (other.verdict, other.reward, other.found);
            }
        }
        sample
    }
}
