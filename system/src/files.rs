//! Writing files so that a crash or a full disk never leaves half of one, and reading untrusted ones.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tealight_core::json_file::{self, JsonFileError};
use tealight_core::{names, output, regular};

/// Most bytes of states and summaries in a run's folder.
pub const MAX_SMALL: u64 = 64 << 20;
/// Most bytes of a file of settings, which take many times as much memory.
pub const MAX_SETTINGS: u64 = 1 << 20;
/// Most bytes of a configuration of a model or an adapter.
pub const MAX_CONFIG: u64 = 16 << 20;
/// Most bytes of a run's lines, such as metrics: a line of a step has some 500 bytes.
pub const MAX_LINES: u64 = 4 << 30;

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
/// The directory cannot be written, the disk is full, an error of `write`; `path` is then as it was.
pub fn write_atomic_by(path: &Path, write: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    let describe = || format!("{}: cannot be written", path.display());
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let file = readable().tempfile_in(directory).with_context(describe)?;
    let permissions = file.as_file().metadata().with_context(describe)?.permissions();
    // Closed first: Windows puts no other file in the place of an open one.
    let file = file.into_temp_path();
    write(&file).with_context(describe)?;
    // Whoever wrote may have put another file in its place.
    let written = File::options().write(true).open(&file).with_context(describe)?;
    written.set_permissions(permissions).with_context(describe)?;
    written.sync_all().with_context(describe)?;
    drop(written);
    file.persist(path).with_context(describe)?;
    sync_directory(directory).with_context(describe)
}

/// Copies a file, of any size, in the same way.
///
/// # Errors
/// As above; there is no file `from`.
pub fn copy_atomic(from: &Path, to: &Path) -> Result<()> {
    write_atomic_by(to, |temporary| {
        std::fs::copy(from, temporary).with_context(|| from.display().to_string())?;
        Ok(())
    })
}

/// Temporary files are private; these are as readable as the umask lets any other be.
fn readable() -> tempfile::Builder<'static, 'static> {
    with_mode(0o666)
}

/// The same for folders.
pub fn readable_folder() -> tempfile::Builder<'static, 'static> {
    with_mode(0o777)
}

#[cfg_attr(not(unix), expect(unused_variables))]
fn with_mode(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(TEMPORARY);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(mode));
    }
    builder
}

/// The path of an untrusted name inside `folder` (see [`names::inside`]).
pub fn inside(folder: &Path, name: &str) -> Result<PathBuf> {
    Ok(names::inside(folder, name)?)
}

/// The place of a file of an untrusted `folder` whose contents are copied or sent, links followed: they may lead to
/// other files of the folder and, in a snapshot of the Hub's cache, to the cache's `blobs`.
///
/// # Errors
/// A link that leads elsewhere, or nowhere: what it leads to is the user's, not the folder's.
pub fn own_file(folder: &Path, path: &Path) -> Result<PathBuf> {
    regular::own(folder, path).map_err(|error| with_path(path, error))
}

/// Reads an untrusted file: a regular one, of at most `limit` bytes.
///
/// # Errors
/// There is none, it cannot be read, it is larger, or it is a pipe or a device, which might never end.
pub fn read_limited(path: &Path, limit: u64) -> Result<Vec<u8>> {
    regular::read_limited(path, limit).map_err(|error| with_path(path, error))
}

/// Reads an untrusted text: see [`read_limited`].
pub fn read_text(path: &Path, limit: u64) -> Result<String> {
    let text = String::from_utf8(read_limited(path, limit)?);
    text.with_context(|| format!("{}: not UTF-8", path.display()))
}

/// Opens an untrusted file.
///
/// # Errors
/// There is none, it cannot be opened, or it is no regular file: opening a pipe would wait for a writer.
pub fn open_regular(path: &Path) -> Result<File> {
    regular::open(path).map_err(|error| with_path(path, error))
}

/// An error with the file that it is about; what the system said stays its source.
fn with_path(path: &Path, error: std::io::Error) -> anyhow::Error {
    match error.raw_os_error() {
        Some(_) => anyhow::Error::new(error).context(path.display().to_string()),
        None => anyhow::anyhow!("{}: {error}", path.display()),
    }
}

/// An untrusted JSON file of at most `limit` bytes.
pub fn read_json(path: &Path, limit: u64) -> Result<serde_json::Value> {
    json_file::read(path, limit).map_err(|error| match error {
        JsonFileError::Io(error) => with_path(path, error),
        JsonFileError::Refused(refused) => refused.into(),
        error => anyhow::Error::new(error).context(format!("{}: not JSON", path.display())),
    })
}

/// Makes what was renamed in `directory` last.
pub fn sync_directory(directory: &Path) -> Result<()> {
    // Elsewhere a directory cannot be opened as a file.
    if cfg!(unix) {
        std::fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}

/// The names of files that are being written begin so; one that is there when nobody writes is of a killed process.
pub const TEMPORARY: &str = ".tealight-tmp-";

/// Creates `directory` and checks that files can be written there.
pub fn writable_directory(directory: &Path) -> Result<()> {
    let describe = || format!("{}: this output directory cannot be written", directory.display());
    std::fs::create_dir_all(directory).with_context(describe)?;
    tempfile::Builder::new().prefix(TEMPORARY).tempfile_in(directory).with_context(describe)?;
    Ok(())
}

/// The same for a folder inside an output directory, in whose place no link may stand.
pub fn writable_subfolder(folder: &Path) -> Result<()> {
    if let Some(output) = folder.parent() {
        std::fs::create_dir_all(output).with_context(|| output.display().to_string())?;
    }
    output::subfolder(folder).with_context(|| folder.display().to_string())?;
    writable_directory(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn links_that_leave_a_folder_are_told_from_those_that_stay() {
        use std::os::unix::fs::symlink;
        let all = tempfile::tempdir().unwrap();
        let at = |name: &str| all.path().join(name);
        for folder in ["run/sub", "cache/snapshots/abc", "cache/blobs", "other"] {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        for file in ["run/a", "run/sub/b", "cache/blobs/1", "other/secret"] {
            std::fs::write(at(file), file).unwrap();
        }
        for (target, link) in [
            ("a", "run/inside"),
            ("sub/b", "run/deeper"),
            ("../other/secret", "run/out"),
            ("out", "run/chain"),
            ("../other", "run/folder"),
            ("../../other/secret", "run/sub/out"),
            ("nowhere", "run/nowhere"),
            ("../../blobs/1", "cache/snapshots/abc/model"),
            ("../../blobs/2", "cache/snapshots/abc/config"),
            ("../../other/secret", "cache/blobs/2"),
        ] {
            symlink(target, at(link)).unwrap();
        }
        let is_own = |folder: &str, file: &str| own_file(&at(folder), &at(file)).is_ok();
        for file in ["run/a", "run/inside", "run/deeper", "run/sub/b"] {
            assert!(is_own("run", file), "{file}");
        }
        for file in [
            "run/out",
            "run/chain",
            "run/folder",
            "run/folder/secret",
            "run/sub/out",
            "run/nowhere",
        ] {
            assert!(!is_own("run", file), "{file}");
        }
        // The cache's own links, and one of its blobs that leads out.
        assert!(is_own("cache/snapshots/abc", "cache/snapshots/abc/model"));
        assert!(!is_own("cache/snapshots/abc", "cache/snapshots/abc/config"));
        let message = own_file(&at("run"), &at("run/chain")).unwrap_err().to_string();
        assert!(message.contains("run/chain: a link out of the folder, to"), "{message}");
        assert!(message.contains("other/secret"), "{message}");
        // A folder that a link names is the folder that it leads to.
        symlink("run", at("alias")).unwrap();
        assert!(is_own("alias", "alias/inside") && !is_own("alias", "alias/out"));
    }

    #[cfg(unix)]
    #[test]
    fn written_files_have_the_usual_permissions() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| {
            std::fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777
        };
        std::fs::write(folder.path().join("usual"), "").unwrap();
        write_atomic(&folder.path().join("ours"), b"x").unwrap();
        // As safetensors does: another file at the same place.
        write_atomic_by(&folder.path().join("replaced"), |path| {
            std::fs::remove_file(path)?;
            let private = tempfile::NamedTempFile::new_in(folder.path())?;
            private.persist(path)?;
            Ok(())
        })
        .unwrap();
        assert_eq!((mode("ours"), mode("replaced")), (mode("usual"), mode("usual")));
    }
}
