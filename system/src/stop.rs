//! A request from outside to end a run after its step.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Set from outside to ask a run to stop after its step; holds the exit code that says why.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    code: Arc<AtomicUsize>,
    ends_at_once: Arc<AtomicBool>,
    temporary: Arc<Mutex<Vec<PathBuf>>>,
    at_risk: Arc<Mutex<String>>,
}

impl Stop {
    /// The cell that a signal handler writes the exit code to; 0 asks for nothing.
    pub fn cell(&self) -> Arc<AtomicUsize> {
        self.code.clone()
    }

    /// Whether a signal ends the process at once, since there is nothing to save, or since it is the second.
    pub fn ends_at_once(&self) -> Arc<AtomicBool> {
        self.ends_at_once.clone()
    }

    /// From now on there is something to save: a signal asks for a stop, and whoever works looks for it.
    pub fn saves(&self) {
        self.ends_at_once.store(false, Ordering::SeqCst);
    }

    /// From now on there is a temporary folder, which whoever made it removes when it stops. A signal that does not
    /// wait for that removes the folder first.
    pub fn removes(&self, folder: &Path) {
        self.folders().push(folder.to_owned());
        self.saves();
    }

    /// Notes what a second signal loses, in place of what was noted before.
    pub fn risks(&self, what: String) {
        *self.at_risk.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// What a second signal loses.
    pub fn at_risk(&self) -> String {
        let noted = self.at_risk.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.is_empty() { "everything since the last save".to_owned() } else { noted.clone() }
    }

    /// Removes the temporary folders; for a process that ends without dropping anything.
    pub fn remove_temporary(&self) {
        for folder in self.folders().drain(..) {
            // There may be none any more, and nobody is left to be told of another reason.
            let _ = std::fs::remove_dir_all(folder);
        }
    }

    fn folders(&self) -> std::sync::MutexGuard<'_, Vec<PathBuf>> {
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the run was asked to stop.
    pub fn is_requested(&self) -> bool {
        self.exit_code().is_some()
    }

    /// The exit code of a run that was asked to stop.
    pub fn exit_code(&self) -> Option<usize> {
        Some(self.code.load(Ordering::SeqCst)).filter(|code| *code != 0)
    }

    /// Fails with [`Interrupted`] when the run was asked to stop.
    pub fn check(&self) -> anyhow::Result<()> {
        match self.exit_code() {
            Some(code) => Err(Interrupted(code).into()),
            None => Ok(()),
        }
    }
}

/// The run was stopped by a signal; what was written is whole.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("interrupted")]
pub struct Interrupted(pub usize);
