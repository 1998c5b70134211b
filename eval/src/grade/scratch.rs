//! Bytes in a temporary file, until they are needed again.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};

use anyhow::{Context, Result};

/// What is wrong with a file whose bytes are others than those that were written.
pub(super) const CHANGED: &str = "the temporary file of grading has changed";

/// Where some bytes are.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    offset: u64,
    length: usize,
}

/// A temporary file. Each piece has a slot whose size is a power of two; a slot that was read is used again.
pub(super) struct Scratch<'a> {
    file: &'a File,
    end: u64,
    free: BTreeMap<u64, Vec<u64>>,
}

impl<'a> Scratch<'a> {
    /// In an empty file.
    pub(super) fn new(file: &'a File) -> Self {
        Self { file, end: 0, free: BTreeMap::new() }
    }

    fn slot(length: usize) -> u64 {
        (length as u64).max(64).next_power_of_two()
    }

    pub(super) fn put(&mut self, bytes: &[u8]) -> Result<Place> {
        let slot = Self::slot(bytes.len());
        let offset = self.free.get_mut(&slot).and_then(Vec::pop).unwrap_or_else(|| {
            self.end += slot;
            self.end - slot
        });
        let mut write = || {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.write_all(bytes)
        };
        write().context("the temporary file of grading cannot be written")?;
        Ok(Place { offset, length: bytes.len() })
    }

    pub(super) fn take(&mut self, Place { offset, length }: Place) -> Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut read = || {
            self.file.seek(SeekFrom::Start(offset))?;
            self.file.read_exact(&mut bytes)
        };
        read().context("the temporary file of grading cannot be read")?;
        self.free.entry(Self::slot(length)).or_default().push(offset);
        Ok(bytes)
    }
}

/// Takes a number from the start of bytes.
pub(super) fn number(bytes: &mut &[u8]) -> Option<u64> {
    bytes.split_off(..size_of::<u64>())?.try_into().ok().map(u64::from_le_bytes)
}

/// Takes a list from the start of bytes: its length, and that many items of this size.
pub(super) fn list<'a>(bytes: &mut &'a [u8], item: usize) -> Option<&'a [u8]> {
    let count = usize::try_from(number(bytes)?).ok()?;
    bytes.split_off(..count.checked_mul(item)?)
}
