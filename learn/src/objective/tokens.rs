//! Objectives that treat single tokens apart: Clip-Cov, KL-Cov and SimKO.
//!
//! All of it is decided on the host, from what the rollout knew, before any gradient: the choice does
//! not depend on micro-batches. Columns are flat: the tokens of all completions, one after the other.

/// Which tokens are kept from collapsing, by the covariance of advantage and log-probability
/// (Cui et al., arXiv 2505.22617).
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Covariance {
    /// A random share of the tokens whose covariance is between `low` and `high` gets no gradient.
    Clip {
        /// Share of all tokens.
        share: f64,
        /// Lowest covariance.
        low: f64,
        /// Highest covariance.
        high: f64,
    },
    /// A penalty `coefficient |log pi - log behavior|` at the share of tokens with the highest covariance.
    Kl {
        /// Share of all tokens.
        share: f64,
        /// Penalty coefficient.
        coefficient: f64,
    },
}

/// SimKO (arXiv 2510.14807): at uncertain tokens, correct answers lift the likeliest candidates too and
/// incorrect ones press harder on the top candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimKo {
    /// Tokens above this quantile of entropy are uncertain.
    pub quantile: f64,
    /// Share of the update that goes to the candidates.
    pub mix: f64,
    /// Number of candidates.
    pub top: usize,
    /// Factor on the penalty of the top candidate.
    pub penalty: f64,
}

/// `(A - mean A) (l - mean l)` of every token, means over all tokens.
fn covariances(advantages: &[f64], logp: &[f64]) -> Vec<f64> {
    let mean = |column: &[f64]| column.iter().sum::<f64>() / column.len().max(1) as f64;
    let (mean_advantage, mean_logp) = (mean(advantages), mean(logp));
    let pairs = advantages.iter().zip(logp);
    pairs.map(|(a, l)| (a - mean_advantage) * (l - mean_logp)).collect()
}

/// The indices of the tokens that the rule picks: at least one where any qualifies. `uniform` gives numbers in [0, 1).
pub fn select_tokens(
    covariance: Covariance,
    advantages: &[f64],
    logp: &[f64],
    mut uniform: impl FnMut() -> f64,
) -> Vec<usize> {
    // To first order the change of entropy in a step is -cov(log pi, A): few tokens make most of the collapse.
    let values = covariances(advantages, logp);
    let mut tokens: Vec<usize> = (0..values.len()).collect();
    let quota = |share: f64| ((share * values.len() as f64) as usize).max(1);
    match covariance {
        Covariance::Clip { share, low, high } => {
            let quota = quota(share);
            tokens.retain(|token| values[*token] > low && values[*token] < high);
            // The first of a shuffle of the candidates.
            for index in 0..quota.min(tokens.len()) {
                let left = tokens.len() - index;
                let other = index + ((uniform() * left as f64) as usize).min(left - 1);
                tokens.swap(index, other);
            }
            tokens.truncate(quota);
        }
        Covariance::Kl { share, .. } => {
            tokens.sort_by(|a, b| values[*b].total_cmp(&values[*a]).then(a.cmp(b)));
            tokens.truncate(quota(share));
        }
    }
    tokens
}

/// The columns of SimKO: its terms at uncertain tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct SimKoColumns {
    /// Toward the likeliest candidates, at tokens of correct completions.
    pub lift: Vec<f64>,
    /// Against the top candidate, at tokens of incorrect completions.
    pub press: Vec<f64>,
}

impl SimKo {
    /// The columns of completions, from the entropy and the advantage of every token and whether its completion is
    /// correct.
    pub fn columns(&self, entropy: &[f64], advantage: &[f64], is_correct: &[bool]) -> SimKoColumns {
        let limit = quantile(entropy, self.quantile);
        let column = |wanted: bool, factor: f64| -> Vec<f64> {
            let tokens = advantage.iter().zip(entropy).zip(is_correct);
            let value = |((advantage, entropy), is_correct): ((&f64, &f64), &bool)| {
                if *is_correct == wanted && *entropy > limit { advantage * factor } else { 0.0 }
            };
            tokens.map(value).collect()
        };
        SimKoColumns { lift: column(true, self.mix), press: column(false, self.penalty - 1.0) }
    }
}

/// The value below which a share `quantile` of all tokens lies.
pub fn quantile(values: &[f64], quantile: f64) -> f64 {
    let mut all = values.to_vec();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => f64::INFINITY,
        count => all[((count - 1) as f64 * quantile).round() as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADVANTAGES: [f64; 4] = [2.0, 2.0, -2.0, -2.0];
    const LOGP: [f64; 4] = [-0.1, -3.0, -0.1, -3.0];

    #[test]
    fn kl_cov_takes_the_highest_covariances() {
        let selected = |share| {
            select_tokens(Covariance::Kl { share, coefficient: 1.0 }, &ADVANTAGES, &LOGP, || 0.0)
        };
        assert_eq!(selected(0.5), [0, 3]);
        assert_eq!(selected(0.0001), [0], "at least one");
    }

    #[test]
    fn clip_cov_takes_only_what_lies_between() {
        let selected = |low: f64, high: f64| {
            select_tokens(Covariance::Clip { share: 0.5, low, high }, &ADVANTAGES, &LOGP, || 0.99)
        };
        // Covariances are +-2.9.
        assert_eq!(selected(1.0, 5.0).len(), 2);
        assert!(selected(3.0, 5.0).is_empty());
        assert_eq!(quantile(&LOGP, 0.8), -0.1);
    }

    #[test]
    fn simko_moves_uncertain_tokens_alone() {
        let simko = SimKo { quantile: 0.25, mix: 0.25, top: 3, penalty: 1.5 };
        let columns =
            simko.columns(&[0.1, 0.9, 0.2, 0.8], &ADVANTAGES, &[true, true, false, false]);
        assert_eq!(columns.lift, [0.0, 0.5, 0.0, 0.0]);
        assert_eq!(columns.press, [0.0, 0.0, 0.0, -1.0]);
    }
}
