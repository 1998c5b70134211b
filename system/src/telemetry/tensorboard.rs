//! TensorBoard event files: scalars by step, in the form that TensorFlow's summary writers leave.
//!
//! A file is a sequence of records (length, its masked CRC-32C, bytes, theirs); the bytes are `Event` messages
//! of protocol buffers, of which four fields are enough.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::report_to::MetricsTarget;
use anyhow::{Context, Result};
use tealight_core::output;

/// An event file of TensorBoard, written record by record.
pub struct EventFile {
    file: File,
    path: PathBuf,
}

impl EventFile {
    /// Starts a file in `directory` for the steps from `first_step` on; viewers then drop what other files
    /// there say of these steps.
    pub fn create(directory: &Path, first_step: usize) -> Result<Self> {
        crate::files::writable_subfolder(directory)?;
        let name = format!(
            "events.out.tfevents.{}.tealight.{}.{first_step}",
            now() as u64,
            std::process::id()
        );
        let path = directory.join(name);
        let file = output::open(OpenOptions::new().create(true).append(true), &path);
        let file = file.with_context(|| format!("{}: cannot be written", path.display()))?;
        let mut events = Self { file, path };
        let mut version = event(0);
        text_field(&mut version, 3, b"brain.Event:2");
        events.record(&version)?;
        let mut start = event(first_step);
        text_field(&mut start, 7, &[1 << 3, 1]);
        events.record(&start)?;
        Ok(events)
    }

    fn record(&mut self, bytes: &[u8]) -> Result<()> {
        let length = (bytes.len() as u64).to_le_bytes();
        let record = [&length[..], &masked_crc(&length), bytes, &masked_crc(bytes)].concat();
        let written = self.file.write_all(&record);
        written.with_context(|| format!("{}: cannot be written", self.path.display()))
    }
}

impl MetricsTarget for EventFile {
    /// Viewers can see them at once.
    fn scalars(&mut self, step: usize, values: &[(String, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut one = Vec::new();
            text_field(&mut one, 1, tag.as_bytes());
            one.push(2 << 3 | 5);
            one.extend((*value as f32).to_le_bytes());
            text_field(&mut summary, 1, &one);
        }
        let mut event = event(step);
        text_field(&mut event, 5, &summary);
        self.record(&event)
    }
}

/// An event of `step`, now.
fn event(step: usize) -> Vec<u8> {
    let mut bytes = vec![1 << 3 | 1];
    bytes.extend(now().to_le_bytes());
    bytes.push(2 << 3);
    varint(&mut bytes, step as u64);
    bytes
}

/// Seconds since 1970.
fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A field of bytes, text or a message.
fn text_field(out: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    out.push(field << 3 | 2);
    varint(out, bytes.len() as u64);
    out.extend(bytes);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// The checksum of the record format: rotated and shifted, so that checksums of checksums are told apart.
fn masked_crc(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_what_tensorflow_writes() {
        // The checksum of "123456789" by the CRC-32C specification is e3069283.
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283);
        let folder = tempfile::tempdir().expect("a directory");
        let mut events = EventFile::create(folder.path(), 3).expect("written");
        events.scalars(300, &[("train/reward".to_owned(), 0.5)]).expect("written");
        let bytes = std::fs::read(&events.path).expect("read");
        let mut rest = &bytes[..];
        let mut events = Vec::new();
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().expect("8 bytes")) as usize;
            assert_eq!(rest[8..12], masked_crc(&rest[..8]));
            let data = &rest[12..12 + length];
            assert_eq!(rest[12 + length..16 + length], masked_crc(data));
            events.push(data.to_vec());
            rest = &rest[16 + length..];
        }
        assert_eq!(events.len(), 3);
        assert!(events[0].ends_with(b"brain.Event:2"));
        // Step 300 as a varint, then the summary with its tag and 0.5 as f32.
        assert_eq!(events[2][9..12], [0x10, 0xac, 0x02]);
        assert!(events[2].windows(12).any(|part| part == b"train/reward"));
        assert!(events[2].ends_with(&[0x15, 0, 0, 0, 0x3f]));
    }
}
