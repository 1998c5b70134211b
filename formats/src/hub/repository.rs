//! A repository at one revision: the names of its files, and one file after the other into the cache.
//!
//! Nothing that a server says is believed: a name or a commit becomes a path by `names` alone, and a file is kept once
//! its content is the one that the Hub's git has. `transfer` brings the bytes.

use std::cell::OnceCell;
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail};
use tealight_core::names;

use super::cache::{Folder, Listing};
use super::client::{Address, Broken, Hub};
use super::git_object::is_hexadecimal;
use super::token::{endpoint, token};
use tealight_system::hf_home::cache_directory;

/// How often a download that was cut off is tried in all.
const ATTEMPTS: usize = 3;
/// Largest file, in bytes.
const MAX_FILE: u64 = 1 << 42;

/// A repository at one revision.
pub(super) struct Repository {
    pub(super) at: Address,
    pub(super) revision: String,
    pub(super) folder: Folder,
    pub(super) hub: Hub,
    /// What the Hub said of the revision, asked once: all files are of one commit.
    description: OnceCell<Listing>,
}

impl Repository {
    /// Nothing is sent yet. `kind` is `models` or `datasets`.
    pub(super) fn new(kind: &'static str, id: &str, revision: &str) -> Result<Self> {
        let Some((owner, name)) = id.split_once('/').filter(|_| names::is_repository(id)) else {
            bail!("`{id}`: a repository of the Hub is named owner/name");
        };
        let at = Address { kind, owner: owner.into(), name: name.into() };
        Self::of(at, revision, Hub::new(endpoint(), token(), super::timeout()?)?)
    }

    /// The same repository at another revision.
    pub(super) fn at_revision(&self, revision: &str) -> Result<Self> {
        Self::of(self.at.clone(), revision, self.hub.clone())
    }

    fn of(at: Address, revision: &str, hub: Hub) -> Result<Self> {
        let folder = Folder::new(at.kind, &format!("{}/{}", at.owner, at.name), revision)?;
        Ok(Self { at, revision: revision.into(), folder, hub, description: OnceCell::new() })
    }

    pub(super) fn cached(&self, file: &str) -> Option<PathBuf> {
        match self.description.get() {
            Some(description) => self.folder.get(&description.commit, file),
            None => self.folder.get(&self.folder.commit()?, file),
        }
    }

    /// The names of the repository's files.
    pub(super) fn files(&self) -> Result<&[String]> {
        Ok(&self.description()?.files)
    }

    /// The names of the files of this revision, from the cache or the network; offline those that are downloaded.
    pub(super) fn listing(&self) -> Result<Listing> {
        if let Some(listing) = self.folder.listing() {
            return Ok(listing);
        }
        if let (true, Some(listing)) = (super::is_offline(), self.folder.downloaded()) {
            return Ok(listing);
        }
        let listing = self.description()?.clone();
        self.folder.keep(&listing).with_context(|| self.shown())?;
        Ok(listing)
    }

    fn description(&self) -> Result<&Listing> {
        if let Some(description) = self.description.get() {
            return Ok(description);
        }
        self.refuse_offline()?;
        let described = self.hub.describe(&self.at, &self.revision);
        let described = described.map_err(|broken| self.failed(broken))?;
        Ok(self.description.get_or_init(|| described))
    }

    /// The commit, which need not be asked for where the revision is one.
    fn commit(&self) -> Result<&str> {
        match is_hexadecimal(&self.revision, 40) {
            true => Ok(&self.revision),
            false => Ok(&self.description()?.commit),
        }
    }

    /// A file, from the cache or the network; a connection that breaks off is taken up again where it ended.
    pub(super) fn fetch(&self, file: &str) -> Result<PathBuf> {
        self.fetch_at_most(file, MAX_FILE)
    }

    /// The same of a file of at most `most` bytes.
    pub(super) fn fetch_at_most(&self, file: &str, most: u64) -> Result<PathBuf> {
        names::inside(&cache_directory(), file).with_context(|| self.shown())?;
        if let Some(path) = self.cached(file) {
            return Ok(path);
        }
        self.refuse_offline()?;
        let commit = self.commit()?;
        // What was downloaded of another commit may be of this one too.
        if let Some(path) = self.cached(file) {
            return Ok(path);
        }
        let mut attempt = 1;
        loop {
            match self.download(file, commit, most) {
                Err(Broken::OnTheWay(_)) if attempt < ATTEMPTS => attempt += 1,
                Err(broken) => return Err(self.failed(broken).context(file.to_owned())),
                Ok(path) => return Ok(path),
            }
        }
    }

    /// One try.
    fn download(&self, file: &str, commit: &str, most: u64) -> Result<PathBuf, Broken> {
        let metadata = self.hub.metadata(&self.at, commit, file)?;
        if metadata.bytes > most {
            return Err(Broken::ForGood(anyhow!(
                "the server announces {} bytes, too many for a file",
                metadata.bytes
            )));
        }
        let blob = match self.folder.find(&metadata) {
            Some(blob) => blob,
            None => self.transfer(metadata)?,
        };
        Ok(self.folder.link(file, &blob, commit)?)
    }

    /// The error of a request, with what was asked for.
    fn failed(&self, broken: Broken) -> anyhow::Error {
        let place = format!("{} at {}", self.shown(), self.hub.endpoint);
        match broken {
            Broken::ForGood(error) => error.context(place),
            Broken::BadRange => {
                anyhow!("{place}: the server refuses a range that nobody asked for")
            }
            Broken::OnTheWay(why) => anyhow!(
                "{place}: the network failed; set HF_ENDPOINT for a mirror, or give a directory: {why}"
            ),
        }
    }

    /// Nothing may be asked where the user forbids it.
    fn refuse_offline(&self) -> Result<()> {
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
        let Address { kind, owner, name } = &self.at;
        format!("{} `{owner}/{name}@{}`", kind.trim_end_matches('s'), self.revision)
    }
}
