//! The progress and log of a run: one JSON line a step, a progress bar or plain lines.

pub mod completions;
mod log;
mod progress;
mod report_to;
pub mod reporter;
pub mod tensorboard;
mod terminal;
mod transfer;

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tealight_core::output;

pub use log::{Terminal, be_quiet};
pub use progress::{Progress, count_tokens, phase};
pub use report_to::{MetricsTarget, ReportTo};
pub use tealight_core::display::escaped;
pub use terminal::{be_silent, out, print, width};
pub use transfer::Transfer;

/// A file of one JSON object a line, each on disk as soon as it is written.
pub struct JsonLines {
    file: File,
    path: String,
}

impl JsonLines {
    /// Starts an empty file.
    pub fn create(path: &Path) -> Result<Self> {
        let file = output::create(path)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { file, path: path.display().to_string() })
    }

    /// Continues a file after what it holds.
    pub fn append(path: &Path) -> Result<Self> {
        let file = output::open(OpenOptions::new().append(true).create(true), path);
        let file = file.with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { file, path: path.display().to_string() })
    }

    /// Appends a row. Numbers that are not finite are written as null.
    pub fn write(&mut self, row: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(row)?;
        line.push('\n');
        self.append_text(&line)
    }

    fn append_text(&mut self, text: &str) -> Result<()> {
        if !Path::new(&self.path).exists() {
            bail!(
                "{}: this file was deleted during the run, and its rows are lost; start the command again",
                self.path
            );
        }
        self.file
            .write_all(text.as_bytes())
            .with_context(|| format!("{}: cannot be written", self.path))
    }
}
