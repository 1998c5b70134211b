//! A model's name to a directory of files where there is no network: in WebAssembly.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use sha2::{Digest, Sha256};

pub use tealight_models::{COUNTDOWN as EMBEDDED, TASKS};

/// Whether `name` is an embedded model.
pub fn is_embedded(name: &str) -> bool {
    tealight_models::files(name).is_some()
}

/// Whether `name` would be fetched from the Hub.
pub fn is_remote(name: &str) -> bool {
    !is_embedded(name) && !Path::new(name).is_dir()
}

/// A directory with a model in Hub layout.
#[derive(Debug)]
pub struct ModelFiles {
    /// Where the files are.
    pub directory: PathBuf,
}

/// Finds the model called `name`.
///
/// # Errors
/// It is no directory.
pub fn resolve(name: &str) -> Result<ModelFiles> {
    if !Path::new(name).is_dir() {
        bail!("model `{name}`: no such directory, and this build has no network");
    }
    Ok(ModelFiles { directory: name.into() })
}

/// The GGUF file that `name` means; none where it means another kind of model.
///
/// # Errors
/// None here.
pub fn gguf_file(name: &str) -> Result<Option<PathBuf>> {
    Ok(Some(PathBuf::from(name)).filter(|path| name.ends_with(".gguf") && path.is_file()))
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
