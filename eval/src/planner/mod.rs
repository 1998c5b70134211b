//! How many problems and samples would settle which of two models is ahead at k, by simulation from their observed pass
//! rates.
//!
//! Further problems are drawn from [`PassRates`], samples of each from its pass rates, and the difference of Pass@k is
//! tested as everywhere ([`crate::inference`]). With n samples the unbiased estimate of a problem has a known mean and
//! variance, so that the standard error of P problems is `sqrt(V(n) / P)`; the chance to find the difference is about
//! `Phi(sqrt(P) d / sqrt(V) - 1.96)`. That is where the simulation begins; it seeks P by what the test does with
//! few problems and long tails, until the chance is [`POWER`].

mod population;

use std::collections::BTreeMap;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, Normal};

pub use self::population::PassRates;
use crate::inference::{CONFIDENCE, paired};
use crate::measure::pass_at_k::pass_at_k;

/// The chance to settle it that a plan is for.
pub const POWER: f64 = 0.8;
/// Fewest problems that pass rates are estimated from.
pub const LEAST_OBSERVED: usize = 20;
/// Most problems that a plan names.
pub const MOST_PROBLEMS: usize = 100_000;
/// Fewest problems that a plan names.
const LEAST_PROBLEMS: usize = 5;
/// Evaluations that are simulated at each number of problems.
const EVALUATIONS: usize = 800;
/// Most problems of an evaluation that is simulated: the formula holds for more.
const MOST_SIMULATED: usize = 2000;
/// Ratio of the numbers of problems between which the least is not sought further.
const PRECISION: f64 = 1.03;

/// What would settle which model is ahead at k.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Tries.
    pub k: usize,
    /// Samples of each problem and model.
    pub samples: usize,
    /// The difference of Pass@k that is planned for: the observed one.
    pub difference: f64,
    /// Problems that find it with a chance of [`POWER`]; none where more than [`MOST_PROBLEMS`] are needed.
    pub problems: Option<usize>,
}

/// The values that a problem can show with so many samples, and how likely at each pass rate.
struct Table {
    /// Pass@k of 0, 1, ... correct samples.
    values: Vec<f64>,
    /// By bits of the pass rate: the chance of at most so many correct ones.
    cumulative: BTreeMap<u64, Vec<f64>>,
}

impl Table {
    fn new(rates: &PassRates, k: usize, samples: usize) -> Self {
        let values = (0..=samples).map(|c| pass_at_k(samples, c, k)).collect();
        let all = rates.pairs.iter().flat_map(|(b, t, _)| [*b, *t]);
        let cumulative = all.map(|p| (p.to_bits(), cumulative(samples, p))).collect();
        Self { values, cumulative }
    }

    /// The mean and the variance of what a problem of this pass rate shows.
    fn moments(&self, p: f64) -> (f64, f64) {
        let mut before = 0.0;
        let (mut mean, mut square) = (0.0, 0.0);
        for (value, up_to) in self.values.iter().zip(&self.cumulative[&p.to_bits()]) {
            mean += value * (up_to - before);
            square += value * value * (up_to - before);
            before = *up_to;
        }
        (mean, (square - mean * mean).max(0.0))
    }

    fn draw(&self, p: f64, uniform: f64) -> f64 {
        let cumulative = &self.cumulative[&p.to_bits()];
        let correct = cumulative.partition_point(|up_to| *up_to < uniform);
        self.values[correct.min(self.values.len() - 1)]
    }
}

/// The binomial distribution of n tries.
fn cumulative(n: usize, p: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let mut log_choose = 0.0;
    (0..=n)
        .map(|c| {
            if c > 0 {
                log_choose += ((n - c + 1) as f64 / c as f64).ln();
            }
            let log = |count: usize, p: f64| if count == 0 { 0.0 } else { count as f64 * p.ln() };
            sum += (log_choose + log(c, p) + log(n - c, 1.0 - p)).exp();
            sum
        })
        .collect()
}

/// The numbers of problems that settle who is ahead at k with each number of samples, those at least k.
pub fn plans(rates: &PassRates, k: usize, samples: &[usize]) -> Vec<Plan> {
    let enough = samples.iter().filter(|samples| **samples >= k);
    enough.map(|samples| plan(rates, k, *samples)).collect()
}

fn plan(rates: &PassRates, k: usize, samples: usize) -> Plan {
    let table = Table::new(rates, k, samples);
    let (mut difference, mut square) = (0.0, 0.0);
    for (base, tuned, share) in &rates.pairs {
        let [(b, b_variance), (t, t_variance)] = [base, tuned].map(|p| table.moments(*p));
        difference += share * (t - b);
        square += share * ((t - b).powi(2) + b_variance + t_variance);
    }
    let normal = Normal::standard();
    let needed = normal.inverse_cdf(0.5 + CONFIDENCE / 2.0) + normal.inverse_cdf(POWER);
    let variance = square - difference * difference;
    let formula = needed * needed * variance / (difference * difference);
    // What the formula leaves out matters where problems are few.
    let problems = match formula <= MOST_SIMULATED as f64 {
        true => Some(least(formula.ceil() as usize, &|count| {
            power(&table, rates, (count, difference)) >= POWER
        })),
        // No difference at all makes it infinite, or no number.
        false => (formula <= MOST_PROBLEMS as f64).then_some(formula.ceil() as usize),
    };
    Plan { k, samples, difference, problems }
}

/// The least number of problems that is enough, within a few per cent, sought from `start`.
fn least(start: usize, is_enough: &dyn Fn(usize) -> bool) -> usize {
    let start = start.max(LEAST_PROBLEMS);
    let (mut low, mut high) = (start, start);
    if is_enough(start) {
        while low > LEAST_PROBLEMS {
            low = (low * 3 / 4).max(LEAST_PROBLEMS);
            if !is_enough(low) {
                break;
            }
            high = low;
        }
    } else {
        // The test asks for more than twice the formula's number of few problems at most; the end is a precaution.
        loop {
            high = high * 4 / 3 + 1;
            if high > 10 * start || is_enough(high) {
                break;
            }
            low = high;
        }
    }
    while low + 1 < high && high as f64 > PRECISION * low as f64 {
        let middle = ((low as f64 * high as f64).sqrt().round() as usize).clamp(low + 1, high - 1);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    high
}

/// The share of simulated evaluations that find the difference, with its sign.
fn power(table: &Table, rates: &PassRates, (problems, difference): (usize, f64)) -> f64 {
    let mut sum = 0.0;
    let shares: Vec<f64> = rates
        .pairs
        .iter()
        .map(|(.., share)| {
            sum += share;
            sum
        })
        .collect();
    let finds = |key: &usize| {
        let mut random = ChaCha8Rng::seed_from_u64(*key as u64);
        let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
        let (mut base, mut tuned) = (Vec::new(), Vec::new());
        for _ in 0..problems {
            let which = uniform() * sum;
            let at = shares.partition_point(|share| *share < which);
            let (b, t, _) = rates.pairs[at.min(rates.pairs.len() - 1)];
            base.push(table.draw(b, uniform()));
            tuned.push(table.draw(t, uniform()));
        }
        let effect = paired(&tuned, &base, 1.0);
        effect.p_value < 1.0 - CONFIDENCE && effect.value * difference > 0.0
    };
    let found = (0..EVALUATIONS).into_par_iter().filter(finds).count();
    found as f64 / EVALUATIONS as f64
}

#[cfg(test)]
mod tests;
