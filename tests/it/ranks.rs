//! Work that several ranks do together comes out as one process has it. Ranks are threads here; `mpi` has processes.

use std::path::Path;
use std::sync::atomic::Ordering;

use candle_core::Device;
use clap::{Args, Command, FromArgMatches};
use serde_json::Value;
use tealight::app::directory::{Existing, RunDirectory, Start};
use tealight::app::evaluate::EvalOptions;
use tealight::app::study::StudyOptions;
use tealight::app::training::TrainOptions;
use tealight::app::{evaluate, study, training};
use tealight::nn::model::weights;
use tealight::system::process::Process;
use tealight::system::stop::{Interrupted, Stop};
use tealight_core::ranks::threads;

use crate::support;
use crate::support::binary::{Folder, stderr_of, tealight_in};
use crate::support::metrics::rows;
use crate::support::vllm::Vllm;

/// Options as the command line has them.
pub(crate) fn options<T: Args + FromArgMatches>(line: &str) -> T {
    let command = T::augment_args(Command::new("test").no_binary_name(true));
    let matches = command.try_get_matches_from(line.split_whitespace()).expect("options");
    T::from_arg_matches(&matches).expect("options")
}

/// Does the same on so many ranks.
fn on_ranks(size: usize, work: impl Fn(&Process) + Sync) {
    let work = &work;
    std::thread::scope(|scope| {
        for ranks in threads(size) {
            let process = Process { stop: Stop::default(), ranks };
            let thread = std::thread::Builder::new().stack_size(64 << 20);
            thread.spawn_scoped(scope, move || work(&process)).expect("a thread");
        }
    });
}

const SMALL: &str = "--max-samples 12 --prompts-per-step 6 --num-generations 4 --max-completion-length 16 \
                     --learning-rate 1e-3 --save-steps 2 --seed 3";
const REHEARSED: &str = "--num-presamples 4";
/// The most that Adam may make of gradients that are rounded otherwise: a small part of its steps.
const ROUNDED: f64 = 5e-5;

/// Trains on so many ranks; `more` ends with what differs between runs.
fn train(output: &Path, size: usize, more: &str, start: Start) {
    let line = format!("{SMALL} {more}");
    let output = RunDirectory { path: output.to_owned(), start };
    on_ranks(size, |process| {
        let settings: TrainOptions = options(&line);
        training::run(&settings, &output, process, None).expect("a run");
    });
}

/// Trains in this process alone, with options as the command line has them.
pub(crate) fn train_alone(output: &Path, line: &str) {
    let settings: TrainOptions = options(line);
    training::run(&settings, &RunDirectory::new(output), &Process::alone(), None).expect("a run");
}

fn bytes(file: &Path) -> Vec<u8> {
    std::fs::read(file).unwrap_or_else(|_| panic!("{}", file.display()))
}

/// Largest difference of two runs' weights.
pub(crate) fn apart(one: &Path, other: &Path, file: &str) -> f64 {
    let read = |run: &Path| {
        weights::read_all(&run.join("final").join(file), &Device::Cpu).expect("weights")
    };
    let mut most = 0f64;
    for ((name, a), (same, b)) in read(one).into_iter().zip(read(other)) {
        assert_eq!(name, same);
        most = most.max(support::apart(&a, &b));
    }
    most
}

/// Two runs logged the same: counts and rewards exactly, other numbers to rounding.
pub(crate) fn assert_same_course(one: &Path, other: &Path, but: &[&str]) {
    let (one, other) = (rows(one), rows(other));
    assert_eq!(one.len(), other.len());
    for (a, b) in one.iter().zip(&other) {
        for (name, a) in a.as_object().expect("a row") {
            let b = &b[name];
            if but.contains(&name.as_str()) {
                continue;
            }
            let exact = ["reward", "step", "num_", "completions/", "frac_"];
            let is_exact = exact.iter().any(|exact| name.starts_with(exact));
            match (a.as_f64(), b.as_f64()) {
                (Some(a), Some(b)) if !is_exact => {
                    assert!((a - b).abs() <= 2e-4 * a.abs().max(0.01), "{name}: {a} and {b}");
                }
                _ => assert_eq!(a, b, "{name}"),
            }
        }
    }
}

#[test]
fn training_on_ranks_is_that_of_one_process_to_rounding() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = "model.safetensors";
    let held_out =
        "--eval-steps 2 --eval-dataset countdown/valid --eval-max-samples 5 --eval-num-samples 4";
    let function = folder.path().join("own.py");
    std::fs::write(&function, "def own(r, n):\n    return [v - sum(r) / n for v in r]\n")
        .expect("a function");
    let own = format!("python:timeout=60:{}:own", function.display());
    for (number, (more, file)) in [
        (format!("--objective grpo:advantage={own} --max-steps 2"), whole),
        (format!("--objective forward-kl --max-steps 4 {REHEARSED} {held_out}"), whole),
        (
            "--objective kl-full:0.1 --max-steps 3 --use-peft --lora-r 4".into(),
            "adapter_model.safetensors",
        ),
        ("--objective entropy-bonus --max-steps 2 --micro-batch-tokens 64".into(), whole),
        ("--objective dapo --max-steps 2".into(), whole),
        ("--objective rft --max-steps 2 --num-presamples 4".into(), whole),
    ]
    .into_iter()
    .enumerate()
    {
        let path = |size: usize| folder.path().join(format!("{number}-{size}"));
        // More ranks divide the prompts of the last two as they do those of the others.
        let sizes = if number < 4 { &[1, 2, 4][..] } else { &[1, 2] };
        for size in sizes.iter().copied() {
            train(&path(size), size, &more, Start::New);
        }
        for size in sizes[1..].iter().copied() {
            let difference = apart(&path(1), &path(size), file);
            assert!(difference < ROUNDED, "{more}, {size} ranks: {difference:e}");
            assert_same_course(&path(1), &path(size), &[]);
        }
        if more.contains(held_out) {
            assert_eq!(bytes(&path(1).join("evals.jsonl")), bytes(&path(4).join("evals.jsonl")));
        }
        // The same bits in every run of as many ranks.
        train(&folder.path().join("again"), 2, &more, Start::Replace);
        let last = |run: &Path| bytes(&run.join("final").join(file));
        assert!(last(&path(2)) == last(&folder.path().join("again")), "{more}");
        std::fs::remove_dir_all(folder.path().join("again")).expect("removed");
    }
}

#[test]
fn a_checkpoint_resumes_on_any_number_of_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, moved) = (folder.path().join("whole"), folder.path().join("moved"));
    train(&whole, 1, "--objective grpo --max-steps 6", Start::New);
    train(&moved, 2, "--objective grpo --max-steps 2", Start::New);
    train(&moved, 3, "--objective grpo --max-steps 4", Start::Resume(String::new()));
    train(&moved, 1, "--objective grpo --max-steps 6", Start::Resume(String::new()));
    assert!(apart(&whole, &moved, "model.safetensors") < ROUNDED);
    assert_same_course(&whole, &moved, &[]);
}

#[test]
fn a_stop_of_the_first_rank_saves_and_ends_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunDirectory::new(folder.path().join("run"));
    on_ranks(2, |process| {
        if process.ranks.is_first() {
            process.stop.cell().store(143, Ordering::SeqCst);
        }
        let settings: TrainOptions = options(&format!("{SMALL} --objective grpo --max-steps 9"));
        let error = training::run(&settings, &run, process, None).expect_err("it was stopped");
        assert_eq!(error.downcast::<Interrupted>().expect("a stop").0, 143);
    });
    assert!(run.path.join("latest").exists() && rows(&run.path).len() < 3);
}

/// Results but for what the clock and the folder's name say.
fn results(folder: &Path) -> Value {
    let mut found: Value = serde_json::from_slice(&bytes(&folder.join("results.json"))).unwrap();
    found["seconds"] = 0.into();
    found["config"] = Value::Null;
    for run in found["training"].as_array_mut().into_iter().flatten() {
        run["seconds"] = 0.into();
    }
    found
}

#[test]
fn evaluations_of_ranks_are_those_of_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str, size: usize| folder.path().join(format!("{name}-{size}"));
    for size in [1, 3] {
        let output = path("eval", size).display().to_string();
        let eval = |more: &str| {
            let line = format!(
                "--model tasks --dataset paths/test,countdown/test --max-samples 10 --output {output} {more}"
            );
            on_ranks(size, |process| {
                let settings: EvalOptions = options(&line);
                evaluate::run(&settings, Existing::Keep, process).expect("an evaluation");
            });
        };
        // Continued with more samples: what is known is not drawn again.
        eval("-n 3 -k 1,3");
        eval("-n 6 -k 1,4");
    }
    assert_eq!(results(&path("eval", 1)), results(&path("eval", 3)));
    let samples = "samples/countdown-test.jsonl";
    assert!(bytes(&path("eval", 1).join(samples)) == bytes(&path("eval", 3).join(samples)));
}

#[test]
fn study_runs_are_divided_among_ranks_and_reported_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |size: usize| folder.path().join(format!("study-{size}"));
    for size in [1, 3] {
        let line = format!(
            "--objectives grpo@{{lr=1e-5,1e-4}},forward-kl --seeds 0,1 --max-steps 3 --prompts-per-step 4 --num-generations 4 \
             --max-samples 12 --max-test-samples 6 -n 4 -k 1,4 --num-presamples 2 --tuning-pass-at-1 0.1 \
             --eval-steps 2 --eval-dataset countdown/valid --eval-max-samples 6 --average-share 0.5 \
             --base-temperature 0.5 --output {}",
            path(size).display()
        );
        on_ranks(size, |process| {
            let settings: StudyOptions = options(&line);
            let done = study::run(&settings, &Start::New, process).expect("a study");
            assert_eq!(done.is_some(), process.ranks.is_first());
        });
    }
    assert_eq!(results(&path(1)), results(&path(3)));
    assert!(path(3).join("report.html").exists());
}

#[test]
fn first_rank_samples_from_servers_and_their_failure_ends_all() {
    let folder = tempfile::tempdir().expect("a folder");
    for (ahead, requests) in [(0, usize::MAX), (1, usize::MAX), (1, 20)] {
        let (server, engine) = Vllm::start(false);
        server.lasts.store(requests, Ordering::SeqCst);
        let output = folder.path().join(format!("run-{ahead}-{requests}"));
        let line = format!(
            "--objective grpo --max-steps 8 --prompts-per-step 4 --num-generations 4 --max-samples 12 \
             --learning-rate 1e-3 --max-completion-length 16 --report-to none --use-peft --lora-r 8 \
             --engine {engine} --engine-kwargs retries=0 --max-staleness {ahead}"
        );
        let run = RunDirectory::new(&output);
        on_ranks(2, |process| {
            let settings: TrainOptions = options(&line);
            let ended = training::run(&settings, &run, process, None);
            let ended = ended.map_err(|error| error.to_string());
            match requests {
                usize::MAX => assert_eq!(ended.expect("a run").global_step, 8),
                _ => assert!(ended.expect_err("no server").contains("--resume goes on from here")),
            }
        });
        assert_eq!(requests == usize::MAX, server.is_clean());
        let found = rows(&output);
        assert_eq!(found.len() == 8, requests == usize::MAX);
        for row in found.iter().filter(|_| ahead == 0) {
            let apart = row["sampling/engine_logp_difference/max"].as_f64().expect("a number");
            assert!(apart < 1e-4, "{row}");
        }
        assert!(output.join("latest").exists());
    }
}

#[test]
#[cfg(not(feature = "mpi"))]
fn ranks_of_a_launcher_are_refused_without_mpi() {
    let folder = Folder::new();
    let output = folder.path("run");
    let launchers = [
        &[("WORLD_SIZE", "2"), ("RANK", "0")][..],
        &[("OMPI_COMM_WORLD_SIZE", "4"), ("OMPI_COMM_WORLD_RANK", "1")],
        &[("PMI_SIZE", "2")],
        &[("PMIX_RANK", "0"), ("SLURM_STEP_NUM_TASKS", "8")],
    ];
    for variables in launchers {
        for (name, why) in [("train", "built without the feature mpi"), ("sft", "runs in one")] {
            let line = format!("{name} --output {output}");
            let error = stderr_of(&tealight_in(folder.0.path(), variables, &line));
            assert!(error.contains(why) && error.lines().count() == 1, "{variables:?}: {error}");
            assert!(!Path::new(&output).exists(), "{variables:?}");
        }
    }
}
