//! A small random model that several tests share.

pub(crate) mod binary;
pub(crate) mod chat_model;
pub(crate) mod embedded;
pub(crate) mod graph;
pub(crate) mod hub;
pub(crate) mod letters;
pub(crate) mod metrics;
pub(crate) mod processes;
pub(crate) mod recorded;
pub(crate) mod runs;
pub(crate) mod server;
pub(crate) mod vllm;

use std::collections::BTreeMap;
use std::path::PathBuf;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use tealight::formats::pretrained::Pretrained;
use tealight::nn::device::Precision;
use tealight::nn::generate::{
    Completion, Filters, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight::nn::model::weights::Weights;
use tealight::nn::model::{Architecture, BackendKind, Decoder, weights};
use tealight::nn::policy::{GradAccumulator, Policy, Sequence};

/// The package, with its fixtures: where cargo says it is, or the program's caller, else where it was compiled.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR");
    PathBuf::from(here.unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into()))
}

/// A model of the conformance tests.
pub(crate) fn conformance(name: &str) -> PathBuf {
    root().join("tests/fixtures/conformance").join(name)
}

/// The model in a folder or file, on the CPU in float32.
pub(crate) fn load(name: &str) -> Pretrained {
    Pretrained::load(name, Precision::default(), &Device::Cpu).expect(name)
}

/// Something that computes a model here.
#[derive(Debug, Clone)]
pub(crate) struct TestBackend {
    pub(crate) kind: BackendKind,
    pub(crate) device: Device,
    /// Whether what is computed of a token does not depend on its batch, to the bit.
    pub(crate) is_exact: bool,
}

/// Every backend of this build: the CPU, the kernels of a GPU as C, and with `cuda` or `metal` the GPU; the one that
/// `TEALIGHT_TEST_DEVICE` names must be there.
pub(crate) fn backends() -> Vec<TestBackend> {
    let mut backends = vec![
        TestBackend { kind: BackendKind::Cpu, device: Device::Cpu, is_exact: true },
        TestBackend { kind: BackendKind::Gpu, device: Device::Cpu, is_exact: false },
    ];
    let name = std::env::var("TEALIGHT_TEST_DEVICE").unwrap_or_else(|_| "auto".into());
    let (device, _) = tealight::nn::device::open(&name).expect("the device that is asked for");
    if !device.is_cpu() {
        backends.push(TestBackend { kind: BackendKind::Gpu, device, is_exact: false });
    }
    backends
}

impl TestBackend {
    /// A policy of these weights here.
    pub(crate) fn policy(&self, architecture: &Architecture, weights: &Weights) -> Policy {
        let here = |(name, x): (&String, &Tensor)| {
            (name.clone(), x.to_device(&self.device).expect("a copy"))
        };
        let weights = weights.iter().map(here).collect();
        Policy::on(self.kind, architecture, weights).expect("a policy")
    }

    /// The weights in bfloat16; for the CPU's own products matrices alone.
    pub(crate) fn halves(&self, weights: &Weights) -> Weights {
        let cast = |(name, x): (&String, &Tensor)| {
            let is_half = self.kind == BackendKind::Gpu || x.rank() == 2;
            let dtype = if is_half { DType::BF16 } else { DType::F32 };
            (name.clone(), x.to_dtype(dtype).expect("cast"))
        };
        weights.iter().map(cast).collect()
    }

    /// Decoders of these weights here, with packed weights too: small ones are decoded with some rows a thread. On the
    /// CPU those of the weights in bfloat16 as well, whose keys and values are rounded.
    pub(crate) fn decoders(&self, architecture: &Architecture, weights: &Weights) -> Vec<Decoder> {
        let decoder = self.policy(architecture, weights).decoder().clone();
        let mut all = vec![decoder.clone().packed_alone(None).expect("packed"), decoder];
        if self.kind == BackendKind::Cpu {
            let half = self.policy(architecture, &self.halves(weights)).decoder().clone();
            all.extend([half.clone().packed_alone(None).expect("packed"), half]);
        }
        all
    }
}

/// The values of a tensor.
pub(crate) fn flat(x: &Tensor) -> Vec<f64> {
    let x =
        x.to_dtype(DType::F64).and_then(|x| x.to_device(&Device::Cpu)?.flatten_all()?.to_vec1());
    x.expect("values")
}

/// Log-probabilities `[N]` of completion tokens and the gradients of `loss`, a function of them.
pub(crate) fn gradients(
    policy: &Policy,
    (rows, temperature): (&[Sequence], f64),
    loss: impl Fn(&Tensor) -> candle_core::Result<Tensor>,
) -> (Vec<f32>, BTreeMap<String, Tensor>) {
    let forward = policy.forward(rows, temperature).expect("a pass");
    let values = forward.logp().to_vec1().expect("values");
    let loss = loss(forward.logp()).expect("a loss");
    let mut grads = GradAccumulator::default();
    policy.backward(forward, &loss, &mut grads).expect("gradients");
    (values, policy.gradients(&grads).expect("gradients"))
}

/// The completions of each request, in their order.
pub(crate) fn sampled(
    sampler: &LocalSampler<'_>,
    requests: &[SampleRequest],
    params: &SamplingParams,
    key: RngKey,
) -> Vec<Vec<Completion>> {
    let mut all: Vec<Vec<Completion>> = vec![Vec::new(); requests.len()];
    let mut sink = |index: usize, completions| {
        assert!(all[index].is_empty(), "handed out once");
        all[index] = completions;
        Ok(())
    };
    sampler.generate(requests, params, key, &mut sink).expect("samples");
    all
}

/// The largest difference of two tensors' numbers.
pub(crate) fn apart(one: &Tensor, other: &Tensor) -> f64 {
    assert_eq!(one.dims(), other.dims());
    let differences = flat(one).into_iter().zip(flat(other)).map(|(a, b)| (a - b).abs());
    differences.fold(0.0, |most, one| if one > most || one.is_nan() { one } else { most })
}

/// How completions are sampled, without filters.
pub(crate) fn sampling(temperature: f64, max_new_tokens: usize, eos: &[u32]) -> SamplingParams {
    let filters = Filters::default();
    SamplingParams { temperature, filters, max_new_tokens, eos: eos.to_vec() }
}

/// A small architecture of a family, with some keys in place of the usual ones.
pub(crate) fn tiny(family: &str, more: &Value) -> Architecture {
    let mut config = json!({"model_type": family, "vocab_size": 50, "hidden_size": 32,
        "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
        "max_position_embeddings": 64, "tie_word_embeddings": true});
    extend(&mut config, more);
    Architecture::from_config(&config).expect("a fitting config")
}

/// Sets keys of a JSON object.
pub(crate) fn extend(config: &mut Value, more: &Value) {
    let keys = config.as_object_mut().expect("keys");
    keys.extend(more.as_object().expect("keys").clone());
}

/// A model of random weights with the configuration of a fixture, which `change` changes.
pub(crate) fn remade(fixture: &str, seed: u64, change: impl FnOnce(&mut Value)) -> Pretrained {
    let (like, place) = (conformance(fixture), tempfile::tempdir().expect("a folder"));
    let (mut config, path) =
        (runs::json(like.join("config.json")), place.path().join("config.json"));
    change(&mut config);
    std::fs::write(&path, config.to_string()).expect("written");
    Pretrained::from_scratch(&path, &like, seed, Precision::default(), &Device::Cpu)
        .expect("a model")
}

/// A random Qwen2 of two layers with `vocab_size` tokens.
pub(crate) fn policy(vocab_size: usize, seed: u64) -> Policy {
    let architecture = tiny("qwen2", &json!({"vocab_size": vocab_size, "initializer_range": 0.3}));
    let weights = weights::random(&architecture, seed, &Device::Cpu).expect("memory");
    Policy::new(&architecture, &weights).expect("all weights")
}
