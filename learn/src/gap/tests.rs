//! The gradient of a real policy against finite differences of measures that leave nothing out.

use candle_core::Device;
use tealight_datasets::{open, read::Columns};
use tealight_formats::pretrained::Pretrained;
use tealight_nn::device::Precision;
use tealight_nn::policy::{GradAccumulator, Policy};

use super::climb::{Aim, Climb};
use super::{Beta, Measures, Outputs};
use crate::listed::{encoded, logp};

const BETA: Beta = Beta(0.3);

fn measured(policy: &Policy, problems: &[Outputs]) -> f64 {
    let of_problem = |outputs: &Outputs| {
        logp(policy.decoder(), &outputs.rows, 1.0, &mut || Ok(())).expect("log-probabilities")
    };
    let all: Vec<Vec<f64>> = problems.iter().map(of_problem).collect();
    Measures::new(problems, &all, BETA).objective
}

/// Moves every weight by `scale` times the gradient.
fn shift(policy: &Policy, gradients: &GradAccumulator, scale: f64) {
    for (name, gradient) in policy.gradients(gradients).expect("gradients") {
        let var = &policy.weights()[&name];
        let moved = (var.as_tensor() + (gradient * scale).expect("scaled")).expect("moved");
        var.set(&moved).expect("set");
    }
    policy.refresh().expect("refreshed");
}

/// Along the gradient g of -J, J changes by `-2 h |g|^2` between `h` ahead and `h` back; the projection of p_beta and
/// an ascent of J then raise J.
#[test]
fn gradients_of_a_policy_are_those_of_finite_differences_and_climbs_raise_j() {
    let base = Pretrained::load("tasks", Precision::default(), &Device::Cpu).expect("embedded");
    let dataset = open("sat/train", &Columns::default(), Some(2)).expect("a task");
    let decoder = base.decoder().expect("a decoder");
    let tokenizer = (&base.tokenizer as _, 16);
    let problems =
        Outputs::all(&dataset, tokenizer, (&decoder, 1.0), &mut || Ok(())).expect("few outputs");
    assert!(problems.iter().all(|outputs| outputs.rows.len() == 32), "2^5 outputs each");
    let policy = base.policy(None).expect("a policy");
    let climb =
        |aim, steps| Climb { aim, beta: BETA, temperature: 1.0, steps, learning_rate: 1e-4 };
    // At the base itself the gradient of the KL is 0: move away first.
    climb(Aim::Projection, 3).run(&policy, &problems, &mut || Ok(())).expect("a projection");
    let start = measured(&policy, &problems);
    let ascent = climb(Aim::Objective, 1);
    let all = problems.iter().map(|outputs| ascent.active(&policy, outputs, 0.0).expect("rows"));
    let gradients = ascent.gradients(&policy, &all.collect::<Vec<_>>()).expect("gradients");
    let squares: f64 = policy
        .gradients(&gradients)
        .expect("gradients")
        .values()
        .map(|g| {
            f64::from(
                g.sqr()
                    .and_then(|g| g.sum_all())
                    .and_then(|g| g.to_scalar::<f32>())
                    .expect("a sum"),
            )
        })
        .sum();
    let step = 5e-4 / squares.sqrt();
    shift(&policy, &gradients, -step);
    let ahead = measured(&policy, &problems);
    shift(&policy, &gradients, 2.0 * step);
    let back = measured(&policy, &problems);
    shift(&policy, &gradients, -step);
    let (difference, expected) = (ahead - back, 2.0 * step * squares);
    assert!((difference / expected - 1.0).abs() < 0.01, "{difference:e} {expected:e}");
    climb(Aim::Objective, 20).run(&policy, &problems, &mut || Ok(())).expect("an ascent");
    let best = Measures::of_optimum(&problems, BETA).objective;
    let end = measured(&policy, &problems);
    assert!(end > start && end <= best + 1e-5, "{start} {end} {best}");
}

/// A text that is listed twice is one output: its probability counts once.
#[test]
fn texts_of_equal_tokens_are_one_output() {
    let base = Pretrained::load("tasks", Precision::default(), &Device::Cpu).expect("embedded");
    let dataset = open("sat/train", &Columns::default(), Some(1)).expect("a task");
    let problem = &dataset.problems[0];
    let texts = dataset.outputs.and_then(|list| list(problem)).expect("few outputs");
    let twice = [texts.clone(), texts.clone()].concat();
    let all = encoded(&dataset, problem, &twice, (&base.tokenizer, 16)).expect("short texts");
    assert_eq!(all.len(), texts.len());
}
