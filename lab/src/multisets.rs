//! The expected gradient of groups of any size, for rules that see nothing of a sample but its solution class: groups
//! are enumerated as how many of their samples each class has, with the chance of that.

use anyhow::Result;

use super::exact::{Setting, at_ratio_one, gradient_of};
use super::world::EARLIER;
use super::{Table, World};
use tealight_learn::objective::{GroupStats, Plan, advantages};

/// The expected gradient of groups of `group` samples.
pub fn expected_gradient_of(
    world: &World,
    table: &Table,
    plan: &Plan,
    group: usize,
) -> Result<Vec<f64>> {
    let plan = at_ratio_one(plan);
    let setting = Setting::unchecked(world, &plan)?;
    let stats = setting.stats(table)?;
    let mut expected = Vec::new();
    for stats in &stats {
        let mass = stats.mass.as_deref().unwrap_or_default();
        // The classes, and incorrect outputs as one more.
        let mut kinds: Vec<(Option<usize>, f64)> = Vec::new();
        for (class, mass) in stats.classes.iter().zip(mass) {
            match kinds.iter_mut().find(|(known, _)| known == class) {
                Some((_, chance)) => *chance += mass,
                None => kinds.push((*class, *mass)),
            }
        }
        let mut by_kind = vec![0.0; kinds.len()];
        for counts in multisets(kinds.len(), group) {
            let chance = multinomial(&counts, &kinds);
            let classes = counts.iter().zip(&kinds);
            let classes: Vec<Option<usize>> =
                classes.flat_map(|(count, (class, _))| vec![*class; *count]).collect();
            let ours = advantages(&plan, &[group_stats(&classes, stats.total)]).remove(0);
            let mut first = 0;
            for (kind, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
                // Samples of a class have one advantage. By exchangeability the mean over them is mass(class) E[A |
                // class].
                by_kind[kind] += chance * *count as f64 * ours[first] / group as f64;
                first += count;
            }
        }
        let advantage = |class: &Option<usize>| {
            let kind = kinds.iter().position(|(known, _)| known == class);
            kind.map_or(0.0, |kind| by_kind[kind] / kinds[kind].1)
        };
        expected.push(stats.classes.iter().map(advantage).collect());
    }
    gradient_of(&setting.loss_of(table, &stats, expected)?, table)
}

fn group_stats(classes: &[Option<usize>], total: Option<u64>) -> GroupStats {
    GroupStats {
        rewards: classes.iter().map(|class| f64::from(u8::from(class.is_some()))).collect(),
        classes: classes.to_vec(),
        policy_logp: vec![0.0; classes.len()],
        reference_logp: vec![0.0; classes.len()],
        lengths: vec![1; classes.len()],
        solve_rate: 0.5,
        total,
        earlier: EARLIER,
        ..GroupStats::default()
    }
}

/// Every way to have `size` samples of so many kinds, as the samples of each.
fn multisets(kinds: usize, size: usize) -> Vec<Vec<usize>> {
    if kinds == 1 {
        return vec![vec![size]];
    }
    let mut all = Vec::new();
    for first in 0..=size {
        for mut rest in multisets(kinds - 1, size - first) {
            rest.insert(0, first);
            all.push(rest);
        }
    }
    all
}

fn multinomial(counts: &[usize], kinds: &[(Option<usize>, f64)]) -> f64 {
    let (mut chance, mut trials) = (1.0, 0);
    for (count, (_, mass)) in counts.iter().zip(kinds) {
        for index in 1..=*count {
            trials += 1;
            chance *= mass * trials as f64 / index as f64;
        }
    }
    chance
}
