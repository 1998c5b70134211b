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
        for command in commands {
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
                    None => word,
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

/// The text files of folders that tell people what to install or import.
fn texts_for_users() -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = ["docs", "python", "scripts", "src", "examples", ".github", ".ci"];
    let mut folders: Vec<PathBuf> = folders.map(|folder| root.join(folder)).into();
    let mut files = pages();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            match entry.path() {
                path if path.ends_with("target") => {}
                path if path.is_dir() => folders.push(path),
                path => files.push(path),
            }
        }
    }
    let read = |path: PathBuf| std::fs::read_to_string(&path).ok().map(|text| (path, text));
    files.into_iter().filter_map(read).collect()
}

/// Whether a line installs or imports the package `tealight`, which is another project on PyPI: ours is `tealight-rl`.
fn is_another_package(line: &str) -> bool {
    let mut words = line.split(|c: char| c.is_whitespace() || "'\"`;".contains(c));
    let is_install = |word: &str| word.split(['[', '=', '<', '>']).next() == Some("tealight");
    let is_module = |word: Option<&str>| {
        word.is_some_and(|word| word.split(['.', '\\']).next() == Some("tealight"))
    };
    match line.find("pip install") {
        Some(at) => line[at..].split([' ', '\'', '"', '`']).any(is_install),
        None => words
            .by_ref()
            .find(|word| ["import", "from"].contains(word))
            .is_some_and(|_| is_module(words.next())),
    }
}

#[test]
fn nothing_installs_or_imports_another_projects_package() {
    for line in
        ["pip install 'tealight[frames]'", "pip install tealight", "from tealight import rewards"]
    {
        assert!(is_another_package(line), "{line}");
    }
    assert!(is_another_package("    import tealight.verl"));
    for line in [
        "pip install 'tealight-rl[frames]'",
        "import tealight_rl",
        "pip install target/wheels/tealight_rl-*.whl",
    ] {
        assert!(!is_another_package(line), "{line}");
    }
    let texts = texts_for_users();
    assert!(texts.len() > 200, "{} files", texts.len());
    for (path, text) in texts {
        for (index, line) in text.lines().enumerate() {
            assert!(!is_another_package(line), "{}:{}: {line}", path.display(), index + 1);
        }
    }
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

/// Whether a source has a test of this name below a module.
fn has_test(named: &str) -> bool {
    let (module, name) = named.rsplit_once("::").expect("a module and a test");
    let module = module.replace("::", "/");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let packages = [
        "tests/it",
        "src",
        "core/src",
        "datasets/src",
        "datasets/tests",
        "divergence/src",
        "eval/src",
        "formats/src",
        "learn/src",
        "nn/src",
        "system/src",
    ];
    let mut folders: Vec<PathBuf> = packages.iter().map(|folder| root.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable").flatten() {
            let path = entry.path();
            let place = path.with_extension("").display().to_string();
            let is_module = ["", "/mod", "/tests"]
                .iter()
                .any(|end| place.ends_with(&format!("/{module}{end}")));
            if path.is_dir() {
                folders.push(path);
            } else if is_module {
                let text = std::fs::read_to_string(&path).expect("readable");
                let mut tests = text.split("#[test]").skip(1);
                if tests.any(|test| {
                    test.lines().take(4).any(|line| line.trim() == format!("fn {name}() {{"))
                }) {
                    return true;
                }
            }
        }
    }
    false
}

#[test]
fn every_row_of_security_names_tests_that_exist() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("SECURITY.md");
    let text = std::fs::read_to_string(file).expect("readable");
    let rows = text.lines().skip_while(|line| *line != "|---|---|---|---|").skip(1);
    let rows: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    assert!(rows.len() > 15, "the table was found");
    for row in rows {
        let tests = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        assert!(!names.is_empty(), "no test holds this row: {row}");
        for name in names {
            assert!(has_test(name), "SECURITY.md: there is no test `{name}`");
        }
    }
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
