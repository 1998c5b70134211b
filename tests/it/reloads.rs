//! Servers that are told to read all weights again: whether they did, and what they say of themselves.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::fleet::{arguments, rows_sampled_from_policy};
use crate::support::binary::{Folder, ok, refusal, stderr_of, tealight};
use crate::support::metrics::rows;
use crate::support::vllm::{Quirks, Vllm};

/// What a run says that fails on a server.
fn failure(quirks: Quirks) -> String {
    let folder = Folder::new();
    let (_, engine) = Vllm::start_with(quirks);
    let output = folder.path("run");
    let done = tealight(&arguments(&engine, &output, ""));
    assert!(!done.status.success());
    assert!(!Path::new(&output).join("engine").exists(), "weights are left behind");
    stderr_of(&done)
}

#[test]
fn a_server_that_keeps_its_output_layer_ends_the_run_before_it_samples() {
    let keeps = Quirks { keeps_output_layer: true, ..Quirks::default() };
    let why = failure(keeps.clone());
    assert!(why.contains("output layer or its embedding did not change"), "{why}");
    assert!(why.contains("--use-peft"), "{why}");
    // A server with checksums says which tensors it did read.
    let announces = Some(vec!["/collective_rpc", "/pause", "/weight_checker"]);
    let why = failure(Quirks { announces, ..keeps });
    assert!(why.contains("only tp0.model.embed_tokens.weight changed"), "{why}");

    // Beside one that reads them, it is left out for good, and asked once.
    let folder = Folder::new();
    let ((stale, first), (fresh, second)) = (
        Vllm::start_with(Quirks { keeps_output_layer: true, ..Quirks::default() }),
        Vllm::start(false),
    );
    let (engines, output) = (format!("{first},{second}"), folder.path("run"));
    let stderr = ok(&arguments(&engines, &output, ""));
    assert!(stderr.contains("is not used"), "{stderr}");
    assert_eq!(stale.reloads.load(Ordering::SeqCst), 2, "under other ids, and under its own");
    assert_eq!(stale.num_requests.load(Ordering::SeqCst), 0);
    // Twice to begin with, and once before each of three steps.
    assert_eq!(fresh.reloads.load(Ordering::SeqCst), 5);
    rows_sampled_from_policy(&output);
}

#[test]
fn a_server_that_reads_nothing_or_stops_reading_is_found() {
    let why = failure(Quirks { reads: Some(0), ..Quirks::default() });
    assert!(why.contains("did not change"), "{why}");
    // The policy's first weights twice, then no more.
    let why = failure(Quirks { reads: Some(3), ..Quirks::default() });
    assert!(why.contains("kept old weights") && why.contains("--resume"), "{why}");
}

#[test]
fn a_server_without_the_calls_is_refused_at_the_start() {
    let refused = |announces: Vec<&'static str>, more: &str| {
        let folder = Folder::new();
        let (server, engine) =
            Vllm::start_with(Quirks { announces: Some(announces), ..Quirks::default() });
        let error = refusal(&arguments(&engine, &folder.path("run"), more));
        assert_eq!(server.reloads.load(Ordering::SeqCst), 0);
        error
    };
    let error = refused(vec!["/v1/completions"], "");
    assert!(error.contains("vLLM 0.33.0") && error.contains("VLLM_SERVER_DEV_MODE=1"), "{error}");
    let error = refused(vec!["/pause", "/start_weight_update", "/update_weights"], "");
    assert!(error.contains("NCCL") && error.contains("--use-peft"), "{error}");
    let error = refused(vec!["/v1/completions"], "--use-peft --lora-r 8");
    assert!(error.contains("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1"), "{error}");
}

#[test]
fn restarted_servers_are_detected_by_weight_version() {
    let calls = vec!["/collective_rpc", "/pause", "/update_weight_version"];
    let marked = || Quirks { announces: Some(calls.clone()), ..Quirks::default() };
    let folder = Folder::new();
    let output = folder.path("steady");
    let (_, engine) = Vllm::start_with(marked());
    ok(&arguments(&engine, &output, ""));
    assert_eq!(rows(Path::new(&output)).len(), 3);

    // One of two comes back with the base's weights: what it draws from them is not used.
    let ((anew, first), (_, second)) = (Vllm::start_with(marked()), Vllm::start_with(marked()));
    anew.restarts.store(3, Ordering::SeqCst);
    let (engines, output) = (format!("{first},{second}"), folder.path("anew"));
    let stderr = ok(&arguments(&engines, &output, ""));
    assert!(stderr.contains("version `default`") && stderr.contains("answers again"), "{stderr}");
    rows_sampled_from_policy(&output);
}
