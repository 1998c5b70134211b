//! The settings of a run, and which of them contradict each other.

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
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
    /// The objective with the overrides of the settings.
    ///
    /// # Errors
    /// An override that has no effect or makes the objective impossible.
    pub fn plan(&self) -> Result<Plan> {
        let settings = &self.settings;
        let plan = self.resolved()?.plan;
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

    /// The objective with the overrides of the settings, which its name then shows.
    ///
    /// # Errors
    /// An override that contradicts the objective, has no effect or makes it impossible.
    pub fn resolved(&self) -> Result<Objective> {
        self.objective.with(&self.overrides())
    }

    /// The objective with its overrides, in words.
    pub fn resolved_objective(&self) -> Result<String> {
        Ok(self.resolved()?.resolved())
    }

    /// The settings that override the objective's. Studies give settings to objectives of every kind: the one that
    /// splits rollouts is left out where the objective has none.
    fn overrides(&self) -> Vec<(&'static str, String)> {
        let settings = &self.settings;
        let is_on_policy = self.objective.plan.is_on_policy();
        let loss_type = settings.loss_type.and_then(|loss_type| loss_type.to_possible_value());
        let number = |value: Option<f64>| value.map(|value| value.to_string());
        let count = |value: Option<usize>| value.map(|value| value.to_string());
        let all = [
            ("loss-type", loss_type.map(|loss_type| loss_type.get_name().to_owned())),
            ("epsilon", number(settings.epsilon)),
            ("epsilon-high", number(settings.epsilon_high)),
            ("num-iterations", count(settings.num_iterations)),
            ("beta", number(settings.beta)),
            ("steps-per-generation", count(settings.steps_per_generation.filter(|_| is_on_policy))),
        ];
        all.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
    }
}

/// Whether a run reads the base once it trains: its objective does, or what it logs. Stored completions are
/// compared with it before the first update, when the policy is the base.
pub fn reads_base(config: &RlvrConfig, plan: &Plan) -> bool {
    plan.needs_reference() || (plan.is_on_policy() && config.settings.log_kl != LogKl::Off)
}
