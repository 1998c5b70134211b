//! Failures of a training run: each is reported once, with the fix, and the run keeps its state.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::binary::{Folder, command, ok, refused, stderr_of, stdout_of, tealight};
use crate::support::metrics::rows;
use crate::support::processes::{binary, signal, spawned, wait_for_steps};
use crate::support::runs::{SMALL, json, trained};

#[cfg(unix)]
#[test]
fn a_run_whose_folder_is_deleted_fails_and_says_what_is_lost() {
    let folder = Folder::new();
    let output = folder.path("run");
    let run = format!("train --output {output} --max-steps 100000 --save-steps 0 {SMALL}");
    let child = binary(&run).stderr(Stdio::piped()).spawn().expect("starts");
    wait_for_steps(Path::new(&output), 1);
    std::fs::rename(&output, folder.path("elsewhere")).expect("moved");
    let done = child.wait_with_output().expect("ends");
    let stderr = stderr_of(&done);
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("was deleted"), "{stderr}");
    assert!(!stderr.contains("--resume"), "{stderr}");
}

#[test]
fn a_dry_run_says_what_does_not_fit_and_a_run_how_many_prompts_there_are() {
    let large = "train --dry-run --num-generations 65536 --prompts-per-step 4096 --max-completion-length 40 \
                 --max-num-seqs 60000000";
    let shown = stdout_of(&tealight(large));
    assert!(shown.contains("it does not fit: "), "{shown}");
    let folder = Folder::new();
    let few = "--max-samples 6 --prompts-per-step 8 --max-steps 1 --num-generations 2";
    let output = folder.path("run");
    let stderr =
        ok(command!("train {few} --max-completion-length 8 --device cpu --output {output}"));
    assert!(stderr.contains("training: 1 step of 6 prompts x 2 completions"), "{stderr}");
}

#[cfg(unix)]
#[test]
fn a_directory_has_one_run_at_a_time_and_a_second_signal_ends_it_at_once() {
    let folder = Folder::new();
    let output = folder.path("run");
    let run = format!("train --output {output} --max-steps 100000 --save-steps 0 {SMALL}");
    let mut child = spawned(&run);
    wait_for_steps(Path::new(&output), 1);
    let owner = format!("another run is writing here (process {})", child.id());
    refused!("train --output {output} --resume {SMALL}" => owner);
    // Stopped, it cannot end its step between the two.
    ["-STOP", "-INT", "-TERM", "-CONT"].iter().for_each(|name| signal(name, child.id()));
    let code = child.wait().expect("ends").code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    let left = std::fs::read_dir(&output).expect("a directory").flatten();
    let is_whole = |name: &str| !name.starts_with("checkpoint-");
    assert!(left.into_iter().all(|entry| is_whole(&entry.file_name().to_string_lossy())));
}

#[cfg(unix)]
#[test]
fn a_second_signal_within_a_step_says_what_is_lost() {
    let folder = Folder::new();
    let output = folder.path("run");
    // A step of many seconds.
    let long =
        "--prompts-per-step 96 --num-generations 4096 --max-completion-length 40 --device cpu";
    let mut command = binary(&format!("train --output {output} --max-steps 2 {long}"));
    let mut child = command.stderr(Stdio::piped()).spawn().expect("starts");
    let id = child.id();
    let (mut seen, mut lines) =
        (String::new(), BufReader::new(child.stderr.take().expect("piped")).lines());
    for (word, name) in [("training: ", "-INT"), ("stopping after the current step", "-TERM")] {
        let line = lines.by_ref().map(|line| line.expect("text")).inspect(|line| seen += line);
        assert!(line.into_iter().any(|line| line.contains(word)), "{seen}");
        signal(name, id);
    }
    seen.extend(lines.map(|line| line.expect("text")));
    assert!(seen.contains("stopped at once; lost: "), "{seen}");
    assert_eq!(child.wait().expect("ends").code(), Some(143));
}

#[cfg(unix)]
#[test]
fn an_evaluation_that_keeps_nothing_leaves_nothing_when_it_is_interrupted() {
    let folder = Folder::new();
    for signals in [1, 2] {
        let temporary = folder.path(&format!("temporary-{signals}"));
        std::fs::create_dir(&temporary).expect("made");
        let mut child = binary("eval -n 512 --max-completion-length 20 --device cpu")
            .env("TMPDIR", &temporary)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("starts");
        let has_samples = || {
            let entries = std::fs::read_dir(&temporary).expect("a directory").flatten();
            let mut samples = entries
                .filter_map(|entry| std::fs::read_dir(entry.path().join("samples")).ok())
                .flatten()
                .flatten();
            samples.any(|file| file.metadata().is_ok_and(|file| file.len() > 0))
        };
        let begun = std::time::Instant::now();
        while !has_samples() {
            assert!(begun.elapsed() < Duration::from_secs(60), "no problem was sampled");
            std::thread::sleep(Duration::from_millis(5));
        }
        signal("-INT", child.id());
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let is_answer =
            |line: std::io::Result<String>| line.expect("text").contains("again to stop");
        assert!(lines.any(is_answer), "the first signal is answered");
        if signals == 2 {
            // The run may have ended between the two.
            let _ = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
        }
        lines.for_each(drop);
        assert_eq!(child.wait().expect("ends").code(), Some(130));
        let left: Vec<_> = std::fs::read_dir(&temporary).expect("a directory").flatten().collect();
        assert!(left.is_empty(), "{signals} signals leave {left:?}");
    }
}

#[test]
fn gradients_that_are_not_finite_are_left_out_counted_and_end_the_run_whole() {
    let folder = Folder::new();
    let output = folder.path("run");
    let small = SMALL.replace("3e-4", "1e30") + " --max-steps 50";
    refused!(
        "train --output {output} {small} --objective rft --num-presamples 4 --max-samples 32"
        => "not finite 5 times in a row; lower --learning-rate"
    );
    refused!("train --output {} {small}", folder.path("overflowed") => "logits are not finite");
    let rows = rows(Path::new(&output));
    let last = rows.last().expect("a row");
    assert!(last["skipped_steps"].as_u64() >= Some(5), "{last}");
    let state = Path::new(&output).join(format!("checkpoint-{}", last["step"]));
    assert_eq!(json(state.join("trainer_state.json"))["skipped_steps"], last["skipped_steps"]);
}

#[test]
fn truncated_completions_are_warned_of() {
    let folder = Folder::new();
    let (output, cut) = (folder.path("run"), SMALL.replace("20 ", "3 "));
    let stderr = ok(command!("train {cut} --output {output} --max-samples 8 --max-steps 2"));
    assert!(stderr.contains("warning: step 1: 100 % of completions were truncated"), "{stderr}");
}

#[test]
fn every_step_is_logged_for_machines_dashboards_and_people() {
    let folder = Folder::new();
    let output = folder.path("run");
    trained(&output, "--max-samples 8 --max-steps 2 --log-completions 1");
    assert_eq!(rows(Path::new(&output)).pop().expect("a row")["step"], 2);
    let events = std::fs::read_dir(Path::new(&output).join("tensorboard")).expect("events");
    assert_eq!(events.count(), 1);
    let file = Path::new(&output).join("completions/completions_00002.parquet");
    let completions = tealight_datasets::read::table(&file).expect("completions");
    assert_eq!(completions.len(), 4 * 8);
    for column in ["step", "prompt", "completion", "reward", "advantage", "verdict"] {
        assert!(!completions[0][column].is_null(), "{completions:?}");
    }
}
