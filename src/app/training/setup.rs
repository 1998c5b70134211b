//! What a run of fine-tuning is given beside its data and settings.

use std::path::Path;

use anyhow::Result;

use super::held_out::HeldOutSet;
use super::path::PathPoints;
use crate::learn::objective::ImportanceCorrection;
use crate::solvers::remote::EngineOptions;

/// Called with the row of metrics of every step.
pub type OnStep<'a> = dyn Fn(&serde_json::Value) -> Result<()> + 'a;

/// Where a run goes and what it continues.
pub(crate) struct RunSetup<'a> {
    /// What it is called while it goes.
    pub(crate) label: &'a str,
    /// Its directory.
    pub(crate) output: &'a Path,
    /// The checkpoint to continue from.
    pub(crate) resume: Option<&'a Path>,
    /// Called with every step's metrics; no progress is shown then.
    pub(crate) on_step: Option<&'a OnStep<'a>>,
    /// What it is evaluated on while it goes.
    pub(crate) held_out: Option<&'a HeldOutSet>,
    /// The steps whose weights are saved, to be evaluated when the run has ended.
    pub(crate) path: Option<PathPoints>,
    /// What samples in place of this process.
    pub(crate) engine: Option<&'a EngineOptions>,
    /// How samples of a server, or of a rounded policy, are weighted.
    pub(crate) correction: ImportanceCorrection,
}
