//! Which prompts a step samples: all in turn, or those of which most is to be learned.
//!
//! Every rule but `uniform` goes by how often the run has solved a prompt so far, older completions counting less, and
//! gives a step the prompts with the lowest scores. Ties, and what a rule leaves open, are random by seed and round.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use statrs::distribution::{Beta, ContinuousCDF};

use super::order;
use super::trials::PromptTrials;
use tealight_nn::generate::RngKey;

/// Keys the randomness of allocations apart from that of samples and shuffles.
const ALLOCATION: u64 = u64::MAX - 2;
/// A rule that allocates a step's prompts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum PromptAllocation {
    /// Every prompt once an epoch.
    #[default]
    Uniform,
    /// Those whose pass rate is in this band or unknown, then those nearest to it.
    Band {
        /// Least pass rate.
        low: f64,
        /// Greatest pass rate.
        high: f64,
    },
    /// Those of which a draw from the posterior of the pass rate is nearest to this (Thompson sampling; MoPPS,
    /// arXiv 2507.04632).
    Thompson {
        /// The pass rate that is aimed at.
        target: f64,
    },
}

/// The counts that a round of prompts is chosen by.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// The problems that are explored.
    pub explore: &'a [usize],
    /// Correct completions of the base, and all, by problem; empty where they were not counted.
    pub base: &'a [(f64, f64)],
    /// Those of the run so far.
    pub trials: &'a PromptTrials,
}

impl PromptAllocation {
    /// Whether it goes by how prompts were solved.
    pub fn is_adaptive(self) -> bool {
        self != Self::Uniform
    }

    /// The problems of a round, `count` of those that are explored.
    pub(crate) fn choose<'a>(
        self,
        known: Known<'_>,
        count: usize,
        (round, seed): (usize, u64),
        id: impl Fn(usize) -> &'a str,
    ) -> Vec<usize> {
        let Known { explore, base, trials } = known;
        if !self.is_adaptive() {
            let places = order::chosen(explore.len(), count, round, seed);
            return places.into_iter().map(|place| explore[place]).collect();
        }
        let rng_key = RngKey { seed, step: ALLOCATION };
        // The base's own completions are where a prompt begins.
        let counts = |problem: usize| {
            let known = trials.recent(id(problem)).or(base.get(problem));
            known.copied().unwrap_or_default()
        };
        let mut scored: Vec<(f64, f64, usize)> = explore
            .iter()
            .map(|problem| {
                let mut random = rng_key.stream(round as u64, *problem as u64);
                let score = self.score(counts(*problem), random.uniform());
                (score, random.uniform(), *problem)
            })
            .collect();
        let order = |a: &(f64, f64, usize), b: &(f64, f64, usize)| {
            a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1))
        };
        scored.sort_by(order);
        let mut chosen: Vec<usize> = scored[..count].iter().map(|(.., problem)| *problem).collect();
        // Mini-batches and dynamic sampling must not go by the score.
        rng_key.stream(round as u64, u64::MAX).shuffle(&mut chosen);
        chosen
    }

    /// The lowest are chosen; `uniform` is random.
    fn score(self, (solved, sampled): (f64, f64), uniform: f64) -> f64 {
        match self {
            Self::Uniform => 0.0,
            Self::Band { .. } if sampled == 0.0 => 0.0,
            Self::Band { low, high } => {
                let rate = solved / sampled;
                (low - rate).max(rate - high).max(0.0)
            }
            Self::Thompson { target } => {
                // Uniform prior: Beta(1 + solved, 1 + failed). A draw and not the mean: prompts that were sampled
                // little are tried as often as they might be the best.
                let posterior = Beta::new(1.0 + solved, 1.0 + sampled - solved);
                let draw = posterior.map_or(0.5, |posterior| posterior.inverse_cdf(uniform));
                (draw - target).abs()
            }
        }
    }
}

impl FromStr for PromptAllocation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rate = |text: &str| -> Result<f64, String> {
            let rate = text.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
            rate.ok_or_else(|| format!("`{text}` is not a pass rate from 0 to 1"))
        };
        match *text.split(':').collect::<Vec<_>>() {
            ["uniform"] => Ok(Self::Uniform),
            ["band", low, high] => match (rate(low)?, rate(high)?) {
                (low, high) if low <= high => Ok(Self::Band { low, high }),
                _ => Err(format!("the band {low}:{high} is empty")),
            },
            ["thompson"] => Ok(Self::Thompson { target: 0.5 }),
            ["thompson", target] => Ok(Self::Thompson { target: rate(target)? }),
            _ => {
                Err(format!("`{text}`: choose uniform, band:LOW:HIGH, thompson or thompson:TARGET"))
            }
        }
    }
}

impl TryFrom<String> for PromptAllocation {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<PromptAllocation> for String {
    fn from(allocation: PromptAllocation) -> Self {
        allocation.to_string()
    }
}

impl std::fmt::Display for PromptAllocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Uniform => f.write_str("uniform"),
            Self::Band { low, high } => write!(f, "band:{low}:{high}"),
            Self::Thompson { target } => write!(f, "thompson:{target}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::trials::Trials;
    use super::*;

    const RULES: [&str; 4] = ["uniform", "band:0.2:0.8", "thompson:0.5", "thompson:0.1"];

    /// Problems `0..rates.len()`, each solved at its rate in `samples` completions.
    fn world(rates: &[f64], samples: f64) -> PromptTrials {
        let entry = |(problem, rate): (usize, &f64)| {
            let recent = (rate * samples, samples);
            (NAMES[problem].to_owned(), Trials { recent })
        };
        PromptTrials(rates.iter().enumerate().map(entry).collect())
    }

    const EXPLORE: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
    const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

    /// How often each of eight problems is among the two of a round.
    fn counts(rule: &str, rates: &[f64; 8], samples: f64) -> [usize; 8] {
        let trials = world(rates, samples);
        let known = Known { explore: &EXPLORE, base: &[], trials: &trials };
        let rule: PromptAllocation = rule.parse().expect("a rule");
        let mut counts = [0; 8];
        for round in 0..400 {
            let chosen = rule.choose(known, 2, (round, 7), |problem| NAMES[problem]);
            assert_eq!(chosen.len(), 2);
            assert_ne!(chosen[0], chosen[1], "a step holds a prompt once");
            chosen.iter().for_each(|problem| counts[*problem] += 1);
        }
        counts
    }

    #[test]
    fn rules_are_read_as_they_are_written() {
        for text in RULES {
            assert_eq!(text.parse::<PromptAllocation>().expect("a rule").to_string(), text);
        }
        for wrong in
            ["band", "band:0.8:0.2", "thompson:2", "thompson:", "hard", "uniform:1", "band:nan:1"]
        {
            assert!(wrong.parse::<PromptAllocation>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn allocation_rules_select_expected_prompts() {
        let rates = [0.0, 0.0, 0.1, 0.4, 0.5, 0.9, 1.0, 1.0];
        assert_eq!(counts("uniform", &rates, 1e4), [100; 8], "every prompt once an epoch");
        let band = counts("band:0.3:0.6", &rates, 1e4);
        assert_eq!(band[3] + band[4], 800, "two are in the band");
        let wide = counts("band:0.05:0.6", &rates, 1e4);
        assert_eq!(wide[2] + wide[3] + wide[4], 800);
        assert!(wide[2..5].iter().all(|count| (220..320).contains(count)), "{wide:?}");
        let unsolved = counts("band:0:0", &rates, 1e4);
        assert_eq!(unsolved[0] + unsolved[1], 800);
        let sure = counts("thompson", &rates, 1e4);
        assert_eq!(sure[3] + sure[4], 800, "a sharp posterior is its mean");
        // A prompt that is hardly known may be anything.
        let vague = counts("thompson", &rates, 2.0);
        assert!(vague.iter().all(|count| *count > 20), "{vague:?}");
        assert!(vague[4] > vague[0] && vague[4] > vague[7], "{vague:?}");
    }

    #[test]
    fn a_choice_is_a_function_of_seed_round_and_trials() {
        let trials = world(&[0.5; 8], 8.0);
        let known = Known { explore: &EXPLORE, base: &[], trials: &trials };
        for rule in RULES.map(|rule| rule.parse::<PromptAllocation>().expect("a rule")) {
            let at = |round, seed| rule.choose(known, 3, (round, seed), |problem| NAMES[problem]);
            assert_eq!(at(5, 1), at(5, 1));
            assert!((0..8).any(|round| at(round, 1) != at(round, 2)), "{rule}");
        }
    }
}
