//! A directory that one process writes at a time, by the file `.lock` in it. A command takes its directory early, so
//! that nobody waits for a model that could not be saved, and accepts what it was given later; one that is refused in
//! between leaves the directory as it was.

use std::cell::Cell;
use std::fs::{File, FileTimes, TryLockError};
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use tealight_core::{output, regular};

use crate::files::{TEMPORARY, writable_directory};

/// The text of a lock before the number of its process: who made the directory.
pub const OWNER: &str = "tealight ";
/// The name of a lock.
const LOCK: &str = ".lock";
/// Most bytes of a lock.
const MAX_LOCK: u64 = 64;

/// A directory that is taken; free again when this is dropped or the process ends.
#[derive(Debug)]
pub struct Claim {
    directory: PathBuf,
    /// The folders that were made for it, the innermost first.
    made: Vec<PathBuf>,
    before: Before,
    is_accepted: Cell<bool>,
    /// What killed processes were writing.
    leftovers: Vec<PathBuf>,
    /// What this wrote to the lock.
    text: String,
    /// The lock lasts as long as this file is open.
    lock: File,
}

/// The lock in a directory before it was taken.
#[derive(Debug)]
enum Before {
    Absent,
    /// It was not written to.
    Same,
    Earlier(String, Option<SystemTime>),
}

impl Drop for Claim {
    fn drop(&mut self) {
        // What cannot be removed or restored stays: it is in nobody's way.
        let path = self.directory.join(LOCK);
        let is_mine = self.has_lock();
        match (&self.before, self.is_accepted.get()) {
            (_, true) if has_more_than_a_lock(&self.directory) => return,
            (_, true) | (Before::Absent, false) if is_mine => drop(std::fs::remove_file(&path)),
            (Before::Earlier(text, time), false) if is_mine => {
                let _ = restore(&mut self.lock, text, *time);
            }
            _ => {}
        }
        // A folder in which something is stays.
        let _ = self.made.iter().try_for_each(std::fs::remove_dir);
    }
}

impl Claim {
    /// Makes `directory` where needed, checks that it can be written, and takes it.
    ///
    /// # Errors
    /// It cannot be made or written; another process has it; its `.lock` is another program's.
    pub fn take(directory: &Path) -> Result<Self> {
        let ancestors = directory.ancestors().filter(|path| !path.as_os_str().is_empty());
        let made = ancestors.take_while(|path| !path.exists()).map(Path::to_owned).collect();
        let path = directory.join(LOCK);
        let earlier = earlier_lock(&path)?;
        writable_directory(directory)?;
        // Whoever made the directory is named in its lock; a directory that others filled does not become ours.
        let was_empty = std::fs::read_dir(directory)?.next().is_none();
        let mut options = File::options();
        let lock = output::open(options.create(true).truncate(false).read(true).write(true), &path);
        let lock = lock.with_context(|| format!("{}: cannot be written", path.display()))?;
        let before = if earlier.is_some() { Before::Same } else { Before::Absent };
        let directory = directory.to_owned();
        let (is_accepted, leftovers) = (Cell::new(false), Vec::new());
        let text = String::new();
        let mut claim = Self { directory, made, before, is_accepted, leftovers, text, lock };
        match claim.lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Another process removes what it made.
                (claim.before, claim.made) = (Before::Same, Vec::new());
                let owner = earlier.unwrap_or_default();
                bail!(
                    "{}: another run is writing here (process {}); wait for it, or choose another --output",
                    claim.directory.display(),
                    owner.trim().trim_start_matches(OWNER)
                );
            }
            // A file system without locks: nothing to be sure of.
            Err(TryLockError::Error(_)) => return Ok(claim),
        }
        if !path.exists() {
            // Another process that was refused has removed its lock between its opening and its locking here.
            (claim.before, claim.made) = (Before::Same, Vec::new());
            let directory = claim.directory.clone();
            return Self::take(&directory);
        }
        claim.leftovers = leftovers_in(&claim.directory)?;
        let is_owner = |text: &String| text.starts_with(OWNER);
        let maker = if was_empty || earlier.as_ref().is_some_and(is_owner) { OWNER } else { "" };
        if let Some(text) = earlier {
            let time = claim.lock.metadata().and_then(|data| data.modified()).ok();
            claim.before = Before::Earlier(text, time);
        }
        claim.text = format!("{maker}{}", std::process::id());
        restore(&mut claim.lock, &claim.text, None)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(claim)
    }

    /// Goes on to write: everything that the command was given has been accepted. What killed processes were writing is
    /// removed.
    ///
    /// # Errors
    /// Leftovers that cannot be removed.
    pub fn accept(&self) -> Result<()> {
        self.is_accepted.set(true);
        self.leftovers.iter().try_for_each(|path| {
            let removed = match path.symlink_metadata().is_ok_and(|kind| kind.is_dir()) {
                true => std::fs::remove_dir_all(path),
                false => std::fs::remove_file(path),
            };
            removed.with_context(|| format!("{}: cannot be removed", path.display()))
        })
    }

    /// Whether the lock in the directory is this one: the same file, or one of the same text where a file system
    /// numbers files anew.
    fn has_lock(&self) -> bool {
        let path = self.directory.join(LOCK);
        let has_text = || {
            let text = regular::read_limited(&path, MAX_LOCK);
            text.is_ok_and(|text| text == self.text.as_bytes())
        };
        is_same_file(&self.lock, &path) || (!self.text.is_empty() && has_text())
    }

    /// Refuses to go on where the directory was removed or replaced: what was written is not in it.
    ///
    /// # Errors
    /// Another directory, or none, is in its place.
    pub fn check(&self) -> Result<()> {
        if self.has_lock() {
            return Ok(());
        }
        bail!(
            "{}: the output directory was deleted or replaced during the run, and its files are lost; start the \
             command again",
            self.directory.display()
        )
    }
}

/// The text of the lock in the place `path`, if there is one.
fn earlier_lock(path: &Path) -> Result<Option<String>> {
    if path.symlink_metadata().is_err() {
        return Ok(None);
    }
    let mut options = File::options();
    let file = output::open(options.read(true), path);
    let file = file.with_context(|| format!("{}: cannot be read", path.display()))?;
    let mut bytes = Vec::new();
    file.take(MAX_LOCK + 1).read_to_end(&mut bytes)?;
    let text = String::from_utf8(bytes).ok().filter(|text| is_lock(text));
    let foreign = || format!("{}: another program's file; choose another --output", path.display());
    Ok(Some(text.with_context(foreign)?))
}

/// Whether a lock of Tealight's has this text.
fn is_lock(text: &str) -> bool {
    text.strip_prefix(OWNER).unwrap_or(text).bytes().all(|byte| byte.is_ascii_digit())
}

/// Gives a lock another text, and an earlier time.
fn restore(lock: &mut File, text: &str, time: Option<SystemTime>) -> std::io::Result<()> {
    lock.set_len(0)?;
    lock.rewind()?;
    lock.write_all(text.as_bytes())?;
    time.map_or(Ok(()), |time| lock.set_times(FileTimes::new().set_modified(time)))
}

fn has_more_than_a_lock(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.flatten().any(|entry| entry.file_name() != LOCK)
}

#[cfg(unix)]
fn is_same_file(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let number = |data: std::fs::Metadata| (data.dev(), data.ino());
    let (open, there) = (file.metadata().map(number), path.symlink_metadata().map(number));
    open.is_ok_and(|open| there.is_ok_and(|there| there == open))
}

/// Elsewhere an open file cannot be removed.
#[cfg(not(unix))]
fn is_same_file(_: &File, path: &Path) -> bool {
    path.exists()
}

/// What killed processes were writing in a directory that this process has taken.
fn leftovers_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(directory)?.flatten();
    let is_temporary =
        |entry: &std::fs::DirEntry| entry.file_name().to_string_lossy().starts_with(TEMPORARY);
    Ok(entries.filter(is_temporary).map(|entry| entry.path()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_leaves_no_directory_in_which_nothing_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let (made, used) = (folder.path().join("made/below"), folder.path().join("used"));
        drop((Claim::take(&made).unwrap(), Claim::take(folder.path()).unwrap()));
        let claim = Claim::take(&made).unwrap();
        claim.accept().unwrap();
        drop(claim);
        assert!(!made.parent().unwrap().exists() && folder.path().exists());
        let claim = Claim::take(&used).unwrap();
        claim.accept().unwrap();
        std::fs::write(used.join("config.toml"), "").unwrap();
        drop(claim);
        assert!(used.join(LOCK).exists());
        // What others made stays, without the lock.
        let empty = folder.path().join("empty");
        std::fs::create_dir(&empty).unwrap();
        drop(Claim::take(&empty).unwrap());
        assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0);
    }

    #[test]
    fn a_claim_that_is_not_accepted_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join(LOCK);
        std::fs::write(folder.path().join("thesis.tex"), "x").unwrap();
        drop(Claim::take(folder.path()).unwrap());
        assert!(!lock.exists());
        for text in ["tealight 17", "17", ""] {
            std::fs::write(&lock, text).unwrap();
            let time = SystemTime::now() - std::time::Duration::from_secs(1000);
            File::options().write(true).open(&lock).unwrap().set_modified(time).unwrap();
            let claim = Claim::take(folder.path()).unwrap();
            assert!(std::fs::read_to_string(&lock).unwrap().ends_with(char::is_numeric));
            assert!(Claim::take(folder.path()).unwrap_err().to_string().contains("another run"));
            drop(claim);
            assert_eq!(std::fs::read_to_string(&lock).unwrap(), text);
            assert_eq!(lock.metadata().unwrap().modified().unwrap(), time);
        }
        for foreign in
            ["precious\n", "tealight of mine", "1234567890123456789012345678901234567890\n"]
        {
            std::fs::write(&lock, foreign).unwrap();
            let message = Claim::take(folder.path()).unwrap_err().to_string();
            assert!(message.contains("another program's file"), "{message}");
            assert_eq!(std::fs::read_to_string(&lock).unwrap(), foreign);
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_directory_that_was_removed_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("run");
        let claim = Claim::take(&output).unwrap();
        claim.accept().unwrap();
        claim.check().unwrap();
        std::fs::remove_dir_all(&output).unwrap();
        assert!(claim.check().unwrap_err().to_string().contains("was deleted or replaced"));
        std::fs::create_dir(&output).unwrap();
        std::fs::write(output.join(LOCK), "another's").unwrap();
        assert!(claim.check().is_err());
        drop(claim);
        assert!(output.join(LOCK).exists());
    }
}
