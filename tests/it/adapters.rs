//! Adapters: what PEFT made loads here and computes the same, ours trains, resumes, loads and merges.
//!
//! `scripts/peft-round-trip` made the fixtures, and checks the other direction where PEFT is installed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::support;
use crate::support::apart;
use crate::support::binary::{Folder, command, ok, refused};
use crate::support::runs::{SMALL, json, resumed_adapter, summary};
use candle_core::{Device, Tensor};
use serde_json::{Value, json};
use tealight::formats::adapter::Adapter;
use tealight::formats::pretrained::Pretrained;
use tealight::nn::model::BackendKind;
use tealight::nn::policy::{Policy, Sequence};

fn fixture(name: &str) -> PathBuf {
    support::root().join("tests/fixtures/peft").join(name)
}

fn embedded() -> Pretrained {
    support::load("countdown")
}

fn policy(kind: BackendKind, base: &Pretrained, adapter: &Adapter) -> Policy {
    let own = (&adapter.scaling, &adapter.weights);
    Policy::adapting_on(kind, &base.architecture, &base.weights, own).expect("a policy")
}

/// The backends that compute on the CPU's memory.
fn kinds() -> impl Iterator<Item = BackendKind> {
    support::backends()
        .into_iter()
        .filter(|backend| backend.device.is_cpu())
        .map(|backend| backend.kind)
}

/// Log-probabilities of `rows` and all gradients of their sum.
fn gradients(policy: &Policy, rows: &[Sequence]) -> (Vec<f32>, BTreeMap<String, Tensor>) {
    support::gradients(policy, (rows, 1.0), Tensor::sum_all)
}

#[test]
fn peft_adapters_compute_the_same_logits_as_peft() {
    let base = embedded();
    for name in ["lora", "rslora"] {
        let adapter =
            Adapter::load(&fixture(name), &base.architecture, &Device::Cpu).expect("an adapter");
        let expected = fixture(name).join("expected.safetensors");
        let expected = candle_core::safetensors::load(expected, &Device::Cpu).expect("values");
        let ids: Vec<Vec<u32>> = expected["ids"].to_vec2().expect("ids");
        let row =
            |ids: &Vec<u32>| Sequence { prompt: ids[..1].into(), completion: ids[1..].into() };
        let rows: Vec<Sequence> = ids.iter().map(row).collect();
        let theirs: Vec<Vec<f32>> = expected["logp"].to_vec2().expect("log-probabilities");
        for kind in kinds() {
            for policy in
                [policy(kind, &base, &adapter), policy(kind, &base, &adapter).recomputing()]
            {
                let (ours, found) = gradients(&policy, &rows);
                for (ours, theirs) in ours.iter().zip(theirs.iter().flatten()) {
                    assert!((ours - theirs).abs() < 2e-5, "{name}: {ours} is not {theirs}");
                }
                let known = expected.keys().filter(|key| key.starts_with("grad.")).count();
                assert_eq!(found.len(), known, "{name}: the base has no gradient");
                for (weight, ours) in &found {
                    let theirs = &expected[&format!("grad.{weight}")];
                    let size = apart(theirs, &theirs.zeros_like().expect("zeros"));
                    let error = apart(ours, theirs);
                    assert!(error < 1e-4 * size.max(0.1), "{name}: gradient of {weight}");
                }
            }
        }
    }
}

/// Merges an adapter, and evaluates both: rounded otherwise, the merged weights draw the same completions, if not to
/// the last bit of entropy. Returns the measures of the adapter.
pub(crate) fn merged_draws_the_same(folder: &Folder, adapter: &str, base: &str) -> Value {
    let merged = folder.path("merged");
    ok(command!("export --model {adapter} {base} --merge --output {merged}"));
    let evaluate = |model: &str, name: &str| {
        let output = folder.path(name);
        ok(command!("eval --model {model} --max-samples 4 -n 4 -k 1,4 --output {output}"));
        summary(&output)
    };
    let live = evaluate(&format!("{adapter} {base}"), "live");
    let other = evaluate(&merged, "merged-eval");
    for measure in ["pass@k", "unique_by_level", "richness", "mean_length"] {
        assert_eq!(live[measure], other[measure], "{measure}");
    }
    live
}

#[test]
fn an_adapter_is_trained_resumed_evaluated_and_merged() {
    let folder = Folder::new();
    let (stderr, [whole, parts]) = resumed_adapter(&folder, "");
    assert!(stderr.contains("38912 parameters, 4.92 %"), "{stderr}");
    assert!(!Path::new(&parts).join("checkpoint-2/model.safetensors").exists());

    let adapter = format!("{whole}/final");
    refused!("export --model {adapter} --output {}", folder.path("merged") => "add --merge");
    let live = merged_draws_the_same(&folder, &adapter, "");
    let eval = "eval --max-samples 4 -n 4 -k 1,4";
    let output = folder.path("named");
    ok(command!("{eval} --model countdown --adapter {adapter} --output {output}"));
    assert_eq!(live, summary(&output));
    refused!(
        "train --model {adapter} --output {} {SMALL}", folder.path("twice")
        => "training begins from a whole model"
    );
}

#[test]
fn unsupported_adapters_are_refused() {
    let base = embedded();
    let folder = Folder::new();
    let config = json(fixture("lora").join("adapter_config.json"));
    let matrices = std::fs::read(fixture("lora").join("adapter_model.safetensors")).expect("read");
    let load = |changes: &[(&str, Value)], matrices: &[u8]| {
        let mut config = config.clone();
        changes.iter().for_each(|(key, value)| config[*key] = value.clone());
        folder.write("adapter_config.json", config.to_string());
        folder.write("adapter_model.safetensors", matrices);
        let loaded = Adapter::load(folder.0.path(), &base.architecture, &Device::Cpu);
        loaded.map(|_| ()).map_err(|error| format!("{error:#}"))
    };
    load(&[], &matrices).expect("as it is");
    for (changes, words) in [
        (("use_dora", true.into()), "`use_dora` is set"),
        (("use_new_thing", true.into()), "`use_new_thing` is set"),
        (("bias", "all".into()), "`bias` is set"),
        (("alpha_pattern", json!({"q_proj": 3})), "`alpha_pattern` is set"),
        (("peft_type", "IA3".into()), "only LORA"),
        (("r", 5.into()), "the base and r = 5 make it"),
        (("r", 0.into()), "r is 0"),
        (("lora_alpha", 1e300.into()), "lora_alpha 1e300: no low-rank adapter"),
    ] {
        let error = load(&[changes], &matrices).expect_err(words);
        assert!(error.contains(words), "{error}");
    }
    let error = load(&[], b"\x02\0\0\0\0\0\0\0{}").expect_err("empty");
    assert!(error.contains("holds no tensors"), "{error}");
    let more = json!(["q_proj", "down_proj", "self_attn.v_proj"]);
    let error = load(&[("target_modules", more.clone())], &matrices).expect_err("not adapted");
    assert!(error.contains("no tensors for `model.layers.0.self_attn.v_proj`"), "{error}");
    let some = [("target_modules", more), ("layers_to_transform", json!([0, 1, 2, 3]))];
    let error = load(&some, &matrices).expect_err("not adapted");
    assert!(error.contains("no tensors for `model.layers.0.self_attn.v_proj`"), "{error}");
    // What PEFT would leave out is another model: of names, and of keys that take some away.
    for (key, value, module) in [
        ("target_modules", json!(["down_proj"]), "self_attn.q_proj"),
        ("target_modules", json!(["proj"]), "down_proj"),
        ("exclude_modules", json!(["q_proj"]), "self_attn.q_proj"),
        ("layers_to_transform", json!([0]), "model.layers.1."),
        ("layers_to_transform", json!(0), "model.layers.1."),
    ] {
        let error = load(&[(key, value)], &matrices).expect_err(key);
        assert!(error.contains("do not name") && error.contains(module), "{error}");
    }
    for (key, value) in [
        ("target_modules", json!(".*_proj")),
        ("target_modules", json!(null)),
        ("exclude_modules", json!([])),
        ("exclude_modules", json!("lm_head")),
        ("layers_pattern", json!("layers")),
    ] {
        load(&[(key, value)], &matrices).expect("which modules are meant is PEFT's to say");
    }
    let error = load(&[], &matrices[..matrices.len() - 9]).expect_err("truncated");
    assert!(error.contains("truncated"), "{error}");
}

#[test]
fn supervised_training_of_an_adapter_saves_an_adapter() {
    let folder = Folder::new();
    let output = folder.path("sft");
    let sft = "sft --dataset countdown/sft --max-steps 2 --batch-size 4 --use-peft --lora-r 2";
    let stderr = ok(command!("{sft} --output {output}"));
    assert!(stderr.contains("1e-4 (the default with --use-peft)"), "{stderr}");
    let base = embedded();
    let made = Adapter::load(&Path::new(&output).join("final"), &base.architecture, &Device::Cpu);
    assert_eq!(made.expect("an adapter").weights.len(), 2 * 7 * 4);
}
