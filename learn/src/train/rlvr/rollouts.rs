//! Prompts to the judged groups of one step.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::run::Run;
use crate::objective::Baseline;
use crate::rollout::{Collector, Group, collect};
use crate::train::order;
use tealight_nn::generate::{LocalSampler, RngKey, Sampler, SamplingParams};

/// Rounds of prompts that dynamic sampling draws at most for one step.
const MAX_ROUNDS: usize = 10;

/// The rollouts of a step.
#[derive(Serialize, Deserialize)]
pub(super) struct Rollouts {
    /// All groups that were sampled, those that dynamic sampling drops included.
    pub(super) sampled: Vec<Group>,
    /// The places of those that make the batch, ascending.
    pub(super) kept: Vec<usize>,
    /// The number of the next round of prompts.
    pub(super) rounds: usize,
    /// Policy lag: optimizer steps between the weights that sampled and those that are trained.
    pub(super) staleness: usize,
}

impl Rollouts {
    /// The groups of the batch.
    pub(super) fn into_batch(self) -> Vec<Group> {
        let mut kept = self.kept.into_iter().peekable();
        let all = self.sampled.into_iter().enumerate();
        all.filter_map(|(place, group)| kept.next_if_eq(&place).map(|_| group)).collect()
    }
}

/// Samples the rollouts of a step: rounds of prompts from `round` on, until enough groups are kept.
pub(super) fn sample(run: &Run<'_>, round: usize) -> Result<Rollouts> {
    let group_count = run.config.settings.prompts_per_step.min(run.data.training.explore.len());
    let (mut sampled, mut kept): (Vec<Group>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut rounds = round;
    for _ in 0..MAX_ROUNDS {
        let begin = sampled.len();
        sampled.extend(sample_round(run, rounds)?);
        rounds += 1;
        let is_kept = |place: &usize| !run.plan.dynamic_sampling || is_mixed(&sampled[*place]);
        kept.extend((begin..sampled.len()).filter(is_kept));
        if kept.len() >= group_count {
            break;
        }
    }
    kept.truncate(group_count);
    if kept.is_empty() {
        // All groups have zero variance: those of the last round have advantages of zero, and the metrics show it.
        kept.extend(sampled.len() - group_count..sampled.len());
    }
    Ok(Rollouts { sampled, kept, rounds, staleness: 0 })
}

/// Whether the completions of a group earn different rewards.
fn is_mixed(group: &Group) -> bool {
    let rewards = group.rewards();
    rewards.iter().any(|reward| *reward != rewards[0])
}

/// The judged groups of a round of prompts, in the order they were chosen in, which is random: neither mini-batches
/// nor what dynamic sampling has too many of then depend on a problem's index or on which ended first.
fn sample_round(run: &Run<'_>, round: usize) -> Result<Vec<Group>> {
    let settings = &run.config.settings;
    let engine = run.models.sampling.engine.as_ref().map(|rollouts| rollouts.engine);
    let (decoder, local);
    let sampler: &dyn Sampler = match engine {
        Some(engine) => engine.context("another rank has the engine")?,
        None => {
            decoder = run.models.policy.decoder().prepacked(run.models.sampling.rollout_dtype)?;
            local = LocalSampler { decoder: &decoder, max_rows: settings.max_num_seqs };
            &local
        }
    };
    let count = settings.prompts_per_step.min(run.data.training.explore.len());
    let explore = &run.data.training.explore;
    let chosen: Vec<usize> = order::chosen(explore.len(), count, round, run.config.seed)
        .into_iter()
        .map(|index| explore[index])
        .collect();
    let position: HashMap<usize, usize> = chosen.iter().copied().zip(0..).collect();
    let rng_key = RngKey { seed: run.config.seed, step: round as u64 };
    let collect_all = |params: &SamplingParams,
                       numbers: Range<usize>,
                       sink: &mut dyn FnMut(Group) -> Result<()>| {
        let mut collector =
            Collector::new(sampler, run.models.tokenizer, run.data.verifier, params)
                .using(run.data.rewarding.reward_use())
                .counting(settings.truncated);
        if engine.is_none() {
            collector = collector.with_ranks(run.ranks);
        }
        collect(&collector, run.data.problems, &chosen, numbers, rng_key, sink)
    };
    let params = settings.sampling(run.models.tokenizer);
    let mut groups = Vec::with_capacity(count);
    collect_all(&params, 0..settings.num_generations, &mut |group| {
        groups.push(group);
        Ok(())
    })?;
    groups.sort_by_key(|group| position[&group.problem]);
    if run.plan.baseline == Baseline::Greedy {
        let params = SamplingParams { temperature: 0.0, ..params };
        collect_all(&params, 0..1, &mut |group| {
            groups[position[&group.problem]].greedy = group.rollouts.into_iter().next();
            Ok(())
        })?;
    }
    Ok(groups)
}
