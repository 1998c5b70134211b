//! `tealight sft`: supervised fine-tuning, from a model or from scratch.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use candle_core::Device;
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_datasets::{Dataset, Problem, SOURCES};

use super::fine_tune::new_adapter;
use super::options::{self, DataOptions, ModelOptions};
use crate::adapter::LoraOptions;
use crate::device;
use crate::policy::Sequence;
use crate::pretrained::Pretrained;
use crate::telemetry::{JsonLines, Progress, say};
use crate::tokenizer::Tokenizer;
use crate::train::Stop;
use crate::train::sft::{self, Examples, SftConfig};

/// Options of `tealight sft`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub(super) struct SftOptions {
    #[command(flatten)]
    #[serde(flatten)]
    model: ModelOptions,
    #[command(flatten)]
    #[serde(flatten)]
    data: DataOptions,
    /// Start from fresh weights of the architecture in this config.json instead of from --model.
    #[arg(long)]
    from_scratch: Option<PathBuf>,
    /// Directory with the tokenizer files, for --from-scratch.
    #[arg(long)]
    tokenizer: Option<PathBuf>,
    #[command(flatten)]
    #[serde(flatten)]
    sft: SftConfig,
    #[command(flatten)]
    #[serde(flatten)]
    lora: LoraOptions,
    /// Where the model and the metrics go.
    #[arg(long, alias = "output-dir")]
    output: Option<PathBuf>,
    /// Show nothing but warnings and errors.
    #[arg(long)]
    quiet: bool,
}

pub(super) fn run(options: &SftOptions, stop: &Stop) -> Result<()> {
    let Some(output) = &options.output else { bail!("--output DIR is needed") };
    if options.sft.batch_size == 0 {
        bail!("batch-size must be at least 1");
    }
    options.lora.check()?;
    let _claim = options::fresh_output(output, "metrics.jsonl")?;
    let (base, device) = match (&options.from_scratch, &options.tokenizer) {
        (Some(config), Some(tokenizer)) => options.fresh_model(config, tokenizer)?,
        (Some(_), None) => bail!("--from-scratch needs --tokenizer DIR"),
        (None, Some(_)) => bail!("--tokenizer is only for --from-scratch"),
        (None, None) => options.model.load_to_train(options.quiet)?,
    };
    let dataset = options.data.open(&options.data.dataset, options.quiet)?;
    options::record_config(options, output, options.quiet)?;
    let adapter = new_adapter(&options.lora, &base, options.sft.seed, &device, options.quiet)?;
    let policy = base.policy(adapter.as_ref())?;
    let examples = examples(options, &base, dataset)?;
    let mut lines = JsonLines::create(&output.join("metrics.jsonl"))?;
    let mut progress = Progress::new("sft", options.sft.max_steps, options.quiet);
    let done = sft::run(&policy, &options.sft, &examples, stop, &mut |metrics| {
        progress.advance(|| format!("loss {:.4}", metrics.loss));
        lines.write(metrics)
    })?;
    drop(progress);
    base.save_trained(adapter.as_ref(), &policy.tensors(), &output.join("final"))?;
    say(options.quiet, format!("{done} steps; model in {}", output.join("final").display()));
    stop.check()
}

impl SftOptions {
    /// Fresh weights, and where they are.
    fn fresh_model(&self, config: &Path, tokenizer: &Path) -> Result<(Pretrained, Device)> {
        if self.lora.use_peft || self.model.adapter.is_some() {
            bail!("an adapter needs a base: leave --from-scratch out");
        }
        let (device, described) = device::open(&self.model.device)?;
        self.model.dtype.check_training(&device)?;
        let (seed, dtype) = (self.sft.seed, self.model.dtype);
        let base = Pretrained::from_scratch(config, tokenizer, seed, dtype, &device)?;
        self.model.announce(&base.architecture, &described, self.quiet);
        Ok((base, device))
    }
}

/// An endless stream where the source makes solved problems, else one shuffle an epoch.
fn examples<'a>(
    options: &'a SftOptions,
    base: &'a Pretrained,
    dataset: Dataset,
) -> Result<Box<Examples<'a>>> {
    let seed = options.sft.seed;
    let is_stream = |name: &str| options.data.dataset == format!("{name}/sft");
    if let Some(source) = SOURCES.iter().find(|source| is_stream(source.name))
        && options.data.max_samples.is_none()
    {
        let examples = source.examples;
        return Ok(Box::new(move |step, count| {
            let problems = examples(seed, step as u64, count);
            problems.iter().map(|problem| sequence(base, problem)).collect()
        }));
    }
    let all = dataset.problems.iter().map(|problem| sequence(base, problem));
    Ok(Box::new(sft::shuffled(all.collect::<Result<_>>()?, seed)))
}

/// The prompt and its solution, closed by the end-of-sequence token.
fn sequence(base: &Pretrained, problem: &Problem) -> Result<Sequence> {
    let at = || format!("problem `{}`", problem.id);
    let solution =
        problem.solution.as_deref().context("has no solution to imitate").with_context(at)?;
    let tokenizer = &base.tokenizer;
    let prompt = tokenizer.encode_prompt(&problem.prompt).with_context(at)?;
    let mut completion = tokenizer.encode_completion(solution).with_context(at)?;
    completion.push(tokenizer.eos()[0]);
    let (length, context) = (prompt.len() + completion.len(), base.architecture.max_positions);
    if length > context {
        bail!(
            "problem `{}`: {length} tokens do not fit the model's context of {context}",
            problem.id
        );
    }
    Ok(Sequence { prompt, completion })
}
