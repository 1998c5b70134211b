//! `tealight verify --serve ADDR`: verdicts by HTTP.
//!
//! `POST /verify` takes a JSON array of pairs (or one pair) and answers with the verdicts in the same order, or takes
//! JSON lines (`application/x-ndjson`) of any number and streams a line for each. `GET /health` and `GET /metrics` are
//! for whoever watches. Everything a client can take is limited: connections, in all and of an address, headers,
//! bodies, lines, bytes in memory, which are counted as they come, and the time that a client may take to send or to
//! read. The verifier is the one of the command line: a client cannot choose.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::{Context, Result};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{sleep, timeout};

use super::addresses::{Addresses, Counted};
use super::connection::Connection;
use super::judge::{Judge, Pair};
use super::service::{Answer, BUSY, Memory, PATIENCE, Service, refuse};
use super::stream::{self, Broken, Pace};
use crate::system::stop::Stop;

/// Most bytes of a JSON body.
const MAX_BODY: usize = 16 << 20;
/// Most connections; others wait to be accepted.
const MAX_CONNECTIONS: usize = 1024;
/// Most connections of an address; beyond them the address is sent away.
const MAX_OF_ADDRESS: usize = MAX_CONNECTIONS / 2;
/// The answer to a connection too many, before anything of it is read.
const TOO_MANY: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n\
    Content-Length: 0\r\n\r\n";
/// How long a JSON body may take as a whole.
const WHOLE_BODY: Duration = Duration::from_secs(60);
/// How long requests that have begun may go on after Ctrl-C.
const FAREWELL: Duration = Duration::from_secs(10);

/// Serves until `stop`; `listening` is told the address once connections are accepted.
pub fn serve(
    judge: Judge,
    address: &str,
    stop: &Stop,
    listening: &dyn Fn(SocketAddr) -> Result<()>,
) -> Result<()> {
    let refused =
        || format!("--serve {address}: cannot listen there; give IP:PORT, such as 127.0.0.1:8080");
    let addresses: Vec<SocketAddr> = address.to_socket_addrs().with_context(refused)?.collect();
    let service = Arc::new(Service::new(judge));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let listener = TcpListener::bind(&addresses[..]).await.with_context(refused)?;
        let bound = listener.local_addr()?;
        // Requests that have begun are finished.
        stop.saves();
        listening(bound)?;
        tracing::info!("verdicts of {} at POST /verify; Ctrl-C ends it", service.judge.name());
        accept(listener, bound.ip(), &service, stop).await;
        Ok(())
    });
    runtime.shutdown_timeout(Duration::from_secs(1));
    served
}

/// Accepts connections until `stop`, then waits for those that are open.
async fn accept(listener: TcpListener, address: IpAddr, service: &Arc<Service>, stop: &Stop) {
    let router = Router::new()
        .route("/verify", post(verify))
        .route("/health", get(health))
        .route("/metrics", get(metrics))
        .layer(middleware::from_fn(move |request, next| guard(address, request, next)))
        .layer(middleware::from_fn_with_state(service.clone(), count))
        .with_state(service.clone());
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let addresses = Addresses::default();
    let (ending, ended) = watch::channel(false);
    let stopped = async {
        while !stop.is_requested() {
            sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::pin!(stopped);
    loop {
        let next = async {
            let slot = slots.clone().acquire_owned().await;
            (slot, listener.accept().await)
        };
        let (slot, accepted) = tokio::select! {
            next = next => next,
            () = &mut stopped => break,
        };
        match (slot, accepted) {
            (Ok(slot), Ok((stream, client))) => {
                let Some(counted) = addresses.enter(client.ip(), MAX_OF_ADDRESS) else {
                    // A new connection takes a few bytes at once.
                    let _ = stream.try_write(TOO_MANY);
                    service.metrics.responded(503);
                    continue;
                };
                let (service, router) = (service.clone(), router.clone());
                tokio::spawn(connection(stream, router, service, ended.clone(), (slot, counted)));
            }
            // Too many open files, or a client that was gone already.
            _ => sleep(Duration::from_millis(20)).await,
        }
    }
    service.is_ending.store(true, Ordering::Relaxed);
    drop(listener);
    // Nobody listens where nothing is open.
    let _ = ending.send(true);
    drop(ended);
    if timeout(FAREWELL, ending.closed()).await.is_err() {
        tracing::warn!("requests were cut off {} s after the stop", FAREWELL.as_secs());
    }
}

/// Serves one connection, which ends after the request it is at where the service ends.
async fn connection(
    stream: TcpStream,
    router: Router,
    service: Arc<Service>,
    mut ended: watch::Receiver<bool>,
    _slot: (OwnedSemaphorePermit, Counted),
) {
    service.metrics.connections.fetch_add(1, Ordering::Relaxed);
    // Small answers are not held back.
    let _ = stream.set_nodelay(true);
    let io = TokioIo::new(Connection::new(stream, PATIENCE));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .max_headers(64)
        .max_buf_size(64 << 10)
        // A client may close its side once it has asked.
        .half_close(true)
        .serve_connection(io, TowerToHyperService::new(router));
    tokio::pin!(served);
    let ending = async {
        let _ = ended.wait_for(|is_ending| *is_ending).await;
    };
    // Errors here are the client's: it went away, or sent bytes that are not HTTP.
    tokio::select! {
        result = served.as_mut() => drop(result),
        () = ending => {
            served.as_mut().graceful_shutdown();
            drop(served.await);
        }
    }
    service.metrics.connections.fetch_sub(1, Ordering::Relaxed);
}

/// Counts responses.
async fn count(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    service.metrics.responded(response.status().as_u16());
    response
}

/// On this machine's own address, refuses who asks by another name: a web page elsewhere could give its name this
/// address.
async fn guard(address: IpAddr, request: Request, next: Next) -> Response {
    if !address.to_canonical().is_loopback() || asks_this_machine(request.headers()) {
        return next.run(request).await;
    }
    refuse(StatusCode::MISDIRECTED_REQUEST, "ask http://127.0.0.1")
}

/// Whether a request has one Host header, which names this machine by its own address.
pub(crate) fn asks_this_machine(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let host = hosts.next().and_then(|host| host.to_str().ok());
    hosts.next().is_none() && host.is_some_and(is_this_machine)
}

/// Whether a Host header names this machine by its own address: nobody else can give such a name an address.
fn is_this_machine(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) && !name.ends_with(':') => name,
        _ => host,
    };
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    let is_loopback = |address: IpAddr| address.to_canonical().is_loopback();
    name.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(is_loopback)
}

async fn health(State(service): State<Arc<Service>>) -> Response {
    if service.is_ending.load(Ordering::Relaxed) {
        return refuse(StatusCode::SERVICE_UNAVAILABLE, "the service is ending");
    }
    let body = json!({"status": "ok", "verifier": service.judge.name()}).to_string();
    ([(header::CONTENT_TYPE, "application/json")], body).into_response()
}

async fn metrics(State(service): State<Arc<Service>>) -> Response {
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4")];
    (kind, service.metrics.text(service.in_flight())).into_response()
}

async fn verify(State(service): State<Arc<Service>>, request: Request) -> Response {
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    match kind {
        "application/json" => array(&service, request).await.unwrap_or_else(|refused| refused),
        "application/x-ndjson" | "application/jsonl" => stream::lines(&service, request),
        _ => refuse(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "send application/json (an array of pairs) or application/x-ndjson (a pair a line)",
        ),
    }
}

/// How long the body says it is; none where the client sends it in chunks.
fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// Judges an array of pairs, or one pair.
async fn array(service: &Arc<Service>, request: Request) -> Result<Response, Response> {
    let too_large = || {
        let why =
            format!("a body of more than {MAX_BODY} bytes: send less at a time, or JSON lines");
        refuse(StatusCode::PAYLOAD_TOO_LARGE, &why)
    };
    if length(request.headers()).is_some_and(|bytes| bytes > MAX_BODY) {
        return Err(too_large());
    }
    let busy = || refuse(StatusCode::SERVICE_UNAVAILABLE, BUSY);
    let mut memory = service.reserve(0).ok_or_else(busy)?;
    let body = timeout(WHOLE_BODY, whole(request.into_body(), &mut memory)).await;
    let late = || refuse(StatusCode::REQUEST_TIMEOUT, "the body took too long");
    let body = match body {
        Err(_) | Ok(Err(Broken::Late)) => return Err(late()),
        Ok(Err(Broken::Busy)) => return Err(busy()),
        Ok(Err(Broken::TooLong)) => return Err(too_large()),
        Ok(Err(Broken::Gone(why))) => return Err(refuse(StatusCode::BAD_REQUEST, &why)),
        Ok(Ok(body)) => body,
    };
    let is_array = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    let pairs = Pair::several(&body, is_array).map_err(|error| {
        let why = format!(
            "{error}; send [{{\"gold\": ..., \"answer\": ...}}, ...], each a text or a number"
        );
        refuse(StatusCode::BAD_REQUEST, &why)
    })?;
    drop(body);
    let judged = service.judge(pairs, memory, |judge, pair| judge.judge(pair).map(Some)).await;
    let (judged, memory) = judged.map_err(|why| refuse(StatusCode::INTERNAL_SERVER_ERROR, &why))?;
    let lines: Vec<String> = judged.into_iter().flatten().map(|judged| judged.json).collect();
    let text = if is_array { format!("[{}]", lines.join(",\n")) } else { lines.concat() };
    let body = Body::from(Bytes::from_owner(Answer { text, _memory: memory }));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// All of a body, up to its limit, with memory for what has come.
async fn whole(mut body: Body, memory: &mut Memory) -> Result<Vec<u8>, Broken> {
    let (mut bytes, mut pace) = (Vec::new(), Pace::begin());
    while let Some(part) = stream::part(&mut body).await? {
        let broken = if bytes.len() + part.len() > MAX_BODY {
            Broken::TooLong
        } else if pace.is_stalled(part.len()) {
            return Err(Broken::Late);
        } else if !memory.grow(part.len()) {
            Broken::Busy
        } else {
            bytes.extend_from_slice(&part);
            continue;
        };
        drop(bytes);
        memory.shrink_to(0);
        stream::discard(&mut body).await;
        return Err(broken);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn this_machine_is_named_by_its_own_addresses_alone() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:80",
            "127.0.0.2:8080",
            "localhost",
            "LocalHost:80",
            "[::1]",
            "[::1]:80",
            "[::ffff:127.0.0.1]:80",
        ] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "10.0.0.1",
            "localhost.",
            "[::2]",
            "0.0.0.0",
            "127.0.0.1:80@evil.example",
            "localhost:1\tevil.example",
        ] {
            assert!(!is_this_machine(host), "{host}");
        }
        let mut headers = HeaderMap::new();
        assert!(!asks_this_machine(&headers));
        headers.append(header::HOST, HeaderValue::from_static("localhost:7272"));
        assert!(asks_this_machine(&headers));
        headers.append(header::HOST, HeaderValue::from_static("evil.example"));
        assert!(!asks_this_machine(&headers), "two names");
    }
}
