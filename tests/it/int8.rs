//! A base of 8 bits: everything is computed with the model that its blocks stand for.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Tensor};
use tealight::formats::adapter::{Adapter, LoraOptions};
use tealight::formats::gguf::GgufType;
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::{BaseDtype, Precision};
use tealight::nn::model::{BackendKind, PackedSequences};
use tealight::nn::policy::{Policy, Sequence};

use crate::adapters::merged_draws_the_same;
use crate::support::binary::{Folder, command, ok, refused};
use crate::support::runs::resumed_adapter;
use crate::support::{self, apart, conformance as fixture, flat, remade};

const INT8: Precision = Precision {
    dtype: tealight::nn::device::Dtype::Float32,
    base_dtype: Some(BaseDtype::Int8),
    rollout_dtype: None,
};

fn load(name: &str, precision: Precision) -> Pretrained {
    Pretrained::load(name, precision, &Device::Cpu).expect(name)
}

/// A model of 8 bits, and the f32 model that it stands for; the tokenizer is another's.
fn pair(name: &str) -> [Pretrained; 2] {
    let folder = tempfile::tempdir().expect("a folder");
    for (from, file) in [
        ("micro-llama", "tokenizer.json"),
        ("micro-llama", "tokenizer_config.json"),
        (name, "config.json"),
        (name, "model.safetensors"),
    ] {
        std::fs::copy(fixture(from).join(file), folder.path().join(file)).expect(file);
    }
    let name = folder.path().display().to_string();
    let [base, mut wide] = [(); 2].map(|()| load(&name, INT8));
    assert!(base.weights.values().any(|weight| weight.dtype() == DType::U8));
    wide.weights = base.merged().expect("widened weights");
    assert!(wide.weights.values().all(|weight| weight.dtype() == DType::F32));
    [base, wide]
}

/// An adapter that does something.
fn adapter(base: &Pretrained) -> Adapter {
    let lora: LoraOptions = crate::ranks::options("--use-peft --lora-r 4");
    let adapter = lora.adapter(&base.architecture, &base.name, 0, &Device::Cpu);
    let mut adapter = adapter.expect("an adapter").expect("asked for");
    for (index, weight) in adapter.weights.values_mut().enumerate() {
        let wave: Vec<f32> =
            (0..weight.elem_count()).map(|i| 0.1 * ((i + 31 * index) as f32).sin()).collect();
        *weight = Tensor::from_vec(wave, weight.shape(), &Device::Cpu).expect("a matrix");
    }
    adapter
}

#[test]
fn log_probabilities_and_gradients_are_those_of_the_widened_model() {
    for name in ["micro-llama", "micro-qwen2", "family-gemma3", "family-phi3"] {
        let pair = pair(name);
        let adapter = adapter(&pair[0]);
        let rows = [
            Sequence { prompt: vec![5, 7], completion: vec![9, 11, 4, 6] },
            Sequence { prompt: vec![5, 7], completion: vec![100, 12, 1] },
        ];
        let found: [(Vec<f32>, BTreeMap<String, Tensor>); 2] = pair.each_ref().map(|model| {
            let own = (&adapter.scaling, &adapter.weights);
            let policy =
                Policy::adapting_on(BackendKind::Cpu, &model.architecture, &model.weights, own);
            support::gradients(&policy.expect("a policy"), (&rows, 0.7), Tensor::sum_all)
        });
        let [(logp, gradients), (exact, exact_gradients)] = &found;
        for (ours, exact) in logp.iter().zip(exact) {
            assert!((ours - exact).abs() < 1e-5, "{name}: {ours} is not {exact}");
        }
        assert_eq!(gradients.len(), adapter.weights.len());
        for (weight, exact) in exact_gradients {
            let largest = flat(exact).into_iter().map(f64::abs).fold(1.0, f64::max);
            let apart = apart(exact, &gradients[weight]);
            assert!(apart < 1e-5 * largest, "{name}: {weight} is {apart} apart");
        }
        // The sampler has the same model.
        let logits = pair.each_ref().map(|model| {
            let decoder = model.decoder().and_then(|x| Ok(x.prepacked(None)?)).expect("a decoder");
            let packed = PackedSequences::from_start([5]);
            let hidden = decoder.hidden(&[5, 7, 9, 11, 4], &packed, None).expect("a pass");
            decoder.logits(&hidden).expect("logits")
        });
        assert!(apart(&logits[0], &logits[1]) < 1e-5, "{name}");
    }
}

#[test]
fn blocks_of_a_file_are_kept_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let model = remade("micro-llama", 3, |config| config["intermediate_size"] = 160.into());
    let file = model.save_gguf(&model.weights, GgufType::Q8_0, folder.path()).expect("written");
    model.save(&model.weights, &folder.path().join("hub")).expect("written");
    let of_file = load(&file.display().to_string(), INT8);
    let of_hub = load(&folder.path().join("hub").display().to_string(), INT8);
    let wide = load(&file.display().to_string(), Precision::default());
    let merged = of_file.merged().expect("widened");
    for (name, weight) in &wide.weights {
        assert_eq!(flat(weight), flat(&merged[name]), "{name}");
        let (a, b) = (&of_file.weights[name], &of_hub.weights[name]);
        assert_eq!((a.dtype(), a.dims()), (b.dtype(), b.dims()), "{name}");
        if a.dtype() == DType::U8 {
            assert_eq!(flat(a), flat(b), "{name}: the file was rounded as a checkpoint is");
        }
    }
}

#[test]
fn int8_base_trains_adapters_only() {
    let folder = Folder::new();
    let (stderr, [whole, parts]) = resumed_adapter(&folder, "--base-dtype int8");
    assert!(stderr.contains("weights in int8, the rest in float32"), "{stderr}");
    // The base without blocks is another base.
    refused!("train --use-peft --lora-r 4 --max-samples 8 --max-steps 6 --resume --output {parts}" => "precision");
    let adapter = format!("{whole}/final");
    merged_draws_the_same(&folder, &adapter, "--base-dtype int8");
    // On the base without blocks it is another model, which is said.
    let eval = format!("eval --model {adapter} --max-samples 2 -n 2 -k 1");
    let stderr = ok(&eval);
    assert!(stderr.contains("trained on a base of int8"), "{stderr}");
    assert!(!ok(command!("{eval} --base-dtype int8")).contains("trained on a base"));
}
