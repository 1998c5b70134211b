//! How a completion ended, in the words of the servers and libraries that people sample with.

use serde_json::Value;
use tealight_core::display::shortened;

use crate::read::words;

/// How a completion ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
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

/// OpenAI, vLLM, SGLang, TGI, llama.cpp, LM Studio, Ollama, Anthropic, Gemini, Cohere, Mistral, Bedrock, watsonx,
/// Inspect, lm-eval.
const NORMAL: &str = "\
    stop eos eos_found eos_token end_turn end_of_turn end_token stop_sequence stop_string_found \
    stop_token stop_str stop_word word stopped complete completed finish finished done end \
    endoftext end_of_text success tool_calls tool_use tool_call function_call pause_turn \
    no_tools eot";
const TRUNCATED: &str = "\
    length max_tokens max_len max_length max_new_tokens max_output_tokens max_completion_tokens \
    max_predicted_tokens_reached max_tokens_reached max_context_length model_length \
    model_context_window_exceeded context_length context_length_exceeded context_length_reached \
    incomplete not_finished truncated token_limit time_limit max_seq_len limit error_limit \
    cutoff";
const FAILED: &str = "\
    content_filter content_filtered filtered safety sensitive recitation refusal refused \
    prohibited_content blocklist blocked spii language image_safety image_prohibited_content \
    guardrail_intervened malformed_function_call malformed_tool_use malformed_model_output \
    unexpected_tool_call too_many_tool_calls missing_thought_signature error error_toxic \
    network_error server_error abort aborted cancel cancelled canceled user_cancel user_stopped \
    timeout timed_out expired failed failure insufficient_system_resource model_unloaded load \
    unload";
/// Words of which one says so of a reason that is none of these: `reached_max_length`, `{'type': 'length'}`.
const LIMITS: [&str; 6] = ["length", "max", "limit", "truncated", "truncation", "cutoff"];
/// Words beside which they say that a request was refused, and most words of a reason.
const OTHER_LIMITS: [&str; 4] = ["rate", "quota", "credit", "credits"];
const MOST_WORDS: usize = 6;
const UNKNOWN: [&str; 7] = ["", "unknown", "null", "none", "other", "unspecified", "nan"];

/// Whether the words of a reason say that a length was reached.
fn is_at_limit(reason: &str) -> bool {
    let words = || reason.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words().count() <= MOST_WORDS
        && words().any(|word| LIMITS.contains(&word))
        && !words().any(|word| OTHER_LIMITS.contains(&word))
}

/// A reason in small letters with underscores, without what stands before it: `FinishReason.MAX_TOKENS`, `maxTokens`.
fn folded(text: &str) -> String {
    let bare = text.trim().rsplit('.').next().unwrap_or_default();
    let mut folded = String::with_capacity(bare.len() + 2);
    let mut was_small = false;
    for letter in bare.chars() {
        if letter.is_uppercase() && was_small {
            folded.push('_');
        }
        was_small = letter.is_lowercase();
        match letter {
            '-' | ' ' => folded.push('_'),
            letter => folded.extend(letter.to_lowercase()),
        }
    }
    match folded.strip_prefix("finish_reason_").or(folded.strip_prefix("stop_reason_")) {
        Some(bare) => bare.to_owned(),
        None => folded,
    }
}

/// Keys of a finish reason whose name has no such word, the last ones; of the last three only [`STATUSES`] are one.
const KEYS: [&str; 4] = ["stop_type", "finish", "stop", "status"];

/// The values of `status`, `finish` and `stop` that say how a completion ended (slime); others say something else.
const STATUSES: [&str; 6] = ["completed", "truncated", "aborted", "incomplete", "length", "eos"];

/// The place of a key among those of a finish reason, or of a list of them, of which the first with a value counts: the
/// reason of an end in any words (`finish_reason`, `stopReason`, `response_end_reasons`), then [`KEYS`].
fn place(key: &str) -> Option<usize> {
    // That of most servers: words take longer.
    if key == "finish_reason" {
        return Some(0);
    }
    // vLLM has the stop string under `stop_reason` beside its `finish_reason`.
    const ENDS: [&str; 5] = ["finish", "done", "stop", "end", "terminat"];
    const FORMS: [&str; 7] = ["", "ed", "ing", "ped", "ping", "ion", "reason"];
    let end = |word: &String| {
        let is_form = |rest: &str| FORMS.contains(&rest);
        ENDS.iter().position(|end| word.strip_prefix(end).is_some_and(is_form))
    };
    if !key.as_bytes().windows(5).any(|part| part == b"eason") {
        return Some(ENDS.len() + KEYS.iter().position(|known| *known == key)?);
    }
    let words = words(key);
    let has_reason = words.iter().any(|word| word.ends_with("reason") || word == "reasons");
    words.iter().find_map(end).filter(|_| has_reason)
}

/// Keys of a text.
const TEXTS: [&str; 6] = ["content", "text", "message", "choices", "output", "response"];

impl Ending {
    /// The finish reason of a record, or a list of them: its own, or one in an object that it has beside its text, as
    /// SGLang's `meta_info` and TGI's `details`.
    pub fn reasons(record: &Value) -> Option<&Value> {
        // What has a text of its own is another completion, such as that of a judge.
        let has_text = |value: &Value| TEXTS.iter().any(|key| value.get(key).is_some());
        let inner = || {
            let mut objects = record.as_object()?.values().filter(|value| !has_text(value));
            objects.find_map(Self::own_reasons)
        };
        Self::own_reasons(record).or_else(inner)
    }

    /// The finish reason under a key of the record itself, or a list of them.
    pub fn own_reasons(record: &Value) -> Option<&Value> {
        // One pass: records have few keys, and this is asked of every completion.
        let found = record.as_object()?.iter().filter(|(_, value)| !value.is_null());
        let is_ending = |value: &Value| value.as_str().is_some_and(|text| STATUSES.contains(&text));
        let is_one = |key: &str| KEYS[1..].contains(&key);
        let found = found.filter(|(key, value)| !is_one(key) || is_ending(value));
        let found = found.filter_map(|(key, value)| Some((place(key)?, value)));
        found.min_by_key(|(place, _)| *place).map(|(_, value)| value)
    }

    /// Reads a finish reason: a text, or an object with a `type` (SGLang) or a `reason`.
    pub fn from_reason(reason: &Value) -> Self {
        let text = match reason {
            Value::String(text) => text,
            Value::Object(map) => match map.get("type").or(map.get("reason")) {
                Some(Value::String(text)) => text,
                _ => return Self::Unknown,
            },
            // The number of an enumeration, the id of a token or a flag says nothing to us.
            _ => return Self::Unknown,
        };
        // As most completions end: the others are folded.
        if text == "stop" {
            return Self::Normal;
        }
        let lower = folded(text);
        let is_one = |reasons: &str| reasons.split(' ').any(|reason| reason == lower);
        if is_one(NORMAL) {
            Self::Normal
        } else if is_one(TRUNCATED) {
            Self::Truncated
        } else if is_one(FAILED) {
            Self::Failed(lower)
        } else if UNKNOWN.contains(&lower.as_str()) {
            Self::Unknown
        } else if is_at_limit(&lower) {
            Self::Truncated
        } else {
            Self::Other(shortened(text, 40))
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
            (json!(2), Ending::Unknown),
            (json!(true), Ending::Unknown),
            (json!("unknown"), Ending::Unknown),
            (json!("FINISH_REASON_UNSPECIFIED"), Ending::Unknown),
            (json!("FinishReason.MAX_TOKENS"), Ending::Truncated),
            (json!("maxPredictedTokensReached"), Ending::Truncated),
            (json!("eosFound"), Ending::Normal),
            (json!("COMPLETE"), Ending::Normal),
            (json!("tool_calls"), Ending::Normal),
            (json!("content-filter"), Ending::Failed("content_filter".into())),
            (json!({"reason": "max_output_tokens"}), Ending::Truncated),
            (json!("got_bored"), Ending::Other("got_bored".into())),
            (json!("rate_limit_exceeded"), Ending::Other("rate_limit_exceeded".into())),
            (
                json!("it says that the limit is four"),
                Ending::Other("it says that the limit is four".into()),
            ),
            (json!("FINISH_LENGTH"), Ending::Truncated),
            (json!("reached_max_length"), Ending::Truncated),
            (json!("{'type': 'length', 'length': 4096}"), Ending::Truncated),
        ] {
            assert_eq!(Ending::from_reason(&reason), ending, "{reason}");
        }
    }
}
