//! Regular files that a stranger may have made, opened for reading: a pipe or a device in their place is refused, since
//! it would never open or never end.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};

/// The reason why a pipe, a device or a folder is refused.
pub const NOT_REGULAR: &str = "not a regular file";

/// How a file begins that Git LFS left in place of a large one.
pub const POINTER: &[u8] = b"version https://git-lfs";
/// The reason why such a file is refused.
pub const IS_POINTER: &str = "a pointer of Git LFS, not the file: `git lfs pull` fetches that";

/// Opens a file for reading; links are followed.
///
/// # Errors
/// A file that cannot be opened, something that is not a regular file, a pointer of Git LFS.
pub fn open(path: &Path) -> io::Result<File> {
    // Looking first: to open a device can already change it.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other(NOT_REGULAR));
    }
    let mut file = checked(OpenOptions::new().read(true), path, 0)?;
    let mut start = Vec::new();
    file.by_ref().take(POINTER.len() as u64).read_to_end(&mut start)?;
    if start == POINTER {
        return Err(io::Error::other(IS_POINTER));
    }
    file.rewind()?;
    Ok(file)
}

/// Reads a file of at most `limit` bytes.
///
/// # Errors
/// A file that cannot be read, is larger, or is not a regular file.
pub fn read_limited(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        let why = format!("larger than {limit} bytes, the limit for such a file");
        return Err(io::Error::other(why));
    }
    Ok(bytes)
}

/// The place of a file of an untrusted `folder`, links followed: they may lead to other files of the folder and, in a
/// snapshot of the Hub's cache, to the cache's `blobs`. Whatever is copied, sent or shown of a folder is found by this
/// rule.
///
/// # Errors
/// A link that leads elsewhere, or nowhere: what it leads to is the user's, not the folder's.
pub fn own(folder: &Path, path: &Path) -> io::Result<PathBuf> {
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (home, place) = (folder.canonicalize()?, path.canonicalize()?);
    let snapshots = home.parent().filter(|parent| parent.ends_with("snapshots"));
    let blobs = snapshots.and_then(Path::parent).map(|repository| repository.join("blobs"));
    if place.starts_with(&home) || blobs.is_some_and(|blobs| place.starts_with(blobs)) {
        return Ok(place);
    }
    Err(io::Error::other(format!(
        "a link out of the folder, to {}: put a copy in its place if the contents are meant, or remove the link",
        place.display()
    )))
}

/// Opens a file of an untrusted folder for reading.
///
/// # Errors
/// Those of [`own`] and of [`open`].
pub fn open_own(folder: &Path, path: &Path) -> io::Result<File> {
    open(&own(folder, path)?)
}

/// Reads a file of an untrusted folder, of at most `limit` bytes.
///
/// # Errors
/// Those of [`own`] and of [`read_limited`].
pub fn read_own(folder: &Path, path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_limited(&own(folder, path)?, limit)
}

/// Opens a file without waiting for the other end of a pipe, and refuses what is not a regular file.
#[cfg_attr(not(unix), expect(unused_variables))]
pub fn checked(options: &mut OpenOptions, path: &Path, flags: i32) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed() | flags);
    }
    let file = options.open(path)?;
    // The file may have been replaced between its check and its opening.
    if !file.metadata()?.is_file() {
        return Err(io::Error::other(NOT_REGULAR));
    }
    Ok(file)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn pipes_devices_and_large_files_are_refused() {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, plain, link) =
            (folder.path().join("pipe"), folder.path().join("plain"), folder.path().join("link"));
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        std::fs::write(&plain, "12345").expect("written");
        std::os::unix::fs::symlink("/dev/zero", &link).expect("a link");
        for path in [pipe.as_path(), link.as_path(), folder.path()] {
            let error = read_limited(path, 10).expect_err("refused").to_string();
            assert!(error.contains(NOT_REGULAR), "{}: {error}", path.display());
        }
        assert_eq!(read_limited(&plain, 5).expect("bytes"), b"12345");
        let pointer = folder.path().join("pointer");
        std::fs::write(&pointer, "version https://git-lfs.github.com/spec/v1\n").expect("written");
        assert_eq!(read_limited(&pointer, 99).expect_err("refused").to_string(), IS_POINTER);
        let error = read_limited(&plain, 4).expect_err("refused").to_string();
        assert!(error.contains("larger than 4 bytes"), "{error}");
    }
}
