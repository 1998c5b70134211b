//! Settings that samples of one problem differ in: two conditions in one file count as one.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{hash, short};

/// Most keys that are named.
const MOST: usize = 8;

#[derive(Default)]
pub(super) struct Settings {
    /// A hash of the settings of each problem's first sample.
    first: Vec<Option<u64>>,
    /// The first value of each key, and the keys with another one.
    values: BTreeMap<String, u64>,
    several: BTreeSet<String>,
    /// Samples with other settings than the first of their problem.
    others: usize,
}

impl Settings {
    /// Notes the settings of a problem's sample, by their keys.
    pub(super) fn note(&mut self, problem: usize, settings: &[(String, String)]) {
        if settings.is_empty() {
            return;
        }
        if self.first.len() <= problem {
            self.first.resize(problem + 1, None);
        }
        let all = hash(settings.iter().flat_map(|(key, value)| [key.as_str(), value.as_str()]));
        self.others += usize::from(*self.first[problem].get_or_insert(all) != all);
        for (key, value) in settings {
            let own = hash([value.as_str()]);
            let is_new = self.values.len() < MOST && !self.values.contains_key(key);
            if is_new {
                self.values.insert(key.clone(), own);
            } else if self.values.get(key).is_some_and(|first| *first != own) {
                self.several.insert(key.clone());
            }
        }
    }

    /// What is to be said where samples of one problem have several.
    pub(super) fn sentence(&self) -> Option<String> {
        let names: Vec<String> =
            self.several.iter().map(|key| format!("`{}`", short(key))).collect();
        (self.others > 0 && !names.is_empty()).then(|| {
            format!(
                "samples of one problem differ in {}, and are counted together: to compare settings, grade one file for each",
                names.join(", ")
            )
        })
    }
}
