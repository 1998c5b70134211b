//! Tests of the objectives of sets: their gradients against their claims, their optima, their variance.
//!
//! Rules that see nothing of a sample but its solution class have an exact expected gradient for groups of any size:
//! groups are enumerated as how many of their samples each class has, with the chance of that.

use anyhow::Result;
use tealight_learn::objective::{GroupStats, Objective, Plan, advantages};

use super::claim::claimed_gradient;
use super::exact::{Setting, at_ratio_one, gradient_of};
use super::sampled::{Draws, estimate, off_base};
use super::world::EARLIER;
use super::{Class, Descent, Table, World};

fn plan(text: &str) -> Plan {
    text.parse::<Objective>().expect("possible").plan
}

/// Every group of n samples, by its classes: three correct answers and incorrect ones.
#[test]
fn gradients_of_set_objectives_match_their_closed_forms() {
    let world = World::ends(2);
    let table = off_base(&world, Class::Bigram).expect("memory");
    let sets = ["pass", "unique", "coverage", "polychromic"].into_iter().flat_map(|function| {
        [(2, "others", 3), (3, "none", 5), (4, "others", 8), (4, "marginal", 4), (6, "marginal", 9)]
            .map(|(k, baseline, n)| (format!("set:{function}:{k}:set-baseline={baseline}"), n))
    });
    let pairs = [("darling", 3), ("darling:set-baseline=marginal", 2), ("darling", 6)];
    let known = [("pkpo:4", 6), ("pass-at-k:3", 5), ("unique-at-k", 5), ("coverage-at-k:2", 4)];
    let more = pairs.into_iter().chain(known).map(|(text, n)| (text.to_owned(), n));
    for (text, group) in sets.chain(more) {
        let plan = plan(&text);
        let claim = claimed_gradient(&world, &table, &plan, group).expect("memory");
        let claim = claim.expect("it has a scalar of its own");
        let ours = expected_gradient_of(&world, &table, &plan, group).expect("memory");
        assert!(claim.iter().any(|x| x.abs() > 1e-3), "{text} claims to do nothing");
        for (ours, claim) in ours.iter().zip(&claim) {
            assert!((ours - claim).abs() < 1e-9, "{text}, n = {group}: {ours} is not {claim}");
        }
    }
}

#[test]
fn set_objective_of_pass_equals_pkpo() {
    let classes = [Some(0), None, None, Some(3), Some(0), None, None, None];
    let stats = GroupStats {
        rewards: classes.iter().map(|class| f64::from(u8::from(class.is_some()))).collect(),
        classes: classes.into(),
        ..GroupStats::default()
    };
    for k in [1, 3, 7] {
        let advantages_of = |name: &str| {
            advantages(&plan(&format!("{name}:{k}")), std::slice::from_ref(&stats)).remove(0)
        };
        for (set, pkpo) in advantages_of("set:pass").into_iter().zip(advantages_of("pkpo")) {
            assert!((set - pkpo).abs() < 1e-11, "k {k}: {set} {pkpo}");
        }
    }
}

/// Where a policy can be anything, Pass@k is content with one answer, and what counts distinct answers spreads over all
/// of them alike, whatever the base prefers.
#[test]
fn counting_distinct_answers_has_the_uniform_policy_as_its_optimum() {
    let world = World::ends(2);
    let ends_at = |text: &str| {
        let (plan, table) = (plan(text), Table::base(&world, Class::Full).expect("memory"));
        let descent = Descent { iterations: 4000, learning_rate: 0.05 };
        let claim = |table: &Table| {
            Ok(claimed_gradient(&world, table, &plan, 8)?.expect("it has a scalar of its own"))
        };
        descent.run(&table, claim).expect("memory");
        let q = table.distributions(&world).expect("memory").remove(0);
        let right = q.into_iter().zip(&world.is_right[0]).filter(|(_, right)| **right);
        right.map(|(q, _)| q).collect::<Vec<f64>>()
    };
    for text in ["unique-at-k:4", "coverage-at-k:2", "darling", "polychromic:4"] {
        for q in ends_at(text) {
            assert!((q - 1.0 / 3.0).abs() < 2e-3, "{text}: {q}");
        }
    }
    let pass = ends_at("set:pass:4");
    assert!(pass.iter().sum::<f64>() > 0.95, "{pass:?}");
    assert!(
        pass.iter().any(|q| (q - 1.0 / 3.0).abs() > 0.05),
        "uniform without a reason: {pass:?}"
    );
}

/// The sets without a sample are the baseline with the least noise; docs/objectives.md has the table.
#[test]
fn leave_one_out_baseline_reduces_most_of_the_variance() {
    let world = World::ends(5);
    let table = off_base(&world, Class::Bigram).expect("memory");
    let draws = Draws { group: 8, groups: 4000, seed: 1 };
    for function in ["pass", "unique", "polychromic", "pair"] {
        let k = if function == "pair" { "" } else { ":4" };
        let noise = |baseline: &str| {
            let plan = plan(&format!("set:{function}{k}:set-baseline={baseline}"));
            estimate(&world, &table, &plan, draws).expect("memory").noise
        };
        let [plain, marginal, others] = ["none", "marginal", "others"].map(noise);
        println!("{function}: plain {plain:.3}, marginal {marginal:.3}, others {others:.3}");
        assert!(others < 0.7 * plain, "{function}: {others} {plain}");
    }
}

/// The expected gradient of groups of `group` samples.
fn expected_gradient_of(
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
