//! A Hub as the real one answers, for tests: what it redirects, to where, with which headers.
//!
//! `hub_official` holds it against Hugging Face's own client. Small files come from the Hub itself behind a relative
//! redirect, large ones from a CDN on another host with other headers; a renamed repository answers with a redirect; a
//! gated one describes itself and keeps its files.

use std::collections::{BTreeMap, HashMap};
use std::io::Result;
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest, Sha256};

use super::server::{Answer, ReceivedRequest, serve_streams, write_answer};

/// A commit of every repository that has but one.
pub(crate) const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
/// The token that opens gated repositories, and may write.
pub(crate) const TOKEN: &str = "hf_secret";

/// Contents by name.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// A repository: its revisions, and what each commit holds.
#[derive(Clone, Default)]
pub(crate) struct Repository {
    /// `models` or `datasets`, and `owner/name`.
    pub(crate) address: (String, String),
    /// Commits by branch or tag.
    pub(crate) branches: BTreeMap<String, String>,
    pub(crate) commits: BTreeMap<String, Files>,
    pub(crate) is_gated: bool,
}

impl Repository {
    /// One commit, on main.
    pub(crate) fn new(kind: &str, id: &str, files: Files) -> Self {
        let address = (kind.to_owned(), id.to_owned());
        Self { address, ..Self::default() }.with("main", COMMIT, files)
    }

    /// Another branch or tag.
    pub(crate) fn with(mut self, branch: &str, commit: &str, files: Files) -> Self {
        self.branches.insert(branch.into(), commit.into());
        self.commits.insert(commit.into(), files);
        self
    }

    fn commit(&self, revision: &str) -> Option<&str> {
        let named = self.branches.get(revision).map(String::as_str);
        named.or_else(|| self.commits.get_key_value(revision).map(|(commit, _)| commit.as_str()))
    }
}

/// Names and texts as files.
pub(crate) fn files(files: &[(&str, &[u8])]) -> Files {
    files.iter().map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec())).collect()
}

/// A server's state.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) repositories: Vec<Repository>,
    /// Addresses of repositories by those that they had.
    pub(crate) renamed: HashMap<String, String>,
    /// Requests to the Hub and to the CDN.
    pub(crate) log: Vec<ReceivedRequest>,
    pub(crate) cdn_log: Vec<ReceivedRequest>,
}

/// A running server.
#[derive(Clone)]
pub(crate) struct FakeHub {
    pub(crate) endpoint: String,
    pub(crate) shelf: Arc<Mutex<Shelf>>,
}

impl FakeHub {
    pub(crate) fn new(repositories: Vec<Repository>) -> Self {
        Self::with_fault(repositories, |_, answer| answer)
    }

    /// A server whose answers, the CDN's too, are changed on the way.
    pub(crate) fn with_fault(
        repositories: Vec<Repository>,
        fault: impl Fn(&ReceivedRequest, Answer) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::with_writer(repositories, move |request, answer, stream| {
            write_answer(request, &fault(request, answer), stream)
        })
    }

    /// A server whose answers, the CDN's too, are written by `write`.
    pub(crate) fn with_writer(
        repositories: Vec<Repository>,
        write: impl Fn(&ReceivedRequest, Answer, &TcpStream) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        let shelf = Shelf { repositories, ..Shelf::default() };
        let shelf = Arc::new(Mutex::new(shelf));
        let write = Arc::new(write);
        let (on_cdn, on_hub, write_cdn) = (shelf.clone(), shelf.clone(), write.clone());
        let cdn = serve_streams(move |request, stream| {
            let answer = {
                let mut shelf = on_cdn.lock().expect("shelf");
                shelf.cdn_log.push(request.clone());
                shelf.cdn(request)
            };
            write_cdn(request, answer, stream)
        });
        let endpoint = serve_streams(move |request, stream| {
            let answer = {
                let mut shelf = on_hub.lock().expect("shelf");
                shelf.log.push(request.clone());
                shelf.answer(request, &cdn)
            };
            write(request, answer, stream)
        });
        Self { endpoint, shelf }
    }

    /// `METHOD PATH` of each request to the Hub so far.
    pub(crate) fn log(&self) -> Vec<String> {
        let shelf = self.shelf.lock().expect("shelf");
        shelf.log.iter().map(|request| format!("{} {}", request.method, request.path)).collect()
    }
}

pub(super) fn error_answer(status: u16, code: &str, message: &str) -> Answer {
    let headers = format!("X-Error-Code: {code}\r\nX-Error-Message: {message}\r\n");
    (status, headers, json!({"error": message}).to_string().into_bytes())
}

pub(crate) fn json_answer(value: &Value) -> Answer {
    (200, "Content-Type: application/json\r\n".into(), value.to_string().into_bytes())
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::digest(bytes))
}

/// Git's id of a content.
pub(crate) fn blob_id(bytes: &[u8]) -> String {
    hex(Sha1::digest([format!("blob {}\0", bytes.len()).as_bytes(), bytes].concat()))
}

/// What stands in git for a large file.
pub(crate) fn pointer(bytes: &[u8]) -> String {
    let (hash, size) = (sha256(bytes), bytes.len());
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{hash}\nsize {size}\n")
}

pub(super) fn is_large(name: &str) -> bool {
    [".safetensors", ".parquet", ".bin"].iter().any(|end| name.ends_with(end))
}

/// A file as the API describes it.
fn entry(name: &str, bytes: &[u8]) -> Value {
    let mut entry =
        json!({"type": "file", "path": name, "size": bytes.len(), "oid": blob_id(bytes)});
    if is_large(name) {
        let pointer = pointer(bytes);
        entry["oid"] = json!(blob_id(pointer.as_bytes()));
        entry["lfs"] =
            json!({"oid": sha256(bytes), "size": bytes.len(), "pointerSize": pointer.len()});
        entry["xetHash"] = json!(sha256(bytes));
    }
    entry
}

/// The part of a content that is asked for.
fn part(request: &ReceivedRequest, bytes: &[u8], headers: String) -> Answer {
    let headers = headers + "Accept-Ranges: bytes\r\n";
    let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return (200, headers, bytes.to_vec());
    };
    let (start, end) = range.split_once('-').unwrap_or((range, ""));
    let last = bytes.len().saturating_sub(1);
    let (start, end) = (start.parse().unwrap_or(0), end.parse().unwrap_or(last).min(last));
    if start > end || start >= bytes.len() {
        return (416, format!("{headers}Content-Range: bytes */{}\r\n", bytes.len()), Vec::new());
    }
    let range = format!("Content-Range: bytes {start}-{end}/{}\r\n", bytes.len());
    (206, headers + &range, bytes[start..=end].to_vec())
}

fn decoded(text: &str) -> String {
    text.replace("%2F", "/").replace("%20", " ")
}

impl Shelf {
    fn cdn(&self, request: &ReceivedRequest) -> Answer {
        let hash = request.path.trim_start_matches("/repos/");
        let contents = self.repositories.iter().flat_map(|repository| repository.commits.values());
        let mut contents = contents.flat_map(BTreeMap::values);
        match contents.find(|bytes| sha256(bytes) == hash) {
            // Another ETag than the Hub's, and none of its headers.
            Some(bytes) => {
                let headers = "ETag: \"a-multipart-hash-7\"\r\nContent-Type: binary/octet-stream\r\n\
                     Content-Disposition: attachment; filename=\"x\";\r\nX-Cache: Miss from cloudfront\r\n";
                part(request, bytes, headers.into())
            }
            None => (403, String::new(), b"<Error><Code>AccessDenied</Code></Error>".to_vec()),
        }
    }

    fn answer(&mut self, request: &ReceivedRequest, cdn: &str) -> Answer {
        let path = decoded(&request.path);
        let renamed = self.renamed.iter().find(|(old, _)| {
            let rest = path.split_once(old.as_str()).map(|(_, rest)| rest);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        });
        if let Some((old, new)) = renamed {
            // As the Hub does it: without a host.
            let to = request.path.replacen(old.as_str(), new, 1);
            return (307, format!("Location: {to}\r\n"), b"Temporary Redirect".to_vec());
        }
        let is_known =
            request.header("authorization").is_some_and(|value| value == format!("Bearer {TOKEN}"));
        if let Some(rest) = path.strip_prefix("/api/resolve-cache/") {
            return self.cached(request, rest);
        }
        match path.strip_prefix("/api/") {
            Some(rest) => self.describe(request, rest),
            None => self.resolve(&path, is_known, cdn),
        }
    }

    /// `KIND/OWNER/NAME/REST` to the repository and the rest.
    fn find(&self, path: &str) -> Option<(&Repository, String)> {
        self.repositories.iter().find_map(|repository| {
            let (kind, id) = &repository.address;
            let rest = path.strip_prefix(&format!("{kind}/{id}"))?;
            let is_own = rest.is_empty() || rest.starts_with('/');
            is_own.then(|| (repository, rest.trim_start_matches('/').to_owned()))
        })
    }

    fn describe(&self, request: &ReceivedRequest, path: &str) -> Answer {
        // The Hub tells strangers nothing of what it does not show them.
        let Some((repository, rest)) = self.find(path) else {
            return match request.header("authorization") {
                Some(_) => error_answer(404, "RepoNotFound", "Repository not found"),
                None => error_answer(401, "RepoNotFound", "Invalid username or password."),
            };
        };
        let (what, revision) = match rest.split_once('/') {
            Some((what, revision)) => (what, revision),
            None => ("revision", "main"),
        };
        let Some(commit) = repository.commit(revision) else {
            let message = format!("Invalid rev id: {revision}");
            return error_answer(404, "RevisionNotFound", &message);
        };
        let files = &repository.commits[commit];
        match what {
            "revision" => {
                let siblings = files.keys().map(|name| json!({"rfilename": name}));
                json_answer(&json!({
                    "_id": "621ffdc036468d709f17434d", "id": repository.address.1, "sha": commit, "private": false,
                    "gated": if repository.is_gated { json!("auto") } else { json!(false) }, "disabled": false,
                    "tags": [], "downloads": 1, "likes": 0, "lastModified": "2026-01-01T00:00:00.000Z",
                    "createdAt": "2026-01-01T00:00:00.000Z", "siblings": siblings.collect::<Vec<_>>(),
                }))
            }
            "paths-info" => {
                let asked = asked_paths(request);
                let entries = asked.iter().filter_map(|name| Some(entry(name, files.get(name)?)));
                json_answer(&entries.collect())
            }
            "tree" => json_answer(&files.iter().map(|(name, bytes)| entry(name, bytes)).collect()),
            _ => (404, String::new(), b"{}".to_vec()),
        }
    }

    fn resolve(&self, path: &str, is_known: bool, cdn: &str) -> Answer {
        let path = match path.strip_prefix("/datasets/") {
            Some(rest) => format!("datasets/{rest}"),
            None => format!("models{path}"),
        };
        let Some((repository, rest)) = self.find(&path) else {
            return error_answer(401, "RepoNotFound", "Invalid username or password.");
        };
        if repository.is_gated && !is_known {
            let message = format!("Access to model {} is restricted.", repository.address.1);
            return error_answer(401, "GatedRepo", &message);
        }
        let rest = rest.trim_start_matches("resolve/");
        // A branch may have slashes of its own.
        let revisions = repository.branches.keys().chain(repository.commits.keys());
        let mut found = revisions.filter_map(|revision| {
            Some((revision, rest.strip_prefix(revision.as_str())?.strip_prefix('/')?))
        });
        let Some((revision, name)) = found.next() else {
            return error_answer(404, "RevisionNotFound", "Invalid rev id");
        };
        let commit = repository.commit(revision).expect("a commit");
        let headers = format!("X-Repo-Commit: {commit}\r\n");
        let Some(bytes) = repository.commits[commit].get(name) else {
            let (status, more, body) = error_answer(404, "EntryNotFound", "Entry not found");
            return (status, headers + &more, body);
        };
        let (size, hash, (kind, id)) = (bytes.len(), sha256(bytes), &repository.address);
        if is_large(name) {
            let headers = format!(
                "{headers}Location: {cdn}/repos/{hash}\r\nX-Linked-Etag: \"{hash}\"\r\nX-Linked-Size: {size}\r\n\
                 X-Xet-Hash: {hash}\r\nETag: \"{}\"\r\n\
                 Link: <{cdn}/x>; rel=\"xet-auth\", <{cdn}/y>; rel=\"xet-reconstruction-info\"\r\n",
                blob_id(pointer(bytes).as_bytes())
            );
            return (302, headers, b"Found. Redirecting".to_vec());
        }
        let etag = blob_id(bytes);
        let to = format!("/api/resolve-cache/{kind}/{id}/{commit}/{name}");
        let headers =
            format!("{headers}Location: {to}\r\nETag: \"{etag}\"\r\nX-Linked-Size: {size}\r\n");
        (307, headers, b"Temporary Redirect".to_vec())
    }

    /// A small file, where the Hub's own redirect leads.
    fn cached(&self, request: &ReceivedRequest, path: &str) -> Answer {
        let (repository, rest) = self.find(path).expect("a repository");
        let (commit, name) = rest.split_once('/').expect("a file");
        let bytes = &repository.commits[commit][name];
        let etag = blob_id(bytes);
        part(request, bytes, format!("X-Repo-Commit: {commit}\r\nETag: \"{etag}\"\r\n"))
    }
}

/// The paths of a question for files: JSON from Tealight, a form from the Python client.
fn asked_paths(request: &ReceivedRequest) -> Vec<String> {
    if let Ok(value) = serde_json::from_slice::<Value>(&request.body) {
        let paths = value["paths"].as_array().into_iter().flatten();
        return paths.filter_map(|path| path.as_str().map(str::to_owned)).collect();
    }
    let body = String::from_utf8_lossy(&request.body).into_owned();
    let fields = body.split('&').filter_map(|field| field.strip_prefix("paths="));
    fields.map(decoded).collect()
}
