//! One request to a server, tried until it is answered.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use tealight_core::Prompt;
use tealight_core::display::shortened;
use tealight_eval::number::counted;

use super::Dialect;
use super::address::Address;
use super::answers::{self, Answers, ServerSample};
use super::fields::Fields;
use super::kwargs::EngineKwargs;
use super::refusal::{self, Refusal};
use tealight_nn::generate::SamplingParams;
use tealight_system::http::{
    Client as Http, Failure as HttpFailure, Method, Request as HttpRequest, Response, StatusCode,
    origin,
};

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
    /// For what the server says of itself, which takes no time of its own.
    questions: Http,
    address: Address,
    dialect: Dialect,
    /// Completions that one request may ask for.
    most: usize,
    /// The fields that it refuses.
    fields: Fields,
    /// Whether it was said that another model answers than was asked for.
    model_warned: Once,
    /// Whether a finish reason was named that nobody here knows.
    end_named: Once,
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
    /// It will not: the request, by the server's words.
    Refused(Refusal),
    /// It will not.
    ForGood(anyhow::Error),
}

impl Client {
    /// Asks the server of which kind it is, unless the user says.
    pub(super) fn new(engine: &str, kwargs: &EngineKwargs) -> Result<Self> {
        let address = Address::new(engine);
        if origin(&address.root).is_none() {
            bail!("--engine `{engine}` is not a server URL: use one such as http://localhost:8000");
        }
        let key = std::env::var("OPENAI_API_KEY").ok().filter(|key| !key.is_empty());
        let http = |time| Http::new(&address.root, key.as_deref(), time, Some(time));
        let mut client = Self {
            http: http(kwargs.timeout)?,
            questions: http(QUESTION)?,
            address: address.clone(),
            dialect: Dialect::Openai,
            most: usize::MAX,
            fields: Fields::default(),
            model_warned: Once::new(),
            end_named: Once::new(),
        };
        client.address = address.probed(&client);
        client.dialect = match kwargs.dialect {
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
        &self.address.root
    }

    /// Tells the server to do something; its words where it will not, and whether it answered at all.
    pub(super) fn tell(&self, path: &str, request: &Value) -> Result<()> {
        self.told(path, request).map(drop)
    }

    /// The same, with an answer in JSON.
    pub(super) fn reply(&self, path: &str, request: &Value) -> Result<Value> {
        let text = self.told(path, request)?;
        serde_json::from_slice(&text)
            .with_context(|| format!("{}: not JSON", self.address.url(path)))
    }

    /// The log-probabilities that vLLM gives the tokens of a prompt, of each after the first.
    pub(super) fn prompt_logp(&self, model: &str, ids: &[u32]) -> Result<Vec<f64>> {
        let request = json!({"model": model, "prompt": ids, "max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0});
        let answer = self.reply("/v1/completions", &request)?;
        answers::prompt_logp(&answer, ids)
            .with_context(|| format!("{}: no log-probabilities of a prompt", self.address()))
    }

    fn told(&self, path: &str, request: &Value) -> Result<Vec<u8>> {
        match self.post(path, request, ANSWER_BYTES) {
            Ok(text) => Ok(text),
            Err(Failure::ForNow(reason, _)) => bail!("{}: {reason}", self.address.url(path)),
            Err(Failure::Refused(refusal)) => bail!("{}: {refusal}", self.address.url(path)),
            Err(Failure::ForGood(error)) => Err(error),
        }
    }

    /// The server's description of itself at `path`; a server without one is not asked again.
    pub(super) fn ask(&self, path: &str) -> Option<Value> {
        let text = self.question(path).ok()?.body(ANSWER_BYTES).ok()?;
        serde_json::from_slice(&text).ok()
    }

    fn question(&self, path: &str) -> Result<Response, HttpFailure> {
        self.questions.send(&HttpRequest {
            method: Method::GET,
            url: &self.address.url(path),
            headers: &[],
            content: None,
            redirects: 0,
        })
    }

    /// Whether it answers at all.
    pub(super) fn is_up(&self) -> bool {
        self.question("/health").is_ok()
    }

    /// Up to `n` completions of a prompt. Of a prompt that the server renders, fields that it refuses are left out.
    pub(super) fn complete(
        &self,
        request: Request<'_>,
        n: usize,
        is_over: &AtomicBool,
    ) -> Result<Vec<ServerSample>> {
        let has_optional_fields = matches!(request.input, PromptInput::Prompt(_));
        let mut left_out = self.fields.left_out();
        let mut pause = FIRST_PAUSE;
        let mut attempt = 0;
        loop {
            let n = n.min(self.most).min(left_out.most());
            let (path, mut body) = self.written(request, n);
            left_out.apply(&mut body)?;
            let tokens = (n as u64).saturating_mul(request.params.max_new_tokens as u64);
            let limit = tokens.saturating_mul(TOKEN_BYTES).saturating_add(ANSWER_BYTES);
            let sent = self.post(path, &body, limit.min(MAX_ANSWER));
            let (reason, wait) = match sent.and_then(|text| self.read(path, &text)) {
                Ok(answers) => {
                    self.warn_of_model(request.adapter.unwrap_or(request.model), answers.model);
                    self.warn_of_ends(&answers.unknown_endings);
                    if let Some(note) = self.fields.accept(&left_out) {
                        tracing::warn!("{}: {note}", self.address());
                    }
                    return Ok(answers.samples);
                }
                Err(Failure::ForGood(error)) => return Err(error),
                Err(Failure::Refused(refusal)) => {
                    let has_answered = self.fields.has_answered();
                    if has_optional_fields && left_out.learn(&body, &refusal.text, has_answered) {
                        continue;
                    }
                    let at = || self.address.url(path);
                    return Err(self.fields.refuse(refusal)).with_context(at);
                }
                Err(Failure::ForNow(reason, wait)) => (reason, wait),
            };
            if attempt == request.retries {
                let url = self.address.url(path);
                bail!("{url}: {reason}; gave up after {}", counted(attempt + 1, "attempt"));
            }
            attempt += 1;
            let wait = wait.unwrap_or(pause).min(LONGEST_PAUSE);
            pause = (pause * 2).min(LONGEST_PAUSE);
            let seconds = wait.as_secs_f64();
            tracing::warn!("{}: {reason}; trying again in {seconds:.1} s", self.address());
            sleep(wait, is_over)?;
        }
    }

    /// The completions in a body, or what the server says in place of them.
    fn read(&self, path: &str, text: &[u8]) -> Result<Answers, Failure> {
        let malformed =
            |error: anyhow::Error| Failure::ForNow(format!("a malformed answer: {error}"), None);
        let body = answers::parse(text).map_err(|error| {
            let start: String =
                String::from_utf8_lossy(&text[..text.len().min(400)]).chars().take(80).collect();
            malformed(anyhow!("{error}; it begins with `{}`", start.trim().escape_debug()))
        })?;
        match answers::error(&body) {
            Some((Some(status), words)) if is_refusal(status, self.fields.has_answered()) => {
                let text = String::from_utf8_lossy(text).into_owned();
                return Err(Failure::Refused(Refusal { status, text, words }));
            }
            Some((Some(status @ (401..=404)), words)) => {
                let url = self.address.url(path);
                return Err(Failure::ForGood(anyhow!("{url}: {status}: {words}")));
            }
            Some((_, words)) => return Err(Failure::ForNow(words, None)),
            None => {}
        }
        answers::read(&body).map_err(malformed)
    }

    fn warn_of_ends(&self, unknown: &[String]) {
        let Some(name) = unknown.first() else { return };
        self.end_named.call_once(|| {
            tracing::warn!(
                "{}: the finish reason `{name}` is unknown and is treated as a normal end",
                self.address()
            );
        });
    }

    /// Some servers sample from what they have, whatever they are asked for; others know a model by several names.
    fn warn_of_model(&self, requested: &str, answered: Option<String>) {
        let Some(other) = answered.filter(|name| name != requested) else { return };
        self.model_warned.call_once(|| {
            tracing::warn!(
                "{} samples from the model `{other}`, by its own account, where `{requested}` was asked for",
                self.address()
            );
        });
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
        let url = self.address.url(path);
        let failed = |failure: HttpFailure, wait| Failure::ForNow(failure.to_string(), wait);
        let sent = self.http.send(&HttpRequest {
            method: Method::POST,
            url: &url,
            headers: &[("Content-Type", "application/json")],
            content: Some(&request.to_string()),
            redirects: 0,
        });
        let response = sent.map_err(|failure| failed(failure, None))?;
        let (status, wait) = (response.status, retry_after(&response));
        let moved = response.header("location").map(|to| to.escape_debug().to_string());
        let text = response.body(limit).map_err(|failure| failed(failure, wait))?;
        if is_refusal(status.as_u16(), self.fields.has_answered()) {
            let words = error_words(&text);
            let text = String::from_utf8_lossy(&text[..text.len().min(20_000)]).into_owned();
            return Err(Failure::Refused(Refusal { status: status.as_u16(), text, words }));
        }
        if status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || status.is_server_error()
        {
            return Err(Failure::ForNow(format!("{status}{}", error_text(&text)), wait));
        }
        if let Some(to) = moved.filter(|_| status.is_redirection()) {
            let to = to.chars().take(300).collect::<String>();
            return Err(Failure::ForGood(anyhow!(
                "{url}: {status}: the server moved to {to}: give its address as --engine"
            )));
        }
        if !status.is_success() {
            return Err(Failure::ForGood(anyhow!("{url}: {status}{}", error_text(&text))));
        }
        let start = text.trim_ascii_start();
        let other = [(&b"<"[..], "a web page"), (b"data:", "a stream"), (b"event:", "a stream")];
        let other = other.into_iter().find(|(mark, _)| start.starts_with(mark));
        if let Some((_, what)) = other.filter(|_| !self.fields.has_answered()) {
            return Err(Failure::ForGood(anyhow!(
                "{url}: the server answers with {what} and not with JSON"
            )));
        }
        Ok(text)
    }
}

/// Whether a status refuses a request and not its sender. One whose other requests were answered is refused by what is
/// in it.
fn is_refusal(status: u16, has_answered: bool) -> bool {
    matches!(status, 400 | 413 | 422 | 501) || status == 403 && has_answered
}

/// The server's words behind a colon, where there are some.
fn error_text(text: &[u8]) -> String {
    let words = error_words(text);
    if words.is_empty() { words } else { format!(": {words}") }
}

/// The server's words or text, shortened.
fn error_words(text: &[u8]) -> String {
    let value: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
    let text = String::from_utf8_lossy(&text[..text.len().min(2000)]);
    let message = refusal::words(&value).unwrap_or_else(|| text.into_owned());
    shortened(message.trim(), 300)
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.header("retry-after")?.parse::<f64>().ok()?;
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
