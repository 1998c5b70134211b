//! Where the metrics of a run go besides `metrics.jsonl`.
//!
//! To add a target, add a variant of [`ReportTo`] with its arms in [`ReportTo::open`], [`ReportTo::folder`] and
//! [`ReportTo::is_local`], and a type that implements [`MetricsTarget`].

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

impl MetricsTarget for EventFile {
    fn scalars(&mut self, step: usize, values: &[(String, f64)]) -> Result<()> {
        Self::scalars(self, step, values)
    }
}

impl MetricsTarget for Reporter {
    /// Nothing: its process follows `metrics.jsonl`.
    fn scalars(&mut self, _: usize, _: &[(String, f64)]) -> Result<()> {
        Ok(())
    }
}

impl ReportTo {
    /// Whether the target can be opened, as far as that shows before there is a run.
    ///
    /// # Errors
    /// A package that cannot be imported.
    pub fn check(self) -> Result<()> {
        match self {
            Self::None | Self::Tensorboard => Ok(()),
            Self::Wandb => Reporter::check("wandb"),
            Self::Trackio => Reporter::check("trackio"),
        }
    }

    /// Opens the target for the run in `output` and its steps from `first_step` on; there is none for [`Self::None`].
    ///
    /// # Errors
    /// A folder that cannot be written, a package that cannot be imported or begins no run.
    pub fn open(self, output: &Path, first_step: usize) -> Result<Option<Box<dyn MetricsTarget>>> {
        Ok(Some(match self {
            Self::None => return Ok(None),
            Self::Tensorboard => {
                let folder = output.join(self.folder().unwrap_or_default());
                Box::new(EventFile::create(&folder, first_step)?)
            }
            Self::Wandb => Box::new(Reporter::start("wandb", output)?),
            Self::Trackio => Box::new(Reporter::start("trackio", output)?),
        }))
    }

    /// The folder of a run that it writes.
    pub fn folder(self) -> Option<&'static str> {
        match self {
            Self::Tensorboard => Some("tensorboard"),
            Self::Wandb | Self::Trackio | Self::None => None,
        }
    }

    /// Whether it starts no program and sends nothing to another machine.
    pub fn is_local(self) -> bool {
        match self {
            Self::Tensorboard | Self::None => true,
            Self::Wandb | Self::Trackio => false,
        }
    }
}
