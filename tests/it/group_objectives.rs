//! Objectives of whole groups, gates and corrections where everything is exact: what they end at, and what a run
//! remembers for them.

use candle_core::{Device, Tensor};
use tealight::lab::claim::claimed_gradient;
use tealight::lab::sampled::{Draws, estimate, off_base};
use tealight::lab::{Class, Descent, Setting, Table, World};
use tealight::learn::objective::{
    Completions, GroupStats, LossInputs, Objective, Offsets, Plan, advantages,
};

fn plan(text: &str) -> Plan {
    text.parse::<Objective>().expect("possible").plan
}

/// The KL penalty prefers the base's likelier answers however right the rarer ones are; MARA's rewards undo that.
#[test]
fn mara_ends_at_the_uniform_policy_over_correct_answers() {
    let world = World::ends(3);
    let correct = |text: &str| {
        let (plan, table) = (plan(text), Table::base(&world, Class::Full).expect("memory"));
        let setting = Setting::new(&world, &plan).expect("it has an exact optimum");
        let descent = Descent { iterations: 4000, learning_rate: 0.05 };
        descent.run(&table, |table| setting.gradient(table)).expect("memory");
        let q = table.distributions(&world).expect("memory").remove(0);
        let right = q.iter().zip(&world.is_right[0]).filter(|(_, right)| **right);
        right.map(|(q, _)| *q).collect::<Vec<f64>>()
    };
    let beta = 0.2;
    let base = world.base.iter().zip(&world.is_right[0]);
    let highest = base.clone().filter(|(_, right)| **right).map(|(a, _)| *a).fold(0.0, f64::max);
    let wrong: f64 = base.filter(|(_, right)| !**right).map(|(a, _)| a).sum();
    let tilted = highest * (1.0_f64 / beta).exp();
    let exact = tilted / (9.0 * tilted + wrong);
    for q in correct("mara:0.2") {
        assert!((q - exact).abs() < 1e-3 * exact, "{q}, not {exact}");
    }
    let probabilities = correct("kl-reward:0.2");
    assert!(
        probabilities.iter().any(|q| (q - exact).abs() > 0.1 * exact),
        "p_beta is uniform: {probabilities:?}"
    );
}

/// Trained on samples of the base alone, again and again, trajectory balance still ends at p_beta: it needs no ratio.
#[test]
fn trajectory_balance_converges_to_the_tilted_model_off_policy() {
    let world = World::ends(2);
    let (beta, length) = (0.5, world.length());
    let plan = plan("trajectory-balance:0.5:baseline=none");
    let table = Table::base(&world, Class::Full).expect("memory");
    let behavior = table.token_logp().expect("memory").detach().flatten_all().expect("memory");
    let base: Vec<f64> = world.base.iter().map(|a| a.ln()).collect();
    let stats = GroupStats {
        rewards: world.is_right[0].iter().map(|right| f64::from(u8::from(*right))).collect(),
        classes: world.is_right[0].iter().map(|right| right.then_some(0)).collect(),
        policy_logp: base.clone(),
        reference_logp: base,
        lengths: vec![length; 9],
        solve_rate: world.solve_rate(0),
        beta,
        ..GroupStats::default()
    };
    let offsets = Offsets::new(vec![length; 9]);
    let column = |values: &[f64]| {
        let values = offsets.spread(values);
        Tensor::from_slice(&values, values.len(), &Device::Cpu).expect("memory")
    };
    let advantage = column(&advantages(&plan, &[stats])[0]);
    let weight = column(&world.base);
    let completions = Completions::new(vec![length; 9], &Device::Cpu).expect("memory");
    let descent = Descent { iterations: 4000, learning_rate: 0.03 };
    let gradient = |table: &Table| -> anyhow::Result<Vec<f64>> {
        let policy_logp = table.token_logp()?.flatten_all()?;
        let inputs = LossInputs {
            completions: &completions,
            policy_logp: &policy_logp,
            behavior_logp: &behavior,
            reference_logp: None,
            advantage: &advantage,
            weight: &weight,
            penalty_weight: None,
            kl_cov_mask: None,
        };
        let mut grads = plan.loss(&inputs)?.total.backward()?;
        let grad = grads.remove(&table.logits).expect("the loss depends on the policy");
        Ok(grad.flatten_all()?.to_vec1()?)
    };
    descent.run(&table, gradient).expect("memory");
    let q = table.distributions(&world).expect("memory").remove(0);
    let tilt = |right: bool| if right { (1.0 / beta).exp() } else { 1.0 };
    let partition: f64 =
        world.base.iter().zip(&world.is_right[0]).map(|(a, right)| a * tilt(*right)).sum();
    for ((q, a), right) in q.iter().zip(&world.base).zip(&world.is_right[0]) {
        let exact = a * tilt(*right) / partition;
        assert!((q - exact).abs() < 2e-3 * exact, "{q}, not {exact}");
    }
}

/// Where one of two kinds of correct answers is rare, its weight makes the rule lift it more than GRPO does; at power 0
/// the rule is GRPO.
#[test]
fn rarity_lifts_the_answers_that_few_samples_of_a_group_have() {
    let classes = [Some(0), Some(0), Some(0), Some(1), None, None, None, None];
    let stats = GroupStats {
        rewards: classes.iter().map(|class| f64::from(u8::from(class.is_some()))).collect(),
        classes: classes.into(),
        ..GroupStats::default()
    };
    let advantages_of =
        |text: &str| advantages(&plan(text), std::slice::from_ref(&stats)).remove(0);
    let (grpo, rarity) = (advantages_of("grpo"), advantages_of("rarity"));
    for i in 0..8 {
        let members = [3.0, 3.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0][i];
        assert!((rarity[i] - grpo[i] / members).abs() < 1e-12, "{i}: {} {}", rarity[i], grpo[i]);
    }
    assert_eq!(advantages_of("rarity:0"), grpo);
    let root = advantages_of("rarity:0.5");
    assert!((root[0] - grpo[0] / 3.0_f64.sqrt()).abs() < 1e-12);
}

#[test]
fn outcome_exploration_rewards_new_outcomes_and_penalizes_repeats() {
    let stats = GroupStats {
        rewards: vec![0.0; 4],
        classes: vec![None; 4],
        outcomes: vec![Some(0), Some(0), Some(2), None],
        seen: vec![16, 16, 0, 0],
        ..GroupStats::default()
    };
    let advantages_of =
        |text: &str| advantages(&plan(text), std::slice::from_ref(&stats)).remove(0);
    // Bonuses of 1/4, 1/4, 1 and none, each less the mean of the others.
    let bonus = advantages_of("outcome-exploration:0.3");
    for (ours, exact) in
        bonus.iter().zip([0.25 - 1.25 / 3.0, 0.25 - 1.25 / 3.0, 1.0 - 0.5 / 3.0, -0.5])
    {
        assert!((ours - 0.3 * exact).abs() < 1e-12, "{ours} {exact}");
    }
    // One of three others has the answer of the first; of the pairs of others of the third, one of three is alike.
    let cost = advantages_of("outcome-exploration:0:0.3");
    for (ours, exact) in cost.iter().zip([1.0 / 3.0, 1.0 / 3.0, -1.0 / 3.0, -1.0 / 3.0]) {
        assert!((ours + 0.3 * exact).abs() < 1e-12, "{ours} {exact}");
    }
}

/// Claims of rules that the enumeration of pairs does not reach, by drawn groups of another size.
#[test]
fn sampled_group_gradients_match_their_expected_values() {
    let world = World::ends(3);
    let table = off_base(&world, Class::Bigram).expect("memory");
    let draws = Draws { group: 5, groups: 6000, seed: 7 };
    for text in [
        "rarity",
        "rarity:0.5:baseline=loo",
        "mara:0.3",
        "outcome-exploration:0.5:0.5",
        "outcome-exploration:0:1:baseline=none",
        "bbg:8",
        "rs-grpo:3",
        "trajectory-balance:0.4",
        "noise-corrected:0.1:0.3",
    ] {
        let plan = plan(text);
        let claim = claimed_gradient(&world, &table, &plan, draws.group).expect("memory");
        let claim = claim.expect("it claims something");
        let found = estimate(&world, &table, &plan, draws).expect("memory");
        for ((mean, error), claim) in found.mean.iter().zip(&found.error).zip(&claim) {
            let z = (mean - claim).abs() / error.max(1e-12);
            assert!(z < 4.5, "{text}: {mean} +- {error}, claims {claim}");
        }
    }
}

#[test]
fn impossible_objectives_are_refused_with_the_reason() {
    for (text, reason) in [
        ("mara:divergence=js", "reverse-kl"),
        ("grpo:rule=mara", "reverse-kl"),
        ("rs-grpo:0", "above 0"),
        ("rarity:-1", "at least 0"),
        ("outcome-exploration:0:0", "above"),
        ("set:median:4", "pass, unique"),
        ("set:unique:0", "at least 1"),
        ("darling:k=4", "no effect"),
        ("unique-at-k:4:overlong-buffer=0.2", "no rewards"),
        ("unique-at-k:4:baseline=loo", "own baseline"),
        ("bbg:0", "at least 1"),
        ("kl-full:gate=unsolved", "estimator=score"),
        ("rft:gate=unsolved", "rollouts"),
        ("noise-corrected:0.6:0.5", "below 1"),
        ("noise-corrected:baseline=group-std", "undoes"),
        ("maxrl:false-positives=0.1", "plain"),
        ("grpo:trust-region=balance", "p_beta"),
        ("trajectory-balance:baseline=group-std", "p_beta"),
        ("gvpo:num-iterations=2", "off-policy"),
    ] {
        let message = format!("{:#}", text.parse::<Objective>().expect_err(text));
        assert!(message.contains(reason), "{text}: {message}");
    }
}
