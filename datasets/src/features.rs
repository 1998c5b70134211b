//! Features of a correct answer: its operators, its clauses, whatever a verifier lists, `KIND:NAME` each.
//!
//! Diversity is measured over the features of one kind at a time. A list is a multiset in a fixed order: one operator
//! that stands twice is listed twice. Lists come from programs and files of strangers, so their number and length have
//! limits.

use serde::{Deserialize, Serialize};

/// The kind of features without a colon.
pub const OTHER: &str = "feature";

/// A list of features.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Vec<String>", into = "Vec<String>")]
pub struct Features(Vec<String>);

impl Features {
    /// Most features of an answer.
    pub const MOST: usize = 64;
    /// Most bytes of a feature.
    pub const MAX_BYTES: usize = 64;

    /// Features in any order.
    ///
    /// # Errors
    /// More than [`Features::MOST`]; an empty one, or one of more than [`Features::MAX_BYTES`].
    pub fn new(mut features: Vec<String>) -> Result<Self, String> {
        let (most, bytes) = (Self::MOST, Self::MAX_BYTES);
        if features.len() > most {
            return Err(format!("{} features: an answer has at most {most}", features.len()));
        }
        if let Some(bad) = features.iter().find(|one| one.is_empty() || one.len() > bytes) {
            let length = bad.len();
            return Err(format!("a feature of {length} bytes: a feature has 1 to {bytes}"));
        }
        features.sort_unstable();
        Ok(Self(features))
    }

    /// Features that this crate finds. Of too many the first are kept; a name that is too long has a hash in place of
    /// its end, so that different names stay different.
    pub(crate) fn bounded(features: impl IntoIterator<Item = String>) -> Self {
        let one = |name: String| {
            if name.len() <= Self::MAX_BYTES {
                return name;
            }
            let mut end = Self::MAX_BYTES - 17;
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            format!("{}~{:016x}", &name[..end], tealight_core::fnv(name.bytes()))
        };
        let mut features: Vec<String> = features.into_iter().take(Self::MOST).map(one).collect();
        features.sort_unstable();
        Self(features)
    }

    /// Each with its kind, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|name| name.split_once(':').unwrap_or((OTHER, name)))
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<String>> for Features {
    type Error = String;

    fn try_from(features: Vec<String>) -> Result<Self, String> {
        Self::new(features)
    }
}

impl From<Features> for Vec<String> {
    fn from(features: Features) -> Self {
        features.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oversized_feature_lists_are_refused() {
        let read = |list: &[String]| serde_json::from_value::<Features>(list.into());
        let name = |bytes: usize| "x".repeat(bytes);
        assert!(read(&vec![name(64); 64]).is_ok());
        let refused = |list: &[String], why: &str| {
            let error = read(list).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused(&vec![name(1); 65], "65 features: an answer has at most 64");
        refused(&[name(65)], "a feature of 65 bytes: a feature has 1 to 64");
        refused(&[String::new()], "a feature of 0 bytes");
    }

    #[test]
    fn long_features_are_shortened_and_stay_distinct() {
        let long = |end: char| format!("shape:{}{end}", "é".repeat(50));
        let features = Features::bounded([long('a'), long('b'), "b".into(), "a".into()]);
        let names: Vec<String> = features.clone().into();
        assert_eq!(names[..2], ["a", "b"]);
        assert!(names[2] != names[3] && names.iter().all(|name| name.len() <= 64), "{names:?}");
        assert_eq!(Features::new(names).unwrap(), features);
        let kinds: Vec<&str> = features.iter().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, [OTHER, OTHER, "shape", "shape"]);
        assert_eq!(Features::bounded(vec!["a".to_owned(); 100]).iter().count(), Features::MOST);
    }
}
