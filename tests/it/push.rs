//! `tealight push` against a local server that speaks the Hub's API for writing.

use std::path::Path;
use std::process::Output;

use crate::support::binary::{Folder, has, on_hub};
use crate::support::hub::{FakeHub, Files, TOKEN};
use crate::support::runs::{json, trained};

fn push(hub: &FakeHub, token: &str, arguments: &[&str]) -> Output {
    let mut command = on_hub(&hub.endpoint, Path::new("x"));
    command.env("HF_TOKEN", token).arg("push").args(arguments).output().expect("runs")
}

/// The uploads of large files so far, each with the headers that its address asks for.
fn uploads(hub: &FakeHub) -> usize {
    let shelf = hub.shelf.lock().expect("shelf");
    let puts: Vec<_> = shelf.log.iter().filter(|request| request.method == "PUT").collect();
    assert!(puts.iter().all(|request| request.header("x-upload") == Some("granted")));
    puts.len()
}

/// The files of the last commit.
fn files(hub: &FakeHub) -> Files {
    let shelf = hub.shelf.lock().expect("shelf");
    let own = shelf.repositories.iter().find(|own| own.address.1 == "me/run").expect("made");
    own.commits[&own.branches["main"]].clone()
}

#[test]
fn a_run_is_pushed_with_its_card_through_a_network_that_breaks() {
    let folder = Folder::new();
    let run = folder.path("study/run");
    std::fs::create_dir_all(folder.0.path().join("study")).expect("made");
    trained(&run, &["--use-peft", "--max-samples", "8", "--max-steps", "1"]);
    folder.write("study/results.md", "| countdown/train | pass@1 |\n|---|--:|\n| base | 0.222 |\n");
    // Tables beside a run are those of its study, or nobody's that should be published.
    folder.write(
        "study/config.toml",
        "# tealight 0.1.0\nmodel = \"countdown\"\nobjectives = [\"grpo\"]\n",
    );
    folder.write("study/results.json", "{}");

    // As often as one push tries: the first command fails, the second goes on.
    let hub = FakeHub::new(Vec::new());
    hub.shelf.lock().expect("shelf").cuts = 4;
    let arguments = [run.as_str(), "--repo", "me/run", "--private"];
    let failed = push(&hub, TOKEN, &arguments);
    let stderr = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("the same command goes on from there"), "{stderr}");
    assert!(files(&hub).is_empty(), "no commit without its files");
    let pushed = push(&hub, TOKEN, &arguments);
    assert!(pushed.status.success(), "{}", String::from_utf8_lossy(&pushed.stderr));
    assert!(String::from_utf8_lossy(&pushed.stdout).contains("/me/run/commit/"));
    let before = uploads(&hub);
    let again = push(&hub, TOKEN, &arguments);
    let stderr = String::from_utf8_lossy(&again.stderr);
    assert!(again.status.success() && stderr.contains("is there already"), "{stderr}");
    assert_eq!(uploads(&hub), before, "what arrived is not sent twice");

    let pushed = files(&hub);
    let local = Path::new(&run).join("final");
    let entries = std::fs::read_dir(&local).expect("a directory").flatten();
    for entry in entries.filter(|entry| !entry.file_name().to_string_lossy().starts_with('.')) {
        let name = entry.file_name().to_string_lossy().into_owned();
        assert_eq!(pushed[&name], std::fs::read(entry.path()).expect("read"), "{name}");
    }
    let card = String::from_utf8(pushed["README.md"].clone()).expect("text");
    has(
        &card,
        &[
            "library_name: peft",
            "- grpo",
            "| base | 0.222 |",
            "| reward |",
            "learning_rate = 0.0003",
        ],
    );
    assert_eq!(json(local.join("adapter_config.json"))["base_model_name_or_path"], "countdown");
}

#[test]
fn unpushable_runs_are_refused_with_the_fix() {
    let hub = FakeHub::new(Vec::new());
    let folder = Folder::new();
    let refused = |token: &str, arguments: &[&str]| {
        let output = push(&hub, token, arguments);
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let model = folder.path("model");
    std::fs::create_dir_all(&model).expect("made");
    assert!(refused(TOKEN, &[&model, "--repo", "me/run"]).contains("no model and no adapter here"));
    folder.write("model/config.json", "{}");
    assert!(refused(TOKEN, &[&model]).contains("--repo OWNER/NAME is needed"));
    assert!(refused(TOKEN, &[&model, "--repo", "run"]).contains("named owner/name"));
    assert!(
        refused("wrong", &[&model, "--repo", "me/run"])
            .contains("set HF_TOKEN to one that may write")
    );
}
