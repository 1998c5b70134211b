//! Self-distillation: its expected gradient in worlds, what becomes of diversity there, and runs.

use std::path::Path;

use serde_json::Value;
use tealight::lab::claim::claimed_gradient;
use tealight::lab::sampled::{Draws, estimate, expected_gradient, off_base};
use tealight::lab::sweep::{Point, Start, sweep};
use tealight::lab::{COPIED, Class, Descent, Measures, Setting, Table, World};
use tealight::learn::objective::Objective;

use crate::support::binary::{Folder, ok, refusal, stderr_of};
use crate::support::metrics::rows;
use crate::support::processes::weights;
use crate::support::runs::train;

const DIVERGENCES: [&str; 4] = ["forward-kl", "reverse-kl", "js", "alpha:alpha=0.3"];
const SHOWN: [&str; 5] =
    ["dataset", "base", "rollout", "rollout:teacher=policy", "base:teacher=policy"];

fn named(divergence: &str, shown: &str) -> Objective {
    let text = format!("self-distillation:divergence={divergence}:demonstration={shown}");
    text.parse().unwrap_or_else(|error| panic!("{text}: {error:#}"))
}

fn relative_error(ours: &[f64], claim: &[f64]) -> f64 {
    let size = claim.iter().map(|x| x.abs()).fold(0.0, f64::max);
    assert!(size > 1e-6, "nothing is claimed");
    ours.iter().zip(claim).map(|(a, b)| (a - b).abs() / size).fold(0.0, f64::max)
}

/// The expected gradient of groups of two, and the mean over drawn groups, are what the textbook says.
#[test]
fn self_distillation_gradients_match_enumeration() {
    let mut worst = 0.0_f64;
    for world in [World::ends(3), World::named("walk").expect("known")] {
        let table = off_base(&world, Class::Bigram).expect("memory");
        for divergence in DIVERGENCES {
            for shown in SHOWN {
                let plan = named(divergence, shown).plan;
                let claim = claimed_gradient(&world, &table, &plan, 2).expect("memory");
                let claim = claim.expect("a claim");
                let ours = expected_gradient(&world, &table, &plan).expect("memory");
                worst = worst.max(relative_error(&ours, &claim));
            }
        }
    }
    println!("largest relative error of 40 expected gradients: {worst:.1e}");
    assert!(worst < 1e-9, "{worst}");
    let ends = World::ends(3);
    let table = off_base(&ends, Class::Bigram).expect("memory");
    let draws = Draws { group: 4, groups: 1500, seed: 3 };
    for shown in ["dataset", "base"] {
        for divergence in ["forward-kl", "reverse-kl"] {
            let plan = named(divergence, shown).plan;
            let claim = claimed_gradient(&ends, &table, &plan, 4).expect("memory").expect("one");
            let found = estimate(&ends, &table, &plan, draws).expect("memory");
            let z = found
                .mean
                .iter()
                .zip(&found.error)
                .zip(&claim)
                .map(|((mean, error), claim)| (mean - claim).abs() / error.max(1e-12));
            let largest = z.fold(0.0, f64::max);
            let norm = claim.iter().map(|x| x * x).sum::<f64>().sqrt();
            println!(
                "{divergence} {shown}: largest z {largest:.1}, noise {:.2}",
                found.noise / norm
            );
            assert!(largest < 4.5, "{divergence} {shown}: {largest}");
        }
    }
}

fn optimum(world: &World, class: Class, objective: &Objective) -> Vec<Vec<f64>> {
    let table = Table::base(world, class).expect("memory");
    let setting = Setting::new(world, &objective.plan).expect("exact");
    let descent = Descent { iterations: 4000, learning_rate: 0.03 };
    descent.run(&table, |table| setting.gradient(table)).expect("memory");
    table.distributions(world).expect("memory")
}

/// The warning of arXiv 2606.26091, where it can be computed by hand: outputs of one token, two of them correct.
/// Reverse KL to sampled demonstrations multiplies each by its mean information about them; the frequent one gains.
#[test]
fn reverse_kl_to_demonstrations_makes_frequent_answers_more_frequent() {
    let rows = vec![vec![1.0 / 3.0; 3]; 3];
    let world = World::new("two answers", 1, &[0.3, 0.05, 0.65], &rows, 1, |_, y| y[0] < 2);
    let target = world.filtered(0);
    let shown = |output: usize| world.shown(&world.base, output);
    let ratio = |q: &[f64]| q[0] / q[1];
    let solve = |divergence: &str, shown: &str| {
        optimum(&world, Class::Full, &named(divergence, shown)).remove(0)
    };
    // Forward KL: the mean of the teachers, which keeps the proportions of correct answers.
    let mean: Vec<f64> =
        (0..3).map(|y| target[0] * shown(0)[y] + target[1] * shown(1)[y]).collect();
    let forward = solve("forward-kl", "base");
    // Reverse KL: their normalised geometric mean.
    let power = |y: usize| (target[0] * shown(0)[y].ln() + target[1] * shown(1)[y].ln()).exp();
    let sum: f64 = (0..3).map(power).sum();
    let reverse = solve("reverse-kl", "base");
    let exact: Vec<f64> = (0..3).map(|y| power(y) / sum).collect();
    let is_near = |ours: &[f64], exact: &[f64]| {
        ours.iter().zip(exact).all(|(ours, exact)| (ours - exact).abs() < 1e-6)
    };
    assert!(is_near(&forward, &mean), "{forward:?} {mean:?}");
    assert!(is_near(&reverse, &exact), "{reverse:?} {exact:?}");
    println!(
        "ratio of the correct answers: base {:.2}, forward KL {:.2}, reverse KL {:.2}",
        ratio(&world.base),
        ratio(&forward),
        ratio(&reverse)
    );
    assert!((ratio(&forward) - 6.0).abs() < 1e-4, "forward KL keeps proportions");
    assert!(ratio(&reverse) > 12.0, "{}", ratio(&reverse));
    // The KL penalty, the ideal of reinforcement learning, keeps them too, at any accuracy.
    let kl = optimum(&world, Class::Full, &"kl-full:0.3".parse().expect("known")).remove(0);
    assert!((ratio(&kl) - 6.0).abs() < 1e-3, "{kl:?}");
    // A dataset with one solution of each problem, and demonstrations that move with the policy, are worse.
    for divergence in ["forward-kl", "reverse-kl"] {
        assert!(ratio(&solve(divergence, "dataset")) > 12.0, "{divergence}");
    }
    assert!(ratio(&solve("reverse-kl", "rollout")) > ratio(&reverse));
    assert!((COPIED - 0.5).abs() < 1e-12, "the numbers above are for this");
}

/// Over sequences forward KL loses answers too, since every demonstration counts at every prefix of the policy's, and
/// reverse KL loses more. Where one policy serves prompts that it cannot tell apart, Pass@k is that of a KL penalty
/// with the same accuracy.
#[test]
fn sequences_lose_answers_under_reverse_kl_more_than_under_forward_kl() {
    let world = World::ends(3);
    let measures_of = |divergence: &str, shown: &str| {
        let q = optimum(&world, Class::Full, &named(divergence, shown));
        Measures::new(&world, &q)
    };
    let base = Measures::new(&world, std::slice::from_ref(&world.base));
    let (forward, reverse) = (measures_of("forward-kl", "base"), measures_of("reverse-kl", "base"));
    println!(
        "ends: accuracy and effective answers: base {:.3} {:.2}, forward KL {:.3} {:.2}, reverse KL {:.3} {:.2}",
        base.validity,
        base.effective_valid,
        forward.validity,
        forward.effective_valid,
        reverse.validity,
        reverse.effective_valid
    );
    assert!(forward.validity > base.validity && reverse.validity > base.validity);
    let answers = |m: &Measures| m.effective_valid;
    assert!(answers(&reverse) < 0.95 * answers(&forward), "{reverse:?}");
    assert!(answers(&forward) < 0.95 * answers(&base), "{forward:?}");
    let strategies = World::named("strategies").expect("known");
    let measures_of = |divergence: &str| {
        let q = optimum(&strategies, Class::Unigram, &named(divergence, "base"));
        Measures::new(&strategies, &q)
    };
    let (forward, reverse) = (measures_of("forward-kl"), measures_of("reverse-kl"));
    let kl = |beta: f64| {
        let found = sweep(
            &strategies,
            Class::Unigram,
            &[Point::Beta(beta)],
            Start::Base,
            Descent::default(),
        );
        found.expect("possible").remove(0).measures
    };
    // The KL penalty with the accuracy of reverse KL, by bisection.
    let (mut low, mut high) = (0.02, 5.0);
    for _ in 0..30 {
        let middle = f64::sqrt(low * high);
        if kl(middle).validity > reverse.validity { low = middle } else { high = middle }
    }
    let kl = kl(high);
    let at = |measures: &Measures, k: u32| measures.pass_at_k[&k];
    for (name, m) in [("forward KL", &forward), ("reverse KL", &reverse), ("KL penalty", &kl)] {
        println!(
            "strategies, {name}: Pass@1 {:.4}, 4 {:.4}, 16 {:.4}",
            at(m, 1),
            at(m, 4),
            at(m, 16)
        );
    }
    assert!((at(&kl, 1) - at(&reverse, 1)).abs() < 1e-3);
    assert!((at(&kl, 16) - at(&reverse, 16)).abs() < 0.01, "{kl:?} {reverse:?}");
}

const FEW: [&str; 4] = ["--max-samples", "8", "--max-steps", "6"];

fn run(output: &str, more: &[&str]) -> Vec<Value> {
    let done = train(output, &[&FEW[..], more].concat());
    assert!(done.status.success(), "{}", stderr_of(&done));
    rows(Path::new(output))
}

/// A teacher that is shown nothing new is the base.
#[test]
fn a_teacher_with_the_same_prompt_is_the_base() {
    let folder = Folder::new();
    let [plain, shown] = ["plain", "shown"].map(|name| folder.path(name));
    let objective = "rloo:divergence=reverse-kl:estimator=held:beta=0.3";
    let template = ["--demonstration-template", "{{ prompt }}"];
    let dataset = format!("{objective}:demonstration=dataset");
    let without = run(&plain, &["--objective", objective]);
    let with = run(&shown, &[&["--objective", &dataset], &template[..]].concat());
    assert!(weights(&plain) == weights(&shown), "the same losses, the same weights");
    for (a, b) in without.iter().zip(&with) {
        assert_eq!((&a["loss"], &a["grad_norm"]), (&b["loss"], &b["grad_norm"]));
        assert_eq!(b["demonstrated"], 1.0);
        assert!(a.get("demonstrated").is_none());
    }
    let divergence = |row: &Value| row["teacher_divergence"].as_f64().expect("a number");
    assert!(divergence(&with[0]).abs() < 1e-5 && divergence(&with[5]) > 0.0);
}

/// The policy comes nearer to what its teacher says, by samples of every kind, and as well in two processes.
#[test]
fn runs_move_toward_the_teacher() {
    let folder = Folder::new();
    let divergence = |row: &Value| row["teacher_divergence"].as_f64().expect("a number");
    let few = ["--max-samples", "4", "--prompts-per-step", "4", "--num-generations", "8"];
    let fast = ["--learning-rate", "1e-3", "--max-completion-length", "20", "--device", "cpu"];
    let train = |text: &str, steps: &str| {
        let output = folder.path(&text.replace(':', " "));
        let this = ["train", "--objective", text, "--max-steps", steps, "--output", &output];
        ok(&[&this[..], &few, &fast].concat());
        rows(Path::new(&output))
    };
    for text in ["self-distillation", "self-distillation:js:base"] {
        let rows = train(text, "12");
        let (first, last) = (divergence(&rows[0]), divergence(&rows[11]));
        println!("{text}: divergence from the teacher {first:.3} to {last:.3} nats a token");
        assert!(last < 0.8 * first, "{text}: {first} to {last}");
    }
    // A teacher that moves with the policy begins as the base.
    let moving = train("self-distillation:teacher=policy", "2");
    assert!(
        (divergence(&moving[0]) - divergence(&train("self-distillation:forward-kl", "1")[0])).abs()
            < 1e-5
    );
    let [alone, ranks] = ["alone", "ranks"].map(|name| folder.path(name));
    let rollout =
        ["train", "--objective", "self-distillation:js:rollout", "--num-generations", "4"];
    let few =
        ["--max-samples", "6", "--max-steps", "3", "--prompts-per-step", "3", "--device", "cpu"];
    let launched_rows = |launch: &[&str], output: &str| {
        ok(&[launch, &rollout, &few, &["--max-completion-length", "20", "--output", output]]
            .concat());
        rows(Path::new(output))
    };
    let (alone, ranks) =
        (launched_rows(&[], &alone), launched_rows(&["launch", "-n", "2"], &ranks));
    for (one, two) in alone.iter().zip(&ranks) {
        // One of four samples is never shown itself: not all have another correct one.
        assert!(one["demonstrated"].as_f64().expect("a share") < 1.0);
        assert_eq!(one["demonstrated"], two["demonstrated"]);
        if one["teacher_divergence"].is_number() {
            let (one, two) = (divergence(one), divergence(two));
            assert!((one - two).abs() < 1e-4 * one.max(1e-3), "{one} {two}");
        }
    }
}

#[test]
fn invalid_demonstrations_are_refused() {
    let folder = Folder::new();
    let refused = |more: &[&str]| {
        let own = Folder::new();
        let output = own.path("run");
        refusal(&[&["train", "--output", &output, "--max-steps", "1"], more].concat())
    };
    let file = folder.write("hard.jsonl", "{\"question\": \"1+1?\", \"answer\": \"2\"}\n");
    let hard = ["--dataset", &file, "--verifier", "exact", "--max-completion-length", "8"];
    let error = refused(&[&["--objective", "self-distillation:js:base"], &hard[..]].concat());
    assert!(
        error.contains("no problem has a correct solution") && error.contains("presamples"),
        "{error}"
    );
    let error = refused(&["--objective", "grpo", "--demonstration-template", "{{ prompt }}"]);
    assert!(error.contains("--demonstration-template has no effect"), "{error}");
    let error =
        refused(&["--objective", "self-distillation", "--demonstration-template", "{{ x }}"]);
    assert!(error.contains("--demonstration-template"), "{error}");
    let parsed = |text: &str| text.parse::<Objective>().expect_err("impossible").to_string();
    assert!(parsed("grpo:rule=none:baseline=none").contains("rule=none"));
    assert!(parsed("kl-full:demonstration=dataset").contains("has no effect"));
    let twice = parsed("self-distillation:teacher=policy:num-iterations=2:trust-region=ppo");
    assert!(twice.contains("teacher=policy"), "{twice}");
}
