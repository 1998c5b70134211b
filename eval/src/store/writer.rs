//! Files that are there whole or not at all, and one of samples as they are judged.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tealight_core::output;

use super::Index;
use super::index::IndexBuilder;
use crate::grade::JudgedChunk;

/// A file that is written beside its place and removed unless it is finished.
#[derive(Debug)]
pub(super) struct Part {
    path: PathBuf,
    temporary: PathBuf,
    /// None once it is finished.
    file: Option<File>,
}

impl Part {
    pub(super) fn create(path: &Path) -> Result<Self> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".part");
        let temporary = PathBuf::from(temporary);
        let file = output::create(&temporary)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self { path: path.to_owned(), temporary, file: Some(file) })
    }

    pub(super) fn file(&self) -> &File {
        self.file.as_ref().expect("it is not finished")
    }

    /// Puts the file in its place, synced.
    pub(super) fn finish(mut self) -> Result<()> {
        let describe = || format!("{}: cannot be written", self.path.display());
        if let Some(file) = &self.file {
            file.sync_all().with_context(describe)?;
        }
        // Windows renames no open file.
        drop(self.file.take());
        std::fs::rename(&self.temporary, &self.path)
            .with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Whoever failed to write it says why.
            let _ = std::fs::remove_file(&self.temporary);
        }
    }
}

/// Writes judged samples to a file, and remembers where those of each problem are.
#[derive(Debug)]
pub struct SamplesWriter {
    part: Part,
    index: IndexBuilder,
    offset: u64,
}

impl SamplesWriter {
    /// Begins the file that will be at `path`.
    ///
    /// # Errors
    /// A place that cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        Ok(Self { part: Part::create(path)?, index: IndexBuilder::default(), offset: 0 })
    }

    /// Appends encoded samples.
    ///
    /// # Errors
    /// A full disk.
    pub fn write(&mut self, chunk: &JudgedChunk) -> Result<()> {
        let mut out = BufWriter::new(self.part.file());
        let describe = || format!("{}: cannot be written", self.part.path.display());
        for (sample, line) in chunk.samples.iter().zip(&chunk.lines) {
            self.index.add(&sample.problem, sample.sample, self.offset, line.len())?;
            self.offset += line.len() as u64;
            out.write_all(line).with_context(describe)?;
        }
        out.flush().with_context(describe)
    }

    /// Puts the file in its place; its index.
    ///
    /// # Errors
    /// A full disk.
    pub fn finish(self) -> Result<Index> {
        let path = self.part.path.clone();
        self.part.finish()?;
        self.index.finish(&path)
    }
}
