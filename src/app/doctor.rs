//! The abilities of this machine and this binary, and a short test of them.

use std::path::Path;
use std::time::Instant;

use anyhow::{Result, bail};
use candle_core::{DType, Device};
use serde::Serialize;
use tealight_gpu::self_check::{self, Outcome, Shapes};
use tealight_matmul::{InstructionSet, VARIABLE};

use tealight_formats::hub::{self, token};
use tealight_formats::pretrained::Pretrained;
use tealight_nn::device::{self, Precision};
use tealight_nn::generate::{
    Filters, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight_nn::model::BackendKind;
use tealight_nn::policy::{GradAccumulator, Policy, Sequence, by_row, rounding};
use tealight_nn::tokenizer::Tokenizer;
use tealight_system::files::writable_directory;
use tealight_system::{hf_home, machine};

/// A finding about the machine or the build.
#[derive(Serialize)]
pub struct Finding {
    /// The subject of the check.
    pub name: &'static str,
    /// Whether it is well.
    pub is_well: bool,
    /// Its result.
    #[serde(rename = "said")]
    pub detail: String,
}

/// Looks at this machine and tries this binary on `device`.
pub fn run(device: &str) -> Vec<Finding> {
    let opened = device::open(device);
    let kernels = opened.as_ref().ok().and_then(|(device, _)| kernels(device));
    let mut findings = vec![
        well(
            "tealight",
            format!("{}, revision {}", env!("CARGO_PKG_VERSION"), env!("TEALIGHT_REVISION")),
        ),
        well("features", features()),
        judged("device", opened.map(|(_, described)| described)),
        well("processor", processor()),
        memory(),
        space(),
        judged("cache", cache()),
        well("hub", hub_access()),
    ];
    findings.extend(kernels.map(|kernels| judged("kernels", kernels)));
    findings.push(judged("self-test", self_test(device)));
    findings
}

fn well(name: &'static str, detail: String) -> Finding {
    Finding { name, is_well: true, detail }
}

fn judged(name: &'static str, result: Result<String>) -> Finding {
    match result {
        Ok(detail) => well(name, detail),
        Err(error) => Finding { name, is_well: false, detail: format!("{error:#}") },
    }
}

/// The features that this binary was built with.
fn features() -> String {
    let built = [("cuda", cfg!(feature = "cuda")), ("metal", cfg!(feature = "metal"))];
    let names: Vec<&str> =
        built.iter().filter(|(_, is_in)| *is_in).map(|(name, _)| *name).collect();
    match names.is_empty() {
        true => "CPU alone (build with --features cuda or metal for a GPU)".to_owned(),
        false => names.join(", "),
    }
}

fn processor() -> String {
    let available = InstructionSet::ALL.into_iter().filter(|set| set.is_available());
    let names: Vec<&str> = available.map(InstructionSet::name).collect();
    format!("{} (available: {}; {VARIABLE} picks one)", device::processor(), names.join(", "))
}

fn memory() -> Finding {
    match machine::available_memory() {
        None => well("memory", "unknown".to_owned()),
        Some(bytes) => Finding {
            name: "memory",
            is_well: bytes > 1 << 30,
            detail: format!("{:.1} GB free", bytes as f64 / 1e9),
        },
    }
}

fn space() -> Finding {
    match machine::free_space(Path::new(".")) {
        None => well("disk", "unknown".to_owned()),
        Some(bytes) => Finding {
            name: "disk",
            is_well: bytes > 1 << 30,
            detail: format!("{:.1} GB free here", bytes as f64 / 1e9),
        },
    }
}

fn cache() -> Result<String> {
    let directory = hf_home::cache_directory();
    writable_directory(&directory)?;
    let free = machine::free_space(&directory);
    let free = free.map_or(String::new(), |bytes| format!(", {:.1} GB free", bytes as f64 / 1e9));
    Ok(format!("{}{free}", directory.display()))
}

/// The settings of the Hub, not whether the network is there: it is not used.
fn hub_access() -> String {
    let token = match token::token() {
        Some(_) => "a token is set",
        None => "no token (needed for gated models: HF_TOKEN)",
    };
    let offline = if hub::is_offline() { ", HF_HUB_OFFLINE is set" } else { "" };
    format!("{}: {token}{offline}", token::endpoint())
}

/// Holds every kernel on a GPU against the CPU, at small sizes that reach every branch and at those of a model of half
/// a billion weights; nothing where there is no GPU.
fn kernels(device: &Device) -> Option<Result<String>> {
    (BackendKind::for_device(device) == BackendKind::Gpu).then(|| {
        let started = Instant::now();
        let mut seen = Vec::new();
        for dtype in [DType::F32, DType::BF16] {
            for shapes in [Shapes::small(dtype), of_half_a_billion(dtype)] {
                seen.extend(self_check::run(device, &shapes)?);
            }
        }
        let seen = self_check::judged(seen)?;
        let share = |outcome: &Outcome| outcome.error / outcome.most;
        let worst = seen.iter().max_by(|a, b| share(a).total_cmp(&share(b)));
        let worst = worst.map_or(String::new(), |Outcome { kernel, error, most }| {
            format!(
                "; furthest: {kernel}, {error:.0e} of its largest value ({most:.0e} is allowed)"
            )
        });
        let seconds = started.elapsed().as_secs_f64();
        Ok(format!("{} compute what they do on the CPU{worst}, {seconds:.1} s", seen.len()))
    })
}

/// The sizes of Qwen2.5-0.5B.
fn of_half_a_billion(dtype: DType) -> Shapes {
    Shapes {
        hidden: 896,
        inner: 4864,
        vocabulary: 151_936,
        heads: [14, 2, 64],
        other_heads: Vec::new(),
        pairs: 32,
        window: None,
        delta: None,
        ..Shapes::small(dtype)
    }
}

/// Samples the embedded model, computes the same log-probabilities with a gradient, and compares.
fn self_test(device: &str) -> Result<String> {
    let started = Instant::now();
    let (device, _) = device::open(device)?;
    let model = Pretrained::load(hub::EMBEDDED, Precision::default(), &device)?;
    let policy = Policy::new(&model.architecture, &model.weights)?;
    let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 64 };
    let prompt =
        model.tokenizer.encode_prompt(&tealight_core::Prompt::Text("3,7,8,9=24:".into()))?;
    let params = SamplingParams {
        temperature: 1.0,
        filters: Filters::default(),
        max_new_tokens: 20,
        eos: model.tokenizer.eos().to_vec(),
    };
    let requests = [SampleRequest { prompt: prompt.clone(), first: 0, count: 64, key: 0 }];
    let mut samples = Vec::new();
    sampler.generate(&requests, &params, RngKey { seed: 0, step: 0 }, &mut |_, completions| {
        samples = completions;
        Ok(())
    })?;
    let rows: Vec<Sequence> = samples
        .iter()
        .map(|one| Sequence { prompt: prompt.clone(), completion: one.tokens.clone() })
        .collect();
    let forward = policy.forward(&rows, 1.0)?;
    let computed = by_row(forward.logp(), &rows)?;
    let apart = samples
        .iter()
        .zip(&computed)
        .flat_map(|(one, row)| one.logp.iter().zip(row).map(|(a, b)| (a - b).abs()))
        .fold(0f32, |worst, x| if x > worst || x.is_nan() { x } else { worst });
    let (loss, mut gradients) = (forward.logp().sum_all()?, GradAccumulator::default());
    policy.backward(forward, &loss, &mut gradients)?;
    let gradients = gradients.tensors()?.len();
    let tokens: usize = samples.iter().map(|one| one.tokens.len()).sum();
    let most = rounding(policy.decoder());
    if gradients != policy.weights().len() || apart.is_nan() || f64::from(apart) > most {
        bail!("{gradients} gradients, log-probabilities differ by {apart:.1e}: please report this");
    }
    Ok(format!(
        "sampled {tokens} tokens, computed them again to {apart:.0e}, {gradients} gradients, {:.2} s",
        started.elapsed().as_secs_f64()
    ))
}
