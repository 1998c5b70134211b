//! Objectives that weigh a group's samples by their rarity, against their papers' formulas.

use tealight::lab::sampled::off_base;
use tealight::lab::{Class, World};
use tealight::learn::objective::{GroupStats, Objective, advantages};

/// Rules that claim no scalar, against their papers' formulas written out over all triples.
#[test]
fn rarity_rules_match_their_formulas() {
    let small = World::ends(3);
    let table = off_base(&small, Class::Bigram).expect("memory");
    let q = table.distributions(&small).expect("memory").remove(0);
    let right = &small.is_right[0];
    let count = q.len();
    for (text, is_ucpo) in [("ucpo", true), ("unlikeliness:divergence=none", false)] {
        let plan = text.parse::<Objective>().expect("possible").plan;
        let mut worst = 0.0_f64;
        for x in 0..count {
            for y in 0..count {
                for z in [0, 5, 13, 26] {
                    let group = [x, y, z];
                    let stats = GroupStats {
                        rewards: group.map(|i| f64::from(right[i])).into(),
                        classes: group.map(|i| right[i].then_some(i)).into(),
                        policy_logp: group.map(|i| q[i].ln()).into(),
                        reference_logp: vec![0.0; 3],
                        lengths: vec![3; 3],
                        solve_rate: 0.5,
                        beta: 0.0,
                        ..Default::default()
                    };
                    let ours = advantages(&plan, &[stats]).remove(0);
                    let exact = rarity(&group.map(|i| q[i]), &group.map(|i| right[i]), is_ucpo);
                    worst =
                        ours.iter().zip(exact).map(|(a, b)| (a - b).abs()).fold(worst, f64::max);
                }
            }
        }
        assert!(worst < 1e-9, "{text}: off by {worst}");
    }
}

/// UCPO and unlikeliness for three samples of three tokens, from the papers.
fn rarity(q: &[f64; 3], right: &[bool; 3], is_ucpo: bool) -> [f64; 3] {
    let mut worth = right.map(f64::from);
    if !is_ucpo {
        for i in 0..3 {
            let rank = (0..3).filter(|j| q[*j] < q[i] || (q[*j] == q[i] && *j < i)).count();
            worth[i] *= 1.0 - 0.25 * rank as f64 / 3.0;
        }
    }
    let mean = worth.iter().sum::<f64>() / 3.0;
    if worth.iter().all(|w| *w == worth[0]) {
        return [0.0; 3];
    }
    let spread = (worth.iter().map(|w| (w - mean).powi(2)).sum::<f64>() / 2.0).sqrt() + 1e-6;
    let mut advantage = worth.map(|w| (w - mean) / spread);
    if is_ucpo {
        let chance = |i: usize| q[i].powf(1.0 / 3.0);
        let total: f64 = (0..3).filter(|i| right[*i]).map(chance).sum();
        let inverse: f64 = (0..3).filter(|i| right[*i]).map(|i| total / chance(i)).sum();
        let num_correct = right.iter().filter(|right| **right).count() as f64;
        for i in (0..3).filter(|i| right[*i]) {
            advantage[i] *= num_correct * (0.8 / num_correct + 0.2 * (total / chance(i)) / inverse);
        }
    }
    advantage
}
