//! Judged samples of the policy to advantages: the number that each completion's log-probability is
//! multiplied by.
//!
//! Either what a completion is worth (its reward, or the pseudo-reward of a target) minus a [`Baseline`], or a
//! [`super::Rule`] over the group; then minus the cost of being far from the base.

use std::collections::BTreeMap;

use anyhow::Result;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::plan::{Anchor, Estimator, Matching, Partition, Plan, SampleSource};

/// Statistics of the samples of one prompt, in their order.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GroupStats {
    /// Rewards, an overlong penalty included.
    pub rewards: Vec<f64>,
    /// The solution class of each, as the verifier numbers them in this group; none where it is incorrect.
    pub classes: Vec<Option<usize>>,
    /// Log-probability of each whole completion under the policy that drew it.
    pub behavior_logp: Vec<f64>,
    /// Log-probability under the base; as many zeros where the plan does not need it.
    pub base_logp: Vec<f64>,
    /// Number of tokens of each completion.
    pub lengths: Vec<usize>,
    /// The estimate of Z, the base's validity on this prompt; only targets read it.
    pub normaliser: f64,
    /// Temperature of the tilted target, or coefficient of a regulariser.
    pub beta: f64,
    /// The reward of the policy's greedy completion, where `baseline=greedy` subtracts it.
    pub greedy: Option<f64>,
    /// The number of the step, from 0.
    pub step: usize,
    /// The share of the run that is over: 0 at the first step, 1 at the last.
    pub progress: f64,
    /// Probability of each, where these are all outputs there are instead of samples: baselines are
    /// then exact means, the limit of infinitely many samples. Rules of finite groups do not read it.
    pub mass: Option<Vec<f64>>,
}

/// The reward of a completion with the overlong penalty (DAPO): it falls by 1 over the last `buffer` share of the
/// longest completion allowed.
pub(crate) fn shaped_reward(reward: f64, length: usize, longest: usize, buffer: f64) -> f64 {
    // min(0, -(length - (longest - buffer)) / buffer), DAPO's soft penalty with factor 1.
    let buffer_tokens = longest as f64 * buffer;
    let over = length as f64 - (longest as f64 - buffer_tokens);
    if buffer_tokens > 0.0 && over > 0.0 {
        reward - (over / buffer_tokens).min(1.0)
    } else {
        reward
    }
}

/// The number that is subtracted from a reward, and the divisor of the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// No baseline.
    None,
    /// Mean of the other samples (RLOO, arXiv 2402.14740): unbiased.
    #[value(alias = "leave-one-out")]
    Loo,
    /// Group mean (Dr. GRPO, arXiv 2503.20783): (G - 1) / G of leave-one-out.
    GroupMean,
    /// Group mean, divided by the group's standard deviation (GRPO, arXiv 2402.03300).
    GroupStd,
    /// Group mean, divided by the standard deviation of the whole batch.
    BatchStd,
    /// Mean of the whole batch, divided by its standard deviation: whitening, as in PPO and REINFORCE++.
    Batch,
    /// Group mean, with a loss averaged over groups of nonzero variance (GPG, arXiv 2504.02546).
    ValidMean,
    /// Reward of the policy's greedy completion of the prompt, sampled beside the group (ReMax, arXiv 2310.10505):
    /// unbiased.
    Greedy,
}

/// Advantages of the groups of a step, in their order. Standard deviations are sample ones (divided by
/// G - 1); a group whose worths are all equal gets exact zeros from every baseline that is the group's own.
///
/// # Errors
/// A function of the user's that fails on a group.
pub fn advantages(plan: &Plan, groups: &[GroupStats]) -> Result<Vec<Vec<f64>>> {
    let worths: Vec<Vec<f64>> = groups
        .iter()
        .map(|stats| match &plan.anchor {
            Anchor::Target(matching) => {
                let samples = 0..stats.rewards.len();
                samples.map(|i| pseudo_reward(matching, stats, i).0).collect()
            }
            Anchor::None | Anchor::Base(_) => stats.rewards.clone(),
        })
        .collect();
    // Moments of the whole batch, which `batch` and `batch-std` divide by; no other baseline looks outside its group.
    let batch = BatchMoments::new(&worths, groups);
    groups
        .iter()
        .zip(worths)
        .map(|(stats, worths)| {
            let mut advantages = match &plan.rule {
                None => centred(plan.baseline, &worths, &batch, stats),
                Some(rule) => rule.advantages(stats)?,
            };
            if let Anchor::Base(regulariser) = &plan.anchor
                && regulariser.estimator == Estimator::Score
            {
                // grad D_f(pi || a) = E_pi[f'(pi / a) grad log pi]; for reverse KL f' is log pi - log a (k1). After the
                // baseline, so that no standard deviation divides it.
                let cost = |(pi, a): (&f64, &f64)| regulariser.divergence.f_prime(pi - a);
                let costs: Vec<f64> =
                    stats.behavior_logp.iter().zip(&stats.base_logp).map(cost).collect();
                let costs = less_the_others(&costs, stats.mass.as_deref());
                for (advantage, cost) in advantages.iter_mut().zip(costs) {
                    *advantage -= stats.beta * cost;
                }
            }
            Ok(advantages)
        })
        .collect()
}

/// Added to a standard deviation before it divides, as the field does.
const EPSILON: f64 = 1e-6;

/// The worths of all samples of a batch.
struct BatchMoments {
    mean: f64,
    deviation: f64,
    /// Groups over groups whose worths differ.
    per_valid: f64,
}

impl BatchMoments {
    /// Of the worths of each group, and the mass of each where they are whole distributions.
    fn new(worths: &[Vec<f64>], groups: &[GroupStats]) -> Self {
        let (all, count) = (worths.concat(), groups.len() as f64);
        let masses = groups.iter().flat_map(|stats| stats.mass.iter().flatten());
        let masses: Vec<f64> = masses.map(|mass| mass / count).collect();
        let mass = (!masses.is_empty()).then_some(&masses[..]);
        Self {
            mean: mean(&all, mass),
            deviation: deviation(&all, mass),
            per_valid: count / worths.iter().filter(|group| !is_even(group)).count().max(1) as f64,
        }
    }
}

/// Each worth of a group less the baseline's centre, times its scale.
fn centred(
    baseline: Baseline,
    group: &[f64],
    batch: &BatchMoments,
    stats: &GroupStats,
) -> Vec<f64> {
    let mass = stats.mass.as_deref();
    let (centre, scale) = match baseline {
        Baseline::None => return group.to_vec(),
        Baseline::Greedy => (stats.greedy.unwrap_or(0.0), 1.0),
        Baseline::Batch if batch.deviation == 0.0 => return vec![0.0; group.len()],
        Baseline::Batch => (batch.mean, 1.0 / (batch.deviation + EPSILON)),
        _ if is_even(group) => return vec![0.0; group.len()],
        Baseline::GroupMean => (mean(group, mass), 1.0),
        // A mean over the groups that have a gradient: those without one would only shrink the step.
        Baseline::ValidMean => (mean(group, mass), batch.per_valid),
        Baseline::Loo => (mean(group, mass), leave_one_out(group.len(), mass)),
        Baseline::BatchStd if mass.is_none() => {
            (mean(group, mass), 1.0 / (batch.deviation + EPSILON))
        }
        Baseline::GroupStd | Baseline::BatchStd => {
            (mean(group, mass), 1.0 / (deviation(group, mass) + EPSILON))
        }
    };
    group.iter().map(|worth| (worth - centre) * scale).collect()
}

/// `r - mean of the others = (r - mean of all) G / (G - 1)`.
fn leave_one_out(count: usize, mass: Option<&[f64]>) -> f64 {
    // A whole distribution is infinitely many samples, of which one changes no mean.
    if mass.is_some() { 1.0 } else { count as f64 / (count as f64 - 1.0) }
}

/// Each value minus the mean of the others, which leaves a gradient unbiased; 0 in a group of one.
pub(super) fn less_the_others(values: &[f64], mass: Option<&[f64]>) -> Vec<f64> {
    if values.len() < 2 {
        return vec![0.0; values.len()];
    }
    let (centre, scale) = (mean(values, mass), leave_one_out(values.len(), mass));
    values.iter().map(|value| (value - centre) * scale).collect()
}

/// Whether all values are the same. Their mean would round, and a deviation of 1e-17 would divide.
fn is_even(values: &[f64]) -> bool {
    values.iter().all(|value| *value == values[0])
}

/// The mean: exactly the value that all are.
pub(super) fn mean(values: &[f64], mass: Option<&[f64]>) -> f64 {
    match mass {
        _ if !values.is_empty() && is_even(values) => values[0],
        Some(mass) => values.iter().zip(mass).map(|(x, m)| x * m).sum(),
        None => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// The sample standard deviation, or that of the whole distribution; exactly 0 of equal values, and of one.
pub(crate) fn deviation(values: &[f64], mass: Option<&[f64]>) -> f64 {
    if is_even(values) {
        return 0.0;
    }
    let centre = mean(values, mass);
    let squares: Vec<f64> = values.iter().map(|x| (x - centre) * (x - centre)).collect();
    match mass {
        Some(_) => mean(&squares, mass).sqrt(),
        // Divided by G - 1, as in verl and TRL.
        None => (squares.iter().sum::<f64>() / (values.len() as f64 - 1.0)).sqrt(),
    }
}

/// The pseudo-reward of sample `i`, and whether it was cut: `-f'(pi / p)`, scaled so that a sample outside the target's
/// support gets -1 (alpha-DPG's own scale).
///
/// With a fixed Z the cut is of `(a / pi)^power`, Z's own power taken out: at the base nothing is cut
/// however hard the prompt, and what is cut later is what the policy has lost. With the group's own Z the
/// cut is the paper's, of the pseudo-reward itself; there it acts at G samples of power 1.
fn pseudo_reward(matching: &Matching, stats: &GroupStats, i: usize) -> (f64, bool) {
    debug_assert_eq!(matching.sampler, SampleSource::Policy);
    let limit = matching.divergence.at_infinity();
    // Over f'(inf), incorrect completions have -1 under every divergence.
    let scale = if limit.is_finite() { 1.0 / limit } else { 1.0 };
    let weight =
        matching.target.log_weight(stats.classes[i].is_some(), stats.normaliser, stats.beta);
    // Never log 0: what the target cannot produce costs the analytic limit.
    if weight == f64::NEG_INFINITY {
        return (-scale * limit, false);
    }
    let log_ratio = stats.behavior_logp[i] - stats.base_logp[i];
    let most = matching.max_reward;
    match matching.divergence.power().filter(|_| matching.partition == Partition::Fixed) {
        Some(power) => {
            // (p / pi)^power - 1 with p = e^weight a; e^weight is the prompt's constant 1 / Z.
            let growth = (-power * log_ratio).exp();
            ((power * weight).exp() * growth.min(most) - 1.0, growth > most)
        }
        None => {
            let worth = -scale * matching.divergence.f_prime(log_ratio - weight);
            (worth.min(most), worth > most)
        }
    }
}

/// Share of the correct samples whose pseudo-reward is clipped at the target's `max_reward`.
pub(crate) fn clipped_reward_ratio(matching: &Matching, groups: &[GroupStats]) -> f64 {
    let right = |stats: &GroupStats| -> Vec<bool> {
        let right = (0..stats.rewards.len()).filter(|i| stats.classes[*i].is_some());
        right.map(|i| pseudo_reward(matching, stats, i).1).collect()
    };
    let all: Vec<bool> = groups.iter().flat_map(right).collect();
    all.iter().filter(|is_cut| **is_cut).count() as f64 / all.len().max(1) as f64
}

/// Replaces a Z that was estimated as exactly 0 (alpha-DPG's default).
const NO_PARTITION: f64 = 1e-4;

/// The normaliser Z that an estimate from the policy's samples gives: at most 1, and replaced only where it is
/// exactly 0, as alpha-DPG's repository does. A small estimate stays what it is: a floor would turn the pseudo-reward
/// of a prompt's one correct sample from G - 1 to about -1.
fn partition_of(estimate: f64) -> f64 {
    if estimate == 0.0 { NO_PARTITION } else { estimate.min(1.0) }
}

impl GroupStats {
    /// Z, the validity of the base on the prompt, by importance sampling from the group itself, `mean(v a / pi)`. What
    /// multiplies it by the same samples again is self-normalised, and biased in small groups.
    fn online_normaliser(&self) -> f64 {
        let weight = |i: usize| match self.classes[i].is_some() {
            // E_pi[v a / pi] = a(v = 1) = Z.
            true => (self.base_logp[i] - self.behavior_logp[i]).exp(),
            false => 0.0,
        };
        let count = self.classes.len();
        (0..count).map(weight).sum::<f64>() / count as f64
    }
}

impl Matching {
    /// Replaces the stored normaliser of groups by importance sampling from the groups themselves, where the target
    /// asks for it. `sums` has the sum of the estimates of a prompt, by its id, and their number.
    pub(crate) fn estimate_partition<'a>(
        &self,
        ids: impl Iterator<Item = &'a str>,
        groups: &mut [GroupStats],
        sums: &mut BTreeMap<String, (f64, usize)>,
    ) {
        if self.partition == Partition::Fixed || self.sampler != SampleSource::Policy {
            return;
        }
        for (id, stats) in ids.zip(groups) {
            // The group's own Z makes p* / pi self-normalised, at most G: with few samples it seeks few answers.
            let online = stats.online_normaliser();
            stats.normaliser = partition_of(match self.partition {
                Partition::Cumulative => {
                    let (sum, count) = sums.entry(id.to_owned()).or_default();
                    *sum += online;
                    *count += 1;
                    *sum / *count as f64
                }
                Partition::Online | Partition::Fixed => online,
            });
        }
    }
}

/// The advantage of every token of the completions of a group: that of its completion, less `beta` times the cost of
/// the positions after it, less the mean of the same over the group's other samples. `costs` hold the cost of each
/// position, where a plan has one; with its own gradient in the loss, this makes the sum over positions an exact
/// objective of whole completions.
pub fn token_advantages(
    stats: &GroupStats,
    advantages: &[f64],
    costs: Option<&[Vec<f64>]>,
) -> Vec<Vec<f64>> {
    let each = advantages.iter().zip(&stats.lengths);
    let mut tokens: Vec<Vec<f64>> = each.map(|(one, length)| vec![*one; *length]).collect();
    let after = |row: &Vec<f64>| -> Vec<f64> {
        // Suffix sums without the position's own cost: sum_{s > t} cost_s.
        let mut left: f64 = row.iter().sum();
        row.iter()
            .map(|value| {
                left -= value;
                left
            })
            .collect()
    };
    // An early token also decides which prefixes later costs are paid at: E[sum_t grad log pi_t sum_{s > t} cost_s].
    let later: Vec<Vec<f64>> = costs.unwrap_or_default().iter().map(after).collect();
    let longest = later.iter().map(Vec::len).max().unwrap_or(0);
    for position in 0..longest {
        // The baseline at a position is the mean of the others at it; ended completions have no cost left.
        let at: Vec<f64> =
            later.iter().map(|row| row.get(position).copied().unwrap_or(0.0)).collect();
        for (row, cost) in tokens.iter_mut().zip(less_the_others(&at, stats.mass.as_deref())) {
            if let Some(advantage) = row.get_mut(position) {
                *advantage -= stats.beta * cost;
            }
        }
    }
    tokens
}

#[cfg(test)]
mod tests;
