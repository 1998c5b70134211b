//! The settings of a run: which of them contradict each other, and which the result depends on: a run may go on with
//! others, but not with these.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_system::range::SEED;

use super::settings::{LogKl, Settings};
use crate::objective::{Baseline, Objective, Plan};
use tealight_system::telemetry::ReportTo;

/// One run: an objective, a seed, and everything else.
#[derive(Debug, Clone, PartialEq, Args, Serialize, Deserialize)]
pub struct RlvrConfig {
    /// Objective: `NAME[:VALUE...][:KEY=VALUE...]`, such as grpo, kl-full:0.1, dph-js:0.4 or
    /// f-dpg:hellinger:baseline=group-mean. `tealight objectives` describes the names, --all every name and key.
    #[arg(long, default_value = "grpo", help_heading = "Objective")]
    pub objective: Objective,
    /// Seed of the samples and of the order of prompts.
    #[arg(long, default_value_t = 0, add = SEED, help_heading = "Optimizer")]
    pub seed: u64,
    /// Everything else.
    #[command(flatten)]
    #[serde(flatten)]
    pub settings: Settings,
}

impl RlvrConfig {
    /// What the objective computes, with the coefficient of the settings.
    ///
    /// # Errors
    /// A coefficient that has no effect or makes the objective impossible.
    pub fn plan(&self) -> Result<Plan> {
        let settings = &self.settings;
        let plan = self.resolved()?.plan;
        if plan.is_on_policy() && plan.steps_per_generation > settings.prompts_per_step {
            bail!(
                "objective `{}`: {} mini-batches of whole prompts need as many --prompts-per-step, not {}: raise it, or \
                 lower steps-per-generation",
                self.objective,
                plan.steps_per_generation,
                settings.prompts_per_step
            );
        }
        let needs_group = !matches!(plan.baseline, Baseline::None | Baseline::Greedy);
        if settings.num_generations < 2 && plan.is_on_policy() && needs_group {
            bail!("num-generations must be at least 2: a group of one has no baseline");
        }
        let smallest = plan.smallest_group();
        if plan.is_on_policy() && settings.num_generations < smallest {
            bail!(
                "objective `{}`: it needs at least {smallest} --num-generations, not {}",
                self.objective,
                settings.num_generations
            );
        }
        Ok(plan)
    }

    /// The objective with the coefficient of the settings, which its name then shows.
    ///
    /// # Errors
    /// A coefficient that contradicts the objective, has no effect or makes it impossible.
    pub fn resolved(&self) -> Result<Objective> {
        let beta = self.settings.beta.map(|beta| ("beta", beta.to_string()));
        self.objective.with(beta.as_slice())
    }

    /// These settings with what the result does not depend on left at nothing: how long to go on, what to save and to
    /// log, how work is split up.
    pub fn identity(&self) -> Self {
        let mut identity = self.clone();
        let settings = &mut identity.settings;
        let rule = self.objective.plan.rule.as_ref();
        if !(settings.schedule.depends_on_length() || rule.is_some_and(|r| r.reads("progress"))) {
            settings.max_steps = 0;
        }
        (settings.save_steps, settings.save_total_limit) = (0, 0);
        (settings.max_num_seqs, settings.micro_batch_tokens) = (0, 0);
        settings.gradient_checkpointing = false;
        settings.log_completions = 0;
        settings.log_kl = LogKl::Off;
        settings.presamples = None;
        settings.report_to = vec![ReportTo::Tensorboard];
        identity
    }
}

/// Whether a run reads the base once it trains: its objective does, or what it logs. Stored completions are
/// compared with it before the first update, when the policy is the base.
pub fn reads_base(config: &RlvrConfig, plan: &Plan) -> bool {
    plan.needs_reference() || (plan.is_on_policy() && config.settings.log_kl != LogKl::Off)
}
