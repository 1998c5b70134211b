//! The user's token, and the one place that decides which server sees it: the Hub that the user named, and no other
//! host, port or scheme, whatever an answer of that Hub says.

use std::path::PathBuf;

use ureq::RequestBuilder;
use ureq::http::Uri;

use crate::system::hf_home;

/// The token that may write: `HF_TOKEN`, or the file that `hf auth login` leaves.
pub fn token() -> Option<String> {
    let from_file = || {
        let path = std::env::var_os("HF_TOKEN_PATH").map(PathBuf::from);
        std::fs::read_to_string(path.unwrap_or_else(|| hf_home::home().join("token"))).ok()
    };
    let token = std::env::var("HF_TOKEN").ok().or_else(from_file)?;
    Some(token.trim().to_owned()).filter(|token| !token.is_empty())
}

/// The server that `HF_ENDPOINT` names, or the Hub.
pub fn endpoint() -> String {
    let endpoint = std::env::var("HF_ENDPOINT");
    endpoint.as_deref().unwrap_or("https://huggingface.co").trim_end_matches('/').to_owned()
}

/// A request to `url` that carries the token where the user's `endpoint` answers there, and only there.
pub(super) fn with_token<T>(
    request: RequestBuilder<T>,
    url: &str,
    endpoint: &str,
    token: Option<&str>,
) -> RequestBuilder<T> {
    match token.filter(|_| is_same_host(url, endpoint)) {
        Some(token) => request.header("Authorization", format!("Bearer {token}")),
        None => request,
    }
}

/// Whether two addresses are of one server: scheme, host and port.
pub(super) fn is_same_host(url: &str, other: &str) -> bool {
    let host = |url: &str| {
        let uri = url.parse::<Uri>().ok()?;
        Some((uri.scheme_str()?.to_owned(), uri.authority()?.to_string()))
    };
    host(url).is_some() && host(url) == host(other)
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
    }
}
