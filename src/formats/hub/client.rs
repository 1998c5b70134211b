//! Requests to the Hub: one file at a time into the cache. `listing` asks for the names of the files.
//!
//! Nothing that a server says is believed: names, commits and ETags become paths by `names` alone, a file has
//! the size and, where it was announced, the hash that were announced, and a token goes to no other host.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use tealight_datasets::names;
use ureq::http::Response;
use ureq::{Agent, Body};

use super::cache::Folder;
use super::headers::{content_range, encoded, joined, one_part, plain_etag};
use super::push;
use super::token::{endpoint, token, with_token};
use crate::system::hf_home::cache_directory;
use crate::system::http::{agent, described, header};
use crate::system::machine;
use crate::system::telemetry::Transfer;

/// How often a download that was cut off is tried in all.
const ATTEMPTS: usize = 3;
/// Redirects from one address to the next.
pub(super) const MAX_REDIRECTS: usize = 5;
/// Largest file, in bytes.
const MAX_FILE: u64 = 1 << 42;
/// Largest file whose size no server announced, or that came compressed although it was asked for as it is.
const MAX_UNANNOUNCED: u64 = 256 << 20;
/// Bytes a second that a download has at least: a slower connection counts as broken.
const LEAST_A_SECOND: u64 = 1 << 10;

/// A repository at one revision.
pub(super) struct Repository {
    /// `models` or `datasets`.
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) revision: String,
    pub(super) folder: Folder,
    http: Agent,
    pub(super) endpoint: String,
    token: Option<String>,
    /// Silence after which a connection counts as broken; the description of a repository may take twice as long.
    pub(super) silence: Duration,
}

/// A file that is about to come.
struct Announced {
    response: Response<Body>,
    etag: String,
    commit: String,
    /// Bytes of the whole file.
    bytes: Option<u64>,
    /// Where in it the answer begins.
    from: u64,
}

impl Repository {
    /// Nothing is sent yet.
    pub(super) fn new(kind: &'static str, id: &str, revision: &str) -> Result<Self> {
        if !names::is_repository(id) {
            bail!("`{id}`: a repository of the Hub is named owner/name");
        }
        Ok(Self {
            kind,
            id: id.into(),
            revision: revision.into(),
            folder: Folder::new(kind, id, revision)?,
            http: agent(None),
            endpoint: endpoint(),
            token: token(),
            silence: super::timeout()?,
        })
    }

    /// The model `a/b` of a server without a token, cached in `folder`.
    pub(super) fn at(endpoint: &str, folder: &Path) -> Self {
        Self {
            kind: "models",
            id: "a/b".into(),
            revision: "main".into(),
            folder: Folder::at(folder),
            http: agent(None),
            endpoint: endpoint.into(),
            token: None,
            silence: super::TIMEOUT,
        }
    }

    /// A file that is in the cache.
    pub(super) fn cached(&self, file: &str) -> Option<PathBuf> {
        self.folder.get(file)
    }

    /// A file, from the cache or the network; a connection that breaks off is taken up again where it ended.
    pub(super) fn fetch(&self, file: &str) -> Result<PathBuf> {
        self.fetch_at_most(file, MAX_FILE)
    }

    /// The same of a file of at most `most` bytes.
    pub(super) fn fetch_at_most(&self, file: &str, most: u64) -> Result<PathBuf> {
        if let Some(path) = self.cached(file) {
            return Ok(path);
        }
        self.refuse_offline()?;
        names::inside(&cache_directory(), file).with_context(|| self.shown())?;
        let mut attempt = 1;
        loop {
            match self.download(file, most) {
                Err(Broken::OnTheWay(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(Broken::OnTheWay(why)) => {
                    return Err(self.unreachable(&format!("{file}: {why}")));
                }
                Err(Broken::ForGood(error)) => return Err(error.context(file.to_owned())),
                Ok(path) => return Ok(path),
            }
        }
    }

    /// One try. What an earlier one has brought is kept where the server still has that version of the file.
    fn download(&self, file: &str, most: u64) -> Result<PathBuf, Broken> {
        let mut announced = self.announced(file, 0, most)?;
        let (etag, commit) = (announced.etag.clone(), announced.commit.clone());
        if !self.folder.has(&etag) {
            let mut part = self.folder.incomplete(&etag)?;
            // Another process may have brought it while this one waited.
            if !self.folder.has(&etag) {
                let there = part.metadata()?.len();
                if there > 0 && announced.bytes.is_some_and(|total| there < total) {
                    // The version may have changed in between, and a server may not know ranges.
                    match self.announced(file, there, most) {
                        Ok(rest) if rest.etag == etag && rest.bytes == announced.bytes => {
                            announced = rest;
                        }
                        _ => {}
                    }
                }
                self.fill(file, announced, &mut part, most)?;
                self.folder.complete(&etag)?;
            }
        }
        Ok(self.folder.link(file, &etag, &commit)?)
    }

    /// Writes what comes behind what is there, or in its place where the server begins anew.
    fn fill(
        &self,
        file: &str,
        announced: Announced,
        part: &mut File,
        most: u64,
    ) -> Result<(), Broken> {
        let total = announced.bytes;
        let mut there = announced.from;
        part.set_len(there)?;
        part.seek(SeekFrom::End(0))?;
        let most = total.unwrap_or(MAX_UNANNOUNCED.min(most));
        let free = machine::free_space(&cache_directory());
        if let (Some(total), Some(free)) = (total, free)
            && total - there > free
        {
            return Err(Broken::ForGood(anyhow!(
                "{:.1} GB are to come and {:.1} GB are free in {}: make room, or set HF_HOME",
                (total - there) as f64 / 1e9,
                free as f64 / 1e9,
                cache_directory().display()
            )));
        }
        let label = format!("downloading {}/{file}", self.id);
        let mut progress = Transfer::new(&label, total, there);
        let mut reader = announced.response.into_body().into_with_config().limit(most + 1).reader();
        let mut buffer = vec![0; 1 << 16];
        let (mut since, mut before) = (Instant::now(), there);
        loop {
            let count = match reader.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) => return Err(Broken::OnTheWay(error.to_string())),
            };
            there += count as u64;
            if there > most {
                return Err(Broken::ForGood(match total {
                    Some(_) => {
                        anyhow!("the server sends more than the {most} bytes that it announced")
                    }
                    None => {
                        anyhow!("the server announces no size and sends more than {most} bytes")
                    }
                }));
            }
            if since.elapsed() > self.silence {
                let seconds = self.silence.as_secs();
                if there - before < LEAST_A_SECOND * seconds {
                    let rate = format!("{} bytes in {seconds} s", there - before);
                    return Err(Broken::OnTheWay(format!("too slow: {rate}")));
                }
                (since, before) = (Instant::now(), there);
            }
            part.write_all(&buffer[..count]).context("the cache cannot be written")?;
            progress.advance(count);
        }
        part.sync_all()?;
        if total.is_some_and(|total| there < total) {
            return Err(Broken::OnTheWay(format!("it ended after {there} of {most} bytes")));
        }
        self.check_hash(&announced.etag, part)
    }

    /// Large files are named by their hash.
    fn check_hash(&self, etag: &str, part: &mut File) -> Result<(), Broken> {
        if etag.len() != 64 || !etag.bytes().all(|b| b.is_ascii_hexdigit()) {
            return Ok(());
        }
        part.seek(SeekFrom::Start(0))?;
        let hash = push::sha256(part)?.0;
        if hash.eq_ignore_ascii_case(etag) {
            return Ok(());
        }
        part.set_len(0)?;
        Err(Broken::OnTheWay(format!("its SHA-256 is {hash}, announced was {etag}")))
    }

    /// Asks for a file from byte `from` on; what it is called is said by the Hub, its bytes may come from elsewhere.
    fn announced(&self, file: &str, from: u64, most: u64) -> Result<Announced, Broken> {
        let path = match self.kind {
            "models" => self.id.clone(),
            kind => format!("{kind}/{}", self.id),
        };
        let revision = one_part(&self.revision);
        let mut url = format!("{}/{path}/resolve/{revision}/{}", self.endpoint, encoded(file));
        let (mut etag, mut commit, mut bytes) = (None, None, None);
        for _ in 0..=MAX_REDIRECTS {
            let response = self.ask(&url, from, None)?;
            let text = |name: &str| header(&response, name).map(str::to_owned);
            // A redirect's own length and ETag are not the file's.
            let is_redirect = response.status().is_redirection();
            let final_header = |name: &str| if is_redirect { None } else { text(name) };
            commit = commit.or_else(|| text("x-repo-commit"));
            etag = etag.or_else(|| text("x-linked-etag")).or_else(|| final_header("etag"));
            bytes = bytes.or_else(|| text("x-linked-size")?.parse::<u64>().ok());
            if is_redirect {
                let to = text("location").context("a redirect without an address")?;
                url = joined(&url, &to)?;
                continue;
            }
            let response = self.accepted(response)?;
            let is_encoded = header(&response, "content-encoding").is_some_and(|e| e != "identity");
            let start = match response.status() == 206 {
                true => {
                    let range = header(&response, "content-range").and_then(content_range);
                    let (start, total) = range.context("a part of a file without its range")?;
                    if start != from || is_encoded || bytes.is_some_and(|bytes| bytes != total) {
                        return Err(Broken::OnTheWay(
                            "another part of the file than asked for".into(),
                        ));
                    }
                    bytes = Some(total);
                    from
                }
                false => 0,
            };
            if bytes.is_none() && !is_encoded {
                bytes = header(&response, "content-length").and_then(|text| text.parse().ok());
            }
            if bytes.is_some_and(|bytes| bytes > most) {
                return Err(Broken::ForGood(anyhow!(
                    "the server announces {bytes:?} bytes, too many for a file"
                )));
            }
            let commit = commit.context("the server names no commit")?;
            let etag = plain_etag(&etag.context("the server gives no ETag")?);
            return Ok(Announced { response, etag, commit, bytes, from: start });
        }
        Err(Broken::ForGood(anyhow!("more than {MAX_REDIRECTS} redirects")))
    }

    /// Asks for `url` from byte `from` on. Headers come within `self.silence`, all of the answer within `timeout`.
    pub(super) fn ask(
        &self,
        url: &str,
        from: u64,
        timeout: Option<Duration>,
    ) -> Result<Response<Body>, Broken> {
        let request = self.http.get(url).config().timeout_per_read(Some(self.silence));
        let mut request =
            request.timeout_recv_response(Some(self.silence)).timeout_global(timeout).build();
        request = with_token(request, url, &self.endpoint, self.token.as_deref());
        if from > 0 {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request
            .header("Accept-Encoding", "identity")
            .call()
            .map_err(|error| Broken::OnTheWay(described(&error)))
    }

    /// The answer, or what its status means and the fix.
    pub(super) fn accepted(&self, response: Response<Body>) -> Result<Response<Body>, Broken> {
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let code = header(&response, "x-error-code").unwrap_or_default();
        let fix = match (status.as_u16(), code) {
            (401 | 403, _) => {
                "the repository is gated or private, or does not exist: set HF_TOKEN to a token that may read it"
            }
            (404, "RevisionNotFound") => {
                "there is no such revision; leave out `@revision` for main"
            }
            (404, "EntryNotFound") => "the repository has no such file",
            (404, _) => "there is no such repository, or it is private",
            (429 | 500.., _) => return Err(Broken::OnTheWay(format!("the server said {status}"))),
            _ => "the Hub refused",
        };
        Err(Broken::ForGood(anyhow!("{} at {}: {fix} ({status})", self.shown(), self.endpoint)))
    }

    pub(super) fn unreachable(&self, why: &str) -> anyhow::Error {
        anyhow!(
            "{} at {}: the network failed; set HF_ENDPOINT for a mirror, or give a directory: {why}",
            self.shown(),
            self.endpoint
        )
    }

    /// Nothing may be asked where the user forbids it.
    pub(super) fn refuse_offline(&self) -> Result<()> {
        if super::is_offline() {
            bail!(
                "{} is not in the cache ({}) and HF_HUB_OFFLINE forbids downloading it",
                self.shown(),
                cache_directory().display(),
            );
        }
        Ok(())
    }

    /// The repository as messages name it.
    pub(super) fn shown(&self) -> String {
        format!("{} `{}@{}`", self.kind.trim_end_matches('s'), self.id, self.revision)
    }
}

/// Why a download did not come about.
pub(super) enum Broken {
    /// It may come the next time.
    OnTheWay(String),
    /// It will not.
    ForGood(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Broken {
    fn from(error: E) -> Self {
        Broken::ForGood(error.into())
    }
}
