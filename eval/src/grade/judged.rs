//! Judged samples as they are handed over, and as JSON.

use anyhow::Result;
use rayon::prelude::*;

use super::tallies::{Judged, Tallies};
use crate::Sample;

/// Samples that are encoded one after the other.
const BLOCK: usize = 64;

/// Judged samples, in the order of the file.
#[derive(Debug, Default)]
pub struct JudgedChunk {
    /// Judged samples, in the order of the file.
    pub samples: Vec<Sample>,
    /// The same as lines of JSON, in parts; empty unless they were asked for.
    pub lines: Vec<EncodedSamples>,
}

/// Some samples as lines of JSON.
#[derive(Debug, Default)]
pub struct EncodedSamples {
    /// The lines, each with its line feed.
    pub bytes: Vec<u8>,
    /// The bytes of each.
    pub lengths: Vec<usize>,
}

impl EncodedSamples {
    fn new(samples: &[Sample]) -> Result<Self> {
        let mut encoded = Self::default();
        for sample in samples {
            let before = encoded.bytes.len();
            serde_json::to_writer(&mut encoded.bytes, sample)?;
            encoded.bytes.push(b'\n');
            encoded.lengths.push(encoded.bytes.len() - before);
        }
        Ok(encoded)
    }
}

impl Tallies<'_> {
    /// Counts samples, and encodes them where that is asked for.
    pub(super) fn count(&mut self, mut judged: Judged, encodes: bool) -> Result<JudgedChunk> {
        self.add(&mut judged)?;
        let samples = judged.samples;
        let blocks = samples.par_chunks(BLOCK).map(EncodedSamples::new);
        let lines = if encodes { blocks.collect::<Result<_>>()? } else { Vec::new() };
        Ok(JudgedChunk { samples, lines })
    }
}
