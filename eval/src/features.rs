//! Diversity of the features of correct answers, over the problems of a set, by kind.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Tally;
use crate::interval::{Estimate, bounded, share};

/// Kinds that are reported, those that most answers have: a verifier may name as many as it likes.
pub const MOST_KINDS: usize = 8;

/// Correct answers that an evaluation reports features at.
pub const CORRECT: usize = 4;

/// Diversity of the features of one kind, over the problems with enough correct answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FeatureDiversity {
    /// Correct answers that features are drawn from, one from each.
    pub correct: usize,
    /// Number of problems with at least so many correct answers.
    pub problems: usize,
    /// Shannon entropy of that many draws, in nats.
    pub shannon: Estimate,
    /// Gini-Simpson index: the chance that two draws differ.
    pub gini_simpson: Estimate,
}

impl FeatureDiversity {
    /// Of each kind that these problems' answers have.
    pub(crate) fn all(tallies: &[Tally]) -> BTreeMap<String, Self> {
        let kinds = kinds(tallies.iter());
        kinds
            .into_iter()
            .filter_map(|kind| Some((kind.clone(), Self::from_tallies(tallies, &kind)?)))
            .collect()
    }

    fn from_tallies(tallies: &[Tally], kind: &str) -> Option<Self> {
        let values: Vec<(f64, f64)> =
            tallies.iter().filter_map(|tally| at(tally, kind, CORRECT)).collect();
        let (shannon, gini): (Vec<f64>, Vec<f64>) = values.into_iter().unzip();
        (!gini.is_empty()).then(|| Self {
            correct: CORRECT,
            problems: gini.len(),
            shannon: bounded(&shannon, 0.0, (CORRECT as f64).ln()),
            gini_simpson: share(&gini),
        })
    }
}

/// Entropy and Gini-Simpson index of one problem at `correct` correct answers; none where it has fewer.
pub(crate) fn at(tally: &Tally, kind: &str, correct: usize) -> Option<(f64, f64)> {
    if tally.features.answers() < correct {
        return None;
    }
    let shares = tally.features.shares(kind);
    Some((shares.entropy(correct)?, shares.gini_simpson()?))
}

/// The kinds that most answers have, in order of their names.
pub(crate) fn kinds<'a>(tallies: impl Iterator<Item = &'a Tally>) -> Vec<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (kind, count) in tallies.flat_map(|tally| tally.features.kinds()) {
        *counts.entry(kind).or_default() += count;
    }
    let mut kinds: Vec<(&str, usize)> = counts.into_iter().collect();
    kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    kinds.truncate(MOST_KINDS);
    let mut kinds: Vec<String> = kinds.into_iter().map(|(kind, _)| kind.to_owned()).collect();
    kinds.sort_unstable();
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;
    use tealight_datasets::Features;

    fn tally(lists: &[(&[&str], usize)]) -> Tally {
        let mut tally = Tally { samples: 8, ..Tally::default() };
        for (names, count) in lists {
            let names = names.iter().map(ToString::to_string).collect();
            let features = Features::new(names).unwrap();
            (0..*count).for_each(|_| tally.features.add(&features));
            tally.correct += count;
        }
        tally
    }

    #[test]
    fn each_kind_is_over_the_problems_with_enough_answers() {
        let tallies = [
            tally(&[(&["operator:+", "shape:a"], 2), (&["operator:*", "shape:a"], 2)]),
            tally(&[(&["operator:+"], 4)]),
            // Too few.
            tally(&[(&["operator:+", "shape:a"], 3)]),
        ];
        let all = FeatureDiversity::all(&tallies);
        assert_eq!(all.keys().collect::<Vec<_>>(), ["operator", "shape"]);
        let operator = &all["operator"];
        assert_eq!((operator.problems, operator.correct), (2, 4));
        // Four of six pairs differ in the first problem, none in the second.
        assert!((operator.gini_simpson.value - 0.5 * 4.0 / 6.0).abs() < 1e-12);
        assert!((operator.shannon.value - 0.5 * 2_f64.ln()).abs() < 1e-12);
        // No shape at all is one shape.
        assert_eq!((all["shape"].gini_simpson.value, all["shape"].shannon.value), (0.0, 0.0));
        assert!(FeatureDiversity::all(&[tally(&[(&[], 8)])]).is_empty());
    }

    #[test]
    fn the_kinds_that_most_answers_have_are_reported() {
        let names: Vec<String> = (0..20).map(|i| format!("kind {i:02}:x")).collect();
        let few = tally(&[(&names.iter().map(String::as_str).collect::<Vec<_>>(), 1)]);
        let many = tally(&[(&["kind 19:x", "other"], 2)]);
        let kinds = kinds([few, many].iter());
        assert_eq!(kinds.len(), MOST_KINDS);
        assert!(kinds.contains(&"kind 19".to_owned()) && kinds.contains(&"feature".to_owned()));
        assert!(kinds.is_sorted() && kinds[1] == "kind 00", "{kinds:?}");
    }
}
