//! The settings of a run, and which of them contradict each other.

use anyhow::{Result, bail};
use clap::Args;
use serde::{Deserialize, Serialize};
use tealight_system::range::SEED;

use super::settings::{LogKl, Settings};
use crate::objective::{Baseline, Objective, Plan};

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

    /// The objective with its coefficient, in words.
    pub fn resolved_objective(&self) -> Result<String> {
        Ok(self.resolved()?.resolved())
    }
}

/// Whether a run reads the base once it trains: its objective does, or what it logs. Stored completions are
/// compared with it before the first update, when the policy is the base.
pub fn reads_base(config: &RlvrConfig, plan: &Plan) -> bool {
    plan.needs_reference() || (plan.is_on_policy() && config.settings.log_kl != LogKl::Off)
}
