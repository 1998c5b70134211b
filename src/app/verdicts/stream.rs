//! JSON lines of any number: read, judged and answered while they come, with a few thousand in memory at a time.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body as _, Frame};
use serde_json::json;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};

use super::service::{Answer, BUSY, Memory, PATIENCE, Service, refuse};

/// Lines that are judged at a time.
const CHUNK: usize = 1024;
/// Bytes of lines that are judged at a time.
const CHUNK_BYTES: usize = 1 << 20;
/// Most bytes of a line.
const MAX_LINE: usize = 1 << 20;
/// Most bytes that are read of a client that was refused.
const MAX_DISCARDED: usize = 64 << 20;
/// Answers that wait for the client to read.
const WAITING: usize = 2;
/// Bytes of memory of a request besides its lines.
const BASE: usize = 128 << 10;
/// How often a line is in memory: as it came, whole, as texts, and as the answer that waits for the client.
const COPIES: usize = 4;
/// Least bytes that come in [`PATIENCE`] of a body, or of a line, that is not whole.
const LEAST: usize = 8 << 10;

/// Why a body ended before its end.
pub(super) enum Broken {
    /// Nothing, or too little, came for too long.
    Late,
    /// There is no memory left for it.
    Busy,
    /// It is longer than it may be.
    TooLong,
    /// The connection, or the coding of the body, is broken.
    Gone(String),
}

/// The next part of a body; none at its end.
pub(super) async fn part(body: &mut Body) -> Result<Option<Bytes>, Broken> {
    loop {
        let next = std::future::poll_fn(|context| Pin::new(&mut *body).poll_frame(context));
        match timeout(PATIENCE, next).await {
            Err(_) => return Err(Broken::Late),
            Ok(None) => return Ok(None),
            Ok(Some(Err(error))) => return Err(Broken::Gone(error.to_string())),
            // Trailers hold nothing for us.
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(bytes) if bytes.is_empty() => {}
                Ok(bytes) => return Ok(Some(bytes)),
                Err(_) => {}
            },
        }
    }
}

/// How fast something comes that is not whole yet.
pub(super) struct Pace {
    since: Instant,
    bytes: usize,
}

impl Pace {
    pub(super) fn begin() -> Self {
        Self { since: Instant::now(), bytes: 0 }
    }

    /// Counts `bytes`; whether too few have come in the time that a client has for any.
    pub(super) fn is_stalled(&mut self, bytes: usize) -> bool {
        self.bytes += bytes;
        if self.since.elapsed() < PATIENCE {
            return false;
        }
        let is_stalled = self.bytes < LEAST;
        *self = Self::begin();
        is_stalled
    }
}

/// Reads what a client goes on sending after it was refused, so that it reads why: a connection that is closed on
/// unread data is reset.
pub(super) async fn discard(body: &mut Body) {
    let read = async {
        let mut bytes = 0;
        while let Ok(Some(part)) = part(body).await {
            bytes += part.len();
            if bytes > MAX_DISCARDED {
                return;
            }
        }
    };
    // Whoever sends slowly is not waited for.
    let _ = timeout(2 * PATIENCE, read).await;
}

/// Answers JSON lines with JSON lines.
pub(super) fn lines(service: &Arc<Service>, request: Request) -> Response {
    let Some(memory) = service.reserve(BASE) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, BUSY);
    };
    let (send, receive) = channel(WAITING);
    tokio::spawn(judge(service.clone(), request.into_body(), send, memory));
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::new(Answers(receive))).into_response()
}

/// A body that is written while it is read.
struct Answers(Receiver<Bytes>);

impl hyper::body::Body for Answers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}

/// Reads lines from `body` and sends their verdicts, until either ends.
async fn judge(service: Arc<Service>, mut body: Body, send: Sender<Bytes>, mut memory: Memory) {
    let mut rest: Vec<u8> = Vec::new();
    let mut chunk: Vec<Vec<u8>> = Vec::new();
    let mut chunk_bytes = 0;
    let mut number = 0;
    let mut pace = Pace::begin();
    let ended = loop {
        let part = match part(&mut body).await {
            Ok(Some(part)) => part,
            Ok(None) => break Ok(()),
            Err(broken) => break Err(broken),
        };
        if rest.is_empty() {
            // A client may wait between lines.
            pace = Pace::begin();
        }
        if pace.is_stalled(part.len()) {
            break Err(Broken::Late);
        }
        if !memory.grow(COPIES * part.len()) {
            break Err(Broken::Busy);
        }
        let mut pieces = part.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if rest.len() + piece.len() > MAX_LINE {
                let why = format!("line {} has more than {MAX_LINE} bytes", number + 1);
                // Lines before the bad one are answered all the same.
                let _ = answer(&service, std::mem::take(&mut chunk), &mut memory, &send).await;
                let _ = send.send(error_line(&why)).await;
                drop((rest, memory));
                discard(&mut body).await;
                return;
            }
            rest.extend_from_slice(piece);
            if pieces.peek().is_some() {
                number += 1;
                pace = Pace::begin();
                chunk_bytes += rest.len();
                chunk.push(std::mem::take(&mut rest));
            }
            if chunk.len() >= CHUNK || chunk_bytes >= CHUNK_BYTES {
                chunk_bytes = 0;
                let chunk = std::mem::take(&mut chunk);
                if answer(&service, chunk, &mut memory, &send).await.is_err() {
                    return;
                }
            }
        }
        // Lines that came together are answered together; a client may wait for the answers before it sends more.
        chunk_bytes = 0;
        if answer(&service, std::mem::take(&mut chunk), &mut memory, &send).await.is_err() {
            return;
        }
        memory.shrink_to(BASE + COPIES * rest.len());
    };
    let why = match ended {
        // A body that broke off may have lost a part of its last line.
        Ok(()) => {
            let _ = answer(&service, vec![rest], &mut memory, &send).await;
            return;
        }
        Err(Broken::Late) => "the data came too slowly".to_owned(),
        Err(Broken::Busy) => BUSY.to_owned(),
        Err(Broken::TooLong) => "the body is too long".to_owned(),
        Err(Broken::Gone(why)) => why,
    };
    drop((rest, memory));
    let _ = send.send(error_line(&why)).await;
    if why == BUSY {
        discard(&mut body).await;
    }
}

fn error_line(why: &str) -> Bytes {
    Bytes::from(format!("{}\n", json!({"error": why})))
}

/// Judges a chunk and sends a line for each line that is not empty; fails where the client is gone.
async fn answer(
    service: &Arc<Service>,
    chunk: Vec<Vec<u8>>,
    memory: &mut Memory,
    send: &Sender<Bytes>,
) -> Result<(), ()> {
    if chunk.is_empty() {
        return Ok(());
    }
    let judged = service.judge(chunk, (), |judge, line| judge.judge_line(&line)).await;
    let text = match judged {
        Ok((judged, ())) => judged.into_iter().flatten().fold(String::new(), |mut text, judged| {
            text.push_str(&judged.json);
            text.push('\n');
            text
        }),
        Err(why) => {
            let _ = send.send(error_line(&why)).await;
            return Err(());
        }
    };
    if text.is_empty() {
        return Ok(());
    }
    let answer = Answer { _memory: memory.part(text.len()), text };
    // A client that reads nothing is left: its connection ends by the same clock.
    match timeout(2 * PATIENCE, send.send(Bytes::from_owner(answer))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}
