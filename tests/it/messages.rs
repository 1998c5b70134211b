//! Refused commands and their messages: the table `tests/fixtures/messages.txt`. Nothing on disk changes, neither bytes
//! nor names nor times.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::SystemTime;

use crate::support::binary::{Folder, command, ok, program, refusal, stderr_of, words};
use crate::support::embedded;
use crate::support::processes::binary;

const TABLE: &str = include_str!("../fixtures/messages.txt");

/// Writes the files and models of the table.
fn write_files(folder: &Folder) {
    let path = |name: &str| folder.0.path().join(name);
    for line in TABLE.lines() {
        let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
        match what {
            "file" => {
                let (name, text) = rest.split_once(' ').unwrap_or((rest, ""));
                std::fs::create_dir_all(path(name).parent().expect("a folder")).expect("made");
                folder.write(name, text.replace("\\n", "\n"));
            }
            "model" => {
                embedded::copied(folder, rest, &[]);
            }
            "edit" => {
                let (name, texts) = rest.split_once(": ").expect("a file and its change");
                let (from, to) = texts.split_once(" -> ").expect("two texts");
                let text = std::fs::read_to_string(path(name)).expect("text");
                assert!(text.contains(from), "{line}");
                folder.write(name, text.replace(from, to));
            }
            "remove" => std::fs::remove_file(path(rest)).expect("removed"),
            _ => {}
        }
    }
}

/// Writes results of every kind, and weights that end too early.
fn write_results(folder: &Folder) {
    for line in [
        "train --output @/run --max-steps 2 --prompts-per-step 2 --num-generations 4 --save-steps 1 --max-samples 4 \
         --max-completion-length 16 --device cpu --log-completions 1 --objective divergence:none --learning-rate 7e-5",
        "sft --output @/sft --max-steps 2 --save-steps 1 --max-samples 8",
        "eval --output @/eval -n 2 -k 1 --max-samples 4 --max-completion-length 16 --device cpu",
        "export --model countdown --output @/export",
        "lab --paper 2605.02375 --output @/lab",
        "grade @/good.jsonl --output @/grade",
        "compare @/eval @/eval --output @/compare",
    ] {
        ok(&in_folder(line, folder));
    }
    let weights = std::fs::read(folder.path("export/model.safetensors")).expect("weights");
    folder.write("cut/model.safetensors", &weights[..weights.len() - 1000]);
    folder.write("headless/model.safetensors", &weights[..100]);
}

fn in_folder(text: &str, folder: &Folder) -> String {
    text.replace("@/", &folder.path(""))
}

/// Size and time of change of everything below a folder, with the bytes where `is_whole`.
fn snapshot(root: &Path, is_whole: bool) -> BTreeMap<String, (u64, Option<SystemTime>, Vec<u8>)> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(root).expect("a folder").flatten() {
        let (path, metadata) = (entry.path(), entry.metadata().expect("metadata"));
        let name = path.display().to_string();
        if metadata.is_dir() {
            // To look whether a folder can be written changes its time.
            found.insert(name, (0, None, Vec::new()));
            found.extend(snapshot(&path, is_whole));
        } else {
            let bytes = if is_whole { std::fs::read(&path).expect("readable") } else { Vec::new() };
            found.insert(name, (metadata.len(), metadata.modified().ok(), bytes));
        }
    }
    found
}

/// Why a command is not refused as a row says, if so.
fn mistake(line: &str, parts: &str, status: i32) -> Option<String> {
    let mut command = program();
    command.env_remove("HF_TOKEN").env("HF_HOME", "/nowhere");
    // What is not refused may train for hours: it is killed, which is no status.
    command.timeout(std::time::Duration::from_secs(60));
    let output = command.args(words(line)).output().expect("runs");
    let stderr = stderr_of(&output);
    let errors = stderr.lines().filter(|line| line.starts_with("error: ")).count();
    let last = stderr.lines().last().unwrap_or_default();
    let is_short = errors == 1 && last.starts_with("error: ");
    // How a command is used stands on several lines.
    let message = if status == 1 { last } else { &stderr };
    let is_refused = output.status.code() == Some(status)
        && (status == 2 || (is_short && output.stdout.is_empty()))
        && !stderr.contains("similar argument")
        && parts.split(" | ").all(|part| message.contains(part));
    (!is_refused).then(|| format!("{line}\n  expected: {parts}\n  {:?} {stderr}", output.status))
}

#[test]
fn refused_commands_say_why_and_change_nothing() {
    let folder = Folder::new();
    write_files(&folder);
    write_results(&folder);
    let root = folder.0.path();
    let (whole, mut before) = (snapshot(root, true), snapshot(root, false));
    let (mut wrong, mut count) = (Vec::new(), 0);
    for line in TABLE.lines().filter(|line| !line.starts_with(['#'])) {
        let row = line.split_once(" => ").map(|row| (row, 1));
        let Some(((line, parts), status)) = row.or(line.split_once(" =2> ").map(|row| (row, 2)))
        else {
            continue;
        };
        let (line, parts) = (in_folder(line, &folder), in_folder(parts, &folder));
        count += 1;
        wrong.extend(mistake(&line, &parts, status));
        let after = snapshot(root, false);
        if before != after {
            let names = before.keys().chain(after.keys());
            let changed = names.filter(|name| before.get(*name) != after.get(*name));
            wrong.push(format!("{line}: changed {:?}", changed.collect::<Vec<_>>()));
        }
        before = after;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 200, "{count} rows were read");
    assert!(snapshot(root, true) == whole, "bytes changed");
    // A run whose resume was refused goes on with its own settings.
    ok(command!("train --resume {} --max-steps 3", folder.path("run")));
}

#[test]
fn a_root_folder_keeps_no_lock_of_a_refused_command() {
    let lock = Path::new("/.lock");
    if cfg!(unix) && !lock.exists() {
        refusal("eval --output / -n 1 -k 1 --max-samples 1 --max-completion-length 16");
        assert!(!lock.exists());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_named_with_the_file_that_it_stopped() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    for line in ["objectives", "verify --gold 1 --answer 1", "tasks"] {
        let done = binary(line).stdout(full()).output().expect("runs");
        let stderr = stderr_of(&done);
        assert!(stderr.contains("standard output: No space left on device"), "{line:?}: {stderr}");
        assert_eq!(done.status.code(), Some(1));
    }
}
