//! Processes that `tealight launch` starts: that they agree, that one which dies ends all, that a stop saves.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use assert_cmd::cargo::cargo_bin;

use crate::support::binary::{Folder, refusal, tealight};
use crate::support::metrics::rows;

const TRAIN: &str = "train --objective grpo --prompts-per-step 6 --num-generations 4 --max-samples 24 \
                     --max-completion-length 16 --save-steps 0 --output";

fn launch(ranks: &str, output: &str, steps: &str) -> Command {
    let mut command = Command::new(cargo_bin("tealight"));
    command.args(["launch", "-n", ranks]).args(TRAIN.split_whitespace());
    command.args([output, "--max-steps", steps]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// What a launch said that must succeed.
fn ok(ranks: &str, output: &str) -> String {
    let done = launch(ranks, output, "4").output().expect("runs");
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
    let weights =
        |run: &str| std::fs::read(Path::new(run).join("final/model.safetensors")).unwrap();
    assert!(weights(&two) == weights(&again), "other bits in another run");
    let rewards = |run: &str| -> Vec<f64> {
        rows(Path::new(run)).iter().map(|row| row["reward"].as_f64().expect("a number")).collect()
    };
    assert_eq!(rewards(&one), rewards(&two));
    assert_eq!(rewards(&one), rewards(&three));
}

#[test]
fn several_nodes_join_by_their_key() {
    let folder = Folder::new();
    let output = folder.path("run");
    let port = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address").port().to_string()
    };
    let node = |rank: &str| {
        let mut command = Command::new(cargo_bin("tealight"));
        command.args(["launch", "-n", "1", "--nnodes", "2", "--node-rank", rank]);
        command.args(["--master-port", &port]).args(TRAIN.split_whitespace());
        command.args([output.as_str(), "--max-steps", "2"]);
        command.env("TEALIGHT_LAUNCH_KEY", "one secret of both nodes");
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("starts")
    };
    let nodes = [node("1"), node("0")];
    for done in nodes.map(|node| node.wait_with_output().expect("ends")) {
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    assert_eq!(rows(Path::new(&output)).len(), 2);
}

#[test]
fn what_one_process_does_is_not_launched() {
    assert!(refusal(&["launch", "-n", "2", "doctor"]).contains("`doctor` is not one of"));
    assert!(refusal(&["launch", "--nnodes", "2", "train"]).contains("TEALIGHT_LAUNCH_KEY"));
    let done = tealight(&["launch", "-n", "2", "train", "--max-stepz", "2"]);
    assert!(!done.status.success(), "the command's own options are checked first");
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!(said.matches("--max-stepz").count(), 1, "{said}");
}

/// Starts a run that would take long, and returns once it has done some steps.
fn started(output: &str) -> Child {
    let child = launch("2", output, "100000").spawn().expect("starts");
    let metrics = Path::new(output).join("metrics.jsonl");
    let begun = Instant::now();
    while std::fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < 2 {
        assert!(begun.elapsed() < Duration::from_secs(120), "no step was done");
        std::thread::sleep(Duration::from_millis(20));
    }
    child
}

/// Processes below `parent`, in the order they were started in.
#[cfg(target_os = "linux")]
fn children(parent: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{parent}/task")).expect("threads") {
        let path = task.expect("a thread").path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        found.extend(text.split_whitespace().map(|id| id.parse::<u32>().expect("a number")));
    }
    found.sort_unstable();
    found
}

#[cfg(target_os = "linux")]
#[test]
fn a_rank_that_dies_ends_all_and_a_stop_saves() {
    let folder = Folder::new();
    let cases = [("-KILL", Some(1), 1), ("-KILL", Some(0), 1), ("-TERM", None, 143)];
    for (number, (name, rank, code)) in cases.into_iter().enumerate() {
        let output = folder.path(&number.to_string());
        let child = started(&output);
        let ranks = children(child.id());
        assert_eq!(ranks.len(), 2);
        let process = rank.map_or(child.id(), |rank: usize| ranks[rank]);
        let done = Command::new("kill").args([name, &process.to_string()]).status();
        assert!(done.expect("kill").success());
        let begun = Instant::now();
        let done = child.wait_with_output().expect("ends");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(begun.elapsed() < Duration::from_secs(60), "{said}");
        assert_eq!(done.status.code(), Some(code), "{name}: {said}");
        assert!(
            ranks.iter().all(|rank| !Path::new(&format!("/proc/{rank}")).exists()),
            "one goes on"
        );
        assert_eq!(Path::new(&output).join("latest").exists(), name == "-TERM", "{said}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ranks_end_with_their_launcher() {
    let folder = Folder::new();
    let output = folder.path("run");
    let mut child = started(&output);
    let ranks = children(child.id());
    child.kill().expect("killed");
    child.wait().expect("ends");
    let begun = Instant::now();
    while ranks.iter().any(|rank| Path::new(&format!("/proc/{rank}/exe")).exists()) {
        assert!(begun.elapsed() < Duration::from_secs(30), "they go on");
        std::thread::sleep(Duration::from_millis(20));
    }
}
