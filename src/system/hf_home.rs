//! The directories of Hugging Face's tools, which Tealight shares.

use std::path::PathBuf;

/// Where downloads are kept: `HF_HUB_CACHE`, or `hub` below `HF_HOME` or the user's cache.
pub fn cache_directory() -> PathBuf {
    match std::env::var_os("HF_HUB_CACHE").filter(|path| !path.is_empty()) {
        Some(path) => path.into(),
        None => home().join("hub"),
    }
}

/// The directory of everything that Hugging Face's tools keep.
pub(crate) fn home() -> PathBuf {
    let set =
        |name: &str| std::env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    // Never the current directory: whoever made that one would choose what is in the cache.
    let user = || std::env::home_dir().filter(|path| path.is_absolute());
    let user = || user().unwrap_or_else(std::env::temp_dir);
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| user().join(".cache"));
    set("HF_HOME").unwrap_or_else(|| cache().join("huggingface"))
}
