//! Prompts: plain text, or chat messages that a tokenizer's template renders.

use std::ops::{Deref, DerefMut};

use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

/// Content is null where `more` says so: a turn that only calls tools.
const CONTENT: &str = "content";

/// One chat message in the form chat templates expect.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "Map<String, Value>")]
pub struct Message {
    /// `system`, `user` or `assistant`; templates may know more.
    pub role: String,
    /// The text.
    pub content: String,
    /// All other keys, such as `reasoning_content` or `tool_calls`, which the template gets as they are.
    pub more: Map<String, Value>,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into(), more: Map::new() }
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }

    /// The same without a text: its content is null for the template.
    pub fn without_text(role: &str) -> Self {
        let more = Map::from_iter([(CONTENT.to_owned(), Value::Null)]);
        Self { role: role.into(), content: String::new(), more }
    }
}

impl From<Map<String, Value>> for Message {
    fn from(mut keys: Map<String, Value>) -> Self {
        let mut text = |key: &str| match keys.shift_remove(key) {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let (role, content) = (text("role").unwrap_or_default(), text(CONTENT));
        let message = match content {
            Some(content) => Self::new(&role, content),
            None => Self::without_text(&role),
        };
        let mut more = message.more;
        more.extend(keys);
        Self { more, ..message }
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let has_text = !self.more.contains_key(CONTENT) || !self.content.is_empty();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry(CONTENT, &Some(&self.content).filter(|_| has_text))?;
        for (key, value) in self.more.iter().filter(|(key, _)| *key != CONTENT) {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// The messages of a conversation, and what the chat template is told besides: `tools`, `enable_thinking`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "StoredChat")]
pub struct Chat {
    /// The turns, in order.
    pub messages: Vec<Message>,
    /// Variables of the chat template, by name.
    pub variables: Map<String, Value>,
}

/// A chat in files: a list of messages where the template is told nothing besides.
#[derive(Deserialize)]
#[serde(untagged)]
enum StoredChat {
    Messages(Vec<Message>),
    Whole { messages: Vec<Message>, variables: Map<String, Value> },
}

impl From<StoredChat> for Chat {
    fn from(stored: StoredChat) -> Self {
        match stored {
            StoredChat::Messages(messages) => messages.into(),
            StoredChat::Whole { messages, variables } => Self { messages, variables },
        }
    }
}

impl Serialize for Chat {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.variables.is_empty() {
            return self.messages.serialize(serializer);
        }
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("messages", &self.messages)?;
        map.serialize_entry("variables", &self.variables)?;
        map.end()
    }
}

impl From<Vec<Message>> for Chat {
    fn from(messages: Vec<Message>) -> Self {
        Self { messages, variables: Map::new() }
    }
}

impl FromIterator<Message> for Chat {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Self {
        messages.into_iter().collect::<Vec<_>>().into()
    }
}

impl Deref for Chat {
    type Target = Vec<Message>;

    fn deref(&self) -> &Vec<Message> {
        &self.messages
    }
}

impl DerefMut for Chat {
    fn deref_mut(&mut self) -> &mut Vec<Message> {
        &mut self.messages
    }
}

/// The input of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Prompt {
    /// Text that is tokenized as it stands: for models trained on this very format.
    Text(String),
    /// A conversation, rendered by the tokenizer's chat template; without one, the contents joined
    /// by blank lines. The model goes on with a last message of the assistant.
    Chat(Chat),
}

impl Prompt {
    /// A chat of messages alone.
    pub fn chat(messages: impl IntoIterator<Item = Message>) -> Self {
        Prompt::Chat(messages.into_iter().collect())
    }

    /// A question for a chat model.
    pub fn question(question: &str) -> Self {
        Prompt::chat([Message::user(question.trim())])
    }

    /// The text to show a person, and what a model without a chat template is given.
    pub fn plain(&self) -> String {
        match self {
            Prompt::Text(text) => text.clone(),
            Prompt::Chat(messages) => {
                let contents: Vec<_> = messages.iter().map(|m| m.content.as_str()).collect();
                let end = if self.prefill().is_some() { "" } else { "\n\n" };
                format!("{}{end}", contents.join("\n\n"))
            }
        }
    }

    /// The beginning of the answer, where the chat ends with a message of the assistant.
    pub fn prefill(&self) -> Option<&str> {
        let Prompt::Chat(messages) = self else { return None };
        let last = messages.last().filter(|message| message.role == "assistant")?;
        Some(&last.content)
    }

    /// Puts a system message first, unless the chat has one.
    pub fn set_system(&mut self, text: &str) {
        match self {
            Prompt::Chat(messages) if messages.iter().any(|message| message.role == "system") => {}
            Prompt::Chat(messages) => messages.insert(0, Message::new("system", text)),
            Prompt::Text(question) => {
                *self = Prompt::chat([Message::new("system", text), Message::user(&**question)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefilled_answer_is_the_end_of_the_prompt() {
        let mut prompt = Prompt::question("6+8?");
        assert_eq!((prompt.prefill(), prompt.plain().as_str()), (None, "6+8?\n\n"));
        prompt.set_system("Think.");
        prompt.set_system("Think again.");
        let Prompt::Chat(messages) = &mut prompt else { panic!("a chat") };
        messages.push(Message::new("assistant", "Let me see.\n<think>"));
        assert_eq!(prompt.prefill(), Some("Let me see.\n<think>"));
        assert_eq!(prompt.plain(), "Think.\n\n6+8?\n\nLet me see.\n<think>");
    }

    #[test]
    fn chats_keep_every_key_through_files() {
        let plain = r#"[{"role":"user","content":"Hi"}]"#;
        let calls = r#"{"messages":[{"role":"assistant","content":null,"tool_calls":[{"b":1,"a":2}]}],"variables":{"tools":[]}}"#;
        for text in [plain, calls, r#""Hi""#] {
            let prompt: Prompt = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&prompt).unwrap(), text);
        }
    }
}
