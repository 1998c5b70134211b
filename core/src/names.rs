//! Names that come from files and servers to paths: the only place where one becomes the other. Lists of names.
//!
//! A repository, a dataset or a server may name `../../.ssh/authorized_keys`. [`inside`] takes plain relative
//! names alone, so that the result never leaves its folder; [`file_name`] turns any text into one plain name.

use std::path::{Path, PathBuf};

/// Extensions of the formats that problems are read from: those of text, which may be packed, and another one.
const TEXTS: [&str; 5] = ["jsonl", "ndjson", "json", "csv", "tsv"];
const PARQUET: &str = "parquet";
/// Those that messages name.
pub const FORMATS: &str = ".jsonl, .json, .csv or .parquet";
/// Longest name that is taken, in bytes.
const MAX_NAME: usize = 255;
/// Longest path below its folder, in bytes.
const MAX_PATH: usize = 1024;
/// Longest file name that is made from a text, in bytes.
const MAX_MADE: usize = 80;

/// Splits `a|b|c` into an array at compile time, which fails unless the list has N names.
pub const fn list<const N: usize>(list: &'static str) -> [&'static str; N] {
    let (mut names, mut at, mut rest) = ([""; N], 0, list);
    while at < N {
        let mut end = 0;
        while end < rest.len() && rest.as_bytes()[end] != b'|' {
            end += 1;
        }
        let (name, behind) = rest.split_at(end);
        names[at] = name;
        at += 1;
        assert!(behind.is_empty() == (at == N), "as many names as the type says");
        rest = if behind.is_empty() { behind } else { behind.split_at(1).1 };
    }
    names
}

/// A name that must not become a path, and why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a plain relative file name: {why}")]
pub struct BadName {
    /// The name, escaped and shortened.
    pub name: String,
    /// The rule that the name breaks.
    pub why: &'static str,
}

/// The path of `name` below `folder`; slashes separate folders.
///
/// # Errors
/// A name that is empty, absolute or too long, has a part `.` or `..`, or holds characters that mean something
/// else on some system (`\`, `:`, control characters).
pub fn inside(folder: &Path, name: &str) -> Result<PathBuf, BadName> {
    let refused = |why| {
        let shown = name.chars().take(80).flat_map(char::escape_default).collect();
        Err(BadName { name: shown, why })
    };
    if name.is_empty() {
        return refused("it is empty");
    }
    if name.len() > MAX_PATH {
        return refused("it is too long");
    }
    if name.chars().any(|c| c.is_control() || matches!(c, '\\' | ':')) {
        return refused("it holds a backslash, a colon or a control character");
    }
    for part in name.split('/') {
        match part {
            "" => return refused("it is absolute or has an empty part"),
            "." | ".." => return refused("it leaves its folder"),
            part if part.len() > MAX_NAME => return refused("a part of it is too long"),
            _ => {}
        }
    }
    Ok(folder.join(name))
}

/// Whether `id` is `owner/name` as the Hub spells them.
pub fn is_repository(id: &str) -> bool {
    let is_part = |part: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        (1..=96).contains(&part.len())
            && part.chars().all(is_plain)
            && !part.starts_with(['.', '-'])
            && !part.ends_with(['.', '-'])
            && !part.contains("..")
    };
    id.split('/').count() == 2 && id.split('/').all(is_part)
}

/// Any text as the name of one file: letters, digits and `-._@` stay, the rest becomes `-`. A text that is too
/// long is cut, and a hash keeps it apart from others.
pub fn file_name(text: &str) -> String {
    let keep = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '@');
    let mut name: String = text.chars().map(|c| if keep(c) { c } else { '-' }).collect();
    if name.len() > MAX_MADE {
        name.truncate(MAX_MADE);
        name = format!("{name}-{:016x}", crate::fnv(text.bytes()));
    }
    // Neither hidden, nor the folder itself or its parent, nor an option of some command.
    if name.starts_with(['.', '-']) || name.is_empty() { format!("_{name}") } else { name }
}

/// The extension that names the format of a file, whatever its case: of a packed text, `rows.jsonl.gz`, the one before.
pub fn extension(path: &Path) -> String {
    let last = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.unwrap_or_default().to_ascii_lowercase()
    };
    let outer = last(path);
    let inner = path.file_stem().map(|stem| last(Path::new(stem))).unwrap_or_default();
    let is_packed = ["gz", "zst"].contains(&outer.as_str()) && TEXTS.contains(&inner.as_str());
    if is_packed { inner } else { outer }
}

/// Whether the name is of a format that problems are read from (`datasets/src/read/mod.rs`).
pub fn is_of_dataset(name: &str) -> bool {
    let extension = extension(Path::new(name));
    extension == PARQUET || TEXTS.contains(&extension.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_never_leaves_its_folder() {
        let folder = Path::new("/models/x");
        for name in [
            "",
            "/etc/passwd",
            "..",
            "../x",
            "a/../../x",
            "a/..",
            "./a",
            "a//b",
            "a/",
            "C:\\x",
            "\\\\host\\x",
            "c:x",
            "a\0b",
            "a\nb",
            "..\\x",
        ] {
            assert!(inside(folder, name).is_err(), "{name:?}");
        }
        assert!(inside(folder, &"a".repeat(300)).is_err());
        assert!(inside(folder, &"a/".repeat(600)).is_err());
        for name in ["a", "model-00001-of-00002.safetensors", "data/train..parquet", "...", "ä b"]
        {
            assert_eq!(inside(folder, name).unwrap(), folder.join(name));
        }
    }

    #[test]
    fn repositories_are_told_from_paths() {
        for id in ["Qwen/Qwen2.5-0.5B-Instruct", "a/b", "HuggingFaceTB/SmolLM2-135M"] {
            assert!(is_repository(id), "{id}");
        }
        for id in
            ["a", "a/b/c", "../x", "a/..", "/a/b", "a/b:c", "a/b\n", "~/x", "./x", "a/", "-a/b"]
        {
            assert!(!is_repository(id), "{id}");
        }
    }

    #[test]
    fn any_text_makes_one_plain_name() {
        assert_eq!(file_name("gsm8k/test@t0.5"), "gsm8k-test@t0.5");
        for text in ["", ".", "..", "/", "../../x", &"x/".repeat(400), "a\0b", "-rf", "CON:1"] {
            let name = file_name(text);
            assert!(
                inside(Path::new("f"), &name)
                    .is_ok_and(|path| path.parent() == Some(Path::new("f"))),
                "{name}"
            );
        }
        assert_ne!(file_name(&"x".repeat(100)), file_name(&"x".repeat(101)));
    }
}
