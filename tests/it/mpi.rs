//! Processes that `mpirun` starts: that they agree, that one which dies ends all, that a stop saves.
//!
//! Needs an Open MPI and a binary with the feature: `cargo build --release --features mpi`, then
//! `TEALIGHT_MPI=target/release/tealight cargo test --test it mpi:: -- --ignored`.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::binary::Folder;
use crate::support::processes::{children, is_there, rewards, signal, started, weights};

/// A command under `mpirun`.
fn mpirun(ranks: usize, arguments: &[&str]) -> Command {
    mpirun_with(&[], ranks, arguments)
}

/// The same, with settings of `mpirun`.
fn mpirun_with(settings: &[&str], ranks: usize, arguments: &[&str]) -> Command {
    let tealight = std::env::var_os("TEALIGHT_MPI")
        .expect("TEALIGHT_MPI names a binary with the feature `mpi`");
    let tealight = std::path::absolute(tealight).expect("a path");
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe"]).args(settings);
    command.args(["-np", &ranks.to_string()]).arg(tealight).args(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const TRAIN: &str = "train --objective grpo --prompts-per-step 6 --num-generations 4 --max-samples 24 \
                     --max-completion-length 16 --save-steps 0";

fn train<'a>(output: &'a str, steps: &'a str) -> Vec<&'a str> {
    TRAIN.split_whitespace().chain(["--output", output, "--max-steps", steps]).collect()
}

fn ok(command: Command) -> String {
    let mut command = command;
    let done = command.output().expect("mpirun");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{stderr}");
    stderr
}

/// The messages of a run that has ended, within a minute.
fn ended(mut child: Child) -> (bool, String) {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("known") {
            let mut stderr = String::new();
            child.stderr.take().expect("piped").read_to_string(&mut stderr).expect("text");
            return (status.success(), stderr);
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it goes on");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
#[ignore = "needs mpirun and TEALIGHT_MPI"]
fn processes_agree_with_one_and_with_themselves() {
    let folder = Folder::new();
    let run = |ranks: usize, name: &str| {
        let output = folder.path(name);
        (ok(mpirun(ranks, &train(&output, "4"))), output)
    };
    let (_, one) = run(1, "one");
    let (stderr, two) = run(2, "two");
    assert_eq!(stderr.matches("2 ranks, 2 on this machine").count(), 1, "{stderr}");
    let (_, again) = run(2, "again");
    let (_, four) = run(4, "four");
    assert!(weights(&two) == weights(&again), "other bits in another run");
    assert_eq!(rewards(&one), rewards(&two));
    assert_eq!(rewards(&one), rewards(&four));
}

#[test]
#[ignore = "needs mpirun and TEALIGHT_MPI"]
fn a_rank_that_dies_ends_all_and_a_stop_saves() {
    let folder = Folder::new();
    let cases = [("-KILL", Some(1)), ("-KILL", Some(0)), ("-TERM", None), ("-USR1", None)];
    for (number, (name, rank)) in cases.into_iter().enumerate() {
        let output = folder.path(&number.to_string());
        // How long it waits after SIGTERM before it kills, which it does although all may have ended.
        let patience = ["--mca", "odls_base_sigkill_timeout", "5"];
        let run = train(&output, "100000");
        let child = started(mpirun_with(&patience, 2, &run), Path::new(&output));
        let ranks = children(child.id());
        assert_eq!(ranks.len(), 2);
        signal(name, rank.map_or(child.id(), |rank| ranks[rank]));
        let (is_fine, stderr) = ended(child);
        assert!(!is_fine, "{stderr}");
        assert_eq!(Path::new(&output).join("latest").exists(), rank.is_none(), "{stderr}");
        assert!(!ranks.into_iter().any(is_there), "a rank lives on");
    }
}

#[test]
#[ignore = "needs mpirun and TEALIGHT_MPI"]
fn an_error_on_all_ranks_is_reported_once() {
    for (arguments, words) in [
        (&["train", "--output", "/dev/null/x"][..], "/dev/null/x"),
        (&["sft", "--output", "x"], "`sft` runs in one: start it without a launcher"),
        (&["grade", "f.jsonl"], "`grade` runs in one: start it without a launcher"),
    ] {
        let done = mpirun(2, arguments).output().expect("mpirun");
        let stderr = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success());
        assert_eq!(stderr.matches("error: ").count(), 1, "{stderr}");
        assert!(stderr.contains(words), "{stderr}");
    }
}
