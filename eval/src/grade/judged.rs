//! Judged samples as they are handed over, and as JSON.

use anyhow::Result;
use rayon::prelude::*;

use super::tallies::{Judged, Tallies};
use crate::Sample;

/// Samples that a thread encodes at least.
const LEAST: usize = 64;

/// Judged samples, in the order of the file.
#[derive(Debug, Default)]
pub struct JudgedChunk {
    /// Judged samples, in the order of the file.
    pub samples: Vec<Sample>,
    /// The same as lines of JSON, each with its line feed; empty unless they were asked for.
    pub lines: Vec<Vec<u8>>,
}

impl Tallies<'_> {
    /// Counts samples, and encodes them where that is asked for.
    pub(super) fn count(&mut self, mut judged: Judged, encodes: bool) -> Result<JudgedChunk> {
        self.add(&mut judged)?;
        let samples = judged.samples;
        let lines = samples.par_iter().with_min_len(LEAST).map(Sample::line);
        let lines = if encodes { lines.collect::<Result<_>>()? } else { Vec::new() };
        Ok(JudgedChunk { samples, lines })
    }
}
