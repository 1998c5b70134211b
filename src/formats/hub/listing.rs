//! The names of a repository's files: asked of the Hub once, then kept, so that the same names stand offline.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use ureq::Body;
use ureq::http::Response;

use super::cache::Listing;
use super::client::{Broken, MAX_REDIRECTS, Repository};
use super::headers::{joined, one_part};
use crate::system::http::{body, header};

/// Largest description of a repository, in bytes.
const MAX_INFO: u64 = 64 << 20;

impl Repository {
    /// The names of the repository's files.
    pub(super) fn files(&self) -> Result<Vec<String>> {
        Ok(names_of(&self.info()?))
    }

    /// The names of the files of this revision, from the cache or the network; offline those that are downloaded.
    pub(super) fn listing(&self) -> Result<Listing> {
        if let Some(listing) = self.folder.listing() {
            return Ok(listing);
        }
        if let (true, Some(listing)) = (super::is_offline(), self.folder.downloaded()) {
            return Ok(listing);
        }
        self.refuse_offline()?;
        let info = self.info()?;
        let commit = info["sha"]
            .as_str()
            .with_context(|| format!("{}: the Hub names no commit", self.shown()))?;
        let listing = Listing { commit: commit.into(), files: names_of(&info), is_whole: true };
        self.folder.keep(&listing).with_context(|| self.shown())?;
        Ok(listing)
    }

    /// The same repository at a commit.
    pub(super) fn at_commit(&self, commit: &str) -> Result<Self> {
        Self::new(self.kind, &self.id, commit)
    }

    /// The description of the repository.
    fn info(&self) -> Result<Value> {
        let revision = one_part(&self.revision);
        let url = format!("{}/api/{}/{}/revision/{revision}", self.endpoint, self.kind, self.id);
        let mut response = self.answered(url)?;
        let text = body(&mut response, MAX_INFO).with_context(|| self.shown())?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{}: the Hub's answer is not JSON", self.shown()))
    }

    /// The answer to a question of the API; a renamed repository answers elsewhere.
    fn answered(&self, mut url: String) -> Result<Response<Body>> {
        for _ in 0..=MAX_REDIRECTS {
            let answer = self.ask(&url, 0, Some(2 * self.silence)).and_then(|response| {
                match response.status().is_redirection() {
                    true => Ok(response),
                    false => self.accepted(response),
                }
            });
            let response = answer.map_err(|broken| match broken {
                Broken::OnTheWay(why) => self.unreachable(&why),
                Broken::ForGood(error) => error,
            })?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let to = header(&response, "location").context("a redirect without an address");
            url = to.and_then(|to| joined(&url, to)).with_context(|| self.shown())?;
        }
        bail!("{}: more than {MAX_REDIRECTS} redirects", self.shown())
    }
}

fn names_of(info: &Value) -> Vec<String> {
    let siblings = info["siblings"].as_array().into_iter().flatten();
    siblings.filter_map(|file| file["rfilename"].as_str().map(str::to_owned)).collect()
}
