//! Objectives of sets in the laboratory: their gradients against their claims, their optima, their variance.

use tealight::lab::claim::claimed_gradient;
use tealight::lab::multisets::expected_gradient_of;
use tealight::lab::sampled::{Draws, estimate, off_base};
use tealight::lab::{Class, Descent, Table, World};
use tealight::learn::objective::{GroupStats, Objective, Plan, advantages};

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
