//! Samples on disk: appended problem by problem, read again after a crash.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};
use tealight_datasets::Dataset;
use tealight_datasets::lines::Lines;

use crate::Sample;

/// What a samples file holds.
#[derive(Debug, Default)]
pub struct Stored {
    /// The samples of each problem, in order, by its id.
    pub problems: HashMap<String, Vec<Sample>>,
    /// Lines and problems that were left out, each with the reason.
    pub notes: Vec<String>,
}

/// Reads a samples file. A last line that a crash cut off is left out, and noted; of a problem of which samples are
/// missing in between, those before the gap are kept.
///
/// # Errors
/// A file that cannot be read, a malformed line that is not the last, the same sample twice.
pub fn read(path: &Path) -> Result<Stored> {
    let mut stored = Stored::default();
    let mut seen: HashSet<(String, usize)> = HashSet::new();
    let file = File::open(path).with_context(|| format!("{}", path.display()))?;
    for line in Lines::new(BufReader::new(file)) {
        let line = line.with_context(|| path.display().to_string())?;
        let number = line.number;
        match serde_json::from_slice::<Sample>(&line.bytes) {
            Ok(sample) => {
                if !seen.insert((sample.problem.clone(), sample.sample)) {
                    bail!(
                        "{}:{number}: sample {} of problem `{}` stands here a second time",
                        path.display(),
                        sample.sample,
                        sample.problem
                    );
                }
                stored.problems.entry(sample.problem.clone()).or_default().push(sample);
            }
            Err(_) if !line.is_whole => {
                stored.notes.push(format!(
                    "{}:{number}: the last line was cut off by a crash and is left out",
                    path.display()
                ));
            }
            Err(error) => bail!("{}:{number}: not a sample: {error}", path.display()),
        }
    }
    for samples in stored.problems.values_mut() {
        samples.sort_by_key(|sample| sample.sample);
        let whole =
            samples.iter().enumerate().take_while(|(i, sample)| *i == sample.sample).count();
        if whole < samples.len() {
            stored.notes.push(format!(
                "{}: problem `{}` lacks its sample {whole}; what comes after it is drawn again",
                path.display(),
                samples[0].problem
            ));
            samples.truncate(whole);
        }
    }
    Ok(stored)
}

/// Writes samples beside `path`, synced and renamed: never half a file.
///
/// # Errors
/// A directory that cannot be written, a full disk.
pub fn write<'a>(path: &Path, samples: impl Iterator<Item = &'a Sample>) -> Result<()> {
    whole(path, |out| {
        for sample in samples {
            serde_json::to_writer(&mut *out, sample)?;
            out.write_all(b"\n")?;
        }
        Ok(())
    })
}

/// Writes a file likewise.
///
/// # Errors
/// A directory that cannot be written, a full disk.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    whole(path, |out| out.write_all(bytes))
}

fn whole(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".part");
    let describe = || format!("{}: cannot be written", path.display());
    let mut out = BufWriter::new(File::create(&temporary).with_context(describe)?);
    fill(&mut out).with_context(describe)?;
    let file = out.into_inner().map_err(|error| error.into_error()).with_context(describe)?;
    file.sync_all().with_context(describe)?;
    std::fs::rename(&temporary, path).with_context(describe)
}

/// Writes samples in the dataset's order, then those of problems that it leaves out.
///
/// # Errors
/// See [`write()`].
pub fn write_in_order(
    file: &Path,
    dataset: &Dataset,
    samples: &HashMap<String, Vec<Sample>>,
) -> Result<()> {
    let mut ids: Vec<&String> = dataset.problems.iter().map(|problem| &problem.id).collect();
    let asked: HashSet<&String> = ids.iter().copied().collect();
    let mut others: Vec<&String> = samples.keys().filter(|id| !asked.contains(id)).collect();
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
            is_finished: true,
            tokens: 1,
            logp: None,
            failure: None,
            thinking: None,
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
        assert!(stored.notes[0].contains(":4"));
        write(&path, [sample("a", 0), sample("a", 2)].iter()).unwrap();
        let stored = read(&path).unwrap();
        assert_eq!(stored.problems["a"].len(), 1);
        assert!(stored.notes[0].contains("lacks its sample 1"));
        // In the middle it is an error, and so is a second copy.
        std::fs::write(&path, "{oops}\n{}\n").unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("s.jsonl:1"));
        write(&path, [sample("a", 0), sample("a", 0)].iter()).unwrap();
        assert!(read(&path).unwrap_err().to_string().contains("second time"));
    }
}
