//! Runs that are killed, cut short or disturbed: what was saved is whole, and what is resumed ends in the same
//! bits.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::support::binary::{Folder, command, ok, refused, stderr_of};
use crate::support::metrics::rows;
use crate::support::processes::{self, binary, spawned};
use crate::support::runs::{SMALL, json, trained};

const SETTINGS: &str = "--objective dph-f:0.3:pef-threshold=0.05:extra-check=false:explore=all --num-presamples 4 \
                        --max-samples 8 --save-steps 1 --save-total-limit 2 --max-steps 6";

fn weights(output: &Path) -> Vec<u8> {
    processes::weights(output.to_str().expect("text"))
}

fn whole(folder: &Folder) -> PathBuf {
    let output = folder.path("whole");
    trained(&output, SETTINGS);
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
    let (mut kills, mut in_writes, mut runs, mut random) = (0, 0, 0, 0x2545_f491_4f6c_dd1d_u64);
    while kills < trials {
        runs += 1;
        let output = PathBuf::from(folder.path(&format!("run-{runs}")));
        loop {
            let line = format!("train --resume --output {} {SMALL} {SETTINGS}", output.display());
            let mut child = spawned(&line);
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
    let resume = format!("train --output {} {SMALL} {SETTINGS} --resume", output.display());
    // The last two, and the best.
    let best = json(output.join("checkpoint-6/trainer_state.json"))["best"][0].clone();
    for step in 1..=6_u64 {
        let exists = output.join(format!("checkpoint-{step}")).exists();
        assert_eq!(exists, step > 4 || best == step, "checkpoint-{step}, best {best}");
    }
    assert_eq!(std::fs::read_to_string(output.join("latest")).expect("read"), "checkpoint-6\n");
    refused!("{resume} checkpoint-77" => "no checkpoint `checkpoint-77`; there are checkpoint-6");
    refused!(
        "{resume} checkpoint-6 --seed 9 --rehearsal-batch-size 3"
        => "rehearsal_batch_size was 64, is 3, seed was 0, is 9"
    );
    refused!("{resume} checkpoint-6 --dataset countdown/test" => "the dataset's problems (their ids");

    let moments = output.join("checkpoint-6/optimizer.safetensors");
    let mut bytes = std::fs::read(&moments).expect("moments");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&moments, &bytes).expect("written");
    refused!("{resume}" => "checksum differs", "checkpoint-5 is complete: --resume", "/checkpoint-5");
    bytes.truncate(middle);
    std::fs::write(&moments, &bytes).expect("written");
    refused!("{resume}" => "bytes; 6342792 were written");
    std::fs::remove_file(&moments).expect("removed");
    refused!("{resume}" => "missing");

    let before = weights(&output);
    std::fs::remove_dir_all(output.join("final")).expect("removed");
    ok(command!("{resume} checkpoint-5"));
    assert_eq!(weights(&output), before);
}

/// A limit on the size of files stands for a full disk: writing fails in the middle of a file.
#[cfg(unix)]
#[test]
fn a_full_disk_loses_nothing_and_the_run_goes_on_once_there_is_room() {
    let folder = Folder::new();
    let expected = whole(&folder);
    let output = folder.path("full");
    let line = format!("train --output {output} {SMALL} {SETTINGS} --resume");
    // 4 MB a file: room for the model's 3, but not for the optimizer's 6.
    let script = "trap '' XFSZ; ulimit -f 8000; exec \"$0\" \"$@\"";
    let run = binary(&line);
    let mut limited = Command::new("sh");
    limited.args(["-c", script]).arg(run.get_program()).args(run.get_args());
    let set = run.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let done = limited.envs(set).output().expect("runs");
    let stderr = stderr_of(&done);
    assert_eq!(done.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("checkpoint-1 cannot be written; there is no earlier one"), "{stderr}");
    assert!(stderr.contains("make room, then continue with --resume"), "{stderr}");
    assert_eq!(half_written(Path::new(&output)), None);
    ok(&line);
    assert_eq!(weights(Path::new(&output)), weights(&expected));
}

#[cfg(unix)]
#[test]
fn a_study_that_was_killed_goes_on_to_the_same_results() {
    let folder = Folder::new();
    let config =
        folder.write("study.toml", "objectives = [\"none@{lr=1e-4,3e-4}\", \"js@{0.4,2}\"]\n");
    let study = |output: &str| {
        format!(
            "study --resume --output {output} --config {config} --max-samples 8 --max-steps 6 --num-presamples 8 \
             -n 8 -k 1,8 --max-test-samples 8 --seeds 0 --eval-steps 2 --eval-max-samples 2 --tuning-seeds 9 \
             --tuning-pass-at-1 0.2 {SMALL}"
        )
    };
    let (whole, output) = (folder.path("whole"), folder.path("study"));
    let started = std::time::Instant::now();
    ok(&study(&whole));
    let length = started.elapsed();
    for kill in 1.. {
        // With its settings on the command line, or with those in its folder.
        let is_begun = Path::new(&output).join("config.toml").exists();
        let line = match is_begun && kill % 2 == 0 {
            true => format!("study --resume {output}"),
            false => study(&output),
        };
        let mut child = spawned(&line);
        // Later each time, so that it ends in the end.
        std::thread::sleep(length.mul_f64(0.35 * f64::from(kill)));
        if child.try_wait().expect("known").is_some() {
            assert!(child.wait().expect("ends").success());
            break;
        }
        child.kill().expect("killed");
        child.wait().expect("dead");
    }
    let results = |output: &str| {
        let mut results = json(format!("{output}/results.json"));
        results["seconds"] = 0.into();
        for run in results["training"].as_array_mut().expect("runs") {
            run["seconds"] = 0.into();
        }
        results
    };
    assert_eq!(results(&whole), results(&output));
    refused!("{} --seeds 3", study(&output) => "seeds was [0], is [0, 3]");
}
