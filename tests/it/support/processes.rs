//! Runs in several processes: started, watched, signalled, and read afterwards.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::binary::Words;
use super::metrics::rows;

/// The binary as a process that can be watched and signalled.
pub(crate) fn binary(arguments: &(impl Words + ?Sized)) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("tealight"));
    command.args(arguments.words()).env("XDG_STATE_HOME", "/dev/null").env("RUST_BACKTRACE", "0");
    command
}

/// The same, silent and started.
pub(crate) fn spawned(arguments: &(impl Words + ?Sized)) -> Child {
    let mut command = binary(arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts")
}

/// Starts a run that would take long, and returns once it has done some steps.
pub(crate) fn started(mut command: Command, output: &Path) -> Child {
    let child = command.spawn().expect("starts");
    wait_for_steps(output, 3);
    child
}

/// Waits until a run has written the rows of so many steps.
pub(crate) fn wait_for_steps(output: &Path, count: usize) {
    let (metrics, begun) = (output.join("metrics.jsonl"), Instant::now());
    while std::fs::read_to_string(&metrics).map_or(0, |text| text.lines().count()) < count {
        assert!(begun.elapsed() < Duration::from_secs(60), "no step was done");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Processes below `parent`, of whichever of its threads, in the order they were started in.
pub(crate) fn children(parent: u32) -> Vec<u32> {
    let mut children = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{parent}/task")).expect("Linux") {
        let path = task.expect("a thread").path().join("children");
        let text = std::fs::read_to_string(path).unwrap_or_default();
        children.extend(text.split_whitespace().map(|id| id.parse::<u32>().expect("a number")));
    }
    children.sort_unstable();
    children
}

/// Sends a signal, such as `-TERM`.
pub(crate) fn signal(name: &str, process: u32) {
    let done = Command::new("kill").args([name, &process.to_string()]).status();
    assert!(done.expect("kill").success());
}

/// Whether a process runs.
pub(crate) fn is_there(process: u32) -> bool {
    Path::new(&format!("/proc/{process}/exe")).read_link().is_ok()
}

/// The mean reward of every step.
pub(crate) fn rewards(output: &str) -> Vec<f64> {
    let reward = |row: &serde_json::Value| row["reward"].as_f64().expect("a number");
    rows(Path::new(output)).iter().map(reward).collect()
}

/// The trained weights.
pub(crate) fn weights(output: &str) -> Vec<u8> {
    std::fs::read(Path::new(output).join("final/model.safetensors")).expect("weights")
}
