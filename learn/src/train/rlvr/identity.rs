//! Which settings the result of a run depends on: a run may go on with others, but not with these.

use super::config::RlvrConfig;
use super::settings::LogKl;
use crate::train::Scheduler;
use crate::train::sft::SftConfig;
use tealight_system::telemetry::ReportTo;

impl RlvrConfig {
    /// These settings with what the result does not depend on left at nothing: how long to go on, what to save and to
    /// log, how work is split up.
    pub fn identity(&self) -> Self {
        let mut identity = self.clone();
        let settings = &mut identity.settings;
        // A rate that falls over the run, or a rule that reads the share that is over, depends on its length.
        let is_constant = settings.schedule.lr_scheduler_type == Scheduler::Constant;
        let rule = self.objective.plan.rule.as_ref();
        if is_constant && !rule.is_some_and(|rule| rule.reads("progress")) {
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

impl SftConfig {
    /// The same of supervised training.
    pub fn identity(&self) -> Self {
        let is_constant = self.schedule.lr_scheduler_type == Scheduler::Constant;
        Self {
            max_steps: if is_constant { 0 } else { self.max_steps },
            save_steps: 0,
            save_total_limit: 0,
            micro_batch_tokens: 0,
            ..self.clone()
        }
    }
}
