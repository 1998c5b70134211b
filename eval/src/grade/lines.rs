//! Parsed records to completions to judge: which problem each is about, and what is left out. One record after the
//! other, since what a record says depends on those before it.

use anyhow::{Context, Result, bail};
use tealight_datasets::{fnv, judge};

use super::judge::{Task, Work};
use super::line::{Line, parse};
use super::notes::Notes;
use super::problems::Problems;
use super::seen::{Named, Seen};
use super::source::{Place, Record};
use super::{GradeJob, Graded};
use crate::Tally;

/// A record that was parsed: where it stood, whether it was whole, its lines.
pub(super) type Parsed = (Place, bool, Result<Vec<Line>>);

/// Parses a record, on any thread.
pub(super) fn parsed(record: Record) -> Parsed {
    (record.place, record.is_whole, parse(record.content))
}

/// The lines that were read so far.
pub(super) struct Lines<'a> {
    job: &'a GradeJob<'a>,
    name: String,
    pub(super) problems: Problems<'a>,
    /// Completions of each problem.
    pub(super) counts: Vec<usize>,
    /// The samples that said which one they are.
    seen: Seen<'a>,
    /// The filter of lm-eval whose lines are read, from the first line with one on.
    filter: Option<String>,
    pub(super) notes: Notes,
}

impl<'a> Lines<'a> {
    /// No line of the file called `name` yet.
    pub(super) fn new(job: &'a GradeJob<'a>, name: &str) -> Result<Self> {
        Ok(Self {
            job,
            name: name.to_owned(),
            problems: Problems::new(job.dataset)?,
            counts: Vec::new(),
            seen: Seen::new(job.files.map(|[_, file]| file), job.max_open),
            filter: job.filter.map(str::to_owned),
            notes: Notes::default(),
        })
    }

    /// The completions of some records.
    pub(super) fn work(&mut self, records: Vec<Parsed>) -> Result<Work> {
        let mut work = Work::default();
        for (place, is_whole, parsed) in records {
            match parsed {
                Ok(lines) => {
                    for line in lines {
                        let read = self.line(line, &mut work);
                        read.with_context(|| place.in_file(&self.name))?;
                    }
                }
                Err(error) if !is_whole && is_cut_off(&error) => {
                    let at = place.in_file(&self.name);
                    self.notes.say(format!("{at}: the last line was cut off and is left out"));
                }
                Err(error) => return Err(error).with_context(|| place.in_file(&self.name)),
            }
        }
        Ok(work)
    }

    fn line(&mut self, line: Line, work: &mut Work) -> Result<()> {
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
        let known = self.counts.len();
        if problem >= known {
            let new = &self.problems.list[known..];
            if known == 0 {
                judge::probe(self.job.verifier, &new[0].problem).map_err(anyhow::Error::msg)?;
            }
            work.new.extend(new.iter().map(|target| Tally::new(&target.problem)));
            self.counts.resize(self.problems.list.len(), 0);
        }
        for (index, mut answer) in line.answers.into_iter().enumerate() {
            if let Some(sample) = line.sample {
                let name = sample.wrapping_add(index as u64);
                let named = self.seen.name(problem, name, fnv(answer.text.bytes()))?;
                if let Named::Again { is_changed } = named {
                    self.notes.repeated += 1;
                    self.notes.changed += usize::from(is_changed);
                    continue;
                }
            }
            let target = self.problems.list[problem].clone();
            if let Some(why) = &answer.failure {
                self.notes.failure(&target.problem.id, why);
            }
            answer.starts_inside |= self.job.starts_inside;
            work.tasks.push(Task { problem, target, number: self.counts[problem], answer });
            self.counts[problem] += 1;
        }
        Ok(())
    }

    /// The problems and the notes.
    pub(super) fn finish(self) -> Result<Graded> {
        if let (Some(filter), 0) = (self.job.filter, self.notes.filtered) {
            let there = match self.notes.has_filters() {
                true => format!("the filters are {}", self.notes.filters()),
                false => "only samples of lm-evaluation-harness have filters".into(),
            };
            bail!("{}: no line has the filter `{filter}`; {there}", self.name);
        }
        let notes = self.notes.sentences(&self.problems, self.filter.as_deref(), self.job);
        Ok(Graded { problems: self.problems.finish(), notes, ..Graded::default() })
    }
}

/// Whether a record ends in the middle: one that is whole and wrong was not cut off.
fn is_cut_off(error: &anyhow::Error) -> bool {
    error.downcast_ref::<serde_json::Error>().is_some_and(serde_json::Error::is_eof)
        || error.is::<std::str::Utf8Error>()
}
