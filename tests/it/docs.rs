//! Every command that the documentation shows is one: `scripts/check-docs` runs those that can run here, the others
//! are read as the command line would.

use std::path::{Path, PathBuf};

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

/// The commands in the code blocks of a page, lines that end in a backslash joined.
fn commands(text: &str, is_readme: bool) -> Vec<String> {
    let mut commands = Vec::new();
    let (mut is_code, mut is_here, mut begun) = (false, false, String::new());
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            let is_shell = line.trim_start().starts_with("```sh") || (is_readme && line == "```");
            is_code = !is_code && is_shell;
            continue;
        }
        if !is_code {
            continue;
        }
        is_here = if is_here { line != "END" } else { line.contains("<<'END'") };
        if is_here {
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
    commands
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
        for command in commands(&text, page.ends_with("README.md")) {
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
                .map(
                    |word| {
                        if word.starts_with("recipes/") { format!("{root}/{word}") } else { word }
                    },
                )
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
