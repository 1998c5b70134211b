//! A model's name to a directory of files: a path, `countdown` (embedded), or a Hub id.
//!
//! A Hub id (`owner/name[@revision]`) is looked up in the local cache first; a hit makes no network
//! call. `HF_HOME`, `HF_HUB_CACHE`, `HF_TOKEN`, `HF_ENDPOINT` and `HF_HUB_OFFLINE` mean what they mean
//! to the Python client.

pub mod push;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hf_hub::{HFClientSync, HFError};

use crate::adapter;
use crate::model::weights;

/// The name of the embedded model.
pub const EMBEDDED: &str = "countdown";

/// The files of the embedded model.
const EMBEDDED_FILES: [(&str, &[u8]); 5] = [
    ("config.json", include_bytes!("../../models/countdown/config.json")),
    ("generation_config.json", include_bytes!("../../models/countdown/generation_config.json")),
    ("model.safetensors", include_bytes!("../../models/countdown/model.safetensors")),
    ("tokenizer.json", include_bytes!("../../models/countdown/tokenizer.json")),
    ("tokenizer_config.json", include_bytes!("../../models/countdown/tokenizer_config.json")),
];

/// Files of a tokenizer, not all of which every model has.
pub(crate) const TOKENIZER_FILES: [&str; 6] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "chat_template.jinja",
    "vocab.json",
    "merges.txt",
];
/// What else is fetched before the weights, where the repository has it.
const CONFIG_FILES: [&str; 3] = ["config.json", "generation_config.json", adapter::CONFIG];

/// How often a download that was cut off is tried in all.
const ATTEMPTS: usize = 3;

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
    if name == EMBEDDED {
        let directory = tempfile::tempdir().context("no room for the embedded model")?;
        for (file, bytes) in EMBEDDED_FILES {
            crate::files::write_atomic(&directory.path().join(file), bytes)?;
        }
        let path = directory.path().to_owned();
        return Ok(ModelFiles { directory: path, _unpacked: Some(directory) });
    }
    if Path::new(name).is_dir() {
        return Ok(ModelFiles { directory: name.into(), _unpacked: None });
    }
    let (id, revision) = name.split_once('@').unwrap_or((name, "main"));
    let is_id = id.split('/').count() == 2 && !id.starts_with(['.', '/', '~']);
    if !is_id {
        bail!(
            "model `{name}`: no such directory, and not a Hub id (owner/name[@revision]) or \
             `{EMBEDDED}`, the embedded model"
        );
    }
    Ok(ModelFiles { directory: Repository::open(id, revision)?.fetch()?, _unpacked: None })
}

/// The file that `OWNER/NAME[@REVISION]:PATH` names in a dataset repository, from the cache or the
/// network.
///
/// # Errors
/// A name of another form, no such repository or file, no network, no permission.
pub fn dataset_file(spec: &str) -> Result<PathBuf> {
    let form = "a Hub dataset is named hub:OWNER/NAME[@REVISION]:FILE";
    let (repository, file) = spec.split_once(':').with_context(|| format!("`{spec}`: {form}"))?;
    let (id, revision) = repository.split_once('@').unwrap_or((repository, "main"));
    if id.split('/').count() != 2 || file.is_empty() {
        bail!("`{spec}`: {form}");
    }
    let client = HFClientSync::new().context("the Hub client cannot be set up")?;
    let (owner, name) = hf_hub::split_id(id);
    let fetch = |only_local: bool| {
        let repository = client.dataset(owner, name);
        let request = repository.download_file().filename(file);
        request.revision(revision).local_files_only(only_local).send()
    };
    if let Ok(path) = fetch(true) {
        return Ok(path);
    }
    if is_offline() {
        bail!(
            "dataset `{spec}` is not in the cache ({}) and HF_HUB_OFFLINE forbids downloading it",
            cache_directory().display(),
        );
    }
    retried(|| fetch(false)).map_err(|error| explain(error, &format!("dataset `{spec}`")))
}

/// Fetches a file; a connection that breaks off is tried again from the start.
fn retried(fetch: impl Fn() -> Result<PathBuf, HFError>) -> Result<PathBuf, HFError> {
    let mut attempt = 1;
    loop {
        match fetch() {
            Err(HFError::Request { .. } | HFError::Io(_)) if attempt < ATTEMPTS => attempt += 1,
            done => return done,
        }
    }
}

/// Where downloads are kept.
pub fn cache_directory() -> PathBuf {
    hf_hub::resolve_cache_dir()
}

/// Whether the user forbids network calls.
pub fn is_offline() -> bool {
    std::env::var("HF_HUB_OFFLINE")
        .is_ok_and(|value| matches!(value.to_lowercase().as_str(), "1" | "true" | "yes" | "on"))
}

/// One model repository at one revision.
struct Repository<'a> {
    client: HFClientSync,
    id: &'a str,
    revision: &'a str,
}

impl<'a> Repository<'a> {
    fn open(id: &'a str, revision: &'a str) -> Result<Self> {
        let client = HFClientSync::new().context("the Hub client cannot be set up")?;
        Ok(Self { client, id, revision })
    }

    /// The directory of the snapshot, from the cache or the network.
    fn fetch(&self) -> Result<PathBuf> {
        if let Some(directory) = self.cached() {
            return Ok(directory);
        }
        if is_offline() {
            bail!(
                "model `{}@{}` is not in the cache ({}) and HF_HUB_OFFLINE forbids downloading it",
                self.id,
                self.revision,
                cache_directory().display(),
            );
        }
        self.download()
    }

    /// The snapshot, if all of its weights are there. Weights are fetched last, so then the rest
    /// is there too.
    fn cached(&self) -> Option<PathBuf> {
        if let Ok(config) = self.file(adapter::CONFIG, true) {
            let directory = config.parent()?.to_owned();
            return directory.join(adapter::WEIGHTS).exists().then_some(directory);
        }
        let directory = self.file("config.json", true).ok()?.parent()?.to_owned();
        let index = directory.join(weights::INDEX);
        let needed = if index.exists() {
            weights::shard_names(&index).ok()?
        } else {
            vec![weights::WHOLE.to_owned()]
        };
        needed.iter().all(|file| directory.join(file).exists()).then_some(directory)
    }

    fn download(&self) -> Result<PathBuf> {
        let (owner, name) = hf_hub::split_id(self.id);
        let info = self.client.model(owner, name).info().revision(self.revision).send();
        let info = info.map_err(|error| self.explain(error))?;
        let there: Vec<String> =
            info.siblings.unwrap_or_default().into_iter().map(|file| file.rfilename).collect();
        let has = |file: &str| there.iter().any(|name| name == file);
        let mut directory = None;
        for file in CONFIG_FILES.into_iter().chain(TOKENIZER_FILES).filter(|file| has(file)) {
            let path = self.retried(file)?;
            directory = path.parent().map(Path::to_owned);
        }
        let shards = if has(adapter::CONFIG) && has(adapter::WEIGHTS) {
            vec![adapter::WEIGHTS.to_owned()]
        } else if has(weights::WHOLE) {
            vec![weights::WHOLE.to_owned()]
        } else if has(weights::INDEX) {
            weights::shard_names(&self.retried(weights::INDEX)?)?
        } else {
            bail!("model `{}`: the repository has no safetensors weights", self.id);
        };
        for shard in shards {
            eprintln!("downloading {}/{shard}", self.id);
            self.retried(&shard)?;
        }
        directory.with_context(|| format!("model `{}`: the repository has no config.json", self.id))
    }

    fn retried(&self, file: &str) -> Result<PathBuf> {
        let fetched = retried(|| self.file(file, false));
        fetched.map_err(|error| self.explain(error)).with_context(|| file.to_owned())
    }

    fn file(&self, name: &str, only_local: bool) -> Result<PathBuf, HFError> {
        let (owner, repository) = hf_hub::split_id(self.id);
        let repository = self.client.model(owner, repository);
        let request = repository.download_file().filename(name).revision(self.revision);
        request.local_files_only(only_local).send()
    }

    fn explain(&self, error: HFError) -> anyhow::Error {
        explain(error, &format!("model `{}@{}`", self.id, self.revision))
    }
}

/// What went wrong with a repository, and the mend.
fn explain(error: HFError, what: &str) -> anyhow::Error {
    let mend = match &error {
        HFError::AuthRequired { .. } | HFError::Forbidden { .. } => {
            "the repository is gated or private, or does not exist: set HF_TOKEN to a token \
                 that may read it"
        }
        HFError::RepoNotFound { .. } => "there is no such repository, or it is private",
        HFError::RevisionNotFound { context: Some(context), .. }
            if context.error_code.as_deref() == Some("RepoNotFound") =>
        {
            "there is no such repository, or it is private"
        }
        HFError::RevisionNotFound { .. } => {
            "there is no such revision; leave out `@revision` for main"
        }
        HFError::Request { .. } | HFError::Io(_) => {
            "the network failed; set HF_ENDPOINT for a mirror, or give a directory"
        }
        HFError::EntryNotFound { .. } => "the repository has no such file",
        _ => "the Hub refused",
    };
    let endpoint = push::endpoint();
    anyhow::Error::new(error).context(format!("{what} at {endpoint}: {mend}"))
}
