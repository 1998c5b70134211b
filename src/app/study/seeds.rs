//! Seeds of a study, `3` or `0..4`, on the command line and in TOML.

use std::collections::HashSet;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize, Serializer};

/// A seed, or a range of them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "SeedEntry")]
pub struct Seeds(std::ops::RangeInclusive<u64>);

/// Most seeds of a study.
const MOST_SEEDS: u64 = 1000;

pub(super) fn seeds(text: &str) -> Result<Seeds> {
    let number = |text: &str| -> Result<u64> {
        text.trim().parse().map_err(|_| anyhow::anyhow!("`{text}` is not a seed, nor A..B"))
    };
    let (first, last) = match text.split_once("..") {
        Some((first, last)) => (number(first)?, number(last)?),
        None => (number(text)?, number(text)?),
    };
    if last < first || last - first >= MOST_SEEDS {
        bail!("`{text}`: A..B are the seeds from A to B, at most {MOST_SEEDS}");
    }
    Ok(Seeds(first..=last))
}

/// The seeds of tuning, where a file does not name them.
pub(super) fn of_tuning() -> Vec<Seeds> {
    vec![Seeds(100..=101)]
}

/// The seeds, each once, in the order they were given in.
pub(super) fn distinct(seeds: &[Seeds]) -> Vec<u64> {
    let mut known = HashSet::new();
    seeds.iter().flat_map(|range| range.0.clone()).filter(|seed| known.insert(*seed)).collect()
}

/// Refuses a seed that `option` names twice.
pub(super) fn refuse_repeated(seeds: &[Seeds], option: &str) -> Result<()> {
    let mut known = HashSet::new();
    match seeds.iter().flat_map(|range| range.0.clone()).find(|seed| !known.insert(*seed)) {
        Some(seed) => bail!("{option}: {seed} is given twice"),
        None => Ok(()),
    }
}

impl Serialize for Seeds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (first, last) = (*self.0.start(), *self.0.end());
        match first == last {
            true => serializer.serialize_u64(first),
            false => serializer.collect_str(&format_args!("{first}..{last}")),
        }
    }
}

/// Seeds in a file: a number, or a range as text.
#[derive(Deserialize)]
#[serde(untagged)]
enum SeedEntry {
    Number(u64),
    Text(String),
}

impl TryFrom<SeedEntry> for Seeds {
    type Error = String;

    fn try_from(entry: SeedEntry) -> Result<Self, String> {
        let read = match entry {
            SeedEntry::Number(number) => seeds(&number.to_string()),
            SeedEntry::Text(text) => seeds(&text),
        };
        read.map_err(|error| format!("{error:#}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_read_as_numbers_and_ranges() {
        let all = ["3", "0..2", "1"].map(|text| seeds(text).unwrap());
        assert_eq!(distinct(&all), [3, 0, 1, 2]);
        assert!(seeds("3..2").is_err() && seeds("x").is_err() && seeds("0..5000").is_err());
        assert_eq!(serde_json::to_string(&all).unwrap(), r#"[3,"0..2",1]"#);
    }
}
