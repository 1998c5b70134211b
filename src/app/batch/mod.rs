//! OpenAI's batch format on a local model. Lines are answered in groups, appended as
//! they come, and those that are in the output already are skipped: a run that was killed goes on.

mod request;

use std::collections::HashSet;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tealight_datasets::fnv;
use tealight_datasets::lines::Lines;
use tealight_datasets::read::Columns;

use crate::app::data_file;
use crate::app::prompts::PromptOptions;
use crate::app::settings::ModelOptions;
use crate::nn::generate::{Completion, Finish, RngKey, SampleRequest, Sampler};
use crate::nn::tokenizer::Tokenizer;
use crate::solvers::sampled::Sampled;
use crate::system::range::{SEED, TOKENS, at_least};
use crate::system::stop::Stop;
use crate::system::telemetry::{JsonLines, Progress};
pub(crate) use request::BatchRequest;

/// Lines that are read and answered together, where they ask in the same way.
const GROUP: usize = 64;

/// Options of `tealight batch`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct BatchOptions {
    /// Which model, and where it runs.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// The text of prompts besides the question.
    #[command(flatten)]
    #[serde(flatten)]
    pub prompts: PromptOptions,
    /// Maximum new tokens of a completion, if the request sets none. Default: the room that the context leaves, up to
    /// 512.
    #[arg(long, add = TOKENS)]
    pub max_completion_length: Option<usize>,
    /// Maximum number of sequences in one decoding batch.
    #[arg(long, default_value_t = 256, add = at_least(1.0).at_most(1e10))]
    pub max_num_seqs: usize,
    /// Seed of requests that set no seed.
    #[arg(long, default_value_t = 0, add = SEED)]
    pub seed: u64,
}

/// Answers the requests in `input`, an OpenAI batch file, by a model in this process. Responses are appended to
/// `output`, in any order.
///
/// # Errors
/// A file that cannot be read or written, requests that could not be answered, a call that was stopped.
pub fn run(options: &BatchOptions, input: &Path, output: &Path, stop: &Stop) -> Result<()> {
    if let (Ok(a), Ok(b)) = (input.canonicalize(), output.canonicalize())
        && a == b
    {
        bail!("{}: requests and responses cannot be one file", input.display());
    }
    let prompting = options.prompts.prompting(|spec, prompting| {
        let columns = Columns { prompting: prompting.clone(), ..Columns::default() };
        Ok(data_file::open(spec, &columns, None)?.problems)
    })?;
    if let Some(description) = prompting.described(None) {
        tracing::info!("{}", description);
    }
    let ids = custom_ids(input)?;
    let (mut lines, text) = JsonLines::continue_alone(output)?;
    let done = answered(output, &mut lines, &text)?;
    let left = ids.iter().filter(|id| !done.contains(*id)).count();
    if !done.is_empty() {
        tracing::info!("{} lines are answered already", ids.len() - left);
    }
    let model = options.model.load_to_sample()?;
    let sampler = model.sampler(options.max_num_seqs);
    stop.saves();
    let mut progress = Progress::new("batch", left);
    let mut failed = 0;
    let mut group: Vec<BatchRequest> = Vec::new();
    for line in Lines::new(BufReader::new(File::open(input)?)) {
        let line = line.with_context(|| input.display().to_string())?;
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        let value: Value = serde_json::from_slice(&line.bytes)?;
        let id = value["custom_id"].as_str().unwrap_or_default().to_owned();
        if done.contains(&id) {
            continue;
        }
        match BatchRequest::read(options, &value, &model, &prompting) {
            Ok(asked) => {
                let is_like = group.last().is_none_or(|last| {
                    last.params == asked.params && last.n == asked.n && last.seed == asked.seed
                });
                if !is_like || group.len() == GROUP {
                    answer(&*sampler, &model, &group, &mut lines, &mut progress)?;
                    group.clear();
                    stop.check()?;
                }
                group.push(asked);
            }
            // One bad line is one error in the output, not the end of the others.
            Err(error) => {
                failed += 1;
                let message = format!("{error:#}");
                lines.write(&json!({
                    "id": format!("batch_req_{id}"),
                    "custom_id": id,
                    "response": null,
                    "error": {"code": "invalid_request", "message": message},
                }))?;
                progress.advance(String::new);
            }
        }
    }
    answer(&*sampler, &model, &group, &mut lines, &mut progress)?;
    drop(progress);
    tracing::info!("responses in {}", output.display());
    stop.check()?;
    if failed > 0 {
        bail!(
            "{failed} of {left} requests could not be answered; their `error` in {} says why",
            output.display()
        );
    }
    Ok(())
}

/// The ids of all lines, each once.
fn custom_ids(input: &Path) -> Result<Vec<String>> {
    let file = File::open(input).with_context(|| format!("{}: cannot be read", input.display()))?;
    let (mut ids, mut seen) = (Vec::new(), HashSet::new());
    for line in Lines::new(BufReader::new(file)) {
        let line = line.with_context(|| input.display().to_string())?;
        let at = || format!("{}:{}", input.display(), line.number);
        if line.bytes.trim_ascii().is_empty() {
            continue;
        }
        let value: Value =
            serde_json::from_slice(&line.bytes).with_context(|| format!("{}: not JSON", at()))?;
        let Some(id) = value["custom_id"].as_str() else {
            bail!("{}: no text in `custom_id`", at());
        };
        if !seen.insert(id.to_owned()) {
            bail!("{}: duplicate custom_id `{id}`; ids must be unique", at());
        }
        ids.push(id.to_owned());
    }
    if ids.is_empty() {
        bail!("{}: no request", input.display());
    }
    Ok(ids)
}

/// The ids in an earlier output, whose text this is; a line that a crash cut off is taken away.
fn answered(output: &Path, lines: &mut JsonLines, text: &[u8]) -> Result<HashSet<String>> {
    let (mut ids, mut valid_bytes) = (HashSet::new(), 0);
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        match serde_json::from_slice::<Value>(line) {
            Ok(value) if line.ends_with(b"\n") && is_response(&value) => {
                ids.extend(value["custom_id"].as_str().map(str::to_owned));
                valid_bytes += line.len();
            }
            _ if valid_bytes + line.len() == text.len() && !line.ends_with(b"\n") => {
                let number = index + 1;
                tracing::warn!("{}:{number}: cut off by a crash, answered again", output.display());
                lines.cut(valid_bytes)?;
            }
            _ => {
                bail!("{}:{}: not a response; choose another --output", output.display(), index + 1)
            }
        }
    }
    Ok(ids)
}

/// Whether a line is one that a batch writes.
fn is_response(value: &Value) -> bool {
    value["custom_id"].is_string() && value.get("response").is_some()
}

/// Answers lines that ask in one way.
fn answer(
    sampler: &dyn Sampler,
    model: &Sampled,
    group: &[BatchRequest],
    lines: &mut JsonLines,
    progress: &mut Progress,
) -> Result<()> {
    let Some(first) = group.first() else { return Ok(()) };
    let requests: Vec<SampleRequest> = group
        .iter()
        .map(|asked| {
            let prompt = model.tokenizer.encode_prompt(&asked.prompt)?;
            Ok(SampleRequest { prompt, first: 0, count: asked.n, key: key(&asked.custom_id) })
        })
        .collect::<Result<_>>()?;
    let rng_key = RngKey { seed: first.seed, step: 0 };
    sampler.generate(&requests, &first.params, rng_key, &mut |index, completions| {
        lines.write(&response(
            &group[index],
            requests[index].prompt.len(),
            &completions,
            model,
        )?)?;
        progress.advance(String::new);
        Ok(())
    })
}

/// The samples of a line depend on its id, not on its place: a resumed run draws the same.
fn key(custom_id: &str) -> u64 {
    fnv(custom_id.bytes())
}

fn response(
    request: &BatchRequest,
    prompt_tokens: usize,
    completions: &[Completion],
    model: &Sampled,
) -> Result<Value> {
    let mut choices = Vec::with_capacity(completions.len());
    for (index, completion) in completions.iter().enumerate() {
        let text = model.tokenizer.decode(&completion.tokens)?;
        let mut choice = json!({
            "index": index,
            "finish_reason": if completion.finish == Finish::Stop { "stop" } else { "length" },
            "logprobs": null,
        });
        if request.is_chat {
            choice["message"] = json!({"role": "assistant", "content": text});
        } else {
            choice["text"] = json!(text);
        }
        if request.logprobs {
            let tokens: Vec<String> = completion
                .tokens
                .iter()
                .map(|token| model.tokenizer.decode(&[*token]))
                .collect::<Result<_>>()?;
            choice["logprobs"] = if request.is_chat {
                let pairs = tokens.iter().zip(&completion.logp);
                json!({"content": pairs.map(|(token, logprob)| json!({"token": token, "logprob": logprob})).collect::<Vec<_>>()})
            } else {
                json!({"tokens": tokens, "token_logprobs": completion.logp})
            };
        }
        choices.push(choice);
    }
    let new: usize = completions.iter().map(|completion| completion.tokens.len()).sum();
    let (id, object) =
        (&request.custom_id, if request.is_chat { "chat.completion" } else { "text_completion" });
    Ok(json!({
        "id": format!("batch_req_{id}"),
        "custom_id": id,
        "response": {
            "status_code": 200,
            "request_id": format!("req_{id}"),
            "body": {
                "id": format!("cmpl-{id}"),
                "object": object,
                "created": 0,
                "model": request.model,
                "choices": choices,
                "usage": {
                    "prompt_tokens": prompt_tokens,
                    "completion_tokens": new,
                    "total_tokens": prompt_tokens + new,
                },
            },
        },
        "error": null,
    }))
}
