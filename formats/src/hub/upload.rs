//! Requests that write to a Hub: each within limits of time and memory, none of them redirected.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::Value;

use tealight_system::http::{Client, Content, Failure, Method, Request, StatusCode};

/// How often a request that failed on the way is tried in all.
const ATTEMPTS: usize = 4;
/// How long a server may take no more of a file, or send nothing of its answer.
const SILENCE: Duration = Duration::from_secs(120);
/// Largest answer that is read, in bytes.
const MAX_ANSWER: u64 = 64 << 20;
/// The kinds of body that are sent.
pub(super) const JSON: &str = "application/json";
pub(super) const LFS: &str = "application/vnd.git-lfs+json";

/// The server and who asks.
pub(super) struct Hub {
    client: Client,
    pub(super) endpoint: String,
}

/// An answer, whole.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

impl Hub {
    pub(super) fn new(endpoint: String, token: &str) -> Result<Self> {
        let client = Client::new(&endpoint, Some(token), SILENCE, None);
        let client = client.with_context(|| format!("HF_ENDPOINT={endpoint}"))?;
        Ok(Self { client, endpoint })
    }

    /// Posts `text` of a kind until there is an answer; a server in trouble is asked again.
    pub(super) fn post(&self, url: &str, kind: &str, text: &str) -> Result<Answer> {
        let headers = [("Content-Type", kind), ("Accept", kind)];
        self.tried(|| self.answered(Method::POST, url, &headers, Content::Text(text)))
    }

    /// Posts JSON to an address of the Hub's choice, with the headers that the Hub gives for it. Only the Hub's own
    /// host sees the token, and not where those headers have a permission.
    pub(super) fn post_with(&self, url: &str, headers: &Value, text: &str) -> Result<Answer> {
        let headers = [vec![("Content-Type", LFS), ("Accept", LFS)], given(headers)].concat();
        self.tried(|| self.answered(Method::POST, url, &headers, Content::Text(text)))
    }

    /// Sends a file to an address that carries its own permission.
    pub(super) fn send(&self, to: &str, headers: &Value, file: &Path) -> Result<Answer> {
        self.tried(|| {
            let unreadable = |error| Failure::ForGood(format!("{}: {error}", file.display()));
            let file = File::open(file).map_err(unreadable)?;
            self.answered(Method::PUT, to, &given(headers), Content::File(&file))
        })
    }

    /// The whole answer to a request.
    fn answered(
        &self,
        method: Method,
        url: &str,
        headers: &[(&str, &str)],
        content: Content<'_>,
    ) -> Result<Answer, Failure> {
        let answer = self.client.send(&Request { method, url, headers, content, redirects: 0 })?;
        Ok(Answer { status: answer.status, body: answer.body(MAX_ANSWER)? })
    }

    fn tried(&self, ask: impl Fn() -> Result<Answer, Failure>) -> Result<Answer> {
        let mut attempt = 1;
        loop {
            let answer = ask();
            let is_busy = |answer: &Answer| {
                answer.status.is_server_error() || answer.status == StatusCode::TOO_MANY_REQUESTS
            };
            match answer {
                Ok(answer) if attempt == ATTEMPTS || !is_busy(&answer) => return Ok(answer),
                Err(failure @ Failure::ForGood(_)) => return Err(failure.into()),
                Err(failure) if attempt == ATTEMPTS => {
                    return Err(failure).context(
                        "the network failed; what was sent stays, so the same command goes on from there",
                    );
                }
                _ => {}
            }
            std::thread::sleep(Duration::from_millis(200 << attempt));
            attempt += 1;
        }
    }
}

/// The headers that an answer of the Hub asks for.
fn given(headers: &Value) -> Vec<(&str, &str)> {
    let headers = headers.as_object().into_iter().flatten();
    headers.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect()
}
