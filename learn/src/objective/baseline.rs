//! The baselines of a sample's reward: its group's other samples, the batch, the greedy completion.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use super::group_stats::GroupStats;

/// The number that is subtracted from a reward, and the divisor of the difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Baseline {
    /// No baseline.
    None,
    /// Mean of the other samples (RLOO, arXiv 2402.14740): unbiased.
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

/// Added to a standard deviation before it divides, as the field does.
const EPSILON: f64 = 1e-6;

/// The worths of all samples of a batch.
pub(super) struct BatchMoments {
    mean: f64,
    deviation: f64,
    /// Groups over groups whose worths differ.
    per_valid: f64,
}

impl BatchMoments {
    /// Of the worths of each group, and the mass of each where they are whole distributions.
    pub(super) fn new<'a>(groups: impl Iterator<Item = (&'a [f64], Option<&'a [f64]>)>) -> Self {
        let (mut worths, mut masses, mut count, mut valid) = (vec![], vec![], 0.0, 0.0);
        for (group, mass) in groups {
            worths.extend_from_slice(group);
            masses.extend_from_slice(mass.unwrap_or_default());
            count += 1.0;
            valid += f64::from(u8::from(group.iter().any(|worth| *worth != group[0])));
        }
        masses.iter_mut().for_each(|mass| *mass /= count);
        let mass = (!masses.is_empty()).then_some(&masses[..]);
        // Equal worths are exactly 0 apart; their mean rounds, and a deviation of 1e-17 would divide.
        let is_even = worths.iter().all(|worth| *worth == worths[0]);
        Self {
            mean: mean(&worths, mass),
            deviation: if is_even { 0.0 } else { deviation(&worths, mass) },
            per_valid: count / f64::max(valid, 1.0),
        }
    }
}

/// Each worth of a group less the baseline's centre, times its scale.
pub(super) fn centred(
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
        _ if group.iter().all(|worth| *worth == group[0]) => return vec![0.0; group.len()],
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

pub(super) fn mean(values: &[f64], mass: Option<&[f64]>) -> f64 {
    match mass {
        Some(mass) => values.iter().zip(mass).map(|(x, m)| x * m).sum(),
        None => values.iter().sum::<f64>() / values.len() as f64,
    }
}

/// The sample standard deviation, or that of the whole distribution.
pub(super) fn deviation(values: &[f64], mass: Option<&[f64]>) -> f64 {
    let centre = mean(values, mass);
    let squares: Vec<f64> = values.iter().map(|x| (x - centre) * (x - centre)).collect();
    match mass {
        Some(_) => mean(&squares, mass).sqrt(),
        // Divided by G - 1, as in verl and TRL.
        None => (squares.iter().sum::<f64>() / (values.len() as f64 - 1.0)).sqrt(),
    }
}
