//! One way to speak HTTP: to the Hub, and to servers that sample. Every body has a limit.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ureq::http::Response;
use ureq::{Agent, Body};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);

/// A client. A status is an answer, not an error, and a redirect is not followed: whoever asks decides where a
/// token may go. Without `timeout` a request may take for ever, but not its connection.
pub(crate) fn agent(timeout: Option<Duration>) -> Agent {
    let connect = timeout.map_or(CONNECT, |timeout| timeout.min(CONNECT));
    Agent::config_builder()
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .timeout_connect(Some(connect))
        .timeout_global(timeout)
        .user_agent(concat!("tealight/", env!("CARGO_PKG_VERSION")))
        .build()
        .new_agent()
}

/// The whole body, at most `limit` bytes.
pub(crate) fn body(response: &mut Response<Body>, limit: u64) -> Result<Vec<u8>> {
    match response.body_mut().with_config().limit(limit).read_to_vec() {
        Ok(bytes) => Ok(bytes),
        Err(ureq::Error::BodyExceedsLimit(_)) => {
            bail!("its answer is larger than {limit} bytes, the limit")
        }
        Err(error) => Err(error).context("its answer broke off"),
    }
}

/// A header as text, where there is one.
pub(crate) fn header<'a>(response: &'a Response<Body>, name: &str) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// The error, without details for programmers.
pub(crate) fn described(error: &ureq::Error) -> String {
    match error {
        ureq::Error::Timeout(_) => "no answer in time".into(),
        ureq::Error::Io(error) => error.to_string(),
        other => other.to_string(),
    }
}
