//! Where the base's curve of Pass@k overtakes that of a tuned model, and how sure that is.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::Tally;
use crate::contrast::rho;

/// Resamples of the bootstrap.
const RESAMPLES: u64 = 1000;

/// The crossing with a percentile interval by a hierarchical bootstrap: seeds, then problems.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Crossing {
    /// The k.
    pub at: Place,
    /// 2.5th percentile.
    pub low: Place,
    /// 97.5th percentile.
    pub high: Place,
}

/// A k on the curves, or beyond an end of them.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// The base is ahead at every k.
    FromTheStart,
    /// From this k on.
    K(f64),
    /// At no k that was looked at.
    Never,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Place::FromTheStart => f.write_str("the start"),
            Place::K(k) => write!(f, "{k:.1}"),
            Place::Never => f.write_str("never"),
        }
    }
}

impl std::fmt::Display for Crossing {
    /// As in "the base overtakes at k = 3.1 (95 %: 2.2 to never)".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.at {
            Place::FromTheStart => f.write_str("the base is ahead from the start")?,
            Place::K(k) => write!(f, "the base overtakes at k = {k:.1}")?,
            Place::Never => f.write_str("the base never overtakes")?,
        }
        write!(f, " (95 %: {} to {})", self.low, self.high)
    }
}

impl Place {
    /// The k, where there is one.
    pub fn k(self) -> Option<f64> {
        match self {
            Place::K(k) => Some(k),
            Place::FromTheStart | Place::Never => None,
        }
    }
}

/// Where the base's curve overtakes: interpolated linearly in log k between the two points around it.
pub fn place(ks: &[usize], base: &[f64], tuned: &[f64]) -> Place {
    let gap = |i: usize| base[i] - tuned[i];
    if ks.is_empty() || gap(0) >= 0.0 {
        return if (0..ks.len()).all(|i| gap(i) <= 0.0) {
            Place::Never
        } else {
            Place::FromTheStart
        };
    }
    let Some(after) = (1..ks.len()).find(|i| gap(*i) >= 0.0) else { return Place::Never };
    let (before, now) = (gap(after - 1), gap(after));
    let share = before / (before - now);
    let (low, high) = ((ks[after - 1] as f64).ln(), (ks[after] as f64).ln());
    Place::K((low + share * (high - low)).exp())
}

/// Of runs, one a seed, against the base on the same problems.
pub fn crossing(ks: &[usize], base: &[Tally], runs: &[&[Tally]]) -> Crossing {
    let curves = |run: &[Tally]| -> Vec<Vec<f64>> {
        run.iter().map(|tally| ks.iter().map(|k| rho(tally, *k)).collect()).collect()
    };
    let (own, tuned) = (curves(base), runs.iter().map(|run| curves(run)).collect::<Vec<_>>());
    let (problems, seeds) = (base.len(), runs.len());
    if problems == 0 || seeds == 0 {
        return Crossing { at: Place::Never, low: Place::Never, high: Place::Never };
    }
    let of = |weights: &[f64], chosen: &[usize]| {
        let sum = |curves: &[Vec<f64>]| -> Vec<f64> {
            let at = |k: usize| curves.iter().zip(weights).map(|(c, w)| w * c[k]).sum();
            (0..ks.len()).map(at).collect()
        };
        let mut mean = vec![0.0; ks.len()];
        for seed in chosen {
            let curve = sum(&tuned[*seed]);
            mean.iter_mut().zip(curve).for_each(|(m, c)| *m += c / chosen.len() as f64);
        }
        place(ks, &sum(&own), &mean)
    };
    let all: Vec<usize> = (0..seeds).collect();
    let at = of(&vec![1.0; problems], &all);
    let mut places: Vec<Place> = (0..RESAMPLES)
        .into_par_iter()
        .map(|resample| {
            let mut rng = ChaCha8Rng::seed_from_u64(resample);
            let mut pick = |count: usize| (rng.next_u64() % count as u64) as usize;
            let chosen: Vec<usize> = (0..seeds).map(|_| pick(seeds)).collect();
            let mut weights = vec![0.0; problems];
            (0..problems).for_each(|_| weights[pick(problems)] += 1.0);
            of(&weights, &chosen)
        })
        .collect();
    places.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let percentile = |share: f64| places[((places.len() - 1) as f64 * share).round() as usize];
    Crossing { at, low: percentile(0.025), high: percentile(0.975) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulated::Draws;

    #[test]
    fn the_crossing_is_where_the_base_overtakes() {
        let ks = [1, 4, 16];
        let end = place(&ks, &[0.1, 0.4, 0.9], &[0.2, 0.5, 0.9]).k().unwrap();
        assert!((end - 16.0).abs() < 1e-9, "{end}");
        let middle = place(&ks, &[0.1, 0.4, 0.9], &[0.3, 0.5, 0.8]).k().unwrap();
        assert!((middle - 8.0).abs() < 1e-9, "{middle}");
        assert_eq!(place(&ks, &[0.1, 0.2, 0.3], &[0.2, 0.3, 0.4]), Place::Never);
        assert_eq!(place(&ks, &[0.2, 0.3, 0.4], &[0.1, 0.2, 0.3]), Place::FromTheStart);
        assert_eq!(place(&ks, &[0.2; 3], &[0.2; 3]), Place::Never);
        assert!(Place::FromTheStart < Place::K(1.0) && Place::K(9.0) < Place::Never);
    }

    #[test]
    fn its_interval_covers_it() {
        let ks = [1, 2, 4, 8, 16, 32];
        // The base solves everything sometimes, the tuned model three quarters of problems often.
        let chances = |draws: &mut Draws| {
            if draws.uniform() < 0.75 { (0.3, 0.6) } else { (0.3, 0.01) }
        };
        let tally = |draws: &mut Draws, p: f64| Tally {
            samples: 32,
            correct: draws.binomial(32, p),
            ..Tally::default()
        };
        let curve = |of: fn(f64, f64) -> f64, pair: (f64, f64)| -> Vec<f64> {
            ks.iter().map(|k| 1.0 - (1.0 - of(pair.0, pair.1)).powi(*k as i32)).collect()
        };
        let mixed = |of: fn(f64, f64) -> f64| -> Vec<f64> {
            let (often, lost) = (curve(of, (0.3, 0.6)), curve(of, (0.3, 0.01)));
            often.iter().zip(lost).map(|(a, b)| 0.75 * a + 0.25 * b).collect()
        };
        let truth = place(&ks, &mixed(|b, _| b), &mixed(|_, t| t));
        let mut draws = Draws::new(8);
        let (mut held, studies) = (0, 300);
        for _ in 0..studies {
            let pairs: Vec<(f64, f64)> = (0..80).map(|_| chances(&mut draws)).collect();
            let base: Vec<Tally> = pairs.iter().map(|pair| tally(&mut draws, pair.0)).collect();
            let tuned: Vec<Tally> = pairs.iter().map(|pair| tally(&mut draws, pair.1)).collect();
            let found = crossing(&ks, &base, &[&tuned]);
            held += i32::from(found.low <= truth && truth <= found.high);
        }
        let held = f64::from(held) / f64::from(studies);
        println!("crossing at {truth}: covered {held:.3}");
        assert!(held > 0.91, "{held}");
    }
}
