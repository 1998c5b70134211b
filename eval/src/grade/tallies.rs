//! Judged samples to the tallies of their problems.
//!
//! The names of a problem's classes are needed as long as further samples of the problem may come. They are in memory
//! for the problems that were met last, and in a file for the others: a file of completions in any order takes bounded
//! memory beside its results.

use std::fs::File;

use anyhow::{Context, Result};
use rayon::prelude::*;

use crate::number::counted;

use super::scratch::{CHANGED, Place, Scratch, list, number};
use crate::{Counts, Level, Sample, Tally, note_unjudged};

#[derive(Default)]
pub(super) struct Tallies<'a> {
    pub(super) list: Vec<Tally>,
    /// Where the names of each problem are.
    states: Vec<State>,
    /// The problems whose names are in memory, in no order.
    open: Vec<usize>,
    open_bytes: usize,
    /// Most bytes of names in memory, beyond those of a chunk's problems.
    max_open: usize,
    /// Most problems whose names were in memory at once.
    pub(super) most_open: usize,
    scratch: Option<Scratch<'a>>,
    chunks: usize,
    /// Completions that were counted.
    pub(super) completions: usize,
    /// The first reasons why completions could not be judged, each with a problem.
    pub(super) unjudged: Vec<String>,
    pub(super) of_file: OfFile,
}

/// Completions on which their records bring a verdict, and those of them that are correct by it and by the verifier.
#[derive(Default)]
pub(super) struct OfFile {
    samples: usize,
    correct: usize,
    correct_here: usize,
    differ: usize,
}

impl OfFile {
    /// Verdicts of a file with none in common that say something.
    const LEAST: usize = 4;

    fn add(&mut self, samples: &[Sample]) {
        for sample in samples.iter().filter(|sample| sample.file_verdict.is_some()) {
            self.samples += 1;
            self.correct += usize::from(sample.file_verdict == Some(1.0));
            self.correct_here += usize::from(sample.is_correct());
            self.differ += usize::from((sample.file_verdict == Some(1.0)) != sample.is_correct());
        }
    }

    /// What is to be said where the verifier accepts next to nothing of what the file calls correct, the file nothing
    /// of what the verifier does, or the two share hardly a verdict.
    pub(super) fn contradiction(&self) -> Option<String> {
        let Self { samples, correct, correct_here, differ } = *self;
        let many = Self::LEAST.max(samples / 5);
        let of = counted(samples, "completion");
        if correct >= Self::LEAST && 10 * correct_here < correct {
            let here = if correct_here == 0 { "none".to_owned() } else { correct_here.to_string() };
            return Some(format!(
                "the file calls {correct} of {of} correct, and the verifier {here}: the gold answers may be of \
                 another kind, such as the index of a choice (--gold-key and --dataset name others, --verifier \
                 another rule)"
            ));
        }
        if correct == 0 && correct_here >= many {
            return Some(format!(
                "the file calls none of {of} correct, and the verifier {correct_here}: its own may not be filled in, or be \
                 by a stricter rule"
            ));
        }
        (samples >= Self::LEAST && 10 * differ > 9 * samples).then(|| {
            format!(
                "the verdicts of the file and of the verifier differ on {differ} of {of}: those of the file may say what is \
                 incorrect"
            )
        })
    }
}

/// Where the names of a problem are.
#[derive(Clone, Copy)]
enum State {
    /// In memory, of about this size, since the chunk of this number.
    Open { bytes: usize, chunk: usize },
    /// In the file.
    Stored(Place),
}

/// Samples and the indices of their problems, and the empty tallies of the problems that are new.
pub(super) struct Judged {
    pub(super) new: Vec<Tally>,
    pub(super) problems: Vec<usize>,
    pub(super) samples: Vec<Sample>,
}

impl<'a> Tallies<'a> {
    /// No problem yet; without an empty `file` all names stay in memory.
    pub(super) fn new(file: Option<&'a File>, max_open: usize) -> Self {
        Self { max_open, scratch: file.map(Scratch::new), ..Self::default() }
    }

    /// Counts samples: those of a problem in their order, those of different problems at once.
    pub(super) fn add(&mut self, judged: &mut Judged) -> Result<()> {
        let Judged { new, problems, samples } = judged;
        self.chunks += 1;
        self.list.append(new);
        let chunk = self.chunks;
        while self.states.len() < self.list.len() {
            self.open.push(self.states.len());
            self.states.push(State::Open { bytes: 0, chunk });
        }
        let mut order: Vec<(usize, usize)> = problems.iter().copied().zip(0..).collect();
        order.sort_unstable();
        let groups: Vec<&[(usize, usize)]> = order.chunk_by(|a, b| a.0 == b.0).collect();
        for group in &groups {
            self.open(group[0].0)?;
        }
        self.most_open = self.most_open.max(self.open.len());
        let before: Vec<Tally> =
            groups.iter().map(|group| std::mem::take(&mut self.list[group[0].0])).collect();
        let counted = |(mut tally, group): (Tally, &&[(usize, usize)])| {
            group.iter().for_each(|(_, index)| tally.add(&samples[*index]));
            let bytes = size(&tally);
            (tally, bytes)
        };
        let after: Vec<(Tally, usize)> = before.into_par_iter().zip(&groups).map(counted).collect();
        for ((tally, bytes), group) in after.into_iter().zip(&groups) {
            let problem = group[0].0;
            if let State::Open { bytes: before, .. } = self.states[problem] {
                self.open_bytes = self.open_bytes + bytes - before;
            }
            self.states[problem] = State::Open { bytes, chunk };
            self.list[problem] = tally;
        }
        self.completions += samples.len();
        self.of_file.add(samples);
        note_unjudged(samples, &mut self.unjudged);
        self.trim()
    }

    /// Reads the names of a problem, unless they are in memory.
    fn open(&mut self, problem: usize) -> Result<()> {
        let (State::Stored(place), Some(scratch)) = (self.states[problem], &mut self.scratch)
        else {
            return Ok(());
        };
        let tally = &mut self.list[problem];
        take_back(tally, &scratch.take(place)?)?;
        let bytes = size(tally);
        self.states[problem] = State::Open { bytes, chunk: self.chunks };
        self.open_bytes += bytes;
        self.open.push(problem);
        Ok(())
    }

    /// Writes names to the file, of the problems first that were met longest ago, until there is room for
    /// those of some more chunks.
    fn trim(&mut self) -> Result<()> {
        let Some(scratch) = self.scratch.as_mut().filter(|_| self.open_bytes > self.max_open)
        else {
            return Ok(());
        };
        let states = &mut self.states;
        let met = |problem: &usize| match states[*problem] {
            State::Open { chunk, .. } => chunk,
            State::Stored(_) => 0,
        };
        self.open.sort_by_key(|problem| std::cmp::Reverse(met(problem)));
        while let Some(problem) = self.open.pop() {
            let State::Open { bytes, chunk } = states[problem] else { continue };
            if chunk == self.chunks || self.open_bytes <= self.max_open / 2 {
                self.open.push(problem);
                break;
            }
            states[problem] = State::Stored(scratch.put(&forget(&mut self.list[problem]))?);
            self.open_bytes -= bytes;
        }
        Ok(())
    }

    /// The tallies, without the names of classes.
    pub(super) fn finish(self) -> Vec<Tally> {
        let mut tallies = self.list;
        tallies.par_iter_mut().for_each(|tally| {
            counts(tally).for_each(|counts| drop(counts.close()));
        });
        tallies
    }
}

/// All counts of a tally by name.
fn counts(tally: &mut Tally) -> impl Iterator<Item = &mut Counts> {
    tally.classes.all_mut().chain([&mut tally.wrong])
}

/// About the bytes of a tally's names.
fn size(tally: &Tally) -> usize {
    /// Of an entry of a map, and of the part of its node that is empty.
    const NAME: usize = 40;
    let classes: usize = Level::ALL.iter().map(|level| tally.classes.at(*level).distinct()).sum();
    (classes + tally.wrong.distinct()) * NAME
}

/// Takes the names out of a tally, as bytes: of each list its length and its items.
fn forget(tally: &mut Tally) -> Vec<u8> {
    let mut bytes = Vec::new();
    for counts in counts(tally) {
        let names = counts.close();
        bytes.extend(names.len().to_le_bytes());
        names.iter().for_each(|name| bytes.extend(name.to_le_bytes()));
    }
    bytes
}

/// Puts back what [`forget`] took.
fn take_back(tally: &mut Tally, mut bytes: &[u8]) -> Result<()> {
    let mut read = || {
        for counts in counts(tally) {
            let mut names = list(&mut bytes, size_of::<u64>())?;
            counts.open(std::iter::from_fn(|| number(&mut names)));
        }
        Some(())
    };
    read().context(CHANGED)
}
