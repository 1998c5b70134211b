//! The user's token, and the one place that decides which server sees it: the Hub that the user named, and no other
//! host, port or scheme, whatever an answer of that Hub says.

use std::path::PathBuf;

use reqwest::{RequestBuilder, Url};

use tealight_system::hf_home;

/// The token that may write: `HF_TOKEN`, or the file that `hf auth login` leaves.
pub fn token() -> Option<String> {
    let from_file = || {
        let path = std::env::var_os("HF_TOKEN_PATH").map(PathBuf::from);
        std::fs::read_to_string(path.unwrap_or_else(|| hf_home::home().join("token"))).ok()
    };
    let clean = |token: String| Some(token.trim().to_owned()).filter(|token| !token.is_empty());
    std::env::var("HF_TOKEN").ok().and_then(clean).or_else(|| clean(from_file()?))
}

/// The server that `HF_ENDPOINT` names, or the Hub.
pub fn endpoint() -> String {
    let endpoint = std::env::var("HF_ENDPOINT");
    endpoint.as_deref().unwrap_or("https://huggingface.co").trim_end_matches('/').to_owned()
}

/// A request to `url` that carries the token where the user's `endpoint` answers there, and only there.
pub(super) fn with_token(
    request: RequestBuilder,
    url: &str,
    endpoint: &str,
    token: Option<&str>,
) -> RequestBuilder {
    match token.filter(|_| is_same_host(url, endpoint)) {
        Some(token) => request.bearer_auth(token),
        None => request,
    }
}

/// Why a redirect would carry the token of `home` elsewhere, if it would. reqwest drops it only where a server differs
/// from the one before it, so a foreign server that redirects to itself would see it.
pub(super) fn refuse_token(home: Option<&str>, previous: &[Url], next: &Url) -> Option<String> {
    let is_foreign = !is_same_host(next.as_str(), home?);
    let is_kept = previous.last()?.origin() == next.origin();
    (is_foreign && is_kept)
        .then(|| "a redirect within another host, which may not see your token".into())
}

/// Whether two addresses are of one server: scheme, host and port.
fn is_same_host(url: &str, other: &str) -> bool {
    let server = |url: &str| {
        let url = Url::parse(url).ok()?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        let host = url.host_str().filter(|_| is_plain)?.to_owned();
        Some((url.scheme().to_owned(), host, url.port_or_known_default()))
    };
    server(url).is_some() && server(url) == server(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_with_its_host() {
        assert!(is_same_host("https://hub.co/x", "https://hub.co"));
        assert!(!is_same_host("https://hub.co.evil.org/x", "https://hub.co"));
        assert!(!is_same_host("http://hub.co/x", "https://hub.co"), "nor does it go unencrypted");
        assert!(!is_same_host("https://hub.co:8443/x", "https://hub.co"));
        assert!(!is_same_host("https://hub.co@evil.org/x", "https://hub.co"));
        assert!(!is_same_host("//hub.co/x", "https://hub.co"));
        assert!(is_same_host("https://hub.co:443/x", "https://hub.co"));
        assert!(!is_same_host("file:///etc/passwd", "file:///etc/passwd"), "which has no host");
    }

    #[test]
    fn a_foreign_host_that_redirects_to_itself_never_sees_the_token() {
        let refused = |previous: &str, next: &str| {
            let url = |text: &str| Url::parse(text).unwrap();
            refuse_token(Some("http://hub.co"), &[url(previous)], &url(next)).is_some()
        };
        assert!(refused("http://cdn.co/b", "http://cdn.co/c"));
        assert!(refused("http://hub.co:81/b", "http://hub.co:81/c"));
        assert!(!refused("http://hub.co/a", "http://cdn.co/b"), "there it is dropped");
        assert!(!refused("http://hub.co/a", "http://hub.co/b"));
    }
}
