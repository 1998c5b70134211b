//! Samples on disk: appended problem by problem, read again after a crash.

mod index;
mod writer;

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tealight_core::output;
use tealight_datasets::Problem;

use crate::Sample;
pub use index::Index;
use tealight_core::ranks::Ranks;
use writer::Part;
pub use writer::SamplesWriter;

/// The samples of one evaluation: those of earlier calls, and the file that new ones are appended to. By default there
/// is no file, and nothing is kept.
#[derive(Debug, Default)]
pub struct SampleStore {
    samples: HashMap<String, Vec<Sample>>,
    file: Option<StoreFile>,
    /// Lines and problems of the file that were left out, each with the reason.
    pub notes: Vec<String>,
}

#[derive(Debug)]
struct StoreFile {
    path: PathBuf,
    /// Where samples are appended; only the first rank writes.
    out: Option<File>,
}

impl SampleStore {
    /// Starts an empty file.
    pub fn create(path: &Path, ranks: &Ranks) -> Result<Self> {
        let out = ranks.is_first().then(|| output::create(path)).transpose();
        let out = out.with_context(|| format!("{}: cannot be written", path.display()))?;
        let file = Some(StoreFile { path: path.to_owned(), out });
        Ok(Self { file, ..Self::default() })
    }

    /// Continues the file at `path`, or starts one. Samples that a crash left without those before them leave the file.
    ///
    /// # Errors
    /// A file that cannot be read or written, a malformed line that is not the last, the same sample twice.
    pub fn open(path: &Path, problems: &[Problem], ranks: &Ranks) -> Result<Self> {
        if !ranks.first(|| Ok(path.exists()))? {
            return Self::create(path, ranks);
        }
        let SamplesFile { problems: samples, notes } = read(path)?;
        // No process may still be reading when the first one writes the file again.
        ranks.wait()?;
        ranks.first(|| write_in_order(path, problems, &samples))?;
        let append = || output::open(OpenOptions::new().append(true).create(true), path);
        let out = ranks.is_first().then(append).transpose();
        let out = out.with_context(|| format!("{}: cannot be written", path.display()))?;
        let file = Some(StoreFile { path: path.to_owned(), out });
        Ok(Self { samples, file, notes })
    }

    /// The samples of a problem, at most the first `n`.
    pub(crate) fn first(&mut self, problem: &str, n: usize) -> &mut [Sample] {
        let samples = self.samples.get_mut(problem).map(Vec::as_mut_slice).unwrap_or_default();
        let count = n.min(samples.len());
        &mut samples[..count]
    }

    /// How many samples the file has that an evaluation of the first `n` of each of these problems does not count.
    pub fn uncounted(&self, problems: &[Problem], n: usize) -> usize {
        let all: usize = self.samples.values().map(Vec::len).sum();
        let of =
            |problem: &Problem| self.samples.get(&problem.id).map_or(0, |all| all.len().min(n));
        all - problems.iter().map(of).sum::<usize>().min(all)
    }

    /// Appends samples of one problem in one write: a crash leaves whole problems and at most one broken line.
    pub(crate) fn append(&mut self, samples: &[Sample]) -> Result<()> {
        let Some(StoreFile { path, out: Some(out) }) = &mut self.file else { return Ok(()) };
        let mut lines = Vec::new();
        for sample in samples {
            lines.extend(sample.line()?);
            self.samples.entry(sample.problem.clone()).or_default().push(sample.clone());
        }
        out.write_all(&lines).with_context(|| format!("{}: cannot be written", path.display()))
    }

    /// Writes the file once more, in the order of the problems and with the verdicts of today.
    pub(crate) fn close(self, problems: &[Problem], ranks: &Ranks) -> Result<()> {
        let Some(StoreFile { path, out }) = self.file else { return Ok(()) };
        // Windows puts no other file in the place of an open one.
        drop(out);
        ranks.first(|| write_in_order(&path, problems, &self.samples))
    }
}

/// The contents of a samples file.
#[derive(Debug, Default)]
pub struct SamplesFile {
    /// The samples of each problem, in order, by its id.
    pub problems: HashMap<String, Vec<Sample>>,
    /// Lines and problems that were left out, each with the reason.
    pub notes: Vec<String>,
}

/// Reads all of a samples file.
///
/// # Errors
/// A file that cannot be read, a malformed line that is not the last, the same sample twice.
pub fn read(path: &Path) -> Result<SamplesFile> {
    let mut index = Index::open(path)?;
    let notes = std::mem::take(&mut index.notes);
    let read = |id: &String| Ok((id.clone(), index.samples(id)?));
    Ok(SamplesFile { problems: index.problems().map(read).collect::<Result<_>>()?, notes })
}

/// Writes samples beside `path`, synced and renamed: never half a file.
pub fn write<'a>(path: &Path, samples: impl Iterator<Item = &'a Sample>) -> Result<()> {
    whole(path, |out| {
        samples.into_iter().try_for_each(|sample| Ok(out.write_all(&sample.line()?)?))
    })
}

/// Writes a file likewise.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    whole(path, |out| Ok(out.write_all(bytes)?))
}

fn whole(path: &Path, fill: impl FnOnce(&mut BufWriter<&File>) -> Result<()>) -> Result<()> {
    let describe = || format!("{}: cannot be written", path.display());
    let part = Part::create(path)?;
    let mut out = BufWriter::new(part.file());
    fill(&mut out).with_context(describe)?;
    out.flush().with_context(describe)?;
    drop(out);
    part.finish()
}

/// Writes samples in the order of `problems`, then those of other problems.
fn write_in_order(
    file: &Path,
    problems: &[Problem],
    samples: &HashMap<String, Vec<Sample>>,
) -> Result<()> {
    let mut ids: Vec<&String> = problems.iter().map(|problem| &problem.id).collect();
    let known: HashSet<&String> = ids.iter().copied().collect();
    let mut others: Vec<&String> = samples.keys().filter(|id| !known.contains(id)).collect();
    others.sort();
    ids.extend(others);
    write(file, ids.into_iter().filter_map(|id| samples.get(id)).flatten())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;
    use tealight_datasets::Verdict;

    fn sample(problem: &str, number: usize) -> Sample {
        Sample { problem: problem.into(), ..fixtures::sample(number, "x", Verdict::wrong()) }
    }

    #[test]
    fn a_line_cut_off_by_a_crash_is_reported() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s.jsonl");
        let samples = [sample("a", 0), sample("a", 1), sample("b", 0)];
        write(&path, samples.iter()).unwrap();
        let mut text = std::fs::read_to_string(&path).unwrap();
        text.push_str("{\"problem\":\"b\",\"sam");
        std::fs::write(&path, &text).unwrap();
        let stored = read(&path).unwrap();
        assert_eq!((stored.problems["a"].len(), stored.problems["b"].len()), (2, 1));
        assert_eq!(stored.problems["a"], samples[..2], "read where they stand");
        assert!(stored.notes[0].contains(":4"));
        write(&path, [sample("a", 0), sample("a", 2)].iter()).unwrap();
        let stored = read(&path).unwrap();
        assert_eq!(stored.problems["a"].len(), 1);
        assert!(stored.notes[0].contains("lacks its sample 1"));
        // In the middle it is an error, and so is a second copy.
        std::fs::write(&path, "{oops}\n{}\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("s.jsonl:1"));
        write(&path, [sample("a", 0), sample("a", 0)].iter()).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("s.jsonl:2: sample 0"));
    }
}
