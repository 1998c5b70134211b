//! The loop by what it learns: a small random model, a reward that a rule gives.

use crate::support;
use crate::support::letters::{Letters, StartsAlike, problems};
use tealight::learn::objective::{LossType, Objective};
use tealight::learn::presample::{PresampleSpec, Presamples, presample};
use tealight::learn::rollout::{Collector, Encoded};
use tealight::learn::train::rlvr::{
    self, Data, End, Metrics, Models, Rewarding, RlvrConfig, Run, Sampling, Settings, TrainingData,
};
use tealight::learn::train::{AdamW, checkpoint::State};
use tealight::nn::generate::LocalSampler;
use tealight::nn::policy::Policy;
use tealight::nn::tokenizer::Tokenizer;
use tealight::system::choices::names;
use tealight::system::stop::Stop;
use tealight_core::ranks::Ranks;
use tealight_datasets::Verifier;

fn config(objective: &str, max_steps: usize) -> RlvrConfig {
    let flags = "--num-generations 16 --prompts-per-step 4 --max-completion-length 4 --num-presamples 32 \
                 --rehearsal-batch-size 32 --seed 5 --learning-rate 3e-3 --micro-batch-tokens 10000 --max-num-seqs 64 \
                 --save-steps 0 --log-kl all --max-steps";
    let plan = objective.parse::<Objective>().expect("possible").plan;
    let split = if plan.rehearsal_loss().is_some() {
        ":pef-threshold=0.01:extra-check=false:explore=all"
    } else {
        ""
    };
    crate::ranks::options(&format!("{flags} {max_steps} --objective {objective}{split}"))
}

/// The base's samples of every problem.
fn base_samples(
    base: &Policy,
    problems: &[Encoded<'_>],
    settings: &Settings,
    tokenizer: &dyn Tokenizer,
    verifier: &dyn Verifier,
) -> Presamples {
    let sampler = LocalSampler { decoder: base.decoder(), max_rows: 64 };
    let params = settings.sampling(tokenizer);
    let collector = Collector::new(&sampler, tokenizer, verifier, &params);
    let request = PresampleSpec {
        model: "random".into(),
        dataset: "letters".into(),
        num_presamples: settings.num_presamples,
        extra_check: false,
        temperature: 1.0,
        max_completion_length: settings.length(),
        seed: 1,
        precision: tealight::nn::device::Precision::default(),
    };
    let (folder, alone) = (tempfile::tempdir().expect("a directory"), Ranks::alone());
    let draw = presample(&collector, problems, &request, folder.path(), &alone, &mut || Ok(()));
    draw.expect("sampled")
}

/// A finished run: its policy's weights and its metrics.
struct Trained {
    policy: Policy,
    history: Vec<Metrics>,
}

fn train(config: &RlvrConfig) -> Trained {
    let (base, policy) = (support::policy(6, 7), support::policy(6, 7));
    let problems = problems();
    let encoded = Encoded::all(&problems, &Letters, 64, 4).expect("fits");
    let plan = config.plan().expect("possible");
    let presamples = plan
        .needs_presamples()
        .then(|| base_samples(&base, &encoded, &config.settings, &Letters, &StartsAlike));
    let data = TrainingData::new(&plan, encoded.len(), presamples.as_ref()).expect("some");
    let rewarding = Rewarding::new(config, &plan, StartsAlike.grading()).expect("binary");
    let run = Run {
        config,
        plan: &plan,
        models: Models {
            policy: &policy,
            base: Some(base.decoder()),
            tokenizer: &Letters,
            sampling: Sampling::default(),
        },
        data: Data {
            problems: &encoded,
            training: &data,
            verifier: &StartsAlike,
            rewarding: &rewarding,
        },
        ranks: &Ranks::alone(),
    };
    let mut optimizer = AdamW::new(config.settings.adamw, policy.weights()).expect("memory");
    let (mut history, mut state) = (Vec::new(), State::default());
    let end = rlvr::train(&run, &mut state, &mut optimizer, &Stop::default(), &mut |step| {
        history.push(step.metrics.clone());
        Ok(())
    });
    assert_eq!(end.expect("trains"), End::Done);
    Trained { policy, history }
}

fn flat(policy: &Policy) -> Vec<f64> {
    policy.tensors().values().flat_map(support::flat).collect()
}

fn mean(part: &[Metrics], value: fn(&Metrics) -> f64) -> f64 {
    part.iter().map(value).sum::<f64>() / part.len() as f64
}

#[test]
fn training_raises_the_reward_under_every_kind_of_objective() {
    let all = "none rloo reverse-kl:0.05 kl-full:0.05 forward-kl:0.3 js:0.6 alpha-dpg:0.5 f-dpg:hellinger \
               match:p-beta:reverse-kl:beta=0.02:baseline=loo gspo:epsilon=0.1";
    for objective in all.split_whitespace() {
        let trained = train(&config(objective, 40));
        let reward = |part: &[Metrics]| mean(part, |metrics| metrics.reward.expect("rollouts"));
        let (first, last) = (reward(&trained.history[..4]), reward(&trained.history[36..]));
        assert!(last > first + 0.15, "{objective}: reward went from {first} to {last}");
        let difference = trained.history[0].logp_difference.expect("rollouts");
        assert!(difference < 1e-4, "the ratio starts at 1");
        assert!(trained.history[0].kl.expect("logged").abs() < 1e-4, "the KL starts at 0");
        let rehearsed = trained.history[0].rehearsal_divergence;
        let rehearses = objective.starts_with("forward") || objective.starts_with("js");
        assert_eq!(rehearsed.is_some(), rehearses);
        assert!(rehearsed.unwrap_or(0.0).abs() < 1e-6, "the divergence starts at 0");
    }
}

#[test]
fn every_objective_trains() {
    for name in Objective::names() {
        let trained = train(&config(name, 3));
        assert_eq!(trained.history.len(), 3, "{name}");
        for metrics in &trained.history {
            let is_finite = metrics.loss.is_finite() && metrics.grad_norm.is_finite();
            assert!(is_finite, "{name}: {metrics:?}");
        }
        assert!(trained.history.iter().any(|m| m.grad_norm > 1e-6), "{name} learns nothing");
        assert_eq!(trained.history[0].skipped_steps, 0, "{name}");
    }
}

#[test]
fn supervised_objectives_raise_the_chance_of_right_answers() {
    let problems = problems();
    let encoded = Encoded::all(&problems, &Letters, 64, 4).expect("fits");
    let settings = Settings { num_presamples: 512, ..config("rft", 40).settings };
    let right = |policy: &Policy| {
        base_samples(policy, &encoded, &settings, &Letters, &StartsAlike).mean_validity()
    };
    let before = right(&support::policy(6, 7));
    for objective in [
        "rft",
        "match:p-beta:forward-kl:stored:beta=0.1",
        "match:p-star:js:filtered",
        "match:p-star:tv:stored",
    ] {
        let trained = train(&config(objective, 40));
        let after = right(&trained.policy);
        assert!(trained.history[0].reward.is_none(), "nothing is sampled");
        assert!(after > 1.7 * before, "{objective}: right {before} before, {after} after");
    }
}

#[test]
fn a_strong_divergence_penalty_keeps_the_divergence_small() {
    let last = |objective: &str| train(&config(objective, 40)).history[39].clone();
    let kl = |objective: &str| last(objective).kl.expect("logged");
    let free = kl("none");
    for objective in [
        "reverse-kl:3",
        "kl-full:3",
        "kl-k2:3",
        "kl-k3:3",
        "none:divergence=js:beta=20",
        "kl-full:3:divergence=forward-kl",
    ] {
        let penalized = kl(objective);
        assert!(penalized < free / 2.0, "{objective}: KL {penalized} against {free} without");
    }
    // Rehearsal holds the base's correct answers, not the whole of the base.
    let forgotten = |objective: &str| last(objective).rehearsal_divergence.expect("rehearsed");
    for (weak, strong) in [("forward-kl:0.001", "forward-kl:10"), ("js:0.001", "js:30")] {
        let (weak, strong) = (forgotten(weak), forgotten(strong));
        assert!(strong < weak / 2.0, "divergence {strong} against {weak} with hardly any weight");
    }
}

#[test]
fn entropy_rules_change_entropy() {
    let last = |objective: &str| train(&config(objective, 40)).history;
    let entropy =
        |history: &[Metrics]| mean(&history[30..], |metrics| metrics.entropy.expect("rollouts"));
    let free = entropy(&last("none"));
    assert!(entropy(&last("entropy-bonus:0.3")) > free + 0.2, "a bonus keeps entropy up");
    let adapted = last("entropy-target:1.2");
    assert!(entropy(&adapted) > free, "a target keeps entropy up");
    assert!(adapted[39].entropy_bonus.expect("adapts") > 0.0);
}

#[test]
fn dynamic_sampling_fills_the_step_with_mixed_groups() {
    let mut run = config("dapo", 6);
    run.settings.num_generations = 2;
    let history = train(&run).history;
    let sampled = |step: usize| {
        history[step].num_tokens - if step == 0 { 0 } else { history[step - 1].num_tokens }
    };
    // Four prompts of two completions are at most 32 tokens; most such groups are all wrong.
    assert!((0..6).any(|step| sampled(step) > 40), "more prompts were drawn");
    assert!(history.iter().any(|metrics| metrics.grad_norm > 1e-6));
}

#[test]
fn the_result_does_not_depend_on_the_micro_batch() {
    for objective in ["none", "js:0.6", "kl-full:0.5", "none:entropy=0.1", "kl-k3:0.5"] {
        for loss_type in names::<LossType>().split(", ") {
            let whole = config(&format!("{objective}:loss-type={loss_type}"), 1);
            let mut split = whole.clone();
            split.settings.micro_batch_tokens = 15;
            let (whole, split) = (train(&whole), train(&split));
            // AdamW's first step is the sign of the gradient: compare what it is made from.
            let (a, b) = (whole.history[0].grad_norm, split.history[0].grad_norm);
            assert!((a - b).abs() < 1e-5 * a, "{loss_type}: {a} is not {b}");
            let [whole, split] = [&whole.policy, &split.policy].map(flat);
            let apart = whole.iter().zip(&split).filter(|(a, b)| (*a - *b).abs() > 1e-4).count();
            assert!(apart < whole.len() / 200, "{apart} weights moved otherwise");
        }
    }
}

#[test]
fn a_trust_region_acts_once_a_batch_has_several_updates() {
    let clipped = |objective: &str| {
        mean(&train(&config(objective, 8)).history, |m| m.clip_region.expect("rollouts"))
    };
    assert_eq!(clipped("gspo:steps-per-generation=1"), 0.0, "at ratio 1 nothing is clipped");
    for acts in ["gspo", "none:steps-per-generation=4:epsilon=0.01"] {
        assert!(clipped(acts) > 0.0, "{acts}");
    }
    // With one update sequence ratios are no different from the tokens' own.
    let weights = |objective: &str| flat(&train(&config(objective, 3)).policy);
    let grpo = weights("grpo");
    let apart =
        |from: Vec<f64>| from.iter().zip(&grpo).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(apart(weights("gspo:steps-per-generation=1")) < 1e-4 && apart(weights("gspo")) > 1e-4);
    let last = |objective: &str| train(&config(objective, 2)).history[1].clone();
    let (one, four) = (last("none"), last("none:steps-per-generation=4"));
    assert_eq!((one.num_updates, four.num_updates), (2, 8));
    assert_eq!(last("none:num-iterations=2").num_gradients, 2 * one.num_gradients);
    let rehearsed = last("js:0.6");
    assert!(rehearsed.num_gradients - rehearsed.num_rehearsed == one.num_gradients);
}

#[test]
fn rehearsal_can_use_one_sample_a_prompt() {
    let base = support::policy(6, 7);
    let problems = problems();
    let encoded = Encoded::all(&problems, &Letters, 64, 4).expect("fits");
    let settings = config("js:0.6", 1).settings;
    let presamples = base_samples(&base, &encoded, &settings, &Letters, &StartsAlike);
    let stored = |objective: &str| {
        let run = config(objective, 1);
        let plan = run.plan().expect("possible");
        let found = TrainingData::new(&plan, 4, Some(&presamples)).expect("some are correct");
        (found.rehearsal.len(), found.stored_prompts.len())
    };
    let ((all, prompts), one) = (stored("js:0.6"), stored("js:0.6:rehearsal-samples=one"));
    assert!(all > prompts && one == (prompts, prompts), "{all} of {prompts}, {one:?}");
}
