//! Files in folders that a run writes to. Whatever stands there already may be a stranger's: a link in the place of a
//! file is refused, never followed.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

/// Opens a file that is written to, as `options` say, unless a link stands in its place.
///
/// # Errors
/// See [`OpenOptions::open`]; a link.
pub fn open(options: &mut OpenOptions, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    }
    // Without such a flag there is a moment between the look and the opening.
    if path.symlink_metadata().is_ok_and(|kind| kind.is_symlink()) {
        return Err(io::Error::other("a link stands in the place of this file: remove it"));
    }
    options.open(path)
}

/// Creates a file, or empties the one there, unless a link stands in its place.
///
/// # Errors
/// See [`open`].
pub fn create(path: &Path) -> io::Result<File> {
    open(OpenOptions::new().write(true).create(true).truncate(true), path)
}

/// Creates a folder inside one that a run writes to, unless it is there; a link to another is not it.
///
/// # Errors
/// See [`std::fs::create_dir`]; a link.
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
    fn links_are_not_followed() {
        let folder = tempfile::tempdir().expect("a folder");
        let (victim, link) = (folder.path().join("victim"), folder.path().join("link"));
        std::fs::write(&victim, "precious").expect("written");
        std::os::unix::fs::symlink(&victim, &link).expect("a link");
        assert!(create(&link).is_err());
        assert!(open(OpenOptions::new().append(true).create(true), &link).is_err());
        assert_eq!(std::fs::read(&victim).expect("bytes"), b"precious");
        create(&victim).expect("a file of one's own");
        let (elsewhere, samples) = (folder.path().join("elsewhere"), folder.path().join("samples"));
        subfolder(&elsewhere).expect("a folder");
        subfolder(&elsewhere).expect("the same again");
        std::os::unix::fs::symlink(&elsewhere, &samples).expect("a link");
        assert!(subfolder(&samples).is_err());
    }
}
