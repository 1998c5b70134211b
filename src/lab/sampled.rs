//! The real estimators in a world: what groups of samples give on average, and how much they scatter.

use anyhow::Result;
use candle_core::{D, Tensor};
use candle_nn::ops::log_softmax;

use super::exact::{Setting, at_ratio_one, gradient_of};
use super::{Class, Table, World};
use crate::generate::Noise;
use crate::objective::{
    AdvantageEstimator, Anchor, Estimator, GroupStats, Partition, Plan, SampleSource, advantages,
    charge_later,
};

/// Whether two samples are too few for the plan's rule.
pub fn needs_larger_groups(plan: &Plan) -> bool {
    matches!(plan.rule, AdvantageEstimator::Pkpo { k } | AdvantageEstimator::PassAtK { k } if k > 1)
}

/// A policy of `class` that is not the base, always the same.
///
/// # Errors
/// No memory.
pub fn off_base(world: &World, class: Class) -> Result<Table> {
    let table = Table::base(world, class)?;
    let logits = table.logits.flatten_all()?.to_vec1::<f64>()?;
    let moved: Vec<f64> =
        logits.iter().enumerate().map(|(i, x)| x + 0.5 * (1.7 * i as f64 + 0.4).sin()).collect();
    table.logits.set(&Tensor::from_vec(moved, table.logits.shape(), table.logits.device())?)?;
    Ok(table)
}

/// The expected gradient of groups of two: every pair of outputs, weighed by its chance, through the
/// advantages and losses of real runs.
///
/// # Errors
/// No memory.
pub fn expected_gradient(world: &World, table: &Table, plan: &Plan) -> Result<Vec<f64>> {
    let plan = at_ratio_one(plan);
    let setting = Setting::unchecked(world, &plan)?;
    if !plan.is_on_policy() {
        return setting.gradient(table);
    }
    let stats = setting.stats(table)?;
    let mut expected = Vec::new();
    for stats in &stats {
        let mass = stats.mass.as_deref().unwrap_or_default();
        let mut advantage = vec![0.0; mass.len()];
        for y in 0..mass.len() {
            for z in 0..mass.len() {
                let pair = advantages(&plan, &[drawn(stats, &[y, z])]).remove(0);
                advantage[y] += 0.5 * mass[z] * pair[0];
                advantage[z] += 0.5 * mass[y] * pair[1];
            }
        }
        expected.push(advantage);
    }
    gradient_of(&setting.loss_of(table, &stats, expected)?, table)
}

/// The stats of some outputs as samples.
fn drawn(all: &GroupStats, outputs: &[usize]) -> GroupStats {
    let of = |values: &[f64]| outputs.iter().map(|y| values[*y]).collect();
    GroupStats {
        rewards: of(&all.rewards),
        is_correct: outputs.iter().map(|y| all.is_correct[*y]).collect(),
        policy_logp: of(&all.policy_logp),
        reference_logp: of(&all.reference_logp),
        lengths: outputs.iter().map(|y| all.lengths[*y]).collect(),
        validity: all.validity,
        beta: all.beta,
        mass: None,
    }
}

/// How groups are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Draws {
    /// Samples of a group.
    pub group: usize,
    /// Groups.
    pub groups: usize,
    /// Seed.
    pub seed: u64,
}

/// What the groups gave.
#[derive(Debug, Clone)]
pub struct Estimated {
    /// Mean gradient over groups.
    pub mean: Vec<f64>,
    /// Standard error of the mean.
    pub error: Vec<f64>,
    /// Root of the summed variances of one group's gradient.
    pub noise: f64,
}

/// A policy's tables on the host, for gradients of single samples.
pub(super) struct Scores {
    /// `pi [C][V]`.
    next: Vec<Vec<f64>>,
    /// Context and token of every token of every row.
    cells: Vec<Vec<(usize, usize)>>,
}

impl Scores {
    pub(super) fn new(table: &Table) -> Result<Self> {
        let next = log_softmax(table.logits.as_tensor(), D::Minus1)?.exp()?.to_vec2::<f64>()?;
        let vocabulary = next[0].len();
        let cells = table.cell_rows()?;
        let split = |row: Vec<u32>| {
            row.into_iter()
                .map(|cell| (cell as usize / vocabulary, cell as usize % vocabulary))
                .collect()
        };
        Ok(Self { next, cells: cells.into_iter().map(split).collect() })
    }

    /// Adds `factor` times the gradient of token `place` of `row` in the logits.
    fn add_token(&self, row: usize, place: usize, factor: f64, gradient: &mut [f64]) {
        let (context, token) = self.cells[row][place];
        let next = &self.next[context];
        let slots = &mut gradient[context * next.len()..(context + 1) * next.len()];
        for (index, (slot, chance)) in slots.iter_mut().zip(next).enumerate() {
            *slot += factor * (f64::from(u8::from(index == token)) - chance);
        }
    }

    /// Adds `factor` times the gradient of the whole row's log-probability.
    pub(super) fn add(&self, row: usize, factor: f64, gradient: &mut [f64]) {
        (0..self.cells[row].len()).for_each(|place| self.add_token(row, place, factor, gradient));
    }

    pub(super) fn size(&self) -> usize {
        self.next.len() * self.next[0].len()
    }
}

/// Draws groups and averages their gradients (of the loss, token means over the length). Groups visit
/// prompts in turn. A group's stored samples are as many as its own.
///
/// # Errors
/// No memory.
pub fn estimate(world: &World, table: &Table, plan: &Plan, draws: Draws) -> Result<Estimated> {
    let setting = Setting::unchecked(world, plan)?;
    let scores = Scores::new(table)?;
    let stats = setting.stats(table)?;
    let positions = Positions::new(&setting, table)?;
    let (outputs, length) = (world.outputs.len(), world.length() as f64);
    let (mut sum, mut squares) = (vec![0.0; scores.size()], vec![0.0; scores.size()]);
    let mut stream = Noise { seed: draws.seed, step: 0 }.stream(0, 0);
    for number in 0..draws.groups {
        let prompt = number % world.is_right.len();
        let first = prompt * outputs;
        let all = &stats[prompt];
        let policy = Cumulative::new(all.mass.as_deref().unwrap_or_default());
        let mut gradient = vec![0.0; scores.size()];
        if plan.is_on_policy() {
            let picks: Vec<usize> =
                (0..draws.group).map(|_| policy.pick(stream.uniform())).collect();
            let mut group = drawn(all, &picks);
            if plan.matching().is_some_and(|m| m.partition != Partition::Fixed) {
                group.validity = group.online_validity().clamp(1e-4, 1.0);
            }
            let by_sample = advantages(plan, std::slice::from_ref(&group)).remove(0);
            let mut advantage: Vec<Vec<f64>> =
                by_sample.iter().map(|advantage| vec![*advantage; world.length()]).collect();
            if let Some(charged) = plan.charges_later() {
                let values: Vec<Vec<f64>> =
                    picks.iter().map(|y| positions.cost[first + y].clone()).collect();
                charge_later(&values, charged.beta, &mut advantage, None);
            }
            let share = 1.0 / (draws.group as f64 * length);
            for (y, advantage) in picks.iter().zip(&advantage) {
                for (place, advantage) in advantage.iter().enumerate() {
                    let row = first + y;
                    let own = positions.slope[row][place] - advantage;
                    scores.add_token(row, place, share * own, &mut gradient);
                    positions.add_pathwise(&scores, row, place, share, &mut gradient);
                }
            }
        }
        let sampler = match &plan.anchor {
            Anchor::Base(r) if r.sampler != SampleSource::Policy => Some(r.sampler),
            Anchor::Target(m) if m.sampler != SampleSource::Policy => Some(m.sampler),
            _ => None,
        };
        if let Some(sampler) = sampler {
            let stored = setting.stored(sampler);
            let stored = Cumulative::new(&stored[first..first + outputs]);
            for _ in 0..draws.group {
                let row = first + stored.pick(stream.uniform());
                for (place, slope) in positions.stored_slope[row].iter().enumerate() {
                    let factor = slope / draws.group as f64;
                    scores.add_token(row, place, factor, &mut gradient);
                }
            }
        }
        for (index, value) in gradient.into_iter().enumerate() {
            sum[index] += value;
            squares[index] += value * value;
        }
    }
    let count = draws.groups as f64;
    let mean: Vec<f64> = sum.iter().map(|sum| sum / count).collect();
    let variance: Vec<f64> = squares
        .iter()
        .zip(&mean)
        .map(|(s, m)| (s / count - m * m).max(0.0) * count / (count - 1.0))
        .collect();
    Ok(Estimated {
        error: variance.iter().map(|v| (v / count).sqrt()).collect(),
        noise: variance.iter().sum::<f64>().sqrt(),
        mean,
    })
}

/// Slopes of the losses of single tokens, and costs of positions, for every row.
struct Positions {
    /// Of curves on the policy's own tokens.
    slope: Vec<Vec<f64>>,
    /// Of curves on stored tokens, their share included.
    stored_slope: Vec<Vec<f64>>,
    /// Divergence at every position, or where k2 estimates it the token's log-ratio.
    cost: Vec<Vec<f64>>,
    /// Its gradient, and the entropy's, in the logits of the position's context.
    pathwise: Vec<Vec<Vec<f64>>>,
}

impl Positions {
    fn new(setting: &Setting<'_>, table: &Table) -> Result<Self> {
        let (plan, length) = (setting.plan, setting.world.length());
        let ratio = setting.token_log_ratio(table)?;
        let (policy, base) = setting.next_distributions(table)?;
        let (mut slope, mut stored_slope) = (Vec::new(), Vec::new());
        let (mut cost, mut pathwise) = (Vec::new(), Vec::new());
        for (row, ratios) in ratio.iter().enumerate() {
            let of_policy = |x: &f64| plan.token_loss().map_or(0.0, |(c, beta)| beta * c.slope(*x));
            slope.push(ratios.iter().map(of_policy).collect::<Vec<f64>>());
            stored_slope.push(setting.stored_slopes(row, ratios));
            let (mut costs, mut paths) = (Vec::new(), Vec::new());
            let k2 = plan.regulariser().filter(|r| r.estimator == Estimator::K2);
            for (place, ratio) in (row * length..(row + 1) * length).zip(ratios) {
                let (pi, a) = (&policy[place], &base[place]);
                let mut path = vec![0.0; pi.len()];
                let mut total = if k2.is_some() { *ratio } else { 0.0 };
                if let Some(full) = plan.regulariser().filter(|r| r.estimator == Estimator::Full) {
                    let x = |v: usize| (pi[v] / a[v]).ln();
                    total = (0..pi.len()).map(|v| a[v] * full.divergence.f(x(v))).sum();
                    let mean: f64 =
                        (0..pi.len()).map(|v| pi[v] * full.divergence.f_prime(x(v))).sum();
                    for (v, path) in path.iter_mut().enumerate() {
                        *path += full.beta * pi[v] * (full.divergence.f_prime(x(v)) - mean);
                    }
                }
                if plan.entropy.bonus != 0.0 {
                    let entropy: f64 = pi.iter().map(|p| -p * p.ln()).sum();
                    for (v, path) in path.iter_mut().enumerate() {
                        *path += plan.entropy.bonus * pi[v] * (pi[v].ln() + entropy);
                    }
                }
                costs.push(total);
                paths.push(path);
            }
            cost.push(costs);
            pathwise.push(paths);
        }
        Ok(Self { slope, stored_slope, cost, pathwise })
    }

    fn add_pathwise(
        &self,
        scores: &Scores,
        row: usize,
        place: usize,
        share: f64,
        gradient: &mut [f64],
    ) {
        let (context, _) = scores.cells[row][place];
        let path = &self.pathwise[row][place];
        for (slot, slope) in gradient[context * path.len()..].iter_mut().zip(path) {
            *slot += share * slope;
        }
    }
}

/// Sampling from a fixed distribution by its cumulative sums.
pub(super) struct Cumulative(Vec<f64>);

impl Cumulative {
    pub(super) fn new(chances: &[f64]) -> Self {
        let mut sum = 0.0;
        let mut sums: Vec<f64> = chances
            .iter()
            .map(|chance| {
                sum += chance;
                sum
            })
            .collect();
        sums.iter_mut().for_each(|value| *value /= sum);
        Self(sums)
    }

    pub(super) fn pick(&self, uniform: f64) -> usize {
        self.0.partition_point(|sum| *sum <= uniform).min(self.0.len() - 1)
    }
}
