//! The state that all requests for verdicts share: the judge, its processors, and the memory that requests may take.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::Result;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use rayon::prelude::*;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::judge::{Judge, Judged, Kind};
use super::metrics::Metrics;

/// Most bytes of all requests in memory; who comes while they are taken is sent away.
const MAX_IN_FLIGHT: usize = 256 << 20;
/// How long a client may take to send its headers, the next part of its body, or to read.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Memory of a request, taken as its bytes come and given back as they are answered.
pub(super) struct Memory {
    all: Arc<Semaphore>,
    own: OwnedSemaphorePermit,
}

impl Memory {
    /// Takes `bytes` more; false where there are not so many left.
    pub(super) fn grow(&mut self, bytes: usize) -> bool {
        let more = u32::try_from(bytes).ok();
        let more = more.and_then(|bytes| self.all.clone().try_acquire_many_owned(bytes).ok());
        more.map(|more| self.own.merge(more)).is_some()
    }

    /// A part of the memory, of at most `bytes`, with a life of its own.
    pub(super) fn part(&mut self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        self.own.split(bytes.min(self.own.num_permits()))
    }

    /// Gives back all but `bytes`.
    pub(super) fn shrink_to(&mut self, bytes: usize) {
        drop(self.part(self.own.num_permits().saturating_sub(bytes)));
    }
}

/// An answer that counts as memory of its request until the client has read it.
pub(super) struct Answer<M> {
    pub(super) text: String,
    pub(super) _memory: M,
}

impl<M> AsRef<[u8]> for Answer<M> {
    fn as_ref(&self) -> &[u8] {
        self.text.as_bytes()
    }
}

/// The state that all requests share.
pub(super) struct Service {
    pub(super) judge: Judge,
    /// Batches that are judged at a time.
    cores: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    pub(super) metrics: Metrics,
    pub(super) is_ending: AtomicBool,
}

impl Service {
    /// A service of which nothing is taken.
    pub(super) fn new(judge: Judge) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            judge,
            cores: Arc::new(Semaphore::new(cores)),
            bytes: Arc::new(Semaphore::new(MAX_IN_FLIGHT)),
            metrics: Metrics::default(),
            is_ending: AtomicBool::new(false),
        }
    }

    /// Bytes of all requests in memory.
    pub(super) fn in_flight(&self) -> usize {
        MAX_IN_FLIGHT - self.bytes.available_permits()
    }

    /// Memory for the first `bytes` of a request, where so many are left.
    pub(super) fn reserve(&self, bytes: usize) -> Option<Memory> {
        let own = self.bytes.clone().try_acquire_many_owned(u32::try_from(bytes).ok()?).ok()?;
        Some(Memory { all: self.bytes.clone(), own })
    }

    /// Judges `work` where it blocks nobody, a batch for each processor at a time. The `permit` is given back with
    /// the verdicts: work goes on where its client is gone, and so does what it takes.
    pub(super) async fn judge<T: Send + 'static, H: Send + 'static>(
        self: &Arc<Self>,
        work: Vec<T>,
        permit: H,
        one: fn(&Judge, T) -> Result<Option<Judged>>,
    ) -> Result<(Vec<Option<Judged>>, H), String> {
        let core = self.cores.clone().acquire_owned().await.map_err(|error| error.to_string())?;
        let service = self.clone();
        let judged = tokio::task::spawn_blocking(move || {
            let started = Instant::now();
            let judged: Vec<Option<Judged>> =
                work.into_par_iter().map(|item| service.judged(item, one)).collect();
            service.metrics.took(started.elapsed());
            drop(core);
            (judged, permit)
        });
        judged.await.map_err(|error| error.to_string())
    }

    /// One verdict, counted. Verifiers are total; should one fail all the same, only its pair is unjudged.
    fn judged<T>(&self, item: T, one: fn(&Judge, T) -> Result<Option<Judged>>) -> Option<Judged> {
        let judged = catch_unwind(AssertUnwindSafe(|| one(&self.judge, item)));
        let unjudged =
            |key: &str, what: &str| json!({"verdict": "unjudged", key: what}).to_string();
        match judged {
            Ok(Ok(judged)) => {
                if let Some(judged) = &judged {
                    self.metrics.judged(judged.kind);
                }
                judged
            }
            Ok(Err(error)) => {
                self.metrics.bad_line();
                let json = unjudged("error", &format!("{error:#}"));
                Some(Judged { json, kind: Kind::Unjudged })
            }
            Err(_) => {
                self.metrics.judged(Kind::Unjudged);
                let json = unjudged("why", "the verifier panicked: please report this pair");
                Some(Judged { json, kind: Kind::Unjudged })
            }
        }
    }
}

/// The refusal of a request for which there is no memory.
pub(super) const BUSY: &str = "too much is being judged; try again";

/// An error as JSON.
pub(super) fn refuse(status: StatusCode, why: &str) -> Response {
    let json = [(header::CONTENT_TYPE, "application/json")];
    let body = json!({"error": why}).to_string();
    let mut response = (status, json, body).into_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    response
}
