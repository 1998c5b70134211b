//! The Hub's datasets of `--dataset` to files in the cache: the files of a split, or one file by its name.
//!
//! The conversion to Parquet that the Hub keeps in a branch of its own comes first, then what the README declares. A
//! README and names are untrusted: they are read with bounds on memory and time, and a name becomes a path as those of
//! models do.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use regex::Regex;
use tealight_core::names::{self, FORMATS};

use super::cache::Listing;
use super::client::NotFound;
use super::repository::Repository;
use super::splits::{self, Offer};
use tealight_system::{budget, files};

/// The branch with the conversion.
const CONVERTED: &str = "refs/convert/parquet";
/// Largest README, in bytes.
const MAX_README: u64 = 16 << 20;
/// Memory to read a README and match its patterns, in bytes.
const MEMORY: usize = 1 << 30;
/// Time for the same.
const TIME: Duration = Duration::from_secs(10);
/// Files of a split that are fetched.
const MAX_FILES: usize = 4096;
const FORM: &str = "a dataset on the Hub is named OWNER/NAME[/CONFIG][@REVISION][:SPLIT], one file of it hub:OWNER/NAME[@REVISION]:FILE";

/// A dataset's repository with the configuration and split that are read.
#[derive(Debug, PartialEq)]
pub struct HubDataset {
    id: String,
    config: Option<String>,
    revision: String,
    part: Part,
}

#[derive(Debug, PartialEq)]
enum Part {
    File(String),
    Split(Option<String>),
}

/// Files in the cache.
#[derive(Debug)]
pub struct Fetched {
    /// In the order in which they are read.
    pub files: Vec<PathBuf>,
    /// Which split they are, to be shown.
    pub note: Option<String>,
}

impl HubDataset {
    /// The dataset that `spec` names on the Hub; none where it names a file. `hub:` before it
    /// says that the Hub is meant whatever is here.
    ///
    /// # Errors
    /// `hub:` before another form, a name that could be of a file here as well, a part of a split.
    pub fn parse(spec: &str) -> Result<Option<Self>> {
        let explicit = spec.strip_prefix("hub:");
        let Some(dataset) = Self::parse_path(explicit.unwrap_or(spec)) else {
            return if explicit.is_some() { bail!("`{spec}`: {FORM}") } else { Ok(None) };
        };
        let owner = dataset.id.split('/').next().unwrap_or_default();
        if explicit.is_none() {
            // A path that is not there is no dataset of the Hub either.
            let is_path = !spec.contains(':') && names::is_of_dataset(spec);
            if is_path || Path::new(spec).exists() {
                return Ok(None);
            }
            if Path::new(owner).is_dir() {
                bail!(
                    "dataset `{spec}`: {owner} has no such file; if the Hub's dataset is meant, name it hub:{spec}"
                );
            }
        }
        match &dataset.part {
            Part::Split(Some(split)) if split.contains('[') => bail!(
                "dataset `{spec}`: a part of a split cannot be named; name the split, and give --max-samples N for its first N"
            ),
            _ => Ok(Some(dataset)),
        }
    }

    fn parse_path(text: &str) -> Option<Self> {
        let (path, part) =
            text.split_once(':').map_or((text, None), |(path, part)| (path, Some(part)));
        let (path, revision) = path.split_once('@').unwrap_or((path, "main"));
        let mut parts = path.splitn(3, '/');
        let (owner, name, config) = (parts.next()?, parts.next()?, parts.next());
        let id = format!("{owner}/{name}");
        let has_empty = [part, config, Some(revision)].contains(&Some(""));
        if !names::is_repository(&id)
            || config.is_some_and(|config| config.contains('/'))
            || has_empty
        {
            return None;
        }
        let part = match part {
            Some(file) if file.contains('/') || names::is_of_dataset(file) => {
                Part::File(file.into())
            }
            split => Part::Split(split.map(str::to_owned)),
        };
        let is_whole = config.is_none() || matches!(part, Part::Split(_));
        is_whole.then(|| Self {
            id,
            config: config.map(str::to_owned),
            revision: revision.into(),
            part,
        })
    }

    /// The files, from the cache or the network.
    ///
    /// # Errors
    /// No such repository, configuration, split or file; no network, no permission; a README that cannot be read.
    pub fn fetch(&self) -> Result<Fetched> {
        let repository = Repository::new("datasets", &self.id, &self.revision)?;
        match &self.part {
            Part::File(file) => Ok(Fetched { files: vec![repository.fetch(file)?], note: None }),
            Part::Split(split) => self.fetch_split(&repository, split.as_deref()),
        }
    }

    fn fetch_split(&self, main: &Repository, requested: Option<&str>) -> Result<Fetched> {
        let converted = self.converted(main)?;
        let offers = |offer: &Offer| offer.split(requested).is_ok();
        if let Some(source) = &converted
            && source.offer.as_ref().is_ok_and(offers)
        {
            return source.fetch(requested, " of the Hub's conversion to Parquet");
        }
        // A configuration that could not be converted, or of which only the first 5 GB were.
        let own = self.declared(main)?;
        match (converted, &own.offer) {
            (Some(source), Ok(offer)) if offer.splits.is_empty() => source.fetch(requested, ""),
            (None, Ok(offer)) if offer.splits.is_empty() => bail!(
                "{}: no conversion to Parquet, and no {FORMATS} file that its README declares as \
                 a split of configuration `{}`; name a file, hub:OWNER/NAME:FILE",
                main.shown(),
                offer.config
            ),
            _ => own.fetch(requested, ""),
        }
    }

    /// The splits that README and names of files offer.
    fn declared(&self, main: &Repository) -> Result<Source> {
        let listing = main.listing()?;
        let repository = main.at_revision(&listing.commit)?;
        let readme = match listing.files.iter().any(|file| file == "README.md") {
            true => {
                files::read_text(&repository.fetch_at_most("README.md", MAX_README)?, MAX_README)?
            }
            false => String::new(),
        };
        let config = self.config.clone();
        let offer = bounded(main, &listing, move |names| {
            splits::declared(&readme, names, config.as_deref())
        });
        Ok(Source { repository, listing, offer })
    }

    /// The splits that the conversion offers, which is of the main branch; none where there is no conversion.
    fn converted(&self, main: &Repository) -> Result<Option<Source>> {
        if self.revision != "main" {
            return Ok(None);
        }
        let branch = main.at_revision(CONVERTED)?;
        // Where the main branch was listed before, the conversion was asked for and did not do.
        let is_known = super::is_offline() || main.folder.listing().is_some();
        if is_known && branch.folder.commit().is_none() {
            return Ok(None);
        }
        let listing = match branch.listing() {
            Err(error) if error.is::<NotFound>() => return Ok(None),
            listing => listing?,
        };
        let repository = branch.at_revision(&listing.commit)?;
        let config = self.config.clone();
        let offer =
            bounded(&branch, &listing, move |names| splits::converted(names, config.as_deref()));
        Ok(Some(Source { repository, listing, offer }))
    }
}

/// Where splits come from.
struct Source {
    repository: Repository,
    listing: Listing,
    offer: Result<Offer>,
}

impl Source {
    /// Fetches the files of a split; `from` says in the note where they are from.
    fn fetch(&self, requested: Option<&str>, from: &str) -> Result<Fetched> {
        let Self { repository, listing, offer } = self;
        let offer = offer.as_ref().map_err(|error| anyhow!("{error:#}"))?;
        let split = offer.split(requested).with_context(|| repository.shown())?;
        if split.files.len() > MAX_FILES {
            bail!(
                "split `{}` has {} files, more than {MAX_FILES}: name one, hub:OWNER/NAME:FILE",
                split.name,
                split.files.len()
            );
        }
        if !listing.is_whole {
            refuse_missing(&split.files).with_context(|| repository.shown())?;
        }
        let files = split.files.iter().map(|file| repository.fetch(file)).collect::<Result<_>>()?;
        let (name, config) = (&split.name, &offer.config);
        let note =
            format!("split `{name}` of configuration `{config}`{from}; splits: {}", offer.list());
        Ok(Fetched { files, note: Some(note) })
    }
}

/// Reads untrusted text in bounded memory and time.
fn bounded(
    repository: &Repository,
    listing: &Listing,
    work: impl FnOnce(&[String]) -> Result<Offer> + Send + 'static,
) -> Result<Offer> {
    let names = listing.files.clone();
    budget::within_time(&repository.shown(), MEMORY, TIME, move || work(&names))
        .with_context(|| repository.shown())
}

/// Finds splits by a README and, after a zero byte, the names of files: for `fuzzing`.
pub fn try_readme(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (readme, files) = text.split_once('\0').unwrap_or((&text, "train.jsonl"));
    let files: Vec<String> = files.lines().map(str::to_owned).collect();
    for config in [None, Some("a")] {
        for offer in [splits::declared(readme, &files, config), splits::converted(&files, config)] {
            let splits = offer.map_or(Vec::new(), |offer| offer.splits);
            let mut found = splits.iter().flat_map(|split| &split.files);
            assert!(found.all(|file| files.contains(file)), "a file that is not there");
        }
    }
}

/// Of a snapshot that another client made it is not known what it lacks, but for shards that say how many they are.
fn refuse_missing(files: &[String]) -> Result<()> {
    static SHARD: LazyLock<Regex> =
        LazyLock::new(|| Regex::new("^(.*)-[0-9]{5}-of-([0-9]{5})").expect("a regular expression"));
    for file in files {
        let Some(shard) = SHARD.captures(file) else { continue };
        let of_set = |other: &&String| {
            SHARD
                .captures(other)
                .is_some_and(|other| (&other[1], &other[2]) == (&shard[1], &shard[2]))
        };
        let there = files.iter().filter(of_set).count();
        if shard[2].parse::<usize>()? != there {
            bail!(
                "{there} of the {} files `{}-...` are in the cache, and HF_HUB_OFFLINE forbids downloading the others",
                &shard[2],
                &shard[1]
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(spec: &str) -> Option<HubDataset> {
        HubDataset::parse(spec).unwrap()
    }

    #[test]
    fn names_are_told_from_files_and_sources() {
        let dataset = |config: Option<&str>, revision: &str, part| HubDataset {
            id: "openai/gsm8k".into(),
            config: config.map(str::to_owned),
            revision: revision.into(),
            part,
        };
        let split = |name: &str| Part::Split(Some(name.into()));
        for (spec, expected) in [
            ("openai/gsm8k", dataset(None, "main", Part::Split(None))),
            ("openai/gsm8k:test", dataset(None, "main", split("test"))),
            ("hub:openai/gsm8k/main@v1:test", dataset(Some("main"), "v1", split("test"))),
            ("openai/gsm8k@refs/pr/1:a.b", dataset(None, "refs/pr/1", split("a.b"))),
            ("hub:openai/gsm8k:a.jsonl", dataset(None, "main", Part::File("a.jsonl".into()))),
            ("openai/gsm8k@x:a/b.txt", dataset(None, "x", Part::File("a/b.txt".into()))),
        ] {
            assert_eq!(parsed(spec), Some(expected), "{spec}");
        }
        // Sources, files, and paths that are not there.
        for spec in [
            "Cargo.toml",
            "data/x.jsonl",
            "a/b/c.csv",
            "./a/b",
            "/a/b",
            "~/a",
            "a/b/c/d",
            "gsm8k",
            "a/b:",
            "a/b/",
            "a/b@",
        ] {
            assert_eq!(parsed(spec), None, "{spec}");
        }
        let refused = |spec| HubDataset::parse(spec).unwrap_err().to_string();
        assert!(refused("src/nothing").ends_with("name it hub:src/nothing"));
        assert!(parsed("hub:src/nothing").is_some());
        assert!(refused("a/b:train[:10%]").contains("--max-samples"));
        for spec in ["hub:team", "hub:a/b/c:d/e.csv", "hub:../x:y", "hub:a/b:"] {
            assert!(refused(spec).contains("hub:OWNER/NAME"), "{spec}");
        }
    }

    #[test]
    fn missing_shards_are_noticed() {
        let names =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let first = "data/train-00000-of-00002-ab.parquet";
        assert!(
            refuse_missing(&names(&[first, "data/train-00001-of-00002-cd.parquet", "x.csv"]))
                .is_ok()
        );
        let message = refuse_missing(&names(&[first])).unwrap_err().to_string();
        assert!(message.contains("1 of the 00002 files `data/train-...`"), "{message}");
    }
}
