//! Processes that `tealight launch` starts: that they agree, that one which dies ends all, that a stop saves.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;

use crate::support::binary::{Folder, refusal, tealight};
use crate::support::processes::{children, is_there, rewards, signal, started, weights};

const TRAIN: &str = "train --objective grpo --prompts-per-step 6 --num-generations 4 --max-samples 24 \
                     --max-completion-length 16 --output";

fn launch(ranks: &str, output: &str, steps: &str) -> Command {
    let mut command = Command::new(cargo_bin("tealight"));
    command.args(["launch", "-n", ranks]).args(TRAIN.split_whitespace());
    command.args([output, "--max-steps", steps, "--save-steps", "0"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The messages of a launch that must succeed.
fn ok(ranks: &str, output: &str) -> String {
    let done = launch(ranks, output, "4").output().expect("runs");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{stderr}");
    stderr
}

#[test]
fn launched_processes_agree_with_one_and_with_themselves() {
    let folder = Folder::new();
    let [one, two, again, three] = ["one", "two", "again", "three"].map(|name| folder.path(name));
    ok("1", &one);
    let stderr = ok("2", &two);
    assert_eq!(stderr.matches("2 ranks, 2 on this machine").count(), 1, "{stderr}");
    ok("2", &again);
    ok("3", &three);
    assert!(weights(&two) == weights(&again), "other bits in another run");
    assert_eq!(rewards(&one), rewards(&two));
    assert_eq!(rewards(&one), rewards(&three));
}

#[test]
fn single_process_commands_are_not_launched() {
    assert!(refusal(&["launch", "-n", "2", "doctor"]).contains("`doctor` is not one of"));
    let done = tealight(&["launch", "--nnodes", "2", "train"]);
    assert!(!done.status.success(), "several machines are for MPI");
    let done = tealight(&["launch", "-n", "2", "train", "--max-stepz", "2"]);
    assert!(!done.status.success(), "the command's own options are checked first");
    let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(stderr.matches("--max-stepz").count(), 1, "{stderr}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_that_dies_ends_all_and_a_stop_saves() {
    let folder = Folder::new();
    let cases = [("-KILL", Some(1), 1), ("-KILL", Some(0), 1), ("-TERM", None, 143)];
    for (number, (name, rank, code)) in cases.into_iter().enumerate() {
        let output = folder.path(&number.to_string());
        let child = started(launch("2", &output, "100000"), Path::new(&output));
        let ranks = children(child.id());
        assert_eq!(ranks.len(), 2);
        let process = rank.map_or(child.id(), |rank: usize| ranks[rank]);
        signal(name, process);
        let begun = Instant::now();
        let done = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(begun.elapsed() < Duration::from_secs(60), "{stderr}");
        assert_eq!(done.status.code(), Some(code), "{name}: {stderr}");
        assert!(!ranks.into_iter().any(is_there), "one goes on");
        assert_eq!(Path::new(&output).join("latest").exists(), name == "-TERM", "{stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ranks_end_with_their_launcher() {
    let folder = Folder::new();
    let output = folder.path("run");
    let mut child = started(launch("2", &output, "100000"), Path::new(&output));
    let ranks = children(child.id());
    child.kill().expect("killed");
    child.wait().expect("ends");
    let begun = Instant::now();
    while ranks.iter().copied().any(is_there) {
        assert!(begun.elapsed() < Duration::from_secs(30), "they go on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
