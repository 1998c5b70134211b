//! Advantages and weights of the tokens of a batch.

use super::*;
use crate::objective::Objective;

const LENGTHS: [usize; 4] = [2, 1, 3, 2];

fn plan(text: &str) -> Plan {
    text.parse::<Objective>().unwrap().plan
}

/// Two groups of two completions, the first of each correct.
fn scored() -> TokenBatch {
    let stats = |lengths: &[usize]| GroupStats {
        rewards: vec![1.0, 0.0],
        classes: vec![Some(0), None],
        behavior_logp: vec![-1.0; 2],
        base_logp: vec![-1.0; 2],
        lengths: lengths.to_vec(),
        normaliser: 0.5,
        beta: 0.25,
        ..GroupStats::default()
    };
    let completion = |length| TrainingCompletion {
        sequence: Sequence { prompt: vec![1], completion: vec![2; length] },
        counts: true,
        values: TokenValues {
            behavior_logp: vec![-0.25; length],
            base_logp: vec![],
            advantage: vec![],
            weight: vec![1.0; length],
        },
        base: None,
    };
    TokenBatch {
        completions: LENGTHS.map(completion).into(),
        mini_batches: vec![],
        stats: LENGTHS.chunks(2).map(stats).collect(),
        mismatch: None,
    }
}

/// The batch with its advantages and weights, and these of all tokens.
fn finish(
    text: &str,
    mut batch: TokenBatch,
    costs: Option<&[Vec<f64>]>,
) -> (TokenBatch, [Vec<f64>; 2]) {
    let plan = plan(text);
    batch.set_advantages(&advantages(&plan, &batch.stats).unwrap(), costs);
    batch.set_weights(&plan, 4);
    let tokens = |values: fn(&TokenValues) -> &Vec<f64>| -> Vec<f64> {
        batch.completions.iter().flat_map(|one| values(&one.values)).copied().collect()
    };
    let tokens = [tokens(|one| &one.advantage), tokens(|one| &one.weight)];
    (batch, tokens)
}

#[test]
fn advantages_and_weights_stand_at_every_token() {
    let text = "rloo:loss-type=dapo:steps-per-generation=2:trust-region=ppo";
    let mut groups = scored();
    groups.completions[2].counts = false;
    let (batch, [advantage, weight]) = finish(text, groups, None);
    assert_eq!(batch.mini_batches, [0..2, 2..4]);
    assert_eq!(advantage, [1.0, 1.0, -1.0, 1.0, 1.0, 1.0, -1.0, -1.0]);
    let third = 1.0 / 3.0;
    assert_eq!(weight, [third, third, third, 0.0, 0.0, 0.0, 0.5, 0.5]);
    assert_eq!((batch.weighted(0), batch.weighted(1)), ((3, 2), (2, 1)));
    let zero = batch.completions.iter().map(|one| one.is_zero_gradient(&plan(text)));
    assert_eq!(zero.collect::<Vec<_>>(), [false, false, true, false]);
    assert_eq!(batch.first_advantages(), [1.0, -1.0, 1.0, -1.0]);
}

#[test]
fn importance_multiplies_weights_and_costs_lower_the_advantages_before_them() {
    let (_, [advantage, weight]) = finish("rloo", scored(), None);
    let importance = [vec![0.5, 2.0], vec![1.0], vec![0.0, 1.5, 1.0], vec![0.25, 1.0]];
    let product: Vec<f64> =
        weight.iter().zip(importance.iter().flatten()).map(|(weight, x)| weight * x).collect();
    let mut groups = scored();
    for (completion, importance) in groups.completions.iter_mut().zip(importance) {
        completion.values.weight = importance;
    }
    assert_eq!(finish("rloo", groups, None).1, [advantage, product]);
    // Beta times the costs after each token, less those of the group's other completion after its own.
    let costs = [vec![0.25, 0.5], vec![1.0], vec![2.0, 0.125, 0.75], vec![0.5, 0.25]];
    let lower = [-0.125, 0.0, 0.125, -0.15625, -0.1875, 0.0, 0.15625, 0.1875];
    let (_, [advantage, weight]) = finish("kl-full:0.25", scored(), None);
    let sum = advantage.iter().zip(lower).map(|(advantage, x)| advantage + x).collect();
    assert_eq!(finish("kl-full:0.25", scored(), Some(&costs)).1, [sum, weight]);
}
