//! What a model is asked: plain text, or chat messages that a tokenizer's template renders.

use serde::{Deserialize, Serialize};

/// The instruction that asks for a boxed answer; `\boxed{}` scores and verifies better than `####`.
pub const BOXED: &str = "Please reason step by step, and put your final answer within \\boxed{}.";

/// One chat message in the form chat templates expect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// `system`, `user` or `assistant`.
    pub role: String,
    /// The text.
    pub content: String,
}

impl Message {
    /// A message of the user.
    pub fn user(content: impl Into<String>) -> Self {
        Self { role: "user".into(), content: content.into() }
    }
}

/// What the model is asked.
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
    /// A question for a chat model, followed by the instruction to box the answer.
    pub fn question(question: &str) -> Self {
        Prompt::Chat(vec![Message::user(format!("{}\n{BOXED}", question.trim()))])
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
