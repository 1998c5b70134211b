//! Sizes and checksums of the files of a checkpoint.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use tealight_core::names;
use tealight_core::run_folder::METRICS;
use tealight_system::files::open_regular;

/// Size and CRC-32 of files by name.
pub(super) type Inventory = BTreeMap<String, (u64, u32)>;

/// That of every file in `folder`.
pub(super) fn read(folder: &Path) -> Result<Inventory> {
    let mut files = BTreeMap::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        files.insert(entry.file_name().to_string_lossy().into_owned(), checksum(&entry.path())?);
    }
    Ok(files)
}

/// Refuses a folder whose files are missing, changed, or larger than `limit` bytes.
pub(super) fn check(folder: &Path, files: &Inventory, limit: u64) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let is_read = name.ends_with(".safetensors") || name == METRICS;
        if is_read && !files.contains_key(&name) {
            bail!("{}: this file does not belong to the checkpoint", folder.join(name).display());
        }
    }
    let missing = |file: &Path| format!("{}: missing", file.display());
    // All sizes before any contents: a sparse file of any size takes no disk, and long to read.
    for (name, (bytes, _)) in files {
        let file = names::inside(folder, name)?;
        let size = std::fs::metadata(&file).with_context(|| missing(&file))?.len();
        if size != *bytes {
            bail!("{}: has {size} bytes; {bytes} were written", file.display());
        }
        if size > limit {
            bail!(
                "{}: has {size} bytes; no file of a checkpoint of this model has more than {limit}",
                file.display()
            );
        }
    }
    for (name, (_, crc)) in files {
        let file = names::inside(folder, name)?;
        if checksum(&file).with_context(|| missing(&file))?.1 != *crc {
            bail!("{}: the checksum differs: the file was changed or damaged", file.display());
        }
    }
    Ok(())
}

fn checksum(path: &Path) -> Result<(u64, u32)> {
    let mut file = open_regular(path)?;
    let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0u8; 1 << 20]);
    let mut bytes = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((bytes, hasher.finalize())),
            count => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
}
