//! The surroundings of a run of fine-tuning: its directory, progress, evaluations and engine.

use std::path::Path;

use anyhow::Result;

use super::held_out::HeldOutSet;
use super::path::PathPoints;
use crate::solvers::remote::EngineOptions;
use tealight_learn::objective::ImportanceCorrection;

/// Called with the row of metrics of every step.
pub type OnStep<'a> = dyn Fn(&serde_json::Value) -> Result<()> + 'a;

/// Where a run goes and what it continues.
pub(crate) struct RunSetup<'a> {
    /// Its label in progress and metrics.
    pub(crate) label: &'a str,
    /// Its directory.
    pub(crate) output: &'a Path,
    /// The checkpoint to continue from.
    pub(crate) resume: Option<&'a Path>,
    /// Called when everything that the run was given has been accepted, before it writes to its directory.
    pub(crate) begin: &'a dyn Fn() -> Result<()>,
    /// Called with every step's metrics; no progress is shown then.
    pub(crate) on_step: Option<&'a OnStep<'a>>,
    /// The problems that it is evaluated on while it goes.
    pub(crate) held_out: Option<&'a HeldOutSet>,
    /// The steps whose weights are saved, to be evaluated when the run has ended.
    pub(crate) path: Option<PathPoints>,
    /// The servers that sample in place of this process.
    pub(crate) engine: Option<&'a EngineOptions>,
    /// How samples of a server, or of a rounded policy, are weighted.
    pub(crate) correction: ImportanceCorrection,
}

impl<'a> RunSetup<'a> {
    /// A fresh run in this process that is evaluated when it has ended.
    pub(crate) fn plain(label: &'a str, output: &'a Path) -> Self {
        Self {
            label,
            output,
            resume: None,
            begin: &|| Ok(()),
            on_step: None,
            held_out: None,
            path: None,
            engine: None,
            correction: ImportanceCorrection::default(),
        }
    }
}
