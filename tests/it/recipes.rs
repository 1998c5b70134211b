//! Recipes: every base with every objective resolves, and says what it would do.

use std::path::Path;

use crate::support::binary::{Folder, command, has, printed};
use crate::support::root;

fn files(folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(root().join(folder)).expect("recipes").flatten();
    let mut files: Vec<String> = entries.map(|entry| entry.path().display().to_string()).collect();
    files.retain(|path| path.ends_with(".toml"));
    files.sort();
    files
}

#[test]
fn every_recipe_runs_dry_with_every_objective() {
    let objectives = files("recipes/objectives");
    assert_eq!(objectives.len(), 8);
    for base in files("recipes") {
        // Supervised bases and the study have commands of their own.
        if base.ends_with("-base.toml") || base.ends_with("-study.toml") {
            continue;
        }
        for objective in &objectives {
            has(&dry_run(&format!("--config {base} --config {objective}")), &["prompt ("]);
        }
    }
}

/// What a dry run with some settings shows; downloads are replaced: flags win.
fn dry_run(settings: &str) -> String {
    let own = "--model countdown --dataset countdown/train --max-completion-length 20";
    let shown = printed(command!("train --dry-run {settings} {own}"));
    has(&shown, &["learning_rate = ", "num_generations = ", "memory, planned"]);
    shown
}

#[test]
fn every_paper_s_whole_setting_runs_dry() {
    let papers = files("recipes/papers");
    assert_eq!(papers.len(), 10);
    for paper in papers {
        // The two comparisons in small are studies.
        if !STUDIES.iter().any(|name| paper.ends_with(&format!("{name}.toml"))) {
            dry_run(&format!("--config {paper}"));
        }
    }
}

/// Recipes of papers that compare objectives.
const STUDIES: [&str; 2] = ["papers/dph-rl", "papers/alpha-dpg"];

#[test]
fn the_comparisons_of_papers_are_planned() {
    for (name, of_the_paper) in STUDIES.iter().zip(["dph-js", "alpha-dpg"]) {
        let folder = Folder::new();
        let output = folder.path("study");
        let shown = printed(command!("study --plan --config recipe:{name} --output {output}"));
        assert!(shown.contains(&format!("train {of_the_paper}")), "{name}: {shown}");
        assert!(shown.contains("sample the base for training"), "{name}: {shown}");
        assert!(!Path::new(&output).exists(), "a plan writes nothing");
    }
}

#[test]
fn names_that_trl_users_type_are_understood_in_flags_and_files() {
    let folder = Folder::new();
    let file = folder.write(
        "trl.toml",
        "model_name_or_path = \"countdown\"\nnum_generations = 4\nuse_peft = true\n",
    );
    let shown = printed(command!(
        "train --dry-run --config {file} --dataset_name countdown/test --output_dir unused \
         --max_completion_length 20 --lora_target_modules q_proj,v_proj --torch_dtype float32"
    ));
    assert!(!Path::new("unused").exists(), "a dry run writes nothing");
    has(
        &shown,
        &[
            "num_generations = 4",
            "use_peft = true",
            "learning_rate = 0.0001",
            "objective = \"grpo\"",
            "dataset = \"countdown/test\"",
            "\"q_proj\"",
        ],
    );
}

#[test]
fn committed_reference_equals_the_binarys() {
    let file = root().join("docs/reference.md");
    let text = tealight::cli::reference();
    if std::env::var_os("TEALIGHT_BLESS").is_some() {
        std::fs::write(&file, &text).expect("written");
    }
    let written = std::fs::read_to_string(file).expect("docs/reference.md");
    assert!(written == text, "TEALIGHT_BLESS=1 cargo test --release --test it reference writes it");
}

#[test]
fn doctor_passes_on_this_machine() {
    let findings: serde_json::Value = printed("doctor --json").parse().expect("JSON");
    let findings = findings.as_array().expect("a list");
    assert!(findings.iter().all(|finding| finding["is_well"] == true), "{findings:?}");
    let detail = |name: &str| {
        let found = findings.iter().find(|finding| finding["name"] == name).expect("a finding");
        found["said"].as_str().expect("text").to_owned()
    };
    assert!(detail("self-test").contains("gradients"));
}

/// Writes a program for a stand-in to `folder`.
#[cfg(unix)]
fn stand_in(folder: &Path, name: &str, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).expect("written");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("executable");
}

/// Runs the jobs of `recipes/slurm` with stand-ins for Slurm's commands, which start what they are told to where it is
/// not a rank, and note what a rank would be.
#[cfg(unix)]
#[test]
fn slurm_jobs_start_the_documented_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    let (bin, noted) = (folder.path().join("bin"), folder.path().join("noted"));
    std::fs::create_dir(&bin).expect("a folder");
    let note = noted.display();
    stand_in(&bin, "scontrol", "printf 'n1\\nn2\\nn3\\n'");
    stand_in(&bin, "curl", "exit 0");
    stand_in(&bin, "vllm", &format!("echo \"vllm $CUDA_VISIBLE_DEVICES $*\" >> {note}; sleep 20"));
    // The words after the options are the command; servers are started in place of two tasks.
    let srun = "options=(); while [[ $1 == --* ]]; do options+=(\"$1\"); shift; done\n\
                if [ \"$1\" = bash ]; then for i in 0 1; do SLURM_LOCALID=$i \"$@\" & done; wait; exit; fi\n\
                sleep 1";
    stand_in(&bin, "srun", &format!("{srun}\nprintf '%s\\n' \"${{options[*]}}\" \"$@\" >> {note}"));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a path"));
    let output = folder.path().join("out").display().to_string();
    for (job, more) in [("train", "--use-peft"), ("train-vllm", "--seed")] {
        let _ = std::fs::remove_file(&noted);
        let script = root().join(format!("recipes/slurm/{job}.sbatch"));
        let mut command = std::process::Command::new("bash");
        command.arg(script).args(["Qwen/Qwen2.5-0.5B-Instruct", "train.jsonl", &output, more]);
        command.args(if more == "--seed" { &["3"][..] } else { &[] });
        command.envs([
            ("PATH", &*path),
            ("SLURM_JOB_NODELIST", "n[1-3]"),
            ("SLURM_GPUS_ON_NODE", "2"),
        ]);
        let done = command.output().expect("bash");
        assert!(done.status.success(), "{job}: {}", String::from_utf8_lossy(&done.stderr));
        let text = std::fs::read_to_string(&noted).expect("something was started");
        let lines: Vec<&str> = text.lines().collect();
        let rank = lines.iter().position(|line| *line == "tealight").expect("ranks");
        assert!(lines[rank - 1].contains("--mpi=pmix --kill-on-bad-exit=1"), "{text}");
        let arguments: Vec<String> = lines[rank..].iter().map(|line| (*line).to_owned()).collect();
        tealight::cli::check(&arguments).expect("a command of ours");
        assert!(arguments.contains(&more.to_owned()));
        if job == "train-vllm" {
            let mut servers = lines[..rank - 1].to_vec();
            servers.sort_unstable();
            assert!(servers[0].starts_with(
                "vllm 0 serve Qwen/Qwen2.5-0.5B-Instruct --host 0.0.0.0 --port 8000 "
            ));
            assert!(servers[1].starts_with("vllm 1 ") && servers[1].contains("--port 8001 "));
            let engines = "http://n2:8000,http://n2:8001,http://n3:8000,http://n3:8001".to_owned();
            assert!(arguments.contains(&engines), "{text}");
        }
    }
}
