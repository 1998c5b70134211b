//! The settings of a run, and which of them contradict each other.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::generate::{Filters, SamplingParams};
use crate::objective::{self, Advantage, LossType, Objective};
use crate::tokenizer::Tokenizer;
use crate::train::{AdamWConfig, Schedule};

/// One run: an objective, a seed, and everything else.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RlvrConfig {
    /// What is optimised besides the reward: `NAME[:COEFFICIENT]`.
    #[arg(long, default_value = "none", long_help = objective::HELP)]
    pub objective: Objective,
    /// Seeds samples and the order of prompts.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Everything else.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
}

/// What runs of a study share; names are TRL's where TRL has one.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct Settings {
    /// How rewards of a group become advantages.
    #[arg(long, value_enum, default_value_t = Advantage::GroupStd)]
    pub advantage: Advantage,
    /// How tokens are averaged.
    #[arg(long, value_enum, default_value_t = LossType::Dapo)]
    pub loss_type: LossType,
    /// Ratios below 1 minus this earn no gradient.
    #[arg(long, default_value_t = 0.2)]
    pub epsilon: f64,
    /// Ratios above 1 plus this earn no gradient; the same as --epsilon where it is not given.
    #[arg(long)]
    pub epsilon_high: Option<f64>,
    /// Optimizer steps on each batch of rollouts.
    #[arg(long, default_value_t = 1)]
    pub num_iterations: usize,
    /// Completions sampled for each prompt of a step.
    #[arg(long, default_value_t = 8)]
    pub num_generations: usize,
    /// Prompts in a step.
    #[arg(long, default_value_t = 8)]
    pub prompts_per_step: usize,
    /// Steps, each with its own rollouts.
    #[arg(long, default_value_t = 100)]
    pub max_steps: usize,
    /// Most tokens in a completion; one that reaches it earns no reward.
    #[arg(long, default_value_t = 512)]
    pub max_completion_length: usize,
    /// Temperature of rollouts; log-probabilities are taken at the same.
    #[arg(long, default_value_t = 1.0)]
    pub temperature: f64,
    /// Completions of the base for each prompt, where the objective rehearses them.
    #[arg(long, default_value_t = 16)]
    pub num_presamples: usize,
    /// Stored right answers of the base in each step, where the objective rehearses them.
    #[arg(long, default_value_t = 64)]
    pub rehearsal_batch_size: usize,
    /// Log the KL to the base even where the objective does not need it; costs a forward pass.
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set)]
    pub log_kl: bool,
    /// Most tokens, padding included, in one forward and backward pass; the result does not depend on it.
    #[arg(long, default_value_t = 16384)]
    pub micro_batch_tokens: usize,
    /// Most sequences in one decoding batch.
    #[arg(long, default_value_t = 256)]
    pub max_num_seqs: usize,
    /// Write a checkpoint every so many steps; 0 writes one only when interrupted.
    #[arg(long, default_value_t = 0)]
    pub save_steps: usize,
    /// See the optimizer's settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub schedule: Schedule,
    /// See the optimizer's settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub adamw: AdamWConfig,
}

impl Settings {
    /// How rollouts are sampled: the whole distribution, since log-probabilities are those of the
    /// full softmax.
    pub fn sampling(&self, tokenizer: &dyn Tokenizer) -> SamplingParams {
        SamplingParams {
            temperature: self.temperature,
            filters: Filters::default(),
            max_new_tokens: self.max_completion_length,
            eos: tokenizer.eos().to_vec(),
        }
    }

    /// Refuses settings that contradict each other or cannot train.
    ///
    /// # Errors
    /// The setting and the mend.
    pub fn check(&self) -> Result<()> {
        if self.num_generations < 2 {
            bail!("num-generations must be at least 2: a group of one has no advantage");
        }
        for (name, value) in [
            ("prompts-per-step", self.prompts_per_step),
            ("num-iterations", self.num_iterations),
            ("max-completion-length", self.max_completion_length),
            ("max-num-seqs", self.max_num_seqs),
            ("num-presamples", self.num_presamples),
            ("rehearsal-batch-size", self.rehearsal_batch_size),
        ] {
            if value == 0 {
                bail!("{name} must be at least 1");
            }
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            bail!("temperature must be above 0 in training, not {}", self.temperature);
        }
        if !(0.0..1.0).contains(&self.epsilon) || self.epsilon_high.is_some_and(|e| e < 0.0) {
            bail!("epsilon must be at least 0 and below 1, epsilon-high at least 0");
        }
        Ok(())
    }
}
