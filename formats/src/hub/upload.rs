//! Requests that write to a Hub: each within limits of time and memory, none of them redirected.
//!
//! hf-hub's own commits need a Hub with Xet: where a server knows git LFS alone, they hold large files themselves, in
//! memory. So the requests of `push` are our own.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use futures_util::stream;
use reqwest::header::CONTENT_LENGTH;
use reqwest::redirect::Policy;
use reqwest::{Body, Client, RequestBuilder, Response, StatusCode};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::token::with_token;
use tealight_system::http::{client_of_runtime, described};

/// How often a request that failed on the way is tried in all.
const ATTEMPTS: usize = 4;
/// How long a server may take no more of a file, and how long its answer and the answer's body may take.
const ANSWER: Duration = Duration::from_secs(120);
/// Largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 20;
/// Bytes of a file that are read at a time.
const BLOCK: usize = 1 << 18;
/// The kinds of body that are sent.
pub(super) const JSON: &str = "application/json";
pub(super) const LFS: &str = "application/vnd.git-lfs+json";

/// The server and who asks.
pub(super) struct Hub {
    http: Client,
    runtime: Runtime,
    pub(super) endpoint: String,
    token: String,
}

/// An answer, whole.
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) body: Vec<u8>,
}

/// How many bytes of a request's body were taken from it.
type Taken = Arc<AtomicU64>;

impl Hub {
    pub(super) fn new(endpoint: String, token: String) -> Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            http: client_of_runtime(Client::builder().redirect(Policy::none()))?,
            runtime: runtime.context("no runtime for requests")?,
            endpoint,
            token,
        })
    }

    /// Posts `text` of a kind until there is an answer; a server in trouble is asked again.
    pub(super) fn post(&self, url: &str, kind: &str, text: &str) -> Result<Answer> {
        self.tried(|_| {
            let request = self.http.post(url).header("Content-Type", kind).header("Accept", kind);
            let request = with_token(request, url, &self.endpoint, Some(&self.token));
            Ok(request.body(text.to_owned()))
        })
    }

    /// Posts JSON to an address of the Hub's choice, with the headers that the Hub gives for it. Only the Hub's own
    /// host sees the token.
    pub(super) fn post_with(&self, url: &str, headers: &Value, text: &str) -> Result<Answer> {
        self.tried(|_| {
            let request = self.http.post(url).header("Content-Type", LFS).header("Accept", LFS);
            let has_permission = headers.get("Authorization").is_some();
            let token = Some(self.token.as_str()).filter(|_| !has_permission);
            let request = with_headers(request, headers);
            Ok(with_token(request, url, &self.endpoint, token).body(text.to_owned()))
        })
    }

    /// Sends a file to an address that carries its own permission.
    pub(super) fn send(&self, to: &str, headers: &Value, file: &Path) -> Result<Answer> {
        self.tried(|taken| {
            let file = File::open(file)?;
            let length = file.metadata()?.len();
            let request = with_headers(self.http.put(to), headers).header(CONTENT_LENGTH, length);
            Ok(request.body(body_of(file, taken.clone())))
        })
    }

    fn tried(&self, request: impl Fn(&Taken) -> Result<RequestBuilder>) -> Result<Answer> {
        let mut attempt = 1;
        loop {
            let taken = Taken::default();
            let answer = self.runtime.block_on(answered(request(&taken)?, &taken));
            let is_final = answer.as_ref().is_ok_and(|answer| {
                !answer.status.is_server_error() && answer.status != StatusCode::TOO_MANY_REQUESTS
            });
            if is_final || attempt == ATTEMPTS {
                return answer.context(
                    "the network failed; what was sent stays, so the same command goes on from there",
                );
            }
            std::thread::sleep(Duration::from_millis(200 << attempt));
            attempt += 1;
        }
    }
}

/// The whole answer to a request. Sending may take as long as the file is large, while the server goes on taking it.
async fn answered(request: RequestBuilder, taken: &Taken) -> Result<Answer> {
    let mut response = pin!(request.send());
    let mut before = 0;
    let response = loop {
        match timeout(ANSWER, &mut response).await {
            Ok(response) => break response.map_err(|error| anyhow!(described(&error)))?,
            Err(_) if taken.load(Ordering::Relaxed) > before => {
                before = taken.load(Ordering::Relaxed)
            }
            Err(_) => bail!("no answer in time"),
        }
    };
    let status = response.status();
    let body = timeout(ANSWER, whole(response)).await.context("no answer in time")??;
    Ok(Answer { status, body })
}

async fn whole(mut response: Response) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| anyhow!(described(&error)))? {
        if body.len() + chunk.len() > MAX_ANSWER {
            bail!("its answer is larger than {MAX_ANSWER} bytes, the limit");
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// A file, block by block.
fn body_of(file: File, taken: Taken) -> Body {
    Body::wrap_stream(stream::try_unfold((file, taken), |(mut file, taken)| async move {
        let mut block = vec![0; BLOCK];
        let count = file.read(&mut block)?;
        block.truncate(count);
        taken.fetch_add(count as u64, Ordering::Relaxed);
        Ok::<_, std::io::Error>((count > 0).then_some((block, (file, taken))))
    }))
}

/// A request with the headers that an answer of the Hub asks for.
fn with_headers(request: RequestBuilder, headers: &Value) -> RequestBuilder {
    let headers = headers.as_object().into_iter().flatten();
    headers.fold(request, |request, (name, value)| {
        request.header(name, value.as_str().unwrap_or_default())
    })
}
