//! Which features correct answers had: from the lists of one problem's answers to shares by kind.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use tealight_datasets::Features;

use crate::measure::features::Shares;

/// Correct answers of a problem whose features are counted, the first: a list takes kilobytes at most.
pub(crate) const MOST_ANSWERS: usize = 1024;

/// In place of a feature, of an answer that has none of the kind.
const NONE: &str = "none";

/// How many of a problem's correct answers had each list of features.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profiles(BTreeMap<Features, usize>);

impl Profiles {
    /// Counts one correct answer; beyond the limit on answers none.
    pub fn add(&mut self, features: &Features) {
        if self.answers() < MOST_ANSWERS {
            *self.0.entry(features.clone()).or_default() += 1;
        }
    }

    /// Answers that are counted.
    pub fn answers(&self) -> usize {
        self.0.values().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Whether no answer has a feature.
    pub fn is_empty(&self) -> bool {
        self.0.keys().all(Features::is_empty)
    }

    /// The kinds of their features, each with the answers that have one.
    pub fn kinds(&self) -> BTreeMap<&str, usize> {
        let mut kinds = BTreeMap::new();
        for (features, count) in &self.0 {
            let of_list: BTreeSet<&str> = features.iter().map(|(kind, _)| kind).collect();
            of_list.into_iter().for_each(|kind| *kinds.entry(kind).or_default() += count);
        }
        kinds
    }

    /// The share of each feature of one kind in each answer.
    pub fn shares(&self, kind: &str) -> Shares<'_> {
        let mut shares = Shares::default();
        for (features, count) in &self.0 {
            let mut names: Vec<&str> = features
                .iter()
                .filter(|(feature_kind, _)| *feature_kind == kind)
                .map(|(_, name)| name)
                .collect();
            if names.is_empty() {
                names.push(NONE);
            }
            shares.add(&names, *count);
        }
        shares
    }
}

impl Serialize for Profiles {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|(features, count)| (count, features)))
    }
}

impl<'de> Deserialize<'de> for Profiles {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut profiles = Self::default();
        for (count, features) in Vec::<(usize, Features)>::deserialize(deserializer)? {
            let entry = profiles.0.entry(features).or_default();
            *entry = entry.saturating_add(count);
        }
        if profiles.answers() > MOST_ANSWERS {
            return Err(serde::de::Error::custom(format!(
                "the features of more than {MOST_ANSWERS} answers"
            )));
        }
        Ok(profiles)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn features(names: &[&str]) -> Features {
        Features::new(names.iter().map(ToString::to_string).collect()).unwrap()
    }

    #[test]
    fn profiles_survive_json_and_have_limits() {
        let mut profiles = Profiles::default();
        assert!(profiles.is_empty());
        profiles.add(&features(&[]));
        assert!(profiles.is_empty() && profiles.answers() == 1);
        for _ in 0..2 {
            profiles.add(&features(&["operator:+", "operator:+", "shape:(n n)"]));
        }
        let text = serde_json::to_string(&profiles).unwrap();
        assert_eq!(text, r#"[[1,[]],[2,["operator:+","operator:+","shape:(n n)"]]]"#);
        assert_eq!(serde_json::from_str::<Profiles>(&text).unwrap(), profiles);
        assert_eq!(profiles.kinds(), BTreeMap::from([("operator", 2), ("shape", 2)]));
        let refused = serde_json::from_str::<Profiles>(r#"[[1024,["a"]],[1,["b"]]]"#).unwrap_err();
        assert!(refused.to_string().contains("more than 1024 answers"), "{refused}");
        assert!(
            serde_json::from_str::<Profiles>(&format!("[[{},[]],[9,[\"a\"]]]", u64::MAX)).is_err()
        );
        (0..2000).for_each(|_| profiles.add(&features(&["a"])));
        assert_eq!(profiles.answers(), MOST_ANSWERS);
    }
}
