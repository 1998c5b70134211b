//! Directories that commands write to: whether one is free, and what may be done about it.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde::Deserialize;
use serde::de::IgnoredAny;
use tealight_core::json_file;
use tealight_core::names::list;
use tealight_core::run_folder::{self, BEST, CHECKPOINT, FINAL, METRICS};
use tealight_eval::results::MAX_RESULTS;
use tempfile::TempDir;

use crate::app::recorded_settings::is_record;
use tealight_system::claim::{Claim, OWNER};
use tealight_system::files::{MAX_SMALL, TEMPORARY, read_limited};
use tealight_system::stop::Stop;
use tealight_system::telemetry::ReportTo;

pub(crate) use tealight_eval::report::shell_argument as as_argument;

/// The files of commands, which --overwrite removes.
const OURS: [&str; 24] = list(
    "config.toml|request.json|latest|best.json|evals.jsonl|base|base-second|samples|presamples|\
     presamples.json|presamples.jsonl|completions|tuning|report-data|results.json|results.csv|results.md|\
     report.html|summary.json|compare.json|audit.json|gap.json|projection|paper.html",
);
/// How the names of others begin.
const NUMBERED: [&str; 4] = [CHECKPOINT, ".checkpoint-", "presamples-seed", "ascent-from-"];

/// Why a directory cannot be written to: a caller can choose another one, or [`Existing::Replace`]. It is found in the
/// error of a function of [`crate::app`] by `downcast_ref`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DirectoryError {
    /// The path names a file.
    #[error("{}: --output is a directory, and this is a file", path.display())]
    IsFile {
        /// The directory.
        path: PathBuf,
    },
    /// It holds files that would be lost.
    #[error(
        "{}: holds files already ({names}); choose another --output, or replace what Tealight wrote there with --overwrite",
        path.display()
    )]
    Taken {
        /// The directory.
        path: PathBuf,
        /// The first names in it.
        names: String,
    },
    /// It holds files that Tealight did not write.
    #[error(
        "{}: Tealight did not write what is here ({names}), and --overwrite replaces only its own; choose another --output",
        path.display()
    )]
    NotOurs {
        /// The directory.
        path: PathBuf,
        /// The first names in it.
        names: String,
    },
}

/// The treatment of files that Tealight wrote to a directory before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Existing {
    /// They stay: a command that would lose them fails.
    #[default]
    Keep,
    /// They are removed, once everything that the command begins from has been read.
    Replace,
}

impl Existing {
    /// The treatment that `--overwrite` asks for.
    pub(crate) fn from_flag(overwrites: bool) -> Self {
        if overwrites { Existing::Replace } else { Existing::Keep }
    }
}

/// How a run begins in its directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Start {
    /// Anew, in a directory that holds nothing.
    #[default]
    New,
    /// Anew; the files of an earlier run are removed.
    Replace,
    /// From the checkpoint of this name, from the newest one where the name is empty, or from the beginning where the
    /// run has none yet.
    Resume(String),
}

impl Start {
    /// The treatment of files that are in the directory.
    pub fn existing(&self) -> Existing {
        match self {
            Start::Replace => Existing::Replace,
            Start::New | Start::Resume(_) => Existing::Keep,
        }
    }
}

/// The directory of a run and how the run begins there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunDirectory {
    /// The directory.
    pub path: PathBuf,
    /// How the run begins.
    pub start: Start,
}

impl RunDirectory {
    /// A run that begins anew.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), start: Start::New }
    }

    /// The directory, where it is not replaced: what a run recorded there then holds for this one.
    pub(crate) fn unreplaced(&self) -> Option<&Path> {
        Some(self.path.as_path()).filter(|_| self.start != Start::Replace)
    }
}

/// The directory that a command writes to: the one that was named, or one that is removed at the end.
pub(crate) struct Destination {
    path: PathBuf,
    temporary: Option<TempDir>,
}

impl Destination {
    /// Refuses [`Existing::Replace`] with nothing to replace: to be called before anything is loaded.
    pub(crate) fn check(named: Option<&Path>, existing: Existing) -> Result<()> {
        if named.is_none() && existing == Existing::Replace {
            bail!("--overwrite has no effect without --output DIR");
        }
        Ok(())
    }

    /// The directory that `named` names; without it a temporary one, which `stop` removes where a signal ends the
    /// process at once. To be called when everything has been loaded: a signal then no longer ends the process at once.
    pub(crate) fn resolve(named: Option<&Path>, stop: &Stop) -> Result<Self> {
        if let Some(path) = named {
            return Ok(Self { path: path.to_owned(), temporary: None });
        }
        let temporary = tempfile::Builder::new().prefix("tealight-").tempdir();
        let temporary = temporary.with_context(|| {
            let folder = std::env::temp_dir();
            format!(
                "{}: no room for samples in the temporary folder (TMPDIR); name --output DIR",
                folder.display()
            )
        })?;
        stop.removes(temporary.path());
        Ok(Self { path: temporary.path().to_owned(), temporary: Some(temporary) })
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory remains after the command.
    pub(crate) fn is_saved(&self) -> bool {
        self.temporary.is_none()
    }
}

/// Whether `output` holds nothing that would be lost: it is not there, is empty, or has settings and empty files alone.
pub(crate) fn is_free(output: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(output) else { return !output.exists() };
    entries.flatten().all(|entry| {
        let path = entry.path();
        match entry.metadata() {
            // What a killed process left half-written goes when the directory is claimed.
            Ok(_) if entry.file_name().to_string_lossy().starts_with(TEMPORARY) => true,
            Ok(kind) if kind.is_dir() => is_free(&path),
            Ok(kind) => kind.len() == 0 || is_settings(&path),
            Err(_) => false,
        }
    })
}

/// Whether a file is one that a command of Tealight's leaves before it has produced anything: settings, and the lock.
fn is_settings(path: &Path) -> bool {
    match path.file_name().and_then(OsStr::to_str) {
        Some(".lock") => true,
        Some("request.json") => json_file::read::<Request>(path, MAX_RESULTS).is_ok(),
        Some("config.toml") => read_limited(path, MAX_SMALL).is_ok_and(|text| is_record(&text)),
        _ => false,
    }
}

/// Takes a directory for a new run, as far as [`check`] allows. Nothing is written or removed yet: see [`begin`].
pub(crate) fn fresh(output: &Path, existing: Existing) -> Result<Claim> {
    check(output, existing)?;
    Claim::take(output)
}

/// Refuses a directory that holds anything, unless it may be replaced and a command of Tealight's wrote it.
pub(crate) fn check(output: &Path, existing: Existing) -> Result<()> {
    let path = output.to_owned();
    if output.exists() && !output.is_dir() {
        return Err(DirectoryError::IsFile { path }.into());
    }
    if is_free(output) {
        return Ok(());
    }
    let names = listed(output);
    if existing == Existing::Keep {
        return Err(DirectoryError::Taken { path, names }.into());
    }
    // A command would write its settings over those of somebody else.
    let config = output.join("config.toml");
    if !is_ours(output) || config.exists() && !is_settings(&config) {
        return Err(DirectoryError::NotOurs { path, names }.into());
    }
    Ok(())
}

/// What results say of the program that wrote them.
#[derive(Deserialize)]
struct Maker {
    #[serde(rename = "tealight")]
    _revision: String,
}

/// What the request of an evaluation has, and no other file of this name.
#[derive(Deserialize)]
struct Request {
    #[serde(rename = "max_completion_length")]
    _length: usize,
    #[serde(rename = "sets")]
    _sets: IgnoredAny,
}

/// Whether a command of Tealight's wrote `output`, by what it records there.
fn is_ours(output: &Path) -> bool {
    // A killed command may have left no more than its lock.
    let lock = read_limited(&output.join(".lock"), MAX_SMALL).unwrap_or_default();
    is_settings(&output.join("config.toml"))
        || json_file::read::<Maker>(&output.join("results.json"), MAX_RESULTS).is_ok()
        || lock.starts_with(OWNER.as_bytes())
}

/// Whether `folder` has what a run of a study leaves, finished or not.
fn is_run(folder: &Path) -> bool {
    ["config.toml", METRICS, FINAL, "path"].iter().any(|name| folder.join(name).exists())
}

/// The first names in a directory.
fn listed(output: &Path) -> String {
    let entries = std::fs::read_dir(output).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| !is_settings(&entry.path()))
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    let more = if names.len() > 3 { ", ..." } else { "" };
    names.truncate(3);
    names.join(", ") + more
}

/// Refuses to replace a training run by results: a model in it may be the one that was evaluated.
pub(crate) fn refuse_run(output: &Path, existing: Existing) -> Result<()> {
    let entries = std::fs::read_dir(output).into_iter().flatten().flatten();
    let is_of_run = |name: &str| name == METRICS || run_folder::is_model(name);
    let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.find(|name| is_of_run(name)) {
        Some(name) if existing == Existing::Replace => bail!(
            "{}: contains a training run ({name}); --overwrite does not replace training runs with results; choose \
             another --output",
            output.display()
        ),
        _ => Ok(()),
    }
}

/// Refuses to replace a directory that holds what the command reads: the result would name files that are gone.
pub(crate) fn refuse_inside<'a>(
    output: &Path,
    existing: Existing,
    inputs: impl Iterator<Item = &'a Path>,
) -> Result<()> {
    match first_inside(output, inputs) {
        Some(input) if existing == Existing::Replace => bail!(
            "{}: --overwrite would remove {}, which this command reads; choose another --output",
            output.display(),
            input.display()
        ),
        _ => Ok(()),
    }
}

/// The first of some paths that lies in a directory, or is it.
pub(crate) fn first_inside<'a>(
    output: &Path,
    mut inputs: impl Iterator<Item = &'a Path>,
) -> Option<&'a Path> {
    let place = output.canonicalize().ok()?;
    inputs.find(|input| input.canonicalize().is_ok_and(|input| input.starts_with(&place)))
}

/// Begins to write to a directory that this process has taken, and removes what Tealight wrote there where that is
/// asked for. To be called when everything that a command was given has been accepted, so that a refusal costs nothing.
pub(crate) fn begin(claim: Option<&Claim>, output: &Path, existing: Existing) -> Result<()> {
    claim.map_or(Ok(()), Claim::accept)?;
    clear(output, existing)
}

/// Removes what Tealight writes, where that is asked for; other files stay.
fn clear(output: &Path, existing: Existing) -> Result<()> {
    if existing == Existing::Keep {
        return Ok(());
    }
    for entry in std::fs::read_dir(output)?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_metrics = |target: &ReportTo| target.folder() == Some(name.as_str());
        let is_ours = OURS.contains(&name.as_str())
            || [METRICS, FINAL, BEST].contains(&name.as_str())
            || ReportTo::value_variants().iter().any(is_metrics)
            || NUMBERED.iter().any(|start| name.starts_with(start))
            || (name.contains("-seed") && is_run(&entry.path()));
        if is_ours {
            let removed = match entry.path().is_dir() {
                true => std::fs::remove_dir_all(entry.path()),
                false => std::fs::remove_file(entry.path()),
            };
            removed.with_context(|| entry.path().display().to_string())?;
        }
    }
    Ok(())
}

/// `base`, or `base-2`, `base-3`, ... where it is not free.
pub(crate) fn next_free(base: &Path) -> PathBuf {
    let numbered = |number: usize| match number {
        1 => base.to_owned(),
        _ => PathBuf::from(format!("{}-{number}", base.display())),
    };
    (1..).map(numbered).find(|path| is_free(path)).expect("numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_directories_are_used_and_full_ones_kept() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("run");
        assert!(is_free(&output));
        std::fs::create_dir_all(output.join("samples")).unwrap();
        std::fs::write(output.join("config.toml"), "# tealight 0.1.0, revision 1\na = 1").unwrap();
        std::fs::write(output.join("metrics.jsonl"), "").unwrap();
        assert!(is_free(&output) && fresh(&output, Existing::Keep).is_ok());
        std::fs::write(output.join("metrics.jsonl"), "{}\n").unwrap();
        std::fs::write(output.join("thesis.tex"), "x").unwrap();
        let message = fresh(&output, Existing::Keep).unwrap_err().to_string();
        assert!(message.contains("metrics.jsonl, samples, thesis.tex"), "{message}");
        assert_eq!(next_free(&output), folder.path().join("run-2"));
        std::fs::write(output.join("config.toml"), "a = 1").unwrap();
        let message = fresh(&output, Existing::Replace).unwrap_err().to_string();
        assert!(message.contains("did not write what is here (config.toml, metrics"), "{message}");
        std::fs::write(output.join(".lock"), OWNER).unwrap();
        assert!(fresh(&output, Existing::Replace).is_err(), "its config.toml is somebody else's");
        std::fs::write(output.join("config.toml"), "# tealight 0.1.0, revision 1\n").unwrap();
        drop(fresh(&output, Existing::Replace).unwrap());
        assert!(output.join("metrics.jsonl").exists(), "nothing is removed before it has to be");
        clear(&output, Existing::Replace).unwrap();
        assert!(!output.join("metrics.jsonl").exists() && output.join("thesis.tex").exists());
        for (run, what) in [("js-seed0", "metrics.jsonl"), ("my-seeds", "plants.txt")] {
            std::fs::create_dir_all(output.join(run)).unwrap();
            std::fs::write(output.join(run).join(what), "").unwrap();
        }
        clear(&output, Existing::Replace).unwrap();
        assert!(!output.join("js-seed0").exists() && output.join("my-seeds").exists());
        // A command that was killed early leaves its lock, which says who made the folder.
        let dead = folder.path().join("killed");
        let claim = fresh(&dead, Existing::Keep).unwrap();
        claim.accept().unwrap();
        std::fs::write(dead.join("model.safetensors"), "x").unwrap();
        drop(claim);
        assert!(fresh(&dead, Existing::Keep).is_err() && fresh(&dead, Existing::Replace).is_ok());
    }
}
