//! `--rollout-dtype`: what samples is another model, and its samples are weighted for that.

use std::path::Path;

use tealight::nn::generate::{LocalSampler, RngKey, SampleRequest};
use tealight::nn::model::RolloutDtype;
use tealight::nn::policy::{Policy, Sequence, by_row, token_logp};
use tealight::nn::tokenizer::Tokenizer;

use crate::ranks::{apart, assert_same_course, train_alone};
use crate::support;
use crate::support::binary::{Folder, command, has, ok, refused};
use crate::support::metrics::rows;
use crate::support::runs::json;

fn train(output: &Path, more: &str) {
    let line = format!(
        "--max-completion-length 16 --learning-rate 1e-3 --max-samples 12 --max-steps 4 --save-steps 0 \
         --prompts-per-step 6 --num-generations 4 --rollout-dtype int8 {more}"
    );
    train_alone(output, &line);
}

#[test]
fn rounded_samples_are_near_and_the_same_in_every_batch() {
    // bfloat16 has as many bits as 8-bit integers with a scale, and rounds less where values differ in size.
    check_samples(RolloutDtype::Int8, 1e-4..0.03);
    check_samples(RolloutDtype::Bfloat16, 1e-5..0.01);
}

/// Holds the mean difference of log-probabilities, in nats a token, against a range.
fn check_samples(dtype: RolloutDtype, range: std::ops::Range<f32>) {
    let base = support::load("countdown");
    let policy = Policy::new(&base.architecture, &base.weights).expect("a policy");
    let rounded = policy.decoder().prepacked(Some(dtype)).expect("rounded");
    let prompt = base.tokenizer.encode_completion("3 5 7 2 = 24").expect("tokens");
    let params = support::sampling(1.0, 12, base.tokenizer.eos());
    let request = SampleRequest { prompt: prompt.clone(), first: 0, count: 16, key: 7 };
    let draw = |max_rows: usize| {
        let sampler = LocalSampler { decoder: &rounded, max_rows };
        let requests = std::slice::from_ref(&request);
        support::sampled(&sampler, requests, &params, RngKey { seed: 3, step: 0 }).concat()
    };
    let (all, few) = (draw(16), draw(3));
    assert_eq!(all, few);
    let sequence =
        |tokens: &Vec<u32>| Sequence { prompt: prompt.clone(), completion: tokens.clone() };
    let sequences: Vec<Sequence> = all.iter().map(|found| sequence(&found.tokens)).collect();
    let own = token_logp(policy.decoder(), &sequences, 1.0).expect("log-probabilities");
    let own = by_row(&own.logp, &sequences).expect("rows").concat();
    let sampled_logp: Vec<f32> = all.iter().flat_map(|found| found.logp.clone()).collect();
    let mean =
        own.iter().zip(&sampled_logp).map(|(a, b)| (a - b).abs()).sum::<f32>() / own.len() as f32;
    assert!(range.contains(&mean), "{dtype:?}: {mean} nats a token");
}

#[test]
fn samples_weighted_by_the_pass_are_those_weighted_before_it() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, more) in [
        ("grpo", "--objective grpo"),
        ("truncate", "--objective grpo --importance-correction token-truncate:1.01"),
        ("mask", "--objective dr-grpo --importance-correction sequence-mask:1.01"),
    ] {
        let path = |which: &str| folder.path().join(format!("{name}-{which}"));
        // Comparing every completion with the base asks for the policy's log-probabilities first.
        train(&path("before"), &format!("{more} --log-kl all"));
        train(&path("within"), &format!("{more} --log-kl off"));
        assert_same_course(&path("before"), &path("within"), &["kl", "kl_stderr", "num_gradients"]);
        let difference = apart(&path("before"), &path("within"), "model.safetensors");
        assert!(difference < 5e-5, "{name}: {difference:e}");
        for row in rows(&path("within")) {
            let mean = row["sampling/sampling_logp_difference/mean"].as_f64().expect("a mean");
            assert!(mean > 1e-4 && mean < 0.05, "{row}");
            if name == "mask" {
                assert!(row["sampling/masked_ratio"].as_f64().expect("a share") > 0.0);
            }
        }
    }
    // Uncorrected it is another gradient.
    let path = folder.path().join("none");
    train(&path, "--objective grpo --importance-correction none --log-kl off");
    assert!(apart(&path, &folder.path().join("grpo-within"), "model.safetensors") > 1e-6);
}

#[test]
fn rollout_dtype_is_recorded_and_refused_where_without_effect() {
    let folder = Folder::new();
    for dtype in ["int8", "bfloat16"] {
        let output = folder.path(dtype);
        let small = "--max-samples 2 -n 2 -k 1";
        let stderr = ok(command!("eval --rollout-dtype {dtype} {small} --output {output}"));
        has(&stderr, &[format!("sampled from in {dtype} (another model)")]);
        let model = json(format!("{output}/results.json"))["model"].clone();
        assert_eq!(model, format!("countdown ({dtype})"));
    }
    // A run goes on as it began.
    let run = folder.path("run");
    let train = "train --max-samples 8 --prompts-per-step 2 --num-generations 2 --save-steps 1";
    ok(command!("{train} --max-steps 2 --rollout-dtype int8 --output {run}"));
    refused!("{train} --max-steps 3 --resume --output {run}" => "precision");
}
