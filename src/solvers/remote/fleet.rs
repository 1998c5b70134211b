//! Servers that sample for a training run: prompts go out as tokens, completions come back as tokens with their
//! log-probabilities, and before every step the servers are given the weights as they are.
//!
//! A server that fails is left out, and taken in again when it answers; what it was asked for, another one draws. Text
//! is never tokenized again: what was sampled is what is trained on.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, anyhow, bail};

use super::answers::ServerSample;
use super::client::{PromptInput, Request};
use super::probe::Probe;
use super::replica::{LoadedWeights, ModelGuard, Replica};
use super::served::ServedPolicy;
use super::workers::ask_each;
use super::{EngineOptions, EngineWeights, mixed};
use tealight_nn::generate::{
    Completion, CompletionSink, Engine, EngineLost, Finish, RngKey, SampleRequest, Sampler,
    SamplingParams,
};
use tealight_system::stop::Stop;
use tealight_system::telemetry::count_tokens;

/// How often a request is tried again at a server while there are others.
const TRIES_ELSEWHERE: usize = 1;
/// How the folders and the names of adapters begin.
const ADAPTER: &str = "policy-";
/// How the folders of all weights begin.
const WEIGHTS: &str = "weights";
/// The folder of all weights under other token ids; it begins with [`WEIGHTS`], so that it is removed with the others.
const EXCHANGED: &str = "weights-exchanged";

/// What came of asking one server.
enum Outcome {
    /// It answered with these completions; `why` is the reason of the last one that is missing.
    Answered { completions: Vec<Completion>, why: String },
    /// It failed, and is left out.
    GivenUp(anyhow::Error),
}

/// Servers that sample for a run.
pub struct Fleet<'a> {
    replicas: Vec<Replica>,
    weights: EngineWeights,
    model: ServedPolicy<'a>,
    probe: Probe,
    folder: PathBuf,
    /// Tells the names of this process from those of others.
    nonce: String,
    /// The folder that servers last read.
    published: Mutex<Option<String>>,
    concurrency: usize,
    retries: usize,
    /// Ids that have a token. The policy gives those beyond no probability; a server samples them, if rarely.
    ids: usize,
    /// Rows of the embedding.
    vocabulary: usize,
}

impl<'a> Fleet<'a> {
    /// Asks the servers what they are, and removes what a killed run has left in the folder and on them.
    ///
    /// # Errors
    /// A server that is not there or neither vLLM nor SGLang, a folder that cannot be written.
    pub fn new(
        options: &EngineOptions,
        weights: EngineWeights,
        output: &Path,
        model: ServedPolicy<'a>,
    ) -> Result<Self> {
        let (ids, vocabulary) = (model.ids(), model.vocabulary());
        let kwargs = options.remote.kwargs()?;
        let engines =
            options.remote.engine.as_deref().unwrap_or_default().split(',').map(str::trim);
        let engines = engines.filter(|engine| !engine.is_empty());
        let replicas: Vec<Replica> =
            engines.map(|engine| Replica::new(engine, &kwargs, weights)).collect::<Result<_>>()?;
        if replicas.is_empty() {
            bail!("--engine names no server");
        }
        let output = std::path::absolute(output)?;
        let folder = match &kwargs.folder {
            None => output.join("engine"),
            // Runs that share it are told apart by where they write.
            Some(shared) => {
                let hash = tealight_core::fnv(output.display().to_string().bytes());
                std::path::absolute(shared)?.join(format!("run-{hash:016x}"))
            }
        };
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as u64);
        let nonce = mixed(now, u64::from(std::process::id()), 0);
        let fleet = Self {
            replicas,
            weights,
            model,
            probe: Probe::new(ids),
            folder,
            nonce: format!("{nonce:08x}"),
            published: Mutex::default(),
            concurrency: kwargs.concurrency,
            retries: kwargs.retries,
            ids,
            vocabulary,
        };
        fleet.replicas.iter().for_each(|replica| replica.unload_those_in(&fleet.folder));
        fleet.clean()?;
        Ok(fleet)
    }

    /// Removes what was handed over, by this run or one before it in the same place.
    fn clean(&self) -> Result<()> {
        let shown = || self.folder.display().to_string();
        if self.folder.symlink_metadata().is_ok_and(|kind| kind.is_symlink()) {
            bail!("{}: a link stands in the place of this folder: remove it", shown());
        }
        if self.folder.exists() {
            for entry in std::fs::read_dir(&self.folder).with_context(shown)? {
                let path = entry.with_context(shown)?.path();
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                if name.starts_with(ADAPTER) || name.starts_with(WEIGHTS) {
                    std::fs::remove_dir_all(&path).with_context(shown)?;
                }
            }
            // Where nothing else is in it.
            drop(std::fs::remove_dir(&self.folder));
        }
        Ok(())
    }

    /// Gives weights to every server that answers, leaving out those that fail.
    fn update(&self, change: impl Fn(&Replica, &mut LoadedWeights) -> Result<()>) -> Result<()> {
        let mut last = None;
        for replica in &self.replicas {
            if let Err(error) = replica.update(&self.folder, &change) {
                last = Some(error);
            }
        }
        if self.replicas.iter().any(Replica::is_up) { Ok(()) } else { Err(lost(last)) }
    }

    /// All completions of one request.
    fn complete(
        &self,
        (index, request): (usize, &SampleRequest),
        params: &SamplingParams,
        rng_key: RngKey,
        is_over: &AtomicBool,
    ) -> Result<Vec<Completion>> {
        let mut completions: Vec<Completion> = Vec::with_capacity(request.count);
        let (mut requests, mut barren, mut place) = (0, 0, index);
        let mut last = None;
        while completions.len() < request.count {
            let up: Vec<&Replica> =
                self.replicas.iter().filter(|replica| replica.is_up()).collect();
            let Some(replica) = up.get(place % up.len().max(1)) else { return Err(lost(last)) };
            // It has these weights until it has answered.
            let Some(policy) = replica.policy() else { continue };
            let wanted = Request {
                input: PromptInput::Tokens(&request.prompt),
                model: policy.model(),
                adapter: policy.adapter(),
                is_marked: policy.is_marked(),
                params,
                seed: mixed(rng_key.seed ^ rng_key.step.rotate_left(32), request.key, requests),
                retries: if up.len() > 1 { TRIES_ELSEWHERE } else { self.retries },
            };
            requests += 1;
            let missing = request.count - completions.len();
            match self.ask(replica, &policy, (wanted, missing), is_over)? {
                Outcome::GivenUp(error) => {
                    last = Some(error);
                    place += 1;
                }
                Outcome::Answered { completions: new, why } => {
                    barren = if new.is_empty() { barren + 1 } else { 0 };
                    completions.extend(new);
                    if barren > self.retries {
                        // One that is missing would bias what is learned.
                        let address = replica.client.address();
                        bail!("{address}: completions fail again and again: {why}");
                    }
                }
            }
        }
        Ok(completions)
    }

    /// Asks one server for at most `missing` completions.
    fn ask(
        &self,
        replica: &Replica,
        policy: &ModelGuard<'_>,
        (request, missing): (Request<'_>, usize),
        is_over: &AtomicBool,
    ) -> Result<Outcome> {
        let params = request.params;
        let samples = replica.client.complete(request, missing, is_over);
        let samples = match samples.and_then(|samples| policy.check(&samples).map(|()| samples)) {
            Ok(samples) => samples,
            Err(error) if is_over.load(Ordering::Relaxed) => return Err(error),
            Err(error) => {
                replica.give_up(&error);
                return Ok(Outcome::GivenUp(error));
            }
        };
        let (mut completions, mut why) = (Vec::new(), "no completion".to_owned());
        for sample in samples.into_iter().take(missing) {
            // Without such completions a server samples from the policy's distribution, up to a factor that the
            // importance weights correct.
            if self.has_padding(&sample) {
                why = "a token that the tokenizer does not have: padding of the vocabulary".into();
            } else if let Some(reason) = sample.answer.failure.as_ref().filter(|_| {
                // One whose tokens are all there is a sample, whatever the server makes of its text.
                !is_whole(&sample, params)
            }) {
                why.clone_from(reason);
            } else {
                completions.push(self.completion(sample, params)?);
            }
        }
        count_tokens(completions.iter().map(|one: &Completion| one.tokens.len()).sum());
        Ok(Outcome::Answered { completions, why })
    }

    /// Whether a sample has a token that stands for nothing: a row that pads the embedding.
    fn has_padding(&self, sample: &ServerSample) -> bool {
        let padding = self.ids..self.vocabulary;
        sample.token_ids.iter().flatten().any(|id| padding.contains(&(*id as usize)))
    }

    /// A server's sample, checked against the request.
    fn completion(&self, sample: ServerSample, params: &SamplingParams) -> Result<Completion> {
        let (Some(tokens), Some(logp)) = (sample.token_ids, sample.token_logp) else {
            bail!("the server gives no tokens with their log-probabilities: training needs both");
        };
        if tokens.len() != logp.len() || tokens.is_empty() || tokens.len() > params.max_new_tokens {
            bail!(
                "the server gave {} tokens with {} log-probabilities where {} were asked for at most",
                tokens.len(),
                logp.len(),
                params.max_new_tokens
            );
        }
        if let Some(id) = tokens.iter().find(|id| **id as usize >= self.vocabulary) {
            bail!(
                "the server drew token {id}, beyond the vocabulary of {} here: it has another model",
                self.vocabulary
            );
        }
        let ends = tokens.last().is_some_and(|last| params.eos.contains(last));
        if !sample.answer.is_end_unknown && sample.answer.is_finished != ends {
            bail!(
                "the server ended a completion without an end-of-sequence token, or not at one: start vLLM with \
                 --generation-config vllm"
            );
        }
        let finish = if ends { Finish::Stop } else { Finish::Length };
        Ok(Completion { tokens, logp: logp.into_iter().map(|x| x as f32).collect(), finish })
    }
}

/// Whether a sample has its tokens up to their end: an end-of-sequence token, or the limit of the length.
fn is_whole(sample: &ServerSample, params: &SamplingParams) -> bool {
    let (Some(tokens), Some(_)) = (&sample.token_ids, &sample.token_logp) else { return false };
    let ends = tokens.last().is_some_and(|last| params.eos.contains(last));
    ends || tokens.len() == params.max_new_tokens
}

fn lost(why: Option<anyhow::Error>) -> anyhow::Error {
    let why = why.map_or_else(String::new, |why| format!(": {why:#}"));
    anyhow!(EngineLost(format!("no server is left to sample from{why}")))
}

impl Fleet<'_> {
    /// Writes what is trained to a folder with a name that no server has seen; what was written before stays.
    fn write(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        // Whole before it has its name.
        let partial = self.folder.join(format!("{name}.partial"));
        self.model.write(&partial, None)?;
        std::fs::rename(&partial, &folder).with_context(|| folder.display().to_string())?;
        Ok(folder)
    }

    /// Removes what servers read before `name`.
    fn replace(&self, name: String) -> Result<()> {
        let mut published = self.published.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(old) = published.replace(name) {
            let old = self.folder.join(old);
            std::fs::remove_dir_all(&old).with_context(|| old.display().to_string())?;
        }
        Ok(())
    }

    /// Has every server read all weights from `folder`, and makes sure that each of them did.
    fn reload(&self, folder: &Path, version: &str) -> Result<()> {
        let policy: Vec<f64> =
            self.model.logp(self.probe.ids())?.into_iter().map(f64::from).collect();
        let probe = (&self.probe, &policy[..]);
        let exchanged = self.folder.join(EXCHANGED);
        let done = self.update(|replica, loaded| {
            if replica.is_unproven() {
                if !exchanged.exists() {
                    self.model.write(&exchanged, Some(&self.probe))?;
                }
                replica.prove(&exchanged, folder, probe)?;
            }
            replica.reload(loaded, (folder, version), probe)
        });
        if exchanged.exists() {
            std::fs::remove_dir_all(&exchanged).with_context(|| exchanged.display().to_string())?;
        }
        done
    }
}

impl Engine for Fleet<'_> {
    fn publish(&self, step: usize) -> Result<()> {
        let version = format!("{step}-{}", self.nonce);
        match self.weights {
            EngineWeights::Full => {
                let name = format!("{WEIGHTS}-{version}");
                let folder = self.write(&name)?;
                self.reload(&folder, &version)?;
                self.replace(name)
            }
            EngineWeights::Adapter => {
                let name = format!("{ADAPTER}{version}");
                let folder = self.write(&name)?;
                self.update(|replica, loaded| replica.load_adapter(loaded, &name, &folder))?;
                self.replace(name)
            }
        }
    }
}

impl Sampler for Fleet<'_> {
    fn generate(
        &self,
        requests: &[SampleRequest],
        params: &SamplingParams,
        rng_key: RngKey,
        sink: &mut CompletionSink<'_>,
    ) -> Result<()> {
        ask_each(
            requests.len(),
            self.concurrency,
            // A step of training is finished.
            &Stop::default(),
            |index, is_over| self.complete((index, &requests[index]), params, rng_key, is_over),
            sink,
        )
    }
}

impl Drop for Fleet<'_> {
    fn drop(&mut self) {
        for replica in self.replicas.iter().filter(|replica| replica.is_up()) {
            replica.unload_adapter();
        }
        if let Err(error) = self.clean() {
            tracing::warn!("files written for the servers could not be removed: {error:#}");
        }
    }
}
