//! Recipes: every base with every objective resolves, and says what it would do.

use std::path::{Path, PathBuf};

use crate::support::binary::{Folder, has, printed, succeeded, words};

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let entries = std::fs::read_dir(folder).expect("recipes").flatten().map(|entry| entry.path());
    let mut files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|kind| kind == "toml")).collect();
    files.sort();
    files
}

#[test]
fn every_recipe_runs_dry_with_every_objective() {
    let objectives = files("recipes/objectives");
    assert_eq!(objectives.len(), 8);
    for base in files("recipes") {
        let name = base.file_name().expect("a name").to_string_lossy().into_owned();
        // Supervised bases and the study have commands of their own.
        if name.ends_with("-base.toml") || name.ends_with("-study.toml") {
            continue;
        }
        for objective in &objectives {
            let [base, objective] =
                [&base, objective].map(|path| path.to_str().expect("text").to_owned());
            // Downloads are replaced: flags win.
            let flags = [
                "--model",
                "countdown",
                "--dataset",
                "countdown/train",
                "--max-completion-length",
                "20",
            ];
            let files = ["train", "--dry-run", "--config", &base, "--config", &objective];
            let shown = printed(&[&files[..], &flags].concat());
            has(&shown, &["learning_rate = ", "prompt (", "memory, planned"]);
        }
    }
}

#[test]
fn every_paper_s_whole_setting_runs_dry() {
    let papers = files("recipes/papers");
    assert_eq!(papers.len(), 10);
    for paper in papers {
        let paper = paper.to_str().expect("text").to_owned();
        // The two comparisons in small are studies.
        if STUDIES.iter().any(|name| paper.ends_with(&format!("{name}.toml"))) {
            continue;
        }
        let own = ["--model", "countdown", "--dataset", "countdown/train"];
        let files = ["train", "--dry-run", "--max-completion-length", "20", "--config", &paper];
        let shown = printed(&[&files[..], &own].concat());
        has(&shown, &["learning_rate = ", "num_generations = ", "memory, planned"]);
    }
}

/// Recipes of papers that compare objectives.
const STUDIES: [&str; 2] = ["papers/dph-rl", "papers/alpha-dpg"];

#[test]
fn the_comparisons_of_papers_are_planned() {
    for (name, of_the_paper) in STUDIES.iter().zip(["dph-js", "alpha-dpg"]) {
        let folder = Folder::new();
        let output = folder.path("study");
        let recipe = format!("recipe:{name}");
        let shown = printed(&["study", "--plan", "--config", &recipe, "--output", &output]);
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
    let arguments = format!(
        "train --dry-run --config {file} --dataset_name countdown/test --output_dir unused \
         --max_completion_length 20 --lora_target_modules q_proj,v_proj --torch_dtype float32"
    );
    let arguments = words(&arguments);
    let shown = printed(&arguments);
    has(
        &shown,
        &["num_generations = 4", "use_peft = true", "dataset = \"countdown/test\"", "\"q_proj\""],
    );
}

#[test]
fn committed_reference_equals_the_binarys() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference.md");
    let text = tealight::cli::reference();
    if std::env::var_os("TEALIGHT_BLESS").is_some() {
        std::fs::write(&file, &text).expect("written");
    }
    let written = std::fs::read_to_string(file).expect("docs/reference.md");
    assert!(written == text, "TEALIGHT_BLESS=1 cargo test --release --test it reference writes it");
}

#[test]
fn doctor_passes_on_this_machine() {
    let done = succeeded(&["doctor", "--json"]);
    let findings: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
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
        let script =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("recipes/slurm/{job}.sbatch"));
        let mut command = std::process::Command::new("bash");
        command.arg(script).args(["Qwen/Qwen2.5-0.5B-Instruct", "train.jsonl", &output, more]);
        command.args(if more == "--seed" { &["3"][..] } else { &[] });
        command
            .env("PATH", &path)
            .env("SLURM_JOB_NODELIST", "n[1-3]")
            .env("SLURM_GPUS_ON_NODE", "2");
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
