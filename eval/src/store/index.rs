//! Where the samples of each problem stand in a file.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result, bail};
use tealight_core::lines::Lines;
use tealight_core::regular;

use crate::Sample;

/// Where the samples of each problem stand in a file, to be read one problem at a time: some bytes for each run of
/// lines, however many and however long they are.
#[derive(Debug)]
pub struct Index {
    path: PathBuf,
    file: Mutex<File>,
    problems: HashMap<String, Vec<Run>>,
    /// Lines and problems that were left out, each with the reason.
    pub notes: Vec<String>,
}

/// Lines that stand one after the other, of samples whose numbers follow each other.
#[derive(Debug, Clone, Copy)]
struct Run {
    offset: u64,
    /// Its bytes, with all line feeds.
    length: u32,
    /// The number of the first sample.
    first: u32,
    count: u32,
}

impl Run {
    /// Most bytes of a run of several lines.
    const MOST: usize = 1 << 20;

    fn end(&self) -> usize {
        self.first as usize + self.count as usize
    }
}

/// The index of a file while its lines are written or read.
#[derive(Debug, Default)]
pub(super) struct IndexBuilder {
    problems: HashMap<String, Vec<Run>>,
}

impl IndexBuilder {
    /// Adds a line of `length` bytes, its line feed included, that begins after `offset` bytes.
    pub(super) fn add(
        &mut self,
        problem: &str,
        sample: usize,
        offset: u64,
        length: usize,
    ) -> Result<()> {
        let first =
            u32::try_from(sample).with_context(|| format!("a sample of number {sample}"))?;
        let runs = match self.problems.get_mut(problem) {
            Some(runs) => runs,
            None => self.problems.entry(problem.to_owned()).or_default(),
        };
        if let Some(run) = runs.last_mut()
            && (run.offset + u64::from(run.length), run.end()) == (offset, sample)
            && run.length as usize + length <= Run::MOST
        {
            run.length += length as u32;
            run.count += 1;
            return Ok(());
        }
        // A line has at most 64 MiB.
        runs.push(Run { offset, length: length as u32, first, count: 1 });
        Ok(())
    }

    /// The index of the file at `path`. Of a problem of which samples are missing in between, those before the gap are
    /// kept, which is noted.
    pub(super) fn finish(self, path: &Path) -> Result<Index> {
        let file = regular::open(path).with_context(|| path.display().to_string())?;
        let (file, notes) = (Mutex::new(file), Vec::new());
        let mut index = Index { path: path.into(), file, problems: self.problems, notes };
        for (problem, runs) in &mut index.problems {
            runs.sort_by_key(|run| run.first);
            if runs.windows(2).any(|two| two[0].end() > two[1].first as usize) {
                return Err(repeated(path));
            }
            let mut complete = 0;
            let is_next = |run: &&Run| {
                let is_next = run.first as usize == complete;
                complete = run.end();
                is_next
            };
            let contiguous = runs.iter().take_while(is_next).count();
            if contiguous < runs.len() {
                let complete = runs[..contiguous].last().map_or(0, Run::end);
                index.notes.push(format!(
                    "{}: problem `{problem}` lacks its sample {complete}; what comes after it is drawn again",
                    path.display(),
                ));
                runs.truncate(contiguous);
            }
            runs.shrink_to_fit();
        }
        Ok(index)
    }
}

impl Index {
    /// Finds the samples of a file. A last line that a crash cut off is left out, and noted; of a problem of which
    /// samples are missing in between, those before the gap are kept.
    ///
    /// # Errors
    /// A file that cannot be read, a malformed line that is not the last, the same sample twice.
    pub fn open(path: &Path) -> Result<Self> {
        let file = regular::open(path).with_context(|| format!("{}", path.display()))?;
        let (mut builder, mut notes) = (IndexBuilder::default(), Vec::new());
        for line in Lines::new(BufReader::with_capacity(1 << 20, file)) {
            let line = line.with_context(|| path.display().to_string())?;
            let at = || format!("{}:{}", path.display(), line.number);
            match serde_json::from_slice(&line.bytes) {
                Ok(Sample { problem, sample, .. }) => {
                    let length = line.bytes.len() + 1;
                    builder.add(&problem, sample, line.offset, length).with_context(at)?;
                }
                Err(_) if !line.is_whole => notes.push(format!(
                    "{}: the last line was cut off by a crash and is left out",
                    at()
                )),
                Err(error) => bail!("{}: not a sample: {error}", at()),
            }
        }
        let mut index = builder.finish(path)?;
        notes.append(&mut index.notes);
        Ok(Self { notes, ..index })
    }

    /// The ids of the problems that have samples, in no order.
    pub fn problems(&self) -> impl Iterator<Item = &String> {
        self.problems.keys()
    }

    /// Gives some problems other names.
    pub fn rename(&mut self, names: &HashMap<String, String>) {
        let named = |(id, runs): (String, Vec<Run>)| (names.get(&id).cloned().unwrap_or(id), runs);
        // Two problems never have one name: those that others take theirs from go first.
        let (taken, others): (HashMap<_, _>, HashMap<_, _>) =
            self.problems.drain().partition(|(id, _)| names.contains_key(id));
        self.problems = others.into_iter().chain(taken.into_iter().map(named)).collect();
    }

    /// The samples of a problem, in order; none of one that is not there.
    ///
    /// # Errors
    /// A file that cannot be read any more, or has changed.
    pub fn samples(&self, problem: &str) -> Result<Vec<Sample>> {
        let runs = self.problems.get(problem).map(Vec::as_slice).unwrap_or_default();
        let mut samples = Vec::with_capacity(runs.iter().map(|run| run.count as usize).sum());
        let mut read = |run: &Run| -> Result<()> {
            let mut bytes = Vec::with_capacity(run.length as usize);
            {
                let mut file = self.file.lock().expect("no panic while the lock is held");
                file.seek(SeekFrom::Start(run.offset))?;
                // The last line of a file may have no line feed.
                (&*file).take(u64::from(run.length)).read_to_end(&mut bytes)?;
            }
            for line in bytes.split_inclusive(|byte| *byte == b'\n') {
                samples.push(serde_json::from_slice(line)?);
            }
            if samples.len() != run.end() {
                bail!("it has changed");
            }
            Ok(())
        };
        let changed = || format!("{}: cannot be read a second time", self.path.display());
        runs.iter().try_for_each(&mut read).with_context(changed)?;
        Ok(samples)
    }
}

/// Names the first line of a file whose sample stood before.
fn repeated(path: &Path) -> anyhow::Error {
    let find = || -> Result<Option<(usize, Sample)>> {
        let mut known = HashSet::new();
        for line in Lines::new(BufReader::with_capacity(1 << 20, regular::open(path)?)) {
            let line = line?;
            let Ok(sample) = serde_json::from_slice::<Sample>(&line.bytes) else { continue };
            if !known.insert((sample.problem.clone(), sample.sample)) {
                return Ok(Some((line.number, sample)));
            }
        }
        Ok(None)
    };
    match find() {
        Ok(Some((number, Sample { problem, sample, .. }))) => anyhow::anyhow!(
            "{}:{number}: sample {sample} of problem `{problem}` stands here a second time",
            path.display()
        ),
        Ok(None) => anyhow::anyhow!("{}: cannot be read a second time", path.display()),
        Err(error) => error.context(path.display().to_string()),
    }
}
