//! The names of a dataset's files, and what its README declares, to splits: as the `datasets` library finds them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::LazyLock;

use anyhow::{Context, Result, bail};
use regex::Regex;
use tealight_datasets::read;

use super::front_matter::{self, Config, DataFiles};
use super::patterns::{check_number, is_description, matching, special};

/// The configuration of files whose names alone say their split.
const UNNAMED: &str = "default";
/// Words in a name that tell its split.
const KEYWORDS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];
/// Extensions of what is never data.
const NO_DATA: [&str; 5] = ["md", "py", "yaml", "yml", "ipynb"];
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
///
/// # Errors
/// A README that cannot be read, a declared configuration that is not there, a choice among several.
pub(super) fn offered(readme: &str, names: &[String], requested: Option<&str>) -> Result<Offer> {
    let mut configs = front_matter::configs(readme)?;
    if configs.is_empty() {
        let name = requested.unwrap_or(UNNAMED);
        let of_names = || splits(&DataFiles::Folder(String::new()), names);
        let splits = if name == UNNAMED { of_names()? } else { Vec::new() };
        return Ok(Offer { config: name.into(), splits });
    }
    let listed: Vec<_> = configs.iter().map(|c| (c.name.as_str(), c.is_default)).collect();
    let Config { name, files, .. } = configs.swap_remove(picked(&listed, requested)?);
    Ok(Offer { splits: splits(&files, names)?, config: name })
}

/// The configuration `requested` of a conversion to Parquet, or its default: `CONFIG/SPLIT/0000.parquet`.
///
/// # Errors
/// A configuration that is not there, a choice among several, no file of that form.
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
    let splits = configs.remove(config).unwrap_or_default().into_iter();
    let splits = splits.map(|(name, mut files)| {
        files.sort();
        Split { name: name.into(), files }
    });
    Ok(Offer { config: config.into(), splits: splits.collect() })
}

impl Offer {
    /// The split `requested`; without one the only split, or `train`.
    ///
    /// # Errors
    /// It is not there, or there are several.
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
    let shorten = |name: &str| name.chars().take(80).collect::<String>();
    let names: Vec<String> = names.take(SHOWN).map(shorten).collect();
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

/// The splits of which files are of the format that most files have, if that one can be read.
fn splits(files: &DataFiles, names: &[String]) -> Result<Vec<Split>> {
    let mut splits = match files {
        DataFiles::Folder(folder) => inferred(folder, names),
        DataFiles::Patterns(patterns) => {
            check_number(patterns.iter().map(|(_, patterns)| patterns.len()).sum(), names)?;
            let split = |(name, patterns): &(String, Vec<String>)| {
                Ok(Split { name: name.clone(), files: matching(patterns, names)? })
            };
            patterns.iter().map(split).collect::<Result<Vec<_>>>()?
        }
    };
    let mut counts: HashMap<&str, usize> = HashMap::new();
    for file in splits.iter().flat_map(|split| &split.files) {
        *counts.entry(format(file)).or_default() += 1;
    }
    let rank = |format: &str| ["parquet", "json", "csv"].iter().position(|own| *own == format);
    let most = counts.iter().max_by_key(|(format, count)| {
        (**count, Reverse(rank(format).unwrap_or(usize::MAX)), Reverse(**format))
    });
    let most = most.map(|(format, _)| (*format).to_owned()).unwrap_or_default();
    for split in &mut splits {
        split.files.retain(|file| format(file) == most && read::is_readable(file));
    }
    splits.retain(|split| !split.files.is_empty());
    Ok(splits)
}

/// The last extension of a name; that of both kinds of JSON is one.
fn format(name: &str) -> &str {
    let last = name.rsplit('/').next().unwrap_or_default();
    match last.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "jsonl" | "ndjson" => "json",
        other => other,
    }
}

/// The splits that the names of the files of `folder` tell.
fn inferred(folder: &str, names: &[String]) -> Vec<Split> {
    let inside = |name: &'_ String| -> Option<String> {
        let inner =
            if folder.is_empty() { name } else { name.strip_prefix(folder)?.strip_prefix('/')? };
        let is_data = !NO_DATA.contains(&format(inner)) && !format(inner).is_empty();
        (is_data && special(inner) == (0, 0) && !is_description(inner)).then(|| inner.to_owned())
    };
    let mut inner: Vec<String> = names.iter().filter_map(inside).collect();
    inner.sort();
    let full =
        |inner: &str| if folder.is_empty() { inner.into() } else { format!("{folder}/{inner}") };
    let sharded =
        inner.iter().filter_map(|name| Some((SHARDED.captures(name)?[1].to_owned(), full(name))));
    let mut by_split: BTreeMap<String, Vec<String>> = BTreeMap::new();
    sharded.for_each(|(split, name)| by_split.entry(split).or_default().push(name));
    if !by_split.is_empty() {
        let mut splits: Vec<_> =
            by_split.into_iter().map(|(name, files)| Split { name, files }).collect();
        // Those that everybody knows first, in their order.
        let rank = |split: &Split| KEYWORDS.iter().position(|(name, _)| *name == split.name);
        splits.sort_by_key(|split| rank(split).unwrap_or(usize::MAX));
        return splits;
    }
    let has = |part: &str, words: &[&str]| {
        part.split(|c: char| "-._ 0123456789".contains(c)).any(|w| words.contains(&w))
    };
    let in_folders = |name: &str, words: &[&str]| {
        name.rsplit_once('/')
            .is_some_and(|(folders, _)| folders.split('/').any(|part| has(part, words)))
    };
    let in_name =
        |name: &str, words: &[&str]| has(name.rsplit('/').next().unwrap_or_default(), words);
    let by = |tells: &dyn Fn(&str, &[&str]) -> bool| {
        let split = |(name, words): &(&str, &[&str])| {
            let files =
                inner.iter().filter(|file| tells(file, words)).map(|file| full(file)).collect();
            Split { name: (*name).into(), files }
        };
        KEYWORDS.iter().map(split).filter(|split| !split.files.is_empty()).collect::<Vec<_>>()
    };
    let all =
        || Split { name: "train".into(), files: inner.iter().map(|file| full(file)).collect() };
    [by(&in_folders), by(&in_name), vec![all()]]
        .into_iter()
        .find(|found| !found.is_empty())
        .unwrap_or_default()
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

    fn found(files: &[&str]) -> Vec<String> {
        shown(&offered("", &names(files), None).unwrap())
    }

    #[test]
    fn names_tell_splits_as_in_datasets() {
        let noise = [
            "README.md",
            ".gitattributes",
            "dataset_infos.json",
            "LICENSE",
            "__x__/train.csv",
            "a.py",
        ];
        let with = |files: &[&str]| found(&[files, &noise].concat());
        assert_eq!(
            with(&[
                "data/x-00000-of-00001.parquet",
                "data/train-00001-of-00002-ab.parquet",
                "data/train-00000-of-00002-ab.parquet",
                "data/test-00000-of-00001.parquet"
            ]),
            [
                "train:data/train-00000-of-00002-ab.parquet,data/train-00001-of-00002-ab.parquet",
                "test:data/test-00000-of-00001.parquet",
                "x:data/x-00000-of-00001.parquet"
            ]
        );
        assert_eq!(
            with(&["train.jsonl", "dev.jsonl", "my-eval.json"]),
            ["train:train.jsonl", "validation:dev.jsonl", "test:my-eval.json"]
        );
        assert_eq!(
            with(&["train/a.csv", "test-2/b.csv", "other/c.csv"]),
            ["train:train/a.csv", "test:test-2/b.csv"]
        );
        assert_eq!(
            with(&["b.jsonl", "a.jsonl", "trained.jsonl"]),
            ["train:a.jsonl,b.jsonl,trained.jsonl"]
        );
        // The format that most files have, and none that cannot be read.
        assert_eq!(with(&["a.jsonl", "b.json", "c.csv"]), ["train:a.jsonl,b.json"]);
        assert_eq!(with(&["a.parquet", "c.csv"]), ["train:a.parquet"]);
        assert!(with(&["train.jsonl.gz", "test.jsonl.gz", "train.json"]).is_empty());
        assert!(with(&[]).is_empty());
    }

    #[test]
    fn declared_configurations_are_chosen_and_matched() {
        let readme = "---\nconfigs:\n- config_name: main\n  data_files:\n  - {split: train, path: 'main/*'}\n  - {split: test, path: ['**/t?.csv', .x/y.csv]}\n\
            - config_name: sub\n  data_dir: d\n---\n";
        let files = names(&[
            "main/b.csv",
            "main/a.csv",
            "main/.z.csv",
            "main/in/t1.csv",
            "t2.csv",
            ".x/y.csv",
            "d/train.csv",
            "d/q/test.csv",
            "d/q/README.md",
        ]);
        let offer = |config| offered(readme, &files, config).unwrap();
        assert_eq!(
            shown(&offer(Some("main"))),
            ["train:main/a.csv,main/b.csv", "test:.x/y.csv,main/in/t1.csv,t2.csv"]
        );
        assert_eq!(shown(&offer(Some("sub"))), ["train:d/train.csv", "test:d/q/test.csv"]);
        let refused = |config| format!("{:#}", offered(readme, &files, config).unwrap_err());
        assert!(refused(None).ends_with("there is: main, sub"), "{}", refused(None));
        assert!(refused(Some("x")).contains("`x`; there is: main, sub"));
        let offer = offer(Some("main"));
        assert_eq!(offer.split(None).unwrap().name, "train");
        assert!(
            offer.split(Some("dev")).unwrap_err().to_string().ends_with("there is: train, test")
        );
        let readme = readme.replace("config_name: sub", "config_name: sub\n  default: true");
        assert_eq!(offered(&readme, &files, None).unwrap().config, "sub");
        // A script's configurations are not told by names.
        assert!(offered("", &files, Some("main")).unwrap().splits.is_empty());
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
            offered(&readme, &names(files), None)
        };
        for pattern in ["[z-a]", &"a*".repeat(600)] {
            assert!(
                format!("{:#}", with(pattern, &["a.csv"]).unwrap_err()).contains("README.md"),
                "{pattern}"
            );
        }
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
