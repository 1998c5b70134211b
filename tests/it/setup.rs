//! `tealight recipes`: what the command prints, and names that are no paths.

use crate::support::binary::{Folder, refusal, tealight};

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
    }
    assert_eq!(
        std::fs::read_dir(folder.0.path()).expect("readable").count(),
        1,
        "nothing is written"
    );
}

#[test]
fn recipes_are_listed_and_printed() {
    let listed = tealight(&["recipes"]).stdout;
    let listed = String::from_utf8_lossy(&listed).into_owned();
    assert!(listed.contains("papers/maxrl") && listed.contains("countdown-base"), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 120), "{listed}");
    let printed = tealight(&["recipes", "countdown"]).stdout;
    assert_eq!(printed, include_bytes!("../../recipes/countdown.toml"));
}
