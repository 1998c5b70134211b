//! Correct answers by what makes two of them the same (algorithms: rarefaction at every level).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How often each class was drawn. Results keep these numbers alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counts {
    /// By a hash of the class's name: what is drawn next can be counted.
    Open(BTreeMap<u64, usize>),
    /// Without the names, in a tenth of the memory.
    Closed(Box<[usize]>),
}

impl Default for Counts {
    fn default() -> Self {
        Self::Open(BTreeMap::new())
    }
}

impl Counts {
    /// Counts one of the class of this name: a further class where the names are not known.
    pub fn add(&mut self, name: impl Iterator<Item = u8>) {
        self.open(0..);
        if let Self::Open(classes) = self {
            *classes.entry(hash(name)).or_default() += 1;
        }
    }

    /// How often each class was drawn, in no order.
    pub fn multiplicities(&self) -> Vec<usize> {
        match self {
            Self::Open(classes) => classes.values().copied().collect(),
            Self::Closed(counts) => counts.to_vec(),
        }
    }

    /// How many classes were drawn.
    pub fn distinct(&self) -> usize {
        match self {
            Self::Open(classes) => classes.len(),
            Self::Closed(counts) => counts.len(),
        }
    }

    /// Forgets the names, which are returned; the numbers keep their order. Of closed counts there are none.
    pub(crate) fn close(&mut self) -> Vec<u64> {
        let Self::Open(classes) = self else { return Vec::new() };
        if classes.is_empty() {
            return Vec::new();
        }
        let (names, counts): (Vec<u64>, Vec<usize>) = std::mem::take(classes).into_iter().unzip();
        *self = Self::Closed(counts.into());
        names
    }

    /// Takes back the names that [`Counts::close`] returned.
    pub(crate) fn open(&mut self, names: impl Iterator<Item = u64>) {
        if let Self::Closed(counts) = self {
            *self = Self::Open(names.zip(counts.iter().copied()).collect());
        }
    }
}

impl Serialize for Counts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut counts = self.multiplicities();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let counts = Box::<[usize]>::deserialize(deserializer)?;
        Ok(if counts.is_empty() { Self::default() } else { Self::Closed(counts) })
    }
}

/// When two correct completions are one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// The same text.
    Text,
    /// The same text but for white space.
    Folded,
    /// The same solution, as the verifier defines it: an expression's tree, a query's normal form, the
    /// values that a worked solution computes. The level of `unique_correct@k`.
    Solution,
    /// The same final answer.
    Value,
}

impl Level {
    /// All, from the finest to the coarsest.
    pub const ALL: &[Level] = &[Level::Text, Level::Folded, Level::Solution, Level::Value];

    /// The definition of one answer, in words.
    pub fn description(self) -> &'static str {
        ["exact texts", "texts ignoring white space", "solutions", "final answers"][self as usize]
    }

    /// The name that results carry.
    pub fn name(self) -> &'static str {
        ["text", "folded", "solution", "value"][self as usize]
    }
}

/// How often each distinct correct answer was drawn, at every level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Classes {
    text: Counts,
    folded: Counts,
    solution: Counts,
    value: Counts,
}

impl Classes {
    /// Counts one correct completion with the solution and the value that the verifier gave it.
    pub fn add(&mut self, completion: &str, solution: &str, value: &str) {
        let folded = completion.split_whitespace().flat_map(|word| word.bytes().chain([b' ']));
        self.text.add(completion.bytes());
        self.folded.add(folded);
        self.solution.add(solution.bytes());
        self.value.add(value.bytes());
    }

    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Counts> {
        [&mut self.text, &mut self.folded, &mut self.solution, &mut self.value].into_iter()
    }

    /// The counts at one level.
    pub fn at(&self, level: Level) -> &Counts {
        match level {
            Level::Text => &self.text,
            Level::Folded => &self.folded,
            Level::Solution => &self.solution,
            Level::Value => &self.value,
        }
    }
}

/// FNV-1a and a final mix: the same on every machine. Among a million classes two share a hash with
/// chance 3e-8.
fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut hash = tealight_core::fnv(bytes);
    // FNV mixes its upper bits little.
    hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_is_coarser_than_the_one_before() {
        let mut classes = Classes::default();
        for (text, solution) in
            [("2+1 = 3", "a"), ("2+1 =  3", "a"), ("1+2 = 3", "a"), ("4-1", "b")]
        {
            classes.add(text, solution, "3");
        }
        let distinct: Vec<usize> =
            Level::ALL.iter().map(|level| classes.at(*level).distinct()).collect();
        assert_eq!(distinct, [4, 3, 2, 1]);
        assert!(
            Level::ALL.iter().all(|level| classes
                .at(*level)
                .multiplicities()
                .iter()
                .sum::<usize>()
                == 4)
        );
    }

    #[test]
    fn closed_counts_have_the_same_numbers_in_the_same_order_and_open_again() {
        let mut counts = Counts::default();
        for name in ["b", "a", "b", "c", "b", "a"] {
            counts.add(name.bytes());
        }
        let open = counts.clone();
        let names = counts.close();
        assert!(matches!(counts, Counts::Closed(_)) && names.is_sorted());
        assert_eq!(counts.multiplicities(), open.multiplicities());
        assert_eq!((counts.distinct(), open.distinct()), (3, 3));
        assert!(counts.close().is_empty(), "closed already");
        counts.open(names.into_iter());
        assert_eq!(counts, open);
        counts.add("a".bytes());
        assert_eq!(counts.distinct(), 3);
    }
}
