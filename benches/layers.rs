//! The time of each part of a layer on this machine: `cargo bench --bench layers`. `tealight bench` measures whole
//! rollouts and steps, and how far they are from the machine's limits.

use std::collections::BTreeMap;

use candle_core::Device;
use divan::Bencher;
use tealight::learn::objective::{GroupStats, Objective, advantages};
use tealight::nn::generate::{
    Filters, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight::nn::model::{Architecture, PackedSequences, weights};
use tealight::nn::policy::{Base, GradAccumulator, Policy, Sequence, token_logp};
use tealight_matmul::{Matrix, Packed, Right, product};

fn main() {
    divan::main();
}

/// A Qwen2 of a few million parameters.
fn policy() -> Policy {
    seeded_policy(0)
}

fn seeded_policy(seed: u64) -> Policy {
    let config = serde_json::json!({
        "model_type": "qwen2", "vocab_size": 2048, "hidden_size": 192, "intermediate_size": 704,
        "num_hidden_layers": 6, "num_attention_heads": 6, "num_key_value_heads": 2,
        "max_position_embeddings": 1024, "tie_word_embeddings": true, "initializer_range": 0.04,
    });
    let architecture = Architecture::from_config(&config).expect("a config");
    let weights: BTreeMap<_, _> =
        weights::random(&architecture, seed, &Device::Cpu).expect("weights");
    Policy::new(&architecture, &weights).expect("a policy")
}

fn rows(group: usize, tokens: u32) -> Vec<Sequence> {
    let completion = |row: u32| (0..tokens).map(|t| (t * 31 + row * 7) % 2048).collect();
    (0..group as u32)
        .map(|row| Sequence { prompt: (0..32).collect(), completion: completion(row) })
        .collect()
}

/// A weight of 704 x 192 against so many rows.
#[divan::bench(args = [1, 8, 64, 512])]
fn packed_product(bencher: Bencher<'_, '_>, rows: usize) {
    let (left, right) = (vec![0.5f32; rows * 192], vec![0.25f32; 192 * 704]);
    let packed = Packed::new(Matrix::new(&right, 704, 192).transposed());
    bencher.bench(|| product(Matrix::new(&left, rows, 192), Right::Packed(&packed)));
}

/// All layers on one prompt of so many tokens.
#[divan::bench(args = [32, 256, 1000])]
fn prefill(bencher: Bencher<'_, '_>, tokens: usize) {
    let policy = policy();
    let ids: Vec<u32> = (0..tokens as u32).collect();
    let packed = PackedSequences::from_start([tokens]);
    bencher.bench(|| policy.decoder().hidden(&ids, &packed, None));
}

/// Eight completions of 64 tokens, sampled.
#[divan::bench(args = [1, 8, 64])]
fn rollout(bencher: Bencher<'_, '_>, group: usize) {
    let policy = policy();
    let request = SampleRequest { prompt: (0..32).collect(), first: 0, count: group, key: 0 };
    let filters = Filters::default();
    let params = SamplingParams { temperature: 1.0, filters, max_new_tokens: 64, eos: vec![] };
    let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 64 };
    let rng_key = RngKey { seed: 0, step: 0 };
    bencher.bench(|| {
        sampler.generate(std::slice::from_ref(&request), &params, rng_key, &mut |_, _| Ok(()))
    });
}

/// Log-probabilities of a group of completions of 64 tokens and their gradient.
#[divan::bench(args = [1, 8, 32])]
fn forward_and_backward(bencher: Bencher<'_, '_>, group: usize) {
    let (policy, rows) = (policy(), rows(group, 64));
    bencher.bench(|| {
        let forward = policy.forward(&rows, 1.0, None).expect("a pass");
        let loss = forward.logp().sum_all().expect("a sum");
        let mut grads = GradAccumulator::default();
        policy.backward(forward, &loss, &mut grads).expect("gradients");
        grads
    });
}

/// The same with a divergence of the full vocabulary: a named one, and the same by its formula.
#[divan::bench(args = [
    "reverse-kl", "f=t*log(t)", "forward-kl", "f=-log(t)", "js", "f=(t*log(t)-(t+1)*log((t+1)/2))/2",
])]
fn full_vocabulary(bencher: Bencher<'_, '_>, divergence: &str) {
    let (policy, base, rows) = (policy(), seeded_policy(1), rows(1, 32));
    let distributions = token_logp(base.decoder(), &rows, 1.0).expect("a pass").distributions;
    let divergence = divergence.parse().expect("a divergence");
    let base = Base { decoder: base.decoder(), distributions, divergence };
    bencher.bench(|| {
        let forward = policy.forward_compared(&rows, 1.0, None, Some(&base)).expect("a pass");
        let loss = forward.divergence().expect("a divergence").sum_all().expect("a sum");
        let mut grads = GradAccumulator::default();
        policy.backward(forward, &loss, &mut grads).expect("gradients");
        grads
    });
}

/// The advantages of a thousand groups of eight: GRPO's, and the same by its rule.
#[divan::bench(args = ["grpo", "grpo:advantage=(r - mean(r)) / (std(r) + 1e-6)"])]
fn group_advantages(bencher: Bencher<'_, '_>, objective: &str) {
    let plan = objective.parse::<Objective>().expect("an objective").plan;
    let group = |number: usize| {
        let is_correct = |sample: usize| (number >> sample) & 1 == 1;
        GroupStats {
            rewards: (0..8).map(|sample| f64::from(u8::from(is_correct(sample)))).collect(),
            classes: (0..8).map(|sample| is_correct(sample).then_some(sample)).collect(),
            behavior_logp: vec![-1.0; 8],
            base_logp: vec![-1.0; 8],
            lengths: vec![64; 8],
            ..GroupStats::default()
        }
    };
    let groups: Vec<GroupStats> = (0..1000).map(group).collect();
    bencher.bench(|| advantages(&plan, &groups));
}
