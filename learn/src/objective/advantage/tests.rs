//! Baselines, pseudo-rewards and penalties against their papers.

use super::*;
use crate::objective::Objective;

fn stats(rewards: &[f64]) -> GroupStats {
    GroupStats {
        rewards: rewards.to_vec(),
        classes: rewards.iter().map(|reward| (*reward > 0.5).then_some(0)).collect(),
        behavior_logp: (0..rewards.len()).map(|i| -1.0 - 0.5 * i as f64).collect(),
        base_logp: vec![-2.0; rewards.len()],
        lengths: vec![1; rewards.len()],
        normaliser: 0.25,
        beta: 0.05,
        greedy: None,
        ..GroupStats::default()
    }
}

fn plan(text: &str) -> Plan {
    text.parse::<Objective>().unwrap().plan
}

/// A group with one correct sample of four, and one whose samples are all correct.
fn groups() -> [GroupStats; 2] {
    [stats(&[1.0, 0.0, 0.0, 0.0]), stats(&[1.0; 4])]
}

fn with_baseline(baseline: &str) -> Vec<Vec<f64>> {
    advantages(&plan(&format!("rloo:baseline={baseline}")), &groups()).unwrap()
}

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-5, "{a} is not {b}");
}

#[test]
fn baselines_match_their_papers() {
    close(with_baseline("group-mean")[0][0], 0.75);
    close(with_baseline("loo")[0][0], 1.0);
    close(with_baseline("loo")[0][1], -1.0 / 3.0);
    close(with_baseline("group-std")[0][0], 1.5);
    assert_eq!(with_baseline("none")[0], [1.0, 0.0, 0.0, 0.0]);
    for kind in ["group-std", "batch-std", "loo", "group-mean"] {
        assert_eq!(with_baseline(kind)[1], [0.0; 4]);
    }
}

#[test]
fn a_group_of_equal_rewards_feels_the_divergence_at_its_true_size() {
    let advantages = advantages(&plan("kl-reward:0.05"), &[stats(&[1.0; 4])]).unwrap();
    // Log-ratios 1, 0.5, 0, -0.5 less the mean of the others.
    let exact = [1.0, 1.0 / 3.0, -1.0 / 3.0, -1.0].map(|cost| -0.05 * cost);
    for (ours, exact) in advantages[0].iter().zip(exact) {
        assert!((ours - exact).abs() < 1e-12, "{ours} {exact}");
    }
}

#[test]
fn alpha_dpg_pseudo_reward_equals_the_papers() {
    let group = stats(&[1.0, 0.0, 1.0]);
    for alpha in [0.0, 0.5, 0.9] {
        let text = format!("alpha-dpg:{alpha}:baseline=none");
        let ours = advantages(&plan(&text), std::slice::from_ref(&group)).unwrap().remove(0);
        let ratio = |i: usize| ((-2.0 - group.behavior_logp[i]).exp() / 0.25).powf(1.0 - alpha);
        assert_eq!(ours[1], -1.0);
        for i in [0, 2] {
            let exact = ratio(i) - 1.0;
            assert!((ours[i] - exact).abs() < 1e-12, "{alpha}: {} {exact}", ours[i]);
        }
    }
}

#[test]
fn hard_prompts_are_not_cut_at_the_base() {
    // At the base, on a prompt that is solved once in a hundred tries.
    let at_base = |validity: f64| GroupStats {
        behavior_logp: vec![-2.0; 3],
        normaliser: validity,
        ..stats(&[1.0, 0.0, 1.0])
    };
    let evaluate = |text: &str, stats: &GroupStats| {
        let plan = plan(text);
        let cut = clipped_reward_ratio(plan.matching().unwrap(), std::slice::from_ref(stats));
        (advantages(&plan, std::slice::from_ref(stats)).unwrap()[0][0], cut)
    };
    let (ours, cut) = evaluate("alpha-dpg:0:baseline=none", &at_base(0.01));
    assert!((ours - 99.0).abs() < 1e-9 && cut == 0.0, "{ours} {cut}");
    // The paper's, with the group's own Z, cuts the pseudo-reward itself.
    assert_eq!(evaluate("alpha-dpg:0:baseline=none:partition=online", &at_base(0.01)), (10.0, 1.0));
    // A sample that lost a factor of e^5 under the policy has its ratio cut at 10, times the worth of its prompt.
    let lost = GroupStats { behavior_logp: vec![-7.0; 3], ..at_base(0.5) };
    assert_eq!(evaluate("alpha-dpg:0:baseline=none", &lost), (19.0, 1.0));
}

#[test]
fn an_online_partition_is_replaced_only_where_it_is_zero() {
    // One of four is correct, of which the policy has made much more than the base: Z is 6e-6 / 4.
    let mut group = GroupStats {
        behavior_logp: vec![-2.0; 4],
        base_logp: vec![-2.0 + 6e-6_f64.ln(); 4],
        ..stats(&[1.0, 0.0, 0.0, 0.0])
    };
    group.normaliser = partition_of(group.online_normaliser());
    let plan = plan("alpha-dpg:0:baseline=none:partition=online");
    let ours = advantages(&plan, std::slice::from_ref(&group)).unwrap()[0][0];
    assert!((ours - 3.0).abs() < 1e-9, "{ours}: G - 1, and -.94 with a floor of 1e-4");
    assert_eq!((partition_of(0.0), partition_of(1.7)), (1e-4, 1.0));
}

#[test]
fn whitening_and_averaging_over_valid_groups_are_of_the_batch() {
    // Five of eight are correct: mean .625, sample deviation .5175.
    let white = with_baseline("batch");
    close(white[0][0], 0.375 / 0.517_549);
    close(white[0][1], -0.625 / 0.517_549);
    close(white[1][3], 0.375 / 0.517_549);
    let all = white.concat();
    close(all.iter().sum(), 0.0);
    close(all.iter().map(|x| x * x).sum::<f64>() / 7.0, 1.0);
    // One group of two differs: twice the weight, and nothing for the other.
    let valid = with_baseline("valid-mean");
    assert_eq!((valid[0][0], valid[0][1], valid[1][0]), (1.5, -0.5, 0.0));
    let even = advantages(&plan("rloo:baseline=batch"), &groups()[1..]).unwrap();
    assert_eq!(even[0], [0.0; 4]);
    let greedy = GroupStats { greedy: Some(1.0), ..groups()[0].clone() };
    let remax = advantages(&plan("remax"), &[greedy]).unwrap();
    assert_eq!(remax[0], [0.0, -1.0, -1.0, -1.0]);
}

#[test]
fn a_cumulative_partition_is_the_mean_over_all_groups_of_a_prompt() {
    let stats = |correct: usize| GroupStats {
        behavior_logp: vec![-1.0; 4],
        base_logp: vec![-1.0; 4],
        normaliser: 0.9,
        ..stats(&[0, 1, 2, 3].map(|i| f64::from(u8::from(i < correct))))
    };
    let mut sums = BTreeMap::new();
    let mut estimate = |text: &str, correct: usize| {
        let (plan, mut stats) = (plan(text), [stats(correct)]);
        plan.matching().unwrap().estimate_partition(["a"].into_iter(), &mut stats, &mut sums);
        stats[0].normaliser
    };
    assert_eq!(estimate("alpha-dpg:0", 2), 0.9, "fixed");
    assert_eq!(estimate("alpha-dpg:0:partition=online", 1), 0.25);
    assert_eq!(estimate("alpha-dpg:0:partition=cumulative", 1), 0.25);
    assert_eq!(estimate("alpha-dpg:0:partition=cumulative", 3), 0.5);
}

#[test]
fn the_overlong_penalty_falls_over_the_end_of_the_longest_completion() {
    assert_eq!(shaped_reward(1.0, 80, 100, 0.2), 1.0);
    assert_eq!(shaped_reward(1.0, 90, 100, 0.2), 0.5);
    assert_eq!(shaped_reward(0.0, 100, 100, 0.2), -1.0);
    assert_eq!(shaped_reward(1.0, 100, 100, 0.0), 1.0);
}
