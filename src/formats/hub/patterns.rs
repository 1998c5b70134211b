//! The glob patterns of a README to the names that they mean: as the `datasets` library resolves them.

use anyhow::{Context, Result, bail};
use regex::{Regex, RegexBuilder};

/// Files that describe a dataset and are none of its data.
const DESCRIPTIONS: [&str; 6] = [
    "README.md",
    "config.json",
    "dataset_info.json",
    "dataset_infos.json",
    "dummy_data.zip",
    "dataset_dict.json",
];
/// Longest pattern of a README, in bytes.
const MAX_PATTERN: usize = 1024;
/// Most memory of a compiled pattern, in bytes.
const MAX_PROGRAM: usize = 1 << 20;
/// Most patterns of a configuration.
const MAX_PATTERNS: usize = 10_000;
/// Most comparisons of a pattern of a configuration with the name of a file: a second or two.
const MAX_COMPARISONS: usize = 10_000_000;

/// Refuses patterns that would take long to compare with the names of all files.
pub(super) fn check_number(patterns: usize, names: &[String]) -> Result<()> {
    if patterns > MAX_PATTERNS || patterns.saturating_mul(names.len()) > MAX_COMPARISONS {
        bail!(
            "README.md: {patterns} patterns of `data_files` for {} files; at most {MAX_PATTERNS} patterns and \
             {MAX_COMPARISONS} comparisons are done: name a file, hub:OWNER/NAME:FILE",
            names.len()
        );
    }
    Ok(())
}

/// The files that any of the patterns means, each once, in the order of their names.
pub(super) fn matching(patterns: &[String], names: &[String]) -> Result<Vec<String>> {
    let mut matches = Vec::new();
    for pattern in patterns {
        if pattern.len() > MAX_PATTERN {
            bail!("README.md: a pattern of `data_files` has more than {MAX_PATTERN} bytes");
        }
        let glob = glob(pattern).with_context(|| {
            let shown: String = pattern.chars().take(80).collect();
            format!("README.md: `{shown}` of `data_files` is no pattern")
        })?;
        let means = |name: &str| {
            glob.is_match(name) && special(name) == special(pattern) && !is_description(name)
        };
        matches.extend(names.iter().filter(|name| *name == pattern || means(name)).cloned());
    }
    matches.sort();
    matches.dedup();
    Ok(matches)
}

/// The regular expression of a glob pattern: `*` and `?` stay in a folder, `**` is any number of folders, `[a-z]` and
/// `[!a-z]` are sets. None where it is too large or holds a set that is none. Matching takes time in proportion to the
/// name.
fn glob(pattern: &str) -> Option<Regex> {
    let mut regex = String::from("^");
    let parts: Vec<&str> = pattern.split('/').collect();
    for (index, part) in parts.iter().enumerate() {
        let is_last = index + 1 == parts.len();
        match (*part, is_last) {
            ("**", true) => regex.push_str(".+"),
            ("**", false) => regex.push_str("(?:.+/)?"),
            (part, _) => {
                push_part(&mut regex, part);
                regex.push_str(if is_last { "" } else { "/" });
            }
        }
    }
    RegexBuilder::new(&(regex + "$")).size_limit(MAX_PROGRAM).build().ok()
}

/// Adds what one part of a path means.
fn push_part(regex: &mut String, part: &str) {
    let mut left = part;
    while let Some(first) = left.chars().next() {
        left = &left[first.len_utf8()..];
        let negated = left.starts_with('!');
        // A bracket that comes first is a member of the set.
        let start = usize::from(negated);
        let end = left.char_indices().skip(start + 1).find(|(_, c)| *c == ']').map(|(at, _)| at);
        match (first, end) {
            ('*', _) => regex.push_str("[^/]*"),
            ('?', _) => regex.push_str("[^/]"),
            ('[', Some(end)) => {
                regex.push_str(if negated { "[^/" } else { "[" });
                for c in left[start..end].chars() {
                    if "\\[]^&~".contains(c) {
                        regex.push('\\');
                    }
                    regex.push(c);
                }
                regex.push(']');
                left = &left[end + 1..];
            }
            (other, _) => regex.push_str(&regex::escape(other.encode_utf8(&mut [0; 4]))),
        }
    }
}

/// How many parts of a path are hidden, and how many of its folders begin with two underscores: only who names those
/// means them.
pub(super) fn special(path: &str) -> (usize, usize) {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let count = |path: &str, start: &str| path.split('/').filter(|p| p.starts_with(start)).count();
    (count(path, "."), count(folders, "__"))
}

/// Whether a file describes the dataset and is none of its data.
pub(super) fn is_description(name: &str) -> bool {
    DESCRIPTIONS.contains(&name.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_they_mean_to_datasets() {
        let names = [
            "a.csv",
            "d/a.csv",
            "d/e/b-1.csv",
            "d/[x].csv",
            "d/ü.csv",
            "d/{a}.csv",
            ".h/a.csv",
            "d/README.md",
        ];
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        for (pattern, expected) in [
            ("*.csv", &["a.csv"][..]),
            ("**/a.csv", &["a.csv", "d/a.csv"]),
            ("d/**", &["d/[x].csv", "d/a.csv", "d/e/b-1.csv", "d/{a}.csv", "d/ü.csv"]),
            ("**/*[-._ 0-9]1.csv", &["d/e/b-1.csv"]),
            ("d/?.csv", &["d/a.csv", "d/ü.csv"]),
            ("d/[!a].csv", &["d/ü.csv"]),
            ("d/[[]x].csv", &["d/[x].csv"]),
            ("d/{a}.csv", &["d/{a}.csv"]),
            (".h/*", &[".h/a.csv"]),
            ("d/README.md", &["d/README.md"]),
            ("d[!a]a.csv", &[]),
        ] {
            assert_eq!(matching(&[pattern.to_owned()], &names).unwrap(), expected, "{pattern}");
        }
        assert!(matching(&["[z-a]".into()], &names).is_err());
    }

    #[test]
    fn the_number_of_patterns_is_bounded() {
        let names = vec!["a.csv".to_owned(); 10_000];
        assert!(check_number(1_000, &names).is_ok() && check_number(10_000, &names[..10]).is_ok());
        for (patterns, files) in [(1_001, 10_000), (10_001, 1), (usize::MAX, 2)] {
            let message = check_number(patterns, &names[..files]).unwrap_err().to_string();
            assert!(message.contains("name a file"), "{message}");
        }
    }
}
