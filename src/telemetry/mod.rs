//! What a run shows and logs: one JSON line a step, a progress bar or plain lines.

pub mod completions;
pub mod tensorboard;

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

/// How often a run without a terminal says where it is.
const PLAIN_INTERVAL: Duration = Duration::from_secs(10);

/// Where long work is: a bar on a terminal, a line every ten seconds without one.
pub struct Progress {
    label: String,
    total: u64,
    done: u64,
    bar: Option<ProgressBar>,
    started: Instant,
    last_line: Instant,
}

impl Progress {
    /// Starts work of `total` units; `quiet` shows nothing.
    pub fn new(label: &str, total: usize, quiet: bool) -> Self {
        let is_terminal = std::io::stderr().is_terminal();
        let bar = (is_terminal && !quiet).then(|| {
            let bar = ProgressBar::new(total as u64);
            let template = "{prefix:>22} {bar:30.cyan/dim} {pos}/{len} {elapsed} eta {eta} {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_prefix(label.to_owned());
            bar
        });
        let started = Instant::now();
        let total = if quiet { 0 } else { total as u64 };
        Self { label: label.into(), total, done: 0, bar, started, last_line: started }
    }

    /// One more unit is done; `message` says how it goes.
    pub fn advance(&mut self, message: impl FnOnce() -> String) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_message(message());
            bar.inc(1);
        } else if self.total > 0
            && (self.last_line.elapsed() >= PLAIN_INTERVAL || self.done == self.total)
        {
            self.last_line = Instant::now();
            let left = self.total.saturating_sub(self.done) as f64;
            let eta = self.started.elapsed().as_secs_f64() / self.done as f64 * left;
            let (label, done, total) = (&self.label, self.done, self.total);
            eprintln!("{label:>22} {done}/{total} eta {eta:.0}s {}", message());
        }
    }
}

impl Progress {
    /// Warns of something without breaking the bar.
    pub fn warn(&self, message: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => bar.suspend(|| warn(message)),
            None => warn(message),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        // Where it stands, which is not the end where it was interrupted; what is said next has its own line.
        if let Some(bar) = &self.bar {
            bar.abandon();
            eprintln!();
        }
    }
}

/// Tells the user something that is not data.
pub fn say(quiet: bool, message: impl std::fmt::Display) {
    if !quiet {
        eprintln!("{message}");
    }
}

/// Warns the user; never silenced.
pub fn warn(message: impl std::fmt::Display) {
    eprintln!("warning: {message}");
}

/// A file of one JSON object a line, each on disk as soon as it is written.
pub struct JsonLines {
    file: File,
    path: String,
}

impl JsonLines {
    /// Starts an empty file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        let file =
            File::create(path).with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { file, path: path.display().to_string() })
    }

    /// Continues a file after what it holds.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn append(path: &Path) -> Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path);
        let file = file.with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { file, path: path.display().to_string() })
    }

    /// Appends rows in one write.
    ///
    /// # Errors
    /// A full disk.
    pub fn write_all(&mut self, rows: &[impl Serialize]) -> Result<()> {
        let mut text = String::new();
        for row in rows {
            text.push_str(&serde_json::to_string(row)?);
            text.push('\n');
        }
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("{}: cannot be written", self.path))
    }

    /// Appends a row. Numbers that are not finite are written as null.
    ///
    /// # Errors
    /// A full disk.
    pub fn write(&mut self, row: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(row)?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .with_context(|| format!("{}: cannot be written", self.path))
    }
}
