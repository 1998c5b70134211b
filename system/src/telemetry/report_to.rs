//! Where the metrics of a run go besides `metrics.jsonl`.
//!
//! To add a target, add a variant of [`ReportTo`]; for one with a Python package also its arm in
//! [`ReportTo::package`] and a class in `to_wandb.py`, for another one its arm in [`ReportTo::open`] and a type that
//! implements [`MetricsTarget`].

use std::path::Path;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::reporter::Reporter;
use super::tensorboard::EventFile;

/// Where metrics go besides `metrics.jsonl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportTo {
    /// Event files in `tensorboard/`, which trackio imports too.
    Tensorboard,
    /// Weights & Biases, by its Python package; `WANDB_MODE=offline` keeps the run on this machine.
    Wandb,
    /// Trackio, by its Python package.
    Trackio,
    /// No further format.
    None,
}

/// A target that metrics are written to while a run goes; the run's end drops it.
pub trait MetricsTarget {
    /// Writes named numbers of a step.
    ///
    /// # Errors
    /// A target that cannot be written.
    fn scalars(&mut self, step: usize, values: &[(String, f64)]) -> Result<()>;
}

impl MetricsTarget for Reporter {
    /// Nothing: its process follows `metrics.jsonl`.
    fn scalars(&mut self, _: usize, _: &[(String, f64)]) -> Result<()> {
        Ok(())
    }
}

impl ReportTo {
    /// The Python package that sends the metrics to another place; such a target is a process of its own.
    fn package(self) -> Option<&'static str> {
        match self {
            Self::Wandb => Some("wandb"),
            Self::Trackio => Some("trackio"),
            Self::Tensorboard | Self::None => None,
        }
    }

    /// Whether the target can be opened, as far as that shows before there is a run.
    ///
    /// # Errors
    /// A package that cannot be imported.
    pub fn check(self) -> Result<()> {
        self.package().map_or(Ok(()), Reporter::check)
    }

    /// Opens the target for the run in `output` and its steps from `first_step` on; there is none for [`Self::None`].
    ///
    /// # Errors
    /// A folder that cannot be written, a package that cannot be imported or begins no run.
    pub fn open(self, output: &Path, first_step: usize) -> Result<Option<Box<dyn MetricsTarget>>> {
        if let Some(package) = self.package() {
            return Ok(Some(Box::new(Reporter::start(package, output)?)));
        }
        let folder = self.folder().map(|folder| output.join(folder));
        let file = folder.map(|folder| EventFile::create(&folder, first_step)).transpose()?;
        Ok(file.map(|file| Box::new(file) as _))
    }

    /// The folder of a run that it writes.
    pub fn folder(self) -> Option<&'static str> {
        (self == Self::Tensorboard).then_some("tensorboard")
    }

    /// Whether it starts no program and sends nothing to another machine.
    pub fn is_local(self) -> bool {
        self.package().is_none()
    }
}
