//! The speed of sampling and of a training step on this machine, and where the time goes.

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use candle_core::Device;
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tealight_eval::number::counted;

use crate::app::settings::ModelOptions;
use tealight_formats::gguf::Gguf;
use tealight_learn::objective::Objective;
use tealight_learn::train::bench::{StepParts, step};
use tealight_learn::train::memory::{Hardware, MemoryPlan, Sizes};
use tealight_learn::train::{AdamW, AdamWConfig};
use tealight_nn::generate::{
    Filters, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight_nn::model::weights::{self, Weights};
use tealight_nn::model::{Architecture, Decoder};
use tealight_nn::policy::{self, Policy, Sequence};
use tealight_system::machine;
use tealight_system::range::{COUNT, at_least};

/// The objective of the training step: GRPO's loss with a divergence to the reference, as the peers' does.
const OBJECTIVE: &str = "kl-k3";

/// Options of `tealight bench`.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct BenchOptions {
    /// A directory in Hub layout or a Hub id; a config.json gives random weights of its architecture.
    #[command(flatten)]
    #[serde(flatten)]
    pub model: ModelOptions,
    /// Number of prompts.
    #[arg(long, default_value_t = 8, add = COUNT)]
    pub prompts: usize,
    /// Number of completions for each prompt.
    #[arg(long, default_value_t = 8, add = COUNT)]
    pub group: usize,
    /// Number of tokens of each prompt.
    #[arg(long, default_value_t = 16, add = COUNT)]
    pub prompt_len: usize,
    /// Number of tokens of each completion; no completion ends earlier.
    #[arg(long, default_value_t = 32, add = COUNT)]
    pub new_tokens: usize,
    /// Maximum tokens in one forward and backward pass of the training step.
    #[arg(long, default_value_t = 4096, add = at_least(1.0).at_most(1e9))]
    pub micro_batch_tokens: usize,
    /// Keep only the input of each layer for the backward pass and recompute the rest.
    #[arg(long)]
    pub gradient_checkpointing: bool,
    /// Maximum repetitions of the rollout and of the training step, after one warm-up; the median is reported.
    #[arg(long, default_value_t = 3, add = at_least(1.0).at_most(1000.0))]
    pub reps: usize,
    /// Approximate duration of the measurement in seconds. A slow model is repeated less often; if one repetition takes
    /// more than a third of the time, the warm-up is measured too.
    #[arg(long, default_value_t = 45.0, add = at_least(1.0).at_most(1e6))]
    pub max_seconds: f64,
    /// Measure the rollout alone: no reference, no gradients, no optimizer.
    #[arg(long)]
    pub rollout_only: bool,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Measures, and returns what was found as one JSON object.
pub fn run(options: &BenchOptions) -> Result<Value> {
    options.check()?;
    let (device, described) = options.model.open_device()?;
    let (architecture, weights) = load(options, &device)?;
    let longest = options.prompt_len + options.new_tokens;
    if longest > architecture.max_positions {
        bail!("{longest} tokens do not fit the model's context of {}", architecture.max_positions);
    }
    let reference = policy::frozen_decoder(&architecture, &weights)?;
    let startup = machine::since_start();
    let name = &options.model.model;
    options.model.announce(&architecture, (&device, &described));
    let policy = match options.rollout_only {
        true => None,
        false => Some(options.policy(&architecture, &weights, &reference)?),
    };
    let (rows, share) = (options.prompts * options.group, options.share());
    let what = format!("rollout of {rows} x {}", counted(options.new_tokens, "token"));
    // As in training, the policy samples, whose packed weights and gradients share their memory.
    let decoder = policy.as_ref().map_or(&reference, Policy::decoder);
    let rollout = median(&what, options.reps, share, || rollout(options, decoder, &architecture))?;
    let parts = policy.map(|policy| train(options, &architecture, (&policy, &reference)));
    let parts = parts.transpose()?;
    let plan = options.memory_plan(&architecture, &device)?;
    let (new_tokens, tokens) = (rows * options.new_tokens, rows * longest);
    Ok(json!({
        "model": name,
        "device": described,
        "dtype": options.model.precision.dtype.on(&device),
        "base_dtype": options.model.precision.base_dtype,
        "rollout_dtype": options.model.precision.rollout_dtype,
        "prompts": options.prompts,
        "group": options.group,
        "prompt_len": options.prompt_len,
        "new_tokens": options.new_tokens,
        "rollout_reps": rollout.reps,
        "rollout_s": rollout.median,
        "rollout_s_range": rollout.range,
        "rollout_new_tokens_per_s": new_tokens as f64 / rollout.median,
        "step_reps": parts.as_ref().map(|(seconds, _)| seconds.reps),
        "step_s": parts.as_ref().map(|(seconds, _)| seconds.median),
        "step_s_range": parts.as_ref().map(|(seconds, _)| seconds.range),
        "step_tokens_per_s": parts.as_ref().map(|(seconds, _)| tokens as f64 / seconds.median),
        "step_parts": parts.as_ref().map(|(_, parts)| parts),
        "startup_s": startup,
        "peak_rss_bytes": machine::peak_rss(),
        "memory_plan": plan,
        "memory_plan_peak_bytes": plan.map(|plan| plan.peak()),
    }))
}

impl BenchOptions {
    /// Refuses settings that cannot be measured.
    fn check(&self) -> Result<()> {
        if self.model.adapter.is_some() {
            bail!("bench measures whole models: leave --adapter out");
        }
        self.model.refuse_quantized()?;
        if self.model.precision.base_dtype.is_some() && !self.rollout_only {
            bail!(
                "the step that bench measures trains all weights, and those of --base-dtype int8 are not trained: add \
                   --rollout-only"
            );
        }
        Ok(())
    }

    /// The policy that a step trains.
    fn policy(
        &self,
        architecture: &Architecture,
        weights: &Weights,
        reference: &Decoder,
    ) -> Result<Policy> {
        let policy = Policy::new(architecture, weights)?.sharing_buffers_with(reference);
        Ok(if self.gradient_checkpointing { policy.recomputing() } else { policy })
    }

    /// Seconds for the repetitions of the rollout, and as many for those of the step.
    fn share(&self) -> f64 {
        if self.rollout_only { self.max_seconds } else { self.max_seconds / 2.0 }
    }

    /// The predicted memory of a whole step; nothing for a rollout alone.
    fn memory_plan(
        &self,
        architecture: &Architecture,
        device: &Device,
    ) -> Result<Option<MemoryPlan>> {
        let rows = self.prompts * self.group;
        let longest = self.prompt_len + self.new_tokens;
        let tokens = self.prompts * self.prompt_len + rows * self.new_tokens;
        let sizes = Sizes {
            trained: None,
            is_int8: false,
            rollout_dtype: self.model.precision.rollout_dtype,
            holds_base: true,
            compared: 0,
            rows,
            prompts: self.prompts,
            longest,
            completion: self.new_tokens,
            micro_batch: self.micro_batch_tokens.min(tokens).max(longest),
            recomputes: self.gradient_checkpointing,
        };
        if self.rollout_only {
            return Ok(None);
        }
        let place = Hardware::for_device(device, self.model.precision);
        Ok(Some(MemoryPlan::at(architecture, sizes, &place)))
    }
}

/// The model's architecture and weights; random ones where only the architecture is given.
fn load(options: &BenchOptions, device: &Device) -> Result<(Architecture, Weights)> {
    let placement = options.model.precision.placement(device)?;
    let path = Path::new(&options.model.model);
    if let Some(path) = tealight_formats::hub::gguf_file(&options.model.model)? {
        let file = Gguf::open(&path)?;
        let architecture = Architecture::from_config(&file.to_hub()?.config)?;
        let weights = file.weights(&architecture, placement)?;
        return Ok((architecture, weights));
    }
    if path.is_file() {
        let (architecture, _) = Architecture::read(path)?;
        let weights = weights::random(&architecture, 0, device)?;
        let placed =
            |(name, weight): (String, candle_core::Tensor)| Ok((name, placement.place(&weight)?));
        return Ok((architecture, weights.into_iter().map(placed).collect::<Result<_>>()?));
    }
    let files = tealight_formats::hub::resolve(&options.model.model)?;
    let (architecture, _) =
        Architecture::read(&PathBuf::from(&files.directory).join("config.json"))?;
    let weights = weights::load(&files.directory, &architecture, placement)?;
    Ok((architecture, weights))
}

/// Tokens of no meaning, the same for the same place.
fn tokens(count: usize, salt: usize, architecture: &Architecture) -> Vec<u32> {
    let range = architecture.vocab_size.min(8192).saturating_sub(5).max(1);
    (0..count).map(|i| (5 + (i * 7919 + salt * 104_729) % range) as u32).collect()
}

/// Seconds to sample every completion to its full length, from packing the weights on.
fn rollout(options: &BenchOptions, decoder: &Decoder, architecture: &Architecture) -> Result<f64> {
    let start = Instant::now();
    let decoder = decoder.prepacked(options.model.precision.rollout_dtype)?;
    let requests: Vec<SampleRequest> = (0..options.prompts)
        .map(|index| SampleRequest {
            first: 0,
            prompt: tokens(options.prompt_len, index, architecture),
            count: options.group,
            key: index as u64,
        })
        .collect();
    let params = SamplingParams {
        temperature: 1.0,
        filters: Filters::default(),
        max_new_tokens: options.new_tokens,
        eos: Vec::new(),
    };
    let sampler = LocalSampler { decoder: &decoder, max_rows: options.prompts * options.group };
    sampler.generate(&requests, &params, RngKey { seed: 0, step: 0 }, &mut |_, _| Ok(()))?;
    Ok(start.elapsed().as_secs_f64())
}

/// Seconds of a whole step, and its parts in the median.
fn train(
    options: &BenchOptions,
    architecture: &Architecture,
    (policy, reference): (&Policy, &Decoder),
) -> Result<(Seconds, StepParts)> {
    let rows: Vec<Sequence> = (0..options.prompts * options.group)
        .map(|row| Sequence {
            prompt: tokens(options.prompt_len, row / options.group, architecture),
            completion: tokens(options.new_tokens, row + 1000, architecture),
        })
        .collect();
    let mut optimizer = AdamW::new(AdamWConfig::DEFAULT, policy.weights())?;
    let plan = OBJECTIVE.parse::<Objective>()?.plan;
    let mut all = Vec::new();
    let what = format!("training step on {}", counted(rows.len(), "completion"));
    let seconds = median(&what, options.reps, options.share(), || {
        let budget = options.micro_batch_tokens;
        let parts = step((policy, reference), &plan, &rows, budget, &mut optimizer)?;
        all.push(parts);
        Ok(parts.total())
    })?;
    let middle = |part: fn(&StepParts) -> f64| {
        let mut values: Vec<f64> = all[all.len() - seconds.reps..].iter().map(part).collect();
        values.sort_by(f64::total_cmp);
        values[values.len() / 2]
    };
    let parts = StepParts {
        reference: middle(|parts| parts.reference),
        forward: middle(|parts| parts.forward),
        backward: middle(|parts| parts.backward),
        optimizer: middle(|parts| parts.optimizer),
    };
    Ok((seconds, parts))
}

/// Seconds of repeated work.
struct Seconds {
    reps: usize,
    median: f64,
    /// The least and the most.
    range: [f64; 2],
}

/// Measures up to `reps` repetitions in about `share` seconds, after one that does not count unless it takes a third of
/// them.
fn median(
    what: &str,
    reps: usize,
    share: f64,
    mut measure: impl FnMut() -> Result<f64>,
) -> Result<Seconds> {
    tracing::info!("{what}: first repetition");
    let started = Instant::now();
    let first = measure()?;
    let mut values = match started.elapsed().as_secs_f64() > share / 3.0 {
        true => vec![first],
        false => vec![measure()?],
    };
    while values.len() < reps {
        let elapsed = started.elapsed().as_secs_f64();
        if elapsed + values[0] > share {
            tracing::info!("{what}: {} of {reps} repetitions fit --max-seconds", values.len());
            break;
        }
        values.push(measure()?);
    }
    values.sort_by(f64::total_cmp);
    let median = values[values.len() / 2];
    tracing::info!("{what}: {median:.3} s");
    Ok(Seconds { reps: values.len(), median, range: [values[0], values[values.len() - 1]] })
}
