//! Every command that the documentation shows is one: `scripts/check-docs` runs those that can run here, the others
//! are read as the command line would.

use std::path::{Path, PathBuf};

use tealight_datasets::read::{ANSWERS, REFERENCES, SOLUTIONS};

use crate::support;
use crate::support::binary::{Folder, stderr_of};

fn pages() -> Vec<PathBuf> {
    let root = support::root();
    let mut folders = vec![root.join("docs")];
    let mut pages: Vec<PathBuf> =
        ["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root.join(name)).into();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable").flatten() {
            match entry.path() {
                path if path.is_dir() => folders.push(path),
                path if path.extension().is_some_and(|e| e == "md") => pages.push(path),
                _ => {}
            }
        }
    }
    pages
}

/// The commands in the code blocks of a page, lines that end in a backslash joined, and the files that `cat > NAME
/// <<'END'` writes there.
fn commands(text: &str, is_readme: bool) -> (Vec<String>, Vec<(String, String)>) {
    let (mut commands, mut files) = (Vec::new(), Vec::<(String, String)>::new());
    // Whether an open block is a shell's.
    let mut block: Option<bool> = None;
    let (mut is_here, mut begun) = (false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            let is_shell = line.trim_start().starts_with("```sh") || (is_readme && line == "```");
            block = if block.is_some() { None } else { Some(is_shell) };
            continue;
        }
        if block != Some(true) {
            continue;
        }
        if is_here {
            is_here = line != "END";
            if let (true, Some((_, text))) = (is_here, files.last_mut()) {
                text.push_str(&format!("{line}\n"));
            }
            continue;
        }
        is_here = line.contains("<<'END'");
        if is_here {
            let name = line.split_whitespace().skip_while(|word| *word != ">").nth(1);
            files.push((name.unwrap_or_default().to_owned(), String::new()));
            continue;
        }
        match line.strip_suffix('\\') {
            Some(part) => begun.push_str(part),
            None => commands.push(std::mem::take(&mut begun) + line),
        }
    }
    (commands, files)
}

/// A command line's words, as a shell would part them, to its end.
fn words(line: &str) -> Vec<String> {
    let is_end = |word: &String| word.starts_with(['|', '>', '<', ';', '&']);
    let words = shlex::split(line).unwrap_or_default();
    assert!(!words.is_empty() || !line.starts_with("tealight"), "an open quote: {line}");
    words.into_iter().take_while(|word| !is_end(word)).collect()
}

#[test]
fn every_command_that_is_shown_is_understood() {
    let mut seen = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap_or_default();
        let (commands, files) = commands(&text, page.ends_with("README.md"));
        let folder = Folder::new();
        let mut place = None;
        for command in commands {
            if let Some(rest) = command.strip_prefix("cd ") {
                let name = rest.split(' ').next().unwrap_or(rest);
                place = Some(support::root().join(name));
            }
            let command = command
                .strip_prefix("cargo run --release -- ")
                .map_or(command.clone(), |rest| format!("tealight {rest}"));
            let mut words = words(&command);
            if words.first().map(String::as_str) != Some("tealight") || words.len() < 2 {
                continue;
            }
            // Placeholders for what only a user has.
            words.retain(|word| word != "..." && word != "\u{2026}");
            if words.iter().any(|word| word.starts_with('[') || word.contains('|')) {
                continue;
            }
            let root = support::root();
            let words: Vec<String> = words
                .into_iter()
                .map(|word| match files.iter().find(|(name, _)| *name == word) {
                    Some((_, text)) => folder.write("settings.toml", text),
                    None if word.starts_with("recipes/") => root.join(word).display().to_string(),
                    None => {
                        let file = place.as_ref().map(|place| place.join(&word));
                        let file = file.filter(|file| file.is_file());
                        file.map_or(word, |file| file.display().to_string())
                    }
                })
                .collect();
            seen += 1;
            if let Err(error) = tealight::cli::check(&words) {
                let is_help = error.to_string().contains("Usage: tealight")
                    && !error.to_string().contains("error:");
                assert!(is_help, "{}: `{command}`: {error:#}", page.display());
            }
        }
    }
    assert!(seen > 40, "{seen} commands were found");
}

#[cfg(unix)]
#[test]
fn the_readme_of_an_archive_runs_the_program_and_links_to_files_of_the_archive() {
    let root = support::root();
    let readme = |folder: &Path| {
        let mut script = std::process::Command::new(root.join("scripts/archive-readme"));
        script.arg("x86_64-unknown-linux-musl").arg(folder).output().expect("bash")
    };
    let done = readme(&root);
    let (text, error) = (String::from_utf8_lossy(&done.stdout), stderr_of(&done));
    assert!(done.status.success(), "{error}");
    assert!(text.contains("\n./tealight study\n") && !text.contains("cargo "), "{text}");
    let folder = Folder::new();
    let done = readme(Path::new(&folder.path(".")));
    assert!(!done.status.success() && stderr_of(&done).contains("ARCHITECTURE.md is not in"));
}

#[test]
fn columns_of_gold_answers_are_documented_in_their_order() {
    let text = std::fs::read_to_string(support::root().join("docs/how-to/data.md"))
        .expect("docs/how-to/data.md");
    let (_, list) = text.split_once("The first of these columns: ").expect("the list");
    let (list, _) = list.split_once(", or the last turn").expect("its end");
    let named: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, [&ANSWERS[..], &REFERENCES, &SOLUTIONS].concat());
}
