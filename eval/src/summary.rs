//! Tallies to estimates.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tealight_datasets::verify::math::Rule;

use crate::exact::Exact;
use crate::interval::{self, ByK, Estimate, mean, share};
use crate::measure::pass_at_k::{self, pass_all_k, pass_at_k};
use crate::measure::rarefaction::unique_correct;
use crate::measure::votes::{is_counted, plurality_at_k};
use crate::number::counted;
pub use crate::richness::Richness;
use crate::sample::is_zero;
use crate::thinking::ThinkingShare;
use crate::{Level, Tally};

/// Validities for which the share of prompts that reach them is reported.
const COVERED: [f64; 5] = [0.1, 0.25, 0.5, 0.75, 1.0];

/// The results of an evaluation: means over prompts with intervals over prompts. docs/measures.md
/// defines each.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Number of problems with at least one judged sample.
    pub problems: usize,
    /// Samples a problem; the fewest where problems have different numbers.
    pub n: usize,
    /// The most samples of a problem, where problems have different numbers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most: Option<usize>,
    /// Unbiased Pass@k, by k.
    #[serde(rename = "pass@k")]
    pub pass_at_k: ByK,
    /// Mean reward, where rewards are graded: where they are all 0 or 1 it is Pass@1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_reward: Option<Estimate>,
    /// Expected distinct correct answers among k samples, by k.
    #[serde(rename = "unique_correct@k")]
    pub unique_correct: ByK,
    /// The same at every level of sameness, by its name: `text`, `folded`, `solution`, `value`.
    pub unique_by_level: BTreeMap<String, ByK>,
    /// Distinct correct answers among k samples over all that could be, `U_k / min(k, total)`, where every
    /// problem's total is known.
    #[serde(rename = "coverage@k")]
    pub coverage: ByK,
    /// Chance that all of k samples are correct.
    #[serde(rename = "pass^k")]
    pub pass_all_k: ByK,
    /// Chance that the majority of k samples is correct, for the k that are counted exactly.
    #[serde(rename = "maj@k")]
    pub majority: ByK,
    /// Pass@1 at temperature 0, where it was drawn.
    pub greedy: Option<Estimate>,
    /// Hill numbers of orders 1 and 2, Chao's lower bound and the unseen share of correct answers, over
    /// prompts with enough correct answers.
    pub richness: Option<Richness>,
    /// Share of prompts whose validity is at least tau.
    #[serde(rename = "cover@tau")]
    pub cover: BTreeMap<String, Estimate>,
    /// Nats a completion, `- mean log pi(y)`, where log-probabilities are known.
    pub sequence_entropy: Option<Estimate>,
    /// Nats a token, likewise.
    pub token_entropy: Option<f64>,
    /// `KL(p* || model)` in nats, where every problem's correct answers are known.
    pub kl_pstar: Option<Estimate>,
    /// Completions that could not be judged: no part of any estimate. Of a problem with fewer judged samples than k,
    /// Pass@k is Pass at that number, which is at most as high.
    pub unjudged: usize,
    /// Problems none of whose completions could be judged: they are not among `problems`.
    pub unjudged_problems: usize,
    /// Share of completions that were cut off; one that does not say how it ended was not. None where none says it.
    pub truncated: Option<f64>,
    /// Completions that do not say how they ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_ends: usize,
    /// Completions that are correct but were cut off, whether they count or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub truncated_correct: usize,
    /// Completions that a server failed to give or refused, and that count as incorrect.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failed: usize,
    /// Share of completions without a readable answer.
    pub no_answer: f64,
    /// Judged completions.
    pub completions: usize,
    /// Completions by the rule that found their answer, where the verifier of mathematics judged them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub rules: BTreeMap<Rule, usize>,
    /// Mean tokens in a completion, among those whose length is known; none where no length is.
    pub mean_length: Option<f64>,
    /// The same from the model's probabilities of all listed correct answers, where that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact: Option<Exact>,
    /// Thoughts, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<ThinkingShare>,
}

impl Summary {
    /// Estimates for each of `ks`, none above the fewest samples that a problem has.
    ///
    /// # Errors
    /// No tally, or a k that some problem's samples cannot estimate.
    ///
    /// ```
    /// use tealight_core::Prompt;
    /// use tealight_datasets::{Problem, verify};
    /// use tealight_eval::{Completion, Sample, Summary, Tally};
    ///
    /// let problem = Problem::new("sum", Prompt::Text("3 + 4 =".into()), "7");
    /// let verifier = verify::open("exact")?;
    /// let mut tally = Tally::new(&problem);
    /// for (number, text) in ["7", "8", "7", "9"].into_iter().enumerate() {
    ///     let answer = Completion { text: text.into(), is_finished: true, ..Completion::default() };
    ///     tally.add(&Sample::judged(&problem, &*verifier, number, answer));
    /// }
    /// let summary = Summary::new(&[tally], &[1, 2])?;
    /// assert_eq!(summary.pass_at_k[&1].value, 0.5);
    /// # anyhow::Ok(())
    /// ```
    pub fn new(tallies: &[Tally], ks: &[usize]) -> Result<Self> {
        let least = Tally::with_fewest(tallies).context("no problem was evaluated")?;
        let n = least.num_samples();
        let most = tallies.iter().map(Tally::num_samples).max().unwrap_or(n);
        if let Some(k) = ks.iter().find(|k| **k > n && n < most) {
            bail!(
                "pass@{k} cannot be estimated: problem `{}` has {} (others up to {most}); choose k up to {n}",
                least.problem,
                counted(n, "sample")
            );
        }
        pass_at_k::check(n, ks)?;
        let judged: Cow<'_, [Tally]> = match tallies.iter().all(|tally| tally.samples > 0) {
            true => tallies.into(),
            false => tallies.iter().filter(|tally| tally.samples > 0).cloned().collect(),
        };
        if judged.is_empty() {
            bail!("no completion could be judged");
        }
        let mut summary = Self::estimated(&judged, n, ks);
        summary.most = Some(most).filter(|most| *most > n);
        summary.unjudged = tallies.iter().map(|tally| tally.unjudged).sum();
        summary.unjudged_problems = tallies.len() - judged.len();
        Ok(summary)
    }

    /// How many samples a problem has, or from how many to how many.
    pub fn samples_each(&self) -> String {
        match self.most {
            Some(most) => format!("{} to {most}", self.n),
            None => self.n.to_string(),
        }
    }

    fn estimated(tallies: &[Tally], n: usize, ks: &[usize]) -> Self {
        let over = OverProblems { tallies, ks };
        let has_totals = tallies.iter().all(|tally| tally.total.is_some_and(|total| total > 0));
        let by_level = |level: &Level| (level.name().to_owned(), over.distinct(*level));
        let reaches = |tally: &Tally, tau| tally.correct as f64 / tally.samples as f64 >= tau;
        let cover = |tau: &f64| {
            (tau.to_string(), share(&over.each(&|tally| f64::from(reaches(tally, *tau)))))
        };
        let has_logp = tallies.iter().all(|tally| tally.logp.1 > 0);
        let logp: f64 = tallies.iter().map(|tally| tally.logp.0).sum();
        let [tokens, samples] = [over.sum(|tally| tally.tokens), over.sum(|tally| tally.samples)];
        let has_lengths = tallies.iter().all(|tally| tally.unknown_lengths == 0);
        Self {
            problems: tallies.len(),
            n,
            most: None,
            pass_at_k: over
                .by_k(&|tally, k| pass_at_k(tally.samples, tally.correct, k.min(tally.samples))),
            mean_reward: mean_reward(tallies),
            unique_correct: over.distinct(Level::Solution),
            unique_by_level: Level::ALL.iter().map(by_level).collect(),
            coverage: if has_totals { over.by_k(&covered) } else { ByK::new() },
            pass_all_k: over
                .by_k(&|tally, k| pass_all_k(tally.samples, tally.correct, k.min(tally.samples))),
            majority: ks.iter().filter_map(|k| Some((*k, majority(tallies, *k)?))).collect(),
            greedy: greedy(tallies),
            richness: Richness::from_tallies(tallies),
            cover: COVERED.iter().map(cover).collect(),
            sequence_entropy: has_logp
                .then(|| mean(&over.each(&|tally| -tally.logp.0 / tally.logp.1 as f64))),
            token_entropy: (has_logp && tokens > 0 && has_lengths).then(|| -logp / tokens as f64),
            kl_pstar: known(tallies, |tally| tally.kl_pstar),
            unjudged: 0,
            unjudged_problems: 0,
            truncated: (samples > over.sum(|tally| tally.unknown_ends))
                .then(|| over.sum(|tally| tally.truncated) as f64 / samples as f64),
            unknown_ends: over.sum(|tally| tally.unknown_ends),
            truncated_correct: over.sum(|tally| tally.truncated_correct),
            failed: over.sum(|tally| tally.failed),
            no_answer: over.sum(|tally| tally.no_answer) as f64 / samples as f64,
            completions: samples,
            rules: crate::answer_rules::counts(tallies),
            mean_length: over.per_sample(|tally| tally.tokens, |tally| tally.unknown_lengths),
            exact: None,
            thinking: ThinkingShare::from_tallies(tallies),
        }
    }
}

/// Estimates over problems. One with samples that could not be judged has values up to its number of judged ones.
struct OverProblems<'a> {
    tallies: &'a [Tally],
    ks: &'a [usize],
}

impl OverProblems<'_> {
    fn each(&self, value: &(dyn Fn(&Tally) -> f64 + Sync)) -> Vec<f64> {
        self.tallies.par_iter().map(value).collect()
    }

    /// The mean over problems of a share at each k.
    fn by_k(&self, value: &(dyn Fn(&Tally, usize) -> f64 + Sync)) -> ByK {
        self.ks.iter().map(|k| (*k, share(&self.each(&|tally| value(tally, *k))))).collect()
    }

    /// The number of distinct correct answers among k samples.
    fn distinct(&self, level: Level) -> ByK {
        let count =
            |k: usize| self.each(&|tally| unique_correct(tally, level, k.min(tally.samples)));
        let shown = |tally: &Tally| tally.classes.at(level).distinct();
        let most = self.tallies.iter().map(shown).max().unwrap_or(1);
        self.ks.iter().map(|k| (*k, interval::distinct(&count(*k), most, *k))).collect()
    }

    fn sum(&self, count: fn(&Tally) -> usize) -> usize {
        // A folder of results may say any count.
        self.tallies.iter().map(count).fold(0, usize::saturating_add)
    }

    /// A count for each sample of which it is known; unknown is not zero.
    fn per_sample(&self, count: fn(&Tally) -> usize, unknown: fn(&Tally) -> usize) -> Option<f64> {
        let known = self.sum(|tally| tally.samples).saturating_sub(self.sum(unknown));
        (known > 0).then(|| self.sum(count) as f64 / known as f64)
    }
}

/// The share of a problem's distinct correct answers, at most k, that k samples have.
fn covered(tally: &Tally, k: usize) -> f64 {
    let most = tally.total.unwrap_or(1).min(k as u64) as f64;
    unique_correct(tally, Level::Solution, k.min(tally.samples)) / most
}

/// Pass@1 at temperature 0, where all problems have it.
fn greedy(tallies: &[Tally]) -> Option<Estimate> {
    let all: Option<Vec<f64>> =
        tallies.iter().map(|tally| Some(f64::from(tally.greedy?))).collect();
    all.map(|all| share(&all))
}

/// Mean reward, where some problem has graded ones.
fn mean_reward(tallies: &[Tally]) -> Option<Estimate> {
    let problem_reward = |tally: &Tally| {
        (tally.reward.unwrap_or(tally.correct as f64) / tally.samples as f64).clamp(0.0, 1.0)
    };
    let is_graded = tallies.iter().any(|tally| tally.reward.is_some());
    is_graded.then(|| share(&tallies.iter().map(problem_reward).collect::<Vec<_>>()))
}

/// The mean over the problems that have the value.
fn known(tallies: &[Tally], value: fn(&Tally) -> Option<f64>) -> Option<Estimate> {
    let values: Vec<f64> = tallies.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| mean(&values))
}

/// None for a verifier that names no incorrect answer: they cannot vote, and correct ones would win every vote.
fn majority(tallies: &[Tally], k: usize) -> Option<Estimate> {
    let incorrect = |tally: &Tally| {
        let known = tally.correct + tally.no_answer + tally.truncated + tally.failed;
        tally.samples.saturating_sub(known)
    };
    let is_named = tallies.iter().any(|tally| tally.wrong.distinct() > 0);
    let has_votes = is_named || tallies.iter().any(|tally| tally.correct > 0);
    if !has_votes || !is_named && tallies.iter().any(|tally| incorrect(tally) > 0) {
        return None;
    }
    let votes = |tally: &Tally| {
        let correct = tally.classes.at(Level::Value).multiplicities();
        plurality_at_k(&correct, &tally.wrong.multiplicities(), tally.silent(), k)
    };
    let is_exact = |tally: &Tally| k <= tally.samples && is_counted(tally.samples, k);
    if !tallies.iter().all(is_exact) {
        return None;
    }
    let values: Option<Vec<f64>> = tallies.par_iter().map(votes).collect();
    Some(share(&values?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::tally;

    #[test]
    fn problems_with_unequal_samples_have_equal_weights() {
        let tallies = [tally("a", 4, 2), tally("b", 8, 2)];
        let summary = Summary::new(&tallies, &[1, 4]).unwrap();
        assert_eq!(summary.n, 4);
        assert!((summary.pass_at_k[&1].value - (0.5 + 0.25) / 2.0).abs() < 1e-12);
        let four = (1.0 + (1.0 - 15.0 / 70.0)) / 2.0;
        assert!((summary.pass_at_k[&4].value - four).abs() < 1e-12);
        let message = Summary::new(&tallies, &[8]).unwrap_err().to_string();
        assert!(message.contains("`a` has 4 samples"), "{message}");
        assert!(Summary::new(&[tally("a", 4, 2)], &[8]).is_err());
        assert!(Summary::new(&[], &[1]).is_err());
    }

    #[test]
    fn the_mean_reward_is_there_where_rewards_are_graded() {
        assert_eq!(Summary::new(&[tally("a", 4, 2)], &[1]).unwrap().mean_reward, None);
        let graded = Tally { reward: Some(3.0), ..tally("a", 4, 1) };
        let summary = Summary::new(&[graded, tally("b", 4, 1)], &[1]).unwrap();
        assert_eq!(summary.mean_reward.unwrap().value, (0.75 + 0.25) / 2.0);
    }

    #[test]
    fn unjudged_samples_are_counted_apart() {
        let unjudged = |unjudged: usize, tally: Tally| Tally { unjudged, ..tally };
        let tallies =
            [tally("a", 4, 2), unjudged(1, tally("b", 3, 1)), unjudged(4, tally("c", 0, 0))];
        let summary = Summary::new(&tallies, &[1, 4]).unwrap();
        assert_eq!((summary.problems, summary.n), (2, 4));
        assert_eq!((summary.unjudged, summary.unjudged_problems), (5, 1));
        assert!((summary.pass_at_k[&1].value - (0.5 + 1.0 / 3.0) / 2.0).abs() < 1e-12);
        assert!((summary.pass_at_k[&4].value - 1.0).abs() < 1e-12);
        assert!(Summary::new(&tallies[2..], &[1]).is_err());
    }

    #[test]
    fn cover_is_the_share_of_prompts_that_reach_a_validity() {
        let summary = Summary::new(&[tally("a", 4, 4), tally("b", 4, 1), tally("c", 4, 0)], &[1]);
        let cover = summary.unwrap().cover;
        let at = |tau: &str| (cover[tau].value * 3.0).round();
        assert_eq!((at("0.1"), at("0.25"), at("0.5"), at("1")), (2.0, 2.0, 1.0, 1.0));
    }
}
