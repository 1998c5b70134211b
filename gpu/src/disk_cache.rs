//! A cache on disk: compiled kernels, and verdicts on them.
//!
//! A file is named by the hash of everything that it depends on, so that another driver, GPU, compiler or text of
//! kernels looks for another file. It begins with the checksum of what follows: a damaged one is made again.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use candle_core::Result;
use sha2::{Digest, Sha256};

static FOLDER: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Sets the folder of the cache, which is made on first use. Without one nothing is cached.
pub fn set_folder(folder: PathBuf) {
    *FOLDER.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(folder);
}

/// The inputs that a file depends on.
pub(crate) struct Key<'a> {
    pub(crate) what: &'a str,
    /// The text of the kernels.
    pub(crate) text: &'a str,
    /// The rest: versions, the device.
    pub(crate) parts: &'a [&'a str],
}

impl Key<'_> {
    fn file(&self) -> String {
        let mut hash = Sha256::new();
        // The length of each part before it, so that no two lists of parts are the same bytes.
        for part in [self.text].iter().chain(self.parts) {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part.as_bytes());
        }
        format!("{}-{}", self.what, &hex(&hash.finalize())[..32])
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The text cached under `key`, or else the result of `make`, which is then cached.
pub(crate) fn cached(key: &Key<'_>, make: impl FnOnce() -> Result<String>) -> Result<String> {
    let folder = FOLDER.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone();
    cached_in(folder.as_deref(), key, make)
}

fn cached_in(
    folder: Option<&Path>,
    key: &Key<'_>,
    make: impl FnOnce() -> Result<String>,
) -> Result<String> {
    let Some(folder) = folder else { return make() };
    let path = folder.join(key.file());
    if let Some(text) = std::fs::read_to_string(&path).ok().and_then(|text| checked(&text)) {
        return Ok(text);
    }
    let text = make()?;
    // A folder that cannot be written costs the time of making it again, and nothing else.
    let _ = write(folder, &path, &text);
    Ok(text)
}

/// The text after the checksum, where the checksum fits.
fn checked(file: &str) -> Option<String> {
    let (checksum, text) = file.split_once('\n')?;
    (checksum == hex(&Sha256::digest(text.as_bytes()))).then(|| text.to_owned())
}

fn write(folder: &Path, path: &Path, text: &str) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    // Beside its place and renamed: another process sees all of it or nothing.
    let part = path.with_extension(format!("part-{}", std::process::id()));
    std::fs::write(&part, format!("{}\n{text}", hex(&Sha256::digest(text.as_bytes()))))?;
    std::fs::rename(part, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_per_driver_and_made_again_where_damaged() {
        let folder = std::env::temp_dir().join(format!("tealight-cached-{}", std::process::id()));
        let mut made = 0;
        let mut get = |text: &str, driver: &str| {
            let key = Key { what: "ptx", text, parts: &[driver, "compute_90"] };
            cached_in(Some(&folder), &key, || {
                made += 1;
                Ok(format!("{text} for {driver}"))
            })
            .map(|text| (text, made))
            .expect("a text")
        };
        assert_eq!(get("kernels", "13.0"), ("kernels for 13.0".to_owned(), 1));
        assert_eq!(get("kernels", "13.0"), ("kernels for 13.0".to_owned(), 1));
        assert_eq!(get("kernels", "13.1").1, 2, "another driver");
        assert_eq!(get("other kernels", "13.1").1, 3, "other kernels");
        for entry in std::fs::read_dir(&folder).expect("files") {
            let path = entry.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("text");
            std::fs::write(path, text.replace("for", "of")).expect("damaged");
        }
        assert_eq!(get("kernels", "13.0"), ("kernels for 13.0".to_owned(), 4));
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn failures_are_not_cached() {
        let key = Key { what: "ptx", text: "kernels", parts: &[] };
        assert_eq!(cached_in(None, &key, || Ok("made".to_owned())).expect("made"), "made");
        let folder = std::env::temp_dir().join(format!("tealight-uncached-{}", std::process::id()));
        let failed = cached_in(Some(&folder), &key, || candle_core::bail!("no compiler"));
        assert!(failed.is_err() && !folder.exists());
    }
}
