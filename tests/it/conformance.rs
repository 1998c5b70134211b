//! Logits, log-probabilities, gradients and greedy continuations against PyTorch and transformers.
//!
//! The reference values lie in `../shared/conformance` (its README says how they were made); where
//! that folder is absent the tests say so and pass. `tests/it/parity.rs` always runs a smaller check.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use candle_core::{DType, Device, Tensor};
use tealight::generate::{Filters, LocalSampler, Noise, Request, Sampler, SamplingParams};
use tealight::model::{Architecture, Decoder, Spans, weights};
use tealight::policy::{self, Policy, Sequence};

const MODELS: [&str; 5] =
    ["micro-qwen2", "micro-qwen3", "micro-llama", "micro-llama-tied", "micro-llama-rope3"];
/// Absolute for logits and log-probabilities, relative to the largest entry for gradients.
const TOLERANCE: f64 = 5e-5;

struct Case {
    name: &'static str,
    directory: PathBuf,
    reference: HashMap<String, Tensor>,
}

fn cases() -> Vec<Case> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/conformance");
    if !root.is_dir() {
        eprintln!("skipped: {} is not there", root.display());
        return Vec::new();
    }
    let load = |name: &'static str| {
        let path = root.join(format!("{name}.ref.safetensors"));
        let reference = candle_core::safetensors::load(path, &Device::Cpu).expect("reference");
        Case { name, directory: root.join(name), reference }
    };
    MODELS.into_iter().map(load).collect()
}

impl Case {
    fn policy(&self, config: &str) -> Policy {
        let (architecture, _) = Architecture::read(&self.directory.join(config)).expect("config");
        let weights = weights::load(&self.directory, &architecture, DType::F32, &device());
        Policy::new(&architecture, &weights.expect("weights")).expect("policy")
    }

    fn ids(&self, key: &str) -> Vec<Vec<u32>> {
        let ids = self.reference[key].to_dtype(DType::U32).expect("ids");
        ids.to_vec2().expect("two dimensions")
    }
}

/// The GPU, where this build and this machine have one.
fn device() -> Device {
    tealight::device::open("auto").expect("a device").0
}

/// The largest absolute difference.
fn difference(a: &Tensor, b: &Tensor) -> f64 {
    let here = |x: &Tensor| x.to_device(&Device::Cpu).expect("on the host");
    let worst =
        (here(a) - here(b)).and_then(|d| d.abs()?.flatten_all()?.max(0)).expect("same shape");
    f64::from(worst.to_scalar::<f32>().expect("f32"))
}

/// Logits of the tokens of one batch that are not padding, and the reference's.
fn logits(decoder: &Decoder, case: &Case, batch: &str) -> [Tensor; 2] {
    let ids = case.ids(&format!("{batch}.input_ids")).concat();
    let mask = case.reference[&format!("{batch}.attention_mask")].to_dtype(DType::F32);
    let mask = mask.and_then(|mask| mask.to_vec2::<f32>()).expect("mask");
    let spans = Spans::from_start(mask.iter().map(|row| row.iter().sum::<f32>() as usize));
    let seen = mask.concat().into_iter().enumerate().filter(|(_, seen)| *seen > 0.0);
    let places: Vec<u32> = seen.map(|(place, _)| place as u32).collect();
    let ids: Vec<u32> = places.iter().map(|place| ids[*place as usize]).collect();
    let tensor = |values| Tensor::new(values, &Device::Cpu).expect("ids");
    let ids = tensor(ids).to_device(&device()).expect("there");
    let hidden = decoder.hidden(&ids, &Arc::new(spans), None).expect("hidden");
    let exact = case.reference[&format!("{batch}.logits")].flatten_to(1);
    let exact = exact.and_then(|x| x.index_select(&tensor(places), 0)).expect("logits");
    [decoder.logits(&hidden).expect("logits"), exact]
}

#[test]
fn logits_equal_the_reference_under_either_padding_and_config_layout() {
    for case in cases() {
        for config in ["config.json", "config.transformers5.json"] {
            let policy = case.policy(config);
            for batch in ["nopad", "right", "left"] {
                let [ours, exact] = logits(policy.frozen(), &case, batch);
                let worst = difference(&ours, &exact);
                eprintln!("{} {config} {batch}: logits differ by at most {worst:.2e}", case.name);
                assert!(worst < TOLERANCE);
            }
        }
    }
}

#[test]
fn log_probabilities_and_gradients_equal_the_reference() {
    for case in cases() {
        let policy = case.policy("config.json");
        let lengths: Vec<usize> = case.reference["right.attention_mask"]
            .to_dtype(DType::F32)
            .and_then(|mask| mask.to_vec2::<f32>())
            .expect("mask")
            .iter()
            .map(|row| row.iter().sum::<f32>() as usize)
            .collect();
        let rows: Vec<Sequence> = case
            .ids("right.input_ids")
            .iter()
            .zip(lengths)
            .map(|(row, length)| Sequence {
                prompt: row[..1].to_vec(),
                completion: row[1..length].to_vec(),
            })
            .collect();
        let logp = policy::token_logp(policy.with_grad(), &rows, 1.0).expect("logp").logp;
        let worst = difference(&logp, &case.reference["right.logprobs"]);
        eprintln!("{}: log-probs differ by at most {worst:.2e}", case.name);
        assert!(worst < TOLERANCE);

        let count: usize = rows.iter().map(|row| row.completion.len()).sum();
        let nll = (logp.sum_all().expect("sum") * (-1.0 / count as f64)).expect("mean");
        let nll_error = difference(&nll.reshape(1).expect("scalar"), &case.reference["right.nll"]);
        assert!(nll_error < TOLERANCE);
        policy.backward(&nll).expect("gradients");
        let grads = policy.take_gradients().expect("gradients");
        let mut largest_error = 0.0_f64;
        for name in policy.weights().keys() {
            let reference = &case.reference[&format!("grad.{name}")];
            let grad = grads.get(name).unwrap_or_else(|| panic!("{name} has no gradient"));
            let scale = difference(reference, &reference.zeros_like().expect("zeros"));
            let error = difference(grad, reference) / scale;
            assert!(error < TOLERANCE, "{} {name}: {error:.2e}", case.name);
            largest_error = largest_error.max(error);
        }
        eprintln!("{}: gradients differ by at most {largest_error:.2e} of the largest", case.name);
    }
}

#[test]
fn greedy_decoding_with_the_cache_continues_like_the_reference() {
    for case in cases() {
        let policy = case.policy("config.json");
        let mask = case.reference["left.attention_mask"].to_dtype(DType::U32).expect("mask");
        let mask: Vec<Vec<u32>> = mask.to_vec2().expect("two dimensions");
        let prompts = case.ids("left.input_ids").into_iter().zip(mask).map(|(ids, mask)| {
            ids.into_iter().zip(mask).filter(|(_, seen)| *seen == 1).map(|(id, _)| id).collect()
        });
        let requests: Vec<Request> = prompts
            .enumerate()
            .map(|(key, prompt)| Request { prompt, first: 0, count: 1, key: key as u64 })
            .collect();
        let expected = case.ids("greedy.ids");
        let params = SamplingParams {
            temperature: 0.0,
            filters: Filters::default(),
            max_new_tokens: expected[0].len(),
            eos: vec![],
        };
        let sampler = LocalSampler { decoder: policy.frozen(), max_rows: 3 };
        let margins: Vec<Vec<f32>> = case.reference["greedy.margin"].to_vec2().expect("margins");
        let (mut seen, mut agreed) = (0, 0);
        sampler
            .generate(&requests, &params, Noise { seed: 0, step: 0 }, &mut |index, completions| {
                seen += 1;
                let ours = &completions[0].tokens;
                // Where the reference nearly ties, or EOS is suppressed there, ours may part ways.
                let same = ours.iter().zip(&expected[index]).take_while(|(a, b)| a == b).count();
                agreed += same;
                let is_explained =
                    same == ours.len() || margins[index][same] < 1e-3 || ours[same] == 1;
                assert!(is_explained, "{} row {index}: {ours:?}", case.name);
                Ok(())
            })
            .expect("generates");
        eprintln!("{}: {agreed} greedy tokens agree", case.name);
        assert_eq!(seen, requests.len());
    }
}
