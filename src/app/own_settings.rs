//! Which folders hold settings that this user's commands wrote: those need not be repeated when a run is resumed. The
//! user's state directory has a digest of each text with its folder, which nobody else's folder can bring.

use std::path::{Path, PathBuf};

use crate::formats::hub::sha256;
use crate::system::files::{MAX_SETTINGS, read_text, write_atomic};

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

/// A digest of the settings and of where they lie: relative paths of the same text elsewhere name other files.
fn digest(folder: &Path, text: &str) -> Option<String> {
    let place = folder.canonicalize().ok()?;
    let place = place.as_os_str().as_encoded_bytes();
    Some(sha256(&[place, b"\0", text.as_bytes()].concat()))
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
    let known = file().map(|file| digests(&file)).unwrap_or_default();
    digest(folder, text).is_some_and(|digest| known.contains(&digest))
}
