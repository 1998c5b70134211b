//! Runs that are killed, cut short or disturbed: what was saved is whole, and what is resumed ends in the same
//! bits.

#[path = "support/binary.rs"]
mod binary;
#[path = "support/runs.rs"]
mod runs;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use binary::{Folder, refusal, tealight};
use runs::{SMALL, json, train};

const STEPS: &str = "6";

fn settings() -> Vec<&'static str> {
    let more = ["--objective", "dph-f:0.3", "--num-presamples", "4", "--max-samples", "8"];
    let all = ["--pef-threshold", "0.05", "--extra-check", "false", "--explore", "all"];
    let often = ["--save-steps", "1", "--save-total-limit", "2", "--max-steps", STEPS];
    [&SMALL[..], &more, &all, &often].concat()
}

fn weights(output: &Path) -> Vec<u8> {
    std::fs::read(output.join("final/model.safetensors")).expect("weights")
}

/// Rows of metrics without what the clock says.
fn rows(output: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(output.join("metrics.jsonl")).expect("metrics");
    let row = |line: &str| {
        let mut row: serde_json::Value = serde_json::from_str(line).expect("a row");
        row["step_time"] = 0.into();
        row
    };
    text.lines().map(row).collect()
}

fn whole(folder: &Folder) -> PathBuf {
    let output = folder.path("whole");
    let done = tealight(&[&["train", "--output", &output], &settings()[..]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    output.into()
}

/// A checkpoint that is being written, or was when its run was killed.
fn half_written(output: &Path) -> Option<std::ffi::OsString> {
    let entries = std::fs::read_dir(output).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.find(|name| name.to_string_lossy().starts_with(".checkpoint-"))
}

/// Returns when `child` writes a checkpoint, the `count`th that it is seen to, or has ended.
fn wait_for_writes(child: &mut std::process::Child, output: &Path, count: usize) {
    let before = half_written(output);
    let mut seen = before.clone();
    for _ in 0..count {
        loop {
            let now = half_written(output);
            if child.try_wait().expect("known").is_some() {
                return;
            }
            if now.is_some() && now != seen && now != before {
                seen = now;
                break;
            }
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

/// Kills runs with SIGKILL at random times, again and again, until one ends. `TEALIGHT_KILLS` asks for more
/// trials than the gate's.
#[cfg(unix)]
#[test]
fn a_run_that_is_killed_anywhere_ends_in_the_bits_of_an_undisturbed_one() {
    let folder = Folder::new();
    let started = std::time::Instant::now();
    let expected = whole(&folder);
    let length = started.elapsed();
    let trials: usize =
        std::env::var("TEALIGHT_KILLS").map_or(8, |count| count.parse().expect("a number"));
    let binary = assert_cmd::cargo::cargo_bin("tealight");
    let (mut kills, mut in_writes, mut runs, mut random) = (0, 0, 0, 0x2545_f491_4f6c_dd1d_u64);
    while kills < trials {
        runs += 1;
        let output = PathBuf::from(folder.path(&format!("run-{runs}")));
        loop {
            let mut child = Command::new(&binary)
                .args(["train", "--resume", "--output"])
                .arg(&output)
                .args(settings())
                .stderr(Stdio::null())
                .spawn()
                .expect("starts");
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let share = (random >> 11) as f64 / (1u64 << 53) as f64;
            // Every other one waits for a checkpoint to be written, to be killed in the middle of that.
            if kills % 2 == 0 {
                std::thread::sleep(length.mul_f64(share));
            } else {
                let skipped = (share * 5.0) as usize;
                wait_for_writes(&mut child, &output, 1 + skipped);
                std::thread::sleep(Duration::from_micros((share * 1e9) as u64 % 8000));
            }
            if child.try_wait().expect("known").is_some() || kills >= trials {
                assert!(child.wait().expect("ends").success());
                break;
            }
            child.kill().expect("killed");
            child.wait().expect("dead");
            kills += 1;
            in_writes += usize::from(half_written(&output).is_some());
        }
        assert_eq!(weights(&output), weights(&expected), "run {runs}");
        assert_eq!(rows(&output), rows(&expected), "run {runs}");
        assert_eq!(half_written(&output), None, "a half-written checkpoint stayed");
        std::fs::remove_dir_all(&output).expect("removed");
    }
    eprintln!("{kills} kills in {runs} runs, {in_writes} of them while a checkpoint was written");
}

#[test]
fn a_broken_checkpoint_is_refused_and_the_one_before_offered() {
    let folder = Folder::new();
    let output = whole(&folder);
    let resume = |more: &[&str]| {
        let arguments = [&["train", "--output", output.to_str().expect("text")], &settings()[..]];
        [&arguments.concat()[..], &["--resume"], more].concat().join(" ")
    };
    let refused = |more: &[&str]| {
        let line = resume(more);
        refusal(&line.split(' ').collect::<Vec<_>>())
    };
    // The last two, and the best.
    let best = json(output.join("checkpoint-6/trainer_state.json"))["best"][0].clone();
    for step in 1..=6_u64 {
        let is_kept = output.join(format!("checkpoint-{step}")).exists();
        assert_eq!(is_kept, step > 4 || best == step, "checkpoint-{step}, best {best}");
    }
    assert_eq!(std::fs::read_to_string(output.join("latest")).expect("read"), "checkpoint-6\n");
    let said = refused(&["checkpoint-77"]);
    assert!(said.contains("no checkpoint `checkpoint-77`; there are checkpoint-6"), "{said}");
    let said = refused(&["checkpoint-6", "--seed", "9", "--rehearsal-batch-size", "3"]);
    assert!(said.contains("rehearsal_batch_size was 64, is 3, seed was 0, is 9"), "{said}");
    let said = refused(&["checkpoint-6", "--dataset", "countdown/test"]);
    assert!(said.contains("dataset_checksum was"), "{said}");

    let moments = output.join("checkpoint-6/optimizer.safetensors");
    let mut bytes = std::fs::read(&moments).expect("moments");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&moments, &bytes).expect("written");
    let said = refused(&[]);
    assert!(said.contains("checksum differs"), "{said}");
    assert!(said.contains("checkpoint-5 is whole: --resume checkpoint-5"), "{said}");
    bytes.truncate(middle);
    std::fs::write(&moments, &bytes).expect("written");
    let said = refused(&[]);
    assert!(said.contains("bytes of the"), "{said}");
    std::fs::remove_file(&moments).expect("removed");
    assert!(refused(&[]).contains("missing"));

    let before = weights(&output);
    std::fs::remove_dir_all(output.join("final")).expect("removed");
    let done = tealight(&resume(&["checkpoint-5"]).split(' ').collect::<Vec<_>>());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(weights(&output), before);
}

#[cfg(unix)]
#[test]
fn a_directory_has_one_run_at_a_time_and_a_second_signal_ends_it_at_once() {
    let folder = Folder::new();
    let output = folder.path("run");
    let binary = assert_cmd::cargo::cargo_bin("tealight");
    let mut child = Command::new(&binary)
        .args(["train", "--output", &output, "--max-steps", "100000", "--save-steps", "0"])
        .args(SMALL)
        .stderr(Stdio::null())
        .spawn()
        .expect("starts");
    let metrics = Path::new(&output).join("metrics.jsonl");
    for _ in 0..600 {
        if std::fs::metadata(&metrics).is_ok_and(|file| file.len() > 0) {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let said = refusal(&[&["train", "--output", &output, "--resume"], &SMALL[..]].concat());
    let owner = format!("another run is writing here (process {})", child.id());
    assert!(said.contains(&owner), "{said}");
    let id = child.id().to_string();
    let signal = |name: &str| {
        assert!(Command::new("kill").args(["-s", name, &id]).status().expect("kill").success());
    };
    // Stopped, it cannot end its step between the two.
    signal("STOP");
    signal("INT");
    signal("TERM");
    signal("CONT");
    let code = child.wait().expect("ends").code();
    assert!(matches!(code, Some(130 | 143)), "{code:?}");
    let left = std::fs::read_dir(&output).expect("a directory").flatten();
    let is_whole = |name: &str| !name.starts_with("checkpoint-");
    assert!(left.into_iter().all(|entry| is_whole(&entry.file_name().to_string_lossy())));
}

#[test]
fn gradients_that_are_not_finite_are_left_out_counted_and_end_the_run_whole() {
    let folder = Folder::new();
    let output = folder.path("run");
    let more = [
        "--objective",
        "rft",
        "--num-presamples",
        "4",
        "--max-samples",
        "32",
        "--learning-rate",
        "1e30",
        "--max-steps",
        "50",
        "--max-skipped-steps",
        "2",
    ];
    let small: Vec<&str> =
        SMALL.iter().filter(|x| !["--learning-rate", "3e-4"].contains(x)).copied().collect();
    let done = tealight(&[&["train", "--output", &output], &small[..], &more].concat());
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("not finite 2 times in a row; lower --learning-rate"), "{said}");
    let overflowed = folder.path("overflowed");
    let more = ["--learning-rate", "1e30", "--max-steps", "50"];
    let said = refusal(&[&["train", "--output", &overflowed], &small[..], &more].concat());
    assert!(said.contains("logits are not finite"), "{said}");
    let rows = rows(Path::new(&output));
    let last = rows.last().expect("a row");
    assert!(last["skipped_steps"].as_u64() >= Some(2), "{last}");
    let state = Path::new(&output).join(format!("checkpoint-{}", last["step"]));
    assert!(state.join("trainer_state.json").exists(), "{said}");
}

#[test]
fn a_strict_run_stops_where_others_warn() {
    let folder = Folder::new();
    let (lenient, strict) = (folder.path("lenient"), folder.path("strict"));
    let short = ["--max-samples", "8", "--max-steps", "2"];
    let cut: Vec<&str> = SMALL.iter().map(|x| if *x == "20" { "3" } else { *x }).collect();
    let run = |output: &str, more: &[&str]| {
        tealight(&[&["train", "--output", output], &cut[..], &short, more].concat())
    };
    let done = run(&lenient, &[]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    assert!(said.contains("warning: step 1: 100 % of completions were cut off"), "{said}");
    let done = run(&strict, &["--strict"]);
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("error: --strict: step 1"), "{said}");
    assert!(Path::new(&strict).join("checkpoint-1/model.safetensors").exists());
}

#[test]
fn every_step_is_logged_for_machines_dashboards_and_people() {
    let folder = Folder::new();
    let output = folder.path("run");
    let done = train(
        &output,
        &["--max-samples", "8", "--max-steps", "2", "--log-completions", "1", "--json"],
    );
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let printed = String::from_utf8_lossy(&done.stdout);
    let lines: Vec<serde_json::Value> =
        printed.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((lines[1]["step"].clone(), lines[2]["global_step"].clone()), (2.into(), 2.into()));
    let events = std::fs::read_dir(Path::new(&output).join("tensorboard")).expect("events");
    assert_eq!(events.count(), 1);
    let shown = tealight(&["show", &output, "--step", "2", "--limit", "3"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success() && text.matches("reward").count() >= 3, "{text}");
    let as_json = tealight(&["show", &output, "--json", "--limit", "1000"]);
    let text = String::from_utf8_lossy(&as_json.stdout);
    assert_eq!(text.lines().count(), 4 * 8);
    let row: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a row")).expect("JSON");
    for column in ["step", "prompt", "completion", "reward", "advantage", "verdict"] {
        assert!(!row[column].is_null(), "{row}");
    }
    let missing = refusal(&["show", &output, "--step", "7"]);
    assert!(missing.contains("no completions of step 7; there are 1, 2"), "{missing}");
}

/// A limit on the size of files stands for a full disk: writing fails in the middle of a file.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing_and_the_run_goes_on_once_there_is_room() {
    let folder = Folder::new();
    let expected = whole(&folder);
    let output = folder.path("full");
    let binary = assert_cmd::cargo::cargo_bin("tealight");
    let arguments = [&["train", "--output", &output], &settings()[..], &["--resume"]].concat();
    // 4 MB a file: room for the model's 3, but not for the optimizer's 6.
    let script = "trap '' XFSZ; ulimit -f 8000; exec \"$0\" \"$@\"";
    let done = Command::new("sh")
        .args(["-c", script])
        .arg(&binary)
        .args(&arguments)
        .env("RUST_BACKTRACE", "0")
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(1), "{said}");
    assert!(said.contains("checkpoint-1 cannot be written; there is no earlier one"), "{said}");
    assert!(said.contains("make room, then continue with --resume"), "{said}");
    assert_eq!(half_written(Path::new(&output)), None);
    let done = tealight(&arguments);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(weights(Path::new(&output)), weights(&expected));
}

#[test]
fn a_dataset_that_vanished_is_named_and_the_run_stays_as_it_was() {
    let folder = Folder::new();
    let output = folder.path("run");
    let done = train(&output, &["--max-samples", "8", "--max-steps", "1"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let gone = folder.write("gone.jsonl", "");
    std::fs::remove_file(&gone).expect("removed");
    let before = std::fs::read(Path::new(&output).join("config.toml")).expect("settings");
    let resume = ["--max-steps", "2", "--resume", "--dataset", &gone];
    let said = refusal(&[&["train", "--output", &output], &SMALL[..], &resume].concat());
    assert!(said.contains("gone.jsonl"), "{said}");
    assert_eq!(before, std::fs::read(Path::new(&output).join("config.toml")).expect("settings"));
    assert_eq!(rows(Path::new(&output)).len(), 1);
    let more = ["--max-samples", "8", "--max-steps", "2", "--resume"];
    let done = train(&output, &more);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(rows(Path::new(&output)).len(), 2);
}
