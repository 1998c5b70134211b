//! A folder to a model repository on the Hub, by its HTTP interface: large files first, each on its own, then
//! one commit with all of them.
//!
//! A push that was cut off is done again: files that the server has already are not sent, so it goes on where
//! it ended. Large files go by Git LFS's `basic` transfer, which every Hub accepts, in one request each.

pub mod folder;

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tealight_core::names;

use super::token::{endpoint, token};
use super::upload::{Answer, Hub, JSON, LFS};
use folder::{Item, items};
use tealight_system::http::StatusCode;

/// The largest file that one request carries.
const LARGEST: u64 = 5_000_000_000;
/// Bytes of a file that the server looks at to choose how it is stored.
const SAMPLE: usize = 512;

/// A folder to push, and the repository to push to.
pub struct Push<'a> {
    /// `owner/name`.
    pub repository: &'a str,
    /// The branch.
    pub revision: &'a str,
    /// Whether a repository that has to be made is private.
    pub private: bool,
    /// The commit's title.
    pub message: &'a str,
}

impl Push<'_> {
    /// Sends every file of `folder`; `progress` hears of each. Returns the address of the commit.
    ///
    /// # Errors
    /// No token, no permission, a name that is none, a network that stays broken, a file that is too large.
    pub fn run(&self, folder: &Path, progress: &mut dyn FnMut(&str)) -> Result<String> {
        let token = self.authorised()?;
        let hub = Hub::new(endpoint(), &token)?;
        let items = items(folder)?;
        self.create(&hub)?;
        let modes = self.modes(&hub, &items)?;
        let (large, small): (Vec<&Item>, Vec<&Item>) =
            items.iter().partition(|item| modes.contains(&item.file.name));
        self.upload(&hub, &large, progress)?;
        let address = self.commit(&hub, &large, &small)?;
        progress(&format!("{} files in one commit", items.len()));
        Ok(address)
    }

    /// Refuses what can be refused without a network: to be called before anything is written.
    ///
    /// # Errors
    /// No token, a name that is none, no network wanted.
    pub fn check(&self) -> Result<()> {
        self.authorised().map(drop)
    }

    /// The token.
    fn authorised(&self) -> Result<String> {
        if super::is_offline() {
            bail!("HF_HUB_OFFLINE forbids pushing: unset the variable");
        }
        if !names::is_repository(self.repository) {
            bail!("`{}`: a repository is named owner/name", self.repository);
        }
        token()
            .context("no token: set HF_TOKEN to one that may write, or log in with `hf auth login`")
    }

    /// Makes the repository, unless it is there.
    fn create(&self, hub: &Hub) -> Result<()> {
        let (owner, name) = self.repository.split_once('/').unwrap_or_default();
        let body =
            json!({"type": "model", "name": name, "organization": owner, "private": self.private});
        let request = json!({"type": "model", "name": name, "private": self.private});
        let url = format!("{}/api/repos/create", hub.endpoint);
        let mut answer = hub.post(&url, JSON, &body.to_string())?;
        if answer.status == StatusCode::FORBIDDEN || answer.status == StatusCode::BAD_REQUEST {
            // Of one's own account, which is no organisation.
            answer = hub.post(&url, JSON, &request.to_string())?;
        }
        match answer.status {
            StatusCode::CONFLICT => Ok(()),
            _ => self.accepted(answer, "make the repository").map(drop),
        }
    }

    /// The names of the files that are stored as LFS objects.
    fn modes(&self, hub: &Hub, items: &[Item]) -> Result<Vec<String>> {
        let mut files = Vec::new();
        for item in items {
            let mut sample = Vec::new();
            File::open(&item.file.path)?.take(SAMPLE as u64).read_to_end(&mut sample)?;
            let sample = STANDARD.encode(sample);
            files.push(json!({"path": item.file.name, "size": item.file.bytes, "sample": sample}));
        }
        let url = self.api(hub, "preupload");
        let body = json!({ "files": files });
        let answer = self.accepted(hub.post(&url, JSON, &body.to_string())?, "write there")?;
        let answer = json_of(answer)?;
        let files =
            answer["files"].as_array().context("the Hub does not say how to store files")?;
        let is_large = |file: &&Value| file["uploadMode"] == "lfs";
        let name = |file: &Value| file["path"].as_str().map(str::to_owned);
        Ok(files.iter().filter(is_large).filter_map(name).collect())
    }

    /// Sends the large files that the server does not have.
    fn upload(&self, hub: &Hub, items: &[&Item], progress: &mut dyn FnMut(&str)) -> Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        if let Some(item) = items.iter().find(|item| item.file.bytes > LARGEST) {
            bail!(
                "{}: {:.1} GB are more than one request carries; write it smaller with `tealight export --save-dtype \
                 bfloat16`, or push the folder with `hf upload`",
                item.file.path.display(),
                item.file.bytes as f64 / 1e9
            );
        }
        let objects: Vec<Value> =
            items.iter().map(|item| json!({"oid": item.sha256, "size": item.file.bytes})).collect();
        let body = json!({
            "operation": "upload", "transfers": ["basic"], "hash_algo": "sha_256",
            "ref": {"name": self.revision}, "objects": objects,
        });
        let url = format!("{}/{}.git/info/lfs/objects/batch", hub.endpoint, self.repository);
        let answer = hub.post(&url, LFS, &body.to_string())?;
        let answer = json_of(self.accepted(answer, "send large files")?)?;
        let objects = answer["objects"].as_array().context("the Hub names no objects to send")?;
        for item in items {
            let object = objects.iter().find(|object| object["oid"] == item.sha256.as_str());
            let object = object.with_context(|| format!("the Hub forgot {}", item.file.name))?;
            if let Some(error) = object["error"]["message"].as_str() {
                bail!("{}: the Hub refused it: {error}", item.file.name);
            }
            let Some(to) = object["actions"]["upload"]["href"].as_str() else {
                progress(&format!("{} is there already", item.file.name));
                continue;
            };
            progress(&format!(
                "sending {} ({:.1} MB)",
                item.file.name,
                item.file.bytes as f64 / 1e6
            ));
            let headers = &object["actions"]["upload"]["header"];
            let answer = hub.send(to, headers, &item.file.path)?;
            self.accepted(answer, "send a file").with_context(|| item.file.name.clone())?;
            if let Some(check) = object["actions"]["verify"]["href"].as_str() {
                let body = json!({"oid": item.sha256, "size": item.file.bytes});
                let headers = &object["actions"]["verify"]["header"];
                let answer = hub.post_with(check, headers, &body.to_string())?;
                self.accepted(answer, "check a file").with_context(|| item.file.name.clone())?;
            }
        }
        Ok(())
    }

    /// One commit with all files.
    fn commit(&self, hub: &Hub, large: &[&Item], small: &[&Item]) -> Result<String> {
        let mut lines =
            vec![json!({"key": "header", "value": {"summary": self.message, "description": ""}})];
        for item in small {
            let content = STANDARD.encode(std::fs::read(&item.file.path)?);
            lines.push(json!({
                "key": "file",
                "value": {"path": item.file.name, "content": content, "encoding": "base64"},
            }));
        }
        for item in large {
            lines.push(json!({
                "key": "lfsFile",
                "value": {"path": item.file.name, "algo": "sha256", "oid": item.sha256, "size": item.file.bytes},
            }));
        }
        let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let url = self.api(hub, "commit");
        let answer = hub.post(&url, "application/x-ndjson", &body)?;
        let answer = json_of(self.accepted(answer, "commit")?).unwrap_or_default();
        let shown = format!("{}/{}", hub.endpoint, self.repository);
        Ok(answer["commitUrl"].as_str().map_or(shown, str::to_owned))
    }

    fn api(&self, hub: &Hub, what: &str) -> String {
        format!("{}/api/models/{}/{what}/{}", hub.endpoint, self.repository, self.revision)
    }

    fn accepted(&self, answer: Answer, what: &str) -> Result<Answer> {
        let status = answer.status;
        if status.is_success() {
            return Ok(answer);
        }
        let fix = match status {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
                "the token may not: set HF_TOKEN to one that may write to this repository"
            }
            StatusCode::NOT_FOUND => "there is no such repository or branch",
            _ if status.is_redirection() => {
                "a redirect is not followed when files are sent; give the repository's present name"
            }
            _ => "try again later",
        };
        let body: String = String::from_utf8_lossy(&answer.body).chars().take(200).collect();
        bail!("{}: cannot {what} ({status}): {fix}. {body}", self.repository)
    }
}

/// The body of an answer.
fn json_of(answer: Answer) -> Result<Value> {
    serde_json::from_slice(&answer.body).context("the Hub's answer is no JSON")
}

/// The SHA-256 of what is left to read of a file, in hexadecimal, and its length.
fn sha256(file: &mut File) -> std::io::Result<(String, u64)> {
    let (mut hasher, mut buffer, mut bytes) = (Sha256::new(), vec![0u8; 1 << 20], 0);
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                bytes += count as u64;
            }
        }
    }
    Ok((hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect(), bytes))
}
