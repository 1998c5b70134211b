//! The settings of a run, and which of them contradict each other.

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};

use super::LogKl;
use crate::adapter::LoraOptions;
use crate::generate::{Filters, SamplingParams};
use crate::objective::{
    self, Anchor, Baseline, Divergence, Estimator, LossType, Objective, Plan, PlanPatch, target,
};
use crate::tokenizer::Tokenizer;
use crate::train::{AdamWConfig, Schedule};

/// Most tokens in a completion where nobody says and the context leaves more.
pub const LENGTH: usize = 512;

/// One run: an objective, a seed, and everything else.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RlvrConfig {
    /// Objective: `NAME[:VALUE...][:KEY=VALUE...]`, such as grpo, kl-full:0.1, dph-js:0.4 or
    /// f-dpg:hellinger:baseline=group-mean. `tealight objectives` describes every name and key.
    #[arg(long, default_value = "grpo")]
    pub objective: Objective,
    /// Seed of the samples and of the order of prompts.
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
    /// Override the objective's baseline.
    #[arg(long, value_enum, alias = "advantage")]
    pub baseline: Option<Baseline>,
    /// Override the objective's average over tokens.
    #[arg(long, value_enum)]
    pub loss_type: Option<LossType>,
    /// Override the objective's clip: ratios below 1 minus this earn no gradient.
    #[arg(long)]
    pub epsilon: Option<f64>,
    /// Override the objective's clip: ratios above 1 plus this earn no gradient.
    #[arg(long)]
    pub epsilon_high: Option<f64>,
    /// Override the objective's penalty coefficient, or the temperature of its target p_beta. Larger keeps more of the
    /// base's answers.
    #[arg(long)]
    pub beta: Option<f64>,
    /// Override the objective's number of passes over each batch of rollouts.
    #[arg(long)]
    pub num_iterations: Option<usize>,
    /// Override the number of mini-batches, each with its own optimizer step, that a batch of rollouts is split into. A
    /// trust region acts only with more than one update a batch.
    #[arg(long)]
    #[serde(default)]
    pub steps_per_generation: Option<usize>,
    /// Set beta so that the optimal policy is correct on this share of samples, on average over prompts.
    #[arg(long)]
    pub target_validity: Option<f64>,
    /// Whether --target-validity sets one beta for the run or one for each prompt.
    #[arg(long, value_enum, default_value_t = BetaPer::Run)]
    pub beta_per: BetaPer,
    /// Completions sampled for each prompt of a step.
    #[arg(long, default_value_t = 8)]
    pub num_generations: usize,
    /// Prompts in a step.
    #[arg(long, default_value_t = 8)]
    pub prompts_per_step: usize,
    /// Number of training steps; each step samples its own rollouts.
    #[arg(long, default_value_t = 100)]
    pub max_steps: usize,
    /// Stop when this many completions have been sampled, those of the base included.
    #[arg(long)]
    pub max_completions: Option<usize>,
    /// Stop when this many tokens have been sampled, those of the base included.
    #[arg(long)]
    #[serde(default)]
    pub max_tokens: Option<usize>,
    /// Most tokens in a completion; a completion that is cut off there earns no reward. Default: the room that the
    /// context leaves, up to 512.
    #[arg(long)]
    pub max_completion_length: Option<usize>,
    /// Leave completions that were cut off out of the loss instead of counting them as wrong.
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set)]
    pub mask_truncated_completions: bool,
    /// Temperature of rollouts; log-probabilities are taken at the same.
    #[arg(long, default_value_t = 1.0)]
    pub temperature: f64,
    /// Completions of the base for each prompt, where the objective needs them.
    #[arg(long, default_value_t = 16)]
    pub num_presamples: usize,
    /// Take the base's completions from this directory, made by `tealight presample`.
    #[arg(long)]
    pub presamples: Option<PathBuf>,
    /// Override the objective's threshold for rehearsal: prompts of whose samples the base solves at least this share
    /// are rehearsed (DPH-RL's D_pef).
    #[arg(long)]
    pub pef_threshold: Option<f64>,
    /// Override whether a prompt is rehearsed only if one further sample of the base is correct too.
    #[arg(long)]
    pub extra_check: Option<bool>,
    /// Override the prompts that a rehearsing objective explores: those that are not rehearsed (D_exp), or all.
    #[arg(long, value_enum)]
    pub explore: Option<Explore>,
    /// Override whether a rehearsing objective leaves out prompts that the base never solved.
    #[arg(long)]
    pub drop_unsolved: Option<bool>,
    /// Override the number of correct completions that are stored of each rehearsed prompt: all, or one (DPH-RL).
    #[arg(long, value_enum)]
    #[serde(default)]
    pub rehearsal_samples: Option<RehearsalSamples>,
    /// Stored completions of the base in each step, where the objective trains on them.
    #[arg(long, default_value_t = 64)]
    pub rehearsal_batch_size: usize,
    /// Log the KL to the base for objectives that do not compute that KL: estimated on a few completions, of all, or
    /// off. true and false are understood.
    #[arg(long, value_enum, default_value_t = LogKl::Estimate)]
    pub log_kl: LogKl,
    /// Log estimates of the distance from p* every so many steps, with --presamples of lost answers too; 0 never.
    #[arg(long, value_name = "STEPS", num_args = 0..=1, default_value_t = 0, default_missing_value = "10")]
    #[serde(default)]
    pub log_divergences: usize,
    /// Most tokens in one forward and backward pass. The result does not depend on this number; the memory does.
    #[arg(long, default_value_t = 4096)]
    pub micro_batch_tokens: usize,
    /// Keep the input of each layer alone for the backward pass and compute the rest again (on the CPU): a
    /// third more arithmetic, a fraction of the memory, the same result.
    #[arg(long)]
    #[serde(default)]
    pub gradient_checkpointing: bool,
    /// Most sequences in one decoding batch.
    #[arg(long, default_value_t = 256)]
    pub max_num_seqs: usize,
    /// Steps between checkpoints; the last step writes one too. 0 writes a checkpoint only when interrupted.
    #[arg(long, default_value_t = 50)]
    pub save_steps: usize,
    /// Number of the newest checkpoints to keep, besides the best by mean reward; 0 keeps all.
    #[arg(long, default_value_t = 3)]
    #[serde(default)]
    pub save_total_limit: usize,
    /// Stop after this many optimizer steps in a row were left out because the loss or the gradient was not finite.
    #[arg(long, default_value_t = 5)]
    #[serde(default)]
    pub max_skipped_steps: usize,
    /// Steps between files of completions, completions/*.parquet; 0 writes none.
    #[arg(long, value_name = "STEPS", num_args = 0..=1, default_value_t = 10, default_missing_value = "1")]
    #[serde(default)]
    pub log_completions: usize,
    /// Further form of the metrics besides metrics.jsonl: TensorBoard event files, or none.
    #[arg(long, value_enum, default_value_t = ReportTo::Tensorboard)]
    #[serde(default)]
    pub report_to: ReportTo,
    /// Save a checkpoint and stop where a run would only warn.
    #[arg(long)]
    #[serde(default)]
    pub strict: bool,
    /// The adapter, where one is trained.
    #[command(flatten)]
    #[serde(flatten)]
    pub lora: LoraOptions,
    /// See the optimizer's settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub schedule: Schedule,
    /// See the optimizer's settings.
    #[command(flatten)]
    #[serde(flatten)]
    pub adamw: AdamWConfig,
}

/// Where metrics go besides `metrics.jsonl`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReportTo {
    /// Event files in `tensorboard/`, which trackio imports too.
    #[default]
    Tensorboard,
    /// Nowhere.
    None,
}

/// What a target validity sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BetaPer {
    /// One beta, from the base's mean validity.
    Run,
    /// One beta a prompt, from its own; prompts that are there already are left out.
    Prompt,
}

/// How many of a prompt's stored completions are rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RehearsalSamples {
    /// All.
    All,
    /// The first.
    One,
}

/// Which prompts are explored where others are rehearsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Explore {
    /// Those that are not.
    Rest,
    /// All.
    All,
}

impl RlvrConfig {
    /// The objective with the overrides of the settings.
    ///
    /// # Errors
    /// An override that has no effect or makes the objective impossible; a target validity that
    /// nothing can be computed from.
    pub fn plan(&self) -> Result<Plan> {
        let settings = &self.settings;
        if settings.target_validity.is_some() {
            check_target_validity(&self.objective, settings)?;
        }
        let mut plan = self.resolved()?.plan;
        if let Some(validity) = settings.target_validity {
            if plan.annealing.beta_end.is_some() {
                bail!("--target-validity sets one beta: leave `beta-end` out");
            }
            // Any base below the target will do until the base is measured.
            plan.set_beta(target::beta_for(validity / 2.0, validity)?);
        }
        if settings.target_validity.is_some()
            && matches!(plan.anchor, Anchor::Base(_))
            && matches!(plan.baseline, Baseline::GroupStd | Baseline::BatchStd | Baseline::Batch)
        {
            bail!(
                "--target-validity needs rewards at their own scale, which dividing by a standard \
                 deviation changes: add --baseline loo"
            );
        }
        if plan.is_on_policy() && plan.steps_per_generation > settings.prompts_per_step {
            bail!(
                "objective `{}`: {} mini-batches of whole prompts need as many --prompts-per-step, not {}: raise it, or \
                 lower --steps-per-generation",
                self.objective,
                plan.steps_per_generation,
                settings.prompts_per_step
            );
        }
        let needs_group = !matches!(plan.baseline, Baseline::None | Baseline::Greedy);
        if settings.num_generations < 2 && plan.is_on_policy() && needs_group {
            bail!("num-generations must be at least 2: a group of one has no baseline");
        }
        if let objective::AdvantageEstimator::Pkpo { k }
        | objective::AdvantageEstimator::PassAtK { k } = plan.rule
            && k >= settings.num_generations
        {
            bail!("objective `{}`: k = {k} needs more than {k} --num-generations", self.objective);
        }
        Ok(plan)
    }
}

impl RlvrConfig {
    /// The objective with the overrides of the settings, which its name then shows.
    ///
    /// # Errors
    /// An override that contradicts the objective, has no effect or makes it impossible.
    pub fn resolved(&self) -> Result<Objective> {
        self.objective.with(&self.overrides())
    }

    /// What the objective and the overrides come to, in words.
    ///
    /// # Errors
    /// An override that cannot be computed.
    pub fn resolved_objective(&self) -> Result<String> {
        let text = self.resolved()?.resolved();
        let Some(validity) = self.settings.target_validity else { return Ok(text) };
        // The beta there stands in until the base has been measured.
        let word = |word: &str| match word.starts_with("beta=") {
            true => format!("beta=(for validity {validity})"),
            false => word.to_owned(),
        };
        Ok(text.split(' ').map(word).collect::<Vec<_>>().join(" "))
    }

    /// The settings that override the objective's. Studies give settings to objectives of every kind: those that split
    /// rollouts, or say what is rehearsed, are left out where the objective does not do it.
    fn overrides(&self) -> PlanPatch {
        let (settings, plan) = (&self.settings, &self.objective.plan);
        let (is_on_policy, rehearses) = (plan.is_on_policy(), plan.rehearses());
        PlanPatch {
            baseline: settings.baseline,
            loss_type: settings.loss_type,
            epsilon: settings.epsilon,
            epsilon_high: settings.epsilon_high,
            num_iterations: settings.num_iterations,
            beta: settings.beta,
            steps_per_generation: settings.steps_per_generation.filter(|_| is_on_policy),
            pef_threshold: settings.pef_threshold.filter(|_| rehearses),
            extra_check: settings.extra_check.filter(|_| rehearses),
            explore_all: settings.explore.filter(|_| rehearses).map(|it| it == Explore::All),
            drop_unsolved: settings.drop_unsolved.filter(|_| rehearses),
            one_sample: settings
                .rehearsal_samples
                .filter(|_| rehearses)
                .map(|it| it == RehearsalSamples::One),
        }
    }
}

fn check_target_validity(objective: &Objective, settings: &Settings) -> Result<()> {
    let plan = &objective.plan;
    let names_one = objective.sets("beta") && matches!(plan.anchor, Anchor::Base(_));
    if settings.beta.is_some() || names_one {
        bail!("--target-validity sets beta: leave --beta and the objective's own out");
    }
    let is_linked = match &plan.anchor {
        Anchor::None => false,
        Anchor::Target(matching) => matching.target == target::Target::Tilted,
        Anchor::Base(regulariser) => {
            regulariser.divergence == Divergence::ReverseKl
                && regulariser.estimator != Estimator::K3
        }
    };
    if !is_linked {
        bail!(
            "--target-validity is the closed form of reverse KL to the base: use kl-reward, kl-full or kl-k2, or a \
             target p-beta"
        );
    }
    Ok(())
}

impl Settings {
    /// Most tokens in a completion; [`LENGTH`] until it is known what fits.
    pub fn length(&self) -> usize {
        self.max_completion_length.unwrap_or(LENGTH)
    }

    /// Whether anything is said about which prompts to rehearse.
    pub fn splits(&self) -> bool {
        self.pef_threshold.is_some()
            || self.extra_check.is_some()
            || self.explore.is_some()
            || self.drop_unsolved.is_some()
            || self.rehearsal_samples.is_some()
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
    ///
    /// # Errors
    /// The setting and the fix.
    pub fn check(&self) -> Result<()> {
        for (name, value) in [
            ("prompts-per-step", self.prompts_per_step),
            ("num-generations", self.num_generations),
            ("max-completion-length", self.length()),
            ("max-num-seqs", self.max_num_seqs),
            ("num-presamples", self.num_presamples),
            ("rehearsal-batch-size", self.rehearsal_batch_size),
            ("max-skipped-steps", self.max_skipped_steps),
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
