//! Sampling: right distribution, right log-probabilities, nothing that depends on the batch.

use crate::support;
use std::collections::HashMap;

use candle_core::Device;
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::Precision;
use tealight::nn::generate::{
    Completion, Finish, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight::nn::model::RolloutDtype;
use tealight::nn::policy::{Policy, Sequence, by_row, token_logp};

const NOISE: RngKey = RngKey { seed: 11, step: 3 };

fn params(temperature: f64, max_new_tokens: usize) -> SamplingParams {
    support::sampling(temperature, max_new_tokens, &[0])
}

fn sample(
    policy: &Policy,
    requests: &[SampleRequest],
    params: &SamplingParams,
    max_rows: usize,
) -> Vec<Vec<Completion>> {
    support::sampled(&LocalSampler { decoder: policy.decoder(), max_rows }, requests, params, NOISE)
}

fn requests() -> Vec<SampleRequest> {
    [vec![3, 4, 5], vec![6], vec![1, 2, 3, 4, 5, 6, 7], vec![8, 8]]
        .into_iter()
        .enumerate()
        .map(|(key, prompt)| SampleRequest { prompt, first: 0, count: 5, key: key as u64 })
        .collect()
}

#[test]
fn cached_log_probabilities_equal_the_teacher_forced_ones() {
    let policy = support::policy(12, 1);
    for temperature in [0.7, 1.0, 1.5] {
        let all = sample(&policy, &requests(), &params(temperature, 20), 7);
        for (request, completions) in requests().iter().zip(all) {
            assert_eq!(completions.len(), 5);
            let rows: Vec<Sequence> = completions
                .iter()
                .map(|c| Sequence { prompt: request.prompt.clone(), completion: c.tokens.clone() })
                .collect();
            let forced = token_logp(policy.decoder(), &rows, temperature).expect("logp").logp;
            let forced = by_row(&forced, &rows).expect("rows");
            for (completion, forced) in completions.iter().zip(forced) {
                for (sampled, forced) in completion.logp.iter().zip(forced) {
                    assert_eq!(*sampled, forced, "the same bits in every batch");
                }
                let ends = completion.tokens.last() == Some(&0);
                assert_eq!(completion.finish == Finish::Stop, ends);
                assert!(ends || completion.tokens.len() == 20);
                assert!(!completion.tokens[..completion.tokens.len() - 1].contains(&0));
            }
        }
    }
}

#[test]
fn a_sample_depends_on_its_key_alone_not_on_its_batch() {
    let policy = support::policy(12, 2);
    let together = sample(&policy, &requests(), &params(1.0, 20), 64);
    let in_small_batches = sample(&policy, &requests(), &params(1.0, 20), 3);
    for (index, request) in requests().into_iter().enumerate() {
        let alone = sample(&policy, &[request], &params(1.0, 20), 1).remove(0);
        for other in [&in_small_batches[index], &alone] {
            for (a, b) in together[index].iter().zip(other) {
                assert_eq!(a.tokens, b.tokens);
            }
        }
        let distinct: std::collections::HashSet<_> =
            alone.iter().map(|completion| &completion.tokens).collect();
        assert!(distinct.len() > 1, "samples of a prompt differ");
    }
}

#[test]
fn at_temperature_one_frequencies_are_the_exact_distribution() {
    // Two tokens from a vocabulary of four: every completion can be enumerated.
    let policy = support::policy(4, 3);
    let prompt = vec![1, 2];
    let draws = 20_000;
    let request = SampleRequest { prompt: prompt.clone(), first: 0, count: draws, key: 9 };
    let mut counts: HashMap<Vec<u32>, usize> = HashMap::new();
    for completion in sample(&policy, &[request], &params(1.0, 2), 512).remove(0) {
        *counts.entry(completion.tokens).or_default() += 1;
    }
    let mut completions = vec![vec![0]];
    completions.extend((1..4).flat_map(|a| (0..4).map(move |b| vec![a, b])));
    let rows: Vec<Sequence> = completions
        .iter()
        .map(|tokens| Sequence { prompt: prompt.clone(), completion: tokens.clone() })
        .collect();
    let logp = token_logp(policy.decoder(), &rows, 1.0).expect("logp").logp;
    let logp = by_row(&logp, &rows).expect("rows");
    let (mut total, mut chi_square) = (0.0, 0.0);
    for (tokens, logp) in completions.iter().zip(logp) {
        let exact: f64 = logp.iter().map(|x| f64::from(*x)).sum::<f64>().exp();
        total += exact;
        let expected = exact * draws as f64;
        let observed = counts.get(tokens).copied().unwrap_or(0) as f64;
        chi_square += (observed - expected) * (observed - expected) / expected;
    }
    assert!((total - 1.0).abs() < 1e-5, "the enumeration is whole: {total}");
    // 99.9th percentile of chi-square with 12 degrees of freedom.
    assert!(chi_square < 32.9, "chi-square {chi_square}");
}

#[test]
fn prompts_that_do_not_fit_are_refused() {
    let policy = support::policy(12, 4);
    let request = SampleRequest { prompt: vec![1; 60], first: 0, count: 1, key: 0 };
    let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 4 };
    let error = sampler.generate(&[request], &params(1.0, 20), NOISE, &mut |_, _| Ok(()));
    let message = error.expect_err("refused").to_string();
    assert!(message.contains("60") && message.contains("context of 64"), "{message}");
}

#[test]
fn sampling_only_decoder_equals_the_model_and_stores_weights_once() {
    let rows: Vec<Sequence> = [(5, 9), (2, 1), (7, 30)]
        .map(|(prompt, completion)| Sequence {
            prompt: (1..=prompt).collect(),
            completion: (0..completion).map(|i| 3 + i * 7 % 19).collect(),
        })
        .into();
    for rollout_dtype in [None, Some(RolloutDtype::Int8)] {
        let precision = Precision { rollout_dtype, ..Precision::default() };
        let mut model = Pretrained::load("countdown", precision, &Device::Cpu).expect("a model");
        let both = model.decoder().expect("a decoder").prepacked(rollout_dtype).expect("packed");
        let alone = model.take_sampling_decoder().expect("a decoder");
        assert!(model.weights.is_empty());
        let values = |decoder| -> Vec<f32> {
            let found = token_logp(decoder, &rows, 0.7).expect("log-probabilities");
            [found.logp, found.entropy].map(|x| x.to_vec1().expect("values")).concat()
        };
        assert_eq!(values(&alone), values(&both), "{rollout_dtype:?}");
        if rollout_dtype.is_none() {
            let error = alone.prepacked(Some(RolloutDtype::Int8)).expect_err("no values to round");
            assert!(error.to_string().contains("the copy for sampling alone is kept"), "{error}");
        }
    }
}
