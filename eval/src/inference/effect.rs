//! A difference between models when both seeds and problems are samples: every seed meets every problem.

use serde::{Deserialize, Serialize};

use super::two_way::Parts;
use crate::Estimate;

/// A mean difference, and how sure it is.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    /// The mean over seeds and problems.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Two-sided p-value of no difference; never 0.
    pub p_value: f64,
    /// Seeds that it is over; with one, the interval holds for these runs alone.
    pub seeds: usize,
}

impl Effect {
    /// The effect of an empty table.
    pub const NONE: Self =
        Self { value: f64::NAN, low: f64::NAN, high: f64::NAN, p_value: 1.0, seeds: 0 };

    /// Whether the interval, as it is, leaves out 0; then `p_value` is below .05.
    pub fn excludes_zero(&self) -> bool {
        self.low > 0.0 || self.high < 0.0
    }

    /// The same with its interval cut to the range that the quantity has, which excludes nothing that can be true.
    pub fn within(self, least: f64, most: f64) -> Self {
        let Self { value, low, high, .. } = self;
        let Estimate { low, high, .. } = Estimate { value, low, high }.within(least, most);
        Self { low, high, ..self }
    }
}

/// Of every interval.
pub const CONFIDENCE: f64 = 0.95;

/// The mean of a table with a row a seed and a column a problem, all rows of one length. One problem can change by
/// `largest` at most.
pub fn crossed(rows: &[Vec<f64>], largest: f64) -> Effect {
    let (seeds, problems) = (rows.len(), rows.first().map_or(0, Vec::len));
    debug_assert!(rows.iter().all(|row| row.len() == problems));
    if seeds == 0 || problems == 0 {
        return Effect::NONE;
    }
    // In this order on every machine: p-values are compared with recorded ones.
    let of_seed = |row: &Vec<f64>| row.iter().sum::<f64>() / problems as f64;
    let value = rows.iter().map(of_seed).sum::<f64>() / seeds as f64;
    let models = vec![rows.to_vec()];
    let found = Parts { shared: vec![0.0; problems], models, largest }.uncertainty(value);
    let Estimate { low, high, .. } = found.interval(1.0 - CONFIDENCE);
    Effect { value, low, high, p_value: found.p_value(), seeds }
}

/// The difference of two models on the same problems, one value a problem of each: one run each, so over problems
/// alone. One value can differ by `largest` at most.
pub fn paired(first: &[f64], second: &[f64], largest: f64) -> Effect {
    crossed(&[first.iter().zip(second).map(|(a, b)| a - b).collect()], largest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::pass_at_k::pass_at_k;
    use crate::simulated::Draws;

    #[test]
    fn pairing_cancels_problem_variance() {
        let hard: Vec<f64> = (0..200).map(|i| f64::from(i % 10) / 10.0).collect();
        let better: Vec<f64> = hard.iter().map(|x| x + 0.02 + 0.01 * (x - 0.5)).collect();
        let effect = paired(&better, &hard, 1.0);
        assert!((effect.value - 0.0195).abs() < 1e-3 && effect.p_value < 1e-3, "{effect:?}");
        let same = paired(&hard, &hard, 1.0);
        assert_eq!((same.value, same.p_value), (0.0, 1.0));
        // Never 0, never a point, even where every problem says the same.
        let all = paired(&[1.0; 40], &[0.0; 40], 1.0);
        assert!(all.p_value > 0.0 && all.low < 1.0 && all.high > 1.0, "{all:?}");
    }

    /// A study: two objectives, `seeds` runs of each on the same problems, 32 samples a problem, in log-odds a
    /// spread between problems, between seeds, and of each problem under each seed. Returns the table of
    /// differences of Pass@k.
    fn study(
        draws: &mut Draws,
        (seeds, problems): (usize, usize),
        k: usize,
        effect: f64,
        spread_of_seeds: f64,
    ) -> Vec<Vec<f64>> {
        let hardness: Vec<f64> = (0..problems).map(|_| -1.5 + 1.5 * draws.normal()).collect();
        let taste: Vec<f64> = (0..problems).map(|_| 0.5 * draws.normal()).collect();
        let mut rows = Vec::new();
        for _ in 0..seeds {
            let (one, other) = (spread_of_seeds * draws.normal(), spread_of_seeds * draws.normal());
            let mut solved = |odds: f64| {
                let p = 1.0 / (1.0 + (-(odds + 0.5 * draws.normal())).exp());
                pass_at_k(32, draws.binomial(32, p), k)
            };
            let row = (0..problems)
                .map(|i| {
                    solved(hardness[i] + effect + taste[i] + one) - solved(hardness[i] + other)
                })
                .collect();
            rows.push(row);
        }
        rows
    }

    #[test]
    fn crossed_intervals_cover_95_percent() {
        for (effect, spread_of_seeds) in [(0.0, 0.25), (0.6, 0.25), (0.0, 0.05), (0.6, 0.6)] {
            for k in [1, 32] {
                let mut draws = Draws::new(17 + k as u64);
                let truth =
                    crossed(&study(&mut draws, (400, 500), k, effect, spread_of_seeds), 1.0).value;
                for seeds in [2, 3, 5] {
                    let (mut covered, mut wrong, studies) = (0, 0, 2000);
                    for _ in 0..studies {
                        let rows = study(&mut draws, (seeds, 60), k, effect, spread_of_seeds);
                        let estimate = crossed(&rows, 1.0);
                        covered += i32::from(estimate.low <= truth && truth <= estimate.high);
                        wrong += i32::from(estimate.p_value < 0.05);
                        assert_eq!(estimate.excludes_zero(), estimate.p_value < 0.05);
                    }
                    let share = |count: i32| f64::from(count) / f64::from(studies);
                    let at = format!(
                        "effect {effect}, seeds' spread {spread_of_seeds}, k {k}, {seeds} seeds: covered \
                         {:.3}, p < .05 in {:.3}",
                        share(covered),
                        share(wrong)
                    );
                    println!("{at}");
                    assert!(share(covered) > 0.925, "{at}");
                    assert!(effect != 0.0 || share(wrong) < 0.07, "{at}");
                }
            }
        }
    }

    #[test]
    fn one_seed_underestimates_error_where_seeds_differ() {
        // A bootstrap over problems alone of one run each, where seeds differ.
        let mut draws = Draws::new(5);
        let wrong = (0..500)
            .filter(|_| crossed(&study(&mut draws, (1, 200), 1, 0.0, 0.25), 1.0).p_value < 0.05)
            .count();
        assert!(wrong > 150, "{wrong}");
    }
}
