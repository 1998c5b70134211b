//! Logits, log-probabilities, gradients and greedy continuations against PyTorch and transformers.
//!
//! The models and reference values are in `tests/fixtures/conformance`, whose README says how they were made.

use std::collections::HashMap;
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::{Placement, Precision};
use tealight::nn::generate::{LocalSampler, RngKey, SampleRequest, Sampler};
use tealight::nn::model::{Architecture, Decoder, PackedSequences, weights};
use tealight::nn::policy::{Policy, Sequence};

use crate::support::{self, apart, backends, gradients};

/// Absolute for logits and log-probabilities.
const TOLERANCE: f64 = 5e-5;

struct Case {
    name: String,
    directory: PathBuf,
    reference: HashMap<String, Tensor>,
}

fn cases() -> Vec<Case> {
    let root = support::root().join("tests/fixtures/conformance");
    let load = |file: std::io::Result<std::fs::DirEntry>| {
        let path = file.expect("an entry").path();
        let name = path.file_name()?.to_str()?.strip_suffix(".ref.safetensors")?.to_owned();
        let reference = candle_core::safetensors::load(&path, &Device::Cpu).expect("reference");
        Some(Case { directory: root.join(&name), name, reference })
    };
    std::fs::read_dir(&root).expect("a folder").filter_map(load).collect()
}

impl Case {
    fn policies(&self, config: &str) -> Vec<Policy> {
        let (architecture, _) = Architecture::read(&self.directory.join(config)).expect("config");
        let weights = weights::load(&self.directory, &architecture, Placement::F32);
        let weights = weights.expect("weights");
        backends().iter().map(|backend| backend.policy(&architecture, &weights)).collect()
    }

    /// For logits and log-probabilities, absolute; for gradients, relative to the largest entry. In Qwen3.5 the
    /// reference itself is 6e-5 and 1.5e-4 from its own values in f64.
    fn tolerances(&self) -> [f64; 2] {
        if self.name == "family-qwen3.5" { [2e-4, 5e-4] } else { [TOLERANCE; 2] }
    }

    /// The gradient in a weight, and its largest absolute entry. Stored are steps of 1/32767 of that entry: an error of
    /// 1.5e-5 at most, less than the tolerance.
    fn gradient(&self, name: &str) -> (Tensor, f64) {
        let steps = &self.reference[&format!("grad.{name}")];
        assert_eq!(steps.dtype(), DType::I16);
        let largest: Vec<f32> =
            self.reference[&format!("largest.{name}")].to_vec1().expect("a number");
        let largest = f64::from(largest[0]);
        let gradient =
            steps.to_dtype(DType::F32).and_then(|steps| steps * (largest / f64::from(i16::MAX)));
        (gradient.expect("a gradient"), largest)
    }

    /// How many tokens of each row of a batch are not padding.
    fn lengths(&self, batch: &str) -> Vec<usize> {
        let mask = self.ids(&format!("{batch}.attention_mask"));
        mask.iter().map(|row| row.iter().sum::<u32>() as usize).collect()
    }

    fn ids(&self, key: &str) -> Vec<Vec<u32>> {
        let ids = self.reference[key].to_dtype(DType::U32).expect("ids");
        ids.to_vec2().expect("two dimensions")
    }
}

/// Logits of the tokens of one batch that are not padding, and the reference's.
fn logits(decoder: &Decoder, case: &Case, batch: &str) -> [Tensor; 2] {
    let ids = case.ids(&format!("{batch}.input_ids")).concat();
    let mask = case.ids(&format!("{batch}.attention_mask")).concat();
    let packed = PackedSequences::from_start(case.lengths(batch));
    let seen = mask.into_iter().enumerate().filter(|(_, seen)| *seen > 0);
    let places: Vec<u32> = seen.map(|(place, _)| place as u32).collect();
    let ids: Vec<u32> = places.iter().map(|place| ids[*place as usize]).collect();
    let hidden = decoder.hidden(&ids, &packed, None).expect("hidden");
    let exact = case.reference[&format!("{batch}.logits")].flatten_to(1);
    let exact =
        exact.and_then(|x| x.index_select(&Tensor::new(places, &Device::Cpu)?, 0)).expect("logits");
    // Of a model with a tokenizer, those of ids that have a token.
    let exact = exact.narrow(1, 0, decoder.architecture().output_size).expect("columns");
    [decoder.logits(&hidden).expect("logits"), exact]
}

#[test]
fn logits_equal_the_reference_under_either_padding_and_config_layout() {
    for case in cases() {
        for config in ["config.json", "config.transformers5.json"] {
            for policy in case.policies(config) {
                for batch in ["nopad", "right", "left"] {
                    let [ours, exact] = logits(policy.decoder(), &case, batch);
                    let worst = apart(&ours, &exact);
                    eprintln!("{} {config} {batch}: logits differ by {worst:.2e}", case.name);
                    assert!(worst < case.tolerances()[0]);
                }
            }
        }
    }
}

#[test]
fn log_probabilities_and_gradients_equal_the_reference() {
    for case in cases() {
        let row = |(row, length): (&Vec<u32>, &usize)| Sequence {
            prompt: row[..1].to_vec(),
            completion: row[1..*length].to_vec(),
        };
        let ids = case.ids("right.input_ids");
        let rows: Vec<Sequence> = ids.iter().zip(&case.lengths("right")).map(row).collect();
        let theirs: Vec<Vec<f32>> = case.reference["right.logprobs"].to_vec2().expect("logprobs");
        let theirs =
            theirs.iter().zip(&rows).flat_map(|(theirs, row)| &theirs[..row.completion.len()]);
        let theirs: Vec<f32> = theirs.copied().collect();
        for policy in case.policies("config.json") {
            let [absolute, relative] = case.tolerances();
            let nll = |logp: &Tensor| logp.mean_all()?.neg();
            let (ours, grads) = gradients(&policy, (&rows, 1.0), nll);
            assert_eq!(ours.len(), theirs.len());
            for (ours, theirs) in ours.iter().zip(&theirs) {
                assert!(f64::from((ours - theirs).abs()) < absolute, "{}", case.name);
            }
            let nll = -f64::from(ours.iter().sum::<f32>()) / ours.len() as f64;
            let exact: Vec<f32> = case.reference["right.nll"].to_vec1().expect("a number");
            assert!((nll - f64::from(exact[0])).abs() < absolute, "{}: {nll}", case.name);
            for name in policy.weights().keys() {
                let (reference, largest) = case.gradient(name);
                let error = apart(&grads[name], &reference) / largest;
                assert!(error < relative, "{} {name}: {error:.2e}", case.name);
            }
        }
    }
}

#[test]
fn greedy_decoding_with_the_cache_continues_like_the_reference() {
    for (case, policy) in cases()
        .iter()
        .flat_map(|case| case.policies("config.json").into_iter().map(move |policy| (case, policy)))
    {
        let prompts = case.ids("left.input_ids").into_iter().zip(case.lengths("left"));
        let prompts = prompts.map(|(ids, length)| ids[ids.len() - length..].to_vec());
        let requests: Vec<SampleRequest> = prompts
            .enumerate()
            .map(|(key, prompt)| SampleRequest { prompt, first: 0, count: 1, key: key as u64 })
            .collect();
        let expected = case.ids("greedy.ids");
        let params = support::sampling(0.0, expected[0].len(), &[]);
        let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 3 };
        let margins: Vec<Vec<f32>> = case.reference["greedy.margin"].to_vec2().expect("margins");
        let (mut seen, mut agreed) = (0, 0);
        sampler
            .generate(&requests, &params, RngKey { seed: 0, step: 0 }, &mut |index, completions| {
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

/// A model that is published as one of text and images: its text part is the model, and is what is saved.
#[test]
fn text_weights_of_a_vision_model_load_alone() {
    let case = cases().into_iter().find(|case| case.name == "family-qwen3.5").expect("a case");
    let folder = tempfile::tempdir().expect("a folder");
    let whole = folder.path().join("whole");
    std::fs::create_dir(&whole).expect("a folder");
    let config = std::fs::read(case.directory.join("config.json")).expect("config");
    let mut text: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
    text.as_object_mut().expect("keys").remove("eos_token_id");
    let config = serde_json::json!({"model_type": "qwen3_5", "text_config": text, "eos_token_id": 1,
        "vision_config": {"depth": 2}, "architectures": ["Qwen3_5ForConditionalGeneration"]});
    std::fs::write(whole.join("config.json"), config.to_string()).expect("written");
    let path = case.directory.join("model.safetensors");
    let mut stored: HashMap<String, Tensor> =
        candle_core::safetensors::load(path, &Device::Cpu).expect("weights");
    stored = stored
        .into_iter()
        .map(|(name, x)| (name.replacen("model.", "model.language_model.", 1), x))
        .collect();
    for name in ["model.visual.blocks.0.attn.qkv.weight", "mtp.fc.weight"] {
        let x = Tensor::zeros((2, 2), DType::F32, &Device::Cpu).expect("zeros");
        stored.insert(name.to_owned(), x);
    }
    let save = |stored: &HashMap<String, Tensor>| {
        candle_core::safetensors::save(stored, whole.join("model.safetensors")).expect("written");
    };
    save(&stored);
    for file in ["tokenizer.json", "tokenizer_config.json"] {
        std::fs::copy(case.directory.join(file), whole.join(file)).expect("copied");
    }
    let name = whole.to_str().expect("a path");
    let load = || Pretrained::load(name, Precision::default(), &Device::Cpu);
    let model = load().expect("a model");
    let [ours, exact] = logits(&model.decoder().expect("a decoder"), &case, "nopad");
    assert!(apart(&ours, &exact) < case.tolerances()[0]);

    let saved = folder.path().join("saved");
    model.save(&model.weights, &saved).expect("saved");
    let (architecture, config) = Architecture::read(&saved.join("config.json")).expect("config");
    let output_size = model.architecture.output_size;
    assert_eq!(Architecture { output_size, ..architecture.clone() }, model.architecture);
    assert_eq!(config["model_type"], "qwen3_5_text");
    assert_eq!(config["architectures"], serde_json::json!(["Qwen3_5ForCausalLM"]));
    assert_eq!(config["eos_token_id"], 1);
    weights::load(&saved, &architecture, Placement::F32).expect("weights of a model of text");

    // A tensor of no known part is refused.
    stored.insert("model.else.weight".into(), stored["mtp.fc.weight"].clone());
    save(&stored);
    let error = format!("{:#}", load().err().expect("refused"));
    assert!(error.contains("unexpected tensor `model.else.weight`"), "{error}");
}
