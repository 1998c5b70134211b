//! The settings of a training run.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tealight_eval::Truncated;
use tealight_system::range::{COUNT, LIMIT_OR_ZERO, TOKENS, at_least};

use crate::train::{AdamWConfig, Schedule};
use tealight_formats::adapter::LoraOptions;
use tealight_nn::generate::{Filters, SamplingParams};
use tealight_nn::tokenizer::Tokenizer;
use tealight_system::choices::choice;
use tealight_system::one_or_many;
use tealight_system::telemetry::ReportTo;

/// Maximum new tokens of a completion where nobody says and the context leaves more.
pub const LENGTH: usize = 512;

/// The settings of a training run; names are TRL's where TRL has one.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct Settings {
    /// Override the objective's KL (or other) penalty coefficient, or the temperature of its target p_beta. Larger
    /// values retain more of the base's answers.
    #[arg(long, add = at_least(0.0).at_most(1e6), help_heading = "Objective")]
    pub beta: Option<f64>,
    /// Completions for each prompt of a step (group size).
    #[arg(long, default_value_t = 8, add = at_least(1.0).at_most(65_536.0), help_heading = "Rollout")]
    pub num_generations: usize,
    /// Number of prompts in a step.
    #[arg(long, default_value_t = 8, add = COUNT, help_heading = "Rollout")]
    pub prompts_per_step: usize,
    /// Number of training steps; each step samples its own rollouts.
    #[arg(long, default_value_t = 100, add = at_least(1.0).at_most(1e12), help_heading = "Optimizer")]
    pub max_steps: usize,
    /// Maximum new tokens of a completion; a truncated one counts as incorrect unless --truncated judged. Default: the
    /// rest of the context after the prompt, at most 512.
    #[arg(long, add = TOKENS, help_heading = "Rollout")]
    pub max_completion_length: Option<usize>,
    /// Rule for completions that were truncated at the length limit, in rollouts and in evaluations of the run: wrong
    /// (no reward, so that the policy learns to end), or judged (the verifier decides). Stored samples of the base
    /// always use `wrong`.
    #[arg(long, value_name = "RULE", default_value = "wrong", value_parser = choice::<Truncated>(),
          help_heading = "Objective")]
    pub truncated: Truncated,
    /// Temperature of rollouts and of log-probabilities.
    #[arg(long, default_value_t = 1.0, add = at_least(0.0).at_most(100.0), help_heading = "Rollout")]
    pub temperature: f64,
    /// Number of completions of the base for each prompt, if the objective needs them.
    #[arg(long, default_value_t = 16, add = at_least(1.0).at_most(65_536.0), help_heading = "Objective")]
    pub num_presamples: usize,
    /// Directory of stored completions of the base: the first run writes them, later runs read them. Default: a
    /// directory in --output.
    #[arg(long, help_heading = "Objective")]
    pub presamples: Option<PathBuf>,
    /// Number of stored completions of the base in each step, if the objective trains on them.
    #[arg(long, default_value_t = 64, add = COUNT, help_heading = "Objective")]
    pub rehearsal_batch_size: usize,
    /// How to log the KL to the base for objectives that do not compute the KL anyway: estimate uses 32 completions of
    /// every fifth step, all uses all completions, off disables it. true stands for all, false for off.
    #[arg(long, value_enum, default_value_t = LogKl::Estimate, help_heading = "Output")]
    pub log_kl: LogKl,
    /// Start the policy from other weights of the model: a directory in Hub layout, such as RUN/final of an earlier run
    /// (with --use-peft one with an adapter of the same rank). --model stays the base that divergences compare with.
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_policy: Option<PathBuf>,
    /// Maximum tokens in one forward and backward pass. Affects memory, and the result only by rounding.
    #[arg(long, default_value_t = 4096, add = at_least(1.0).at_most(1e9), help_heading = "Optimizer")]
    pub micro_batch_tokens: usize,
    /// Keep only the input of each layer for the backward pass and recompute the rest: a third more arithmetic, a
    /// fraction of the memory, the same result.
    #[arg(long, help_heading = "Optimizer")]
    pub gradient_checkpointing: bool,
    /// Maximum number of sequences in one decoding batch.
    #[arg(long, default_value_t = 256, add = at_least(1.0).at_most(1e10), help_heading = "Rollout")]
    pub max_num_seqs: usize,
    /// Steps between checkpoints; the last step writes one too. 0 writes a checkpoint only when interrupted.
    #[arg(long, default_value_t = 50, add = LIMIT_OR_ZERO, help_heading = "Checkpoints")]
    pub save_steps: usize,
    /// Number of the newest checkpoints to keep, besides the best by mean reward; 0 keeps all.
    #[arg(long, default_value_t = 3, add = LIMIT_OR_ZERO, help_heading = "Checkpoints")]
    pub save_total_limit: usize,
    /// Steps between files of completions, completions/*.parquet; 0 writes none.
    #[arg(long, value_name = "STEPS", num_args = 0..=1, default_value_t = 10, default_missing_value = "1",
          add = LIMIT_OR_ZERO, help_heading = "Output")]
    pub log_completions: usize,
    /// Where to log metrics besides metrics.jsonl: tensorboard (event files), wandb or trackio (by the Python package
    /// of that name, with python3 or TEALIGHT_PYTHON), or none. Separate several by commas.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "tensorboard",
        help_heading = "Output"
    )]
    #[serde(default = "tensorboard", with = "one_or_many")]
    pub report_to: Vec<ReportTo>,
    /// The adapter, where one is trained.
    #[command(flatten)]
    #[serde(flatten)]
    pub lora: LoraOptions,
    /// The learning rate over the steps.
    #[command(flatten)]
    #[serde(flatten)]
    pub schedule: Schedule,
    /// The optimizer.
    #[command(flatten)]
    #[serde(flatten)]
    pub adamw: AdamWConfig,
}

fn tensorboard() -> Vec<ReportTo> {
    vec![ReportTo::Tensorboard]
}

/// Of which completions the KL to the base is logged, where the objective does not compare them all with it anyway.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogKl {
    /// 32 completions of every fifth step.
    #[default]
    Estimate,
    /// All completions of every step, with a further forward pass of each.
    #[value(alias = "true")]
    All,
    /// No completions.
    #[value(alias = "false")]
    Off,
}

impl Settings {
    /// The same settings, of which nothing is read for the log alone.
    pub fn unlogged(&self) -> Self {
        Self { log_kl: LogKl::Off, ..self.clone() }
    }

    /// Maximum new tokens of a completion; [`LENGTH`] until it is known what fits.
    pub fn length(&self) -> usize {
        self.max_completion_length.unwrap_or(LENGTH)
    }

    /// How rollouts are sampled: the whole distribution, since log-probabilities are those of the
    /// full softmax.
    pub fn sampling(&self, tokenizer: &dyn Tokenizer) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature,
            filters: Filters::default(),
            max_new_tokens: self.length(),
            eos: tokenizer.eos().to_vec(),
        }
    }

    /// Refuses settings that contradict each other or cannot train.
    pub fn check(&self) -> Result<()> {
        let count = |one: ReportTo| self.report_to.iter().filter(|other| **other == one).count();
        let is_twice = self.report_to.iter().any(|one| count(*one) > 1);
        let is_mixed = count(ReportTo::None) > 0 && self.report_to.len() > 1;
        if self.report_to.is_empty() || is_twice || is_mixed {
            bail!("--report-to takes each target once, or none alone");
        }
        for (name, value) in [
            ("prompts-per-step", self.prompts_per_step),
            ("num-generations", self.num_generations),
            ("max-completion-length", self.length()),
            ("max-num-seqs", self.max_num_seqs),
            ("num-presamples", self.num_presamples),
            ("rehearsal-batch-size", self.rehearsal_batch_size),
        ] {
            if value == 0 {
                bail!("{name} must be at least 1");
            }
        }
        self.lora.check()?;
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            bail!("temperature must be above 0 in training, not {}", self.temperature);
        }
        Ok(())
    }
}
