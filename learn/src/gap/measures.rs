//! Probabilities of all outputs to `J`, its gradient, and what a policy keeps of p*.
//!
//! For one problem, q being the policy, a the base and v the verdict:
//!
//! ```text
//! J             = sum_y q(y) v(y) - beta sum_y q(y) log(q(y) / a(y))
//! dJ / dlog q(y) = q(y) (v(y) - beta (log(q(y) / a(y)) + 1))     for an output whose probability is free
//! ```
//!
//! The unlisted outputs are one outcome, whose probability is 1 less the sum of the others. Within this outcome
//! nothing is measured, so that KL is a lower bound, short by `q(unlisted) KL` within it.

use serde::Serialize;

use super::Outputs;
use crate::objective::target;

/// Added to the probability of unlisted outputs in logarithms: sums of 32-bit probabilities end at 1 within this.
const EPSILON: f64 = 1e-6;

/// The coefficient of the KL in J.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Beta(pub f64);

/// Measures of a policy, means over problems.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Measures {
    /// `J = E[v] - beta KL(pi || a)`.
    pub objective: f64,
    /// `E[v]`, the chance of a correct output.
    pub validity: f64,
    /// `KL(pi || a)`, in nats.
    pub kl_base: f64,
    /// `exp H` of the distribution over correct answers.
    pub effective_answers: f64,
    /// `KL(p* || pi)`, in nats.
    pub kl_pstar: f64,
    /// The probability of outputs that are not listed.
    pub unlisted: f64,
}

impl Measures {
    /// The measures of a policy, given its log-probabilities of the outputs of each problem.
    pub fn new(problems: &[Outputs], logp: &[Vec<f64>], beta: Beta) -> Self {
        let each = problems.iter().zip(logp).map(|(outputs, logp)| beta.measure(outputs, logp));
        Self::mean(&each.collect::<Vec<_>>())
    }

    /// The measures of p_beta, whatever the model class; of p* where beta is 0.
    pub fn of_optimum(problems: &[Outputs], beta: Beta) -> Self {
        let one = |outputs: &Outputs| {
            let base = outputs.base_validity();
            let (objective, validity) = match beta.0 > 0.0 {
                true => (target::best_value(base, beta.0), target::validity_of(base, beta.0)),
                false => (1.0, 1.0),
            };
            Self {
                objective,
                validity,
                kl_base: target::cost(base, validity),
                // Among correct answers p_beta and p* are the base.
                effective_answers: effective(outputs, &outputs.base),
                kl_pstar: -validity.ln(),
                unlisted: 0.0,
            }
        };
        Self::mean(&problems.iter().map(one).collect::<Vec<_>>())
    }

    fn mean(all: &[Self]) -> Self {
        let mean = |value: fn(&Self) -> f64| all.iter().map(value).sum::<f64>() / all.len() as f64;
        Self {
            objective: mean(|one| one.objective),
            validity: mean(|one| one.validity),
            kl_base: mean(|one| one.kl_base),
            effective_answers: mean(|one| one.effective_answers),
            kl_pstar: mean(|one| one.kl_pstar),
            unlisted: mean(|one| one.unlisted),
        }
    }
}

impl Beta {
    fn measure(self, outputs: &Outputs, logp: &[f64]) -> Measures {
        let (mut validity, mut kl_base, mut kl_pstar) = (0.0, 0.0, 0.0);
        let base_validity = outputs.base_validity();
        for (row, (q, a)) in logp.iter().zip(&outputs.base).enumerate() {
            kl_base += q.exp() * (q - a);
            if outputs.is_correct(row) {
                validity += q.exp();
                let target = a - base_validity.ln();
                kl_pstar += target.exp() * (target - q);
            }
        }
        let (unlisted, log_ratio) = unlisted(logp, &outputs.base);
        kl_base += unlisted * log_ratio;
        Measures {
            objective: validity - self.0 * kl_base,
            validity,
            kl_base,
            effective_answers: effective(outputs, logp),
            kl_pstar,
            unlisted,
        }
    }

    /// `dJ / dlog q(y)` of each of some outputs; all others are the unlisted one.
    pub(super) fn gradient(self, is_correct: &[bool], logp: &[f64], base: &[f64]) -> Vec<f64> {
        let (unlisted, log_ratio) = unlisted(logp, base);
        // What mass that leaves the unlisted outputs is worth there.
        let other = self.0 * (log_ratio + unlisted / (unlisted + EPSILON));
        let one = |((is_correct, q), a): ((&bool, &f64), &f64)| {
            let reward = f64::from(u8::from(*is_correct));
            q.exp() * (reward - self.0 * (q - a + 1.0) + other)
        };
        is_correct.iter().zip(logp).zip(base).map(one).collect()
    }

    /// p_beta of a problem: the probability of each listed output; p* where beta is 0.
    pub(super) fn optimum(self, outputs: &Outputs) -> Vec<f64> {
        let base = outputs.base_validity();
        let log_z = if self.0 > 0.0 { target::log_partition(base, self.0) } else { base.ln() };
        let one = |(row, a): (usize, &f64)| match (outputs.is_correct(row), self.0 > 0.0) {
            (true, true) => (a + 1.0 / self.0 - log_z).exp(),
            (false, false) => 0.0,
            _ => (a - log_z).exp(),
        };
        outputs.base.iter().enumerate().map(one).collect()
    }
}

/// The probability of unlisted outputs, and the logarithm of its ratio to the base's.
fn unlisted(logp: &[f64], base: &[f64]) -> (f64, f64) {
    let left = |logp: &[f64]| (1.0 - logp.iter().map(|x| x.exp()).sum::<f64>()).max(0.0);
    let (policy, base) = (left(logp), left(base));
    (policy, ((policy + EPSILON) / (base + EPSILON)).ln())
}

/// `exp H` of the distribution over classes of correct answers.
fn effective(outputs: &Outputs, logp: &[f64]) -> f64 {
    let correct = || logp.iter().zip(&outputs.class).filter_map(|(q, class)| Some((q, (*class)?)));
    // The largest taken out: a policy that is hardly ever correct has shares all the same.
    let top = correct().map(|(q, _)| *q).fold(f64::NEG_INFINITY, f64::max);
    let mut shares = vec![0.0; 1 + correct().map(|(_, class)| class).max().unwrap_or(0)];
    correct().for_each(|(q, class)| shares[class] += (q - top).exp());
    let sum: f64 = shares.iter().sum();
    let entropy: f64 = shares
        .iter()
        .map(|share| share / sum)
        .filter(|share| *share > 0.0)
        .map(|share| -share * share.ln())
        .sum();
    entropy.exp()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use tealight_nn::policy::Sequence;

    /// Outputs with these base probabilities; the first `correct` are correct, each a class of its own.
    pub(in crate::gap) fn outputs(base: &[f64], correct: usize) -> Outputs {
        let row = Sequence { prompt: vec![1], completion: vec![2] };
        Outputs {
            rows: vec![row; base.len()],
            class: (0..base.len()).map(|row| (row < correct).then_some(row)).collect(),
            base: base.iter().map(|a| a.ln()).collect(),
        }
    }

    fn logs(q: &[f64]) -> Vec<f64> {
        q.iter().map(|q| q.ln()).collect()
    }

    /// Two correct outputs, one incorrect, and .1 of the base unlisted, by hand.
    #[test]
    fn measures_equal_hand_computed_values() {
        let (a, q) = ([0.2, 0.1, 0.6], [0.5, 0.2, 0.25]);
        let measures = Beta(0.5).measure(&outputs(&a, 2), &logs(&q));
        let kl = 0.5 * f64::ln(2.5)
            + 0.2 * f64::ln(2.0)
            + 0.25 * f64::ln(0.25 / 0.6)
            + 0.05 * f64::ln(0.05 / 0.1);
        assert!((measures.validity - 0.7).abs() < 1e-12);
        assert!((measures.unlisted - 0.05).abs() < 1e-12);
        assert!((measures.kl_base - kl).abs() < 1e-6, "{} {kl}", measures.kl_base);
        assert!((measures.objective - (0.7 - 0.5 * kl)).abs() < 1e-6);
        let shares = [5.0 / 7.0, 2.0 / 7.0_f64];
        let entropy: f64 = shares.iter().map(|share| -share * share.ln()).sum();
        assert!((measures.effective_answers - entropy.exp()).abs() < 1e-12);
        let target = [2.0 / 3.0, 1.0 / 3.0_f64];
        let distance = target[0] * (target[0] / 0.5).ln() + target[1] * (target[1] / 0.2).ln();
        assert!((measures.kl_pstar - distance).abs() < 1e-12);
    }

    /// p_beta, its value in closed form and its measures agree, and no other distribution has a larger J.
    #[test]
    fn p_beta_has_the_value_of_the_closed_form_and_no_policy_has_more() {
        let outputs = outputs(&[0.2, 0.1, 0.3, 0.399], 2);
        for beta in [0.02, 0.1, 0.5, 2.0] {
            let beta = Beta(beta);
            let known = Measures::of_optimum(std::slice::from_ref(&outputs), beta);
            let best = beta.optimum(&outputs);
            let measured = beta.measure(&outputs, &logs(&best));
            for (name, a, b) in [
                ("J", known.objective, measured.objective),
                ("validity", known.validity, measured.validity),
                ("KL", known.kl_base, measured.kl_base),
                ("answers", known.effective_answers, measured.effective_answers),
                ("KL to p*", known.kl_pstar, measured.kl_pstar),
            ] {
                assert!((a - b).abs() < 1e-5, "{name} at {beta:?}: {a} {b}");
            }
            for other in [[0.2, 0.1, 0.3, 0.399], [0.9, 0.05, 0.03, 0.01], [0.05, 0.9, 0.03, 0.01]]
            {
                let other = beta.measure(&outputs, &logs(&other)).objective;
                assert!(other <= known.objective + 1e-6, "{beta:?}: {other}");
            }
        }
        let limit = Measures::of_optimum(std::slice::from_ref(&outputs), Beta(0.0));
        assert!((limit.kl_base + 0.3_f64.ln()).abs() < 1e-12 && limit.kl_pstar == 0.0);
        assert!((Beta(0.0).optimum(&outputs)[0] - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn the_gradient_is_that_of_finite_differences() {
        let outputs = outputs(&[0.2, 0.1, 0.3, 0.35], 2);
        let is_correct = [true, true, false, false];
        let logp = logs(&[0.4, 0.15, 0.2, 0.15]);
        for beta in [0.0, 0.1, 1.0] {
            let beta = Beta(beta);
            let gradient = beta.gradient(&is_correct, &logp, &outputs.base);
            for (row, expected) in gradient.iter().enumerate() {
                let at = |by: f64| {
                    let mut moved = logp.clone();
                    moved[row] += by;
                    beta.measure(&outputs, &moved).objective
                };
                let difference = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!(
                    (difference - expected).abs() < 1e-7,
                    "{beta:?} {row}: {difference} {expected}"
                );
            }
        }
    }
}
