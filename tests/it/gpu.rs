//! A GPU's needs beside its kernels, on the emulation: memory that is planned and grows, and a device that is held
//! against the CPU before it is used.

use std::process::Output;

use candle_core::{DType, Device, Tensor};
use serde_json::{Value, json};
use tealight::nn::generate::{
    Filters, LocalSampler, RngKey, SampleRequest, Sampler, SamplingParams,
};
use tealight::nn::model::lora::{self, Scaling};
use tealight::nn::model::{BackendKind, KvCache, PackedSequences, weights};
use tealight::nn::policy::{GradAccumulator, Policy, Sequence};
use tealight_gpu::counts::{Counts, counted};

use crate::memory::megabytes;
use crate::support::binary::{Folder, program, stderr_of, words};
use crate::support::{self, TestBackend, extend, runs, tiny};

/// Runs the binary with variables set, with a cache of its own.
fn run(folder: &Folder, line: &str, set: &[(&str, &str)]) -> Output {
    program()
        .env("HF_HOME", folder.path("cache"))
        .envs(set.iter().copied())
        .args(words(line))
        .output()
        .expect("runs")
}

const EVALUATION: &str = "eval --device emulated --max-samples 2 -n 8 -k 1,4 --max-completion-length 24 --quiet --output";

#[test]
fn a_cache_for_decoding_grows_with_its_rows_and_changes_no_bit() {
    let cpu = support::policy(20, 4);
    let (architecture, weights) = (cpu.decoder().architecture(), cpu.weights());
    let weights = weights.iter().map(|(name, var)| (name.clone(), var.as_detached_tensor()));
    let backend = TestBackend { kind: BackendKind::Gpu, device: Device::Cpu, is_exact: false };
    let policy: Policy = backend.policy(architecture, &weights.collect());
    let decoder = policy.decoder();
    let mut grown = decoder.decoding_cache(3, 64, 2).expect("a cache");
    assert_eq!(grown.slots(), 64, "prompts and what is added");
    // Up to 200 tokens after prompts of 10: room for the first of them.
    grown = decoder.decoding_cache(3, 210, 200).expect("a cache");
    assert_eq!(grown.slots(), 74);
    let mut whole = decoder.cache(3, 210).expect("a cache");
    let ids: Vec<u32> = (0..60).map(|at| at * 7 % 19).collect();
    let pieces =
        [PackedSequences::from_start([20, 20, 20]), PackedSequences::from_start([50, 5, 5])];
    let same = |grown: &mut KvCache, whole: &mut KvCache, (ids, packed): (&[u32], &_)| {
        let [one, other] = [grown, whole].map(|cache| {
            let hidden = decoder.hidden(ids, packed, Some(cache)).expect("a pass");
            hidden.to_vec2::<f32>().expect("values")
        });
        assert_eq!(one, other);
    };
    pieces.iter().for_each(|packed| same(&mut grown, &mut whole, (&ids, packed)));
    for (past, slots) in [(73, 74), (74, 111), (150, 166)] {
        // The rows between were never written: zeros, in both.
        let packed = PackedSequences::after([past, 5, past]);
        same(&mut grown, &mut whole, (&[1, 2, 3], &packed));
        assert_eq!(grown.slots(), slots);
    }
    let beyond = PackedSequences::after([210, 1, 1]);
    assert!(decoder.hidden(&[1, 2, 3], &beyond, Some(&mut grown)).is_err(), "not beyond its room");
}

#[test]
fn a_dry_run_plans_the_memory_of_a_gpu() {
    let folder = Folder::new();
    let dry = |more: &str| {
        let fixed = "train --dry-run --device emulated --max-samples 8 --max-steps 1";
        let done = run(&folder, &format!("{fixed} {more}"), &[]);
        assert!(done.status.success(), "{}", stderr_of(&done));
        String::from_utf8(done.stdout).expect("text")
    };
    let wide = dry("");
    let half = dry("--dtype bfloat16");
    let keys = megabytes(&wide, "rollout: keys");
    assert!(megabytes(&wide, "at most") > keys && keys > 0.0);
    for part in ["weights of the base", "activations"] {
        let (wide, half) = (megabytes(&wide, part), megabytes(&half, part));
        assert!((half / wide - 0.5).abs() < 0.1, "{part}: {half} of {wide} MB");
    }
    // Trained weights are f32 in both, with a copy in bf16.
    let policy = |plan: &str| megabytes(plan, "weights of the policy");
    assert!(policy(&half) > 1.4 * policy(&wide));
    let longer = dry("--max-completion-length 24");
    let shorter = dry("--max-completion-length 12");
    assert!(megabytes(&longer, "rollout: keys") > megabytes(&shorter, "rollout: keys"));
}

#[test]
fn a_gpu_without_room_for_one_sequence_is_refused_before_it_samples() {
    let folder = Folder::new();
    let output = folder.path("none");
    let line = format!("{EVALUATION} {output}");
    let done = run(&folder, &line, &[("TEALIGHT_EMULATED_MEMORY", "1000")]);
    assert!(!done.status.success());
    assert!(stderr_of(&done).contains("lower --max-completion-length"), "{}", stderr_of(&done));
}

#[test]
fn a_device_is_checked_once_and_refused_where_a_kernel_is_wrong() {
    let folder = Folder::new();
    let verdicts = || {
        let folder = std::path::PathBuf::from(folder.path("cache/hub/tealight-kernels"));
        std::fs::read_dir(folder).map_or(0, Iterator::count)
    };
    let line = format!("{EVALUATION} {}", folder.path("wrong"));
    let wrong = run(&folder, &line, &[("TEALIGHT_EMULATED_FAULT", "rope_f32")]);
    assert!(!wrong.status.success(), "a wrong kernel is no device");
    let text = stderr_of(&wrong);
    assert!(text.contains("kernel rope_f32 is off by") && text.contains("--device cpu"), "{text}");
    assert_eq!(verdicts(), 0, "no verdict is kept of what is wrong");

    let line = format!("{EVALUATION} {} --overwrite", folder.path("well"));
    for _ in 0..2 {
        let well = run(&folder, &line, &[]);
        assert!(well.status.success(), "{}", stderr_of(&well));
        assert_eq!(verdicts(), 1, "one verdict on one device at one model's sizes");
    }
}

#[test]
fn doctor_runs_every_kernel_of_a_gpu() {
    let folder = Folder::new();
    let well = run(&folder, "doctor --device emulated", &[]);
    let text = String::from_utf8(well.stdout.clone()).expect("text");
    assert!(well.status.success(), "{text}{}", stderr_of(&well));
    assert!(text.contains("compute what they do on the CPU"), "{text}");
    let variables = [("TEALIGHT_EMULATED_FAULT", "attention_keys_bf16")];
    let wrong = run(&folder, "doctor --device emulated", &variables);
    let text = String::from_utf8(wrong.stdout.clone()).expect("text");
    assert!(!wrong.status.success() && text.contains("FAIL kernels"), "{text}");
    assert!(text.contains("kernel attention_keys_bf16 is off by"), "{text}");
}

/// A model of a family on the emulation.
fn policy_of(family: &str, layers: usize, more: &Value) -> Policy {
    let mut config =
        json!({"vocab_size": 40, "num_hidden_layers": layers, "max_position_embeddings": 512});
    extend(&mut config, more);
    let architecture = tiny(family, &config);
    let weights = weights::random(&architecture, 3, &Device::Cpu).expect("weights");
    let backend = TestBackend { kind: BackendKind::Gpu, device: Device::Cpu, is_exact: false };
    backend.policy(&architecture, &weights)
}

/// A model with every part that Qwen2 has.
fn qwen2(layers: usize) -> Policy {
    policy_of("qwen2", layers, &json!({}))
}

/// The launches of sampling 4 completions of so many tokens.
fn sampled(policy: &Policy, max_new_tokens: usize) -> Counts {
    let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 4 };
    let requests = [SampleRequest { prompt: vec![1, 2, 3], first: 0, count: 4, key: 0 }];
    let filters = Filters { top_k: 20, top_p: 0.9, min_p: 0.01 };
    // No token ends a completion.
    let params = SamplingParams { temperature: 1.0, filters, max_new_tokens, eos: vec![] };
    let key = RngKey { seed: 1, step: 0 };
    let (done, counts) = counted(|| sampler.generate(&requests, &params, key, &mut |_, _| Ok(())));
    done.expect("samples");
    counts
}

/// The difference of two runs, which is that of the steps that the longer one has more.
fn more(long: &Counts, short: &Counts, count: impl Fn(&Counts) -> usize) -> usize {
    count(long) - count(short)
}

#[test]
fn a_decoding_step_has_known_launch_and_allocation_counts() {
    // The first token, and 8 at a time between which the host does not look: 33 times and 32.
    let (long, short) = (sampled(&qwen2(3), 265), sampled(&qwen2(3), 257));
    // By itself, or as one of a graph.
    let launches_of = |counts: &Counts, name: &str| {
        let all = [&counts.launches, &counts.replayed];
        all.into_iter().filter_map(|launches| launches.get(name)).sum::<usize>()
    };
    let launches = |name: &str| more(&long, &short, |counts| launches_of(counts, name));
    for (name, of_layer, once) in [
        ("add_norm_f32", 2, 1),
        ("add_biases_f32", 1, 0),
        ("rope_store_f32", 1, 0),
        ("attention_f32", 1, 0),
        ("gated_f32", 1, 0),
        ("pick_rows_f32", 0, 1),
        ("sample_f32", 0, 1),
        // Seven products a layer; the logits.
        ("candle", 7, 1),
    ] {
        assert_eq!(launches(name), 8 * (3 * of_layer + once), "{name}");
    }
    // Every step is a graph but for the embedding, the logits and the token that is drawn from them.
    let of_graphs = |counts: &Counts| counts.replayed.values().sum::<usize>();
    assert_eq!(more(&long, &short, Counts::launched), 8 * 3);
    assert_eq!(more(&long, &short, of_graphs), 8 * (3 * 13 + 1));
    assert_eq!(more(&long, &short, |counts| counts.graphs), 8);
    // One, and another whenever the cache has grown.
    assert_eq!((long.graphs_made, short.graphs_made), (5, 5));
    // Beside the arrays of each step, the tokens that steps begin with, random numbers, what is drawn: all in memory
    // that steps before them used.
    assert_eq!(more(&long, &short, |counts| counts.reused), 8 * (3 * 14 + 7) + 4);
    assert_eq!(more(&long, &short, |counts| counts.allocations), 0);
    // Three more layers allocate for the prompt's pass alone: decoding, they share the memory of the others.
    let deeper = sampled(&qwen2(6), 257);
    assert_eq!(more(&deeper, &short, |counts| counts.allocations), 3 * 14);
    assert_eq!(more(&long, &short, |counts| counts.uploads), 8 * 4 + 2);
    assert_eq!(more(&long, &short, |counts| counts.uploaded), 8 * 240 + 16 + 128);
    assert_eq!(more(&long, &short, |counts| counts.downloads), 2);
    // Tokens and log-probabilities, and no logits.
    assert_eq!(more(&long, &short, |counts| counts.downloaded), 8 * 4 * 8);
}

/// A model in bf16 with an adapter in f32.
fn adapted() -> Policy {
    let base = qwen2(2);
    let architecture = base.decoder().architecture();
    let half = |tensor: &Tensor| tensor.to_dtype(DType::BF16).expect("rounded");
    let weights = base.weights().iter().map(|(name, var)| (name.clone(), half(var.as_tensor())));
    let modules = lora::modules(architecture, &["q_proj".to_owned(), "down_proj".to_owned()]);
    let adapter = lora::fresh(&modules, 4, 1, &Device::Cpu).expect("an adapter");
    let scaling = Scaling { r: 4, lora_alpha: 6.0, use_rslora: false };
    let own = (&scaling, &adapter);
    Policy::adapting_on(BackendKind::Gpu, architecture, &weights.collect(), own).expect("fits")
}

#[test]
fn decoding_of_every_family_and_of_an_adapter_allocates_nothing() {
    let windows = json!({"sliding_window": 4});
    let mixed =
        json!({"sliding_window": 4, "layer_types": ["sliding_attention", "full_attention"]});
    let scales = json!({"embedding_multiplier": 3.0, "attention_multiplier": 0.1,
        "residual_multiplier": 0.4, "logits_scaling": 2.0});
    let none = json!({});
    for (family, keys) in [
        ("an adapter", &none),
        ("qwen3", &none),
        ("llama", &none),
        ("gemma3_text", &mixed),
        ("olmo3", &mixed),
        ("phi3", &windows),
        ("granite", &scales),
    ] {
        let policy = if family == "an adapter" { adapted() } else { policy_of(family, 2, keys) };
        let (long, short) = (sampled(&policy, 265), sampled(&policy, 257));
        assert_eq!(more(&long, &short, |counts| counts.allocations), 0, "{family}");
        assert_eq!(more(&long, &short, |counts| counts.graphs), 8, "{family}");
    }
}

#[test]
fn graphs_sample_what_the_cpu_does_while_rows_end_and_the_cache_grows() {
    let on_gpu = qwen2(2);
    let weights = on_gpu.weights().iter();
    let weights = weights.map(|(name, var)| (name.clone(), var.as_detached_tensor())).collect();
    let on_cpu = Policy::new(on_gpu.decoder().architecture(), &weights).expect("all weights");
    let request = |key: u32| SampleRequest {
        prompt: vec![1, 2, key],
        first: 0,
        count: 4,
        key: u64::from(key),
    };
    let requests: Vec<SampleRequest> = (3..9).map(request).collect();
    // One token in forty ends a completion: rows leave and others come in, and few are as long as may be.
    let params = support::sampling(1.0, 300, &[11]);
    let sampled = |policy: &Policy| {
        let sampler = LocalSampler { decoder: policy.decoder(), max_rows: 5 };
        counted(|| support::sampled(&sampler, &requests, &params, RngKey { seed: 2, step: 0 }))
    };
    let ((expected, _), (found, counts)) = (sampled(&on_cpu), sampled(&on_gpu));
    let longest = expected.iter().flatten().map(|completion| completion.tokens.len()).max();
    // Room for 67 tokens, then for 100, then for 150.
    assert!(longest > Some(98), "the cache grows twice: {longest:?}");
    for (expected, found) in expected.iter().flatten().zip(found.iter().flatten()) {
        assert_eq!(expected.tokens, found.tokens);
        let apart = expected.logp.iter().zip(&found.logp).map(|(a, b)| (a - b).abs());
        assert!(apart.fold(0.0, f32::max) < 1e-4);
    }
    assert!(counts.graphs_made > 5 && counts.graphs > 100, "{counts:?}");
}

#[test]
fn a_wrong_cuda_graph_is_detected() {
    let folder = Folder::new();
    let samples = |name: &str, more: &str, variables: &[(&str, &str)]| {
        let output = folder.path(name);
        let done = run(&folder, &format!("{EVALUATION} {output} {more}"), variables);
        assert!(done.status.success(), "{}", stderr_of(&done));
        let is_warned = stderr_of(&done).contains("CUDA graph computes other bits");
        (runs::samples(&output), is_warned)
    };
    let fault = [("TEALIGHT_EMULATED_FAULT", "graph")];
    let (well, is_warned) = samples("well", "", &[]);
    assert!(!is_warned);
    // What a wrong graph computed is not used.
    let wrong = samples("wrong", "", &fault);
    assert_eq!(wrong, (well.clone(), true));
    let eager = samples("eager", "--kernels eager", &fault);
    assert_eq!(eager, (well, false), "no graph is made");
}

/// A pass forward and backward over two completions of one prompt.
fn train_on(policy: &Policy, grads: &mut GradAccumulator) -> anyhow::Result<()> {
    let rows = [[5u32, 6, 7], [8, 9, 10]]
        .map(|completion| Sequence { prompt: vec![1, 2, 3], completion: completion.to_vec() });
    let pass = policy.forward(&rows, 1.0)?;
    let loss = pass.logp().sum_all()?;
    Ok(policy.backward(pass, &loss, grads)?)
}

#[test]
fn a_training_pass_has_known_launch_and_allocation_counts() {
    let counted_pass = |layers: usize| {
        let (policy, mut grads) = (qwen2(layers), GradAccumulator::default());
        let mut pass = || {
            let (done, counts) = counted(|| train_on(&policy, &mut grads));
            done.expect("a pass");
            counts
        };
        [pass(), pass()]
    };
    let (deep, shallow) = (counted_pass(3), counted_pass(2));
    let of_layer =
        |pass: usize, count: fn(&Counts) -> usize| more(&deep[pass], &shallow[pass], count);
    // Products: 7 forward, 14 backward. Zeros for the gradients of 3 biases and 2 norms, once a step.
    let candle = |counts: &Counts| counts.launches["candle"];
    assert_eq!([0, 1].map(|pass| of_layer(pass, candle)), [21 + 5, 21]);
    // The first gradient of a matrix becomes its sums, others are added to them.
    let add_to = |counts: &Counts| counts.launches.get("add_to_f32").copied().unwrap_or(0);
    assert_eq!([0, 1].map(|pass| of_layer(pass, add_to)), [0, 7]);
    assert_eq!([0, 1].map(|pass| of_layer(pass, Counts::launched)), [56, 58]);
    // The copies from the host do not depend on the layers, and none waits for the device.
    assert_eq!(of_layer(0, |counts| counts.uploads), 0);
    assert_eq!(deep[0].downloads, 0);
}
