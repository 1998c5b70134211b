//! The directories and switches of Hugging Face's tools, which Tealight shares.

use std::path::PathBuf;

/// Where downloads are kept: `HF_HUB_CACHE`, or `hub` below `HF_HOME` or the user's cache.
pub fn cache_directory() -> PathBuf {
    path("HF_HUB_CACHE")
        .or_else(|| path("HUGGINGFACE_HUB_CACHE"))
        .unwrap_or_else(|| home().join("hub"))
}

/// The directory of everything that Hugging Face's tools keep.
pub fn home() -> PathBuf {
    let cache = || path("XDG_CACHE_HOME").unwrap_or_else(|| user().join(".cache"));
    path("HF_HOME").unwrap_or_else(|| cache().join("huggingface"))
}

/// Whether a switch is on, by the words that the Python client takes.
pub fn is_set(name: &str) -> bool {
    std::env::var(name)
        .is_ok_and(|value| matches!(value.to_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// The path in an environment variable; `~` is the user's directory.
fn path(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(std::env::var_os(name).filter(|path| !path.is_empty())?);
    Some(match path.strip_prefix("~") {
        Ok(below) => user().join(below),
        Err(_) => path,
    })
}

/// Never the current directory: whoever made that one would choose what is in the cache.
fn user() -> PathBuf {
    std::env::home_dir().filter(|path| path.is_absolute()).unwrap_or_else(std::env::temp_dir)
}
