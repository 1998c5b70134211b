//! The folder of a run may be untrusted: `--resume` starts no program of it, writes through no link and begins
//! no finished run anew. Files to grade or verify claim nothing that they do not hold.

use std::path::Path;

use crate::support;
use crate::support::binary::{Folder, command, ok, refusal, refused, stderr_of, tealight_in};

fn train(output: &str, more: &str) {
    let small = "--max-samples 4 --num-generations 2 --prompts-per-step 2 --max-steps 2";
    ok(command!("train {small} --output {output} {more}"));
}

/// The settings of a run with `line` in place of those that begin with a name of the same option.
fn rewrite(run: &str, option: &str, line: &str) {
    let config = std::fs::read_to_string(format!("{run}/config.toml")).expect("settings");
    let lines: Vec<&str> = config.lines().filter(|line| !line.starts_with(option)).collect();
    let text = format!("{line}\n{}\n", lines.join("\n"));
    std::fs::write(format!("{run}/config.toml"), text).expect("written");
}

#[test]
fn outside_paths_of_a_resumed_run_must_be_given_again() {
    let folder = Folder::new();
    let run = folder.path("run");
    train(&run, "--save-steps 1");
    let config = std::fs::read_to_string(format!("{run}/config.toml")).expect("settings");
    let secret = folder.write("secret.jsonl", "{\"question\": \"1+1\", \"answer\": \"2\"}\n");
    let owned = folder.path("owned");
    let program = format!("program:touch {owned}");
    for (option, line, flag) in [
        // Each spelling of a key is the option.
        (
            "report_to",
            "report-to = [\"tensorboard\", \"wandb\"]",
            "repeat them: --report-to tensorboard --report-to wandb",
        ),
        (
            "verifier",
            &format!("verifier = \"{program}\""),
            &format!("repeat them: --verifier '{program}'"),
        ),
        ("verifier", "verifier = [\"math\", \"python:a.py:f\"]", "--verifier python:a.py:f"),
        ("model", "model-name-or-path = \"/etc/model\"", "--model /etc/model"),
        // It could be of the Hub, and is a folder's all the same.
        ("adapter", "adapter = \"evil/adapter\"", "--adapter evil/adapter"),
        ("engine", "engine = \"http://127.0.0.1:1\"", "--engine http://127.0.0.1:1"),
        ("dataset", &format!("dataset-name = \"{secret}\""), "--dataset"),
        ("presamples", "presamples = \"/etc\"", "--presamples /etc"),
    ] {
        std::fs::write(format!("{run}/config.toml"), &config).expect("written");
        rewrite(&run, option, line);
        refused!("train --resume {run} --max-steps 3" => "repeat them:", flag);
        // So is a file of the folder that --config names.
        let file = format!("{run}/config.toml");
        refused!("train --config {file} --output {run} --resume --max-steps 3" => "repeat them:");
    }
    assert!(!Path::new(&owned).exists(), "the program was started");
    // Two names of one option do not hide one another.
    std::fs::write(format!("{run}/config.toml"), &config).expect("written");
    rewrite(&run, "nothing", "report-to = \"wandb\"");
    refused!("train --resume {run} --max-steps 3" => "is given twice");
    for nested in ["report.to = \"wandb\"", "[report_to]\nx = 1"] {
        std::fs::write(format!("{run}/config.toml"), nested).expect("written");
        refused!("train --resume {run}" => "config.toml");
    }
    // What is repeated counts; the folder's own settings are taken for the rest.
    std::fs::write(format!("{run}/config.toml"), &config).expect("written");
    rewrite(&run, "dataset", &format!("dataset = \"{secret}\""));
    let error = refusal(command!("train --resume {run} --max-steps 3 --dataset {secret}"));
    assert!(!error.contains("repeat them:"), "another dataset is another run");
}

#[test]
fn ones_own_settings_are_not_repeated_and_anothers_are() {
    let folder = Folder::new();
    let (run, state) = (folder.path("run"), folder.path("state"));
    let rows = folder.write("rows.jsonl", "{\"question\": \"1+1\", \"answer\": \"2\"}\n");
    let root = support::root();
    let with = |place: &Path, state: &str, line: &str| {
        let done = tealight_in(place, &[("XDG_STATE_HOME", state)], line);
        (done.status.success(), stderr_of(&done))
    };
    let small =
        "--max-completion-length 4 --num-generations 2 --prompts-per-step 1 --instruction .";
    let begun =
        format!("train --dataset {rows} {small} --max-steps 1 --save-steps 1 --output {run}");
    let (is_done, said) = with(&root, &state, &begun);
    assert!(is_done && said.contains("--max-steps 2") && !said.contains("2 --dataset"), "{said}");
    // Another working directory, somebody else, the same settings at another place, and changed settings.
    let resume = format!("train --resume {run} --max-steps 2");
    let (is_done, said) = with(folder.0.path(), &state, &resume);
    assert!(!is_done && said.contains("repeat them: --dataset"), "{said}");
    let (is_done, said) = with(&root, &folder.path("other"), &resume);
    assert!(!is_done && said.contains("repeat them: --dataset"), "{said}");
    let moved = folder.path("moved");
    std::fs::rename(&run, &moved).expect("moved");
    let (is_done, said) = with(&root, &state, &format!("train --resume {moved} --max-steps 2"));
    assert!(!is_done && said.contains("repeat them: --dataset"), "{said}");
    std::fs::rename(&moved, &run).expect("moved");
    let (is_done, said) = with(&root, &state, &resume);
    assert!(is_done, "{said}");
    rewrite(&run, "eval_dataset", &format!("eval_dataset = \"{rows}\""));
    let (is_done, said) = with(&root, &state, &format!("train --resume {run} --max-steps 3"));
    assert!(!is_done && said.contains("repeat them:"), "{said}");
}

#[test]
fn a_resumed_study_starts_no_program_of_its_folder() {
    let folder = Folder::new();
    let (study, owned) = (folder.path("study"), folder.path("owned"));
    std::fs::create_dir(&study).expect("made");
    let config = folder.write(
        "study/config.toml",
        format!("tasks = [\"colouring\"]\nVerifier = 1\nverifier = \"program:touch {owned}\"\n"),
    );
    let resume = format!("study --config {config} --output {study} --resume");
    refused!("{resume}" => "unknown key `Verifier`");
    folder.write("study/config.toml", format!("verifier = \"program:touch {owned}\"\n"));
    refused!("{resume}" => "repeat them: --verifier");
    assert!(!Path::new(&owned).exists(), "the program was started");
}

#[cfg(unix)]
#[test]
fn a_settings_file_decides_neither_by_a_link_nor_by_its_output_what_is_trusted() {
    let folder = Folder::new();
    let (study, owned) = (folder.path("study"), folder.path("owned"));
    std::fs::create_dir(&study).expect("made");
    let program = format!("verifier = \"program:touch {owned}\"\n");
    folder.write("other.toml", &program);
    let config = folder.path("study/config.toml");
    std::os::unix::fs::symlink("../other.toml", &config).expect("a link");
    for command in ["study", "train", "sft"] {
        refused!("{command} --config {config} --output {study} --resume" => "a link out of the folder");
    }
    refused!("train --resume {study}" => "a link out of the folder");
    std::fs::remove_file(&config).expect("removed");
    // Another folder, which is not there, and each spelling of the option.
    for (command, output) in [("study", "output"), ("train", "output"), ("train", "output-dir")] {
        let nowhere = folder.path("nowhere");
        folder.write("study/config.toml", format!("{output} = \"{nowhere}\"\n{program}"));
        refused!("{command} --config {config} --resume" => "repeat them: --verifier");
    }
    // The run that the command line names is the one that is resumed.
    let run = folder.path("run");
    train(&run, "--save-steps 1");
    let mine = folder.write("mine.toml", format!("output = \"{}\"\n", folder.path("nowhere")));
    ok(command!("train --config {mine} --resume {run} --max-steps 3"));
    assert!(!Path::new(&owned).exists() && !Path::new(&folder.path("nowhere")).exists());
}

#[test]
fn a_finished_run_without_checkpoints_is_not_begun_anew() {
    let folder = Folder::new();
    let run = folder.path("run");
    train(&run, "--save-steps 0");
    let model = format!("{run}/final/model.safetensors");
    let before = std::fs::read(&model).expect("a model");
    refused!("train --resume {run} --max-steps 3 --seed 5" => "has ended", "--overwrite");
    assert_eq!(std::fs::read(&model).expect("a model"), before);
}
