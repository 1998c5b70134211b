//! Logits and gradients against a decoder written apart from ours, in numpy and f64.
//!
//! `fixtures/parity/make.py` makes the references; `tests/it/conformance.rs` does the same against
//! PyTorch where its larger references are at hand.

use std::collections::BTreeMap;
use std::sync::Arc;

use candle_core::Tensor;
use serde_json::Value;
use tealight::model::{Architecture, Spans};
use tealight::policy::{self, Policy, Sequence};

const FIXTURES: [(&str, &str); 3] = [
    ("qwen2", include_str!("../fixtures/parity/qwen2.json")),
    ("qwen3", include_str!("../fixtures/parity/qwen3.json")),
    ("llama3", include_str!("../fixtures/parity/llama3.json")),
];

fn numbers(value: &Value) -> Vec<f32> {
    let values = value.as_array().expect("an array").iter();
    values.map(|x| x.as_f64().expect("a number") as f32).collect()
}

fn worst(ours: &[f32], reference: &[f32]) -> f32 {
    assert_eq!(ours.len(), reference.len());
    ours.iter().zip(reference).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max)
}

#[test]
fn logits_and_every_gradient_equal_the_independent_reference() {
    // The GPU, where this build and this machine have one.
    let device = tealight::device::open("auto").expect("a device").0;
    for (name, text) in FIXTURES {
        let fixture: Value = serde_json::from_str(text).expect("JSON");
        let architecture = Architecture::from_config(&fixture["config"]).expect("config");
        let weights: BTreeMap<String, Tensor> = architecture
            .tensors()
            .into_iter()
            .map(|(name, shape)| {
                let values = numbers(&fixture["weights"][&name]);
                (name, Tensor::from_vec(values, shape, &device).expect("shape"))
            })
            .collect();
        let policy = Policy::new(&architecture, &weights).expect("policy");
        let ids: Vec<Vec<u32>> = serde_json::from_value(fixture["ids"].clone()).expect("ids");

        let tensor = Tensor::new(ids.concat(), &device).expect("ids");
        let spans = Arc::new(Spans::from_start(ids.iter().map(Vec::len)));
        let hidden = policy.frozen().hidden(&tensor, &spans, None).expect("hidden");
        let logits = policy.frozen().logits(&hidden).and_then(|x| x.flatten_all()?.to_vec1());
        let error = worst(&logits.expect("logits"), &numbers(&fixture["logits"]));
        assert!(error < 5e-5, "{name}: logits differ by {error:e}");

        let rows: Vec<Sequence> = ids
            .iter()
            .map(|row| Sequence { prompt: row[..1].to_vec(), completion: row[1..].to_vec() })
            .collect();
        let logp = policy::token_logp(policy.with_grad(), &rows, 1.0).expect("logp").logp;
        let loss = logp.mean_all().and_then(|mean| mean.neg()).expect("loss");
        policy.backward(&loss).expect("gradients");
        let grads = policy.take_gradients().expect("gradients");
        for weight in policy.weights().keys() {
            let reference = numbers(&fixture["gradient"][weight]);
            let ours = grads.get(weight).unwrap_or_else(|| panic!("{name} {weight}: no gradient"));
            let ours: Vec<f32> = ours.flatten_all().and_then(|x| x.to_vec1()).expect("f32");
            let largest = reference.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
            let error = worst(&ours, &reference) / largest;
            assert!(error < 5e-5, "{name} {weight}: gradient differs by {error:e}");
        }
    }
}
