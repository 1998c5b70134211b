//! Completions that were produced elsewhere, judged: a record at a time to tallies, in bounded memory.
//!
//! [`Source`] finds the records of a file, `line` reads one, `problems` says which problem it is about, and
//! [`GradeJob`] has them judged.

mod line;
mod notes;
mod problems;
mod source;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use tealight_datasets::{Dataset, Problem, Verdict, Verifier, fnv};

use crate::rules::{Failed, Missing};
use crate::team::{SampleBatch, Team};
use crate::{Answer, Sample, Tally, Truncated};
use line::{Line, parse};
pub use line::{plausible_logp, token_count};
use notes::Notes;
use problems::Problems;
use source::Record;
pub use source::Source;

/// Most records that are judged at a time.
const CHUNK: usize = 4096;

/// Most bytes of text that are judged at a time, beyond one record.
const CHUNK_BYTES: usize = 64 << 20;

/// Most commas in what is judged at a time, beyond one record: no record has more completions than that by more than
/// one, and an empty completion takes some hundreds of bytes while it is judged.
const CHUNK_COMMAS: usize = 1 << 18;

/// Completions that are judged one after the other.
const BLOCK: usize = 16;

/// Reasons that are kept of completions that could not be judged.
const REASONS: usize = 3;

/// How completions of a file are judged.
pub struct GradeJob<'a> {
    /// Gold answers for records that hold none, by the problem's id or prompt.
    pub dataset: Option<&'a Dataset>,
    /// Verifies the completions.
    pub verifier: &'a dyn Verifier,
    /// Whether all completions begin in a thought that their prompts opened.
    pub starts_inside: bool,
    /// The filter of lm-eval whose lines are read; the file's first unless given.
    pub filter: Option<&'a str>,
    /// What truncated completions count as.
    pub truncated: Truncated,
    /// What completions count as that a server failed to give.
    pub failed: Failed,
    /// What becomes of the dataset's problems without a completion.
    pub missing: Missing,
    /// The processes that judge together: every one reads all of the file.
    pub team: &'a dyn Team,
}

/// The result of grading.
#[derive(Default)]
pub struct Graded {
    /// The problems, in the order of their first records.
    pub problems: Vec<Problem>,
    /// Their counts.
    pub tallies: Vec<Tally>,
    /// Completions that were judged.
    pub completions: usize,
    /// The first completions that could not be judged, each with its problem and the reason.
    pub unjudged: Vec<String>,
    /// What was left out, repeated or not known, one sentence each.
    pub notes: Vec<String>,
}

impl<'a> GradeJob<'a> {
    /// Judges with the usual rules, in this process.
    pub fn new(verifier: &'a dyn Verifier) -> Self {
        Self {
            dataset: None,
            verifier,
            starts_inside: false,
            filter: None,
            truncated: Truncated::default(),
            failed: Failed::default(),
            missing: Missing::default(),
            team: &crate::evaluate::Alone,
        }
    }

    /// Judges every record of `source`. The gold answer is the record's, or that of the dataset's problem with its id
    /// or its prompt. `sink` receives the samples in order.
    ///
    /// # Errors
    /// A malformed record that is not cut off at the end, one without gold, two golds for one problem, a verifier that
    /// fails on the first problem.
    pub fn run(
        &self,
        source: &mut Source<'_>,
        sink: &mut dyn FnMut(&[Sample]) -> Result<()>,
    ) -> Result<Graded> {
        let mut grading = Grading {
            job: self,
            graded: Graded::default(),
            problems: Problems::new(self.dataset)?,
            counts: Vec::new(),
            samples: HashMap::new(),
            filter: self.filter.map(str::to_owned),
            notes: Notes::default(),
        };
        loop {
            let records = chunk(source)?;
            if records.is_empty() {
                break;
            }
            let work = grading.work(source.name(), records)?;
            grading.judge(work, sink)?;
        }
        grading.add_missing(sink)?;
        grading.finish(source.name())
    }
}

/// A completion to judge: the index of its problem, its number, and itself.
type Work = (usize, usize, Answer);

/// The records that were read so far.
struct Grading<'a> {
    job: &'a GradeJob<'a>,
    graded: Graded,
    problems: Problems<'a>,
    /// Completions of each problem.
    counts: Vec<usize>,
    /// The text of each sample that says which one it is, as a hash, by its problem and by what it says.
    samples: HashMap<(usize, u64), u64>,
    /// The filter of lm-eval whose lines are read, from the first line with one on.
    filter: Option<String>,
    notes: Notes,
}

impl Grading<'_> {
    /// The completions of some records.
    fn work(&mut self, name: &str, records: Vec<Record>) -> Result<Vec<Work>> {
        let read = |record: Record| (record.place, record.is_whole, parse(record.content));
        let parsed: Vec<_> = records.into_par_iter().map(read).collect();
        let mut work = Vec::new();
        for (place, is_whole, parsed) in parsed {
            let at = || place.in_file(name);
            match parsed {
                Ok(lines) => {
                    for line in lines {
                        self.line(line, &mut work).with_context(at)?;
                    }
                }
                Err(error) if !is_whole && is_cut_off(&error) => {
                    self.notes.say(format!("{}: the last line was cut off and is left out", at()));
                }
                Err(error) => return Err(error).with_context(at),
            }
        }
        Ok(work)
    }

    fn line(&mut self, line: Line, work: &mut Vec<Work>) -> Result<()> {
        if let Some(filter) = &line.filter
            && *self.filter.get_or_insert_with(|| filter.clone()) != *filter
        {
            self.notes.other_filter(filter);
            return Ok(());
        }
        self.notes.filtered += usize::from(line.filter.is_some());
        line.unknown_endings.iter().for_each(|name| self.notes.unknown_ending(name));
        if line.answers.is_empty() {
            self.notes.empty += 1;
            return Ok(());
        }
        let problem = self.problems.index(&line)?;
        let known = self.problems.list.len();
        if problem >= self.counts.len() {
            self.counts.resize(known, 0);
            if problem == 0 {
                self.job.verifier.probe(&self.problems.list[0]).map_err(anyhow::Error::msg)?;
            }
            let new = self.problems.list[self.graded.tallies.len()..].iter().map(Tally::new);
            self.graded.tallies.extend(new);
        }
        for (index, mut answer) in line.answers.into_iter().enumerate() {
            if let Some(sample) = line.sample {
                let key = (problem, sample.wrapping_add(index as u64));
                let text = fnv(answer.text.bytes());
                match self.samples.entry(key) {
                    Entry::Vacant(entry) => drop(entry.insert(text)),
                    Entry::Occupied(entry) => {
                        self.notes.repeated += 1;
                        self.notes.changed += usize::from(*entry.get() != text);
                        continue;
                    }
                }
            }
            if let Some(why) = &answer.failure {
                self.notes.failure(&self.problems.list[problem].id, why);
            }
            answer.starts_inside |= self.job.starts_inside;
            work.push((problem, self.counts[problem], answer));
            self.counts[problem] += 1;
        }
        Ok(())
    }

    /// Judges completions and adds them to the tallies of their problems.
    fn judge(
        &mut self,
        work: Vec<Work>,
        sink: &mut dyn FnMut(&[Sample]) -> Result<()>,
    ) -> Result<()> {
        let problems: Vec<usize> = work.iter().map(|(problem, ..)| *problem).collect();
        let samples = judged(work, &self.problems, self.job)?;
        let graded = &mut self.graded;
        graded.completions += samples.len();
        for (problem, sample) in problems.iter().zip(&samples) {
            graded.tallies[*problem].add(sample);
            if let Verdict::Unjudged { why, .. } = &sample.verdict
                && graded.unjudged.len() < REASONS
            {
                graded.unjudged.push(format!("problem `{}`: {why}", sample.problem));
            }
        }
        sink(&samples)
    }

    /// Counts the dataset's problems without a completion, as the rule says.
    fn add_missing(&mut self, sink: &mut dyn FnMut(&[Sample]) -> Result<()>) -> Result<()> {
        let missing = self.problems.missing();
        self.notes.missing = missing.len();
        self.notes.missing_example = missing.first().map(|problem| problem.id.clone());
        let least = self.counts.iter().copied().min();
        let (Some(least), Missing::Wrong) = (least, self.job.missing) else { return Ok(()) };
        for problem in missing {
            let index = self.problems.add_missing(problem);
            self.graded.tallies.push(Tally::new(problem));
            self.counts.push(least);
            // Whatever becomes of failed requests, these count as incorrect.
            let samples: Vec<Sample> = (0..least)
                .map(|number| missing_sample(problem, self.job.verifier, number))
                .collect();
            samples.iter().for_each(|sample| self.graded.tallies[index].add(sample));
            sink(&samples)?;
        }
        Ok(())
    }

    fn finish(self, name: &str) -> Result<Graded> {
        if let (Some(filter), 0) = (self.job.filter, self.notes.filtered) {
            let there = match self.notes.has_filters() {
                true => format!("the filters are {}", self.notes.filters()),
                false => "only samples of lm-evaluation-harness have filters".into(),
            };
            bail!("{name}: no line has the filter `{filter}`; {there}");
        }
        let notes = self.notes.sentences(&self.problems, self.filter.as_deref(), self.job);
        Ok(Graded { problems: self.problems.list, notes, ..self.graded })
    }
}

/// Whether a record ends in the middle: one that is whole and wrong was not cut off.
fn is_cut_off(error: &anyhow::Error) -> bool {
    error.downcast_ref::<serde_json::Error>().is_some_and(serde_json::Error::is_eof)
        || error.is::<std::str::Utf8Error>()
}

/// The sample of a problem of which there is none.
fn missing_sample(problem: &Problem, verifier: &dyn Verifier, number: usize) -> Sample {
    let answer = Answer {
        is_finished: true,
        is_end_unknown: true,
        ..Answer::failed("the file has no completion of this problem".into())
    };
    Sample { verdict: Verdict::NoAnswer, ..Sample::judged(problem, verifier, number, answer) }
}

/// The records that are judged next: what is held of them has a limit, however many completions a record has.
fn chunk(source: &mut Source<'_>) -> Result<Vec<Record>> {
    let (mut records, mut bytes, mut commas) = (Vec::new(), 0, 0);
    while records.len() < CHUNK && bytes < CHUNK_BYTES && commas < CHUNK_COMMAS {
        let Some(record) = source.next()? else { break };
        let size = record.content.size();
        (bytes, commas) = (bytes + size.0, commas + size.1);
        records.push(record);
    }
    Ok(records)
}

/// Judges completions, each to a problem and with its number; of a team every member judges a part.
fn judged(work: Vec<Work>, problems: &Problems<'_>, job: &GradeJob<'_>) -> Result<Vec<Sample>> {
    let (mut work, mut blocks) = (work.into_iter(), Vec::new());
    loop {
        let block: Vec<_> = work.by_ref().take(BLOCK).collect();
        if block.is_empty() {
            break;
        }
        blocks.push(block);
    }
    let all: Vec<usize> = (0..blocks.len()).collect();
    let mut judged: Vec<Vec<Sample>> = vec![Vec::new(); blocks.len()];
    let judge = Judge { verifier: job.verifier, truncated: job.truncated, failed: job.failed };
    for share in job.team.shares(&all, BLOCK) {
        let work: Vec<(usize, Vec<_>)> =
            share.iter().map(|block| (*block, std::mem::take(&mut blocks[*block]))).collect();
        let batches = work.into_par_iter().map(|(index, block)| SampleBatch {
            index,
            samples: block.into_iter().map(|one| judge.sample(one, problems)).collect(),
        });
        for batch in job.team.gather(batches.collect())? {
            judged[batch.index] = batch.samples;
        }
    }
    Ok(judged.into_iter().flatten().collect())
}

/// What judges a completion, on any thread.
struct Judge<'a> {
    verifier: &'a dyn Verifier,
    truncated: Truncated,
    failed: Failed,
}

impl Judge<'_> {
    /// Judges a completion by its problem's gold answer, or by the first of several that it is right by.
    fn sample(&self, (index, number, answer): Work, problems: &Problems<'_>) -> Sample {
        let problem = &problems.list[index];
        let others = problems.alternatives.get(&index).filter(|_| answer.failure.is_none());
        let again = others.map(|others| (others, answer.clone()));
        let mut sample =
            Sample::judged(problem, self.verifier, number, answer).counting(self.truncated);
        if sample.failure.is_some() && self.failed == Failed::Wrong {
            sample.verdict = Verdict::NoAnswer;
        }
        if let Some((others, answer)) = again.filter(|_| !sample.verdict.is_correct()) {
            let judged = |other| Sample::judged(other, self.verifier, number, answer.clone());
            if let Some(right) = others.iter().map(judged).find(|other| other.verdict.is_correct())
            {
                (sample.verdict, sample.reward, sample.found) =
                    (right.verdict, right.reward, right.found);
            }
        }
        sample
    }
}

#[cfg(test)]
mod formats;
#[cfg(test)]
mod tests;
