//! A model's name to a directory of files: a path, `countdown` or `tasks` (embedded), or a Hub id.
//!
//! A Hub id (`owner/name[@revision]`) is looked up in the local cache first; a hit makes no network
//! call. `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_DOWNLOAD_TIMEOUT` and `HF_HUB_OFFLINE` mean what
//! they mean to the Python client. We send nothing but requests.

mod cache;
mod client;
pub mod dataset;
mod front_matter;
mod git_object;
mod patterns;
mod repository;
mod splits;
pub mod token;
mod transfer;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use sha2::{Digest, Sha256};
use tealight_core::names;
use tealight_core::similar::nearest;

use repository::Repository;

use crate::adapter;
use tealight_nn::model::weights;
use tealight_nn::tokenizer::is_tokenizers;
use tealight_system::hf_home;

pub use tealight_models::{COUNTDOWN as EMBEDDED, TASKS};

/// Whether `name` is an embedded model.
pub fn is_embedded(name: &str) -> bool {
    tealight_models::files(name).is_some()
}

/// Most files of a tokenizer that are fetched, chat templates included.
const MAX_TOKENIZER_FILES: usize = 64;
/// Files to fetch before the weights, where the repository has them.
const CONFIG_FILES: [&str; 3] = ["config.json", "generation_config.json", adapter::CONFIG];

/// A directory with a model in Hub layout.
#[derive(Debug)]
pub struct ModelFiles {
    /// Where the files are.
    pub directory: PathBuf,
    /// Keeps the directory of an embedded model alive.
    _unpacked: Option<tempfile::TempDir>,
}

/// Finds the model called `name`, downloading it where needed.
///
/// # Errors
/// No such directory or repository, no network, no permission; the message says which.
pub fn resolve(name: &str) -> Result<ModelFiles> {
    if let Some(files) = tealight_models::files(name) {
        let directory = tempfile::tempdir()
            .context("no room for the embedded model in the temporary folder (TMPDIR)")?;
        for (file, bytes) in files {
            tealight_system::files::write_atomic(&directory.path().join(file), bytes)?;
        }
        let path = directory.path().to_owned();
        return Ok(ModelFiles { directory: path, _unpacked: Some(directory) });
    }
    if Path::new(name).is_dir() {
        return Ok(ModelFiles { directory: name.into(), _unpacked: None });
    }
    let (id, revision) = name.split_once('@').unwrap_or((name, "main"));
    if !names::is_repository(id) {
        bail!(
            "model `{name}`: no such directory, and not a Hub id (owner/name[@revision]) or an embedded model \
             (`{EMBEDDED}`, `{TASKS}`){}",
            nearest(&name.to_lowercase(), [EMBEDDED, TASKS])
                .map_or(String::new(), |known| format!("; did you mean `{known}`?"))
        );
    }
    let repository = Repository::new("models", id, revision)?;
    if id == name && means_folder(id) && cached(&repository).is_none() {
        bail!(
            "model `{name}`: no such directory. If the Hub's model of this name is meant, name its revision: `{name}@main`"
        );
    }
    Ok(ModelFiles { directory: fetch(&repository)?, _unpacked: None })
}

/// Whether a name that reads like an id is one of a folder: it begins with a folder that is here, or ends as what
/// training writes, as in `run/final`.
fn means_folder(id: &str) -> bool {
    let (owner, last) = id.split_once('/').unwrap_or_default();
    tealight_core::run_folder::is_model(last) || Path::new(owner).is_dir()
}

/// Whether `name` is fetched from the Hub, and not a directory or the embedded model.
pub fn is_remote(name: &str) -> bool {
    !is_embedded(name) && !Path::new(name).is_dir()
}

/// The GGUF file that `name` means: a path, or `OWNER/NAME[@REVISION]:FILE.gguf` on the Hub, from the cache or the
/// network; none where it means another kind of model.
///
/// # Errors
/// No such repository or file, no network, no permission.
pub fn gguf_file(name: &str) -> Result<Option<PathBuf>> {
    if !name.ends_with(".gguf") || Path::new(name).is_dir() {
        return Ok(None);
    }
    if Path::new(name).is_file() {
        return Ok(Some(name.into()));
    }
    let Some((repository, file)) = name.split_once(':') else {
        bail!("model `{name}`: no such file");
    };
    let (id, revision) = repository.split_once('@').unwrap_or((repository, "main"));
    if !names::is_repository(id) {
        bail!("model `{name}`: no such file, and not OWNER/NAME[@REVISION]:FILE.gguf on the Hub");
    }
    let path = Repository::new("models", id, revision)?.fetch(file);
    Ok(Some(path.with_context(|| format!("model `{name}`"))?))
}

/// The SHA-256 of `bytes`, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether the user forbids network calls.
pub fn is_offline() -> bool {
    // The first that is given decides, as in the Python client.
    let is_given = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let given = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"].into_iter().find(is_given);
    given.is_some_and(hf_home::is_set)
}

/// Silence after which a connection counts as broken, unless `HF_HUB_DOWNLOAD_TIMEOUT` says otherwise.
const TIMEOUT: Duration = Duration::from_secs(60);

/// The seconds of `HF_HUB_DOWNLOAD_TIMEOUT`, or [`TIMEOUT`].
fn timeout() -> Result<Duration> {
    const NAME: &str = "HF_HUB_DOWNLOAD_TIMEOUT";
    let Some(text) = std::env::var_os(NAME) else { return Ok(TIMEOUT) };
    let seconds = text.to_str().and_then(|text| text.parse().ok());
    let seconds = seconds.filter(|seconds| (1..=86_400).contains(seconds));
    let seconds = seconds
        .with_context(|| format!("{NAME}={}: give whole seconds, 1 to 86400", text.display()))?;
    Ok(Duration::from_secs(seconds))
}

/// The directory of a model's snapshot, from the cache or the network.
fn fetch(repository: &Repository) -> Result<PathBuf> {
    if let Some(directory) = cached(repository) {
        return Ok(directory);
    }
    download(repository)
}

/// The snapshot, if all of its weights are there. Weights are fetched last, so then the rest is there too.
fn cached(repository: &Repository) -> Option<PathBuf> {
    if let Some(config) = repository.cached(adapter::CONFIG) {
        repository.cached(adapter::WEIGHTS)?;
        return Some(config.parent()?.to_owned());
    }
    let directory = repository.cached("config.json")?.parent()?.to_owned();
    let needed = match repository.cached(weights::INDEX) {
        Some(index) => weights::shard_names(&index).ok()?,
        None => vec![weights::WHOLE.to_owned()],
    };
    needed.iter().all(|file| repository.cached(file).is_some()).then_some(directory)
}

fn download(repository: &Repository) -> Result<PathBuf> {
    let there = repository.files()?;
    let has = |file: &str| there.iter().any(|name| name == file);
    let mut directory = None;
    let configs = CONFIG_FILES.into_iter().filter(|file| has(file));
    let tokenizer = there.iter().map(String::as_str).filter(|name| is_tokenizers(name));
    for file in configs.chain(tokenizer.take(MAX_TOKENIZER_FILES)) {
        let path = repository.fetch(file)?;
        directory = path.parent().map(Path::to_owned);
    }
    let shards = if has(adapter::CONFIG) && has(adapter::WEIGHTS) {
        vec![adapter::WEIGHTS.to_owned()]
    } else if has(weights::WHOLE) {
        vec![weights::WHOLE.to_owned()]
    } else if has(weights::INDEX) {
        weights::shard_names(&repository.fetch(weights::INDEX)?)?
    } else {
        bail!("{}: the repository has no safetensors weights", repository.shown());
    };
    for shard in shards {
        repository.fetch(&shard)?;
    }
    directory.with_context(|| format!("{}: the repository has no config.json", repository.shown()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_embedded_model_is_named() {
        for (name, known) in
            [("task", TASKS), ("taks", TASKS), ("Tasks", TASKS), ("coundown", EMBEDDED)]
        {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.ends_with(&format!("; did you mean `{known}`?")), "{error}");
        }
        let error = resolve("qwen").unwrap_err().to_string();
        assert!(!error.contains("did you mean"), "{error}");
    }

    #[test]
    fn a_mistyped_folder_is_not_asked_for_on_the_hub() {
        for name in ["src/nothing", "rnu/final", "run/best", "run/checkpoint-20"] {
            let error = resolve(name).unwrap_err().to_string();
            assert!(error.contains("no such directory") && error.contains("@main"), "{error}");
        }
        assert!(!means_folder("Qwen/Qwen2.5-0.5B-Instruct"));
    }
}
