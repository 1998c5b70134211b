//! Prompts: plain text, or chat messages that a tokenizer's template renders.

use serde::{Deserialize, Serialize};

/// One chat message in the form chat templates expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of `role`.
    pub fn new(role: &str, content: impl Into<String>) -> Self {
        Self { role: role.into(), content: content.into() }
    }

    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self::new("user", content)
    }
}

/// The input of a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Prompt {
    /// Text that is tokenized as it stands: for models trained on this very format.
    Text(String),
    /// A conversation, rendered by the tokenizer's chat template; without one, the contents joined
    /// by blank lines.
    Chat(Vec<Message>),
}

impl Prompt {
    /// A question for a chat model.
    pub fn question(question: &str) -> Self {
        Prompt::Chat(vec![Message::user(question.trim())])
    }

    /// The text to show a person, and what a model without a chat template is given.
    pub fn plain(&self) -> String {
        match self {
            Prompt::Text(text) => text.clone(),
            Prompt::Chat(messages) => {
                let contents: Vec<_> = messages.iter().map(|m| m.content.as_str()).collect();
                format!("{}\n\n", contents.join("\n\n"))
            }
        }
    }
}
