//! A file's bytes from a server to the cache: staged, taken up where they ended, and checked before they are kept.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};

use super::client::{Address, Broken, Hub};
use super::git_object::FileMetadata;
use super::repository::Repository;
use tealight_system::hf_home::cache_directory;
use tealight_system::http::Failure;
use tealight_system::machine;
use tealight_system::telemetry::Transfer;

/// Bytes a second that a download has at least: a slower connection counts as broken.
const LEAST_A_SECOND: u64 = 1 << 10;
/// Bytes that are read at a time.
const BLOCK: usize = 1 << 17;

impl Repository {
    /// Brings a file's content into the cache; the name that it has there.
    pub(super) fn transfer(&self, file: FileMetadata) -> Result<String, Broken> {
        let (folder, at) = (self.folder.clone(), self.at.clone());
        // A download takes as long as it takes; its silence is measured where its bytes arrive.
        self.hub.run(Duration::MAX, move |hub| {
            let mut part = folder.incomplete(&file.oid)?;
            // Another process may have brought it while this one waited.
            if let Some(blob) = folder.find(&file) {
                return Ok(blob);
            }
            let resumed = fill(hub, &at, &file, &mut part)?;
            match file.verify(&mut part).context("the cache cannot be read")? {
                Ok(blob) => {
                    folder.complete(&file.oid, &blob)?;
                    Ok(blob)
                }
                Err(why) => {
                    part.set_len(0)?;
                    // What was there before may have been of another file.
                    Err(match resumed {
                        true => Broken::OnTheWay(why),
                        false => {
                            Broken::ForGood(anyhow!("{why}: the content is not the announced one"))
                        }
                    })
                }
            }
        })
    }
}

/// Writes what comes behind what is there, or in its place where the server begins anew. Whether anything was there.
fn fill(hub: &Hub, at: &Address, file: &FileMetadata, part: &mut File) -> Result<bool, Broken> {
    let there = part.metadata()?.len();
    if there == file.bytes {
        return Ok(there > 0);
    }
    // More than the file has is of another one.
    let there = if there > file.bytes { 0 } else { there };
    check_free_space(file.bytes - there)?;
    let (announced, stream) = match hub.stream(at, file, there) {
        Err(Broken::BadRange) => {
            part.set_len(0)?;
            return Err(Broken::OnTheWay("the server refuses to go on in the middle".into()));
        }
        answer => answer?,
    };
    let from = match announced {
        None => there,
        Some(bytes) if bytes == file.bytes - there => there,
        // A server that knows no ranges.
        Some(bytes) if bytes == file.bytes => 0,
        Some(bytes) => {
            return Err(Broken::ForGood(anyhow!(
                "the server sends {bytes} bytes where {} are due",
                file.bytes - there
            )));
        }
    };
    part.set_len(from)?;
    part.seek(SeekFrom::End(0))?;
    let label = format!("downloading {}/{}/{}", at.owner, at.name, file.name);
    let copied = copy(hub.silence, stream, part, (from, file.bytes), &label);
    if copied.is_err() && from < there {
        // Whether that was the whole or only the rest cannot be told.
        part.set_len(0)?;
    }
    copied.map(|()| there > 0)
}

/// Copies a stream to the end of `part`, which has `from` of the `total` bytes.
fn copy(
    silence: Duration,
    mut stream: impl Read,
    part: &mut File,
    (from, total): (u64, u64),
    label: &str,
) -> Result<(), Broken> {
    let mut progress = Transfer::new(label, total, from);
    let (mut there, mut since, mut before) = (from, Instant::now(), from);
    let mut block = vec![0; BLOCK];
    loop {
        let count = stream.read(&mut block).map_err(Failure::from)?;
        if count == 0 {
            break;
        }
        there += count as u64;
        if there > total {
            part.set_len(0)?;
            return Err(Broken::ForGood(anyhow!(
                "the server sends more than the {total} bytes that it announced"
            )));
        }
        if since.elapsed() > silence {
            let seconds = silence.as_secs();
            if there - before < LEAST_A_SECOND * seconds {
                let rate = format!("{} bytes in {seconds} s", there - before);
                return Err(Broken::OnTheWay(format!("too slow: {rate}")));
            }
            (since, before) = (Instant::now(), there);
        }
        part.write_all(&block[..count]).context("the cache cannot be written")?;
        progress.advance(count);
    }
    part.sync_all().context("the cache cannot be written")?;
    match there < total {
        true => Err(Broken::OnTheWay(format!("it ended after {there} of {total} bytes"))),
        false => Ok(()),
    }
}

/// The disk must have room for what is to come.
fn check_free_space(bytes: u64) -> Result<(), Broken> {
    let Some(free) = machine::free_space(&cache_directory()).filter(|free| bytes > *free) else {
        return Ok(());
    };
    Err(Broken::ForGood(anyhow!(
        "{:.1} GB are to come and {:.1} GB are free in {}: make room, or set HF_HOME",
        bytes as f64 / 1e9,
        free as f64 / 1e9,
        cache_directory().display()
    )))
}
