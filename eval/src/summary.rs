//! Tallies to estimates.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diversity::unique_correct;
use crate::interval::{Estimate, bootstrap};
use crate::pass_at_k::pass_at_k;
use crate::{Level, Tally, pass_at_k};

/// What an evaluation found, averaged over prompts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Problems.
    pub problems: usize,
    /// Samples a problem.
    pub n: usize,
    /// Pass@k by k.
    #[serde(rename = "pass@k")]
    pub pass_at_k: BTreeMap<usize, Estimate>,
    /// Expected distinct right answers among k samples, by k.
    #[serde(rename = "unique_correct@k")]
    pub unique_correct: BTreeMap<usize, Estimate>,
    /// The same at every level of sameness, by its name: `text`, `folded`, `solution`, `value`.
    #[serde(default)]
    pub unique_by_level: BTreeMap<String, BTreeMap<usize, Estimate>>,
    /// Completions that could not be judged: no part of any estimate.
    #[serde(default)]
    pub unjudged: usize,
    /// Share of completions that were cut off; they count as wrong.
    pub truncated: f64,
    /// Share of completions without a readable answer.
    pub no_answer: f64,
    /// Mean tokens in a completion.
    pub mean_length: f64,
}

impl Summary {
    /// Estimates for each of `ks` from tallies of `n` samples each.
    ///
    /// # Errors
    /// No tally, or a k that `n` samples cannot estimate.
    pub fn new(tallies: &[Tally], n: usize, ks: &[usize]) -> anyhow::Result<Self> {
        pass_at_k::check(n, ks)?;
        if tallies.is_empty() {
            anyhow::bail!("no problem was evaluated");
        }
        let over = |value: &dyn Fn(&Tally, usize) -> f64| -> BTreeMap<usize, Estimate> {
            let estimate = |k: usize| {
                let values: Vec<f64> = tallies.iter().map(|tally| value(tally, k)).collect();
                bootstrap(&values)
            };
            ks.iter().map(|k| (*k, estimate(*k))).collect()
        };
        let total: usize = tallies.iter().map(|tally| tally.samples).sum();
        let share = |count: fn(&Tally) -> usize| {
            tallies.iter().map(count).sum::<usize>() as f64 / total as f64
        };
        Ok(Self {
            problems: tallies.len(),
            n,
            pass_at_k: over(&|tally, k| pass_at_k(tally.samples, tally.correct, k)),
            unique_correct: over(&|tally, k| unique_correct(tally, Level::Solution, k)),
            unique_by_level: Level::ALL
                .iter()
                .map(|level| {
                    let values = over(&|tally, k| unique_correct(tally, *level, k));
                    (level.name().to_owned(), values)
                })
                .collect(),
            unjudged: tallies.iter().map(|tally| tally.unjudged).sum(),
            truncated: share(|tally| tally.truncated),
            no_answer: share(|tally| tally.no_answer),
            mean_length: share(|tally| tally.tokens),
        })
    }
}
