//! The names of a dataset's files to splits: those of the Hub's conversion to Parquet by their folders, others by what
//! the README declares.
//!
//! The conversion has neither formats nor patterns to guess, but not every dataset has one: a private dataset, a tag or
//! commit other than the main branch, a server other than the Hub. `datasets.push_to_hub` leaves such a dataset as
//! shards `main/train-00000-of-00004.parquet`, whose split only its README tells (`path: main/train-*`), or before
//! version 2.14 as `data/train-00000-of-00004.parquet` without a README. What else a file is called is not guessed at:
//! one file is named by its name, `hub:OWNER/NAME:FILE`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use regex::Regex;
use tealight_core::display::shortened;
use tealight_core::names;

use super::front_matter;
use super::patterns::matching;

/// The configuration of files whose names alone tell their split.
const UNNAMED: &str = "default";
/// Patterns of a configuration that are matched.
const MAX_PATTERNS: usize = 1000;
/// Names that an error lists.
const SHOWN: usize = 20;
/// `data/SPLIT-00000-of-00002.EXTENSION`.
static SHARDED: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^data/([^/]+)-[0-9]{5}-of-[0-9]{5}[^/]*\.[^/]*$").expect("a regular expression")
});

/// A split and its files, in the order in which they are read.
#[derive(Debug, PartialEq)]
pub(super) struct Split {
    pub(super) name: String,
    pub(super) files: Vec<String>,
}

/// One configuration of a dataset, with the splits of which files can be read.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) config: String,
    pub(super) splits: Vec<Split>,
}

/// The configuration `requested` of a repository with these files, or its default. It has no split where the files are
/// of other formats, or where neither README nor names tell of that configuration.
pub(super) fn declared(readme: &str, names: &[String], requested: Option<&str>) -> Result<Offer> {
    let mut configs = front_matter::configs(readme)?;
    if configs.is_empty() {
        let config = requested.unwrap_or(UNNAMED).to_owned();
        let splits = if config == UNNAMED { sharded(names) } else { Vec::new() };
        return Ok(Offer { config, splits });
    }
    let listed: Vec<_> = configs.iter().map(|c| (c.name.as_str(), c.is_default)).collect();
    let config = configs.swap_remove(picked(&listed, requested)?);
    let patterns: usize = config.splits.iter().map(|(_, patterns)| patterns.len().max(1)).sum();
    if patterns > MAX_PATTERNS {
        bail!("README.md: {patterns} patterns in one configuration, more than {MAX_PATTERNS}");
    }
    let split = |(name, patterns): (String, Vec<String>)| {
        Ok(Split { files: matching(&patterns, names)?, name })
    };
    let splits = config.splits.into_iter().map(split).collect::<Result<_>>()?;
    Ok(Offer { config: config.name, splits: readable(splits) })
}

/// The configuration `requested` of a conversion to Parquet, or its default: `CONFIG/SPLIT/0000.parquet`.
pub(super) fn converted(names: &[String], requested: Option<&str>) -> Result<Offer> {
    let mut configs: BTreeMap<&str, BTreeMap<&str, Vec<String>>> = BTreeMap::new();
    for name in names.iter().filter(|name| name.ends_with(".parquet")) {
        let parts: Vec<&str> = name.split('/').collect();
        if let [config, split, _] = parts[..] {
            configs.entry(config).or_default().entry(split).or_default().push(name.clone());
        }
    }
    if configs.is_empty() {
        bail!("it holds no CONFIG/SPLIT/0000.parquet");
    }
    let listed: Vec<_> = configs.keys().map(|name| (*name, false)).collect();
    let config = listed[picked(&listed, requested)?].0;
    let splits = configs.remove(config).unwrap_or_default();
    Ok(Offer { config: config.into(), splits: in_order(splits) })
}

/// The splits of files called `data/SPLIT-00000-of-00002.parquet`.
fn sharded(names: &[String]) -> Vec<Split> {
    let mut splits: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for name in names {
        if let Some(split) = SHARDED.captures(name).and_then(|found| found.get(1)) {
            splits.entry(split.as_str()).or_default().push(name.clone());
        }
    }
    readable(in_order(splits))
}

fn in_order(splits: BTreeMap<&str, Vec<String>>) -> Vec<Split> {
    let split = |(name, mut files): (&str, Vec<String>)| {
        files.sort();
        Split { name: name.into(), files }
    };
    splits.into_iter().map(split).collect()
}

/// The splits, without files that are of no format that is read, or that pack another one.
fn readable(mut splits: Vec<Split>) -> Vec<Split> {
    for split in &mut splits {
        let all: BTreeSet<String> = split.files.iter().cloned().collect();
        let bare =
            |file: &str| file.strip_suffix(".gz").or(file.strip_suffix(".zst")).map(str::to_owned);
        let is_there = |file: &String| bare(file).is_some_and(|bare| all.contains(&bare));
        split.files.retain(|file| names::is_of_dataset(file) && !is_there(file));
    }
    splits.retain(|split| !split.files.is_empty());
    splits
}

impl Offer {
    /// The split `requested`; without one the only split, or `train`.
    pub(super) fn split(&self, requested: Option<&str>) -> Result<&Split> {
        let named = |name: &str| self.splits.iter().find(|split| split.name == name);
        let chosen = match (requested, &self.splits[..]) {
            (Some(name), _) => named(name),
            (None, [only]) => Some(only),
            (None, _) => named("train"),
        };
        chosen.with_context(|| {
            let requested =
                requested.map_or("more than one split".into(), |name| format!("no split `{name}`"));
            format!("{requested} in configuration `{}`; there is: {}", self.config, self.list())
        })
    }

    /// The names of the splits.
    pub(super) fn list(&self) -> String {
        listing(self.splits.iter().map(|split| split.name.as_str()))
    }
}

fn listing<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let count = names.len();
    let names: Vec<String> = names.take(SHOWN).map(|name| shortened(name, 80)).collect();
    let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
    names.join(", ") + &more
}

/// The index of the configuration `requested`, or of the default one: the only one, or the one that says so.
fn picked(configs: &[(&str, bool)], requested: Option<&str>) -> Result<usize> {
    let chosen = match requested {
        Some(requested) => configs.iter().position(|(name, _)| *name == requested),
        None if configs.len() == 1 => Some(0),
        None => configs.iter().position(|(name, is_default)| *is_default || *name == UNNAMED),
    };
    chosen.with_context(|| {
        let names = listing(configs.iter().map(|(name, _)| *name));
        match requested {
            Some(requested) => format!("no configuration `{requested}`; there is: {names}"),
            None => format!("name a configuration, OWNER/NAME/CONFIG; there is: {names}"),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The splits as `SPLIT:FILE,FILE`.
    fn shown(offer: &Offer) -> Vec<String> {
        offer
            .splits
            .iter()
            .map(|split| format!("{}:{}", split.name, split.files.join(",")))
            .collect()
    }

    #[test]
    fn shards_in_a_folder_data_tell_their_split() {
        let files = names(&[
            "README.md",
            "data/train-00001-of-00002-ab.parquet",
            "data/train-00000-of-00002-ab.parquet",
            "data/test-00000-of-00001.parquet",
            "data/test-00000-of-00001.parquet.sha256",
            "train.jsonl",
        ]);
        let offer = declared("", &files, None).unwrap();
        assert_eq!(
            shown(&offer),
            [
                "test:data/test-00000-of-00001.parquet",
                "train:data/train-00000-of-00002-ab.parquet,data/train-00001-of-00002-ab.parquet",
            ]
        );
        // Other names are not guessed at.
        assert!(declared("", &names(&["train.jsonl", "dev.csv"]), None).unwrap().splits.is_empty());
    }

    #[test]
    fn declared_configurations_are_chosen_and_matched() {
        let readme = "---\nconfigs:\n- config_name: main\n  data_files:\n  - {split: train, path: 'main/*'}\n  - {split: test, path: ['**/t?.csv', .x/y.csv]}\n\
            - config_name: sub\n  data_dir: d\n  data_files: train.*\n- config_name: none\n  data_dir: d\n---\n";
        let files = names(&[
            "main/b.csv",
            "main/a.csv",
            "main/.z.csv",
            "main/in/t1.csv",
            "t2.csv",
            ".x/y.csv",
            "d/train.csv",
            "d/train.csv.gz",
        ]);
        let offer = |config| declared(readme, &files, config).unwrap();
        assert_eq!(
            shown(&offer(Some("main"))),
            ["train:main/a.csv,main/b.csv", "test:.x/y.csv,main/in/t1.csv,t2.csv"]
        );
        assert_eq!(shown(&offer(Some("sub"))), ["train:d/train.csv"]);
        assert!(offer(Some("none")).splits.is_empty());
        let refused = |config| format!("{:#}", declared(readme, &files, config).unwrap_err());
        assert!(refused(None).ends_with("there is: main, sub, none"), "{}", refused(None));
        assert!(refused(Some("x")).contains("`x`; there is: main, sub, none"));
        let offer = offer(Some("main"));
        assert_eq!(offer.split(None).unwrap().name, "train");
        assert!(
            offer.split(Some("dev")).unwrap_err().to_string().ends_with("there is: train, test")
        );
        let readme = readme.replace("config_name: sub", "config_name: sub\n  default: true");
        assert_eq!(declared(&readme, &files, None).unwrap().config, "sub");
        assert!(declared("", &files, Some("main")).unwrap().splits.is_empty());
        let packed = names(&["data/train-00000-of-00001.jsonl.gz", "data/train.parquet.gz"]);
        let offer = declared("", &packed, None).unwrap();
        assert_eq!(shown(&offer), ["train:data/train-00000-of-00001.jsonl.gz"]);
    }

    #[test]
    fn a_conversion_is_read_by_its_folders() {
        let files = names(&[
            "b/test/0000.parquet",
            "a/train/0001.parquet",
            "a/train/0000.parquet",
            "a/x.parquet",
            "README.md",
        ]);
        assert_eq!(
            shown(&converted(&files, Some("a")).unwrap()),
            ["train:a/train/0000.parquet,a/train/0001.parquet"]
        );
        assert!(converted(&files, None).unwrap_err().to_string().ends_with("there is: a, b"));
        assert!(converted(&names(&["README.md"]), None).is_err());
    }

    #[test]
    fn hostile_patterns_and_names_are_refused_or_harmless() {
        let with = |pattern: &str, files: &[&str]| {
            let readme =
                format!("---\nconfigs:\n- config_name: a\n  data_files: '{pattern}'\n---\n");
            declared(&readme, &names(files), None)
        };
        for pattern in ["[z-a]", &"a*".repeat(600)] {
            assert!(
                format!("{:#}", with(pattern, &["a.csv"]).unwrap_err()).contains("README.md"),
                "{pattern}"
            );
        }
        let many = (0..100_000).map(|n| format!("p{n}")).collect::<Vec<_>>().join(", ");
        let readme = format!("---\nconfigs:\n- config_name: a\n  data_files: [{many}]\n---\n");
        let message = declared(&readme, &names(&["a.csv"]), None).unwrap_err().to_string();
        assert!(message.contains("more than 1000"), "{message}");
        // No backtracking: this would last for ever.
        let long = "a".repeat(200) + ".csv";
        assert!(with(&"*a".repeat(100), &[&long]).unwrap().splits.is_empty());
        for pattern in ["/etc/passwd", "../x.csv", "https://elsewhere.org/x.csv", "hf://a/b.csv"] {
            assert!(with(pattern, &["x.csv"]).unwrap().splits.is_empty(), "{pattern}");
        }
        let many: Vec<String> = (0..50).map(|n| format!("c{n}/train/0000.parquet")).collect();
        let message = converted(&many, None).unwrap_err().to_string();
        assert!(message.ends_with("c26 and 30 more"), "{message}");
    }
}
