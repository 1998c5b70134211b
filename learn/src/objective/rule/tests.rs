//! Rules against the estimators of papers, and what is refused.

use super::super::{Anchor, Gate, GroupStats, Objective, Plan, advantages};

/// A group of eight with classes, lengths and log-probabilities; `correct` has one bit a sample.
fn group(n: usize, correct: u32) -> GroupStats {
    let is_correct = |i: usize| correct & (1 << i) != 0;
    GroupStats {
        rewards: (0..n).map(|i| f64::from(u8::from(is_correct(i)))).collect(),
        classes: (0..n).map(|i| is_correct(i).then_some(i / 3)).collect(),
        policy_logp: (0..n).map(|i| -4.0 - (i as f64 * 1.37) % 2.9).collect(),
        reference_logp: (0..n).map(|i| -4.2 - (i as f64 * 0.77) % 2.1).collect(),
        lengths: (0..n).map(|i| 2 + i % 3).collect(),
        solve_rate: 0.5,
        beta: 0.04,
        ..GroupStats::default()
    }
}

fn group_advantages(text: &str, group: &GroupStats) -> Vec<f64> {
    let plan = text.parse::<Objective>().unwrap_or_else(|error| panic!("{error:#}")).plan;
    advantages(&plan, std::slice::from_ref(group)).remove(0)
}

/// An objective, the rule that says the same, and how far both may be apart.
const EQUAL: [(&str, &str, f64); 15] = [
    ("grpo", "(r-mean(r))*(1/(std(r)+1e-6))", 0.0),
    ("grpo", "(r - mean(r)) / (std(r) + 1e-6)", 1e-15),
    ("dr-grpo", "r-mean(r)", 0.0),
    ("rloo", "(r-mean(r))*(n/(n-1))", 0.0),
    ("rloo", "r-mean_others(r)", 1e-15),
    ("reinforce", "r", 0.0),
    ("nsr:0.1", "where(correct,0.1,-1)", 0.0),
    ("nsr:0.1", "where(correct,positive,-1):positive=0.1", 0.0),
    ("maxrl", "where(c>0,where(correct,1-c/n,-c/n)/(c/n+1e-6),0)", 0.0),
    (
        "rs-grpo:3",
        "where((c==0)+(c==n),0,(where(correct,1,exp(-risk))/(c/n+(1-c/n)*exp(-risk))-1)/risk):risk=3",
        1e-15,
    ),
    (
        "pass-at-k:3",
        "where((c==0)+(n-c<k),0,(1-pass_at_k(n,c,k)-where(correct,0,1-pass_at_k(n-1,c,k-1)))\
         /sqrt(pass_at_k(n,c,k)*(1-pass_at_k(n,c,k)))):k=3",
        1e-14,
    ),
    (
        "pkpo:3",
        "k*(where(correct,1,pass_at_k(n-1,c,k-1))-(c-correct+(n-1-c+correct)*pass_at_k(n-2,c-correct,k-1))/(n-1)):k=3",
        1e-14,
    ),
    ("rarity:0.5", "where(correct,class_size^-0.5,1)*(r-mean(r))*(1/(std(r)+1e-6))", 1e-15),
    (
        "unlikeliness:0.25:divergence=none",
        "(r*(1-strength*rank/n)-mean(r*(1-strength*rank/n)))/(std(r*(1-strength*rank/n))+1e-6)",
        1e-14,
    ),
    (
        "ucpo:0.3",
        "(r-mean(r))/(std(r)+1e-6)\
         *where(correct*(c<n),1-tau+tau*c*exp(-logp/length)/sum(where(correct,exp(-logp/length),0)),1):tau=0.3",
        1e-12,
    ),
];

#[test]
fn estimators_are_their_rules_on_every_group_of_eight() {
    for (named, rule, most) in EQUAL {
        let text = format!("none:trust-region=none:advantage={rule}");
        for correct in 0..256 {
            let group = group(8, correct);
            for (index, (a, b)) in group_advantages(named, &group)
                .iter()
                .zip(group_advantages(&text, &group))
                .enumerate()
            {
                let error = (a - b).abs();
                assert!(
                    error <= most * a.abs().max(1.0),
                    "{named} {correct:b} {index}: {a}, not {b}"
                );
                // Zero gradients are exact zeros under both: groups without one are counted.
                assert_eq!(*a == 0.0, b == 0.0, "{named} {correct:b} {index}: {a}, {b}");
            }
        }
    }
}

#[test]
fn every_objective_runs_the_rule_that_is_printed() {
    let mut printed = 0;
    for name in Objective::names().filter(|name| *name != "noise-corrected") {
        let plan = name.parse::<Objective>().unwrap().plan;
        let Some(rule) = plan.advantage() else { continue };
        // The numbers of keys are their defaults, as in the presets.
        let text = format!("none:trust-region=none:advantage={rule}");
        for bits in 0..256 {
            let group = group(8, bits);
            let alone = Plan { anchor: Anchor::None, gate: Gate::All, ..plan.clone() };
            let own = advantages(&alone, std::slice::from_ref(&group)).remove(0);
            for (a, b) in own.iter().zip(group_advantages(&text, &group)) {
                assert!((a - b).abs() <= 1e-11 * a.abs().max(1.0), "{name} {bits:b}: {a}, not {b}");
            }
        }
        printed += 1;
    }
    assert!(printed > 30, "{printed}");
}

/// The rules of papers as loops over the samples, by their definitions: the other side of the rows of text.
fn by_definition(name: &str, correct: &[bool], k: usize, number: f64) -> Vec<f64> {
    let (n, c) = (correct.len(), correct.iter().filter(|one| **one).count());
    let pass = |n: usize, c: usize, k: usize| match n < c + k {
        true => 1.0,
        false => 1.0 - (n - c + 1..=n).map(|i| 1.0 - k as f64 / i as f64).product::<f64>(),
    };
    let share = c as f64 / n as f64;
    let by = |of_right: f64, of_wrong: f64| -> Vec<f64> {
        correct.iter().map(|one| if *one { of_right } else { of_wrong }).collect()
    };
    match name {
        "nsr" => by(number, -1.0),
        "maxrl" if c == 0 => by(0.0, 0.0),
        "maxrl" => by((1.0 - share) / (share + 1e-6), -share / (share + 1e-6)),
        "rs-grpo" if c == 0 || c == n => by(0.0, 0.0),
        "rs-grpo" => {
            let mean = share + (1.0 - share) * (-number).exp();
            by((1.0 / mean - 1.0) / number, ((-number).exp() / mean - 1.0) / number)
        }
        "pass-at-k" => {
            let reward = pass(n, c, k);
            let spread = (reward * (1.0 - reward)).sqrt();
            if spread == 0.0 {
                return by(0.0, 0.0);
            }
            let without = 1.0 - pass(n - 1, c, k - 1);
            by((1.0 - reward) / spread, (1.0 - reward - without) / spread)
        }
        "pkpo" => {
            let value = |n: usize, c: usize, is_right: bool| {
                k as f64 * if is_right { 1.0 } else { pass(n - 1, c, k - 1) }
            };
            let advantage = |i: usize| {
                let left = c - usize::from(correct[i]);
                let others = (0..n).filter(|j| *j != i);
                let baseline: f64 = others.map(|j| value(n - 1, left, correct[j])).sum();
                value(n, c, correct[i]) - baseline / (n - 1) as f64
            };
            (0..n).map(advantage).collect()
        }
        other => panic!("{other}"),
    }
}

#[test]
fn rows_of_text_are_the_definitions_of_their_papers() {
    for (text, name, k, number, most) in [
        ("nsr", "nsr", 0, 0.0, 0.0),
        ("nsr:0.1", "nsr", 0, 0.1, 0.0),
        ("maxrl", "maxrl", 0, 0.0, 0.0),
        ("rs-grpo:2", "rs-grpo", 0, 2.0, 1e-15),
        ("pass-at-k:3", "pass-at-k", 3, 0.0, 0.0),
        ("pkpo:1", "pkpo", 1, 0.0, 1e-14),
        ("pkpo:4", "pkpo", 4, 0.0, 1e-14),
    ] {
        for bits in 0..256 {
            let group = group(8, bits);
            let exact = by_definition(name, &group.is_correct(), k, number);
            for (ours, exact) in group_advantages(text, &group).iter().zip(exact) {
                assert!((ours - exact).abs() <= most, "{text} {bits:b}: {ours}, not {exact}");
                assert_eq!(*ours == 0.0, exact == 0.0, "{text} {bits:b}: {ours}, {exact}");
            }
        }
    }
}

#[test]
fn rules_read_what_they_name() {
    let plan = |text: &str| text.parse::<Objective>().unwrap().plan;
    let plain = plan("grpo:advantage=r-mean(r)");
    assert!(!plain.is_binary() && !plain.needs_reference() && !plain.rule.reads_policy());
    assert!(plan("grpo:advantage=correct-c/n").is_binary());
    assert!(plan("grpo:advantage=r-mean(r)+0*logp").rule.reads_policy());
    assert!(plan("grpo:advantage=r-mean(r)-0.1*(logp-logp_base)").needs_reference());
    assert_eq!(plan("grpo:advantage=pass_at_k(n,c,k)-correct:k=6").rule.smallest_group(), 7);
    // A rule replaces the baseline that the preset has, and keeps the rest.
    assert_eq!(plain.trust_region, plan("grpo").trust_region);
    assert_eq!(plan("grpo:advantage=loo"), plan("grpo:baseline=loo"));
    for text in ["grpo:advantage=r-mean(r)", "kl-reward:0.1:advantage=r-mean_others(r)"] {
        let objective: Objective = text.parse().unwrap();
        assert_eq!(objective.to_string(), text);
        assert_eq!(objective.to_string().parse::<Objective>().unwrap(), objective);
    }
    // Beside a KL penalty, which is subtracted after it as ever.
    let both = group_advantages("kl-reward:0.1:advantage=r-mean_others(r)", &group(8, 0b1011));
    for (a, b) in both.iter().zip(group_advantages("kl-reward:0.1", &group(8, 0b1011))) {
        assert!((a - b).abs() < 1e-15);
    }
    // Functions of the language, by hand: c = 3 of 4.
    let four = group(4, 0b0111);
    for (text, exact) in [
        ("choose(n,2)+choose(2,3)", 6.0),
        ("pass_at_k(n,c,1)", 0.75),
        ("max(r)-min(r)+max(n,7)-min(c,2)", 6.0),
        ("sum(correct)-count(class_size)", 0.0),
        ("where(c>=3,2^3,log(n))", 8.0),
        ("log1p(expm1(2))+tanh(0)+abs(0-3)+sqrt(4)+log(exp(1))", 8.0),
        ("mean(rank)+mean(length)", 1.5 + 11.0 / 4.0),
    ] {
        let ours = group_advantages(&format!("reinforce:advantage={text}"), &four)[0];
        assert!((ours - exact).abs() < 1e-12, "{text}: {ours}");
    }
}

#[test]
fn what_is_no_rule_is_refused() {
    for (text, reason) in [
        ("grpo:advantage=rewards-mean(r)", "does not know `rewards`"),
        ("grpo:advantage=corect", "did you mean `correct`?"),
        ("grpo:advantage=r-averge(r)", "no function `averge`"),
        ("grpo:advantage=r-mean(r,r)", "takes 1 arguments, not 2"),
        (
            "grpo:advantage=(r-mean(r))/std(r)",
            "gives NaN in a group of 2 samples, 0 of them correct",
        ),
        ("grpo:advantage=log(r)", "gives -inf in a group of"),
        ("grpo:advantage=r-mean(r", "a `)` is missing"),
        ("grpo:advantage=r-mean(r):baseline=loo", "leave it out"),
        ("grpo:advantage=r-mean(r):rule=maxrl", "leave it out"),
        ("alpha-dpg:advantage=r-mean(r)", "a target replaces the reward"),
        ("grpo:advantage=r-mean(r):k=3", "`k` has no effect"),
    ] {
        let error = text.parse::<Objective>().expect_err(text);
        assert!(format!("{error:#}").contains(reason), "{text}: {error:#}");
    }
}
