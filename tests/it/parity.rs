//! Logits and gradients against a decoder written apart from ours, in numpy and f64.
//!
//! `fixtures/parity/make.py` makes the references; `tests/it/conformance.rs` does the same against PyTorch.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use serde_json::Value;
use tealight::nn::model::{Architecture, PackedSequences};
use tealight::nn::policy::Sequence;

use crate::support::{backends, gradients};

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
    for (name, text) in FIXTURES {
        let fixture: Value = serde_json::from_str(text).expect("JSON");
        let architecture = Architecture::from_config(&fixture["config"]).expect("config");
        let weights: BTreeMap<String, Tensor> = architecture
            .tensors()
            .into_iter()
            .map(|(name, shape)| {
                let values = numbers(&fixture["weights"][&name]);
                (name, Tensor::from_vec(values, shape, &Device::Cpu).expect("shape"))
            })
            .collect();
        let ids: Vec<Vec<u32>> = serde_json::from_value(fixture["ids"].clone()).expect("ids");
        let row =
            |row: &Vec<u32>| Sequence { prompt: row[..1].into(), completion: row[1..].into() };
        let rows: Vec<Sequence> = ids.iter().map(row).collect();
        for backend in backends() {
            let policy = backend.policy(&architecture, &weights);
            let decoder = policy.decoder();
            let packed = PackedSequences::from_start(ids.iter().map(Vec::len));
            let hidden = decoder.hidden(&ids.concat(), &packed, None).expect("hidden");
            let logits = decoder.logits(&hidden).and_then(|x| x.flatten_all()?.to_vec1());
            let error = worst(&logits.expect("logits"), &numbers(&fixture["logits"]));
            assert!(error < 5e-5, "{name}: logits differ by {error:e}");

            let loss = |logp: &Tensor| logp.mean_all()?.neg();
            let (_, grads) = gradients(&policy, (&rows, 1.0), None, loss);
            for weight in policy.weights().keys() {
                let reference = numbers(&fixture["gradient"][weight]);
                let ours: Vec<f32> =
                    grads[weight].flatten_all().and_then(|x| x.to_vec1()).expect("f32");
                let largest = reference.iter().fold(0.0_f32, |a, b| a.max(b.abs()));
                let error = worst(&ours, &reference) / largest;
                assert!(error < 5e-5, "{name} {weight}: gradient differs by {error:e}");
            }
        }
    }
}
