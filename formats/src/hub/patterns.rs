//! The glob patterns of a README to the names that they mean: as the `datasets` library resolves them.

use anyhow::{Context, Result, bail};
use globset::{GlobBuilder, GlobSet};
use tealight_core::display::shortened;

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

/// The files that any of the patterns means, each once, in the order of their names. `*` and `?` stay in a folder, `**`
/// is any number of folders, `[a-z]` and `[!a-z]` are sets. Matching takes time in proportion to the names.
pub(super) fn matching(patterns: &[String], names: &[String]) -> Result<Vec<String>> {
    let globs = compiled(patterns)?;
    refuse_partial_characters(patterns, names)?;
    let means = |name: &String| {
        let by_pattern = |index: &usize| special(name) == special(&patterns[*index]);
        patterns.contains(name)
            || (!is_description(name) && globs.matches(name).iter().any(by_pattern))
    };
    let mut matches: Vec<String> = names.iter().filter(|name| means(name)).cloned().collect();
    matches.sort();
    matches.dedup();
    Ok(matches)
}

fn compiled(patterns: &[String]) -> Result<GlobSet> {
    let mut globs = GlobSet::builder();
    for pattern in patterns {
        if pattern.len() > MAX_PATTERN {
            bail!("README.md: a pattern of `data_files` has more than {MAX_PATTERN} bytes");
        }
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        globs.add(glob.with_context(|| {
            format!("README.md: `{}` of `data_files` is no pattern", shortened(pattern, 80))
        })?);
    }
    globs.build().context("README.md: the patterns of `data_files` are too large")
}

/// Refuses patterns that globset would read otherwise: its `?` and its sets stand for a byte, those of the `datasets`
/// library for a character.
fn refuse_partial_characters(patterns: &[String], names: &[String]) -> Result<()> {
    let mut others: Vec<&str> =
        names.iter().map(String::as_str).filter(|name| !name.is_ascii()).collect();
    others.sort_unstable();
    for pattern in patterns.iter().filter(|pattern| pattern.contains(['?', '['])) {
        // In order, so that many patterns and many names take no time: what begins alike stands together.
        let fixed = pattern.split(['*', '?', '[']).next().unwrap_or_default();
        let first = others.partition_point(|name| *name < fixed);
        if let Some(name) = others.get(first).filter(|name| name.starts_with(fixed)) {
            bail!(
                "README.md: `?` and `[...]` of the pattern `{pattern}` are for names in ASCII, and {name:?} is none: \
                 name a file, hub:OWNER/NAME:FILE"
            );
        }
    }
    Ok(())
}

/// How many parts of a path are hidden, and how many of its folders begin with two underscores: only who names those
/// means them.
fn special(path: &str) -> (usize, usize) {
    let folders = path.rsplit_once('/').map_or("", |(folders, _)| folders);
    let count = |path: &str, start: &str| path.split('/').filter(|p| p.starts_with(start)).count();
    (count(path, "."), count(folders, "__"))
}

/// Whether a file describes the dataset and is none of its data.
fn is_description(name: &str) -> bool {
    DESCRIPTIONS.contains(&name.rsplit('/').next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_hugging_face_datasets() {
        let names = [
            "a.csv",
            "d/a.csv",
            "d/e/b-1.csv",
            "d/[x].csv",
            "d/b.csv",
            "ü/a.csv",
            "__d/a.csv",
            ".h/a.csv",
            "d/README.md",
        ];
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        for (pattern, expected) in [
            ("*.csv", &["a.csv"][..]),
            ("**/a.csv", &["a.csv", "d/a.csv", "ü/a.csv"]),
            ("ü/*", &["ü/a.csv"]),
            ("d/**", &["d/[x].csv", "d/a.csv", "d/b.csv", "d/e/b-1.csv"]),
            ("d/**/*[-._ 0-9]1.csv", &["d/e/b-1.csv"]),
            ("d/?.csv", &["d/a.csv", "d/b.csv"]),
            ("d/[!a].csv", &["d/b.csv"]),
            ("d/[[]x].csv", &["d/[x].csv"]),
            ("__d/*", &["__d/a.csv"]),
            (".h/*", &[".h/a.csv"]),
            ("d/README.md", &["d/README.md"]),
            ("d[!a]a.csv", &[]),
        ] {
            assert_eq!(matching(&[pattern.to_owned()], &names).unwrap(), expected, "{pattern}");
        }
        assert!(matching(&["[z-a]".into()], &names).is_err());
        for pattern in ["?/a.csv", "**/[a-z].csv"] {
            let error = matching(&[pattern.to_owned()], &names).unwrap_err().to_string();
            assert!(error.contains("ASCII"), "{error}");
        }
        let both = ["**/a.csv".to_owned(), "*.csv".to_owned()];
        assert_eq!(matching(&both, &names).unwrap(), ["a.csv", "d/a.csv", "ü/a.csv"]);
    }
}
