//! What a step samples, and who samples it: this process, all ranks together, or an engine that the first of them asks.

use std::collections::HashMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::ahead::Ahead;
use super::batch::is_mixed;
use super::{RolloutEngine, Run};
use crate::generate::{EngineLost, LocalSampler, RngKey, Sampler, SamplingParams};
use crate::objective::Baseline;
use crate::rollout::{Collector, Group, collect};
use crate::train::order;

/// Rounds of prompts that dynamic sampling draws at most for one step.
const MAX_ROUNDS: usize = 10;

/// The rollouts of a step.
#[derive(Serialize, Deserialize)]
pub(super) struct Drawn {
    /// What is learned from.
    pub(super) groups: Vec<Group>,
    /// All that was sampled for it.
    pub(super) sampled: Vec<Group>,
    /// The number of the next round of prompts.
    pub(super) rounds: usize,
    /// Steps between the weights that the first of them was sampled with and those that learn from it.
    pub(super) staleness: usize,
}

/// Gives the rollouts of a step: its number, and that of its first round of prompts.
pub(super) type Next<'a> = dyn FnMut(usize, usize) -> Result<Drawn> + 'a;

impl Run<'_> {
    /// Does `steps` with rollouts from a step and a round of prompts on.
    pub(super) fn with_rollouts<T>(
        &self,
        (step, round): (usize, usize),
        steps: impl FnOnce(&mut Next<'_>) -> Result<T>,
    ) -> Result<T> {
        let Some(RolloutEngine { engine, max_staleness, .. }) = &self.engine else {
            return steps(&mut |_, round| self.draw(round));
        };
        let Some(engine) = engine else {
            return steps(&mut |_, _| {
                self.drawn_by_engine(|| unreachable!("the first rank draws"))
            });
        };
        if *max_staleness == 0 {
            return steps(&mut |step, round| {
                self.drawn_by_engine(|| {
                    engine.publish(step)?;
                    self.draw(round)
                })
            });
        }
        let ahead = Ahead::new(*max_staleness, step, round);
        std::thread::scope(|scope| {
            let drawn = ahead.start(scope, self);
            steps(&mut |step, _| {
                self.drawn_by_engine(|| {
                    engine.publish(step)?;
                    drawn.at(step)
                })
            })
        })
    }

    /// What the first rank has its engine draw, or that it lost it, for all.
    fn drawn_by_engine(&self, draw: impl FnOnce() -> Result<Drawn>) -> Result<Drawn> {
        if self.ranks.size() == 1 {
            return draw();
        }
        let drawn = self.ranks.first(|| match draw() {
            Err(error) if error.is::<EngineLost>() => Ok(Err(format!("{error:#}"))),
            drawn => drawn.map(Ok),
        })?;
        drawn.map_err(|lost: String| EngineLost(lost).into())
    }

    /// What a step samples: rounds of prompts from `round` on.
    pub(super) fn draw(&self, round: usize) -> Result<Drawn> {
        let wanted = self.config.settings.prompts_per_step.min(self.data.explore.len());
        let (mut groups, mut sampled): (Vec<Group>, Vec<Group>) = (Vec::new(), Vec::new());
        let mut rounds = round;
        for _ in 0..MAX_ROUNDS {
            let round = self.rollouts(rounds)?;
            rounds += 1;
            groups.extend(round.iter().filter(|group| is_mixed(group, self.plan)).cloned());
            sampled.extend(round);
            if groups.len() >= wanted {
                break;
            }
        }
        groups.truncate(wanted);
        if groups.is_empty() {
            // Nothing to learn from: the last round has advantages of zero, and says so in the metrics.
            groups = sampled[sampled.len() - wanted..].to_vec();
        }
        Ok(Drawn { groups, sampled, rounds, staleness: 0 })
    }

    /// The judged groups of a round of prompts, in the order they were chosen in, which is random: neither mini-batches
    /// nor what dynamic sampling has too many of then depend on a problem's place or on which ended first.
    fn rollouts(&self, round: usize) -> Result<Vec<Group>> {
        let settings = &self.config.settings;
        let engine = self.engine.as_ref().map(|rollouts| rollouts.engine);
        let (decoder, local);
        let sampler: &dyn Sampler = match engine {
            Some(engine) => engine.context("another rank has the engine")?,
            None => {
                decoder = self.policy.decoder().prepacked(self.rollout_dtype)?;
                local = LocalSampler { decoder: &decoder, max_rows: settings.max_num_seqs };
                &local
            }
        };
        let params = settings.sampling(self.tokenizer);
        let mut collector = Collector::new(sampler, self.tokenizer, self.verifier, &params);
        if engine.is_none() {
            collector = collector.among(self.ranks);
        }
        let explore = &self.data.explore;
        let count = settings.prompts_per_step.min(explore.len());
        let chosen: Vec<usize> = order::chosen(explore.len(), count, round, self.config.seed)
            .into_iter()
            .map(|place| explore[place])
            .collect();
        let rng_key = RngKey { seed: self.config.seed, step: round as u64 };
        let mut groups = Vec::with_capacity(count);
        collect(
            &collector,
            self.problems,
            &chosen,
            0..settings.num_generations,
            rng_key,
            &mut |group| {
                groups.push(group);
                Ok(())
            },
        )?;
        let places: HashMap<usize, usize> = chosen.iter().copied().zip(0..).collect();
        groups.sort_by_key(|group| places[&group.problem]);
        if self.plan.baseline == Baseline::Greedy {
            let params = SamplingParams { temperature: 0.0, ..params.clone() };
            let mut greedy = Collector::new(sampler, self.tokenizer, self.verifier, &params);
            if engine.is_none() {
                greedy = greedy.among(self.ranks);
            }
            collect(&greedy, self.problems, &chosen, 0..1, rng_key, &mut |group| {
                groups[places[&group.problem]].greedy = group.rollouts.into_iter().next();
                Ok(())
            })?;
        }
        Ok(groups)
    }
}
