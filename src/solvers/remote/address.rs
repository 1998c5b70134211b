//! The address that a user gives to where requests go.

use super::client::Client;

/// Endpoints that people copy with the address.
const ENDPOINTS: [&str; 2] = ["/chat/completions", "/completions"];

/// Where a server is asked.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Address {
    /// Where a server's own calls are, such as `/health`.
    pub(super) root: String,
    /// Where OpenAI's calls are, such as `/chat/completions`.
    api: String,
    /// Whether the address does not say where OpenAI's calls are.
    is_guess: bool,
}

impl Address {
    /// Reads an address. One whose path has a version, such as `/v1beta/openai`, is taken as it is given.
    pub(super) fn new(engine: &str) -> Self {
        let given = engine.trim().trim_end_matches('/');
        let given = ENDPOINTS.iter().find_map(|end| given.strip_suffix(end)).unwrap_or(given);
        let path = given.split_once("://").map_or("", |(_, rest)| rest);
        let path = path.split_once('/').map_or("", |(_, path)| path);
        if let Some(root) = given.strip_suffix("/v1") {
            return Self { root: root.into(), api: given.into(), is_guess: false };
        }
        if path.split('/').any(is_version) {
            return Self { root: given.into(), api: given.into(), is_guess: false };
        }
        Self { root: given.into(), api: format!("{given}/v1"), is_guess: !path.is_empty() }
    }

    /// The URL of a call, whose path begins with `/v1/` where it is OpenAI's.
    pub(super) fn url(&self, path: &str) -> String {
        match path.strip_prefix("/v1/") {
            Some(call) => format!("{}/{call}", self.api),
            None => format!("{}{path}", self.root),
        }
    }

    /// Finds OpenAI's calls below a path without a version: below `/v1`, or where the path ends.
    pub(super) fn probed(self, client: &Client) -> Self {
        let lists_models =
            |path: &str| client.ask(path).is_some_and(|models| models["data"].is_array());
        if self.is_guess && !lists_models("/v1/models") && lists_models("/models") {
            return Self { api: self.root.clone(), ..self };
        }
        self
    }
}

/// Whether a part of a path is a version, such as `v4` or `v1beta`.
fn is_version(part: &str) -> bool {
    let digits = part.strip_prefix('v').unwrap_or_default();
    digits.starts_with(|c: char| c.is_ascii_digit())
        && digits.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn a_path_with_a_version_is_taken_as_given() {
        for (engine, url) in [
            ("http://a:8000", "http://a:8000/v1/chat/completions"),
            ("http://a:8000/", "http://a:8000/v1/chat/completions"),
            ("http://a:8000/v1", "http://a:8000/v1/chat/completions"),
            ("http://a:8000/v1/", "http://a:8000/v1/chat/completions"),
            ("https://g/v1beta/openai/", "https://g/v1beta/openai/chat/completions"),
            ("https://z/api/paas/v4", "https://z/api/paas/v4/chat/completions"),
            ("https://r/api/v1", "https://r/api/v1/chat/completions"),
            ("http://a/v1/chat/completions", "http://a/v1/chat/completions"),
            ("http://a/proxy", "http://a/proxy/v1/chat/completions"),
            ("http://a/vllm", "http://a/vllm/v1/chat/completions"),
        ] {
            assert_eq!(Address::new(engine).url("/v1/chat/completions"), url, "{engine}");
        }
        assert_eq!(Address::new("http://a/v1").url("/health"), "http://a/health");
    }
}
