//! The folder of a run may be untrusted: `--resume` starts no program of it, writes through no link and begins
//! no finished run anew. Files to grade or verify claim nothing that they do not hold.

use std::path::Path;

use crate::support::binary::{Folder, ok, refusal, tealight, words};

fn train(output: &str, more: &[&str]) {
    let line = format!(
        "train --max-samples 4 --num-generations 2 --prompts-per-step 2 --max-steps 2 --output {output}"
    );
    ok(&[&words(&line)[..], more].concat());
}

#[test]
fn a_resumed_run_starts_a_program_only_where_the_command_line_says_so() {
    let folder = Folder::new();
    let run = folder.path("run");
    train(&run, &["--save-steps", "1"]);
    let owned = folder.path("owned");
    let config = std::fs::read_to_string(format!("{run}/config.toml")).expect("settings");
    let lines: Vec<&str> = config.lines().filter(|line| !line.starts_with("verifier")).collect();
    let program = format!("program:touch {owned}");
    let text = format!("verifier = \"{program}\"\n{}\n", lines.join("\n"));
    std::fs::write(format!("{run}/config.toml"), text).expect("written");
    let said = refusal(&["train", "--resume", &run, "--max-steps", "3"]);
    assert!(said.contains("config.toml") && said.contains("--verifier"), "{said}");
    assert!(!Path::new(&owned).exists(), "the program was started");
}

#[cfg(unix)]
#[test]
fn the_model_of_a_run_is_not_written_through_a_link() {
    let folder = Folder::new();
    let (run, victim) = (folder.path("run"), folder.path("victim"));
    train(&run, &["--save-steps", "1"]);
    std::fs::create_dir(&victim).expect("a folder");
    std::fs::write(format!("{victim}/model.safetensors"), "precious").expect("written");
    std::fs::remove_dir_all(format!("{run}/final")).expect("removed");
    std::os::unix::fs::symlink(&victim, format!("{run}/final")).expect("a link");
    let said = refusal(&["train", "--resume", &run, "--max-steps", "3"]);
    assert!(said.contains("final"), "{said}");
    let kept = std::fs::read_to_string(format!("{victim}/model.safetensors")).expect("there");
    assert_eq!(kept, "precious");
}

#[test]
fn a_finished_run_without_checkpoints_is_not_begun_anew() {
    let folder = Folder::new();
    let run = folder.path("run");
    train(&run, &["--save-steps", "0"]);
    let model = format!("{run}/final/model.safetensors");
    let before = std::fs::read(&model).expect("a model");
    let said = refusal(&["train", "--resume", &run, "--max-steps", "3", "--seed", "5"]);
    assert!(said.contains("has ended") && said.contains("--overwrite"), "{said}");
    assert_eq!(std::fs::read(&model).expect("a model"), before);
}

#[test]
fn the_answer_of_a_judged_line_is_no_gold() {
    let folder = Folder::new();
    for judged in [
        "\"verdict\":false",
        "\"correct\":false",
        "\"verdict\":{\"wrong\":1}",
        "\"exact_match\":0.0,\"filtered_resps\":[\"8\"]",
    ] {
        let line = format!("{{\"id\":\"a\",\"completion\":\"8\",{judged},\"answer\":\"8\"}}\n");
        let file = folder.write("judged.jsonl", &line);
        let said = refusal(&["grade", &file]);
        assert!(said.contains("no gold answer"), "{judged}: {said}");
    }
}

#[test]
fn a_file_joined_with_itself_is_refused_and_an_empty_one_is_no_success() {
    let folder = Folder::new();
    let output = folder.path("base");
    let options = ["eval", "--max-samples", "2", "-n", "2", "--no-greedy", "--output"];
    ok(&[&options[..], &[&output]].concat());
    let samples = std::fs::read_to_string(format!("{output}/samples/countdown-train.jsonl"));
    let samples = samples.expect("samples");
    let twice = folder.write("twice.jsonl", format!("{samples}{samples}"));
    let said = refusal(&["grade", &twice, "--dataset", "countdown"]);
    assert!(said.contains("is there twice"), "{said}");
    let empty = folder.write("empty.jsonl", "\n");
    let said = refusal(&["verify", "--jsonl", &empty, "--check"]);
    assert!(said.contains("nothing to judge"), "{said}");
    let long = format!("{{\"gold\":\"1\",\"answer\":\"{}\"}}\n", "1".repeat(17 << 20));
    let said = refusal(&["verify", "--jsonl", &folder.write("long.jsonl", &long)]);
    assert!(said.contains("long.jsonl:1") || said.contains("long.jsonl: 1"), "{said}");
    let rank = ["lab", "ends", "--table", "decompose", "--rank", "18446744073709551615"];
    assert!(refusal(&rank).contains("at most 256"));
}

#[test]
fn models_that_changed_nothing_have_intervals_with_a_width() {
    let folder = Folder::new();
    let output = folder.path("one");
    let options = ["eval", "--max-samples", "6", "-n", "4", "-k", "1,4", "--no-greedy", "--output"];
    ok(&[&options[..], &[&output]].concat());
    let again = folder.path("two");
    ok(&[&options[..], &[&again]].concat());
    let done = tealight(&["compare", &output, &again, "--json"]);
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let compared: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let change = &compared["sets"][0]["changes"][0]["contrast"].to_string();
    let change = if change == "null" { &text } else { change };
    assert!(!change.contains("\"low\":0.0,\"high\":0.0"), "{change}");
}
