//! `tealight init`, `recipes` and `schema`: what they write, and what they never write over.

use assert_cmd::Command;

use crate::support::binary::{Folder, refusal, stderr_of, succeeded, tealight};

fn init(folder: &Folder, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("tealight").expect("the binary");
    command.current_dir(folder.0.path()).arg("init").args(arguments).output().expect("runs")
}

#[test]
fn init_writes_a_file_that_runs_and_writes_over_none() {
    let folder = Folder::new();
    let done = init(&folder, &[]);
    assert!(done.status.success(), "{}", stderr_of(&done));
    let file = folder.path("countdown.toml");
    let text = std::fs::read_to_string(&file).expect("a file");
    assert!(text.starts_with("# Run this file: tealight train --config countdown.toml"), "{text}");
    assert!(text.contains("# temperature = 1"), "{text}");
    let dry = succeeded(&["train", "--config", &file, "--dry-run"]);
    // The recipe by name says the same.
    let named = tealight(&["train", "--config", "recipe:countdown", "--dry-run"]);
    assert_eq!(dry.stdout, named.stdout);
    std::fs::write(&file, "mine").expect("written");
    let again = init(&folder, &[]);
    assert_eq!(again.status.code(), Some(1));
    assert!(stderr_of(&again).contains("countdown.toml: exists already"), "{}", stderr_of(&again));
    assert_eq!(std::fs::read_to_string(&file).expect("a file"), "mine");
    assert!(init(&folder, &["papers/maxrl"]).status.success());
    assert!(std::path::Path::new(&folder.path("maxrl.toml")).exists());
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path("elsewhere"), folder.path("nsr.toml"))
            .expect("a link");
        let linked = init(&folder, &["papers/nsr"]);
        assert_eq!(linked.status.code(), Some(1), "{}", stderr_of(&linked));
        assert!(!std::path::Path::new(&folder.path("elsewhere")).exists());
    }
}

#[test]
fn hostile_names_of_recipes_are_names_and_no_paths() {
    let folder = Folder::new();
    folder.write("secret.toml", "model = \"x\"\n");
    let secret = folder.path("secret");
    for name in [
        "../../secret",
        &secret,
        "",
        "countdown.toml",
        "papers/",
        "a\u{1b}[31m\nb",
        &"x".repeat(100_000),
    ] {
        for error in [
            refusal(&["train", "--dry-run", "--config", &format!("recipe:{name}")]),
            refusal(&["recipes", name]),
        ] {
            assert!(error.contains("no recipe `") && !error.contains('\u{1b}'), "{error}");
        }
        let done = init(&folder, &[name]);
        assert_eq!(done.status.code(), Some(1), "{}", stderr_of(&done));
    }
    assert_eq!(
        std::fs::read_dir(folder.0.path()).expect("readable").count(),
        1,
        "nothing is written"
    );
}

#[test]
fn the_schema_is_one_document_and_commands_are_named() {
    for words in [&["schema"][..], &["schema", "train"], &["schema", "schema"]] {
        let done = succeeded(words);
        let schema: serde_json::Value = serde_json::from_slice(&done.stdout).expect("JSON");
        assert_eq!(schema["additionalProperties"], false);
    }
    let listed = tealight(&["recipes"]).stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    assert!(listed.contains("papers/maxrl") && listed.contains("countdown-base"), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 120), "{listed}");
    let printed = tealight(&["recipes", "countdown"]).stdout;
    assert_eq!(printed, include_bytes!("../../recipes/countdown.toml"));
}
