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
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::timeout;

use super::service::{PATIENCE, Service, refuse};

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

/// Why a body ended before its end.
pub(super) enum Broken {
    /// Nothing came for too long.
    Late,
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

/// Reads what a client goes on sending after it was refused, so that it reads why: a connection that is closed on
/// unread data is reset.
pub(super) async fn discard(body: &mut Body) {
    let mut bytes = 0;
    while let Ok(Some(part)) = part(body).await {
        bytes += part.len();
        if bytes > MAX_DISCARDED {
            return;
        }
    }
}

/// Answers JSON lines with JSON lines.
pub(super) fn lines(service: &Arc<Service>, request: Request) -> Response {
    // Lines that are read, that are judged, and that wait for the client.
    let Some(memory) = service.reserve(4 * (CHUNK_BYTES + MAX_LINE)) else {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "too much is being judged; try again");
    };
    let (send, receive) = channel(WAITING);
    tokio::spawn(judge(service.clone(), request.into_body(), send, memory));
    let kind = [(header::CONTENT_TYPE, "application/x-ndjson")];
    (kind, Body::new(Answer(receive))).into_response()
}

/// A body that is written while it is read.
struct Answer(Receiver<Bytes>);

impl hyper::body::Body for Answer {
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
async fn judge(
    service: Arc<Service>,
    mut body: Body,
    send: Sender<Bytes>,
    _memory: OwnedSemaphorePermit,
) {
    let mut rest: Vec<u8> = Vec::new();
    let mut chunk: Vec<Vec<u8>> = Vec::new();
    let mut chunk_bytes = 0;
    let mut number = 0;
    let ended = loop {
        let part = match part(&mut body).await {
            Ok(Some(part)) => part,
            Ok(None) => break Ok(()),
            Err(Broken::Late) => break Err("no data came for too long".to_owned()),
            Err(Broken::TooLong) => break Err("the body is too long".to_owned()),
            Err(Broken::Gone(why)) => break Err(why),
        };
        let mut pieces = part.split(|byte| *byte == b'\n').peekable();
        while let Some(piece) = pieces.next() {
            if rest.len() + piece.len() > MAX_LINE {
                let why = format!("line {} has more than {MAX_LINE} bytes", number + 1);
                // Lines before the bad one are answered all the same.
                let _ = answer(&service, std::mem::take(&mut chunk), &send).await;
                let _ = send.send(error_line(&why)).await;
                discard(&mut body).await;
                return;
            }
            rest.extend_from_slice(piece);
            if pieces.peek().is_some() {
                number += 1;
                chunk_bytes += rest.len();
                chunk.push(std::mem::take(&mut rest));
            }
            if chunk.len() >= CHUNK || chunk_bytes >= CHUNK_BYTES {
                chunk_bytes = 0;
                if answer(&service, std::mem::take(&mut chunk), &send).await.is_err() {
                    return;
                }
            }
        }
        // Lines that came together are answered together; a client may wait for the answers before it sends more.
        chunk_bytes = 0;
        if answer(&service, std::mem::take(&mut chunk), &send).await.is_err() {
            return;
        }
    };
    // A body that broke off may have lost a part of its last line.
    let last = if ended.is_ok() { vec![rest] } else { Vec::new() };
    if answer(&service, last, &send).await.is_ok()
        && let Err(why) = ended
    {
        let _ = send.send(error_line(&why)).await;
    }
}

fn error_line(why: &str) -> Bytes {
    Bytes::from(format!("{}\n", json!({"error": why})))
}

/// Judges a chunk and sends a line for each line that is not empty; fails where the client is gone.
async fn answer(
    service: &Arc<Service>,
    chunk: Vec<Vec<u8>>,
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
    // A client that reads nothing is left: its connection ends by the same clock.
    match timeout(2 * PATIENCE, send.send(Bytes::from(text))).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(()),
    }
}
