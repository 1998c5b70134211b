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
    /// by blank lines. The model goes on with a last message of the assistant.
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
    pub(crate) fn set_system(&mut self, text: &str) {
        match self {
            Prompt::Chat(messages) if messages.iter().any(|message| message.role == "system") => {}
            Prompt::Chat(messages) => messages.insert(0, Message::new("system", text)),
            Prompt::Text(question) => {
                *self =
                    Prompt::Chat(vec![Message::new("system", text), Message::user(&**question)]);
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
}
