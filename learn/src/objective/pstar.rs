//! How far a policy is from p*, the base given that it is correct, estimated on one prompt from samples.
//!
//! With the base a, the verifier v and the policy pi: `Z = a(v = 1)`, `p*(y) = a(y) v(y) / Z`, and for a completion y
//! of the policy the importance weight `w = a(y) / pi(y)` and the ratio `r = p*(y) / pi(y) = v w / Z`. Two kinds of
//! samples are read: rollouts of the policy, and stored correct completions of the base, which are samples of p*.
//! Rollouts alone cannot show answers that the policy has lost; stored completions can. Z comes from stored completions
//! that gave no term, else from the rollouts by importance weights. docs/measures.md has the formulas and the bias of
//! each estimator.

use std::collections::BTreeMap;

use serde::Serialize;
use statrs::statistics::Statistics;

/// A correct answer of the base counts as missing where the policy is less likely to give it than the base by this
/// factor.
pub const MISSING: f64 = 0.1;

/// Natural log-probabilities of a whole completion, and whether it is correct.
#[derive(Debug, Clone, Copy)]
pub struct ScoredCompletion {
    /// Log-probability under the policy.
    pub policy_logp: f64,
    /// Log-probability under the base.
    pub base_logp: f64,
    /// Whether it is correct.
    pub is_correct: bool,
}

/// Completions of the base on a prompt, stored before training.
#[derive(Debug, Clone)]
pub struct StoredEvidence {
    /// The correct ones of one part: samples of p*.
    pub correct: Vec<ScoredCompletion>,
    /// How many of the other part are correct, and how many that part has: Z.
    pub others: (usize, usize),
}

/// The evidence on a prompt.
#[derive(Debug, Clone)]
pub struct Evidence {
    /// Completions of the policy; none under supervised objectives.
    pub rollouts: Vec<ScoredCompletion>,
    /// Those of the base, where some are stored.
    pub stored: Option<StoredEvidence>,
    /// Samples of the policy that [`PstarDistances::unseen_mass`] speaks of.
    pub samples: usize,
}

/// Means over prompts; each over the prompts on which it is defined, and absent where there are none.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PstarDistances {
    /// `KL(p* || pi)` in nats, on stored completions.
    #[serde(rename = "pstar/kl")]
    pub kl: Option<f64>,
    /// The same on rollouts alone, by self-normalised importance weights; at most the logarithm of their number, plus
    /// what their weights vary.
    #[serde(rename = "pstar/kl_importance")]
    pub kl_importance: Option<f64>,
    /// `KL(pi(. | correct) || p*)` in nats: what of `KL(pi || p*)` is finite for a policy that can be incorrect.
    #[serde(rename = "pstar/kl_correct")]
    pub kl_correct: Option<f64>,
    /// Jensen-Shannon divergence of pi and p*, in nats, at most log 2.
    #[serde(rename = "pstar/js")]
    pub js: Option<f64>,
    /// Total variation of pi and p*, at most 1.
    #[serde(rename = "pstar/tv")]
    pub tv: Option<f64>,
    /// Share of p* on answers that the policy gives less than [`MISSING`] times as often as the base.
    #[serde(rename = "pstar/missing_mass")]
    pub missing_mass: Option<f64>,
    /// Expected share of p* that none of a group of the policy's samples hits.
    #[serde(rename = "pstar/unseen_mass")]
    pub unseen_mass: Option<f64>,
    /// Effective sample size of the weights a / pi over a group's rollouts, as a share of their number.
    #[serde(rename = "pstar/ess")]
    pub ess: Option<f64>,
    /// Effective number of samples of p* among a group's rollouts, by the weights p* / pi.
    #[serde(rename = "pstar/ess_correct")]
    pub ess_correct: Option<f64>,
    /// The base's validity Z, by importance weights from the policy's rollouts.
    #[serde(rename = "pstar/validity")]
    pub validity: Option<f64>,
    /// Prompts on which p* is known: with stored correct completions or, without stored ones, with correct rollouts.
    #[serde(rename = "pstar/prompts")]
    pub prompts: usize,
    /// Standard errors of the means above by name, such as `pstar/kl_stderr`: over prompts, of those with two or more
    /// on which the estimate is defined. The bias of an estimate is not in them.
    #[serde(flatten)]
    pub standard_errors: BTreeMap<String, f64>,
}

impl PstarDistances {
    /// Means over these prompts, with standard errors.
    pub fn from_evidence(evidence: &[Evidence]) -> Self {
        let mut standard_errors = BTreeMap::new();
        let mut mean = |name: &str, estimate: fn(&Evidence) -> Option<f64>| {
            let values: Vec<f64> = evidence.iter().filter_map(estimate).collect();
            if values.len() > 1 {
                // Prompts are independent; the error of one prompt's estimate is part of their spread.
                let error = (&values).std_dev() / (values.len() as f64).sqrt();
                standard_errors.insert(format!("pstar/{name}_stderr"), error);
            }
            (!values.is_empty()).then(|| (&values).mean())
        };
        Self {
            kl: mean("kl", Evidence::kl),
            kl_importance: mean("kl_importance", Evidence::kl_importance),
            kl_correct: mean("kl_correct", Evidence::kl_correct),
            js: mean("js", Evidence::js),
            tv: mean("tv", Evidence::tv),
            missing_mass: mean("missing_mass", Evidence::missing_mass),
            unseen_mass: mean("unseen_mass", Evidence::unseen_mass),
            ess: mean("ess", Evidence::ess),
            ess_correct: mean("ess_correct", Evidence::ess_correct),
            validity: mean("validity", Evidence::validity),
            prompts: evidence.iter().filter(|one| one.log_z().is_some()).count(),
            standard_errors,
        }
    }
}

impl Evidence {
    /// The stored correct completions, where there are any.
    fn stored_correct(&self) -> Option<&[ScoredCompletion]> {
        let correct = self.stored.as_ref()?.correct.as_slice();
        (!correct.is_empty()).then_some(correct)
    }

    /// `log Z`: of stored completions that chose nothing, by the logarithm of a share that half a count keeps finite
    /// (Haldane, Anscombe); else of rollouts. None where p* or Z is unknown: one stored completion says nothing of Z.
    fn log_z(&self) -> Option<f64> {
        match &self.stored {
            Some(stored) => {
                self.stored_correct()?;
                let (correct, count) = stored.others;
                (count > 0).then(|| log_share(correct, count))
            }
            None => self.validity().filter(|z| *z > 0.0).map(f64::ln),
        }
    }

    fn kl(&self) -> Option<f64> {
        let correct = self.stored_correct()?;
        // KL(p* || pi) = E_p*[log a - log pi] - log Z.
        Some(average(correct, |y| y.base_logp - y.policy_logp) - self.log_z()?)
    }

    fn kl_importance(&self) -> Option<f64> {
        let log_z = self.validity().filter(|z| *z > 0.0)?.ln();
        let weighted = average(&self.rollouts, |y| match y.is_correct {
            true => y.weight() * (y.base_logp - y.policy_logp),
            false => 0.0,
        });
        // E_pi[v w log w] / Z - log Z, self-normalised: Z is of the same rollouts, and what they lack has no weight.
        Some(weighted / log_z.exp() - log_z)
    }

    fn kl_correct(&self) -> Option<f64> {
        let correct: Vec<ScoredCompletion> =
            self.rollouts.iter().copied().filter(|y| y.is_correct).collect();
        if correct.is_empty() {
            return None;
        }
        // KL(pi(. | v = 1) || p*) = E_pi[log pi - log a | v = 1] - log pi(v = 1) + log Z.
        let log_validity = log_share(correct.len(), self.rollouts.len());
        Some(average(&correct, |y| y.policy_logp - y.base_logp) - log_validity + self.log_z()?)
    }

    /// Half of `KL(pi || m)` and of `KL(p* || m)`, m being the mean of both: the second on stored completions, where
    /// it is bounded, else on rollouts.
    fn js(&self) -> Option<f64> {
        let log_z = self.log_z()?;
        if self.rollouts.is_empty() {
            return None;
        }
        // With r = p* / pi and m their mean: KL(pi || m) = E_pi[log 2 - log(1 + r)].
        let of_policy = average(&self.rollouts, |y| log_above_mean(1.0, y.ratio(log_z)));
        let of_pstar = match self.stored_correct() {
            // KL(p* || m) = E_p*[log 2 - log(1 + 1/r)] = E_pi[r (log 2 - log(1 + 1/r))]; r is unbounded in the second.
            Some(correct) => average(correct, |y| log_above_mean(y.ratio(log_z), 1.0)),
            None => average(&self.rollouts, |y| {
                let ratio = y.ratio(log_z);
                if ratio > 0.0 { ratio * log_above_mean(ratio, 1.0) } else { 0.0 }
            }),
        };
        Some(0.5 * (of_policy + of_pstar))
    }

    /// `E_pi max(0, 1 - r)`.
    fn tv(&self) -> Option<f64> {
        let log_z = self.log_z()?;
        let short = |y: &ScoredCompletion| (1.0 - y.ratio(log_z)).max(0.0);
        (!self.rollouts.is_empty()).then(|| average(&self.rollouts, short))
    }

    fn missing_mass(&self) -> Option<f64> {
        let is_missing = |y: &ScoredCompletion| y.policy_logp - y.base_logp < MISSING.ln();
        Some(average(self.stored_correct()?, |y| f64::from(is_missing(y))))
    }

    fn unseen_mass(&self) -> Option<f64> {
        // E_p*[(1 - pi(y))^n] by log1p: pi(y) may be 1e-20.
        let missed =
            |y: &ScoredCompletion| (self.samples as f64 * (-y.policy_logp.exp()).ln_1p()).exp();
        Some(average(self.stored_correct()?, missed))
    }

    fn ess(&self) -> Option<f64> {
        let effective = effective(self.rollouts.iter().map(ScoredCompletion::log_weight))?;
        Some(effective / self.rollouts.len() as f64)
    }

    fn ess_correct(&self) -> Option<f64> {
        let correct = self.rollouts.iter().filter(|y| y.is_correct);
        // p* / pi is a / (pi Z): Z cancels in a ratio of squares.
        let effective_size = effective(correct.map(ScoredCompletion::log_weight));
        (!self.rollouts.is_empty()).then(|| effective_size.unwrap_or(0.0))
    }

    fn validity(&self) -> Option<f64> {
        let mass = |y: &ScoredCompletion| if y.is_correct { y.weight() } else { 0.0 };
        (!self.rollouts.is_empty()).then(|| average(&self.rollouts, mass))
    }
}

impl ScoredCompletion {
    fn log_weight(&self) -> f64 {
        self.base_logp - self.policy_logp
    }

    fn weight(&self) -> f64 {
        self.log_weight().exp()
    }

    /// `p* / pi`.
    fn ratio(&self, log_z: f64) -> f64 {
        if self.is_correct { (self.log_weight() - log_z).exp() } else { 0.0 }
    }
}

/// `log(p / ((p + q) / 2))`; p is above 0.
fn log_above_mean(p: f64, q: f64) -> f64 {
    if p.is_infinite() { 2.0_f64.ln() } else { 2.0_f64.ln() - (q / p).ln_1p() }
}

/// The logarithm of a share of which some of so many were seen.
fn log_share(correct: usize, count: usize) -> f64 {
    ((correct as f64 + 0.5) / (count as f64 + 0.5)).ln()
}

fn average(all: &[ScoredCompletion], value: impl Fn(&ScoredCompletion) -> f64) -> f64 {
    all.iter().map(value).sum::<f64>() / all.len() as f64
}

/// `(sum w)^2 / sum w^2` of weights given by their logarithms; none of none.
fn effective(log_weights: impl Iterator<Item = f64> + Clone) -> Option<f64> {
    let most = log_weights.clone().fold(f64::NEG_INFINITY, f64::max);
    let sums = log_weights
        .map(|x| (x - most).exp())
        .fold((0.0, 0.0), |(sum, squares), w| (sum + w, squares + w * w));
    (sums.1 > 0.0).then(|| sums.0 * sums.0 / sums.1)
}
