//! Judged groups to the rows of one step: advantages token by token, weights, and what the loss needs
//! of the base.

use std::ops::Range;

use anyhow::Result;
use bytemuck::Pod;

use super::correct::Drawn;
use super::kl::BaseSays;
use super::pstar::LoggedRows;
use super::whole::{shares, widened};
use super::{Metrics, Run};
use crate::generate::{Finish, RngKey};
use crate::model::Decoder;
use crate::objective::tokens::{Covariance, Rows, chosen};
use crate::objective::{
    Coefficients, Estimator, GroupStats, Normaliser, Partition, Plan, SampleSource, advantages,
    charge_later, cut_share, partition_of,
};
use crate::policy::{Distributions, Sequence, by_row, token_logp};
use crate::rollout::Group;
use crate::train::checkpoint::State;
use crate::train::shared::{self, OfRows};

/// Keys the randomness of Clip-Cov apart from that of samples.
const COVARIANCE: u64 = u64::MAX - 3;

/// The rows of one step, aligned; `Rows` hold one number a completion token.
pub(super) struct Batch {
    pub(super) rows: Vec<Sequence>,
    pub(super) behavior: Vec<Vec<f32>>,
    pub(super) reference: Option<Vec<Vec<f32>>>,
    /// The base's distributions at every row's tokens, where they are compared with and this rank has them all.
    pub(super) base: Option<Vec<Distributions>>,
    pub(super) advantage: Rows,
    /// Weight of each token in the step's loss.
    pub(super) weight: Rows,
    /// Coefficient of the anchor, by row.
    pub(super) beta: Vec<f64>,
    /// Tokens that pay for moving (KL-Cov), 1 or 0.
    pub(super) priced: Option<Rows>,
    /// SimKO's shares: toward the candidates, and against the top one. Where all rows are one pass, that finds them.
    pub(super) simko: Option<(Rows, Rows)>,
    /// Whether each row is right.
    pub(super) is_correct: Vec<bool>,
    /// The rows of each mini-batch, one optimizer step each.
    pub(super) parts: Vec<Range<usize>>,
    /// Where another model drew the rows and they are not weighted yet.
    pub(super) drawn: Option<Drawn>,
    /// The rows of the groups whose later tokens are not charged to earlier ones yet, with their coefficients.
    pub(super) uncharged: Vec<(Range<usize>, f64)>,
}

impl Batch {
    /// Whether no token of a row has a gradient under `plan`: it counts for nothing, or has no advantage where nothing
    /// else pulls.
    pub(super) fn is_inert(&self, row: usize, plan: &Plan) -> bool {
        let is_zero = |rows: &Rows| rows[row].iter().all(|value| *value == 0.0);
        let is_priced = self.priced.as_ref().is_some_and(|priced| !is_zero(priced));
        is_zero(&self.weight)
            || (plan.pulls_by_advantage_alone() && !is_priced && is_zero(&self.advantage))
    }
}

/// The reward of a step's completions, the overlong penalty included (DAPO): it falls by 1 over the
/// last `buffer` share of the longest completion allowed.
pub(super) fn shaped_reward(reward: f64, length: usize, longest: usize, buffer: f64) -> f64 {
    let room = longest as f64 * buffer;
    let over = length as f64 - (longest as f64 - room);
    if room > 0.0 && over > 0.0 { reward - (over / room).min(1.0) } else { reward }
}

impl Run<'_> {
    /// Aligned rows with their advantages.
    pub(super) fn batch(
        &self,
        groups: &[Group],
        state: &mut State,
        metrics: &mut Metrics,
    ) -> Result<Batch> {
        let plan = self.plan;
        let (mut rows, mut behavior, mut row_problem) = (Vec::new(), Vec::new(), Vec::new());
        for group in groups {
            for rollout in &group.rollouts {
                rows.push(Sequence {
                    prompt: self.problems[group.problem].prompt.clone(),
                    completion: rollout.completion.tokens.clone(),
                });
                behavior.push(rollout.completion.logp.clone());
                row_problem.push(group.problem);
            }
        }
        let drawn = self.waits_for_pass(state.global_step).then(|| Drawn::new(behavior.clone()));
        let corrected = match drawn {
            Some(_) => None,
            None => self.correct(&rows, &mut behavior, state.global_step, metrics)?,
        };
        let (reference, base) =
            match self.compare_with_base(&rows, &behavior, state.global_step, metrics)? {
                Some(BaseSays { logp, distributions }) => (Some(logp), distributions),
                None => (None, None),
            };
        if self.logs_divergences(state.global_step) {
            let (rows, behavior, reference) = (&rows, &behavior, reference.as_deref());
            metrics.pstar =
                Some(self.distances(&LoggedRows { groups, rows, behavior, reference })?);
        }
        let mut stats = self.stats(groups, &behavior, reference.as_deref(), state.global_step);
        self.estimate_partition(groups, &mut stats, state);
        metrics.max_reward_ratio = plan.matching().map(|matching| cut_share(matching, &stats));
        let by_group = advantages(plan, &stats);
        let mut advantage: Rows = by_group
            .concat()
            .into_iter()
            .zip(&rows)
            .map(|(advantage, row)| vec![advantage; row.completion.len()])
            .collect();
        let mut uncharged = Vec::new();
        if let Some(regulariser) = plan.charges_later() {
            let charged = self.charged_groups(groups, state.global_step);
            let values = match (regulariser.estimator, &reference) {
                (Estimator::K2, Some(reference)) => Some(log_ratios(&behavior, reference)),
                _ if self.charges_in_pass(&rows, &charged) => None,
                _ => Some(self.position_divergences(&rows, base.as_deref())?),
            };
            match values {
                None => uncharged = charged,
                Some(values) => charged.into_iter().for_each(|(range, beta)| {
                    charge_later(&values[range.clone()], beta, &mut advantage[range], None);
                }),
            }
        }
        let rollouts = groups.iter().flat_map(|group| &group.rollouts);
        let is_masked = |finish: Finish| {
            self.config.settings.mask_truncated_completions && finish == Finish::Length
        };
        let counts: Vec<bool> = rollouts.map(|r| !is_masked(r.completion.finish)).collect();
        let parts = self.parts(groups);
        let by_row = parts.iter().flat_map(|part| self.weights(&rows, &counts, part));
        let spread = |(weight, row): (f64, &Sequence)| vec![weight; row.completion.len()];
        let mut weight: Rows = by_row.zip(&rows).map(spread).collect();
        if let Some(corrected) = &corrected {
            let factors = corrected.factor.iter().flatten();
            weight.iter_mut().flatten().zip(factors).for_each(|(weight, x)| *weight *= x);
        }
        let step = state.global_step;
        let beta = row_problem.iter().map(|problem| self.beta(*problem, step)).collect();
        let priced = self.covariance(&mut advantage, &behavior, state.global_step);
        let is_correct: Vec<bool> =
            stats.iter().flat_map(|stats| stats.is_correct.clone()).collect();
        let simko = match plan.simko {
            Some(simko) if !self.is_one_pass(&rows) => {
                let entropy = self.entropies(&rows)?;
                Some(shares(simko, &entropy, &advantage, &is_correct))
            }
            _ => None,
        };
        Ok(Batch {
            rows,
            behavior,
            reference,
            base,
            advantage,
            weight,
            beta,
            priced,
            simko,
            parts,
            drawn,
            uncharged,
            is_correct,
        })
    }

    /// The rows of each mini-batch: whole groups, as evenly as they divide.
    fn parts(&self, groups: &[Group]) -> Vec<Range<usize>> {
        let count = self.plan.steps_per_generation.min(groups.len().max(1));
        let mut parts = Vec::with_capacity(count);
        let (mut group, mut row) = (0, 0);
        for part in 0..count {
            let end = groups.len() * (part + 1) / count;
            let rows: usize = groups[group..end].iter().map(|g| g.rollouts.len()).sum();
            parts.push(row..row + rows);
            (group, row) = (end, row + rows);
        }
        parts
    }

    /// The weight of each token of the rows of a mini-batch in the mini-batch's own loss.
    fn weights(&self, rows: &[Sequence], counts: &[bool], part: &Range<usize>) -> Vec<f64> {
        let (rows, counts) = (&rows[part.clone()], &counts[part.clone()]);
        let counted = || rows.iter().zip(counts).filter(|(_, counts)| **counts);
        let normaliser = Normaliser {
            tokens: counted().map(|(row, _)| row.completion.len()).sum::<usize>().max(1),
            sequences: counted().count().max(1),
            max_completion_length: self.config.settings.length(),
        };
        let weight = |(row, counts): (&Sequence, &bool)| match counts {
            true => self.plan.loss_type.weight(row.completion.len(), &normaliser),
            false => 0.0,
        };
        rows.iter().zip(counts).map(weight).collect()
    }

    fn stats(
        &self,
        groups: &[Group],
        behavior: &[Vec<f32>],
        reference: Option<&[Vec<f32>]>,
        step: usize,
    ) -> Vec<GroupStats> {
        let longest = self.config.settings.length();
        let mut first = 0;
        groups
            .iter()
            .map(|group| {
                let count = group.rollouts.len();
                let reference = reference.map(|all| &all[first..first + count]);
                let behavior = &behavior[first..first + count];
                first += count;
                let lengths: Vec<usize> =
                    group.rollouts.iter().map(|r| r.completion.tokens.len()).collect();
                let rewards = group.rewards();
                let shaped = |reward: &f64, length: &usize| {
                    shaped_reward(*reward, *length, longest, self.plan.overlong_buffer)
                };
                GroupStats {
                    is_correct: rewards.iter().map(|reward| *reward > 0.0).collect(),
                    rewards: rewards
                        .iter()
                        .zip(&lengths)
                        .map(|(r, length)| shaped(r, length))
                        .collect(),
                    policy_logp: behavior.iter().map(|logp| sum(logp)).collect(),
                    reference_logp: match reference {
                        Some(reference) => reference.iter().map(|logp| sum(logp)).collect(),
                        None => vec![0.0; count],
                    },
                    lengths,
                    solve_rate: self.data.solve_rate.get(group.problem).copied().unwrap_or(1.0),
                    beta: self.beta(group.problem, step),
                    greedy: group
                        .greedy
                        .as_ref()
                        .map(|greedy| shaped(&greedy.reward(), &greedy.completion.tokens.len())),
                    mass: None,
                }
            })
            .collect()
    }

    /// Replaces the stored solve rate by importance sampling from the groups, where the plan asks.
    fn estimate_partition(&self, groups: &[Group], stats: &mut [GroupStats], state: &mut State) {
        let Some(matching) = self.plan.matching() else { return };
        if matching.partition == Partition::Fixed || matching.sampler != SampleSource::Policy {
            return;
        }
        for (group, stats) in groups.iter().zip(stats) {
            let online = stats.online_solve_rate();
            stats.solve_rate = partition_of(match matching.partition {
                Partition::Cumulative => {
                    let entry = state
                        .partition
                        .entry(self.problems[group.problem].problem.id.clone())
                        .or_default();
                    entry.0 += online;
                    entry.1 += 1;
                    entry.0 / entry.1 as f64
                }
                Partition::Online | Partition::Fixed => online,
            });
        }
    }

    /// The rows of every group and their coefficient. To each of their tokens the divergence of the positions after it
    /// is charged, less that of the group's other samples there: what makes the vocabulary's gradient that of the whole
    /// completion.
    fn charged_groups(&self, groups: &[Group], step: usize) -> Vec<(Range<usize>, f64)> {
        let mut first = 0;
        let of = |group: &Group| {
            let range = first..first + group.rollouts.len();
            first = range.end;
            (range, self.beta(group.problem, step))
        };
        groups.iter().map(of).collect()
    }

    /// The coefficients of a step.
    pub(super) fn coefficients(&self, step: usize) -> Coefficients {
        self.plan.coefficients(step, self.config.settings.max_steps)
    }

    /// The coefficient of a problem at a step.
    pub(super) fn beta(&self, problem: usize, step: usize) -> f64 {
        self.data.beta[problem] * self.coefficients(step).beta
    }

    /// Cuts the gradient of the tokens that Clip-Cov picks; returns those that KL-Cov prices.
    fn covariance(&self, advantage: &mut Rows, behavior: &[Vec<f32>], step: usize) -> Option<Rows> {
        let covariance = self.plan.covariance?;
        let logp = widened(behavior);
        let rng_key = RngKey { seed: self.config.seed, step: COVARIANCE };
        let mut stream = rng_key.stream(step as u64, 0);
        let picked = chosen(covariance, advantage, &logp, || stream.uniform());
        match covariance {
            Covariance::Clip { .. } => {
                picked.into_iter().for_each(|(row, token)| advantage[row][token] = 0.0);
                None
            }
            Covariance::Kl { .. } => {
                let mut priced: Rows = advantage.iter().map(|row| vec![0.0; row.len()]).collect();
                picked.into_iter().for_each(|(row, token)| priced[row][token] = 1.0);
                Some(priced)
            }
        }
    }

    /// Log-probabilities of completions under the base.
    pub(super) fn reference_logp(&self, rows: &[Sequence]) -> Result<Vec<Vec<f32>>> {
        self.logp_of(self.base()?, rows)
    }

    pub(super) fn logp_of(&self, decoder: &Decoder, rows: &[Sequence]) -> Result<Vec<Vec<f32>>> {
        self.by_row(rows, &|part, _| {
            let said = token_logp(decoder, part, self.config.settings.temperature)?;
            Ok(by_row(&said.logp, part)?)
        })
    }

    /// What `of` finds of rows, each rank of its own.
    pub(super) fn by_row<T: Pod>(
        &self,
        rows: &[Sequence],
        of: &OfRows<'_, T>,
    ) -> Result<Vec<Vec<T>>> {
        shared::by_row(rows, self.config.settings.micro_batch_tokens, self.ranks, of)
    }
}

/// `log(pi / a)` of every token.
pub(super) fn log_ratios(policy: &[Vec<f32>], reference: &[Vec<f32>]) -> Rows {
    let row = |(p, a): (&Vec<f32>, &Vec<f32>)| {
        p.iter().zip(a).map(|(p, a)| f64::from(*p) - f64::from(*a)).collect()
    };
    policy.iter().zip(reference).map(row).collect()
}

pub(super) fn sum(values: &[f32]) -> f64 {
    values.iter().map(|x| f64::from(*x)).sum()
}

/// Whether a group teaches: some right, some wrong.
pub(super) fn is_mixed(group: &Group, plan: &Plan) -> bool {
    let right = group.rewards().iter().filter(|reward| **reward > 0.0).count();
    !plan.dynamic_sampling || (right > 0 && right < group.rollouts.len())
}
