//! Completions to samples, on all threads: every rank judges a part.

use std::sync::Arc;

use anyhow::Result;
use rayon::prelude::*;
use tealight_datasets::{Verdict, Verifier};

use super::GradeJob;
use super::line::short;
use super::problems::Target;
use super::tallies::Judged;
use crate::evaluate::SampleBatch;
use crate::rules::Rules;
use crate::{Completion, Sample, Tally};
use tealight_core::ranks::Ranks;

/// Completions that are judged one after the other.
const BLOCK: usize = 16;

/// A completion to judge.
pub(super) struct Task {
    /// The index of its problem.
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

/// What judges a completion, on any thread.
#[derive(Clone, Copy)]
pub(super) struct Judge<'a> {
    verifier: &'a dyn Verifier,
    rules: Rules,
}

/// This process's share of a chunk: rounds of blocks, each with its index.
pub(super) struct Share {
    new: Vec<Tally>,
    problems: Vec<usize>,
    blocks: usize,
    rounds: Vec<Vec<(usize, Vec<Task>)>>,
}

/// The same, judged.
pub(super) struct JudgedShare {
    new: Vec<Tally>,
    problems: Vec<usize>,
    blocks: usize,
    rounds: Vec<Vec<SampleBatch>>,
}

impl Share {
    pub(super) fn new(work: Work, ranks: &Ranks) -> Self {
        let problems = work.tasks.iter().map(|task| task.problem).collect();
        let (mut tasks, mut blocks) = (work.tasks.into_iter(), Vec::new());
        loop {
            let block: Vec<Task> = tasks.by_ref().take(BLOCK).collect();
            if block.is_empty() {
                break;
            }
            blocks.push(block);
        }
        let all: Vec<usize> = (0..blocks.len()).collect();
        let mut block = |index: usize| (index, std::mem::take(&mut blocks[index]));
        let mut round = |share: Vec<usize>| share.into_iter().map(&mut block).collect();
        let rounds = ranks.shares(&all, BLOCK).into_iter().map(&mut round).collect();
        Self { new: work.new, problems, blocks: all.len(), rounds }
    }
}

impl JudgedShare {
    /// The samples of all processes, in the order of the file.
    ///
    /// # Errors
    /// Another process has disconnected.
    pub(super) fn gather(self, ranks: &Ranks) -> Result<Judged> {
        let mut judged: Vec<Vec<Sample>> = vec![Vec::new(); self.blocks];
        for batches in self.rounds {
            for batch in ranks.gather(batches)?.into_iter().flatten() {
                judged[batch.index] = batch.samples;
            }
        }
        let samples = judged.into_iter().flatten().collect();
        Ok(Judged { new: self.new, problems: self.problems, samples })
    }
}

impl<'a> Judge<'a> {
    pub(super) fn new(job: &GradeJob<'a>) -> Self {
        Self { verifier: job.verifier, rules: job.rules }
    }

    pub(super) fn share(self, share: Share) -> JudgedShare {
        let batch = |(index, block): (usize, Vec<Task>)| SampleBatch {
            index,
            samples: block.into_iter().map(|task| self.sample(task)).collect(),
        };
        let round = |blocks: Vec<(usize, Vec<Task>)>| blocks.into_par_iter().map(batch).collect();
        let Share { new, problems, blocks, rounds } = share;
        JudgedShare { new, problems, blocks, rounds: rounds.into_iter().map(round).collect() }
    }

    /// Judges a completion by its problem's gold answer, or by the first of several that it is right by.
    pub(super) fn sample(self, Task { target, number, mut answer, .. }: Task) -> Sample {
        // A request that failed counts by the same rule as an answer that was refused.
        answer.is_missing = false;
        let Target { problem, alternatives, refusal } = &*target;
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
