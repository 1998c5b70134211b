//! Trust regions and averages of the loss of rollouts, against their papers.

use super::*;
use crate::objective::Objective;
use candle_core::{Device, Var};

/// Gradient of the loss of two completions, of two tokens and of one, at behaviour -1.
fn gradient(region: TrustRegion, policy: [f64; 3], advantage: [f64; 2], weight: f64) -> Vec<f64> {
    let policy = Var::new(&policy, &Device::Cpu).unwrap();
    let rollout = |length, advantage| TokenValues {
        behavior_logp: vec![-1.0; length],
        base_logp: vec![],
        advantage: vec![advantage; length],
        weight: vec![weight; length],
    };
    let rollouts = [&rollout(2, advantage[0]), &rollout(1, advantage[1])];
    let weights = column(&rollouts, &policy, |rollout| &rollout.weight).unwrap();
    let loss = region.loss(&rollouts, &policy, &weights).unwrap();
    loss.total.backward().unwrap().get(&policy).unwrap().to_vec1().unwrap()
}

const PPO: TrustRegion = TrustRegion::Ppo { low: 0.2, high: 0.28, dual: None };

#[test]
fn every_aggregation_weighs_tokens_as_its_paper_says() {
    let normaliser = Normaliser { tokens: 3, sequences: 2, max_completion_length: 4 };
    for loss_type in LossType::value_variants() {
        let (long, short) = match loss_type {
            LossType::Dapo => (1.0 / 3.0, 1.0 / 3.0),
            LossType::DrGrpo => (1.0 / 8.0, 1.0 / 8.0),
            LossType::Grpo => (1.0 / 4.0, 1.0 / 2.0),
        };
        assert_eq!(loss_type.weight(2, &normaliser), long);
        assert_eq!(loss_type.weight(1, &normaliser), short);
    }
}

#[test]
fn at_ratio_one_every_region_is_reinforce() {
    let start = [-1.0; 3];
    let named = |name| format!("none:trust-region={name}").parse::<Objective>().unwrap();
    let regions = TrustRegion::NAMES.map(|name| named(name).plan.trust_region);
    let dual = TrustRegion::Ppo { low: 0.2, high: 0.2, dual: Some(3.0) };
    for region in regions.into_iter().chain([PPO, dual]) {
        let grad = gradient(region, start, [2.0, -1.0], 0.5);
        // GSPO's ratio is a mean over tokens, which its weights sum over again.
        assert!((grad[0] + 1.0).abs() < 1e-12, "{region:?}: {grad:?}");
        assert!((grad[2] - 0.5).abs() < 1e-12, "{region:?}: {grad:?}");
    }
}

#[test]
fn clipped_tokens_have_no_gradient_and_only_those() {
    for (ratio, advantage, has_gradient) in [
        (1.5, 1.0, false),
        (1.5, -1.0, true),
        (0.5, -1.0, false),
        (0.5, 1.0, true),
        (1.25, 1.0, true),
        (0.75, -1.0, false),
    ] {
        let policy = [-1.0 + f64::ln(ratio), -1.0, -1.0];
        let grad = gradient(PPO, policy, [advantage, 0.0], 1.0)[0];
        assert_eq!(grad != 0.0, has_gradient, "ratio {ratio}: gradient {grad}");
        let cispo = gradient(TrustRegion::Cispo { high: 0.28 }, policy, [advantage, 0.0], 1.0)[0];
        assert!((cispo + advantage * ratio.min(1.28)).abs() < 1e-12, "{ratio}: {cispo}");
    }
    let dual = TrustRegion::Ppo { low: 0.2, high: 0.2, dual: Some(3.0) };
    let far = |region| gradient(region, [-1.0 + f64::ln(4.0), -1.0, -1.0], [-1.0, 0.0], 1.0);
    assert_eq!(far(dual)[0], 0.0);
    assert!(far(PPO)[0] > 3.9);
}

#[test]
fn gspo_clips_whole_sequences() {
    let region = TrustRegion::Gspo { low: 0.1, high: 0.1 };
    let unmoved = gradient(region, [-0.5, -1.5, -1.0], [1.0, 0.0], 1.0);
    assert!(unmoved[0] < 0.0, "the mean ratio is 1");
    let moved = gradient(region, [-0.8, -0.8, -1.0], [1.0, 0.0], 1.0);
    assert_eq!(moved[..2], [0.0, 0.0]);
}
