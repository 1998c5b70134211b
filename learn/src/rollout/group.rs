//! Sampling a group of completions for each prompt and judging them.

use std::ops::Range;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use tealight_datasets::judge::grade;
use tealight_datasets::{Grade, Verdict, Verifier};
use tealight_eval::Truncated;

use super::Encoded;
use tealight_core::ranks::{Ranks, Sink};
use tealight_nn::generate::{Completion, Finish, RngKey, SampleRequest, Sampler, SamplingParams};
use tealight_nn::tokenizer::Tokenizer;

/// One completion and what the verifier said of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Rollout {
    /// The tokens and their log-probabilities.
    pub completion: Completion,
    /// The text, without the token that ended it.
    pub text: String,
    /// The verdict on the text.
    pub verdict: Verdict,
    /// The verifier's grade of the text, between 0 and 1.
    pub granted: f64,
    /// The same of each of several verifiers.
    pub parts: Vec<f64>,
    /// What it counts as where it was truncated.
    pub truncated: Truncated,
}

impl Rollout {
    /// Whether its verdict and grade count: those of a truncated completion do not, unless the rule says so.
    pub fn counts(&self) -> bool {
        self.completion.finish == Finish::Stop || self.truncated == Truncated::Judged
    }

    /// The reward: 1 where it is correct, else 0, unless the verifier grades. One that does not count earns 0: it is
    /// not an answer.
    pub fn reward(&self) -> f64 {
        if self.counts() { self.granted } else { 0.0 }
    }

    /// Its grade by the verifier of this number, of several.
    pub fn part(&self, index: usize) -> f64 {
        let granted = self.parts.get(index).filter(|_| self.counts());
        granted.copied().unwrap_or(0.0)
    }

    /// Whether it is correct, and counts.
    pub fn is_correct(&self) -> bool {
        self.counts() && self.verdict.is_correct()
    }
}

/// The treatment of rewards between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RewardUse<'a> {
    /// They are the completions' rewards.
    Graded,
    /// The verdict alone counts: 1 for a correct completion, else 0.
    Binary,
    /// They are refused with this message.
    Refused(&'a str),
}

/// All samples of one prompt of one step: the unit that advantages are computed over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Group {
    /// The prompt's index among those that were given to [`collect`].
    pub problem: usize,
    /// The samples, in order.
    pub rollouts: Vec<Rollout>,
    /// The greedy completion, where the objective's baseline is its reward.
    pub greedy: Option<Rollout>,
}

impl Group {
    /// The solution class of each sample, numbered in the order of first appearance; none where it is not correct.
    pub fn classes(&self) -> Vec<Option<usize>> {
        let (mut known, mut classes) = (Vec::<&str>::new(), Vec::new());
        for rollout in &self.rollouts {
            classes.push(match &rollout.verdict {
                Verdict::Correct { class, .. } if rollout.is_correct() => {
                    let index = known.iter().position(|other| other == class);
                    if index.is_none() {
                        known.push(class);
                    }
                    Some(index.unwrap_or(known.len() - 1))
                }
                _ => None,
            });
        }
        classes
    }

    /// The rewards, in order.
    pub fn rewards(&self) -> Vec<f64> {
        self.rollouts.iter().map(Rollout::reward).collect()
    }
}

/// The sampler, the tokenizer and the verifier that make groups of prompts.
pub struct Collector<'a> {
    sampler: &'a dyn Sampler,
    tokenizer: &'a dyn Tokenizer,
    verifier: &'a dyn Verifier,
    params: &'a SamplingParams,
    reward_use: RewardUse<'a>,
    truncated: Truncated,
    ranks: Ranks,
}

/// Samples the completions of these `numbers` for each of `chosen` (an index into `problems`, which also keys its
/// randomness) and hands each judged group to `sink` as soon as it is whole. Ranks that collect together take prompts
/// in turn, and every one is handed all groups.
pub fn collect(
    collector: &Collector<'_>,
    problems: &[Encoded<'_>],
    chosen: &[usize],
    numbers: Range<usize>,
    rng_key: RngKey,
    sink: &mut dyn FnMut(Group) -> Result<()>,
) -> Result<()> {
    let mut generate = |chosen: &[usize], sink: &mut Sink<'_, Group>| {
        let request = |index: &usize| SampleRequest {
            prompt: problems[*index].prompt.clone(),
            first: numbers.start,
            count: numbers.len(),
            key: *index as u64,
        };
        let requests: Vec<SampleRequest> = chosen.iter().map(request).collect();
        let Collector { sampler, params, .. } = collector;
        sampler.generate(&requests, params, rng_key, &mut |index, completions| {
            let problem = chosen[index];
            let rollouts = completions
                .into_iter()
                .map(|completion| collector.judge(&problems[problem], completion))
                .collect::<Result<_>>()?;
            sink(Group { problem, rollouts, greedy: None })
        })
    };
    collector.ranks.divide(chosen, numbers.len(), &mut generate, sink)
}

impl<'a> Collector<'a> {
    /// Samples with `params`, reads with `tokenizer`, judges with `verifier`.
    pub fn new(
        sampler: &'a dyn Sampler,
        tokenizer: &'a dyn Tokenizer,
        verifier: &'a dyn Verifier,
        params: &'a SamplingParams,
    ) -> Self {
        let (reward_use, ranks) = (RewardUse::Binary, Ranks::alone());
        let truncated = Truncated::default();
        Self { sampler, tokenizer, verifier, params, reward_use, truncated, ranks }
    }

    /// The same with another use of rewards than [`RewardUse::Binary`].
    pub fn using(self, reward_use: RewardUse<'a>) -> Self {
        Self { reward_use, ..self }
    }

    /// The same with another rule for truncated completions.
    pub fn counting(self, truncated: Truncated) -> Self {
        Self { truncated, ..self }
    }

    /// The same, with the others of `ranks`.
    pub fn with_ranks(self, ranks: &Ranks) -> Self {
        Self { ranks: ranks.clone(), ..self }
    }

    fn judge(&self, problem: &Encoded<'_>, completion: Completion) -> Result<Rollout> {
        let text = self.tokenizer.decode(&completion.tokens)?;
        let opens_thought = problem.opens_thought;
        let Grade { verdict, reward, parts, .. } =
            grade(self.verifier, problem.problem, &text, opens_thought);
        // A failure is not a zero: it would be learned from. But an answer that is too much to compare earns nothing:
        // it could have been shorter.
        if let Verdict::Unjudged { why, is_too_costly: false } = &verdict {
            bail!(
                "problem `{}`: a completion could not be judged: {why}; training needs a verdict on every completion: \
                 mend the verifier (a function returns False, a program says `wrong`, where there is no answer), \
                 allow it more time (python:timeout=60:FILE.py:FUNCTION), or leave the problem out of the dataset",
                problem.problem.id
            );
        }
        let granted = match self.reward_use {
            RewardUse::Graded => reward,
            RewardUse::Binary => f64::from(verdict.is_correct()),
            RewardUse::Refused(why) if reward != 0.0 && reward != 1.0 => {
                bail!("problem `{}`: a completion earns {reward}: {why}", problem.problem.id)
            }
            RewardUse::Refused(_) => f64::from(verdict.is_correct()),
        };
        let truncated = self.truncated;
        Ok(Rollout { completion, text, verdict, granted, parts, truncated })
    }
}
