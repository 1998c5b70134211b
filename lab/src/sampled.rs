//! The real estimators in a world: what groups of samples give on average.

use anyhow::Result;
use candle_core::Tensor;

use super::exact::{Setting, gradient_of};
use super::{Class, Table, World};
use tealight_learn::objective::{GroupStats, Plan, advantages};

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
