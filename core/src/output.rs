//! Files in folders that a run writes to. Whatever stands there already may be a stranger's: a link in the place of a
//! file is refused, never followed, and so is a pipe or a device, which might never open.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::regular;

/// Opens a file that is written to, as `options` say, unless a link, a pipe or a device stands in its place.
///
/// # Errors
/// A file that cannot be opened, a link, something that is not a regular file.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    // Without the flag below there is a moment between the look and the opening.
    if let Ok(kind) = path.symlink_metadata() {
        if kind.is_symlink() {
            return Err(io::Error::other("a link stands in the place of this file: remove it"));
        }
        if !kind.is_file() {
            let why = "a pipe, a device or a folder stands in the place of this file: remove it";
            return Err(io::Error::other(format!("{}: {why}", regular::NOT_REGULAR)));
        }
    }
    #[cfg(unix)]
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    #[cfg(not(unix))]
    let flags = 0;
    regular::checked(options, path, flags)
}

/// Creates a file, or empties the one there, unless something else stands in its place.
///
/// # Errors
/// A file that cannot be opened, a link, something that is not a regular file.
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Creates a folder inside one that a run writes to, unless it is there; a link to another is not it.
///
/// # Errors
/// A folder that cannot be created, a link.
pub fn subfolder(path: &Path) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ if path.symlink_metadata()?.is_symlink() => {
            Err(io::Error::other("a link stands in the place of this folder: remove it"))
        }
        _ => Ok(()),
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn pipes_are_refused_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let pipe = folder.path().join("pipe");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.expect("mkfifo").success());
        let error = create(&pipe).expect_err("refused").to_string();
        assert!(error.contains("not a regular file: a pipe"), "{error}");
        assert!(open(OpenOptions::new().read(true).write(true), &pipe).is_err());
    }

    #[test]
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        std::fs::write(&victim, "precious").expect("written");
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        assert!(create(&link).is_err());
        assert!(open(OpenOptions::new().append(true).create(true), &link).is_err());
        assert_eq!(std::fs::read(&victim).expect("bytes"), b"precious");
        create(&victim).expect("a file of one's own");
        let (other, samples) = (folder.path().join("elsewhere"), folder.path().join("samples"));
        subfolder(&other).expect("a folder");
        subfolder(&other).expect("the same again");
        std::os::unix::fs::symlink(&other, &samples).expect("a link");
        assert!(subfolder(&samples).is_err());
    }
}
