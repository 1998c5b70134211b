//! Accuracy and diversity without samples, where all correct answers to a problem can be listed: from a model's
//! probability of each. What samples estimate with noise is a number here.
//!
//! Only the listed texts count. A model that gives correct answers in other words or other tokens has a larger Pass@1
//! than these probabilities say, never a smaller one.

use serde::{Deserialize, Serialize};

use crate::interval::{ByK, Estimate, distinct, effective, share};

/// One listed correct answer of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode {
    /// The problem's id.
    pub problem: String,
    /// The class of the answer, as the verifier has it.
    pub answer: String,
    /// Token sequences that are scored as this answer.
    pub spellings: usize,
}

/// The probabilities of a problem's correct answers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ListedProblem {
    /// The natural logarithm of the probability of each distinct correct answer, all its spellings together.
    pub logp: Vec<f64>,
    /// How many distinct correct answers there are, listed or not.
    pub total: Option<u64>,
}

/// Means over the problems whose answers are listed, with intervals over problems; within a problem nothing is
/// estimated.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exact {
    /// Problems whose answers are listed.
    pub problems: usize,
    /// Listed answers, all problems together.
    pub answers: usize,
    /// Probability that at least one of k samples is a listed answer; at k = 1 their total probability.
    #[serde(rename = "pass@k")]
    pub pass_at_k: ByK,
    /// Expected number of distinct listed answers among k samples.
    #[serde(rename = "unique_correct@k")]
    pub unique_correct: ByK,
    /// The same over `min(k, total)`.
    #[serde(rename = "coverage@k")]
    pub coverage: ByK,
    /// `exp H` of the distribution over listed answers.
    pub hill_1: Estimate,
    /// The inverse of the probability that two correct samples are the same answer.
    pub hill_2: Estimate,
}

impl Exact {
    /// Of some problems at each of `ks`; none where no problem has a listed answer.
    pub fn new(problems: &[ListedProblem], ks: &[usize]) -> Option<Self> {
        let listed: Vec<&ListedProblem> =
            problems.iter().filter(|problem| !problem.logp.is_empty()).collect();
        if listed.is_empty() {
            return None;
        }
        let each = |value: &dyn Fn(&ListedProblem) -> f64| -> Vec<f64> {
            listed.iter().map(|problem| value(problem)).collect()
        };
        let at_k = |value: fn(&ListedProblem, usize) -> f64, k: usize| {
            each(&|problem: &ListedProblem| value(problem, k))
        };
        let by_k = |value| ks.iter().map(|k| (*k, share(&at_k(value, *k)))).collect();
        let most = listed.iter().map(|problem| problem.logp.len()).max().unwrap_or(1);
        let unique = |k: &usize| (*k, distinct(&at_k(ListedProblem::unique, *k), most, *k));
        Some(Self {
            problems: listed.len(),
            answers: listed.iter().map(|problem| problem.logp.len()).sum(),
            pass_at_k: by_k(ListedProblem::pass),
            unique_correct: ks.iter().map(unique).collect(),
            coverage: by_k(|problem, k| {
                let listed = problem.logp.len() as u64;
                let most = problem.total.unwrap_or(listed).max(listed).min(k as u64);
                problem.unique(k) / most as f64
            }),
            hill_1: effective(&each(&|problem| problem.hill_1())),
            hill_2: effective(&each(&|problem| problem.hill_2())),
        })
    }
}

impl ListedProblem {
    /// The total probability of the answers.
    pub fn mass(&self) -> f64 {
        self.logp.iter().map(|logp| logp.exp()).sum::<f64>().min(1.0)
    }

    /// The probability that one of k samples is one of the answers.
    pub fn pass(&self, k: usize) -> f64 {
        seen(self.mass(), k)
    }

    /// The expected number of distinct answers among k samples.
    pub fn unique(&self, k: usize) -> f64 {
        self.logp.iter().map(|logp| seen(logp.exp(), k)).sum()
    }

    /// The gap of this model to the best value of J = `E[v] - beta KL(pi || a)`, a the base: J of p_beta (the base
    /// reweighted by exp(v / beta)) less J of the model, in closed form. All incorrect outputs are one outcome here, so
    /// that KL may be larger than what is counted, and the gap too.
    pub fn gap_to_p_beta(&self, base: &Self, beta: f64) -> f64 {
        let (mass, of_base) = (self.mass(), base.mass());
        let part = |p: f64, log_ratio: f64| if p > 0.0 { p * log_ratio } else { 0.0 };
        let of_answers = self.logp.iter().zip(&base.logp).map(|(own, a)| part(own.exp(), own - a));
        // A mass that is rounded to 1 leaves something for the rest.
        let rest = |mass: f64| (1.0 - mass).max(f64::MIN_POSITIVE).ln();
        let kl = of_answers.sum::<f64>() + part(1.0 - mass, rest(mass) - rest(of_base));
        // J of p_beta is beta log Z, Z = 1 - A + A exp(1 / beta), A the base's mass.
        let best = 1.0 + beta * (of_base + (1.0 - of_base) * (-1.0 / beta).exp()).ln();
        best - (mass - beta * kl)
    }

    /// Shares of the answers among themselves; in log space, so that a mass of 1e-300 has them all the same.
    fn shares(&self) -> Vec<f64> {
        let top = self.logp.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.logp.iter().map(|logp| (logp - top).exp()).sum();
        self.logp.iter().map(|logp| (logp - top).exp() / sum).collect()
    }

    fn hill_1(&self) -> f64 {
        // 0 log 0 = 0.
        let entropy = |share: &f64| if *share > 0.0 { -share * share.ln() } else { 0.0 };
        self.shares().iter().map(entropy).sum::<f64>().exp()
    }

    fn hill_2(&self) -> f64 {
        1.0 / self.shares().iter().map(|share| share * share).sum::<f64>()
    }
}

/// The probability that something of probability `p` is among k samples.
fn seen(p: f64, k: usize) -> f64 {
    // 1 - (1 - p)^k by log1p and expm1: exact for p of 1e-20 as well.
    -(k as f64 * (-p.min(1.0)).ln_1p()).exp_m1()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;
    use crate::{Summary, Tally};

    fn problem(probabilities: &[f64]) -> ListedProblem {
        let logp: Vec<f64> = probabilities.iter().map(|p| p.ln()).collect();
        ListedProblem { total: Some(logp.len() as u64), logp }
    }

    #[test]
    fn exact_measures_equal_hand_computed_values() {
        let exact = Exact::new(&[problem(&[0.2, 0.05]), problem(&[0.5])], &[1, 2]).unwrap();
        assert_eq!((exact.problems, exact.answers), (2, 3));
        assert!((exact.pass_at_k[&1].value - (0.25 + 0.5) / 2.0).abs() < 1e-12);
        let unique = [0.36 + 0.0975, 0.75];
        assert!((exact.unique_correct[&2].value - unique.iter().sum::<f64>() / 2.0).abs() < 1e-12);
        // Two samples can show two answers to the first problem and one to the second.
        assert!((exact.coverage[&2].value - (unique[0] / 2.0 + unique[1]) / 2.0).abs() < 1e-12);
        let shares = [0.8_f64, 0.2];
        let entropy: f64 = shares.iter().map(|s| -s * s.ln()).sum();
        assert!((exact.hill_1.value - (entropy.exp() + 1.0) / 2.0).abs() < 1e-12);
        assert!((exact.hill_2.value - (1.0 / 0.68 + 1.0) / 2.0).abs() < 1e-12);
        assert!(Exact::new(&[ListedProblem::default()], &[1]).is_none());
    }

    #[test]
    fn the_gap_is_zero_at_p_beta_and_grows_with_the_lack_of_answers() {
        let base = problem(&[0.2, 0.1, 0.05]);
        for beta in [0.0, 0.1, 1.0] {
            let z = 0.65 * (-1.0_f64 / beta).exp() + 0.35;
            let optimum = problem(&[0.2 / z, 0.1 / z, 0.05 / z]);
            assert!(optimum.gap_to_p_beta(&base, beta).abs() < 1e-12, "{beta}");
        }
        // By hand: J of the base is its mass, J of a point mass 1 - beta log(1 / .2).
        let best = 0.1 * (0.65 + 0.35 * 10.0_f64.exp()).ln();
        assert!((base.gap_to_p_beta(&base, 0.1) - (best - 0.35)).abs() < 1e-12);
        let one = ListedProblem { logp: vec![0.0, -800.0, -800.0], total: None };
        assert!((one.gap_to_p_beta(&base, 0.1) - (best - 1.0 + 0.1 * 5.0_f64.ln())).abs() < 1e-12);
    }

    /// Estimates from samples are, on average over evaluations, the values from the probabilities.
    #[test]
    fn sampled_estimates_converge_to_exact_measures() {
        let problems = [problem(&[0.2, 0.1, 0.02, 0.01]), problem(&[0.05, 0.3]), problem(&[0.6])];
        let exact = Exact::new(&problems, &[1, 4, 8]).unwrap();
        let mut draws = Draws::new(5);
        let repetitions = 600;
        let mut sums = [0.0; 4];
        for _ in 0..repetitions {
            let tallies: Vec<Tally> = problems
                .iter()
                .map(|problem| {
                    let mut tally = Tally { total: problem.total, ..Tally::default() };
                    for _ in 0..16 {
                        tally.samples += 1;
                        let mut left = draws.uniform();
                        let sampled = problem.logp.iter().position(|logp| {
                            left -= logp.exp();
                            left < 0.0
                        });
                        if let Some(answer) = sampled {
                            tally.correct += 1;
                            let class = answer.to_string();
                            tally.classes.add(&class, &class, &class);
                        }
                    }
                    tally
                })
                .collect();
            let summary = Summary::new(&tallies, &[1, 4, 8]).unwrap();
            for (sum, value) in sums.iter_mut().zip([
                summary.pass_at_k[&1].value,
                summary.pass_at_k[&8].value,
                summary.unique_correct[&8].value,
                summary.coverage[&4].value,
            ]) {
                *sum += value / f64::from(repetitions);
            }
        }
        let known = [
            exact.pass_at_k[&1].value,
            exact.pass_at_k[&8].value,
            exact.unique_correct[&8].value,
            exact.coverage[&4].value,
        ];
        for (mean, known) in sums.iter().zip(known) {
            // Four standard errors of the mean of so many evaluations, roughly.
            assert!((mean - known).abs() < 0.02 * known, "{mean} {known}");
        }
    }
}
