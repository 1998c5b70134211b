//! The samples that a file has named so far, by problem: a sample that occurs twice counts once.

use std::collections::HashMap;
use std::fs::File;

use anyhow::{Context, Result};

use super::scratch::{CHANGED, Place, Scratch, number};

/// Bytes of a sample in memory: two hashes, and the part of a map that is empty.
const SAMPLE: usize = 32;

/// Samples that are read from the file for each further one that memory holds.
const RELOADED: usize = 64;

/// What a line says of a sample that was named before.
#[derive(Debug, PartialEq)]
pub(super) enum Named {
    /// Nothing named it before.
    First,
    /// It was named before, with this text or with another.
    Again { is_changed: bool },
}

/// The hashes of names and texts, in memory for the problems that were met since memory was full, and in a file for the
/// others.
#[derive(Default)]
pub(super) struct Seen<'a> {
    /// By problem, a hash of the text by a hash of the sample's name.
    texts: HashMap<usize, HashMap<u64, u64>>,
    stored: HashMap<usize, Place>,
    scratch: Option<Scratch<'a>>,
    /// Samples in memory, and how many may be there.
    samples: usize,
    most: usize,
    /// Samples that were read from the file.
    reloaded: usize,
}

impl<'a> Seen<'a> {
    /// Without an empty `file` all are in memory, otherwise `max_open` bytes.
    pub(super) fn new(file: Option<&'a File>, max_open: usize) -> Self {
        Self { scratch: file.map(Scratch::new), most: max_open / SAMPLE, ..Self::default() }
    }

    /// Notes the sample of a problem that `name` and `text` are the hashes of.
    pub(super) fn name(&mut self, problem: usize, name: u64, text: u64) -> Result<Named> {
        if self.samples >= self.most + self.reloaded / RELOADED {
            self.spill_others(problem)?;
        }
        if !self.texts.contains_key(&problem) {
            let texts = self.stored(problem)?;
            self.samples += texts.len();
            // Memory grows with the work: a file that goes back to long problems again and again is not read for ever.
            self.reloaded += texts.len();
            self.texts.insert(problem, texts);
        }
        let texts = self.texts.entry(problem).or_default();
        if let Some(first) = texts.get(&name) {
            return Ok(Named::Again { is_changed: *first != text });
        }
        texts.insert(name, text);
        self.samples += 1;
        Ok(Named::First)
    }

    /// The samples of a problem that are in the file.
    fn stored(&mut self, problem: usize) -> Result<HashMap<u64, u64>> {
        let (Some(place), Some(scratch)) = (self.stored.remove(&problem), &mut self.scratch) else {
            return Ok(HashMap::new());
        };
        let bytes = scratch.take(place)?;
        let pair = |mut pair: &[u8]| Some((number(&mut pair)?, number(&mut pair)?));
        bytes.chunks(16).map(pair).collect::<Option<_>>().context(CHANGED)
    }

    /// Brings the samples of all other problems into the file.
    fn spill_others(&mut self, problem: usize) -> Result<()> {
        let Some(scratch) = &mut self.scratch else { return Ok(()) };
        let current = self.texts.remove(&problem);
        for (other, texts) in self.texts.drain() {
            let pairs = texts.iter().flat_map(|(name, text)| [*name, *text]);
            let bytes: Vec<u8> = pairs.flat_map(u64::to_le_bytes).collect();
            self.stored.insert(other, scratch.put(&bytes)?);
        }
        self.samples = current.as_ref().map_or(0, HashMap::len);
        self.texts.extend(current.map(|texts| (problem, texts)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_known_again_wherever_they_are() {
        let file = tempfile::tempfile().unwrap();
        for (file, max_open) in [(None, 0), (Some(&file), 100 * SAMPLE), (Some(&file), usize::MAX)]
        {
            let mut seen = Seen::new(file, max_open);
            let mut most = 0;
            for name in 0..30 {
                for problem in 0..50 {
                    let text = name * problem as u64;
                    assert_eq!(seen.name(problem, name, text).unwrap(), Named::First);
                    let old = seen.name(problem, name / 2, (name / 2) * problem as u64).unwrap();
                    assert_eq!(old, Named::Again { is_changed: false });
                    let other = seen.name(problem, name, text + 1).unwrap();
                    assert_eq!(other, Named::Again { is_changed: true });
                    most = most.max(seen.samples);
                }
            }
            assert_eq!(most < 600, max_open == 100 * SAMPLE, "{most}");
        }
    }
}
