//! Every command that the documentation shows is one: `scripts/check-docs` runs those that can run here, the others
//! are read as the command line would.

use std::path::{Path, PathBuf};

use tealight_datasets::read::{ANSWERS, REFERENCES, SOLUTIONS};

use crate::support::binary::{Folder, stderr_of};

/// Placeholders that stand for what only a user has.
const STANDS_FOR: [(&str, &str); 2] = [("...", ""), ("…", "")];

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("docs")];
    let mut pages =
        vec![root.join("README.md"), root.join("CONTRIBUTING.md"), root.join("SECURITY.md")];
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
        let line = line.split(" # ").next().unwrap_or(line).trim();
        match line.strip_suffix('\\') {
            Some(part) => begun.push_str(part),
            None => {
                commands.push(std::mem::take(&mut begun) + line);
            }
        }
    }
    (commands, files)
}

/// A command line's words, as a shell would part them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for c in line.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => (quote, is_word) = (Some(c), true),
            (None, c) if c.is_whitespace() => {
                if is_word {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (None, '|' | '>' | '<' | ';' | '&') => break,
            (_, c) => {
                word.push(c);
                is_word = true;
            }
        }
    }
    if is_word {
        words.push(word);
    }
    words
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
                place = Some(Path::new(env!("CARGO_MANIFEST_DIR")).join(name));
            }
            let command = command
                .strip_prefix("cargo run --release -- ")
                .map_or(command.clone(), |rest| format!("tealight {rest}"));
            let mut words = words(&command);
            if words.first().map(String::as_str) != Some("tealight") || words.len() < 2 {
                continue;
            }
            words.retain(|word| !STANDS_FOR.iter().any(|(mark, _)| word == mark));
            if words.iter().any(|word| word.starts_with('[') || word.contains('|')) {
                continue;
            }
            let root = env!("CARGO_MANIFEST_DIR");
            let words: Vec<String> = words
                .into_iter()
                .map(|word| match files.iter().find(|(name, _)| *name == word) {
                    Some((_, text)) => folder.write("settings.toml", text),
                    None if word.starts_with("recipes/") => format!("{root}/{word}"),
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
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = |folder: &Path| {
        let mut script = std::process::Command::new(root.join("scripts/archive-readme"));
        script.arg("x86_64-unknown-linux-musl").arg(folder).output().expect("bash")
    };
    let done = readme(root);
    let (text, error) = (String::from_utf8_lossy(&done.stdout), stderr_of(&done));
    assert!(done.status.success(), "{error}");
    assert!(text.contains("\n./tealight study\n") && !text.contains("cargo "), "{text}");
    let folder = Folder::new();
    let done = readme(Path::new(&folder.path(".")));
    assert!(!done.status.success() && stderr_of(&done).contains("ARCHITECTURE.md is not in"));
}

#[test]
fn columns_of_gold_answers_are_documented_in_their_order() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to/data.md");
    let text = std::fs::read_to_string(page).expect("docs/how-to/data.md");
    let (_, list) = text.split_once("The first of these columns: ").expect("the list");
    let (list, _) = list.split_once(", or the last turn").expect("its end");
    let named: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    assert_eq!(named, [&ANSWERS[..], &REFERENCES, &SOLUTIONS].concat());
}
