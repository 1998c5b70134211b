//! Sampling from a server that speaks OpenAI's API (vLLM, SGLang, llama.cpp, ...): prompts, verification
//! and statistics stay here.
//!
//! Each problem is one task of a few workers: a request for as many completions as are missing, again
//! until they are all there. What fails for a while (no connection, a hang, 429, 5xx, a malformed body) is
//! tried again with growing pauses; what fails for good ends the run with the server's words. A problem's
//! answers reach the caller all at once, so nothing is counted twice.

mod client;
mod sampler;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::channel;

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_eval::{Answer, Keyed, Sink, Solver};

use crate::generate::SamplingParams;
use client::Client;

pub use sampler::RemoteSampler;

/// Options of the server, where one samples.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RemoteOptions {
    /// Sample from the OpenAI-compatible server at this address (http://host:8000) instead of here.
    #[arg(long, help_heading = "Engine")]
    pub engine: Option<String>,
    /// The name it knows the model by, where that is not --model.
    #[arg(long, help_heading = "Engine", requires = "engine")]
    pub engine_model: Option<String>,
    /// Requests under way at a time.
    #[arg(long, default_value_t = 32, help_heading = "Engine")]
    pub concurrency: usize,
    /// Seconds that one request may take.
    #[arg(long, default_value_t = 600.0, help_heading = "Engine")]
    pub engine_timeout: f64,
    /// How often a request that fails is tried again before the run ends.
    #[arg(long, default_value_t = 8, help_heading = "Engine")]
    pub retries: usize,
    /// Environment variable with the key that the server wants.
    #[arg(long, default_value = "OPENAI_API_KEY", help_heading = "Engine")]
    pub api_key_env: String,
}

/// A server and how it is asked.
pub struct Remote {
    client: Client,
    concurrency: usize,
    seed: u64,
}

impl Remote {
    /// Sets up the client; nothing is sent yet.
    ///
    /// # Errors
    /// An address that is none, settings that make no sense.
    pub fn new(engine: &str, model: &str, options: &RemoteOptions, seed: u64) -> Result<Self> {
        let model = options.engine_model.as_deref().unwrap_or(model);
        if options.concurrency == 0 {
            bail!("concurrency must be at least 1");
        }
        if !(options.engine_timeout > 0.0 && options.engine_timeout.is_finite()) {
            bail!("engine-timeout must be above 0 seconds");
        }
        let client = Client::new(engine, model, options)?;
        Ok(Self { client, concurrency: options.concurrency, seed })
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
    fn solve(&self, problems: &[Keyed<'_>], n: usize, sink: &mut Sink<'_>) -> Result<()> {
        let next = AtomicUsize::new(0);
        let is_over = AtomicBool::new(false);
        let (send, answers) = channel::<(usize, Result<Vec<Answer>>)>();
        let send = Mutex::new(send);
        std::thread::scope(|scope| {
            for _ in 0..self.remote.concurrency.min(problems.len()) {
                let (next, is_over) = (&next, &is_over);
                let send = send.lock().map(|send| send.clone());
                let Ok(send) = send else { bail!("the workers cannot be started") };
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let index = next.fetch_add(1, Ordering::Relaxed);
                        let Some(asked) = problems.get(index) else { break };
                        let found = self.answers(asked, n, is_over);
                        if send.send((index, found)).is_err() {
                            break;
                        }
                    }
                });
            }
            drop(send);
            let mut failed = None;
            while let Ok((index, found)) = answers.recv() {
                // What other workers still bring is kept, so that a later run need not ask again.
                let done = found.and_then(|answers| sink(index, answers));
                if let Err(error) = done {
                    is_over.store(true, Ordering::Relaxed);
                    failed = failed.or(Some(error));
                }
            }
            failed.map_or(Ok(()), Err)
        })
    }
}

impl RemoteSolver<'_> {
    /// All answers to one problem; servers may give fewer than asked for at once.
    fn answers(&self, asked: &Keyed<'_>, n: usize, is_over: &AtomicBool) -> Result<Vec<Answer>> {
        let mut answers: Vec<Answer> = Vec::with_capacity(n);
        while answers.len() < n {
            let missing = n - answers.len();
            // Another seed for each request: the same one would bring the same answers again.
            let seed = mixed(self.remote.seed, asked.key, answers.len() as u64);
            let prompt = &asked.problem.prompt;
            let found = self.remote.client.complete(prompt, missing, self.params, seed, is_over)?;
            if found.is_empty() {
                bail!("problem `{}`: the server gave no completion", asked.problem.id);
            }
            answers.extend(found.into_iter().take(missing));
        }
        Ok(answers)
    }
}

/// A seed of 31 bits, which every server takes.
fn mixed(seed: u64, key: u64, drawn: u64) -> u64 {
    let mut z =
        seed ^ key.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ drawn.wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ (z >> 31)) & 0x7fff_ffff
}
