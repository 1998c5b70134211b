//! The real estimators in a world: what groups of samples give on average, and how much they scatter.

use anyhow::Result;
use candle_core::{D, Device, Tensor, Var};
use candle_nn::ops::log_softmax;

use super::exact::{Setting, Terms, gradient_of};
use super::{Class, Table, World};
use tealight_learn::objective::{
    Anchor, Completions, GroupStats, Offsets, Partition, Plan, SampleSource, advantages,
    partition_of, subtract_penalty_to_go,
};
use tealight_nn::generate::RngKey;

/// A policy of `class` that is not the base, always the same.
pub fn off_base(world: &World, class: Class) -> Result<Table> {
    let table = Table::base(world, class)?;
    let logits = table.logits.flatten_all()?.to_vec1::<f64>()?;
    let moved: Vec<f64> =
        logits.iter().enumerate().map(|(i, x)| x + 0.5 * (1.7 * i as f64 + 0.4).sin()).collect();
    table.logits.set(&Tensor::from_vec(moved, table.logits.shape(), table.logits.device())?)?;
    Ok(table)
}

/// The expected gradient of groups of `group` samples: every multiset of outputs, weighed by its chance, through the
/// advantages and losses of real runs.
pub fn expected_in_groups(
    world: &World,
    table: &Table,
    plan: &Plan,
    group: usize,
) -> Result<Vec<f64>> {
    let setting = Setting::unchecked(world, plan)?;
    if !plan.is_on_policy() {
        return setting.gradient(table);
    }
    let stats = setting.stats(table)?;
    let mut expected = Vec::new();
    for stats in &stats {
        let mass = stats.mass.as_deref().unwrap_or_default();
        let mut advantage = vec![0.0; mass.len()];
        let mut outputs = vec![0; group];
        loop {
            // Orders of the multiset, over which its samples are exchanged: G! / prod m!.
            let runs = outputs.chunk_by(|a, b| a == b).map(|run| factorial(run.len()));
            let orders = factorial(group) / runs.product::<f64>();
            let chance = orders * outputs.iter().map(|y| mass[*y]).product::<f64>();
            let found = advantages(plan, &[sample_stats(stats, &outputs)])?.remove(0);
            for (y, one) in outputs.iter().zip(found) {
                // The loss multiplies by pi(y) again, as for an output that stands for itself.
                advantage[*y] += chance / group as f64 * one / mass[*y];
            }
            // The next multiset in order: the last entry that can grow, and all after it equal to it.
            let Some(last) = outputs.iter().rposition(|y| y + 1 < mass.len()) else { break };
            let next = outputs[last] + 1;
            outputs[last..].fill(next);
        }
        expected.push(advantage);
    }
    gradient_of(&setting.loss_of(table, &stats, expected)?, table)
}

fn factorial(n: usize) -> f64 {
    (1..=n).map(|i| i as f64).product()
}

/// The stats of some outputs as samples.
fn sample_stats(all: &GroupStats, outputs: &[usize]) -> GroupStats {
    let select = |values: &[f64]| outputs.iter().map(|y| values[*y]).collect();
    GroupStats {
        rewards: select(&all.rewards),
        classes: outputs.iter().map(|y| all.classes[*y]).collect(),
        behavior_logp: select(&all.behavior_logp),
        base_logp: select(&all.base_logp),
        lengths: outputs.iter().map(|y| all.lengths[*y]).collect(),
        normaliser: all.normaliser,
        beta: all.beta,
        greedy: all.greedy,
        step: all.step,
        progress: all.progress,
        mass: None,
    }
}

/// Number and size of sampled groups.
#[derive(Debug, Clone, Copy)]
pub struct Draws {
    /// Samples of a group.
    pub group: usize,
    /// Number of groups.
    pub groups: usize,
    /// Seed of the random numbers that outputs are sampled by.
    pub seed: u64,
}

/// A gradient estimated from sampled groups.
#[derive(Debug, Clone)]
pub struct GradientEstimate {
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

    /// Adds the gradient of the logits at token `position` of `row` for that of the token's log-probability.
    fn add_token(&self, row: usize, position: usize, factor: f64, gradient: &mut [f64]) {
        let (context, token) = self.cells[row][position];
        let next = &self.next[context];
        let slots = &mut gradient[context * next.len()..(context + 1) * next.len()];
        for (index, (slot, chance)) in slots.iter_mut().zip(next).enumerate() {
            // grad log softmax = onehot - pi.
            *slot += factor * (f64::from(u8::from(index == token)) - chance);
        }
    }

    /// The same for that of all log-probabilities there, `[V]`.
    fn add_next(&self, row: usize, position: usize, factors: &[f64], gradient: &mut [f64]) {
        let (context, _) = self.cells[row][position];
        let next = &self.next[context];
        // d log softmax_j / d x_i = [i = j] - pi_i, summed over j times its factor.
        let all: f64 = factors.iter().sum();
        let slots = &mut gradient[context * next.len()..(context + 1) * next.len()];
        for ((slot, chance), factor) in slots.iter_mut().zip(next).zip(factors) {
            *slot += factor - chance * all;
        }
    }

    pub(super) fn size(&self) -> usize {
        self.next.len() * self.next[0].len()
    }
}

/// The tokens of all rows of a world on the host, from which groups are put together.
struct Tokens {
    /// Log-probabilities of tokens, `[rows][L]`, under the policy and the base.
    logp: [Vec<Vec<f64>>; 2],
    /// Those of whole distributions, `[rows * L][V]`.
    next: [Vec<Vec<f64>>; 2],
    length: usize,
}

impl Tokens {
    fn new(setting: &Setting<'_>, table: &Table) -> Result<Self> {
        let logp = [&table.token_logp()?.detach(), &setting.base_logp].map(Tensor::to_vec2::<f64>);
        let next = [&table.next_logp()?.detach(), &setting.base_next].map(Tensor::to_vec2::<f64>);
        let ([policy, base], [policy_next, base_next]) = (logp, next);
        Ok(Self {
            logp: [policy?, base?],
            next: [policy_next?, base_next?],
            length: setting.world.length(),
        })
    }

    /// Of `which`, the log-probabilities `[N]` of the tokens of some rows.
    fn logp(&self, which: usize, rows: &[usize]) -> Result<Tensor> {
        let values: Vec<f64> = rows.iter().flat_map(|row| self.logp[which][*row].clone()).collect();
        Ok(Tensor::from_slice(&values, values.len(), &Device::Cpu)?)
    }

    fn positions(&self, rows: &[usize]) -> impl Iterator<Item = usize> {
        let length = self.length;
        rows.iter().copied().flat_map(move |row| row * length..(row + 1) * length)
    }

    /// Of `which`, the distributions `[N, V]` that the tokens of some rows are from.
    fn next(&self, which: usize, rows: &[usize]) -> Result<Tensor> {
        let values: Vec<f64> =
            self.positions(rows).flat_map(|position| self.next[which][position].clone()).collect();
        let shape = (rows.len() * self.length, self.next[which][0].len());
        Ok(Tensor::from_slice(&values, shape, &Device::Cpu)?)
    }
}

/// The gradients of single groups by the losses of real runs.
struct Groups<'a> {
    setting: &'a Setting<'a>,
    scores: &'a Scores,
    tokens: Tokens,
}

impl Groups<'_> {
    /// Adds the gradient of a group's rollouts with these advantages a token.
    fn add_rollouts(&self, rows: &[usize], advantage: &[f64], gradient: &mut [f64]) -> Result<()> {
        let (length, tokens) = (self.tokens.length, &self.tokens);
        let logp = Var::from_tensor(&tokens.logp(0, rows)?)?;
        let next = Var::from_tensor(&tokens.next(0, rows)?)?;
        let weight = self.setting.token_weight() / rows.len() as f64;
        let terms = Terms {
            completions: &Completions::new(vec![length; rows.len()], &Device::Cpu)?,
            policy: (logp.as_tensor(), next.as_tensor()),
            base: (&tokens.logp(1, rows)?, &tokens.next(1, rows)?),
            advantage: advantage.to_vec(),
            weight: vec![weight; rows.len() * length],
        };
        // Losses are functions of log-probabilities: their gradients there go on to logits by the softmax's.
        let mut grads = terms.loss(self.setting.plan)?.backward()?;
        self.add_tokens(rows, grads.remove(&logp), gradient)?;
        let Some(factors) = grads.remove(&next) else { return Ok(()) };
        let factors = factors.to_vec2::<f64>()?;
        for (index, factors) in factors.iter().enumerate() {
            let (row, position) = (rows[index / length], index % length);
            self.scores.add_next(row, position, factors, gradient);
        }
        Ok(())
    }

    /// Adds the gradient of stored completions of the base.
    fn add_stored(&self, rows: &[usize], gradient: &mut [f64]) -> Result<()> {
        let logp = Var::from_tensor(&self.tokens.logp(0, rows)?)?;
        let completions = Completions::new(vec![self.tokens.length; rows.len()], &Device::Cpu)?;
        let mass = vec![1.0 / rows.len() as f64; rows.len()];
        let base = self.tokens.logp(1, rows)?;
        let loss =
            self.setting.stored_loss_of(logp.as_tensor(), &base, &completions, (rows, &mass))?;
        let mut grads = loss.backward()?;
        self.add_tokens(rows, grads.remove(&logp), gradient)
    }

    fn add_tokens(
        &self,
        rows: &[usize],
        factors: Option<Tensor>,
        gradient: &mut [f64],
    ) -> Result<()> {
        let Some(factors) = factors else { return Ok(()) };
        let length = self.tokens.length;
        for (index, factor) in factors.to_vec1::<f64>()?.into_iter().enumerate() {
            self.scores.add_token(rows[index / length], index % length, factor, gradient);
        }
        Ok(())
    }
}

/// Draws groups and averages their gradients (of the loss, token means over the length). Groups visit
/// prompts in turn. A group's stored samples are as many as its own.
pub fn estimate(
    world: &World,
    table: &Table,
    plan: &Plan,
    draws: Draws,
) -> Result<GradientEstimate> {
    let setting = Setting::unchecked(world, plan)?;
    let scores = Scores::new(table)?;
    let stats = setting.stats(table)?;
    let tokens = Tokens::new(&setting, table)?;
    let groups = Groups { setting: &setting, scores: &scores, tokens };
    let costs = plan.penalty_to_go().map(|r| setting.position_costs(r, table)).transpose()?;
    let outputs = world.outputs.len();
    let all_offsets = Offsets::new(vec![world.length(); outputs * stats.len()]);
    let group_offsets = Offsets::new(vec![world.length(); draws.group]);
    let (mut sum, mut squares) = (vec![0.0; scores.size()], vec![0.0; scores.size()]);
    let mut stream = RngKey { seed: draws.seed, step: 0 }.stream(0, 0);
    for number in 0..draws.groups {
        let prompt = number % world.is_right.len();
        let first = prompt * outputs;
        let all = &stats[prompt];
        let policy = Cumulative::new(all.mass.as_deref().unwrap_or_default());
        let mut gradient = vec![0.0; scores.size()];
        if plan.is_on_policy() {
            let picks: Vec<usize> =
                (0..draws.group).map(|_| policy.pick(stream.uniform())).collect();
            let mut group = sample_stats(all, &picks);
            if plan.matching().is_some_and(|m| m.partition != Partition::Fixed) {
                group.normaliser = partition_of(group.online_normaliser());
            }
            let by_sample = advantages(plan, std::slice::from_ref(&group))?.remove(0);
            let mut advantage = group_offsets.spread(&by_sample);
            let rows: Vec<usize> = picks.iter().map(|y| first + y).collect();
            if let (Some(regulariser), Some(costs)) = (plan.penalty_to_go(), &costs) {
                let values = all_offsets.gather(costs, &rows);
                subtract_penalty_to_go(
                    &group_offsets,
                    &values,
                    regulariser.beta,
                    &mut advantage,
                    None,
                );
            }
            groups.add_rollouts(&rows, &advantage, &mut gradient)?;
        }
        let sampler = match &plan.anchor {
            Anchor::Base(r) if r.sampler != SampleSource::Policy => Some(r.sampler),
            Anchor::Target(m) if m.sampler != SampleSource::Policy => Some(m.sampler),
            _ => None,
        };
        if let Some(sampler) = sampler {
            let stored = setting.stored(sampler);
            let stored = Cumulative::new(&stored[first..first + outputs]);
            let rows: Vec<usize> =
                (0..draws.group).map(|_| first + stored.pick(stream.uniform())).collect();
            groups.add_stored(&rows, &mut gradient)?;
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
    Ok(GradientEstimate {
        error: variance.iter().map(|v| (v / count).sqrt()).collect(),
        noise: variance.iter().sum::<f64>().sqrt(),
        mean,
    })
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
