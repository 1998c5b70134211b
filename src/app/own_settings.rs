//! Which folders hold settings that this user's commands wrote: those need not be repeated when a run is resumed. The
//! user's state directory has a digest of each text with its folder, which nobody else's folder can bring.

use std::path::{Path, PathBuf};

use tealight_formats::hub::sha256;
use tealight_system::files::{MAX_SETTINGS, read_text, write_atomic};

/// Folders that are remembered. Settings of older ones are repeated.
const MOST: usize = 1000;

/// The file with the digests, below `XDG_STATE_HOME` or the user's `.local/state`.
fn file() -> Option<PathBuf> {
    let named = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
    let own = || std::env::home_dir().map(|home| home.join(".local/state"));
    let place = named.filter(|path| path.is_absolute()).or_else(own)?;
    place.is_absolute().then(|| place.join("tealight/own-settings"))
}

fn digests(file: &Path) -> Vec<String> {
    let text = read_text(file, MAX_SETTINGS).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// A digest of the settings, of where they lie, and of the working directory: relative paths of the same text name
/// other files in another one.
fn digest(folder: &Path, text: &str) -> Option<String> {
    let [folder, here] = [folder.canonicalize().ok()?, Path::new(".").canonicalize().ok()?];
    let [folder, here] = [&folder, &here].map(|path| path.as_os_str().as_encoded_bytes());
    Some(sha256(&[folder, b"\0", here, b"\0", text.as_bytes()].concat()))
}

/// Whether both files belong to one user, where files belong to users: whoever may write beside a folder can put
/// another in its place.
#[cfg(unix)]
fn belong_together(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let owner = |path: &Path| path.symlink_metadata().map(|file| file.uid());
    matches!((owner(one), owner(other)), (Ok(one), Ok(other)) if one == other)
}

#[cfg(not(unix))]
fn belong_together(_: &Path, _: &Path) -> bool {
    true
}

/// Remembers that this user wrote the settings `text` in `folder`. Where the state directory cannot be written,
/// they have to be repeated.
pub(crate) fn remember(folder: &Path, text: &str) {
    let (Some(file), Some(digest)) = (file(), digest(folder, text)) else { return };
    let mut all = digests(&file);
    if all.contains(&digest) {
        return;
    }
    all.push(digest);
    let lines = &all[all.len().saturating_sub(MOST)..];
    let write = || {
        std::fs::create_dir_all(file.parent()?).ok()?;
        write_atomic(&file, format!("{}\n", lines.join("\n")).as_bytes()).ok()
    };
    if write().is_none() {
        tracing::debug!("{}: cannot be written", file.display());
    }
}

/// Whether a command of this user wrote the settings `text` in `folder`.
pub(crate) fn is_own(folder: &Path, text: &str) -> bool {
    let (Some(file), Some(digest)) = (file(), digest(folder, text)) else { return false };
    digests(&file).contains(&digest)
        && belong_together(&file, folder)
        && belong_together(&file, &folder.join("config.toml"))
}
