//! Requests to the Hub: what a repository holds, what a file is, and a file's bytes.
//!
//! hf-hub spells addresses and knows the form of a description (`Repo`, `RepoInfo`). Its own client sends the token and
//! writes files where a server says, and has no limit of time, so the bytes come by `tealight_system::http`. Each call
//! runs in a thread with a budget of memory.

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use hf_hub::api::RepoInfo;
use hf_hub::{Repo, RepoType};
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::json;

use super::cache::Listing;
use super::git_object::{FileMetadata, is_hexadecimal};
use tealight_core::display::shortened;
use tealight_system::budget;
use tealight_system::http::{Client, Failure, Method, Request, Response, StatusCode, encoded_name};

/// Redirects from one address to the next.
const MAX_REDIRECTS: usize = 5;
/// Memory of a request and its answer, in bytes.
const MEMORY: usize = 256 << 20;
/// Largest description, in bytes.
const MAX_DESCRIPTION: u64 = 64 << 20;

/// A server, and who asks.
#[derive(Clone)]
pub(super) struct Hub {
    pub(super) endpoint: String,
    /// Silence after which a connection counts as broken; a description may take twice as long.
    pub(super) silence: Duration,
    clients: Arc<Clients>,
}

/// Who asks for descriptions, which have a limit of time, and for files, which have none.
struct Clients {
    descriptions: Client,
    files: Client,
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

impl From<anyhow::Error> for Broken {
    fn from(error: anyhow::Error) -> Self {
        Broken::ForGood(error)
    }
}

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Broken::ForGood(error.into())
    }
}

impl From<Failure> for Broken {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::OnTheWay(why) => Broken::OnTheWay(why),
            Failure::ForGood(why) => Broken::ForGood(anyhow!(why)),
        }
    }
}

/// The server has no such repository or revision.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotFound(String);

/// What the API says of a path.
#[derive(Deserialize)]
struct Entry {
    path: String,
    #[serde(rename = "type")]
    kind: String,
    size: u64,
    oid: String,
    lfs: Option<IgnoredAny>,
}

impl Address {
    /// The repository at a revision, as hf-hub spells it in addresses.
    fn at(&self, revision: &str) -> Repo {
        let id = format!("{}/{}", self.owner, self.name);
        Repo::with_revision(id, repository_type(self.kind), encoded_name(revision))
    }
}

/// hf-hub's name of a kind, `models` or `datasets`.
pub(super) fn repository_type(kind: &str) -> RepoType {
    if kind == "datasets" { RepoType::Dataset } else { RepoType::Model }
}

impl Hub {
    /// Nothing is sent yet.
    pub(super) fn new(endpoint: String, token: Option<String>, silence: Duration) -> Result<Self> {
        let client = |time| {
            let client = Client::new(&endpoint, token.as_deref(), silence, time);
            client.with_context(|| format!("HF_ENDPOINT={endpoint}"))
        };
        let (descriptions, files) = (client(Some(2 * silence))?, client(None)?);
        Ok(Self { silence, clients: Arc::new(Clients { descriptions, files }), endpoint })
    }

    /// Does `work` in a thread whose memory is counted.
    pub(super) fn run<R: Send + 'static>(
        &self,
        time: Duration,
        work: impl FnOnce(&Self) -> Result<R, Broken> + Send + 'static,
    ) -> Result<R, Broken> {
        let hub = self.clone();
        budget::within_time(&self.endpoint, MEMORY, time, move || Ok(work(&hub)))?
    }

    /// What the revision of a repository holds.
    pub(super) fn describe(&self, at: &Address, revision: &str) -> Result<Listing, Broken> {
        let url = format!("{}/api/{}", self.endpoint, at.at(revision).api_url());
        let info: RepoInfo = self.described(url, None)?;
        if !is_hexadecimal(&info.sha, 40) {
            return Err(anyhow!("invalid commit hash from the Hub").into());
        }
        let files = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        Ok(Listing { commit: info.sha, files, is_whole: true })
    }

    /// What git knows of a file at a commit.
    pub(super) fn metadata(
        &self,
        at: &Address,
        commit: &str,
        file: &str,
    ) -> Result<FileMetadata, Broken> {
        let Address { kind, owner, name } = at;
        let revision = at.at(commit).url_revision();
        let url = format!("{}/api/{kind}/{owner}/{name}/paths-info/{revision}", self.endpoint);
        let paths = json!({"paths": [file], "expand": false}).to_string();
        let entries: Vec<Entry> = self.described(url, Some(paths))?;
        let found = entries.into_iter().find(|entry| entry.kind == "file" && entry.path == file);
        let Entry { size, oid, lfs, .. } = found.context("the repository has no such file")?;
        if !is_hexadecimal(&oid, 40) {
            return Err(anyhow!("invalid object id from the Hub").into());
        }
        let (name, commit) = (file.into(), commit.into());
        Ok(FileMetadata { name, commit, bytes: size, oid, is_lfs: lfs.is_some() })
    }

    /// The JSON at an address of the API, asked for with `content` where there is one.
    fn described<T: DeserializeOwned + Send + 'static>(
        &self,
        url: String,
        content: Option<String>,
    ) -> Result<T, Broken> {
        // The client has its own limit; this one holds where the reader of its answer takes long.
        self.run(2 * self.silence + Duration::from_secs(5), move |hub| {
            let answer = hub.clients.descriptions.send(&Request {
                method: if content.is_some() { Method::POST } else { Method::GET },
                url: &url,
                headers: &[("Content-Type", "application/json"), ("Accept", "application/json")],
                content: content.as_deref(),
                redirects: MAX_REDIRECTS,
            })?;
            let text = accepted(answer)?.body(MAX_DESCRIPTION)?;
            serde_json::from_slice(&text)
                .map_err(|_| anyhow!("the Hub's answer is not the JSON of its API").into())
        })
    }

    /// The bytes of a file from `from` on, and how many are announced: fewer than all tell that the range is heeded.
    pub(super) fn stream(
        &self,
        at: &Address,
        file: &FileMetadata,
        from: u64,
    ) -> Result<(Option<u64>, impl Read + use<>), Broken> {
        let repository = at.at(&file.commit);
        let (place, commit) = (repository.url(), repository.url_revision());
        let url =
            format!("{}/{place}/resolve/{commit}/{}", self.endpoint, encoded_name(&file.name));
        let range = format!("bytes={from}-{}", file.bytes.saturating_sub(1));
        let headers = [("Range", range.as_str())];
        let answer = self.clients.files.send(&Request {
            method: Method::GET,
            url: &url,
            headers: if from > 0 { &headers } else { &[] },
            content: None,
            redirects: MAX_REDIRECTS,
        })?;
        let answer = accepted(answer)?;
        Ok((answer.announced_bytes(), answer.into_reader()))
    }
}

/// An answer that is no refusal.
fn accepted(answer: Response) -> Result<Response, Broken> {
    if answer.status.is_success() {
        return Ok(answer);
    }
    let (code, message) = (answer.header("x-error-code"), answer.header("x-error-message"));
    Err(refused(answer.status, code, message))
}

/// What a status of the Hub means, and the fix. The Hub's own words follow, shortened.
fn refused(status: StatusCode, code: Option<&str>, message: Option<&str>) -> Broken {
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
        (404, "RevisionNotFound") => "there is no such revision; leave out `@revision` for main",
        (404, "EntryNotFound") => "the repository has no such file",
        (404, _) => "there is no such repository, or it is private",
        (416, _) => return Broken::BadRange,
        (408 | 429 | 500.., _) => {
            return Broken::OnTheWay(format!("the server said {status}"));
        }
        _ => "the Hub refused",
    };
    let words = shortened(message.unwrap_or_default(), 200);
    let words = if words.is_empty() { words } else { format!(": {words}") };
    let text = format!("{fix} ({status}{words})");
    Broken::ForGood(match (status.as_u16(), code) {
        (404, Some("EntryNotFound")) | (400..=403, _) => anyhow!(text),
        (404, _) => NotFound(text).into(),
        _ => anyhow!(text),
    })
}
