//! Sampling from a server that speaks OpenAI's API (vLLM, SGLang, llama.cpp, ...): prompts, verification
//! and statistics stay here.
//!
//! Each problem is one task of a few workers: a request for as many completions as are missing, again until they are
//! all there. What fails for a while (no connection, a hang, 429, 5xx, a malformed body) is tried again with growing
//! pauses; what fails for good ends the run with the server's words. A field that the server refuses is left out; a
//! prompt that it refuses has samples that are missing, and the others go on. A choice without a text (a refusal, a
//! filter, a tool call, a thought that was cut off) is a sample that failed: drawing it again until a text comes would
//! select. A problem's answers reach the caller all at once, so nothing is counted twice.

mod address;
mod answers;
mod client;
mod dialect;
mod engine;
mod fields;
mod fleet;
mod kwargs;
mod probe;
mod refusal;
mod replica;
mod served;
mod server_info;
mod workers;

use std::sync::Once;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::number::counted;
use tealight_eval::{AnswerSink, Completion, ProblemRequest, Solver};

use client::{Client, PromptInput, Request};
use kwargs::EngineKwargs;
use refusal::Refusal;
use tealight_nn::generate::SamplingParams;
use tealight_system::stop::Stop;
use tealight_system::telemetry::count_tokens;
use workers::ask_each;

pub use dialect::Dialect;
pub use engine::{EngineOptions, EngineWeights};
pub use fleet::Fleet;
pub use served::ServedPolicy;

/// Options of the server, where one samples.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RemoteOptions {
    /// Address of an OpenAI-compatible server that samples instead of this process, such as http://host:8000. `train`
    /// takes one or several vLLM or SGLang servers, separated by commas. The API key is OPENAI_API_KEY.
    #[arg(long, help_heading = "Engine")]
    pub engine: Option<String>,
    /// Settings of the server, separated by commas. model=NAME: the model's name on the server (default: --model).
    /// dialect=vllm, sglang, llama.cpp or openai: the kind of server (default: detected). concurrency=N: requests at a
    /// time (default: 32). timeout=SECONDS: the time of one request (default: 600). retries=N: further tries of a
    /// failed request before the run ends (default: 8). folder=DIR, for `train`: where the servers load the adapter or
    /// all weights from before every step, the same path on all machines (default: a directory in --output). Values
    /// cannot contain commas.
    #[arg(long, value_name = "KEY=VALUE", value_delimiter = ',', help_heading = "Engine")]
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_kwargs: Vec<String>,
}

impl RemoteOptions {
    /// How the server is asked.
    pub(crate) fn kwargs(&self) -> Result<EngineKwargs> {
        EngineKwargs::new(&self.engine_kwargs)
    }
}

/// A server and how it is asked.
pub struct Remote {
    client: Client,
    model: String,
    concurrency: usize,
    retries: usize,
    seed: u64,
    /// Whether a sample without a text was reported.
    failure_named: Once,
    stop: Stop,
}

impl Remote {
    /// Sets up the client, and asks the server what it is; `stop` ends the pauses of a server that fails.
    ///
    /// # Errors
    /// An address that is none or where nothing answers, settings that make no sense, filters that this kind of server
    /// has not.
    pub fn new(
        engine: &str,
        model: &str,
        options: &RemoteOptions,
        seed: u64,
        stop: &Stop,
    ) -> Result<Self> {
        let kwargs = options.kwargs()?;
        let client = Client::new(engine, &kwargs)?;
        if !client.is_up() {
            bail!("--engine {engine}: no server answers there");
        }
        if client.dialect() == Dialect::Openai {
            tracing::warn!(
                "{engine}: the kind of server is unknown, so filters that the server may apply by default (top_k, \
                 min_p, penalties) cannot be turned off; for vLLM, SGLang or llama.cpp, set --engine-kwargs dialect=NAME"
            );
        }
        let EngineKwargs { model: name, concurrency, retries, .. } = kwargs;
        let model = name.unwrap_or_else(|| model.to_owned());
        let (failure_named, stop) = (Once::new(), stop.clone());
        Ok(Self { client, model, concurrency, retries, seed, failure_named, stop })
    }

    /// How the server is spoken to.
    pub fn dialect(&self) -> Dialect {
        self.client.dialect()
    }

    /// The server as a solver under these sampling settings.
    pub fn with<'a>(&'a self, params: &'a SamplingParams) -> RemoteSolver<'a> {
        RemoteSolver { remote: self, params }
    }
}

/// Asks a server.
pub struct RemoteSolver<'a> {
    remote: &'a Remote,
    params: &'a SamplingParams,
}

impl Solver for RemoteSolver<'_> {
    fn solve(
        &self,
        problems: &[ProblemRequest<'_>],
        n: usize,
        sink: &mut AnswerSink<'_>,
    ) -> Result<()> {
        ask_each(
            problems.len(),
            self.remote.concurrency,
            &self.remote.stop,
            |index, is_over| self.answers(&problems[index], n, is_over),
            sink,
        )
    }
}

impl RemoteSolver<'_> {
    /// All answers to one problem; servers may give fewer than asked for at once.
    fn answers(
        &self,
        request: &ProblemRequest<'_>,
        n: usize,
        is_over: &AtomicBool,
    ) -> Result<Vec<Completion>> {
        let n = n.saturating_sub(request.known);
        let mut answers: Vec<Completion> = Vec::with_capacity(n);
        // Other seeds than those that drew what is known.
        let (mut requests, mut empty) = (request.known as u64, 0);
        while answers.len() < n {
            let missing = n - answers.len();
            // Another seed for each request: the same one would bring the same answers again.
            let seed = mixed(self.remote.seed, request.key, requests);
            requests += 1;
            let body = Request {
                input: PromptInput::Prompt(&request.problem.prompt),
                model: &self.remote.model,
                adapter: None,
                is_marked: false,
                params: self.params,
                seed,
                retries: self.remote.retries,
            };
            let samples = match self.remote.client.complete(body, missing, is_over) {
                Ok(samples) => samples,
                Err(error) => match error.downcast_ref::<Refusal>() {
                    Some(refusal) => {
                        let is_greedy = refusal.words.to_lowercase().contains("temperature");
                        let why = match is_greedy {
                            true => format!(
                                "the server refused the temperature: {refusal} (--no-greedy leaves out the sample at \
                                 temperature 0)"
                            ),
                            false => format!("the server refused the prompt: {refusal}"),
                        };
                        self.lose(request, &mut answers, (missing, why));
                        break;
                    }
                    None => {
                        return Err(error)
                            .with_context(|| format!("problem `{}`", request.problem.id));
                    }
                },
            };
            empty = if samples.is_empty() { empty + 1 } else { 0 };
            if empty > self.remote.retries {
                let why = "the server returned no completion".to_owned();
                self.lose(request, &mut answers, (missing, why));
                break;
            }
            for mut sample in samples.into_iter().take(missing) {
                // Whatever the server says: no more were asked for.
                sample.answer.tokens = sample.answer.tokens.min(self.params.max_new_tokens);
                count_tokens(sample.answer.tokens);
                self.name_failure(request, &sample.answer);
                answers.push(sample.answer);
            }
        }
        Ok(answers)
    }

    /// Adds samples that are missing, and says so.
    fn lose(
        &self,
        request: &ProblemRequest<'_>,
        answers: &mut Vec<Completion>,
        (missing, why): (usize, String),
    ) {
        let count = answers.len() + missing;
        tracing::warn!(
            "problem `{}`: {missing} of {} failed: {why}",
            request.problem.id,
            counted(count, "sample")
        );
        answers.resize_with(count, || Completion::failed(why.clone()));
    }

    /// Says of the first sample without an answer why it has none.
    fn name_failure(&self, request: &ProblemRequest<'_>, answer: &Completion) {
        let Some(why) = &answer.failure else { return };
        self.remote.failure_named.call_once(|| {
            tracing::warn!(
                "problem `{}`: a sample without an answer: {why}; --failed decides how such samples are counted",
                request.problem.id
            );
        });
    }
}

/// Reads what a server might answer, for fuzzing.
pub fn read_answer(body: &[u8]) {
    if let Ok(body) = answers::parse(body) {
        drop(answers::read(&body));
        drop(answers::error(&body));
    }
    refusal::named(&String::from_utf8_lossy(body).to_lowercase());
    drop(serde_json::from_slice(body).map(|models| Dialect::of_models(&models)));
}

/// A seed of 31 bits, which every server takes.
fn mixed(seed: u64, key: u64, requests: u64) -> u64 {
    let mut z = seed
        ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ requests.wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) & 0x7fff_ffff
}
