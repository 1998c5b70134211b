//! A server's refusal of a request: its words, and what they say is refused, the prompt or a field.

use serde_json::Value;

use super::fields::OPTIONAL;

/// Words by which servers name a field.
const ALIASES: [(&str, &str); 9] = [
    ("max_completion_tokens", "max_tokens"),
    ("top_logprobs", "logprobs"),
    ("logprob", "logprobs"),
    ("random_seed", "seed"),
    ("candidate_count", "n"),
    ("candidatecount", "n"),
    ("num_choices", "n"),
    ("num_completions", "n"),
    ("best_of", "n"),
];
/// Phrases that name `n`.
const OF_N: [&str; 6] = [
    "multiple completions",
    "multiple choices",
    "multiple candidates",
    "more than one completion",
    "more than one choice",
    "one completion per request",
];
/// Phrases of a prompt that is too long: whatever fields such a message names, the prompt is what is refused.
const OF_LENGTH: [&str; 10] = [
    "context length",
    "context window",
    "context size",
    "context_length",
    "maximum context",
    "too long",
    "reduce the length",
    "input tokens",
    "input length",
    "prompt length",
];
/// What a server's refusal says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Refusal {
    /// The status of HTTP, or the code in the body.
    pub(super) status: u16,
    /// The body, of which words may name a field.
    pub(super) text: String,
    /// The server's words.
    pub(super) words: String,
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.status, self.words)
    }
}

impl std::error::Error for Refusal {}

/// A server's words, in the body of a refusal.
pub(super) fn words(body: &Value) -> Option<String> {
    let places = [&body["error"]["message"], &body["error"], &body["message"], &body["detail"]];
    let text = places.into_iter().find_map(Value::as_str);
    let first =
        || body["detail"][0]["msg"].as_str().or_else(|| body[0]["error"]["message"].as_str());
    text.or_else(first).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// Whether a refusal, in small letters, is of a prompt that is too long.
pub(super) fn is_of_length(text: &str) -> bool {
    OF_LENGTH.iter().any(|phrase| text.contains(phrase))
}

/// The optional fields that a refusal names, and whether it names only others. Servers that say where a fault is are
/// believed; else the words of the message count.
pub(super) fn named(text: &str) -> (Vec<&'static str>, bool) {
    let body: Value = serde_json::from_str(text).unwrap_or_default();
    let mut places: Vec<String> = Vec::new();
    let error = if body["error"].is_object() { &body["error"] } else { &body };
    places.extend(error["param"].as_str().map(str::to_owned));
    for detail in body["detail"].as_array().into_iter().flatten() {
        let last = detail["loc"].as_array().and_then(|place| place.last());
        places.extend(last.and_then(Value::as_str).map(str::to_owned));
    }
    let field = |word: &str| {
        let alias = ALIASES.iter().find(|(alias, _)| *alias == word).map(|(_, name)| *name);
        alias.or_else(|| OPTIONAL.into_iter().find(|name| *name == word))
    };
    let placed: Vec<&'static str> = places.iter().filter_map(|place| field(place)).collect();
    if !placed.is_empty() || !places.is_empty() && places.iter().all(|place| place != "body") {
        let is_of_another = placed.is_empty();
        return (placed, is_of_another);
    }
    // A parsed message has no escapes, whose letters would be words.
    let message = words(&body).unwrap_or_else(|| text.to_owned()).to_lowercase();
    let is_letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found: Vec<&'static str> =
        message.split(|c: char| !is_letter(c)).filter_map(field).collect();
    if OF_N.iter().any(|phrase| message.contains(phrase)) {
        found.push("n");
    }
    (found, false)
}
