//! The learning rate of each step.

use clap::{Args, ValueEnum};
use serde::{Deserialize, Serialize};
use tealight_system::range::{above, at_least};

/// The learning-rate schedule after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// A constant rate.
    Constant,
    /// A straight line to 0.
    Linear,
    /// Half a cosine to 0.
    Cosine,
}

/// The learning rate's settings; names are TRL's.
#[derive(Debug, Clone, Copy, PartialEq, Args, Serialize, Deserialize)]
pub struct Schedule {
    /// Step size of AdamW after the warm-up; with --use-peft 1e-4 unless given.
    #[arg(long, default_value = "1e-6", add = above(0.0).at_most(1e30), help_heading = "Optimizer")]
    pub learning_rate: f64,
    /// Learning-rate schedule after the warm-up.
    #[arg(long, value_enum, default_value_t = Scheduler::Constant, help_heading = "Optimizer")]
    pub lr_scheduler_type: Scheduler,
    /// Number of warm-up steps, in which the learning rate rises linearly to --learning-rate.
    #[arg(long, default_value_t = 0, add = at_least(0.0).at_most(1e12), help_heading = "Optimizer")]
    pub warmup_steps: usize,
}

impl Schedule {
    /// The command line's learning rate of a LoRA adapter where none is given: its matrices begin at a product of 0 and
    /// are few, and the rate of full weights would not move them.
    pub const ADAPTER_RATE: f64 = 1e-4;

    /// One without a warm-up.
    pub(crate) fn without_warmup(learning_rate: f64, lr_scheduler_type: Scheduler) -> Self {
        Self { learning_rate, lr_scheduler_type, warmup_steps: 0 }
    }

    /// The learning rate as a run states it: that of an adapter says where it is the default.
    pub fn stated_rate(&self, is_adapter: bool) -> String {
        let rate = self.learning_rate;
        let is_default = is_adapter && rate == Self::ADAPTER_RATE;
        format!("{rate:e}{}", if is_default { " (the default with --use-peft)" } else { "" })
    }

    /// What is to be said where the warm-up takes all of `total` steps.
    pub fn warning(&self, total: usize) -> Option<String> {
        let warmup = self.warmup_steps;
        (warmup >= total.max(2)).then(|| {
            format!("--warmup-steps {warmup} covers all steps: the rate rises until the end")
        })
    }

    /// Whether the rate of a step depends on the number of steps.
    pub fn depends_on_length(&self) -> bool {
        let schedule = Self { warmup_steps: 0, ..*self };
        (0..64).any(|step| schedule.rate(step, 64) != schedule.rate(step, 128))
    }

    /// The rate of step `step` (from 0) of `total`.
    pub fn rate(&self, step: usize, total: usize) -> f64 {
        if step < self.warmup_steps {
            // From step + 1: a first step with rate 0 would be lost.
            return self.learning_rate * (step + 1) as f64 / self.warmup_steps as f64;
        }
        let rest = total.saturating_sub(self.warmup_steps).max(1) as f64;
        let done = (step - self.warmup_steps) as f64 / rest;
        let share = match self.lr_scheduler_type {
            Scheduler::Constant => 1.0,
            Scheduler::Linear => 1.0 - done,
            Scheduler::Cosine => 0.5 * (1.0 + (std::f64::consts::PI * done).cos()),
        };
        self.learning_rate * share.max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn default_rate_of_adapters_is_named() {
        let schedule = |rate| Schedule::without_warmup(rate, Scheduler::Constant);
        let default = schedule(Schedule::ADAPTER_RATE);
        assert_eq!(default.stated_rate(true), "1e-4 (the default with --use-peft)");
        assert_eq!(default.stated_rate(false), "1e-4");
        assert_eq!(schedule(2e-4).stated_rate(true), "2e-4");
    }

    #[test]
    fn rate_warms_up_then_follows_its_scheduler() {
        let at = |kind, step| {
            let schedule =
                Schedule { learning_rate: 1.0, lr_scheduler_type: kind, warmup_steps: 4 };
            schedule.rate(step, 14)
        };
        assert_eq!(at(Scheduler::Constant, 0), 0.25);
        assert_eq!(at(Scheduler::Constant, 13), 1.0);
        assert_eq!(at(Scheduler::Linear, 4), 1.0);
        assert!((at(Scheduler::Linear, 9) - 0.5).abs() < 1e-12);
        assert!((at(Scheduler::Cosine, 9) - 0.5).abs() < 1e-12);
        assert!(at(Scheduler::Cosine, 13) > 0.0);
    }
}
