//! The treatment of graded rewards: objectives of correct and incorrect completions alone take verdicts.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use tealight_datasets::Grading;

use super::config::RlvrConfig;
use crate::objective::{Plan, deviation};
use crate::rollout::{Group, RewardUse};

/// How the rewards of a verifier enter a run.
pub struct Rewarding {
    grading: Grading,
    /// Whether the objective knows correct and incorrect alone.
    is_binary: bool,
    /// The error where such an objective meets a graded reward.
    refusal: String,
}

impl Rewarding {
    /// Of an objective and of how its verifier grades.
    ///
    /// # Errors
    /// Several verifiers, whose rewards are graded, for an objective of binary rewards.
    pub fn new(config: &RlvrConfig, plan: &Plan, grading: Grading) -> Result<Self> {
        let is_binary = plan.is_binary();
        let refusal = format!(
            "objective `{}` needs binary rewards, and this one is between 0 and 1: give the least reward of a correct \
             completion by --correct-threshold, or train on the rewards themselves (grpo, dr-grpo, rloo, reinforce)",
            config.objective
        );
        let rewarding = Self { grading, is_binary, refusal };
        if !rewarding.grading.names.is_empty()
            && let RewardUse::Refused(why) = rewarding.reward_use()
        {
            bail!("{why}");
        }
        Ok(rewarding)
    }

    /// The treatment of rewards between 0 and 1.
    pub(super) fn reward_use(&self) -> RewardUse<'_> {
        match (self.is_binary, self.grading.threshold) {
            (false, _) => RewardUse::Graded,
            (true, Some(_)) => RewardUse::Binary,
            (true, None) => RewardUse::Refused(&self.refusal),
        }
    }

    /// The metrics of the rewards of a step beside their mean, by TRL's names: mean and deviation of each verifier's,
    /// and the share of correct completions. Nothing where rewards are verdicts.
    pub(super) fn logged(&self, groups: &[Group]) -> BTreeMap<String, f64> {
        let mut logged = BTreeMap::new();
        if !self.grading.is_graded {
            return logged;
        }
        let all: Vec<_> = groups.iter().flat_map(|group| &group.rollouts).collect();
        let count = all.len() as f64;
        let correct = all.iter().filter(|rollout| rollout.is_correct()).count();
        logged.insert("correct_ratio".into(), correct as f64 / count);
        for (index, name) in self.grading.names.iter().enumerate() {
            let parts: Vec<f64> = all.iter().map(|rollout| rollout.part(index)).collect();
            let mean = parts.iter().sum::<f64>() / count;
            logged.insert(format!("rewards/{name}/mean"), mean);
            logged.insert(format!("rewards/{name}/std"), deviation(&parts, None));
        }
        logged
    }
}
