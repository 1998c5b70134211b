//! One way to speak HTTP: to the Hub, and to servers that sample. Every body has a limit.

use std::error::Error;
use std::io::Read;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::blocking;

/// How long a connection may take to come about.
pub(crate) const CONNECT: Duration = Duration::from_secs(30);
/// What every server sees of us.
pub(crate) const USER_AGENT: &str = concat!("tealight/", env!("CARGO_PKG_VERSION"));
/// Why a client cannot be made.
pub(crate) const NO_CLIENT: &str = "no client for HTTP can be made. Where the reason is the certificates of this machine, \
     install them (Debian: ca-certificates) or name a file of them in SSL_CERT_FILE";

/// A client for requests that wait. A status is an answer, not an error, and a redirect is not followed: whoever asks
/// decides where a token may go. A request may take `timeout` for its headers and for each read of its answer; the
/// `timeout` of a request bounds both together.
pub fn client(timeout: Duration) -> Result<blocking::Client> {
    blocking::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .referer(false)
        .http1_only()
        .connect_timeout(timeout.min(CONNECT))
        .timeout(timeout)
        .user_agent(USER_AGENT)
        .build()
        .context(NO_CLIENT)
}

/// The same for requests of a runtime, whose redirects and times are its own.
pub fn client_of_runtime(builder: reqwest::ClientBuilder) -> Result<reqwest::Client> {
    let builder = builder.referer(false).http1_only().connect_timeout(CONNECT);
    builder.user_agent(USER_AGENT).build().context(NO_CLIENT)
}

/// The whole body, at most `limit` bytes.
pub fn body(response: blocking::Response, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = response.take(limit + 1).read_to_end(&mut bytes);
    read.context("its answer broke off")?;
    if bytes.len() as u64 > limit {
        bail!("its answer is larger than {limit} bytes, the limit");
    }
    Ok(bytes)
}

/// The error, without details for programmers.
pub fn described(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    // What went wrong stands at the end of the chain, behind the layers that it came through.
    let mut deepest: &dyn Error = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}
