//! Training with servers that sample: against a stand-in for vLLM that refuses what the real one refuses.
//! `scripts/vllm-round-trip` does the same with a real one.

use std::path::Path;
use std::sync::atomic::Ordering;

use crate::support::binary::{Folder, ok, refusal, stderr_of, tealight, words};
use crate::support::metrics::{number, rows};
use crate::support::server::serve;
use crate::support::vllm::Vllm;

/// A short run on that server.
pub(crate) fn arguments<'a>(engine: &'a str, output: &'a str, more: &'a str) -> Vec<&'a str> {
    let common = words(
        "train --objective grpo --max-steps 3 --prompts-per-step 4 --num-generations 4 \
         --max-samples 24 --learning-rate 1e-3 --max-completion-length 16 --engine-kwargs retries=0 \
         --log-completions 0 --report-to none",
    );
    [&common[..], &["--engine", engine, "--output", output], &words(more)].concat()
}

/// The metrics of a run whose servers sampled from the policy of each step, at its temperature: another policy would
/// differ by far more.
pub(crate) fn rows_sampled_from_policy(output: &str) -> Vec<serde_json::Value> {
    let found = rows(Path::new(output));
    assert!(!found.is_empty());
    for row in &found {
        assert!(number(row, "sampling/engine_logp_difference/max") < 1e-4, "{row}");
    }
    found
}

const ADAPTER: &str = "--use-peft --lora-r 8";

#[test]
fn servers_sample_from_the_adapter_of_every_step_and_nothing_is_left_behind() {
    let folder = Folder::new();
    let ((one, first), (other, second)) = (Vllm::start(false), Vllm::start(false));
    let (engines, output) = (format!("{first}, {second}"), folder.path("run"));
    ok(&arguments(&engines, &output, &format!("{ADAPTER} --temperature 0.8")));
    for row in rows_sampled_from_policy(&output) {
        assert!((number(&row, "sampling/effective_sample_size") - 1.0).abs() < 1e-6);
        assert_eq!(number(&row, "sampling/masked_ratio"), 0.0);
    }
    for server in [&one, &other] {
        assert!(server.is_clean(), "an adapter is left on a server");
        assert_eq!(server.names(), 3, "one a step");
        assert!(server.num_requests.load(Ordering::SeqCst) >= 3, "both sample");
    }
    assert!(!Path::new(&output).join("engine").exists(), "an adapter is left on the disk");
    let config = std::fs::read_to_string(Path::new(&output).join("config.toml")).expect("settings");
    assert!(config.contains("engine = "));
}

#[test]
fn all_weights_are_read_again_before_every_step() {
    let folder = Folder::new();
    let (_server, engine) = Vllm::start(false);
    let output = folder.path("run");
    ok(&arguments(&engine, &output, "--importance-correction token-truncate:2"));
    assert_eq!(rows_sampled_from_policy(&output).len(), 3);
    assert!(!Path::new(&output).join("engine").exists());
}

#[test]
fn the_next_step_is_sampled_while_this_one_trains() {
    let folder = Folder::new();
    let ((one, first), (other, second)) = (Vllm::start(false), Vllm::start(false));
    let (engines, output) = (format!("{first},{second}"), folder.path("run"));
    ok(&arguments(&engines, &output, &format!("{ADAPTER} --max-staleness 1")));
    let found = rows(Path::new(&output));
    let staleness: Vec<f64> = found.iter().map(|row| number(row, "sampling/staleness")).collect();
    // The first waits for its weights; each later one was begun with those before it, or with its own.
    assert_eq!((staleness.len(), staleness[0]), (3, 0.0));
    assert!(staleness.iter().all(|steps| *steps <= 1.0), "{staleness:?}");
    assert!(number(&found[0], "sampling/engine_logp_difference/max") < 1e-4);
    assert!(one.is_clean() && other.is_clean());
    // As many completions as in lock-step, whatever was drawn ahead.
    assert_eq!(number(&found[2], "num_completions"), 48.0);
    // A death while it samples ahead ends the run whole as well.
    let output = folder.path("dies");
    let (alone, engine) = Vllm::start(false);
    alone.lasts.store(6, Ordering::SeqCst);
    let more = format!("{ADAPTER} --max-staleness 2");
    let done = tealight(&arguments(&engine, &output, &more));
    assert!(stderr_of(&done).contains("no server is left"), "{}", stderr_of(&done));
    let (_, engine) = Vllm::start(false);
    ok(&arguments(&engine, &output, &format!("{more} --resume")));
    let found = rows(Path::new(&output));
    assert_eq!((found.len(), number(&found[2], "num_completions")), (3, 48.0));
}

#[test]
fn a_dead_server_is_dropped_and_losing_all_stops_the_run_cleanly() {
    let folder = Folder::new();
    let ((one, first), (other, second)) = (Vllm::start(false), Vllm::start(false));
    one.lasts.store(3, Ordering::SeqCst);
    let (engines, output) = (format!("{first},{second}"), folder.path("run"));
    let stderr = ok(&arguments(&engines, &output, ADAPTER));
    assert!(stderr.contains("is not used"), "{stderr}");
    assert_eq!(rows(Path::new(&output)).len(), 3);
    assert!(other.is_clean());

    // One that comes back is given the weights of the step before it samples again, and loses what it still had.
    let ((back, first), (steady, second)) = (Vllm::start(false), Vllm::start(false));
    back.lasts.store(1, Ordering::SeqCst);
    back.returns.store(true, Ordering::SeqCst);
    let (engines, output) = (format!("{first},{second}"), folder.path("back"));
    let stderr = ok(&arguments(&engines, &output, ADAPTER));
    assert!(stderr.contains("is not used") && stderr.contains("answers again"), "{stderr}");
    rows_sampled_from_policy(&output);
    assert!(back.names() >= 2 && back.is_clean() && steady.is_clean());

    // The only one dies in the second step; another takes the run up, as if nothing had been.
    let output = folder.path("alone");
    let (alone, engine) = Vllm::start(false);
    alone.lasts.store(6, Ordering::SeqCst);
    let done = tealight(&arguments(&engine, &output, ADAPTER));
    assert!(!done.status.success());
    let why = stderr_of(&done);
    assert!(why.contains("no server is left") && why.contains("--resume"), "{why}");
    assert!(!Path::new(&output).join("engine").exists());
    let before = rows(Path::new(&output)).len();
    assert!(before < 3);
    let (fresh, engine) = Vllm::start(false);
    ok(&arguments(&engine, &output, &format!("{ADAPTER} --resume")));
    let found = rows(Path::new(&output));
    assert_eq!(found.len(), 3);
    let steps: Vec<f64> = found.iter().map(|row| number(row, "step")).collect();
    assert_eq!(steps, [1.0, 2.0, 3.0]);
    assert_eq!(number(&found[2], "num_completions"), 48.0, "as many as without a death");
    assert!(fresh.is_clean());
}

#[test]
fn a_server_with_another_distribution_is_seen_at_once() {
    let folder = Folder::new();
    let (_, engine) = Vllm::start(true);
    let output = folder.path("run");
    let more = format!("{ADAPTER} --temperature 0.3");
    let done = tealight(&arguments(&engine, &output, &more));
    let why = stderr_of(&done);
    assert!(!done.status.success() && why.contains("processed_logprobs"), "{why}");
    assert!(!Path::new(&output).join("engine").exists());
    // A rank that it was not started with: its words.
    let output = folder.path("rank");
    let why = stderr_of(&tealight(&arguments(&engine, &output, "--use-peft --lora-r 16")));
    assert!(why.contains("max_lora_rank") && why.contains("no server is left"), "{why}");
}

#[test]
fn servers_of_other_kinds_are_refused() {
    let folder = Folder::new();
    let output = folder.path("run");
    let llama = serve(|asked| match asked.path.as_str() {
        "/v1/models" => {
            (200, String::new(), br#"{"data":[{"id":"x","owned_by":"llamacpp"}]}"#.to_vec())
        }
        _ => (200, String::new(), b"{}".to_vec()),
    });
    let error = refusal(&arguments(&llama, &output, ""));
    assert!(error.contains("training needs vLLM or SGLang"), "{error}");
}
