//! Completions of the base, verified once and kept: what rehearsal and supervised objectives train
//! on, and what says how hard a prompt is.
//!
//! A directory holds `presamples.json` (what was asked of which model) and `presamples.jsonl`, one
//! line a prompt with every completion's token ids and log-probabilities. An interrupted one is
//! continued: a sample depends on the seed and its index alone.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use tealight_core::changes::changes;
use tealight_core::lines::Lines;
use tealight_core::output;
use tealight_datasets::Verdict;

use crate::rollout::{Collector, Encoded, Group, Rollout, collect};
use tealight_core::ranks::Ranks;
use tealight_nn::device::Precision;
use tealight_nn::generate::{Finish, RngKey};
use tealight_system::files::{
    MAX_SMALL, open_regular, read_text, writable_directory, write_atomic,
};
use tealight_system::telemetry::JsonLines;

/// Keys the randomness of pre-sampling apart from that of training steps.
const STEP: u64 = u64::MAX;

/// A request for samples of a model; two sets of the same request are interchangeable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PresampleSpec {
    /// Name of the base model.
    pub model: String,
    /// The dataset's name.
    pub dataset: String,
    /// Number of completions for each prompt.
    pub num_presamples: usize,
    /// Whether one more was drawn, to confirm prompts that look solved.
    pub extra_check: bool,
    /// Sampling temperature; the whole distribution is sampled.
    pub temperature: f64,
    /// Maximum new tokens of a completion.
    pub max_completion_length: usize,
    /// Seed of the samples.
    pub seed: u64,
    /// The precision, which log-probabilities depend on.
    #[serde(flatten)]
    pub precision: Precision,
}

/// A completion of the base with its verdict and log-probabilities.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BaseCompletion {
    /// The text, without the token that ended it.
    pub completion: String,
    /// Whether the answer is correct, by the verifier of the dataset.
    #[serde(flatten)]
    pub verdict: Verdict,
    /// Whether it ended by itself; one that was cut off counts as incorrect.
    pub is_finished: bool,
    /// Token ids, the end-of-sequence token included.
    pub tokens: Vec<u32>,
    /// Log-probability of each under the base.
    pub logp: Vec<f32>,
}

impl From<Rollout> for BaseCompletion {
    fn from(rollout: Rollout) -> Self {
        Self {
            completion: rollout.text,
            verdict: rollout.verdict,
            is_finished: rollout.completion.finish == Finish::Stop,
            tokens: rollout.completion.tokens,
            logp: rollout.completion.logp,
        }
    }
}

impl BaseCompletion {
    /// Correct, and ended by itself.
    pub fn is_correct(&self) -> bool {
        self.is_finished && self.verdict.is_correct()
    }
}

/// The base's completions of one prompt.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PromptSamples {
    /// The problem's id.
    pub problem: String,
    /// The prompt's token ids.
    pub prompt: Vec<u32>,
    /// The completions that estimates are made from.
    pub samples: Vec<BaseCompletion>,
    /// One more, where [`PresampleSpec::extra_check`] asks for it.
    pub check: Option<BaseCompletion>,
}

impl PromptSamples {
    /// Number of correct completions.
    pub fn correct(&self) -> usize {
        self.samples.iter().filter(|sample| sample.is_correct()).count()
    }

    /// The normaliser Z of a target on this prompt, `(c + 1/2) / (n + 1)`: never 0 or 1. It scales what the prompt
    /// counts and no more, and is bounded; it is no estimate of the base's validity.
    pub fn normaliser(&self) -> f64 {
        (self.correct() as f64 + 0.5) / (self.samples.len() as f64 + 1.0)
    }
}

/// The base's completions of every prompt of a dataset, in its order.
#[derive(Debug, Clone, PartialEq)]
pub struct Presamples {
    /// The settings that the completions were sampled with.
    pub request: PresampleSpec,
    /// One entry a prompt.
    pub prompts: Vec<PromptSamples>,
}

/// Draws what is missing of `request` in `directory` and returns all of it. `progress` is called
/// once a prompt. Of ranks that collect together the first reads and writes the directory.
///
/// # Errors
/// A directory that holds another request's samples, an error of the sampler, a full disk.
pub fn presample(
    collector: &Collector<'_>,
    problems: &[Encoded<'_>],
    request: &PresampleSpec,
    directory: &Path,
    ranks: &Ranks,
    progress: &mut dyn FnMut() -> Result<()>,
) -> Result<Presamples> {
    let mut lines = None;
    let mut known = ranks.first(|| {
        writable_directory(directory)?;
        let header = directory.join("presamples.json");
        let known = match is_begun(directory) {
            true => {
                refuse_other(directory, request)?;
                let (known, whole) = read(directory)?;
                drop_unfinished(directory, whole)?;
                known
            }
            false => BTreeMap::new(),
        };
        write_atomic(&header, serde_json::to_string_pretty(request)?.as_bytes())?;
        lines = Some(JsonLines::append(&directory.join("presamples.jsonl"))?);
        Ok(known)
    })?;
    let missing: Vec<usize> =
        (0..problems.len()).filter(|i| !known.contains_key(&problems[*i].problem.id)).collect();
    for _ in 0..problems.len() - missing.len() {
        progress()?;
    }
    let count = request.num_presamples + usize::from(request.extra_check);
    let rng_key = RngKey { seed: request.seed, step: STEP };
    collect(collector, problems, &missing, 0..count, rng_key, &mut |group| {
        let entry = entry(&problems[group.problem], group, request);
        lines.as_mut().map_or(Ok(()), |lines| lines.write(&entry))?;
        known.insert(entry.problem.clone(), entry);
        progress()
    })?;
    assemble(known, problems, request.clone())
}

/// The request of the samples in `directory`.
pub fn stored_request(directory: &Path) -> Result<PresampleSpec> {
    let header = directory.join("presamples.json");
    let text = read_text(&header, MAX_SMALL)
        .with_context(|| format!("{}: no pre-samples here", header.display()))?;
    serde_json::from_str(&text).with_context(|| header.display().to_string())
}

/// Whether a directory has samples of the base, if not all of them.
pub fn is_begun(directory: &Path) -> bool {
    directory.join("presamples.json").exists()
}

/// The request that completes the samples in `directory`: how many there are of a prompt, and of which seed, is for
/// whoever began to draw them to say.
///
/// # Errors
/// Samples of another model, dataset or length limit.
pub fn continued(directory: &Path, request: &PresampleSpec) -> Result<PresampleSpec> {
    if !is_begun(directory) {
        return Ok(request.clone());
    }
    let stored = stored_request(directory)?;
    let expected = PresampleSpec {
        num_presamples: stored.num_presamples,
        extra_check: stored.extra_check,
        seed: stored.seed,
        ..request.clone()
    };
    refuse_other(directory, &expected)?;
    Ok(expected)
}

/// The samples that are stored for these problems; none where some are missing.
///
/// # Errors
/// Samples of another model, dataset, length limit or prompt.
pub fn load(
    directory: &Path,
    problems: &[Encoded<'_>],
    request: &PresampleSpec,
) -> Result<Option<Presamples>> {
    if !is_begun(directory) {
        return Ok(None);
    }
    let request = continued(directory, request)?;
    let (known, _) = read(directory)?;
    if problems.iter().any(|problem| !known.contains_key(&problem.problem.id)) {
        return Ok(None);
    }
    let presamples = assemble(known, problems, request);
    presamples.with_context(|| directory.display().to_string()).map(Some)
}

/// Refuses a directory that holds samples of another request.
fn refuse_other(directory: &Path, request: &PresampleSpec) -> Result<()> {
    let changes =
        changes(&serde_json::json!(stored_request(directory)?), &serde_json::json!(request));
    if !changes.is_empty() {
        bail!(
            "{}: these pre-samples have other settings: {}; choose another directory",
            directory.display(),
            changes.join(", ")
        );
    }
    Ok(())
}

/// The samples of whole lines, and the bytes that these take.
fn read(directory: &Path) -> Result<(BTreeMap<String, PromptSamples>, u64)> {
    let path = directory.join("presamples.jsonl");
    if !path.exists() {
        return Ok((BTreeMap::new(), 0));
    }
    let (file, mut known, mut complete) = (open_regular(&path)?, BTreeMap::new(), 0);
    for line in Lines::new(BufReader::new(file)) {
        let line = line.map_err(|error| anyhow!("{}:{error}", path.display()))?;
        // A line that the last run was writing when it ended has no newline; it is drawn again.
        if !line.is_whole {
            break;
        }
        complete = line.offset + line.bytes.len() as u64 + 1;
        let entry: PromptSamples = serde_json::from_slice(&line.bytes)
            .with_context(|| format!("{}:{}: not a pre-sample", path.display(), line.number))?;
        known.insert(entry.problem.clone(), entry);
    }
    Ok((known, complete))
}

/// Cuts off a line that was being written when the last run ended.
fn drop_unfinished(directory: &Path, whole: u64) -> Result<()> {
    let path = directory.join("presamples.jsonl");
    if std::fs::metadata(&path).is_ok_and(|file| file.len() > whole) {
        let file = output::open(OpenOptions::new().write(true), &path);
        file.and_then(|file| file.set_len(whole)).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

fn assemble(
    mut known: BTreeMap<String, PromptSamples>,
    problems: &[Encoded<'_>],
    request: PresampleSpec,
) -> Result<Presamples> {
    let prompts = problems
        .iter()
        .map(|problem| {
            let id = &problem.problem.id;
            let entry =
                known.remove(id).with_context(|| format!("problem `{id}` was not pre-sampled"))?;
            if entry.prompt != problem.prompt {
                bail!("problem `{id}`: its prompt is not the one that was pre-sampled; draw again");
            }
            Ok(entry)
        })
        .collect::<Result<_>>()?;
    Ok(Presamples { request, prompts })
}

fn entry(problem: &Encoded<'_>, group: Group, request: &PresampleSpec) -> PromptSamples {
    let mut samples: Vec<BaseCompletion> =
        group.rollouts.into_iter().map(BaseCompletion::from).collect();
    let check = if request.extra_check { samples.pop() } else { None };
    let (problem, prompt) = (problem.problem.id.clone(), problem.prompt.clone());
    PromptSamples { problem, prompt, samples, check }
}

impl Presamples {
    /// Completions that were drawn, extra ones included.
    pub fn completions(&self) -> usize {
        self.every().count()
    }

    /// Tokens that were drawn.
    pub fn tokens(&self) -> usize {
        self.every().map(|sample| sample.tokens.len()).sum()
    }

    fn every(&self) -> impl Iterator<Item = &BaseCompletion> {
        self.prompts.iter().flat_map(|prompt| prompt.samples.iter().chain(&prompt.check))
    }

    /// Prompts with at least one correct completion.
    pub fn solved(&self) -> usize {
        self.prompts.iter().filter(|prompt| prompt.correct() > 0).count()
    }

    /// Mean validity of the base over prompts, each `c / n`.
    pub fn mean_validity(&self) -> f64 {
        let share = |prompt: &PromptSamples| prompt.correct() as f64 / prompt.samples.len() as f64;
        self.prompts.iter().map(share).sum::<f64>() / self.prompts.len() as f64
    }
}
