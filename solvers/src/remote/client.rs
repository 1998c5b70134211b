//! One request to a server, tried until it is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use reqwest::{StatusCode, Url};
use serde_json::{Value, json};
use tealight_datasets::Prompt;

use super::answers::{self, ServerSample};
use super::{Dialect, RemoteOptions};
use tealight_nn::generate::SamplingParams;
use tealight_system::http::{self, body, described};

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// Longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);
/// How long a server may take to say what it is.
const QUESTION: Duration = Duration::from_secs(30);
/// The most bytes of an answer besides its tokens.
const ANSWER_BYTES: u64 = 4 << 20;
/// The most bytes of a token in an answer, with its text and its log-probability.
const TOKEN_BYTES: u64 = 2 << 10;
/// The largest answer that is read at all, in bytes.
const MAX_ANSWER: u64 = 1 << 30;

/// A server's address and how it is asked.
pub(super) struct Client {
    http: Http,
    /// How long a request may take, its answer included.
    timeout: Duration,
    base: String,
    dialect: Dialect,
    key: Option<String>,
    /// Completions that one request may ask for.
    most: usize,
    /// Whether it was said that another model answers than was asked for.
    is_warned: AtomicBool,
}

/// A prompt for a server to complete.
#[derive(Clone, Copy)]
pub(super) enum PromptInput<'a> {
    /// A prompt that the server renders and tokenizes itself.
    Prompt(&'a Prompt),
    Tokens(&'a [u32]),
}

/// One request for completions.
#[derive(Clone, Copy)]
pub(super) struct Request<'a> {
    pub(super) input: PromptInput<'a>,
    /// The name that the server knows the model by.
    pub(super) model: &'a str,
    pub(super) adapter: Option<&'a str>,
    /// Whether vLLM is to say which version of the weights sampled each token.
    pub(super) is_marked: bool,
    pub(super) params: &'a SamplingParams,
    pub(super) seed: u64,
    /// How often it is tried again.
    pub(super) retries: usize,
}

/// Why a request brought nothing.
enum Failure {
    /// It may work later; the server may have said when.
    ForNow(String, Option<Duration>),
    /// It will not.
    ForGood(anyhow::Error),
}

impl Client {
    /// Asks the server of which kind it is, unless the options say.
    pub(super) fn new(engine: &str, options: &RemoteOptions) -> Result<Self> {
        let base = engine.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        let is_address = Url::parse(&base)
            .is_ok_and(|url| url.has_host() && matches!(url.scheme(), "http" | "https"));
        if !is_address {
            bail!("--engine `{engine}` is no address; give one like http://localhost:8000");
        }
        let timeout = Duration::try_from_secs_f64(options.engine_timeout)
            .context("--engine-timeout is no number of seconds")?;
        let mut client = Self {
            http: http::client(timeout)?,
            timeout,
            base,
            dialect: Dialect::Openai,
            key: std::env::var(&options.api_key_env).ok().filter(|key| !key.is_empty()),
            most: usize::MAX,
            is_warned: AtomicBool::new(false),
        };
        client.dialect = match options.engine_dialect {
            Some(dialect) => dialect,
            None => {
                let models = client.ask("/v1/models");
                models.as_ref().and_then(Dialect::of_models).unwrap_or(Dialect::Openai)
            }
        };
        if client.dialect == Dialect::LlamaCpp {
            // It refuses to draw more at a time than it has slots.
            let slots = client.ask("/props").and_then(|props| props["total_slots"].as_u64());
            client.most = slots.unwrap_or(1).max(1) as usize;
        }
        Ok(client)
    }

    /// How the server is spoken to.
    pub(super) fn dialect(&self) -> Dialect {
        self.dialect
    }

    pub(super) fn address(&self) -> &str {
        &self.base
    }

    /// Tells the server to do something; its words where it will not, and whether it answered at all.
    pub(super) fn tell(&self, path: &str, request: &Value) -> Result<()> {
        self.told(path, request).map(drop)
    }

    /// The same, with an answer in JSON.
    pub(super) fn reply(&self, path: &str, request: &Value) -> Result<Value> {
        let text = self.told(path, request)?;
        serde_json::from_slice(&text).with_context(|| format!("{}{path}: not JSON", self.base))
    }

    /// The log-probabilities that vLLM gives the tokens of a prompt, of each after the first.
    pub(super) fn prompt_logp(&self, model: &str, ids: &[u32]) -> Result<Vec<f64>> {
        let request = json!({"model": model, "prompt": ids, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0});
        let answer = self.reply("/v1/completions", &request)?;
        answers::prompt_logp(&answer, ids)
            .with_context(|| format!("{}: no log-probabilities of a prompt", self.base))
    }

    fn told(&self, path: &str, request: &Value) -> Result<Vec<u8>> {
        match self.post(path, request, ANSWER_BYTES) {
            Ok(text) => Ok(text),
            Err(Failure::ForNow(reason, _)) => bail!("{}{path}: {reason}", self.base),
            Err(Failure::ForGood(error)) => Err(error),
        }
    }

    /// The server's description of itself at `path`; a server without one is not asked again.
    pub(super) fn ask(&self, path: &str) -> Option<Value> {
        let mut request = self.question(path);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let text = body(request.send().ok()?, ANSWER_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// A request for what the server says of itself, which takes no time of its own.
    fn question(&self, path: &str) -> RequestBuilder {
        self.http.get(format!("{}{path}", self.base)).timeout(QUESTION)
    }

    /// Whether it answers at all.
    pub(super) fn is_up(&self) -> bool {
        self.question("/health").send().is_ok()
    }

    /// Up to `n` completions of a prompt.
    pub(super) fn complete(
        &self,
        request: Request<'_>,
        n: usize,
        is_over: &AtomicBool,
    ) -> Result<Vec<Result<ServerSample, String>>> {
        let n = n.min(self.most);
        let (path, body) = self.written(request, n);
        let tokens = (n as u64).saturating_mul(request.params.max_new_tokens as u64);
        let limit = tokens.saturating_mul(TOKEN_BYTES).saturating_add(ANSWER_BYTES).min(MAX_ANSWER);
        let mut pause = FIRST_PAUSE;
        let mut attempt = 0;
        loop {
            let read = |text: Vec<u8>| {
                let malformed = |error| format!("a malformed answer: {error}");
                answers::read(&text).map_err(|error| Failure::ForNow(malformed(error), None))
            };
            let (reason, wait) = match self.post(path, &body, limit).and_then(read) {
                Ok(answers) => {
                    self.warn_of_model(request.adapter.unwrap_or(request.model), answers.model);
                    return Ok(answers.samples);
                }
                Err(Failure::ForGood(error)) => return Err(error),
                Err(Failure::ForNow(reason, wait)) => (reason, wait),
            };
            if attempt == request.retries {
                bail!("{}{path}: {reason}; gave up after {} tries", self.base, attempt + 1);
            }
            attempt += 1;
            let wait = wait.unwrap_or(pause).min(LONGEST_PAUSE);
            pause = (pause * 2).min(LONGEST_PAUSE);
            tracing::warn!("{}: {reason}; trying again in {:.1} s", self.base, wait.as_secs_f64());
            sleep(wait, is_over)?;
        }
    }

    /// Some servers sample from what they have, whatever they are asked for; others know a model by several names.
    fn warn_of_model(&self, requested: &str, answered: Option<String>) {
        let Some(other) = answered.filter(|name| name != requested) else { return };
        if !self.is_warned.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{} samples from the model `{other}`, by its own account, where `{requested}` was asked for",
                self.base
            );
        }
    }

    fn written(&self, request: Request<'_>, n: usize) -> (&'static str, Value) {
        let Request { input, model, adapter, params, seed, .. } = request;
        let mut body = json!({"model": adapter.unwrap_or(model), "n": n});
        self.dialect.write(&mut body, params, seed);
        match input {
            PromptInput::Tokens(ids) if self.dialect == Dialect::Sglang => {
                ("/generate", self.dialect.natively(ids, n, adapter, params))
            }
            PromptInput::Prompt(Prompt::Chat(chat)) => {
                body["messages"] = json!(chat.messages);
                // Servers render chats with the tools of a request; vLLM's and SGLang's take other variables as well.
                let mut variables = chat.variables.clone();
                if let Some(tools) = variables.shift_remove("tools") {
                    body["tools"] = tools;
                    body["tool_choice"] = json!("none");
                }
                if !variables.is_empty() {
                    body["chat_template_kwargs"] = variables.into();
                }
                body["logprobs"] = json!(true);
                ("/v1/chat/completions", body)
            }
            PromptInput::Prompt(Prompt::Text(text)) => {
                body["prompt"] = json!(text);
                body["logprobs"] = json!(1);
                ("/v1/completions", body)
            }
            PromptInput::Tokens(ids) => {
                body["prompt"] = json!(ids);
                // Of the token that was drawn alone.
                body["logprobs"] = json!(0);
                if request.is_marked {
                    body["return_weight_versions"] = json!(true);
                }
                body["stop_token_ids"] = json!(params.eos);
                ("/v1/completions", body)
            }
        }
    }

    fn post(&self, path: &str, request: &Value, limit: u64) -> Result<Vec<u8>, Failure> {
        let url = format!("{}{path}", self.base);
        let mut post = self.http.post(&url).header("Content-Type", "application/json");
        if let Some(key) = &self.key {
            post = post.bearer_auth(key);
        }
        let sent = post.timeout(self.timeout).body(request.to_string()).send();
        let response = sent.map_err(|error| Failure::ForNow(described(&error), None))?;
        let status = response.status();
        let wait = retry_after(&response);
        let text =
            body(response, limit).map_err(|error| Failure::ForNow(format!("{error:#}"), wait))?;
        if status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || status.is_server_error()
        {
            return Err(Failure::ForNow(format!("{status}{}", error_text(&text)), wait));
        }
        if !status.is_success() {
            return Err(Failure::ForGood(anyhow!("{url}: {status}{}", error_text(&text))));
        }
        Ok(text)
    }
}

/// The server's text, shortened.
fn error_text(text: &[u8]) -> String {
    let value: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
    let message = value["error"]["message"].as_str().or_else(|| value["message"].as_str());
    let text = String::from_utf8_lossy(&text[..text.len().min(2000)]);
    let message: String = message.unwrap_or(&text).chars().take(300).collect();
    if message.trim().is_empty() { String::new() } else { format!(": {}", message.trim()) }
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// Waits, but not when the run is over.
fn sleep(wait: Duration, is_over: &AtomicBool) -> Result<()> {
    let end = Instant::now() + wait;
    while Instant::now() < end {
        if is_over.load(Ordering::Relaxed) {
            bail!("stopped");
        }
        std::thread::sleep(Duration::from_millis(20).min(wait));
    }
    Ok(())
}
