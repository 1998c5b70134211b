//! Right answers by what makes two of them the same (algorithms: rarefaction at every level).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How often each class was drawn, by a hash of its name.
pub type Counts = BTreeMap<u64, usize>;

/// When two right completions are one.
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
    pub const ALL: [Level; 4] = [Level::Text, Level::Folded, Level::Solution, Level::Value];

    /// The name that results carry.
    pub fn name(self) -> &'static str {
        match self {
            Level::Text => "text",
            Level::Folded => "folded",
            Level::Solution => "solution",
            Level::Value => "value",
        }
    }
}

/// How often each distinct right answer was drawn, at every level.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    text: Counts,
    folded: Counts,
    solution: Counts,
    value: Counts,
}

impl Classes {
    /// Counts one right completion with the solution and the value that the verifier gave it.
    pub fn add(&mut self, completion: &str, solution: &str, value: &str) {
        let folded = completion.split_whitespace().flat_map(|word| word.bytes().chain([b' ']));
        for (counts, key) in [
            (&mut self.text, hash(completion.bytes())),
            (&mut self.folded, hash(folded)),
            (&mut self.solution, hash(solution.bytes())),
            (&mut self.value, hash(value.bytes())),
        ] {
            *counts.entry(key).or_default() += 1;
        }
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
    let mut hash = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
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
            Level::ALL.iter().map(|level| classes.at(*level).len()).collect();
        assert_eq!(distinct, [4, 3, 2, 1]);
        assert!(Level::ALL.iter().all(|level| classes.at(*level).values().sum::<usize>() == 4));
    }
}
