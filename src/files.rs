//! Writing files so that a crash or a full disk never leaves half of one.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};

/// Writes `bytes` to `path` through a temporary file beside it: written, synced, renamed.
///
/// # Errors
/// The directory cannot be written or the disk is full; `path` is then as it was.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let describe = || format!("{}: cannot be written", path.display());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory).with_context(describe)?;
    file.write_all(bytes).with_context(describe)?;
    file.as_file().sync_all().with_context(describe)?;
    // Temporary files are private; results should be as readable as any other file.
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let readable = std::fs::Permissions::from_mode(0o644);
        file.as_file().set_permissions(readable).with_context(describe)?;
    }
    file.persist(path).with_context(describe)?;
    Ok(())
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
