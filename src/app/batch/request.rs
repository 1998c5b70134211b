//! A line of OpenAI's batch format to what is sampled.

use anyhow::{Context, Result, anyhow, bail};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use tealight_datasets::{Message, Problem, Prompt, Prompting};

use super::BatchOptions;
use crate::learn::train::rlvr::LENGTH;
use crate::nn::generate::{Filters, SamplingParams};
use crate::nn::tokenizer::Tokenizer;
use crate::solvers::sampled::Sampled;

/// The authors of messages.
const ROLES: [&str; 6] = ["system", "developer", "user", "assistant", "tool", "function"];

/// A line of input, checked.
pub(crate) struct BatchRequest {
    pub(crate) custom_id: String,
    pub(crate) is_chat: bool,
    pub(crate) prompt: Prompt,
    pub(crate) n: usize,
    pub(crate) params: SamplingParams,
    pub(crate) seed: u64,
    pub(crate) logprobs: bool,
    pub(crate) model: Value,
}

/// The fields of `body` that are understood; others are refused, lest they seem to have worked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    model: Option<Value>,
    messages: Option<Vec<Turn>>,
    prompt: Option<String>,
    n: Option<usize>,
    temperature: Option<f64>,
    top_p: Option<f64>,
    top_k: Option<usize>,
    min_p: Option<f64>,
    max_tokens: Option<usize>,
    max_completion_tokens: Option<usize>,
    seed: Option<u64>,
    logprobs: Option<Value>,
    stop: Option<Value>,
    stream: Option<bool>,
    presence_penalty: Option<f64>,
    frequency_penalty: Option<f64>,
    /// Without effect on any answer.
    #[serde(rename = "user")]
    _user: Option<IgnoredAny>,
    #[serde(rename = "metadata")]
    _metadata: Option<IgnoredAny>,
    #[serde(rename = "store")]
    _store: Option<IgnoredAny>,
}

/// A message whose content is a text, or a list of parts.
#[derive(Deserialize)]
struct Turn {
    role: String,
    content: Content,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Content {
    Text(String),
    Parts(Vec<Part>),
}

#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
}

impl Turn {
    fn message(self) -> Result<Message> {
        if !ROLES.contains(&self.role.as_str()) {
            bail!("role `{}` is not one of {}", self.role, ROLES.join(", "));
        }
        let text = match self.content {
            Content::Text(text) => text,
            Content::Parts(parts) => {
                let text = |part: Part| match (part.kind.as_str(), part.text) {
                    ("text", Some(text)) => Ok(text),
                    (kind, _) => {
                        bail!("a content part of type `{kind}`: only texts are understood")
                    }
                };
                parts.into_iter().map(text).collect::<Result<Vec<_>>>()?.join("\n")
            }
        };
        Ok(Message { role: self.role, content: text })
    }
}

impl BatchRequest {
    /// A line of input.
    pub(crate) fn read(
        options: &BatchOptions,
        line: &Value,
        model: &Sampled,
        prompting: &Prompting,
    ) -> Result<BatchRequest> {
        if let Some(method) = line.get("method").filter(|method| *method != "POST") {
            bail!("`method` {method} is not \"POST\"");
        }
        let is_chat = match line["url"].as_str().unwrap_or("/v1/chat/completions") {
            "/v1/chat/completions" => true,
            "/v1/completions" => false,
            other => bail!("url `{other}` is not /v1/chat/completions or /v1/completions"),
        };
        let body: Body = serde_json::from_value(line["body"].clone()).context("`body`")?;
        if body.stream == Some(true) {
            bail!("`stream` makes no sense in a batch");
        }
        if body.stop.is_some_and(|stop| !stop.is_null()) {
            bail!("`stop` is not supported");
        }
        for penalty in [body.presence_penalty, body.frequency_penalty].into_iter().flatten() {
            if penalty != 0.0 {
                bail!(
                    "`presence_penalty` and `frequency_penalty` are not supported: leave them out"
                );
            }
        }
        let prompt = match (is_chat, body.messages, body.prompt) {
            (true, Some(turns), _) if !turns.is_empty() => {
                Prompt::Chat(turns.into_iter().map(Turn::message).collect::<Result<_>>()?)
            }
            (true, ..) => bail!("`messages` is missing or empty"),
            (false, _, Some(prompt)) => Prompt::Text(prompt),
            (false, ..) => bail!("`prompt` is missing or not one text"),
        };
        let prompt = put(prompt, line, prompting)?;
        let tokens = model.tokenizer.encode_prompt(&prompt)?.len();
        let context = model.context;
        let n = body.n.unwrap_or(1);
        if n == 0 || n > 4096 {
            bail!("`n` of {n} is not between 1 and 4096");
        }
        let params = SamplingParams {
            temperature: body.temperature.unwrap_or(1.0),
            filters: Filters {
                top_k: body.top_k.unwrap_or(0),
                top_p: body.top_p.unwrap_or(1.0),
                min_p: body.min_p.unwrap_or(0.0),
            },
            max_new_tokens: body
                .max_completion_tokens
                .or(body.max_tokens)
                .or(options.max_completion_length)
                .unwrap_or(LENGTH.min(context.saturating_sub(tokens)).max(1)),
            eos: model.tokenizer.eos().to_vec(),
        };
        params.check()?;
        let asked = BatchRequest {
            custom_id: line["custom_id"].as_str().unwrap_or_default().into(),
            is_chat,
            prompt,
            n,
            params,
            seed: body.seed.unwrap_or(options.seed),
            logprobs: body
                .logprobs
                .is_some_and(|asked| !matches!(asked, Value::Null | Value::Bool(false))),
            model: body.model.unwrap_or_else(|| json!(options.model.model)),
        };
        let max_new_tokens = asked.params.max_new_tokens;
        if tokens == 0 || tokens.saturating_add(max_new_tokens) > context {
            bail!(
                "a prompt of {tokens} tokens and {max_new_tokens} new ones do not fit the context of {context}"
            );
        }
        Ok(asked)
    }
}

/// A request's prompt with what the options ask besides; a template sees the fields of its body.
fn put(prompt: Prompt, line: &Value, prompting: &Prompting) -> Result<Prompt> {
    let prompt = match (&prompting.template, line["body"].as_object()) {
        (Some(template), Some(body)) => {
            Prompt::question(&template.render(body).map_err(|what| anyhow!("{what}"))?)
        }
        _ => prompt,
    };
    let (id, answer) = (String::new(), String::new());
    let problem = Problem::new(id, prompt, answer);
    Ok(prompting.apply(&problem, None))
}
