//! Correcting for samples that another model drew: its kernels or its weights round otherwise, or it is older.
//!
//! With `b` what the engine drew from and `pi` the policy before the step, an expectation under `pi` is one under `b`
//! weighted by `pi / b`. The weight of a whole completion is exact and of large variance; what is done instead is
//! biased, and says so: it never weighs a token by more than a limit.

use std::fmt;
use std::str::FromStr;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// The weights of samples of another engine.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ImportanceCorrection {
    /// Not at all: the gradient is that of the engine's distribution.
    None,
    /// Each token by its own ratio, at most the limit (truncated importance sampling).
    TokenTruncate(f64),
    /// Each token by the ratio of its whole completion, and completions beyond the limit not at all (TRL's default).
    SequenceMask(f64),
}

impl Default for ImportanceCorrection {
    fn default() -> Self {
        Self::SequenceMask(3.0)
    }
}

impl fmt::Display for ImportanceCorrection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::TokenTruncate(most) => write!(f, "token-truncate:{most}"),
            Self::SequenceMask(most) => write!(f, "sequence-mask:{most}"),
        }
    }
}

impl FromStr for ImportanceCorrection {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (name, limit) = text.split_once(':').unwrap_or((text, ""));
        let most = |usual: f64| -> Result<f64> {
            let most = if limit.is_empty() { usual } else { limit.parse()? };
            if !(most >= 1.0 && most.is_finite()) {
                bail!("the limit of {name} must be at least 1, not {limit}");
            }
            Ok(most)
        };
        match name {
            "none" if limit.is_empty() => Ok(Self::None),
            "token-truncate" => Ok(Self::TokenTruncate(most(2.0)?)),
            "sequence-mask" => Ok(Self::SequenceMask(most(3.0)?)),
            _ => bail!(
                "no correction `{text}`; there are none, token-truncate:C and sequence-mask:C"
            ),
        }
    }
}

impl TryFrom<String> for ImportanceCorrection {
    type Error = anyhow::Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<ImportanceCorrection> for String {
    fn from(correction: ImportanceCorrection) -> Self {
        correction.to_string()
    }
}

/// Weights of samples that another model drew.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImportanceWeights {
    /// The factor of the weight of every token, completion by completion.
    pub(crate) factor: Vec<Vec<f64>>,
    /// Whether a completion is within the limit: those that are not count for nothing in sums, which are divided by
    /// all.
    pub(crate) counts: Vec<bool>,
}

/// Distance of an engine's log-probabilities from the policy's, on the tokens of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mismatch {
    /// Mean absolute difference of a token's log-probability, in nats.
    #[serde(rename = "sampling/sampling_logp_difference/mean")]
    pub mean: f64,
    /// Largest absolute difference, in nats.
    #[serde(rename = "sampling/engine_logp_difference/max")]
    pub max: f64,
    /// Mean of the ratios `pi / b` of whole completions; 1 in expectation.
    #[serde(rename = "sampling/importance_sampling_ratio/mean")]
    pub ratio: f64,
    /// The smallest of them.
    #[serde(rename = "sampling/importance_sampling_ratio/min")]
    pub smallest: f64,
    /// The largest of them.
    #[serde(rename = "sampling/importance_sampling_ratio/max")]
    pub largest: f64,
    /// Share of completions that do not count.
    #[serde(rename = "sampling/masked_ratio")]
    pub masked: f64,
    /// Completions drawn from the policy itself that estimate as well as these, over their number: `(sum w)^2 / (n sum
    /// w^2)` with the ratios of completions as `w`.
    #[serde(rename = "sampling/effective_sample_size")]
    pub effective: f64,
}

/// The ratio `pi / b` of a whole completion.
fn sequence_ratio(tokens: &[f64]) -> f64 {
    tokens.iter().sum::<f64>().exp()
}

impl ImportanceCorrection {
    /// The weights of completions, from `log(pi / b)` of their tokens.
    pub(crate) fn weigh(self, log_ratios: &[Vec<f64>]) -> ImportanceWeights {
        let weigh = |tokens: &Vec<f64>| {
            // prod_t pi / b is the exact weight, but its variance grows exponentially in the number of tokens.
            let ratio = sequence_ratio(tokens);
            match self {
                Self::None => (vec![1.0; tokens.len()], true),
                // min(pi / b, C) of the token alone: little variance, but prefixes stay those of the engine.
                Self::TokenTruncate(most) => {
                    (tokens.iter().map(|x| x.exp().min(most)).collect(), true)
                }
                Self::SequenceMask(most) if ratio <= most => (vec![ratio; tokens.len()], true),
                Self::SequenceMask(_) => (vec![0.0; tokens.len()], false),
            }
        };
        let (factor, counts) = log_ratios.iter().map(weigh).unzip();
        ImportanceWeights { factor, counts }
    }
}

impl Mismatch {
    /// Of completions of whose tokens these are `log(pi / b)`, and which of them count.
    pub(crate) fn new(log_ratios: &[Vec<f64>], counts: &[bool]) -> Self {
        let differences = || log_ratios.iter().flatten().map(|x| x.abs());
        let tokens = differences().count().max(1) as f64;
        let ratios: Vec<f64> = log_ratios.iter().map(|tokens| sequence_ratio(tokens)).collect();
        let count = ratios.len().max(1) as f64;
        let (sum, squares): (f64, f64) =
            ratios.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        Self {
            mean: differences().sum::<f64>() / tokens,
            max: differences().fold(0.0, |most, x| if x > most || x.is_nan() { x } else { most }),
            ratio: sum / count,
            smallest: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            largest: ratios.iter().copied().fold(0.0, f64::max),
            masked: counts.iter().filter(|counts| !**counts).count() as f64 / count,
            // Kish: (sum w)^2 / (n sum w^2), 1 where all weights are equal.
            effective: if squares > 0.0 { sum * sum / (count * squares) } else { 0.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two tokens of two kinds: the policy's probabilities and the engine's, token by token.
    const POLICY: [[f64; 2]; 2] = [[0.7, 0.3], [0.2, 0.8]];
    const SAMPLER: [[f64; 2]; 2] = [[0.3, 0.7], [0.5, 0.5]];

    /// The expectation under the engine of every completion's weighted value, by enumeration: the first token's weight
    /// times a value of the whole completion.
    fn expected(correction: ImportanceCorrection, value: impl Fn(usize, usize) -> f64) -> [f64; 2] {
        let mut sums = [0.0; 2];
        for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let logp = |p: [[f64; 2]; 2]| [p[0][a].ln(), p[1][b].ln()];
            let (policy, sampler) = (logp(POLICY), logp(SAMPLER));
            let estimate =
                correction.weigh(&[vec![policy[0] - sampler[0], policy[1] - sampler[1]]]);
            let probability = SAMPLER[0][a] * SAMPLER[1][b];
            for (sum, factor) in sums.iter_mut().zip(&estimate.factor[0]) {
                *sum += probability * factor * value(a, b);
            }
        }
        sums
    }

    #[test]
    fn correction_biases_equal_enumeration() {
        let value = |a: usize, b: usize| (1 + a + 2 * b) as f64;
        let under = |p: [[f64; 2]; 2]| -> f64 {
            let all = [(0, 0), (0, 1), (1, 0), (1, 1)];
            all.iter().map(|(a, b)| p[0][*a] * p[1][*b] * value(*a, *b)).sum()
        };
        let close = |a: f64, b: f64| assert!((a - b).abs() < 1e-6, "{a} is not {b}");
        // Uncorrected it is the engine's expectation.
        close(expected(ImportanceCorrection::None, value)[0], under(SAMPLER));
        // The whole ratio, never beyond its limit, is exact.
        expected(ImportanceCorrection::SequenceMask(1e6), value)
            .iter()
            .for_each(|estimate| close(*estimate, under(POLICY)));
        // A token's own ratio leaves the other tokens to the engine.
        let mixed = [[POLICY[0], SAMPLER[1]], [SAMPLER[0], POLICY[1]]];
        for (estimate, mixed) in
            expected(ImportanceCorrection::TokenTruncate(1e6), value).iter().zip(mixed)
        {
            close(*estimate, under(mixed));
        }
        // A limit loses what is beyond it: 7 / 3 is cut to 2.
        let cut = expected(ImportanceCorrection::TokenTruncate(2.0), value)[0];
        close(cut, under([[0.6, 0.3], SAMPLER[1]]));
        // The completion (0, 1) has the ratio 7 / 3 * 1.6 and does not count.
        let masked = expected(ImportanceCorrection::SequenceMask(3.0), value)[0];
        close(masked, under(POLICY) - 0.7 * 0.8 * value(0, 1));
    }

    #[test]
    fn masked_share_and_effective_sample_size_are_reported() {
        let log_ratios = [vec![0.0, 0.0], vec![0.5], vec![2.0]];
        let estimate = ImportanceCorrection::SequenceMask(3.0).weigh(&log_ratios);
        assert_eq!(estimate.counts, [true, true, false]);
        assert_eq!(estimate.factor, [vec![1.0, 1.0], vec![0.5_f64.exp()], vec![0.0]]);
        let mismatch = Mismatch::new(&log_ratios, &estimate.counts);
        assert!((mismatch.mean - 2.5 / 4.0).abs() < 1e-9 && (mismatch.max - 2.0).abs() < 1e-9);
        assert!((mismatch.masked - 1.0 / 3.0).abs() < 1e-9);
        let ratios = [1.0, 0.5_f64.exp(), 2_f64.exp()];
        let (sum, squares) =
            (ratios.iter().sum::<f64>(), ratios.iter().map(|x| x * x).sum::<f64>());
        assert!((mismatch.effective - sum * sum / (3.0 * squares)).abs() < 1e-6);
        let same = Mismatch::new(&[vec![0.0; 2], vec![0.0], vec![0.0]], &[true; 3]);
        assert_eq!((same.mean, same.ratio, same.effective), (0.0, 1.0, 1.0));
    }

    #[test]
    fn corrections_are_read_and_shown() {
        for text in ["none", "token-truncate:2", "sequence-mask:3", "sequence-mask:1.5"] {
            assert_eq!(text.parse::<ImportanceCorrection>().unwrap().to_string(), text);
        }
        let usual = "sequence-mask".parse::<ImportanceCorrection>().unwrap();
        assert_eq!(usual, ImportanceCorrection::default());
        for text in ["mask", "none:1", "token-truncate:0.5", "sequence-mask:x"] {
            assert!(text.parse::<ImportanceCorrection>().is_err(), "{text}");
        }
    }
}
