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
    ///
    /// # Errors
    /// Why its text is not known: one of several turns, a piece of a stream, no key of a text.
    pub fn from_choice(choice: &Value) -> Result<Self, String> {
        let ending = Ending::reasons(choice).map_or(Ending::Unknown, Ending::from_reason);
        if !choice["error"].is_null() {
            let content = Content::of_object(choice).unwrap_or_default();
            return Ok(Self::new(content, Ending::Failed(reason(&choice["error"]))));
        }
        // FastChat's and LiveBench's answers, of one turn.
        let mut content =
            match (choice["turns"].as_array().map(Vec::as_slice), Content::of_object(choice)) {
                (Some([]), _) => Content::default(),
                (Some([turn]), _) => Content::read(turn),
                (Some(turns), _) => return Err(format!("a choice of {} turns", turns.len())),
                (None, Some(content)) => content,
                (None, None) if choice.get("delta").is_some() => {
                    return Err(
                        "a piece of a stream: write the pieces of each completion as one text"
                            .into(),
                    );
                }
                (None, None)
                    if matches!(ending, Ending::Failed(_)) || choice.get("message").is_some() =>
                {
                    Content::of_message(&choice["message"])
                }
                (None, None) => {
                    return Err("a choice without `message`, `content` or `text`".into());
                }
            };
        content.text = content.text.or_else(|| choice["text"].as_str().map(str::to_owned));
        Ok(Self::new(content, ending))
    }

    /// A choice that cannot be read, as one that failed.
    pub fn unread(why: String) -> Self {
        Self::new(Content::default(), Ending::Failed(why))
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
            // The limit of its length came before its answer.
            Ending::Truncated => (None, None),
            _ if is_empty && has_call => (Some("a tool call and no text".into()), None),
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

    /// `choices.jsonl` lists choices with their texts, or with part of why they failed.
    #[test]
    fn listed_choices_come_to_what_is_listed() {
        for line in include_str!("choices.jsonl").lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            if let Some(why) = row["error"].as_str() {
                let error = Reading::from_choice(&row["choice"]).unwrap_err();
                assert!(error.contains(why), "{line}: {error}");
                continue;
            }
            let Reading { completion, unknown_ending } =
                Reading::from_choice(&row["choice"]).unwrap();
            if let Some(why) = row["failure"].as_str() {
                assert!(completion.failure.is_some_and(|it| it.contains(why)), "{line}");
                continue;
            }
            assert_eq!(completion.failure, None, "{line}");
            assert_eq!(
                (completion.text.as_str(), completion.is_finished),
                (row["text"].as_str().unwrap(), row["is_finished"] == true),
                "{line}"
            );
            assert_eq!(unknown_ending.as_deref(), row["unknown_ending"].as_str(), "{line}");
            assert!(unknown_ending.is_none() || !completion.is_end_unknown, "{line}");
        }
    }
}
