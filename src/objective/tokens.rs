//! Objectives that treat single tokens apart: Clip-Cov, KL-Cov and SimKO.
//!
//! All of it is decided on the host, from what the rollout knew, before any gradient: the choice does
//! not depend on micro-batches. Rows are completions, without padding.

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
    /// The share of tokens with the highest covariance pays `coefficient |log pi - log behavior|`.
    Kl {
        /// Share of all tokens.
        share: f64,
        /// Price.
        coefficient: f64,
    },
}

/// SimKO (arXiv 2510.14807): at uncertain tokens, right answers lift the likeliest candidates too and
/// wrong ones press harder on the top candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimKo {
    /// Tokens above this quantile of entropy are uncertain.
    pub quantile: f64,
    /// Share of the update that goes to the candidates.
    pub mix: f64,
    /// How many candidates.
    pub top: usize,
    /// Factor on the penalty of the top candidate.
    pub penalty: f64,
}

/// One number a token.
pub type Rows = Vec<Vec<f64>>;

/// `(A - mean A) (l - mean l)` of every token, means over all tokens.
fn covariances(advantages: &Rows, logp: &Rows) -> Rows {
    let mean = |rows: &Rows| {
        let count: usize = rows.iter().map(Vec::len).sum();
        rows.iter().flatten().sum::<f64>() / count.max(1) as f64
    };
    let (of_credits, of_logp) = (mean(advantages), mean(logp));
    let row = |(advantages, logp): (&Vec<f64>, &Vec<f64>)| {
        advantages.iter().zip(logp).map(|(a, l)| (a - of_credits) * (l - of_logp)).collect()
    };
    advantages.iter().zip(logp).map(row).collect()
}

/// The tokens, as `(row, token)`, that the rule picks: at least one where any qualifies. `uniform`
/// gives numbers in [0, 1).
pub fn chosen(
    covariance: Covariance,
    advantages: &Rows,
    logp: &Rows,
    mut uniform: impl FnMut() -> f64,
) -> Vec<(usize, usize)> {
    let values = covariances(advantages, logp);
    let mut tokens: Vec<(f64, usize, usize)> = values
        .iter()
        .enumerate()
        .flat_map(|(row, values)| values.iter().enumerate().map(move |(t, v)| (*v, row, t)))
        .collect();
    let quota = |share: f64| ((share * tokens.len() as f64) as usize).max(1);
    match covariance {
        Covariance::Clip { share, low, high } => {
            let quota = quota(share);
            tokens.retain(|token| token.0 > low && token.0 < high);
            // The first of a shuffle of the candidates.
            for place in 0..quota.min(tokens.len()) {
                let left = tokens.len() - place;
                let other = place + ((uniform() * left as f64) as usize).min(left - 1);
                tokens.swap(place, other);
            }
            tokens.truncate(quota);
        }
        Covariance::Kl { share, .. } => {
            let quota = quota(share);
            tokens.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
            tokens.truncate(quota);
        }
    }
    tokens.into_iter().map(|(_, row, token)| (row, token)).collect()
}

/// The value below which a share `quantile` of all tokens lies.
pub fn quantile(values: &Rows, quantile: f64) -> f64 {
    let mut all: Vec<f64> = values.iter().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    match all.len() {
        0 => f64::INFINITY,
        count => all[((count - 1) as f64 * quantile).round() as usize],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> (Rows, Rows) {
        let advantages = vec![vec![2.0, 2.0], vec![-2.0, -2.0]];
        (advantages, vec![vec![-0.1, -3.0], vec![-0.1, -3.0]])
    }

    #[test]
    fn kl_cov_takes_the_highest_covariances() {
        let (advantages, logp) = rows();
        let picked =
            |share| chosen(Covariance::Kl { share, coefficient: 1.0 }, &advantages, &logp, || 0.0);
        assert_eq!(picked(0.5), [(0, 0), (1, 1)]);
        assert_eq!(picked(0.0001), [(0, 0)], "at least one");
    }

    #[test]
    fn clip_cov_takes_only_what_lies_between() {
        let (advantages, logp) = rows();
        let picked = |low: f64, high: f64| {
            chosen(Covariance::Clip { share: 0.5, low, high }, &advantages, &logp, || 0.99)
        };
        // Covariances are +-2.9.
        assert_eq!(picked(1.0, 5.0).len(), 2);
        assert!(picked(3.0, 5.0).is_empty());
        assert_eq!(quantile(&logp, 0.8), -0.1);
    }
}
