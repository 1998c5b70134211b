//! Estimates of the distance from p* against enumeration in worlds whose outputs can be listed, and in runs.

use serde_json::Value;
use tealight::lab::{Class, Measures, World, sampled};
use tealight::learn::objective::pstar::{
    Evidence, MISSING, PstarDistances, ScoredCompletion, StoredEvidence,
};

use crate::support::binary::{Folder, ok};
use crate::support::runs::trained;

/// A policy in a world, and what is drawn of it.
struct Scene {
    world: World,
    policy: Vec<f64>,
    /// Rollouts of a group.
    group: usize,
    /// Stored completions of the base; none stores none.
    stored: usize,
}

/// Sampling by cumulative sums.
fn pick(chances: &[f64], uniform: f64) -> usize {
    let mut sum = 0.0;
    let place = chances.iter().position(|chance| {
        sum += chance;
        sum > uniform
    });
    place.unwrap_or(chances.len() - 1)
}

/// A number from 0 to 1 (SplitMix64).
fn splitmix(state: &mut u64) -> f64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

impl Scene {
    fn scored(&self, output: usize) -> ScoredCompletion {
        ScoredCompletion {
            policy_logp: self.policy[output].ln(),
            base_logp: self.world.base[output].ln(),
            is_correct: self.world.is_right[0][output],
        }
    }

    fn evidence(&self, uniform: &mut dyn FnMut() -> f64) -> Evidence {
        let rollouts = (0..self.group).map(|_| self.scored(pick(&self.policy, uniform())));
        let rollouts = rollouts.collect();
        let stored: Vec<ScoredCompletion> =
            (0..self.stored).map(|_| self.scored(pick(&self.world.base, uniform()))).collect();
        let (first, others) = stored.split_at(self.stored / 2);
        let correct = |part: &[ScoredCompletion]| -> Vec<ScoredCompletion> {
            part.iter().copied().filter(|one| one.is_correct).collect()
        };
        let stored = (self.stored > 0).then(|| StoredEvidence {
            correct: correct(first),
            others: (correct(others).len(), others.len()),
        });
        Evidence { rollouts, stored, samples: self.group }
    }

    /// The mean of every estimate over so many prompts with draws of their own.
    fn estimated(&self, prompts: usize) -> PstarDistances {
        self.estimated_from(prompts, &mut 3)
    }

    /// The same with the draws of a generator in this state.
    fn estimated_from(&self, prompts: usize, state: &mut u64) -> PstarDistances {
        let mut uniform = || splitmix(state);
        let all: Vec<Evidence> = (0..prompts).map(|_| self.evidence(&mut uniform)).collect();
        PstarDistances::from_evidence(&all)
    }

    /// The truth by enumeration, in the order of [`values`]; of effective sizes, their limit in large groups.
    fn exact(&self) -> [f64; 10] {
        let (pi, base) = (&self.policy, &self.world.base);
        let (target, is_right) = (self.world.filtered(0), &self.world.is_right[0]);
        let measures = Measures::new(&self.world, std::slice::from_ref(pi));
        let sum = |term: &dyn Fn(usize) -> f64| (0..pi.len()).map(term).sum::<f64>();
        let relative = |p: f64, q: f64| if p > 0.0 { p * (p / q).ln() } else { 0.0 };
        let mean = |y: usize| 0.5 * (pi[y] + target[y]);
        let js = sum(&|y| 0.5 * (relative(pi[y], mean(y)) + relative(target[y], mean(y))));
        let tv = 0.5 * sum(&|y| (pi[y] - target[y]).abs());
        let missing = sum(&|y| if pi[y] < MISSING * base[y] { target[y] } else { 0.0 });
        let unseen = sum(&|y| target[y] * (1.0 - pi[y]).powi(self.group as i32));
        let second = |right: bool| {
            sum(&|y| if !right || is_right[y] { base[y] * base[y] / pi[y] } else { 0.0 })
        };
        let z = self.world.solve_rate(0);
        [
            measures.kl_pstar_q,
            measures.kl_pstar_q,
            measures.kl_q1_pstar,
            js,
            tv,
            missing,
            unseen,
            1.0 / second(false),
            self.group as f64 * z * z / second(true),
            z,
        ]
    }
}

const NAMES: [&str; 10] = [
    "kl",
    "kl_importance",
    "kl_correct",
    "js",
    "tv",
    "missing_mass",
    "unseen_mass",
    "ess",
    "ess_correct",
    "validity",
];

fn values(found: &PstarDistances) -> [Option<f64>; 10] {
    let f = found;
    [
        f.kl,
        f.kl_importance,
        f.kl_correct,
        f.js,
        f.tv,
        f.missing_mass,
        f.unseen_mass,
        f.ess,
        f.ess_correct,
        f.validity,
    ]
}

/// A policy near the base, and one that has lost half of p*: three answers in a hundred come from the base, the others
/// from every second correct answer.
fn policies(world: &World) -> [(&'static str, Vec<f64>); 2] {
    let table = sampled::off_base(world, Class::Full).expect("memory");
    let near = table.distributions(world).expect("memory").remove(0);
    let target = world.filtered(0);
    let mut thinned = target.clone();
    let right = (0..thinned.len()).filter(|y| target[*y] > 0.0);
    right.skip(1).step_by(2).for_each(|y| thinned[y] = 0.0);
    let mass: f64 = thinned.iter().sum();
    let lost = thinned.iter().zip(&world.base).map(|(p, a)| 0.97 * p / mass + 0.03 * a);
    [("near", near), ("lost", lost.collect())]
}

#[test]
fn in_large_samples_every_estimate_is_the_enumerated_value() {
    for name in ["ends", "dyck"] {
        let world = World::named(name).expect("a world");
        for (kind, policy) in policies(&world) {
            for stored in [0, 4000] {
                let scene =
                    Scene { world: world.clone(), policy: policy.clone(), group: 4000, stored };
                let (found, exact) = (scene.estimated(40), scene.exact());
                for ((name, found), exact) in NAMES.iter().zip(values(&found)).zip(exact) {
                    let is_of_stored = ["kl", "missing_mass", "unseen_mass"].contains(name);
                    let Some(found) = found else {
                        assert!(stored == 0 && is_of_stored, "{kind} {name}");
                        continue;
                    };
                    // Weights of a policy that has lost answers have heavy tails.
                    if kind == "lost" && name.starts_with("ess") {
                        continue;
                    }
                    let is_heavy = kind == "lost" && *name == "kl_importance";
                    let share = if is_heavy { 0.15 } else { 0.05 };
                    let most = share * exact.abs().max(0.3);
                    assert!(
                        (found - exact).abs() < most,
                        "{kind} {stored} {name}: {found}, exactly {exact}"
                    );
                }
            }
        }
    }
}

#[test]
fn in_groups_of_eight_the_bias_is_what_the_documentation_says() {
    let world = World::named("ends").expect("a world");
    for (kind, policy) in policies(&world) {
        for stored in [0, 16] {
            let scene = Scene { world: world.clone(), policy: policy.clone(), group: 8, stored };
            let (found, exact) = (scene.estimated(20_000), scene.exact());
            for ((name, found), exact) in NAMES.iter().zip(values(&found)).zip(exact) {
                let Some(found) = found else { continue };
                println!("{kind}, {stored} stored, {name}: {found:.3}, exactly {exact:.3}");
                let most = match *name {
                    // Without bias, and means over 20,000 prompts.
                    "missing_mass" | "unseen_mass" => 0.01,
                    "validity" => 0.03,
                    "kl" => 0.06,
                    "js" | "tv" if stored > 0 => 0.06,
                    _ => continue,
                };
                assert!((found - exact).abs() < most, "{kind} {name}: {found}, exactly {exact}");
            }
        }
        // Rollouts do not see what the policy has lost; stored completions do.
        let scene = Scene { world: world.clone(), policy, group: 8, stored: 16 };
        let (found, exact) = (scene.estimated(20_000), scene.exact());
        if kind == "lost" {
            assert!(exact[5] > 0.4, "half of p* is lost: {}", exact[5]);
            let blind = found.kl_importance.expect("correct rollouts");
            assert!(blind < 0.5 * exact[1], "{blind} of {}", exact[1]);
        }
    }
}

#[test]
fn standard_errors_are_the_spread_of_the_means() {
    let world = World::named("ends").expect("a world");
    let (_, policy) = policies(&world).into_iter().next().expect("a policy");
    let scene = Scene { world, policy, group: 8, stored: 16 };
    let (mut state, repetitions) = (5, 400);
    let steps: Vec<PstarDistances> =
        (0..repetitions).map(|_| scene.estimated_from(24, &mut state)).collect();
    for (i, name) in NAMES.iter().enumerate() {
        let means: Vec<f64> = steps.iter().map(|step| values(step)[i].expect("prompts")).collect();
        let mean = means.iter().sum::<f64>() / f64::from(repetitions);
        let squares: f64 = means.iter().map(|x| (x - mean).powi(2)).sum();
        let spread = (squares / f64::from(repetitions - 1)).sqrt();
        let key = format!("pstar/{name}_stderr");
        let claimed = steps.iter().map(|step| step.standard_errors[&key].powi(2)).sum::<f64>();
        let claimed = (claimed / f64::from(repetitions)).sqrt();
        println!("{name}: standard error {claimed:.4}, spread {spread:.4}");
        assert!(
            (claimed - spread).abs() <= 0.15 * spread,
            "{name}: {claimed}, means vary by {spread}"
        );
    }
    let one = scene.estimated_from(1, &mut state);
    assert!(one.standard_errors.is_empty(), "one prompt says nothing of their spread");
}

/// The rows of a run's metrics.
fn rows(output: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(format!("{output}/metrics.jsonl")).expect("metrics");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn runs_log_the_distance_where_asked_and_train_as_without() {
    let folder = Folder::new();
    let stored = folder.path("stored");
    let few = ["--max-samples", "8", "--max-completion-length", "20", "--device", "cpu"];
    let presample = ["presample", "--num-presamples", "16", "--output", &stored];
    ok(&[&presample[..], &few].concat());
    let objective = ["--objective", "grpo", "--max-samples", "8", "--max-steps", "4"];
    let [plain, logged, alone] = ["plain", "logged", "alone"].map(|name| folder.path(name));
    let run = |output: &str, more: &[&str]| {
        trained(output, &[&objective[..], more].concat());
        std::fs::read(format!("{output}/final/model.safetensors")).expect("weights")
    };
    let weights = run(&plain, &[]);
    let log = ["--log-divergences", "2", "--presamples", &stored];
    assert!(weights == run(&logged, &log), "logging changes no weight");
    assert!(weights == run(&alone, &["--log-divergences", "1", "--log-kl", "off"]));
    assert!(rows(&plain).iter().all(|row| row.get("pstar/tv").is_none()));
    let logged = rows(&logged);
    let due: Vec<bool> = logged.iter().map(|row| row.get("pstar/tv").is_some()).collect();
    assert_eq!(due, [true, false, true, false]);
    // The cost of the base's samples is no part of a run that they only describe.
    assert_eq!(logged[0]["num_completions"], 32);
    let value = |row: &Value, name: &str| {
        row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
    };
    // Before the first update the policy is the base: weights are 1 and nothing is missing.
    let (first, later) = (&logged[0], &logged[2]);
    for (name, known) in [("ess", 1.0), ("missing_mass", 0.0)] {
        assert!((value(first, &format!("pstar/{name}")) - known).abs() < 1e-4, "{first}");
    }
    assert!((value(first, "pstar/validity") - value(first, "reward")).abs() < 1e-4, "{first}");
    // TV of the base to p* is 1 - Z.
    let tv = value(first, "pstar/tv");
    assert!(tv > 0.0 && tv < 1.0 && value(first, "pstar/js") < 2.0_f64.ln(), "{first}");
    assert!(value(first, "pstar/kl") > 0.0 && value(first, "pstar/prompts") >= 1.0, "{first}");
    assert!(value(later, "pstar/ess") < 1.0 - 1e-6, "the policy has moved: {later}");
    // Without stored completions there is what rollouts show.
    let alone = rows(&alone);
    assert!(alone.iter().all(|row| row["pstar/kl"].is_null() && row["pstar/ess"].is_number()));
    let folder = std::path::Path::new(&plain).with_file_name("logged").join("tensorboard");
    let events = std::fs::read_dir(folder).expect("events").next().expect("a file").expect("entry");
    let bytes = std::fs::read(events.path()).expect("readable");
    let tag = b"train/pstar/missing_mass";
    assert!(bytes.windows(tag.len()).any(|window| window == tag), "TensorBoard has it");
}
