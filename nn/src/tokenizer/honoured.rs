//! What a chat says besides texts is written by the chat template, or refused by its name.

use anyhow::{Result, bail};
use serde_json::{Map, Value};
use tealight_core::display::shortened;
use tealight_core::{Chat, Message, Prompt};

use super::{HubTokenizer, TemplateDate};

/// Keys of messages that hold what a model read or wrote: a template that does not name them leaves it out.
const KEYS: [&str; 6] =
    ["reasoning_content", "reasoning", "thinking", "thought", "tool_calls", "function_call"];
/// Names of a message's thought, in the order in which transformers looks for one.
const THOUGHTS: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
/// Variables that are set here.
const OWN: [&str; 4] =
    ["messages", "add_generation_prompt", "continue_final_message", "chat_template"];

/// How chats are rendered, where the model's own files do not say it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rendering {
    /// The chat template in place of the model's own.
    pub template: Option<String>,
    /// The file of that template, which errors name.
    pub file: Option<String>,
    /// The date that the template is told.
    pub date: TemplateDate,
    /// Variables of the template in all chats, such as `enable_thinking`; they win over those of a row.
    pub variables: Map<String, Value>,
}

impl HubTokenizer {
    /// Refuses variables that the chat template does not read; `whose` begins the message.
    pub(super) fn check_variables(
        &self,
        variables: &Map<String, Value>,
        whose: &str,
    ) -> Result<()> {
        if let Some(own) = OWN.iter().find(|own| variables.contains_key(**own)) {
            bail!("{whose} `{own}`, which is not for the user to set");
        }
        let Some(template) = &self.template else {
            let Some(name) = variables.keys().next() else { return Ok(()) };
            bail!(
                "{whose} `{name}`, and the model has no chat template to read it: give one with --chat-template"
            );
        };
        match variables.keys().find(|name| !template.reads(name)) {
            None => Ok(()),
            Some(name) => bail!(
                "{whose} `{name}`, which the model's chat template does not read: leave it out, or give another template \
                 with --chat-template"
            ),
        }
    }

    /// Refuses a chat that says what the template does not read.
    pub(super) fn check_honoured(&self, chat: &Chat) -> Result<()> {
        self.check_variables(&chat.variables, "the row has")?;
        chat.iter().try_for_each(|message| self.check_message(message))
    }

    /// The same of one message.
    pub(super) fn check_message(&self, message: &Message) -> Result<()> {
        let given = given(message);
        let reads = |key: &str| self.template.as_ref().is_some_and(|one| one.reads_key(key));
        // A thought is given under other names too.
        let is_read = |key: &&str| {
            KEYS.iter().any(|one| reads(one) && given.get(*one) == message.more.get(*key))
        };
        match keys_with_content(message).find(|key| !is_read(key)) {
            None => Ok(()),
            Some(key) => bail!(
                "a message has `{key}`, which {} does not read: leave the key out, or give another template with \
                 --chat-template",
                match self.template {
                    Some(_) => "the model's chat template",
                    None => "a model without a chat template",
                }
            ),
        }
    }
}

/// A message as transformers 5 gives it to templates: without keys that are null, and a thought under the names that
/// templates read besides its own.
pub(super) fn given(message: &Message) -> Map<String, Value> {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(message) else { return Map::new() };
    fields.retain(|_, value| !value.is_null());
    let Some(thought) = THOUGHTS.iter().find_map(|name| fields.get(*name)).cloned() else {
        return fields;
    };
    let mut given = Map::from_iter([("thinking".to_owned(), thought.clone())]);
    given.extend(fields);
    given.insert(THOUGHTS[0].into(), thought);
    given
}

/// The keys of a message that hold what was read or written.
pub(super) fn keys_with_content(message: &Message) -> impl Iterator<Item = &'static str> + '_ {
    KEYS.into_iter().filter(|key| match message.more.get(*key) {
        None | Some(Value::Null) => false,
        Some(Value::String(text)) => !text.trim().is_empty(),
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    })
}

impl HubTokenizer {
    /// What the chat template leaves out of a prompt or of the learned solution, or writes before a sampled answer and
    /// not before a learned one, in words that follow its name; and its file. A thought of an earlier turn is left out
    /// by design, and tools may be written in any form.
    pub fn left_out(
        &self,
        prompt: &Prompt,
        solution: &str,
        reply: Option<&Message>,
    ) -> Option<(String, &str)> {
        let (Prompt::Chat(chat), Some(template)) = (prompt, &self.template) else { return None };
        let text = self.render(prompt).ok()?;
        let is_lost = |message: &&Message| {
            message.role != "tool" && !holds(&text, after_thought(&message.content))
        };
        let lost = chat.iter().find(is_lost);
        let lost = lost.map(|lost| format!("leaves out a message of the {}", lost.role));
        let lost = lost.or_else(|| {
            let is_learned = reply.is_some() || !solution.is_empty();
            let whole = || self.whole_chat(template, chat, solution, reply).ok();
            let (whole, shared) = is_learned.then(whole).flatten()?;
            let thought = solution.strip_suffix(after_thought(solution)).unwrap_or_default();
            let thought = thought.trim_end_matches("</think>").trim_start();
            if !holds(&whole, thought.trim_start_matches("<think>")) {
                return Some("leaves out the thought of the answer that is learned".to_owned());
            }
            // What a model that is asked is given, and goes on from.
            let begun = text.get(shared..).map(str::trim).filter(|begun| !begun.is_empty())?;
            Some(format!(
                "writes `{}` where it asks for an answer, and not before the answer that is learned: training and \
                 sampling see different prompts",
                shortened(begun, 40)
            ))
        });
        Some((lost?, &template.source.file))
    }
}

/// An answer without the thought before it.
pub(super) fn after_thought(text: &str) -> &str {
    text.rsplit("</think>").next().unwrap_or_default()
}

/// Whether a text holds another one, whatever the white space.
pub(super) fn holds(text: &str, part: &str) -> bool {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    bare(text).contains(&bare(part))
}
