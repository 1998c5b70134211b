//! How much a completion still says about its prompt: retrieval of the prompt by the words that both have.
//!
//! A policy that answers from a template writes much the same whatever it was asked (RAGEN-2, 2604.06268: the mutual
//! information of prompt and completion falls, while the entropy of completions does not). The log-probabilities that
//! mutual information needs are not in files of completions, so this is a proxy: of a completion's own prompt and
//! [`CANDIDATES`] - 1 others, how often its own is the one whose rare words it repeats most.

use std::collections::{HashMap, HashSet};

use serde::Serialize;
use tealight_core::fnv;

use super::rows::Row;
use crate::Estimate;
use crate::inference::{Effect, paired};
use crate::interval::share;

/// Prompts that a completion is compared with, its own among them.
pub(crate) const CANDIDATES: usize = 16;
/// Completions of a problem that are compared: the first ones drawn.
const COMPLETIONS: usize = 4;
/// Most words of a completion that are looked at.
const MAX_WORDS: usize = 4096;

/// How often completions retrieve their own prompt, under the base and the tuned model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Templates {
    /// Prompts that each completion is compared with.
    pub candidates: usize,
    /// Problems whose prompts are known.
    pub problems: usize,
    /// The share of the base's completions.
    pub base: Estimate,
    /// The share of the tuned model's.
    pub tuned: Estimate,
    /// The difference.
    pub change: Effect,
}

impl Templates {
    /// Of the same problems in the same order; none where prompts are not known.
    pub(super) fn new(base: &[Row], tuned: &[Row]) -> Option<Self> {
        let pairs = base.iter().zip(tuned).filter_map(|(b, t)| Some((b.retrieved?, t.retrieved?)));
        let (base, tuned): (Vec<f64>, Vec<f64>) = pairs.unzip();
        (!base.is_empty()).then(|| Self {
            candidates: CANDIDATES,
            problems: base.len(),
            change: paired(&tuned, &base, 1.0).within(-1.0, 1.0),
            base: share(&base),
            tuned: share(&tuned),
        })
    }
}

/// The words of all prompts, and how much each says of which prompt it is.
pub(super) struct Prompts {
    words: Vec<Vec<u64>>,
    weights: HashMap<u64, f64>,
}

impl Prompts {
    /// Of the prompts of a set, in the order of its problems.
    pub(super) fn new<'a>(prompts: impl Iterator<Item = &'a str>) -> Self {
        let words: Vec<Vec<u64>> = prompts
            .map(|prompt| {
                let mut words: Vec<u64> = words(prompt).take(MAX_WORDS).collect();
                words.sort_unstable();
                words.dedup();
                words
            })
            .collect();
        let mut counts = HashMap::<u64, usize>::new();
        for word in words.iter().flatten() {
            *counts.entry(*word).or_default() += 1;
        }
        // log(P / problems with the word): what all prompts have, as an instruction, weighs nothing.
        let weight = |(word, count)| (word, (words.len() as f64 / count as f64).ln());
        let weights = counts.into_iter().map(weight).collect();
        Self { words, weights }
    }

    /// The share of completions of the problem at this place whose own prompt they overlap with most; one that several
    /// prompts overlap with alike counts as a part. None where there is nothing to retrieve.
    pub(super) fn retrieved(&self, place: usize, completions: &[&str]) -> Option<f64> {
        let weighs = |words: &Vec<u64>| words.iter().any(|word| self.weights[word] > 0.0);
        if self.words.len() < CANDIDATES || completions.is_empty() || !weighs(&self.words[place]) {
            return None;
        }
        // Others that lie evenly apart: the same for every model.
        let stride = (self.words.len() / CANDIDATES).max(1);
        let other = |number: usize| (place + number * stride) % self.words.len();
        let some = &completions[..completions.len().min(COMPLETIONS)];
        let found = |completion: &&str| {
            let words: HashSet<u64> = words(completion).take(MAX_WORDS).collect();
            let own = self.overlap(place, &words);
            let others = (1..CANDIDATES).map(|number| self.overlap(other(number), &words));
            let (mut higher, mut equal) = (0_usize, 1_usize);
            for overlap in others {
                higher += usize::from(overlap > own);
                equal += usize::from(overlap == own);
            }
            if higher > 0 { 0.0 } else { 1.0 / equal as f64 }
        };
        Some(some.iter().map(found).sum::<f64>() / some.len() as f64)
    }

    /// The share of a prompt's weight that words of a completion repeat.
    fn overlap(&self, place: usize, words: &HashSet<u64>) -> f64 {
        let (mut repeated, mut all) = (0.0, 0.0);
        for word in &self.words[place] {
            let weight = self.weights[word];
            all += weight;
            repeated += if words.contains(word) { weight } else { 0.0 };
        }
        if all > 0.0 { repeated / all } else { 0.0 }
    }
}

/// Words and numbers, without their case.
fn words(text: &str) -> impl Iterator<Item = u64> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(|word| fnv(word.chars().flat_map(char::to_lowercase).collect::<String>().bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompts() -> Vec<String> {
        let prompt = |i: usize| format!("Solve it: Anna{i} has {i}7 apples and eats {}3.", i + 1);
        (0..32).map(prompt).collect()
    }

    #[test]
    fn completions_that_repeat_their_prompt_retrieve_it_and_templates_do_by_chance() {
        let all = prompts();
        let known = Prompts::new(all.iter().map(String::as_str));
        for place in 0..all.len() {
            let own = format!("Anna{place} had {place}7, so 4");
            assert_eq!(known.retrieved(place, &[&own, &own]), Some(1.0));
            // Nothing but what all prompts have: every prompt is as near.
            let template = "Solve it: has apples and eats. The answer is 4";
            let by_chance = known.retrieved(place, &[template]).unwrap();
            assert!((by_chance - 1.0 / CANDIDATES as f64).abs() < 1e-12);
            let other = format!("Anna{} had", (place + 2) % 32);
            assert_eq!(known.retrieved(place, &[&other]), Some(0.0));
        }
        assert_eq!(known.retrieved(0, &[]), None);
        let few = Prompts::new(all[..4].iter().map(String::as_str));
        assert_eq!(few.retrieved(0, &["x"]), None);
        let same = Prompts::new(std::iter::repeat_n("one prompt", 40));
        assert_eq!(same.retrieved(0, &["one prompt"]), None);
    }
}
