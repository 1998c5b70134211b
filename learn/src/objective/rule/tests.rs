//! Rules against the estimators of papers, and what is refused.

use super::evaluate::{FUNCTIONS, NAMES, mean_logp};
use super::{HELP, PARAMETERS, ROWS};
use crate::objective::{Anchor, GroupStats, Objective, Plan, advantages};

/// A group of eight with classes, lengths and log-probabilities; `correct` has one bit a sample.
fn group(n: usize, correct: u32) -> GroupStats {
    let is_correct = |i: usize| correct & (1 << i) != 0;
    GroupStats {
        rewards: (0..n).map(|i| f64::from(u8::from(is_correct(i)))).collect(),
        classes: (0..n).map(|i| is_correct(i).then_some(i / 3)).collect(),
        behavior_logp: (0..n).map(|i| -4.0 - (i as f64 * 1.37) % 2.9).collect(),
        base_logp: (0..n).map(|i| -4.2 - (i as f64 * 0.77) % 2.1).collect(),
        lengths: (0..n).map(|i| 2 + i % 3).collect(),
        normaliser: 0.5,
        beta: 0.04,
        ..GroupStats::default()
    }
}

fn group_advantages(text: &str, group: &GroupStats) -> Vec<f64> {
    let plan = text.parse::<Objective>().unwrap_or_else(|error| panic!("{error:#}")).plan;
    advantages(&plan, std::slice::from_ref(group)).unwrap().remove(0)
}

#[test]
fn every_objective_runs_the_rule_that_is_printed() {
    const SAME: [&str; 4] = ["grpo", "dr-grpo", "rloo", "reinforce"];
    let mut printed = 0;
    for name in Objective::names() {
        let plan = name.parse::<Objective>().unwrap().plan;
        let Some(rule) = plan.advantage() else { continue };
        // The numbers of keys are their defaults, as in the presets.
        let text = format!("none:trust-region=none:advantage={rule}");
        for bits in 0..256 {
            let group = group(8, bits);
            let alone = Plan { anchor: Anchor::None, ..plan.clone() };
            let own = advantages(&alone, std::slice::from_ref(&group)).unwrap().remove(0);
            for (a, b) in own.iter().zip(group_advantages(&text, &group)) {
                // The same operations in the same order, but for weights that divide by a share.
                let most = if SAME.contains(&name) { 1e-15 } else { 1e-11 };
                assert!((a - b).abs() <= most * a.abs().max(1.0), "{name} {bits:b}: {a}, not {b}");
                // Zero gradients are exact zeros under both: groups without one are counted.
                assert_eq!(*a == 0.0, b == 0.0, "{name} {bits:b}: {a}, {b}");
            }
        }
        printed += 1;
    }
    assert!(printed > 20, "{printed}");
}

/// The objective of a recipe.
fn recipe(name: &str) -> String {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes/objectives");
    let text = std::fs::read_to_string(root.join(format!("{name}.toml"))).expect("a recipe");
    let line = text.lines().find_map(|line| line.strip_prefix("objective = \""));
    line.expect("an objective").trim_end_matches('"').to_owned()
}

/// The rules of papers as loops over the samples, by their definitions: the other side of the rows of text.
fn by_definition(name: &str, group: &GroupStats, k: usize) -> Vec<f64> {
    let correct: Vec<bool> = group.classes.iter().map(Option::is_some).collect();
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
        "nsr" => by(0.0, -1.0),
        "maxrl" if c == 0 => by(0.0, 0.0),
        "maxrl" => by((1.0 - share) / (share + 1e-6), -share / (share + 1e-6)),
        "rs-grpo" if c == 0 || c == n => by(0.0, 0.0),
        "rs-grpo" => {
            let mean = share + (1.0 - share) * (-2.0_f64).exp();
            by((1.0 / mean - 1.0) / 2.0, ((-2.0_f64).exp() / mean - 1.0) / 2.0)
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
        other => by_group(other, group, k),
    }
}

/// The same of rules that read more than how many samples are correct.
fn by_group(name: &str, group: &GroupStats, k: usize) -> Vec<f64> {
    let correct: Vec<bool> = group.classes.iter().map(Option::is_some).collect();
    let (n, c) = (correct.len(), correct.iter().filter(|one| **one).count());
    match name {
        "noise-corrected" => {
            let correct = group.rewards.iter();
            correct.map(|one| (one - (c as f64 - one) / (n - 1) as f64) / 0.8).collect()
        }
        "rarity" => grpo(group).iter().zip(sizes(group)).map(|(one, size)| one / size).collect(),
        "unlikeliness" => {
            let means: Vec<f64> = (0..n).map(|i| mean_logp(group, i)).collect();
            let rank = |i: usize| means.iter().filter(|other| **other < means[i]).count() as f64;
            let worth = |i: usize| group.rewards[i] * (1.0 - 0.25 * rank(i) / n as f64);
            grpo(&GroupStats { rewards: (0..n).map(worth).collect(), ..group.clone() })
        }
        "ucpo" => {
            let right: Vec<usize> = (0..n).filter(|i| correct[*i]).collect();
            let rarity: Vec<f64> = right.iter().map(|i| 1.0 / mean_logp(group, *i).exp()).collect();
            let (sum, mut all) = (rarity.iter().sum::<f64>(), grpo(group));
            if c < n {
                for (i, rarity) in right.iter().zip(&rarity) {
                    all[*i] *= c as f64 * (0.8 / c as f64 + 0.2 * rarity / sum);
                }
            }
            all
        }
        "mara" => {
            let base = |i: usize| group.base_logp[i];
            let anchor = (0..n).filter(|i| correct[*i]).map(base).fold(f64::NEG_INFINITY, f64::max);
            let moved = |i: usize| match correct[i] {
                true => 1.0 + group.beta * (anchor - base(i)),
                false => 0.0,
            };
            let all: f64 = (0..n).map(moved).sum();
            (0..n).map(|i| moved(i) - (all - moved(i)) / (n - 1) as f64).collect()
        }
        _ => by_sets(name, group, k),
    }
}

/// Rules of sets of k samples: k times the mean over the sets with a sample less that over the sets without it.
fn by_sets(name: &str, group: &GroupStats, k: usize) -> Vec<f64> {
    let n = group.classes.len();
    let function = |set: &[usize]| {
        let mut classes: Vec<_> = set.iter().filter_map(|i| group.classes[*i]).collect();
        let count = classes.len();
        classes.sort_unstable();
        classes.dedup();
        match name {
            "unique" => classes.len() as f64,
            _ if count == 2 && classes.len() == 1 => 0.0,
            _ => count as f64 / 2.0,
        }
    };
    let mean = |keeps: &dyn Fn(u32) -> bool| {
        let sets = (0_u32..1 << n).filter(|set| set.count_ones() as usize == k && keeps(*set));
        let members = |set: u32| (0..n).filter(move |i| set & (1 << i) != 0);
        let values: Vec<f64> =
            sets.map(|set| function(&members(set).collect::<Vec<_>>())).collect();
        values.iter().sum::<f64>() / values.len() as f64
    };
    let has = |i: usize| move |set: u32| set & (1 << i) != 0;
    let advantage = |i: usize| k as f64 * (mean(&has(i)) - mean(&|set| !has(i)(set)));
    (0..n).map(advantage).collect()
}

/// GRPO's advantages by the definition.
fn grpo(group: &GroupStats) -> Vec<f64> {
    let n = group.rewards.len() as f64;
    let mean = group.rewards.iter().sum::<f64>() / n;
    let squares: f64 = group.rewards.iter().map(|reward| (reward - mean).powi(2)).sum();
    group.rewards.iter().map(|r| (r - mean) / ((squares / (n - 1.0)).sqrt() + 1e-6)).collect()
}

/// The size of each sample's solution class; 1 of incorrect ones.
fn sizes(group: &GroupStats) -> Vec<f64> {
    let size = |class: &Option<usize>| group.classes.iter().filter(|other| *other == class).count();
    group.classes.iter().map(|one| if one.is_some() { size(one) as f64 } else { 1.0 }).collect()
}

#[test]
fn rows_and_recipes_of_text_are_the_definitions_of_their_papers() {
    let cases = [
        ("maxrl".to_owned(), "maxrl", 0, 0.0),
        ("pass-at-k:3".to_owned(), "pass-at-k", 3, 0.0),
        ("pkpo:1".to_owned(), "pkpo", 1, 1e-14),
        ("pkpo:4".to_owned(), "pkpo", 4, 1e-14),
        ("unlikeliness:0.25:divergence=none".to_owned(), "unlikeliness", 0, 1e-14),
        ("unique-at-k:1".to_owned(), "unique", 1, 1e-13),
        ("unique-at-k:3".to_owned(), "unique", 3, 1e-13),
        (recipe("nsr"), "nsr", 0, 0.0),
        (recipe("rs-grpo"), "rs-grpo", 0, 1e-15),
        (recipe("rarity"), "rarity", 0, 1e-14),
        (recipe("ucpo"), "ucpo", 0, 1e-12),
        (recipe("mara").replace("kl-reward", "reinforce"), "mara", 0, 1e-14),
        (recipe("noise-corrected").replace("kl-reward", "reinforce"), "noise-corrected", 0, 1e-14),
        (recipe("darling"), "darling", 2, 1e-13),
    ];
    assert!(ROWS.iter().all(|row| cases.iter().any(|case| case.1 == row.name)));
    for (text, name, k, most) in cases {
        for bits in 0..256 {
            let group = group(8, bits);
            let exact = by_definition(name, &group, k);
            for (ours, exact) in group_advantages(&text, &group).iter().zip(exact) {
                let error = (ours - exact).abs();
                assert!(error <= most, "{text} {bits:b}: {ours}, not {exact}");
            }
        }
        // Groups without a gradient have exact zeros.
        for bits in [0, 255] {
            let mut group = group(8, bits);
            group.classes = group.classes.iter().map(|one| one.map(|_| 0)).collect();
            let is_zero = group_advantages(&text, &group).iter().all(|one| *one == 0.0);
            assert!(is_zero || ["nsr", "mara", "unlikeliness"].contains(&name), "{text} {bits:b}");
        }
    }
}

#[test]
fn rules_read_what_they_name() {
    let plan = |text: &str| text.parse::<Objective>().unwrap().plan;
    let plain = plan("grpo:advantage=r-mean(r)");
    assert!(!plain.is_binary() && !plain.needs_reference());
    assert!(plan("grpo:advantage=correct-c/n").is_binary());
    assert!(plan("grpo:advantage=r-mean(r)-0.1*(logp-logp_base)").needs_reference());
    // A group needs more samples than k, and as many as the rule divides by.
    for (rule, least) in [
        ("pass_at_k(n,c,k)-correct:k=6", 7),
        ("r-mean(r)", 1),
        ("r-(sum(r)-r)/(n-1)", 2),
        ("r/(n-3)", 4),
    ] {
        assert_eq!(plan(&format!("grpo:advantage={rule}")).smallest_group(), least, "{rule}");
    }
    assert_eq!(plan(&recipe("darling")).smallest_group(), 3);
    // Sums over samples have no limit of many, whatever the blanks before their bracket.
    for (rule, is_of_samples) in [("r-mean (r)", true), ("r/sum (r+1)", false), ("sum(r)", false)] {
        let rule = plan(&format!("reinforce:advantage={rule}")).rule.unwrap();
        assert_eq!(rule.is_of_samples(), is_of_samples, "{}", rule.text());
    }
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
fn every_name_and_function_is_in_the_help_and_the_docs() {
    let docs = include_str!("../../../../docs/how-to/objective.md");
    let words = |text: &'static str| text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let coded = || docs.split('`').skip(1).step_by(2).flat_map(words);
    let functions = FUNCTIONS.iter().map(|one| one.0).chain(PARAMETERS.iter().map(|one| one.0));
    for name in NAMES.iter().map(|one| one.name).chain(functions) {
        assert!(words(HELP).any(|word| word == name) && coded().any(|word| word == name), "{name}");
    }
}

#[test]
fn what_is_no_rule_is_refused() {
    for (text, reason) in [
        ("grpo:advantage=rewards-mean(r)", "does not know `rewards`"),
        ("grpo:advantage=corect", "did you mean `correct`?"),
        ("grpo:advantage=r-averge(r)", "no function `averge`"),
        ("grpo:advantage=r-mean(r,r)", "takes 1 arguments, not 2"),
        ("grpo:advantage=r-max(r,c,n)", "takes 1 or 2 arguments, not 3"),
        (
            "grpo:advantage=(r-mean(r))/std(r)",
            "gives NaN in a group of 2 samples, 0 of them correct",
        ),
        ("grpo:advantage=(r-mean(r))/(1-progress)", "correct at step 2, progress 1"),
        ("grpo:advantage=(r-mean(r))/(step-1)", "correct at step 1, progress 0.5"),
        ("grpo:advantage=log(r)", "gives -inf in a group of"),
        ("grpo:advantage=exp(-logp)", "gives inf in a group of 2 long samples"),
        ("grpo:advantage=R-mean(r)", "does not know `R`, did you mean `r`?"),
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
