//! Completions that were produced elsewhere, judged: a record at a time to tallies, in bounded memory.
//!
//! A file goes through in chunks. [`Source`] finds the records, `line` parses each, `lines` says which problem it is
//! about, `judge` has its completions judged, `tallies` counts them, and the caller's sink writes them. A step does all
//! of these at once, of a chunk each: what depends on the records before it is done by this thread, the rest by all
//! others.

mod filters;
mod judge;
mod judged;
mod known;
mod line;
mod lines;
mod notes;
pub(crate) mod problems;
mod repeats;
mod runs;
mod sample_ids;
mod scratch;
mod seen;
mod settings;
mod source;
mod tallies;
mod thoughts;

use std::collections::BTreeMap;
use std::fs::File;

use anyhow::Result;
use rayon::prelude::*;
use tealight_datasets::{Dataset, Problem, Verdict, Verifier};

use crate::rules::{Missing, Rules};
use crate::{Completion, Sample, Tally};
use judge::Work;
pub use judged::JudgedChunk;
use known::Known;
pub use line::{Keys, plausible_logp, token_count};
use lines::{Lines, Parsed, parsed};
pub use notes::several_models;
use source::Record;
pub use source::Source;
use tallies::{Judged, Tallies};

/// Most records of a chunk.
const CHUNK: usize = 4096;

/// Most bytes of text of a chunk, beyond one record.
const CHUNK_BYTES: usize = 8 << 20;

/// Most commas of a chunk, beyond one record: no record has more completions than that by more than one, and an empty
/// completion takes some hundreds of bytes while it is judged.
const CHUNK_COMMAS: usize = 1 << 16;

/// Bytes of class names and texts in memory, beyond those of a chunk's problems.
const MAX_OPEN: usize = 64 << 20;

/// Receives the judged samples in the order of the file.
pub type JudgedSink<'a> = dyn FnMut(&JudgedChunk) -> Result<()> + 'a;

/// How completions of a file are judged.
pub struct GradeJob<'a> {
    /// Gold answers for records that hold none, by the problem's id or prompt.
    pub dataset: Option<&'a Dataset>,
    /// Verifies the completions.
    pub verifier: &'a dyn Verifier,
    /// Whether completions begin in a thought that their prompts opened, in a file where some close one.
    pub starts_inside: bool,
    /// The filter of lm-eval whose lines are read; the file's first unless given.
    pub filter: Option<&'a str>,
    /// The keys of records that are none of the usual ones.
    pub keys: Keys<'a>,
    /// Whether a record without a gold answer ends grading; otherwise it is left out and counted.
    pub requires_gold: bool,
    /// What completions without an answer count as.
    pub rules: Rules,
    /// What becomes of the dataset's problems without a completion.
    pub missing: Missing,
    /// Whether the sink is given the samples as JSON as well.
    pub encodes: bool,
    /// Two empty files for what has to be remembered of problems that may come again; without them it is in memory.
    pub files: Option<[&'a File; 2]>,
    /// Most bytes of that in memory, of each kind and beyond the problems of a chunk.
    pub max_open: usize,
}

/// The result of grading.
#[derive(Default)]
pub struct Graded {
    /// The problems, in the order of their first records.
    pub problems: Vec<Problem>,
    /// Counts of every problem.
    pub tallies: Vec<Tally>,
    /// Completions that were judged.
    pub completions: usize,
    /// The first reasons why completions could not be judged, each with a problem.
    pub unjudged: Vec<String>,
    /// Completions whose solution class the file names.
    pub classes: usize,
    /// The models, or steps of training, that records name: the first few.
    pub models: Vec<String>,
    /// Settings of sampling that records name, as an evaluation calls them.
    pub sampling: BTreeMap<&'static str, String>,
    /// What was left out, repeated or not known, one sentence each.
    pub notes: Vec<String>,
    /// Most problems of which class names and texts were in memory at once.
    pub most_open: usize,
}

impl<'a> GradeJob<'a> {
    /// Judges with the usual rules.
    pub fn new(verifier: &'a dyn Verifier) -> Self {
        Self {
            dataset: None,
            verifier,
            starts_inside: false,
            filter: None,
            keys: Keys::default(),
            requires_gold: false,
            rules: Rules::default(),
            missing: Missing::default(),
            encodes: false,
            files: None,
            max_open: MAX_OPEN,
        }
    }

    /// Judges every record of `source`. The gold answer is the record's, or that of the dataset's problem with its id
    /// or its prompt. `sink` receives the samples in order.
    ///
    /// # Errors
    /// A malformed record that is not cut off at the end, no record with a gold answer, two golds, a verifier that
    /// fails on the first problem. Everything before a malformed record is judged first.
    pub fn run(&self, source: &mut Source<'_>, sink: &mut JudgedSink<'_>) -> Result<Graded> {
        let lines = Lines::new(self, source.name())?;
        let tallies = Tallies::new(self.files.map(|[file, _]| file), self.max_open);
        let mut grading = Grading { job: self, lines, tallies };
        grading.read(source, sink)?;
        let remark = source.remark().map(|what| format!("{}: {what}", source.name()));
        remark.into_iter().for_each(|note| grading.lines.notes.say(note));
        grading.add_last(sink)?;
        grading.add_missing(sink)?;
        let Grading { mut lines, tallies, .. } = grading;
        let (completions, unjudged) = (tallies.completions, tallies.unjudged.clone());
        let most_open = tallies.most_open;
        tallies.of_file.contradiction().into_iter().for_each(|note| lines.notes.say(note));
        let tallies = tallies.finish();
        Ok(Graded { tallies, completions, unjudged, most_open, ..lines.finish()? })
    }
}

/// A file that is being graded.
struct Grading<'a> {
    job: &'a GradeJob<'a>,
    lines: Lines<'a>,
    tallies: Tallies<'a>,
}

/// The chunks that are under way, by what is done with each in the next step.
#[derive(Default)]
struct Stages {
    /// To be parsed.
    records: Option<Vec<Record>>,
    /// To be told apart by problem.
    parsed: Option<Vec<Parsed>>,
    /// To be judged.
    work: Option<Work>,
    /// To be counted.
    judged: Option<Judged>,
    /// To be handed over.
    counted: Option<JudgedChunk>,
}

impl Stages {
    fn is_empty(&self) -> bool {
        let Self { records, parsed, work, judged, counted } = self;
        records.is_none()
            && parsed.is_none()
            && work.is_none()
            && judged.is_none()
            && counted.is_none()
    }
}

impl Grading<'_> {
    /// Reads a file to its end, or to the first record that is refused; what comes before that is judged.
    fn read(&mut self, source: &mut Source<'_>, sink: &mut JudgedSink<'_>) -> Result<()> {
        let (mut stages, mut end) = (Stages::default(), None);
        loop {
            stages = self.step(stages, source, &mut end, sink)?;
            if stages.is_empty()
                && let Some(end) = end
            {
                return end;
            }
        }
    }

    /// Takes every chunk a stage further, and reads one more until `end` is known.
    fn step(
        &mut self,
        stages: Stages,
        source: &mut Source<'_>,
        end: &mut Option<Result<()>>,
        sink: &mut JudgedSink<'_>,
    ) -> Result<Stages> {
        let Stages { records, parsed: lines, work, judged, counted } = stages;
        let job = self.job;
        let (mut next, mut count) = (Stages::default(), Ok(None));
        let (parsed_records, next_judged) = (&mut next.parsed, &mut next.judged);
        let tallies = &mut self.tallies;
        let (mut handed, mut refused) = (Ok(()), None);
        rayon::in_place_scope(|scope| {
            scope.spawn(|_| {
                let parse = |record| parsed(record, job.keys);
                *parsed_records = records.map(|all| all.into_par_iter().map(parse).collect());
            });
            scope.spawn(|_| *next_judged = work.map(|work| job.judge(work)));
            scope.spawn(|_| count = judged.map(|it| tallies.count(it, job.encodes)).transpose());
            if let Some(counted) = counted {
                handed = sink(&counted);
            }
            match lines.map(|lines| self.lines.work(lines)).transpose() {
                Ok(work) => next.work = work,
                Err(error) => refused = Some(error),
            }
            if end.is_none() && refused.is_none() {
                match chunk(source) {
                    Ok(records) if records.is_empty() => *end = Some(Ok(())),
                    Ok(records) => next.records = Some(records),
                    Err(error) => *end = Some(Err(error)),
                }
            }
        });
        handed?;
        if let Some(error) = refused {
            // Whatever comes behind a record that is refused is left, also where it cannot be read.
            (next.parsed, *end) = (None, Some(Err(error)));
        }
        next.counted = count?;
        Ok(next)
    }

    /// Judges and counts the completions that were held back until the end of the file.
    fn add_last(&mut self, sink: &mut JudgedSink<'_>) -> Result<()> {
        let work = self.lines.last()?;
        if work.tasks.is_empty() && work.new.is_empty() {
            return Ok(());
        }
        let judged = self.job.judge(work);
        sink(&self.tallies.count(judged, self.job.encodes)?)
    }

    /// Counts the dataset's problems without a completion, as the rule says.
    fn add_missing(&mut self, sink: &mut JudgedSink<'_>) -> Result<()> {
        let Self { job, lines, tallies } = self;
        lines.problems.dataset.as_ref().map_or(Ok(()), Known::check_count)?;
        lines.problems.check_golds_of_ids()?;
        let missing = lines.problems.dataset.as_ref().map_or_else(Vec::new, Known::missing);
        missing.iter().for_each(|problem| lines.notes.missing.note(|| problem.id.clone()));
        let least = lines.counts.iter().copied().min();
        let (Some(least), Missing::Wrong) = (least, job.missing) else { return Ok(()) };
        for problem in missing {
            let index = lines.problems.add_missing(problem);
            lines.counts.push(least);
            // Whatever becomes of failed requests, these count as incorrect.
            let sample = |number| missing_sample(problem, job.verifier, number);
            let judged = Judged {
                new: vec![Tally::new(problem)],
                problems: vec![index; least],
                samples: (0..least).map(sample).collect(),
            };
            let counted = tallies.count(judged, job.encodes)?;
            tallies.completions -= least;
            sink(&counted)?;
        }
        Ok(())
    }
}

/// The sample of a problem of which there is none.
fn missing_sample(problem: &Problem, verifier: &dyn Verifier, number: usize) -> Sample {
    let answer = Completion {
        is_finished: true,
        is_end_unknown: true,
        is_missing: false,
        ..Completion::failed("the file has no completion of this problem".into())
    };
    Sample { verdict: Verdict::NoAnswer, ..Sample::judged(problem, verifier, number, answer) }
}

/// The records of the next chunk: what is held of them has a limit, however many completions a record has.
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

#[cfg(test)]
mod tests;
