//! Pass@k at more tries than were sampled, and how far the same extrapolation is off where it can be checked.
//!
//! Pass@k of a problem with validity a is `1 - (1 - a)^k`, which bends: a problem never solved in 32 tries may be
//! solved in 1,024 or in none. The population of validities ([`crate::population`]) says how likely each is.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::Tally;
use crate::interval::{ByK, Estimate, share};
use crate::measure::pass_at_k::pass_at_k;
use crate::population::{Population, Trials, mean};

/// Extrapolated Pass@k.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Extrapolation {
    /// By k: the mean over these problems of the posterior mean of `1 - (1 - a)^k`. For a k within the samples this is
    /// the posterior Pass@k, beside the unbiased one. The 95 % interval is of the population's Pass@k, whatever the
    /// population's shape.
    #[serde(rename = "pass@k")]
    pub pass_at_k: ByK,
    /// The same from half of the samples, at a k that all of them estimate without bias; none where a problem has
    /// fewer than four samples.
    pub held_out: Option<HeldOut>,
}

/// An extrapolation that can be checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeldOut {
    /// Samples of each problem that it was made from, chosen at random; the fewest where problems have different
    /// numbers.
    pub samples: usize,
    /// The k that was predicted: all samples.
    pub k: usize,
    /// The prediction from those samples.
    pub predicted: Estimate,
    /// The estimate from all samples.
    pub observed: Estimate,
}

impl Extrapolation {
    /// Pass@k of judged problems at each of `ks`.
    ///
    /// # Errors
    /// No problem has a judged sample.
    pub fn new(tallies: &[Tally], ks: &[usize]) -> anyhow::Result<Self> {
        let judged: Vec<&Tally> = tallies.iter().filter(|tally| tally.samples > 0).collect();
        let trials = |tally: &&Tally| Trials { correct: tally.correct, num_samples: tally.samples };
        let of_all: Vec<Trials> = judged.iter().map(trials).collect();
        let fewest = of_all.iter().map(|trials| trials.num_samples).min().unwrap_or(0);
        Ok(Self {
            pass_at_k: predicted(&of_all, ks)?.into_iter().collect(),
            held_out: (fewest >= 4).then(|| held_out(&of_all, fewest)).transpose()?,
        })
    }
}

/// `1 - (1 - a)^k` of a logit.
fn passes(k: usize) -> impl Fn(f64) -> f64 {
    // 1 - a = 1 / (1 + e^logit): 1 - (1 - a)^k = -expm1(-k log1p(e^logit)).
    move |logit| -(-(k as f64) * logit.exp().ln_1p()).exp_m1()
}

fn predicted(trials: &[Trials], ks: &[usize]) -> anyhow::Result<Vec<(usize, Estimate)>> {
    let population = Population::fit(trials)?;
    let problems = population.of_problems(trials);
    let at = |k: &usize| {
        let value = mean(&problems, &passes(*k));
        let (low, high) = population.interval(&passes(*k));
        (*k, Estimate { value, low: low.min(value), high: high.max(value) })
    };
    Ok(ks.iter().map(at).collect())
}

fn held_out(trials: &[Trials], k: usize) -> anyhow::Result<HeldOut> {
    // Which samples are held out is random and always the same.
    let mut random = ChaCha8Rng::seed_from_u64(0);
    // The prediction never sees the other half; the observed value is the unbiased estimate from both.
    let halves: Vec<Trials> = trials.iter().map(|trials| half(*trials, &mut random)).collect();
    let (_, predicted) = predicted(&halves, &[k])?.swap_remove(0);
    let exact = |trials: &Trials| pass_at_k(trials.num_samples, trials.correct, k);
    Ok(HeldOut {
        samples: halves.iter().map(|half| half.num_samples).min().unwrap_or(0),
        k,
        predicted,
        observed: share(&trials.iter().map(exact).collect::<Vec<_>>()),
    })
}

/// Half of the completions, without replacement.
fn half(trials: Trials, random: &mut ChaCha8Rng) -> Trials {
    let num_samples = trials.num_samples / 2;
    let (mut correct, mut left, mut right) = (0, trials.num_samples, trials.correct);
    for _ in 0..num_samples {
        // Each draw is correct with chance right / left: a hypergeometric draw, one sample at a time.
        let is_correct =
            (random.next_u64() >> 11) as f64 * 2f64.powi(-53) * (left as f64) < right as f64;
        correct += usize::from(is_correct);
        right -= usize::from(is_correct);
        left -= 1;
    }
    Trials { correct, num_samples }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;

    fn tallies(draws: &mut Draws, validities: &[f64], n: usize) -> Vec<Tally> {
        let tally =
            |a: &f64| Tally { samples: n, correct: draws.binomial(n, *a), ..Tally::default() };
        validities.iter().map(tally).collect()
    }

    fn exact(validities: &[f64], k: usize) -> f64 {
        let pass = |a: &f64| 1.0 - (1.0 - a).powi(k as i32);
        validities.iter().map(pass).sum::<f64>() / validities.len() as f64
    }

    #[test]
    fn extrapolations_are_near_and_their_intervals_cover() {
        let shapes: [fn(&mut Draws) -> f64; 4] = [
            |draws| draws.beta(0.5, 1.5),
            |draws| draws.beta(0.2, 2.0),
            // A fifth is never solved.
            |draws| if draws.uniform() < 0.2 { 0.0 } else { draws.beta(0.8, 2.0) },
            |draws| if draws.uniform() < 0.5 { 0.004 } else { 0.6 },
        ];
        let (mut covered, mut total) = (0, 0);
        for (number, shape) in shapes.iter().enumerate() {
            let mut errors = Vec::new();
            for repetition in 0..8 {
                let mut draws = Draws::new(100 * number as u64 + repetition);
                let validities: Vec<f64> = (0..240).map(|_| shape(&mut draws)).collect();
                let found = Extrapolation::new(&tallies(&mut draws, &validities, 32), &[256]);
                let estimate = found.expect("fitted").pass_at_k[&256];
                let truth = exact(&validities, 256);
                errors.push(estimate.value - truth);
                covered += usize::from(estimate.low <= truth && truth <= estimate.high);
                total += 1;
            }
            let bias = errors.iter().sum::<f64>() / errors.len() as f64;
            println!("shape {number}: mean error {bias:+.4}");
            // The last shape is far from the fitted family: only the interval is right there.
            assert!(bias.abs() < 0.1, "shape {number}: mean error {bias:+.4}");
        }
        assert!(covered * 100 >= 93 * total, "{covered} of {total} intervals hold the truth");
    }

    #[test]
    fn interpolated_pass_at_k_is_near_the_unbiased_estimate() {
        let mut draws = Draws::new(3);
        let validities: Vec<f64> = (0..240).map(|_| draws.beta(0.5, 1.5)).collect();
        let tallies = tallies(&mut draws, &validities, 64);
        let found = Extrapolation::new(&tallies, &[1, 8, 64]).expect("fitted");
        for (k, estimate) in &found.pass_at_k {
            let unbiased =
                tallies.iter().map(|tally| pass_at_k(64, tally.correct, *k)).sum::<f64>();
            let apart = (estimate.value - unbiased / 240.0).abs();
            assert!(apart < 0.01, "pass@{k}: {apart} apart");
        }
        let held_out = found.held_out.expect("enough samples");
        assert_eq!((held_out.samples, held_out.k), (32, 64));
        assert!((held_out.predicted.value - held_out.observed.value).abs() < 0.03, "{held_out:?}");
    }

    #[test]
    fn halves_are_drawn_without_replacement() {
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let (mut sum, repetitions) = (0, 4000);
        for _ in 0..repetitions {
            let half = half(Trials { correct: 3, num_samples: 8 }, &mut random);
            assert!(half.num_samples == 4 && half.correct <= 3);
            sum += half.correct;
        }
        assert!((sum as f64 / f64::from(repetitions) - 1.5).abs() < 0.05);
        let all = half(Trials { correct: 5, num_samples: 5 }, &mut random);
        assert_eq!(all, Trials { correct: 2, num_samples: 2 });
    }
}
