//! How a completion ended, in the words of the servers and libraries that people sample with.

use serde_json::Value;

/// How a completion ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ending {
    /// By itself, or at a stop sequence.
    Normal,
    /// At the limit of its length.
    Truncated,
    /// Withheld or failed, for this reason.
    Failed(String),
    /// Nothing is said of it.
    Unknown,
    /// By a reason that is none of ours.
    Other(String),
}

/// OpenAI, vLLM, SGLang, TGI, llama.cpp, Ollama, Anthropic, Gemini, Cohere, Bedrock, Inspect, lm-eval.
const NORMAL: [&str; 21] = [
    "stop",
    "eos",
    "eos_token",
    "end_turn",
    "stop_sequence",
    "stop_token",
    "stop_str",
    "stopped",
    "complete",
    "completed",
    "finish",
    "finished",
    "done",
    "end",
    "endoftext",
    "end_of_text",
    "tool_calls",
    "tool_use",
    "tool_call",
    "function_call",
    "pause_turn",
];
const TRUNCATED: [&str; 16] = [
    "length",
    "max_tokens",
    "max_length",
    "max_new_tokens",
    "max_output_tokens",
    "max_completion_tokens",
    "model_length",
    "model_context_window_exceeded",
    "context_length",
    "context_length_exceeded",
    "incomplete",
    "truncated",
    "token_limit",
    "max_seq_len",
    "limit",
    "error_limit",
];
const FAILED: [&str; 23] = [
    "content_filter",
    "content_filtered",
    "safety",
    "recitation",
    "refusal",
    "prohibited_content",
    "blocklist",
    "spii",
    "language",
    "image_safety",
    "guardrail_intervened",
    "malformed_function_call",
    "error",
    "error_toxic",
    "abort",
    "aborted",
    "cancelled",
    "canceled",
    "timeout",
    "expired",
    "failed",
    "insufficient_system_resource",
    "load",
];
const UNKNOWN: [&str; 6] = ["", "unknown", "null", "none", "other", "finish_reason_unspecified"];

impl Ending {
    /// Reads a finish reason: a text, or SGLang's object with a `type`.
    pub(super) fn from_reason(reason: &Value) -> Self {
        let text = match reason {
            Value::String(text) => text,
            Value::Object(map) => match map.get("type") {
                Some(Value::String(text)) => text,
                _ => return Self::Unknown,
            },
            _ => return Self::Unknown,
        };
        let lower = text.trim().to_lowercase().replace(['-', ' '], "_");
        let is_one = |reasons: &[&str]| reasons.contains(&lower.as_str());
        if is_one(&NORMAL) {
            Self::Normal
        } else if is_one(&TRUNCATED) {
            Self::Truncated
        } else if is_one(&FAILED) {
            Self::Failed(lower)
        } else if is_one(&UNKNOWN) {
            Self::Unknown
        } else {
            Self::Other(text.chars().take(40).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reasons_of_the_common_servers_are_known() {
        for (reason, ending) in [
            (json!("stop"), Ending::Normal),
            (json!("STOP"), Ending::Normal),
            (json!("eos_token"), Ending::Normal),
            (json!("end_turn"), Ending::Normal),
            (json!({"type": "stop", "matched": 151_645}), Ending::Normal),
            (json!({"type": "length", "length": 10}), Ending::Truncated),
            (json!("MAX_TOKENS"), Ending::Truncated),
            (json!("model_length"), Ending::Truncated),
            (json!("SAFETY"), Ending::Failed("safety".into())),
            (json!({"type": "abort", "message": "x"}), Ending::Failed("abort".into())),
            (json!(null), Ending::Unknown),
            (json!(151_645), Ending::Unknown),
            (json!("unknown"), Ending::Unknown),
            (json!("got_bored"), Ending::Other("got_bored".into())),
        ] {
            assert_eq!(Ending::from_reason(&reason), ending, "{reason}");
        }
    }
}
