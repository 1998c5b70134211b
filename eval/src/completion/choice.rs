//! A choice of a server, or a completion of a harness, to a [`Completion`].

use serde_json::Value;
use tealight_core::display::shortened;

use super::{Completion, Content, Ending};

/// Most characters of a reason.
const MAX_REASON: usize = 200;

/// A completion as it was read, and its finish reason where nobody here knows it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Reading {
    /// The completion.
    pub completion: Completion,
    /// A finish reason that is none of ours; it counts as a normal end.
    pub unknown_ending: Option<String>,
}

impl Reading {
    /// Reads a choice of a chat completion or of a completion. One without a text is a completion that failed: whoever
    /// drew it again until a text comes would select.
    pub fn from_choice(choice: &Value) -> Self {
        let mut content = match choice.get("message").filter(|message| !message.is_null()) {
            Some(message) => Content::of_message(message),
            None => Content::read(&choice["content"]),
        };
        // FastChat's and LiveBench's answers, of one turn.
        let turns = choice["turns"].as_array().filter(|turns| turns.len() == 1);
        let turn = turns.and_then(|turns| turns[0].as_str());
        let text = choice["text"].as_str().or(turn);
        content.text = content.text.or_else(|| text.map(str::to_owned));
        let ending = Ending::reasons(choice).map_or(Ending::Unknown, Ending::from_reason);
        match &choice["error"] {
            Value::Null => Self::new(content, ending),
            error => Self::new(content, Ending::Failed(reason(error))),
        }
    }

    /// A completion by its content and by how it ended.
    pub(crate) fn new(content: Content, ending: Ending) -> Self {
        let Content { text, refusal, has_thought, has_call } = content;
        let is_empty = text.as_ref().is_none_or(String::is_empty);
        let is_finished = ending != Ending::Truncated;
        let is_end_unknown = ending == Ending::Unknown;
        let (failure, unknown_ending) = match ending {
            // What a filter or an error cut off is no answer either.
            Ending::Failed(reason) => (Some(reason), None),
            _ if is_empty && refusal.is_some() => {
                (refusal.map(|words| format!("refused: {}", shortened(&words, MAX_REASON))), None)
            }
            _ if is_empty && has_call => (Some("a tool call and no text".into()), None),
            // The limit of its length came before its answer.
            Ending::Truncated => (None, None),
            _ if text.is_none() && has_thought => {
                (Some("no content: the thought did not end".into()), None)
            }
            _ if text.is_none() => (Some("no content".into()), None),
            Ending::Other(name) => (None, Some(name)),
            _ => (None, None),
        };
        let completion = Completion {
            text: text.unwrap_or_default(),
            is_finished,
            is_end_unknown,
            failure,
            // Servers with a parser for reasoning hand thoughts out apart.
            starts_inside: has_thought && is_empty,
            is_stripped: has_thought && !is_empty,
            ..Completion::default()
        };
        Self { completion, unknown_ending }
    }

    /// A text of which nothing else is said; none where the source has null.
    pub(crate) fn from_text(text: Option<String>, ending: Ending) -> Self {
        Self::new(Content { text, ..Content::default() }, ending)
    }
}

/// The reason of a failure as text: a server's `message`, or the value itself, shortened.
pub fn reason(error: &Value) -> String {
    let keys = ["message", "error", "detail", "msg", "code", "type"];
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Object(_) => value["message"].as_str().map(str::to_owned),
        _ => None,
    };
    let found = match error {
        Value::String(text) => Some(text.clone()),
        other => keys.iter().find_map(|key| text(other.get(*key)?)),
    };
    shortened(&found.unwrap_or_else(|| error.to_string()), MAX_REASON)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Text, whether it ended by itself, the failure.
    fn read(choice: Value) -> (String, bool, Option<String>) {
        let one = Reading::from_choice(&choice).completion;
        (one.text, one.is_finished, one.failure)
    }

    #[test]
    fn a_choice_without_text_is_a_completion_that_failed() {
        for (choice, why) in [
            (json!({"message": {"content": null}, "finish_reason": "stop"}), "no content"),
            (
                json!({"message": {"content": null, "refusal": "I can't"}, "finish_reason": "stop"}),
                "refused: I can't",
            ),
            (
                json!({"message": {"content": "", "refusal": "I can't"}, "finish_reason": "stop"}),
                "refused: I can't",
            ),
            (
                json!({"message": {"role": "assistant"}, "finish_reason": "content_filter"}),
                "content_filter",
            ),
            (
                json!({"message": {"content": ""}, "finish_reason": "content_filter"}),
                "content_filter",
            ),
            (json!({"message": {"content": "Sorry"}, "finish_reason": "SAFETY"}), "safety"),
            (
                json!({"message": {"content": null, "tool_calls": [{}]}, "finish_reason": "tool_calls"}),
                "a tool call",
            ),
            (
                json!({"message": {"content": "", "tool_calls": [{}]}, "finish_reason": "tool_calls"}),
                "a tool call",
            ),
            (
                json!({"message": {"content": null, "reasoning": "so"}, "finish_reason": "stop"}),
                "the thought did not",
            ),
            (
                json!({"message": {"content": [{"type": "thinking", "thinking": "so"}]}}),
                "the thought did not end",
            ),
            (json!({"message": null, "error": {"message": "upstream", "code": 502}}), "upstream"),
            (json!({"text": null, "finish_reason": "stop"}), "no content"),
        ] {
            let (_, _, failure) = read(choice.clone());
            assert!(failure.as_ref().is_some_and(|it| it.contains(why)), "{choice}: {failure:?}");
        }
    }

    #[test]
    fn what_the_limit_cut_off_before_its_answer_was_truncated() {
        for choice in [
            json!({"message": {"content": null, "reasoning": "so"}, "finish_reason": "length"}),
            json!({"message": {"content": null, "reasoning_content": "so"}, "stop_reason": "max_tokens"}),
            json!({"message": {"content": null}, "finish_reason": "length"}),
            json!({"text": null, "meta_info": {"finish_reason": {"type": "length", "length": 9}}}),
        ] {
            assert_eq!(read(choice.clone()), (String::new(), false, None), "{choice}");
        }
    }

    #[test]
    fn a_text_is_read_whoever_wrote_it_and_however_it_ended() {
        for (choice, is_finished) in [
            (json!({"message": {"content": "7"}, "finish_reason": "stop"}), true),
            (
                json!({"message": {"content": [{"type": "text", "text": "7"}]}, "finish_reason": "eos_token"}),
                true,
            ),
            (json!({"message": {"content": "7"}, "finish_reason": null}), true),
            (json!({"message": {"content": "7"}, "stop_reason": "max_tokens"}), false),
            (
                json!({"content": {"parts": [{"text": "8"}]}, "text": "7", "finishReason": "STOP"}),
                true,
            ),
            (json!({"text": "7", "finish_reason": "length"}), false),
            (json!({"text": "7", "meta_info": {"finish_reason": {"type": "length"}}}), false),
            (json!({"text": "7", "meta_info": {"finish_reason": {"type": "stop"}}}), true),
            (
                json!({"message": {"content": "7", "tool_calls": [{}]}, "finish_reason": "tool_calls"}),
                true,
            ),
        ] {
            assert_eq!(read(choice.clone()), ("7".into(), is_finished, None), "{choice}");
        }
        let unknown = Reading::from_choice(&json!({"text": "7", "finish_reason": "bored"}));
        assert_eq!(unknown.unknown_ending.as_deref(), Some("bored"));
        assert!(unknown.completion.is_finished && !unknown.completion.is_end_unknown);
    }
}
