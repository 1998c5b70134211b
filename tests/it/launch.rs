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
    launch_with(ranks, &[output, "--max-steps", steps, "--save-steps", "0"])
}

/// The same with further options after the output.
fn launch_with(ranks: &str, options: &[&str]) -> Command {
    let mut command = Command::new(cargo_bin("tealight"));
    command.args(["launch", "-n", ranks]).args(TRAIN.split_whitespace()).args(options);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The messages of a launch that must succeed.
fn ok(ranks: &str, output: &str) -> String {
    said(launch(ranks, output, "4"))
}

/// The messages of a command that must succeed.
fn said(mut command: Command) -> String {
    let done = command.output().expect("runs");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{said}");
    said
}

#[test]
fn launched_processes_agree_with_one_and_with_themselves() {
    let folder = Folder::new();
    let [one, two, again, three] = ["one", "two", "again", "three"].map(|name| folder.path(name));
    ok("1", &one);
    let said = ok("2", &two);
    assert_eq!(said.matches("2 ranks, 2 on this machine").count(), 1, "{said}");
    ok("2", &again);
    ok("3", &three);
    assert!(weights(&two) == weights(&again), "other bits in another run");
    assert_eq!(rewards(&one), rewards(&two));
    assert_eq!(rewards(&one), rewards(&three));
}

#[test]
fn launched_processes_shard_the_optimizer_and_plan_for_it() {
    let folder = Folder::new();
    let [whole, sharded] = ["whole", "sharded"].map(|name| folder.path(name));
    let steps = ["--max-steps", "3", "--save-steps", "3"];
    let run = |output: &str, stage: &str| {
        said(launch_with("2", &[&[output, "--zero-stage", stage][..], &steps[..]].concat()))
    };
    let messages = [run(&whole, "0"), run(&sharded, "1")];
    let counts = messages.map(|said| said.matches("optimizer state sharded over 2 ranks").count());
    assert_eq!(counts, [0, 1]);
    assert!(weights(&whole) == weights(&sharded));
    let moments = |output: &str| {
        let file = Path::new(output).join("checkpoint-3/optimizer.safetensors");
        std::fs::read(file).expect("moments")
    };
    assert!(moments(&whole) == moments(&sharded));

    let planned = |ranks: &str, stage: &str| {
        let dry = ["unused", "--dry-run", "--zero-stage", stage];
        let done = launch_with(ranks, &dry).output().expect("runs");
        let text = String::from_utf8_lossy(&done.stdout).into_owned();
        let mut lines = text.lines().filter(|line| line.contains("moments of the optimizer  "));
        let line = lines.next().unwrap_or_else(|| panic!("no moments in {text}"));
        assert_eq!(lines.count(), 0, "one rank prints");
        let number = line.split_whitespace().rev().nth(1).expect("megabytes");
        let megabytes: f64 = number.parse().expect("a number");
        (megabytes, text)
    };
    let (all, half, third) = (planned("2", "0"), planned("2", "1"), planned("3", "1"));
    assert!((all.0 / 2.0 - half.0).abs() < 0.11 && (all.0 / 3.0 - third.0).abs() < 0.11);
    assert!(half.1.contains("2 ranks") && !all.1.contains("2 ranks"), "{}", half.1);
    assert!(planned("1", "1").1.contains("--zero-stage 1 has no effect on one rank"));
    let refused = refusal(&["train", "--zero-stage", "2", "--output", &folder.path("no")]);
    assert!(refused.contains("zero-stage must be at least 0 and at most 1, not 2"), "{refused}");
}

#[test]
fn what_one_process_does_is_not_launched() {
    assert!(refusal(&["launch", "-n", "2", "doctor"]).contains("`doctor` is not one of"));
    let done = tealight(&["launch", "--nnodes", "2", "train"]);
    assert!(!done.status.success(), "several machines are for MPI");
    let done = tealight(&["launch", "-n", "2", "train", "--max-stepz", "2"]);
    assert!(!done.status.success(), "the command's own options are checked first");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(said.matches("--max-stepz").count(), 1, "{said}");
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
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(begun.elapsed() < Duration::from_secs(60), "{said}");
        assert_eq!(done.status.code(), Some(code), "{name}: {said}");
        assert!(!ranks.into_iter().any(is_there), "one goes on");
        assert_eq!(Path::new(&output).join("latest").exists(), name == "-TERM", "{said}");
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
