//! One request to a server, tried until it is answered.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use reqwest::StatusCode;
use reqwest::blocking::Response;
use serde_json::{Value, json};
use tealight_datasets::Prompt;
use tealight_eval::Answer;

use super::RemoteOptions;
use crate::generate::SamplingParams;
use crate::telemetry::warn;

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A server's address and how it is asked.
pub(super) struct Client {
    http: reqwest::blocking::Client,
    base: String,
    model: String,
    key: Option<String>,
    retries: usize,
}

/// Why a request brought nothing.
enum Failure {
    /// It may work later; the server may have said when.
    ForNow(String, Option<Duration>),
    /// It will not.
    ForGood(anyhow::Error),
}

impl Client {
    pub(super) fn new(engine: &str, model: &str, options: &RemoteOptions) -> Result<Self> {
        let base = engine.trim_end_matches('/').trim_end_matches("/v1").to_owned();
        let address = reqwest::Url::parse(&base);
        if !address.is_ok_and(|url| matches!(url.scheme(), "http" | "https")) {
            bail!("--engine `{engine}` is no address; give one like http://localhost:8000");
        }
        let timeout = Duration::from_secs_f64(options.engine_timeout);
        let http = reqwest::blocking::Client::builder()
            .timeout(timeout)
            .connect_timeout(Duration::from_secs(30).min(timeout))
            .build()
            .context("the HTTP client cannot be set up")?;
        Ok(Self {
            http,
            base,
            model: model.into(),
            key: std::env::var(&options.api_key_env).ok(),
            retries: options.retries,
        })
    }

    /// Up to `n` completions of a prompt.
    pub(super) fn complete(
        &self,
        prompt: &Prompt,
        n: usize,
        params: &SamplingParams,
        seed: u64,
        is_over: &AtomicBool,
    ) -> Result<Vec<Answer>> {
        let (path, body) = self.request(prompt, n, params, seed);
        let mut pause = FIRST_PAUSE;
        let mut attempt = 0;
        loop {
            let (reason, wait) = match self.once(path, &body) {
                Ok(answers) => return Ok(answers),
                Err(Failure::ForGood(error)) => return Err(error),
                Err(Failure::ForNow(reason, wait)) => (reason, wait),
            };
            if attempt == self.retries {
                bail!("{}{path}: {reason}; gave up after {} tries", self.base, attempt + 1);
            }
            attempt += 1;
            let wait = wait.unwrap_or(pause).min(LONGEST_PAUSE);
            pause = (pause * 2).min(LONGEST_PAUSE);
            warn(format!("{}: {reason}; trying again in {:.1} s", self.base, wait.as_secs_f64()));
            sleep(wait, is_over)?;
        }
    }

    fn request(
        &self,
        prompt: &Prompt,
        n: usize,
        params: &SamplingParams,
        seed: u64,
    ) -> (&'static str, Value) {
        let mut body = json!({
            "model": self.model,
            "n": n,
            "temperature": params.temperature,
            "max_tokens": params.max_new_tokens,
            "seed": seed,
        });
        let filters = params.filters;
        if filters.top_p < 1.0 {
            body["top_p"] = json!(filters.top_p);
        }
        // Not OpenAI's, but known to vLLM, SGLang and llama.cpp: sent only where asked for.
        if filters.top_k > 0 {
            body["top_k"] = json!(filters.top_k);
        }
        if filters.min_p > 0.0 {
            body["min_p"] = json!(filters.min_p);
        }
        match prompt {
            Prompt::Chat(messages) => {
                body["messages"] = json!(messages);
                body["logprobs"] = json!(true);
                ("/v1/chat/completions", body)
            }
            Prompt::Text(text) => {
                body["prompt"] = json!(text);
                body["logprobs"] = json!(1);
                ("/v1/completions", body)
            }
        }
    }

    fn once(&self, path: &str, body: &Value) -> Result<Vec<Answer>, Failure> {
        let mut request = self.http.post(format!("{}{path}", self.base)).json(body);
        if let Some(key) = &self.key {
            request = request.bearer_auth(key);
        }
        let for_now = |error: reqwest::Error| Failure::ForNow(described(&error), None);
        let response = request.send().map_err(for_now)?;
        let status = response.status();
        let wait = retry_after(&response);
        let text = response.text().map_err(for_now)?;
        if status == StatusCode::TOO_MANY_REQUESTS
            || status == StatusCode::REQUEST_TIMEOUT
            || status.is_server_error()
        {
            return Err(Failure::ForNow(format!("{status}{}", said(&text)), wait));
        }
        if !status.is_success() {
            let url = format!("{}{path}", self.base);
            return Err(Failure::ForGood(anyhow!("{url}: {status}{}", said(&text))));
        }
        read(&text).map_err(|error| Failure::ForNow(format!("a malformed answer: {error}"), None))
    }
}

/// What the server said, shortened.
fn said(text: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap_or(Value::Null);
    let message = value["error"]["message"].as_str().or_else(|| value["message"].as_str());
    let message: String = message.unwrap_or(text).chars().take(300).collect();
    if message.trim().is_empty() { String::new() } else { format!(": {}", message.trim()) }
}

fn described(error: &reqwest::Error) -> String {
    if error.is_timeout() {
        return "no answer in time".into();
    }
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause.to_string()
}

fn retry_after(response: &Response) -> Option<Duration> {
    let seconds = response.headers().get("retry-after")?.to_str().ok()?.parse::<f64>().ok()?;
    Duration::try_from_secs_f64(seconds).ok()
}

/// The completions of a response body.
fn read(text: &str) -> Result<Vec<Answer>> {
    let body: Value = serde_json::from_str(text).context("not JSON")?;
    let choices = body["choices"].as_array().context("no `choices`")?;
    // Servers give the tokens of all choices together.
    let tokens = body["usage"]["completion_tokens"].as_u64().unwrap_or(0) as usize;
    let answer = |choice: &Value| -> Result<Answer> {
        let text = choice["message"]["content"]
            .as_str()
            .or_else(|| choice["text"].as_str())
            .context("a choice without text")?;
        let logps = logps(&choice["logprobs"]);
        let count = logps.as_ref().map_or(tokens / choices.len().max(1), Vec::len);
        Ok(Answer {
            text: text.into(),
            is_finished: choice["finish_reason"].as_str() == Some("stop"),
            tokens: count,
            logp: logps.map(|logps| logps.iter().sum()),
        })
    };
    choices.iter().map(answer).collect()
}

/// The log-probability of each token, in the form of chat or of plain completions.
fn logps(value: &Value) -> Option<Vec<f64>> {
    if let Some(content) = value["content"].as_array() {
        return content.iter().map(|token| token["logprob"].as_f64()).collect();
    }
    value["token_logprobs"].as_array()?.iter().map(Value::as_f64).collect()
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
