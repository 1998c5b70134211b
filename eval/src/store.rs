//! Samples on disk: appended problem by problem, read again after a crash.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use tealight_datasets::lines::Lines;
use tealight_datasets::{Problem, output, regular};

use crate::Sample;
use crate::team::Team;

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
    /// Where samples are appended; only the first process of a team writes.
    out: Option<File>,
}

impl SampleStore {
    /// Starts an empty file.
    pub fn create(path: &Path, team: &dyn Team) -> Result<Self> {
        let out = team.is_first().then(|| output::create(path)).transpose();
        let out = out.with_context(|| format!("{}: cannot be written", path.display()))?;
        let file = Some(StoreFile { path: path.to_owned(), out });
        Ok(Self { file, ..Self::default() })
    }

    /// Continues the file at `path`, or starts one. Samples that a crash left without those before them leave the file.
    ///
    /// # Errors
    /// A file that cannot be read or written, a malformed line that is not the last, the same sample twice.
    pub fn open(path: &Path, problems: &[Problem], team: &dyn Team) -> Result<Self> {
        if !team.on_first(&mut || Ok(path.exists()))? {
            return Self::create(path, team);
        }
        let SamplesFile { problems: samples, notes } = read(path)?;
        // No process may still be reading when the first one writes the file again.
        team.on_first(&mut || Ok(true))?;
        team.on_first(&mut || write_in_order(path, problems, &samples).map(|()| true))?;
        let append = || output::open(OpenOptions::new().append(true).create(true), path);
        let out = team.is_first().then(append).transpose();
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

    /// Appends samples of one problem in one write: a crash leaves whole problems and at most one broken line.
    pub(crate) fn append(&mut self, samples: &[Sample]) -> Result<()> {
        let Some(StoreFile { path, out: Some(out) }) = &mut self.file else { return Ok(()) };
        let mut lines = Vec::new();
        for sample in samples {
            serde_json::to_writer(&mut lines, sample)?;
            lines.push(b'\n');
            self.samples.entry(sample.problem.clone()).or_default().push(sample.clone());
        }
        out.write_all(&lines).with_context(|| format!("{}: cannot be written", path.display()))
    }

    /// Writes the file once more, in the order of the problems and with the verdicts of today.
    pub(crate) fn close(self, problems: &[Problem], team: &dyn Team) -> Result<()> {
        let Some(StoreFile { path, out }) = self.file else { return Ok(()) };
        // Windows puts no other file in the place of an open one.
        drop(out);
        team.on_first(&mut || write_in_order(&path, problems, &self.samples).map(|()| true))?;
        Ok(())
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

/// Where the samples of each problem stand in a file, to be read one problem at a time: sixteen bytes a sample, however
/// long it is.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    file: Mutex<File>,
    problems: HashMap<String, Vec<LineSpan>>,
    /// Lines and problems that were left out, each with the reason.
    pub notes: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct LineSpan {
    offset: u64,
    sample: u32,
    length: u32,
}

impl Index {
    /// Finds the samples of a file. A last line that a crash cut off is left out, and noted; of a problem of which
    /// samples are missing in between, those before the gap are kept.
    ///
    /// # Errors
    /// A file that cannot be read, a malformed line that is not the last, the same sample twice.
    pub fn open(path: &Path) -> Result<Self> {
        let file = regular::open(path).with_context(|| format!("{}", path.display()))?;
        let mut store = Self {
            path: path.into(),
            file: Mutex::new(file.try_clone().with_context(|| format!("{}", path.display()))?),
            problems: HashMap::new(),
            notes: Vec::new(),
        };
        for line in Lines::new(BufReader::with_capacity(1 << 20, file)) {
            let line = line.with_context(|| path.display().to_string())?;
            let number = line.number;
            match serde_json::from_slice::<Sample>(&line.bytes) {
                Ok(Sample { problem, sample, .. }) => {
                    let sample = u32::try_from(sample).with_context(|| {
                        format!("{}:{number}: a sample of number {sample}", path.display())
                    })?;
                    // A line has at most 64 MiB.
                    let place =
                        LineSpan { offset: line.offset, sample, length: line.bytes.len() as u32 };
                    store.problems.entry(problem).or_default().push(place);
                }
                Err(_) if !line.is_whole => store.notes.push(format!(
                    "{}:{number}: the last line was cut off by a crash and is left out",
                    path.display()
                )),
                Err(error) => bail!("{}:{number}: not a sample: {error}", path.display()),
            }
        }
        // The first line of the file that says again what one before it said.
        let mut again: Option<(LineSpan, &str)> = None;
        for (problem, places) in &mut store.problems {
            places.sort_by_key(|place| place.sample);
            for two in places.windows(2).filter(|two| two[0].sample == two[1].sample) {
                if again.is_none_or(|(first, _)| two[1].offset < first.offset) {
                    again = Some((two[1], problem.as_str()));
                }
            }
            let complete =
                places.iter().zip(0..).take_while(|(place, at)| place.sample == *at).count();
            if complete < places.len() {
                store.notes.push(format!(
                    "{}: problem `{problem}` lacks its sample {complete}; what comes after it is drawn again",
                    path.display(),
                ));
                places.truncate(complete);
            }
        }
        if let Some((LineSpan { offset, sample, .. }, problem)) = again {
            bail!(
                "{}:{}: sample {sample} of problem `{problem}` stands here a second time",
                path.display(),
                line_at(path, offset)?
            );
        }
        Ok(store)
    }

    /// The ids of the problems that have samples, in no order.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.problems.keys()
    }

    /// The samples of a problem, in order; none of one that is not there.
    ///
    /// # Errors
    /// A file that cannot be read any more, or has changed.
    pub fn samples(&self, problem: &str) -> Result<Vec<Sample>> {
        let places = self.problems.get(problem).map(Vec::as_slice).unwrap_or_default();
        let changed = || format!("{}: cannot be read a second time", self.path.display());
        let read = |place: &LineSpan| -> Result<Sample> {
            let mut bytes = vec![0; place.length as usize];
            {
                let mut file = self.file.lock().expect("no panic while the lock is held");
                file.seek(SeekFrom::Start(place.offset))?;
                file.read_exact(&mut bytes)?;
            }
            Ok(serde_json::from_slice(&bytes)?)
        };
        places.iter().map(read).collect::<Result<_>>().with_context(changed)
    }
}

/// The number, counted from 1, of the line that begins after so many bytes.
fn line_at(path: &Path, offset: u64) -> Result<usize> {
    let before = BufReader::new(regular::open(path)?).take(offset);
    Ok(1 + before.split(b'\n').count())
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
        for sample in samples {
            serde_json::to_writer(&mut *out, sample)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// Writes lines of text likewise.
pub fn write_lines(path: &Path, lines: impl Iterator<Item = Result<String>>) -> Result<()> {
    whole(path, |out| {
        for line in lines {
            writeln!(out, "{}", line?)?;
        }
        Ok(())
    })
}

/// Writes a file likewise.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    whole(path, |out| Ok(out.write_all(bytes)?))
}

fn whole(path: &Path, fill: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let describe = || format!("{}: cannot be written", path.display());
    let mut out = BufWriter::new(output::create(Path::new(&temporary)).with_context(describe)?);
    fill(&mut out).with_context(describe)?;
    let file = out.into_inner().map_err(|error| error.into_error()).with_context(describe)?;
    file.sync_all().with_context(describe)?;
    // Windows renames no open file.
    drop(file);
    std::fs::rename(&temporary, path).with_context(describe)
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
    use tealight_datasets::Verdict;

    fn sample(problem: &str, number: usize) -> Sample {
        Sample {
            problem: problem.into(),
            sample: number,
            completion: "x".into(),
            verdict: Verdict::wrong(),
            reward: None,
            found: None,
            is_finished: true,
            is_end_unknown: false,
            tokens: 1,
            logp: None,
            failure: None,
            thinking: None,
            truncated: crate::Truncated::default(),
        }
    }

    #[test]
    fn what_a_crash_left_is_read_and_said() {
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
