//! Full-vocabulary terms of losses, and their gradients in every weight, beside the definition in f64.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor, Var};
use serde_json::json;
use tealight::lab::vocabulary;
use tealight::learn::objective::Divergence;
use tealight::nn::model::{Architecture, weights};
use tealight::nn::policy::{Base, GradAccumulator, Sequence, by_row, token_logp};

use crate::support::{backends, flat, graph, tiny};

const TEMPERATURE: f64 = 0.8;

fn architecture() -> Architecture {
    // A vocabulary of three blocks, none of them whole registers.
    tiny(
        "llama",
        &json!({"vocab_size": 4133, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 1,
        "num_attention_heads": 2, "num_key_value_heads": 1, "tie_word_embeddings": false, "initializer_range": 0.4}),
    )
}

fn rows() -> Vec<Sequence> {
    let row = |prompt: &[u32], completion: &[u32]| Sequence {
        prompt: prompt.into(),
        completion: completion.into(),
    };
    vec![row(&[5, 9], &[4132, 7, 2048]), row(&[5, 9], &[2047]), row(&[3], &[11, 0])]
}

/// Numbers that differ from backend to backend.
fn wave(count: usize, by: f64) -> Vec<f64> {
    (0..count).map(|index| 0.3 + (index as f64 * by).sin()).collect()
}

fn assert_close(ours: &Tensor, exact: &Tensor, what: &str) {
    let (ours, exact) = (flat(ours), flat(exact));
    assert_eq!(ours.len(), exact.len(), "{what}");
    let size = exact.iter().map(|x| x * x).sum::<f64>().sqrt() / (exact.len() as f64).sqrt();
    for (ours, exact) in ours.iter().zip(&exact) {
        assert!(
            (ours - exact).abs() < 2e-4 * (size + exact.abs()),
            "{what}: {ours} is not {exact}"
        );
    }
}

/// A loss of everything that can be asked for: `[N]` log-probabilities, entropies and divergences.
fn loss(parts: [&Tensor; 3]) -> Tensor {
    let share = |(x, by): (&Tensor, f64)| {
        let weight = Tensor::new(wave(x.elem_count(), by), &Device::Cpu).unwrap();
        let weight = weight.reshape(x.shape()).unwrap().to_dtype(x.dtype()).unwrap();
        (x.to_device(&Device::Cpu).unwrap() * weight).unwrap().sum_all().unwrap()
    };
    let sums = parts.into_iter().zip([0.7, 1.1, 1.9]).map(share);
    sums.reduce(|sum, part| (sum + part).unwrap()).unwrap()
}

/// The same by the graph, with the gradient of every weight.
fn exact(
    architecture: &Architecture,
    weights: [&weights::Weights; 2],
    divergence: Divergence,
) -> ([Tensor; 2], BTreeMap<String, Tensor>) {
    let variables = graph::variables(weights[0]);
    let next = |weights: weights::Weights| {
        graph::next_logp(architecture, &weights, &rows(), TEMPERATURE).unwrap()
    };
    let policy = next(graph::tracked(&variables));
    let base = next(graph::tracked(&graph::variables(weights[1]))).detach();
    let targets: Vec<u32> = rows().into_iter().flat_map(|row| row.completion).collect();
    let targets = Tensor::new(targets, &Device::Cpu).unwrap().unsqueeze(1).unwrap();
    let entropy = vocabulary::entropy(&policy).unwrap();
    let apart = vocabulary::divergence(divergence, &policy, &base).unwrap();
    let total = loss([&policy.gather(&targets, 1).unwrap().squeeze(1).unwrap(), &entropy, &apart]);
    let found = total.backward().unwrap();
    let named_gradient =
        |(name, var): (&String, &Var)| (name.clone(), found.get(var).unwrap().clone());
    ([entropy, apart], variables.iter().map(named_gradient).collect())
}

#[test]
fn divergences_and_entropies_have_their_values_and_their_gradients() {
    let architecture = architecture();
    let [own, other] =
        [1, 2].map(|seed| weights::random(&architecture, seed, &Device::Cpu).expect("memory"));
    let formulas = ["f=(t-1)^2/(t+1)", "f=t*log(t)", "f=max(t,0.9)+t^1.5"];
    let formulas = formulas.map(|text| text.parse::<Divergence>().expect("convex"));
    for divergence in Divergence::all().chain(formulas) {
        let (values, exact_grads) = exact(&architecture, [&own, &other], divergence);
        for backend in backends() {
            let policy = backend.policy(&architecture, &own);
            let base = backend.policy(&architecture, &other);
            let result = token_logp(base.decoder(), &rows(), TEMPERATURE).expect("a pass");
            let distributions = result.distributions;
            let base = Base { decoder: base.decoder(), distributions, divergence };
            let forward =
                policy.forward_compared(&rows(), TEMPERATURE, Some(&base)).expect("a pass");
            let apart = forward.divergence().expect("asked for");
            for (ours, (exact, what)) in [forward.entropy(), apart]
                .into_iter()
                .zip(values.iter().zip(["entropy", "divergence"]))
            {
                assert_close(ours, exact, &format!("{divergence}: {what}"));
            }
            let total = loss([forward.logp(), forward.entropy(), apart]);
            let mut grads = GradAccumulator::default();
            policy.backward(forward, &total, &mut grads).expect("gradients");
            let found = policy.gradients(&grads).expect("gradients");
            assert_eq!(found.len(), exact_grads.len());
            for (name, exact) in &exact_grads {
                assert_close(&found[name], exact, &format!("{divergence}: {name}"));
            }
        }
    }
}

#[test]
fn self_divergence_and_its_gradient_are_zero() {
    let architecture = architecture();
    let own = weights::random(&architecture, 1, &Device::Cpu).expect("memory");
    for (backend, divergence) in backends()
        .into_iter()
        .flat_map(|backend| Divergence::all().map(move |d| (backend.clone(), d)))
    {
        let policy = backend.policy(&architecture, &own);
        let result = token_logp(policy.decoder(), &rows(), TEMPERATURE).expect("a pass");
        let parts = result.distributions.split([3, 1, 2].into_iter()).expect("six places");
        let parts: Vec<_> = parts.iter().collect();
        let distributions = tealight::nn::policy::Distributions::joined(&parts).expect("memory");
        let base = Base { decoder: policy.decoder(), distributions, divergence };
        let forward = policy.forward_compared(&rows(), TEMPERATURE, Some(&base)).expect("a pass");
        let apart = by_row(forward.divergence().expect("asked for"), &rows()).expect("values");
        assert_eq!(apart.iter().map(Vec::len).collect::<Vec<_>>(), [3, 1, 2]);
        // Half of what rounding moves log-ratios by is total variation; the others are of its square.
        let most = if divergence == Divergence::TotalVariation { 1e-5 } else { 1e-9 };
        assert!(apart.iter().flatten().all(|x| (0.0..most).contains(x)), "{divergence}: {apart:?}");
    }
}
