//! Writing files so that a crash or a full disk never leaves half of one.

use std::fs::{File, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, Result, bail};

/// Writes `bytes` to `path` through a temporary file beside it: written, synced, renamed.
///
/// # Errors
/// The directory cannot be written or the disk is full; `path` is then as it was.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    write_atomic_by(path, |temporary| Ok(std::fs::write(temporary, bytes)?))
}

/// The same by whatever `write` puts into the temporary file that it is given.
///
/// # Errors
/// The directory cannot be written, the disk is full, whatever `write` fails with; `path` is then as it was.
pub fn write_atomic_by(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let describe = || format!("{}: cannot be written", path.display());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let file = tempfile::NamedTempFile::new_in(directory).with_context(describe)?;
    write(file.path()).with_context(describe)?;
    file.as_file().sync_all().with_context(describe)?;
    // Temporary files are private; results should be as readable as any other file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable).with_context(describe)?;
    }
    file.persist(path).with_context(describe)?;
    sync_directory(directory).with_context(describe)
}

/// Makes what was renamed in `directory` last.
///
/// # Errors
/// The system cannot.
pub fn sync_directory(directory: &Path) -> Result<()> {
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        std::fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// A directory that one process writes at a time; free again when this is dropped or the process ends.
#[derive(Debug)]
pub struct Claim(#[expect(dead_code, reason = "the lock lasts as long as the file is open")] File);

impl Claim {
    /// Makes `directory` where needed, checks that it can be written, and takes it.
    ///
    /// # Errors
    /// It cannot be made or written; another process has it.
    pub fn take(directory: &Path) -> Result<Self> {
        writable_directory(directory)?;
        let path = directory.join(".lock");
        let mut file =
            File::options().create(true).truncate(false).read(true).write(true).open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut owner = String::new();
                file.read_to_string(&mut owner)?;
                let owner = owner.trim();
                bail!(
                    "{}: another run is writing here (process {owner}); wait for it, or choose another --output",
                    directory.display()
                );
            }
            // A file system without locks: nothing to be sure of.
            Err(TryLockError::Error(_)) => return Ok(Self(file)),
        }
        file.set_len(0)?;
        write!(file, "{}", std::process::id())?;
        Ok(Self(file))
    }
}

/// Creates `directory` and checks that files can be written there.
///
/// # Errors
/// It cannot be made or written.
pub fn writable_directory(directory: &Path) -> Result<()> {
    let describe = || format!("{}: this output directory cannot be written", directory.display());
    std::fs::create_dir_all(directory).with_context(describe)?;
    tempfile::NamedTempFile::new_in(directory).with_context(describe)?;
    Ok(())
}
