//! How much a prompt counts, by how often the run has solved it: prompts that several tries solve anyway add nothing to
//! Pass@k (arXiv 2606.15455).

use super::group_stats::GroupStats;

/// The weight of a prompt's group, from what the run saw of the prompt before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gate {
    /// Every prompt counts alike.
    All,
    /// Only prompts of which the run has seen no correct sample before.
    Unsolved,
    /// By the expected marginal gain in Pass@k, as a share of the largest: `E[(1 - p)^(k - 1)]` under the posterior of
    /// the chance p of a correct sample, with Jeffreys' prior.
    Gain {
        /// The k of the Pass@k whose gain weights a prompt.
        k: usize,
    },
}

impl Gate {
    /// The weight of a group.
    pub(super) fn weight(self, stats: &GroupStats) -> f64 {
        let (correct, samples) = (stats.earlier.0 as f64, stats.earlier.1 as f64);
        match self {
            Gate::All => 1.0,
            Gate::Unsolved => f64::from(u8::from(correct == 0.0)),
            Gate::Gain { k } => {
                // d Pass@k / dp = k (1 - p)^(k - 1). E[(1 - p)^m] = prod_{j < m} (b + j) / (a + b + j) of Beta(a, b).
                let (a, b) = (correct + 0.5, samples - correct + 0.5);
                (0..k.saturating_sub(1)).map(|j| (b + j as f64) / (a + b + j as f64)).product()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gate_weight_equals_the_posterior_integral() {
        let weight = |gate: Gate, correct: u64, samples: u64| {
            gate.weight(&GroupStats { earlier: (correct, samples), ..GroupStats::default() })
        };
        assert_eq!(weight(Gate::All, 5, 8), 1.0);
        assert_eq!((weight(Gate::Unsolved, 0, 8), weight(Gate::Unsolved, 1, 80)), (1.0, 0.0));
        for (k, correct, samples) in [(1, 3, 8), (4, 0, 8), (16, 1, 8), (64, 5, 40)] {
            // The posterior's integral, with p = u^2, whose density is smooth.
            let (a, b) = (correct as f64 + 0.5, (samples - correct) as f64 + 0.5);
            let integral = |power: f64| -> f64 {
                let at = |u: f64| u.powf(2.0 * a - 1.0) * (1.0 - u * u).powf(b + power - 1.0);
                (0..200_000).map(|i| at((i as f64 + 0.5) / 200_000.0)).sum()
            };
            let exact = integral(k as f64 - 1.0) / integral(0.0);
            let ours = weight(Gate::Gain { k }, correct, samples);
            assert!((ours - exact).abs() < 1e-6, "{k} {correct} of {samples}: {ours} {exact}");
        }
    }
}
