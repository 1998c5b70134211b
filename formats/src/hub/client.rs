//! Requests to the Hub, by hf-hub: what a repository holds, what a file is, and a file's bytes.
//!
//! hf-hub asks and transfers; it writes no file, decides no name, size or content. Of its calls only `info`,
//! `get_paths_info` and `download_file_stream` are used: others follow a `Link` with the token, write where a server
//! says, take memory as a server announces, or go without a limit of time (`tests/it/tidy.rs`). Each call runs in a
//! thread with a budget of memory; the process's memory is watched too, since Xet transfers in threads of its own.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use futures_util::TryStreamExt;
use hf_hub::repository::download::HFByteStream;
use hf_hub::repository::{RepoSibling, RepoTreeEntry};
use hf_hub::{HFClient, HFError};
use reqwest::redirect::Policy;
use reqwest::{StatusCode, Url};
use tokio::runtime::{Builder, Runtime};

use super::git_object::{FileMetadata, is_hexadecimal};
use super::token::refuse_token;
use tealight_system::budget;
use tealight_system::hf_home::is_set;
use tealight_system::http::{self, described};

/// Redirects from one address to the next.
const MAX_REDIRECTS: usize = 5;
/// Memory of a request and its answer, in bytes.
const MEMORY: usize = 256 << 20;
/// By how much the process may grow meanwhile, in bytes.
const GROWTH: u64 = 1 << 30;

/// A server, and who asks.
#[derive(Clone)]
pub(super) struct Hub {
    pub(super) endpoint: String,
    token: Option<String>,
    /// Silence after which a connection counts as broken; a description may take twice as long.
    pub(super) silence: Duration,
    shared: Arc<Shared>,
}

/// What all requests use: they come one after the other.
struct Shared {
    runtime: Option<Runtime>,
    /// hf-hub's client, and the one below it.
    clients: OnceLock<(HFClient, reqwest::Client)>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Not waited for: a name that is being looked up cannot be given up.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// A revision of a repository: its commit and the names of its files, which nobody has checked.
pub(super) struct Description {
    pub(super) commit: String,
    pub(super) files: Vec<String>,
}

/// A repository's address on a server.
#[derive(Clone)]
pub(super) struct Address {
    /// `models` or `datasets`.
    pub(super) kind: &'static str,
    pub(super) owner: String,
    pub(super) name: String,
}

/// Why a request brought nothing.
pub(super) enum Broken {
    /// It may come the next time.
    OnTheWay(String),
    /// The server has no bytes where a transfer is to go on.
    BadRange,
    /// It will not.
    ForGood(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Broken {
    fn from(error: E) -> Self {
        Broken::ForGood(error.into())
    }
}

/// The server has no such repository or revision.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotFound(String);

/// Does `$work` with the repository of the address's kind, which hf-hub knows by its type.
macro_rules! with_repository {
    ($client:expr, $address:expr, |$repository:ident| $work:expr) => {
        match $address.kind {
            "datasets" => {
                let $repository = $client.dataset(&$address.owner, &$address.name);
                $work
            }
            _ => {
                let $repository = $client.model(&$address.owner, &$address.name);
                $work
            }
        }
    };
}

impl Hub {
    /// Nothing is sent yet.
    pub(super) fn new(endpoint: String, token: Option<String>, silence: Duration) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = Some(runtime.context("no runtime for requests")?);
        let shared = Arc::new(Shared { runtime, clients: OnceLock::new() });
        Ok(Self { endpoint, token, silence, shared })
    }

    /// Does `work` with a client, in a thread whose memory is counted; within `time`, where that is given.
    pub(super) fn run<R: Send + 'static>(
        &self,
        time: Option<Duration>,
        work: impl AsyncFnOnce(Connection) -> Result<R, Broken> + Send + 'static,
    ) -> Result<R, Broken> {
        let hub = self.clone();
        let limits = budget::Limits {
            bytes: MEMORY,
            growth: Some(GROWTH),
            // A download takes as long as it takes; its silence is measured where its bytes arrive.
            time: time.map_or(Duration::MAX, |time| time + Duration::from_secs(5)),
        };
        budget::within_limits(&self.endpoint, limits, move || {
            let runtime = hub.shared.runtime.as_ref().context("the runtime has ended")?;
            let connection = hub.connect()?;
            Ok(runtime.block_on(async {
                match time {
                    None => work(connection).await,
                    Some(time) => {
                        let done = tokio::time::timeout(time, work(connection)).await;
                        done.unwrap_or_else(|_| Err(silent()))
                    }
                }
            }))
        })?
    }

    fn connect(&self) -> Result<Connection> {
        let (client, http) = match self.shared.clients.get() {
            Some(clients) => clients.clone(),
            None => {
                let clients = self.clients()?;
                self.shared.clients.get_or_init(|| clients).clone()
            }
        };
        Ok(Connection { client, http, hub: self.clone() })
    }

    fn clients(&self) -> Result<(HFClient, reqwest::Client)> {
        let home = self.token.as_ref().and(Some(self.endpoint.clone()));
        let policy = Policy::custom(move |attempt| {
            let why = refuse_redirect(attempt.previous(), attempt.url());
            match why.or_else(|| refuse_token(home.as_deref(), attempt.previous(), attempt.url())) {
                Some(why) => attempt.error(why),
                None => attempt.follow(),
            }
        });
        let builder = reqwest::Client::builder().redirect(policy).read_timeout(self.silence);
        let http = http::client_of_runtime(builder)?;
        let client = HFClient::builder()
            .endpoint(&self.endpoint)
            .client(http.clone())
            .cache_enabled(false)
            // Attempts are counted by us. Without a token of ours hf-hub would look for one itself, so it is given one
            // that no header can hold.
            .retry_max_attempts(0)
            .token(self.token.as_deref().unwrap_or("\n"))
            .build()
            .with_context(|| format!("HF_ENDPOINT={}", self.endpoint))?;
        Ok((client, http))
    }

    /// What the revision of a repository holds.
    pub(super) fn describe(&self, at: &Address, revision: &str) -> Result<Description, Broken> {
        let (at, revision) = (at.clone(), revision.to_owned());
        self.run(Some(2 * self.silence), async move |connection: Connection| {
            let names = |siblings: Option<Vec<RepoSibling>>| {
                siblings.into_iter().flatten().map(|sibling| sibling.rfilename).collect::<Vec<_>>()
            };
            let described = with_repository!(connection.client, at, |repository| {
                let info = repository.info().revision(revision).send().await;
                info.map(|info| (info.sha, names(info.siblings)))
            });
            let (commit, files) = described.map_err(|error| connection.explain(error))?;
            let commit = commit.context("the Hub names no commit")?;
            if !is_hexadecimal(&commit, 40) {
                return Err(anyhow!("invalid commit hash from the Hub").into());
            }
            Ok(Description { commit, files })
        })
    }

    /// What git knows of a file at a commit.
    pub(super) fn metadata(
        &self,
        at: &Address,
        commit: &str,
        file: &str,
    ) -> Result<FileMetadata, Broken> {
        let (at, commit, name) = (at.clone(), commit.to_owned(), file.to_owned());
        self.run(Some(2 * self.silence), async move |connection: Connection| {
            let paths = vec![name.clone()];
            let entries = with_repository!(connection.client, at, |repository| {
                repository.get_paths_info().paths(paths).revision(&commit).send().await
            });
            let entries = entries.map_err(|error| connection.explain(error))?;
            let found = entries.into_iter().find_map(|entry| match entry {
                RepoTreeEntry::File { path, size, oid, lfs, .. } if path == name => {
                    Some((size, oid, lfs.is_some()))
                }
                _ => None,
            });
            let (bytes, oid, is_lfs) = found.context("the repository has no such file")?;
            if !is_hexadecimal(&oid, 40) {
                return Err(anyhow!("invalid object id from the Hub").into());
            }
            Ok(FileMetadata { name, commit, bytes, oid, is_lfs })
        })
    }
}

/// A client while it is used.
pub(super) struct Connection {
    client: HFClient,
    http: reqwest::Client,
    pub(super) hub: Hub,
}

impl Connection {
    /// The bytes of a file from `from` on, and how many are announced: fewer than all tell that the range is heeded.
    pub(super) async fn stream(
        &self,
        at: &Address,
        file: &FileMetadata,
        from: u64,
    ) -> Result<(Option<u64>, HFByteStream), Broken> {
        let range = (from > 0).then_some(from..file.bytes);
        let answer = async {
            if is_set("HF_HUB_DISABLE_XET") {
                return self.plain_stream(at, file, from).await;
            }
            let answer = with_repository!(self.client, at, |repository| {
                let request = repository.download_file_stream().filename(&file.name);
                request.revision(&file.commit).maybe_range(range).send().await
            });
            answer.map_err(|error| self.explain(error))
        };
        // Two requests, of which each may be redirected.
        tokio::time::timeout(4 * self.hub.silence, answer).await.unwrap_or_else(|_| Err(silent()))
    }

    /// The same by one request of ours: hf-hub 1.0.0 goes to Xet wherever a server says so, and knows no variable
    /// against it.
    async fn plain_stream(
        &self,
        at: &Address,
        file: &FileMetadata,
        from: u64,
    ) -> Result<(Option<u64>, HFByteStream), Broken> {
        // Models have no folder of their own there.
        let kind = Some(at.kind).filter(|kind| *kind != "models");
        let mut url = Url::parse(&self.hub.endpoint)?;
        if let Ok(mut parts) = url.path_segments_mut() {
            parts.pop_if_empty().extend(kind);
            parts
                .extend([at.owner.as_str(), &at.name, "resolve", &file.commit])
                .extend(file.name.split('/'));
        }
        let mut request = self.http.get(url);
        if let Some(token) = &self.hub.token {
            request = request.bearer_auth(token);
        }
        if from > 0 {
            request =
                request.header("Range", format!("bytes={from}-{}", file.bytes.saturating_sub(1)));
        }
        let answer = request.send().await.map_err(|error| self.explain(error.into()))?;
        let status = answer.status();
        if !status.is_success() {
            let header = |name: &str| answer.headers().get(name)?.to_str().ok().map(str::to_owned);
            let (code, message) = (header("x-error-code"), header("x-error-message"));
            return Err(self.refused(status, code.as_deref(), message.as_deref()));
        }
        let length = answer.content_length();
        Ok((length, Box::new(Box::pin(answer.bytes_stream().map_err(HFError::from)))))
    }

    /// What an error of hf-hub means, and the fix.
    pub(super) fn explain(&self, error: HFError) -> Broken {
        let context = match error {
            HFError::Request { source, .. } if is_malformed(&source) => {
                return Broken::ForGood(anyhow!("the Hub's answer is not the JSON of its API"));
            }
            HFError::Request { source, .. } if source.is_redirect() || source.is_builder() => {
                return Broken::ForGood(anyhow!(described(&source)));
            }
            HFError::Request { source, .. } => return Broken::OnTheWay(described(&source)),
            HFError::Xet { source, .. } => {
                let why: String = source.to_string().chars().take(200).collect();
                return Broken::OnTheWay(format!("Xet: {why}; HF_HUB_DISABLE_XET=1 does without"));
            }
            HFError::Http { context }
            | HFError::AuthRequired { context }
            | HFError::Forbidden { context }
            | HFError::Conflict { context }
            | HFError::RateLimited { context, .. } => context,
            HFError::RepoNotFound { context: Some(context), .. }
            | HFError::RevisionNotFound { context: Some(context), .. }
            | HFError::EntryNotFound { context: Some(context), .. } => context,
            other => return Broken::ForGood(anyhow!("{other}")),
        };
        let (code, message) = (context.error_code.as_deref(), context.server_message.as_deref());
        self.refused(context.status, code, message)
    }

    /// What a status of the Hub means, and the fix. The Hub's own words follow, shortened.
    fn refused(&self, status: StatusCode, code: Option<&str>, message: Option<&str>) -> Broken {
        let fix = match (status.as_u16(), code.unwrap_or_default()) {
            (403, "GatedRepo") => {
                "the repository is gated: ask for access on its page, with the account of your token"
            }
            (401 | 403, "RepoNotFound") => {
                "there is no such repository, or it is private: set HF_TOKEN to a token that may read it"
            }
            (401 | 403, _) => {
                "the repository is gated or private, or does not exist: set HF_TOKEN to a token that may read it"
            }
            (404, "RevisionNotFound") => {
                "there is no such revision; leave out `@revision` for main"
            }
            (404, "EntryNotFound") => "the repository has no such file",
            (404, _) => "there is no such repository, or it is private",
            (416, _) => return Broken::BadRange,
            (408 | 429 | 500.., _) => {
                return Broken::OnTheWay(format!("the server said {status}"));
            }
            _ => "the Hub refused",
        };
        let words: String = message.unwrap_or_default().chars().take(200).collect();
        let words = if words.is_empty() { words } else { format!(": {words}") };
        let text = format!("{fix} ({status}{words})");
        Broken::ForGood(match (status.as_u16(), code) {
            (404, Some("EntryNotFound")) | (400..=403, _) => anyhow!(text),
            (404, _) => NotFound(text).into(),
            _ => anyhow!(text),
        })
    }
}

/// Why a redirect is not followed, if it is not. Whoever follows one drops the token where the server changes.
fn refuse_redirect(previous: &[Url], next: &Url) -> Option<String> {
    if previous.len() > MAX_REDIRECTS {
        return Some(format!("more than {MAX_REDIRECTS} redirects"));
    }
    let was_encrypted = previous.iter().any(|url| url.scheme() == "https");
    (was_encrypted && next.scheme() != "https")
        .then(|| "a redirect from https to an address without encryption".into())
}

/// Whether an answer came whole and is no JSON of the expected form.
fn is_malformed(error: &reqwest::Error) -> bool {
    error.source().is_some_and(|source| source.is::<serde_json::Error>())
}

/// A server that does not answer.
pub(super) fn silent() -> Broken {
    Broken::OnTheWay("no answer in time".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_are_limited_and_never_downgrade_https() {
        let urls = |texts: &[&str]| -> Vec<Url> {
            texts.iter().map(|text| Url::parse(text).unwrap()).collect()
        };
        let refused = |previous: &[&str], next: &str| {
            refuse_redirect(&urls(previous), &Url::parse(next).unwrap())
        };
        assert_eq!(refused(&["https://hub.co/a"], "https://cdn.co/b"), None);
        assert_eq!(refused(&["http://hub.co/a"], "http://cdn.co/b"), None);
        assert!(refused(&["https://hub.co/a"], "http://hub.co/b").is_some());
        assert!(refused(&["https://hub.co/a", "https://cdn.co/b"], "http://cdn.co/b").is_some());
        assert_eq!(refused(&["http://hub.co/"; MAX_REDIRECTS], "http://hub.co/"), None);
        assert!(refused(&["http://hub.co/"; MAX_REDIRECTS + 1], "http://hub.co/").is_some());
    }
}
