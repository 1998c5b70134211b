//! The two-way analysis of seeds and problems: how sure a mean over both is, or a smooth function of such means.
//!
//! With `x_sp = seed_s + problem_p + rest_sp` for each of some models on the same problems, the variance of the sum of
//! their means is `problem / P + sum over models of (seed / S + rest / SP)`, which the mean squares of the table
//! estimate; Student's t has Satterthwaite's degrees of freedom. Problems are paired. Seeds are not: a seed that two
//! models share can only make them more alike, so that leaving this out is on the safe side. With one seed the first
//! part cannot be seen: the interval is then about these runs.
//!
//! Few problems show few of the rare ones that change much: t is corrected for the skewness of the mean (Hall 1992).
//! Problems that all show the same, or nearly, are no proof that others would: a kind of problem that P draws did not
//! show may well be one of P, and change the mean by `largest / P`. No standard error is below that, nor below 1.4
//! times that where no problem changed (`rarity`, `coverage`).

use serde::{Deserialize, Serialize};

use crate::Estimate;

use super::student::{ends, quantile, skew_of_mean, two_sided, without_skew};

/// Most degrees of freedom for each that the seeds have. Few seeds can look alike by luck, and Satterthwaite's count is
/// then far too large: without this, 95 % intervals of two seeds that differ much cover 91 %, with it 93 % and more
/// (the simulations of `effect` and of `curve::simulation`).
const FREEDOM_A_SEED: f64 = 2.0;

/// Most skewness that is corrected for, over the t of a 95 % interval. The correction is an expansion in their product,
/// and with 1 an interval ends anywhere: three of 24 problems lost gave -.125 (-.71 to .02).
const MOST_SKEW: f64 = 0.8;

/// The parts of each problem in a mean.
pub(crate) struct Parts {
    /// Those that all seeds of all models share, as the base's.
    pub(crate) shared: Vec<f64>,
    /// Parts by model, seed and problem.
    pub(crate) models: Vec<Vec<Vec<f64>>>,
    /// The most that one problem can change the sum by.
    pub(crate) largest: f64,
}

/// Where the variance of a mean over S seeds and P problems comes from: `seed / S + problem / P + rest / SP`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Variances {
    /// Between seeds, at the same problems; of a difference, both objectives' added.
    pub seed: f64,
    /// Variance between problems.
    pub problem: f64,
    /// The residual: of each problem under each seed, both objectives' added.
    pub rest: f64,
}

/// A value, and how sure it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Uncertain {
    pub(crate) value: f64,
    /// The square of its standard error; never 0 but of what cannot change.
    variance: f64,
    freedom: f64,
    /// Of the mean.
    skew: f64,
    pub(crate) variances: Variances,
}

/// One model's seeds.
struct Spread {
    /// The part of the variance of the mean that is the seeds'.
    of_seeds: f64,
    /// Part of the variance of the mean that is the residual's.
    of_rest: f64,
    freedom: f64,
}

/// Means over seeds of every problem, and how the seeds spread.
fn spread(rows: &[Vec<f64>]) -> (Vec<f64>, Spread) {
    let (s, p) = (rows.len() as f64, rows[0].len() as f64);
    let over = |problem: usize| rows.iter().map(|row| row[problem]).sum::<f64>() / s;
    let of_problems: Vec<f64> = (0..rows[0].len()).map(over).collect();
    if rows.len() < 2 {
        return (of_problems, Spread { of_seeds: 0.0, of_rest: 0.0, freedom: 0.0 });
    }
    let mean = of_problems.iter().sum::<f64>() / p;
    let (mut between, mut rest) = (0.0, 0.0);
    for row in rows {
        let of_seed = row.iter().sum::<f64>() / p;
        // Two-way analysis: seed means about the mean, and what row and column means leave of a cell.
        between += (of_seed - mean).powi(2);
        let residual = |(x, of_problem): (&f64, &f64)| (x - of_seed - of_problem + mean).powi(2);
        rest += row.iter().zip(&of_problems).map(residual).sum::<f64>();
    }
    let freedom = s - 1.0;
    let of_rest = rest / (freedom * (p - 1.0).max(1.0)) / (s * p);
    // Seeds whose problems vary cannot vary less.
    let of_seeds = (between / freedom / s - of_rest).max(0.0);
    (of_problems, Spread { of_seeds, of_rest, freedom })
}

impl Parts {
    /// The uncertainty of `value`, which has these parts.
    pub(crate) fn uncertainty(&self, value: f64) -> Uncertain {
        let problems = self.shared.len();
        let p = problems as f64;
        let (means, spreads): (Vec<Vec<f64>>, Vec<Spread>) =
            self.models.iter().map(|rows| spread(rows)).unzip();
        let together = |problem: usize| -> f64 {
            self.shared[problem] + means.iter().map(|rows| rows[problem]).sum::<f64>()
        };
        let together: Vec<f64> = (0..problems).map(together).collect();
        let mean = together.iter().sum::<f64>() / p;
        let deviations: Vec<f64> = together.iter().map(|x| x - mean).collect();
        let squares: f64 = deviations.iter().map(|x| x * x).sum();
        let of_rest: f64 = spreads.iter().map(|spread| spread.of_rest).sum();
        // Of equal weights P - 1 of P squares are free; of unequal ones fewer.
        let free = p / (p - 1.0).max(1.0);
        let least = rarity(&together) * (self.largest / p).powi(2);
        // The residual of each problem is in the spread of the problems.
        let of_problems = (squares / p / p * free).max(of_rest);
        // Models have seeds of their own: variances add up. Problems are shared, so theirs is of the sum of parts.
        let of_seeds: f64 = spreads.iter().map(|spread| spread.of_seeds).sum();
        let seeds: Vec<f64> = self.models.iter().map(|rows| rows.len() as f64).collect();
        let fewest = seeds.iter().copied().filter(|s| *s > 1.0).fold(f64::INFINITY, f64::min);
        let s = if fewest.is_finite() { fewest } else { 1.0 };
        let variance = of_problems.max(least) + of_seeds;
        let freedom = freedom(of_problems.max(least), &spreads, p);
        let most = MOST_SKEW / quantile(0.05, freedom);
        Uncertain {
            value,
            variance,
            skew: skew_of_mean(&deviations, variance).clamp(-most, most),
            freedom,
            variances: Variances {
                seed: of_seeds * s,
                problem: (of_problems - of_rest) * p,
                rest: of_rest * s * p,
            },
        }
    }
}

/// How much the least variance grows where few problems changed: by `1 / (1 + m)`, with m as how many alike the
/// changes count (Kish). None of P drawn problems changes with chance .06 where one in P / 2.8 would: so many lie below
/// t times the square root of 2, and nothing is added where all problems agree.
fn rarity(changes: &[f64]) -> f64 {
    let squares: f64 = changes.iter().map(|x| x * x).sum();
    let alike = if squares > 0.0 { changes.iter().sum::<f64>().powi(2) / squares } else { 0.0 };
    1.0 + 1.0 / (1.0 + alike)
}

/// Degrees of freedom of the variance, by the mean squares of problems and of each model's seeds (Satterthwaite 1946):
/// `(sum MS)^2 / sum(MS^2 / df)` is that of a chi-squared with the same mean and variance.
fn freedom(of_problems: f64, spreads: &[Spread], problems: f64) -> f64 {
    let problem_freedom = (problems - 1.0).max(1.0);
    let seeded = || spreads.iter().filter(|spread| spread.freedom > 0.0);
    let total = of_problems + seeded().map(|spread| spread.of_seeds).sum::<f64>();
    let square = |spread: &Spread| (spread.of_seeds + spread.of_rest).powi(2) / spread.freedom;
    let doubt = of_problems * of_problems / problem_freedom + seeded().map(square).sum::<f64>();
    let freedom = if doubt > 0.0 { total * total / doubt } else { problem_freedom };
    let of_seeds: f64 = seeded().map(|spread| spread.freedom).sum();
    let most = if of_seeds > 0.0 { FREEDOM_A_SEED * of_seeds } else { f64::INFINITY };
    freedom.min(most).max(1.0)
}

/// Degrees of freedom that a difference with these variances is tested with, half of what seeds add from each
/// objective.
pub(crate) fn planned_freedom(variances: &Variances, seeds: usize, problems: usize) -> f64 {
    let (s, p) = (seeds as f64, problems as f64);
    // A variance of a difference is of both objectives: either has half.
    let half = || Spread {
        of_seeds: variances.seed / (2.0 * s),
        of_rest: variances.rest / (2.0 * s * p),
        freedom: s - 1.0,
    };
    freedom((variances.problem + variances.rest / s) / p, &[half(), half()], p)
}

impl Uncertain {
    /// The interval that misses with chance `alpha`.
    pub(crate) fn interval(&self, alpha: f64) -> Estimate {
        let (t, error) = (quantile(alpha, self.freedom), self.variance.sqrt());
        let [low, high] = ends(t, self.skew).map(|t| self.value - error * t);
        Estimate { value: self.value, low, high }
    }

    /// Two-sided p-value of the value 0; never 0. It is below `alpha` where the interval excludes 0.
    pub(crate) fn p_value(&self) -> f64 {
        match self.variance > 0.0 {
            true => {
                let t = self.value / self.variance.sqrt();
                let tail = |t: f64| two_sided(t, self.freedom);
                // The larger, as the ends of the interval are the outer ones. Beyond the turn of its sign a cubic has
                // left the side that t is on.
                let corrected = without_skew(t, self.skew);
                if corrected * t > 0.0 { tail(t).max(tail(corrected)) } else { 1.0 }
            }
            false => 1.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(models: Vec<Vec<Vec<f64>>>, largest: f64) -> Parts {
        let problems = models[0][0].len();
        Parts { shared: vec![0.0; problems], models, largest }
    }

    #[test]
    fn the_variance_of_a_mean_has_three_parts() {
        let rows =
            vec![vec![0.1, 0.4, 0.2, 0.6], vec![0.3, 0.5, 0.1, 0.9], vec![0.2, 0.7, 0.3, 0.8]];
        let ours = parts(vec![rows], 0.0).uncertainty(0.4);
        let of_mean = |v: &Variances| v.seed / 3.0 + v.problem / 4.0 + v.rest / 12.0;
        assert!((of_mean(&ours.variances) - ours.variance).abs() < 1e-12);
        // Two problems and two seeds by hand: x = s + p + rest with rest 0. Seed means 1 and 2, problem means .5 and
        // 2.5: .5 / 2 and 2 / 2.
        let hand = parts(vec![vec![vec![0.0, 2.0], vec![1.0, 3.0]]], 0.0).uncertainty(0.0);
        assert!((hand.variance - (0.25 + 1.0)).abs() < 1e-12, "{hand:?}");
    }

    #[test]
    fn constant_differences_have_intervals_of_width() {
        let same = |value: f64| {
            let rows = vec![vec![0.0; 40]; 3];
            parts(vec![rows.clone(), rows], 1.0).uncertainty(value)
        };
        let none = same(0.0);
        assert_eq!(none.p_value(), 1.0);
        assert!(none.interval(0.05).high > 0.03, "{none:?}");
        let all = same(1.0);
        assert!(all.p_value() > 0.0 && all.interval(0.05).low < 0.99);
    }

    #[test]
    fn a_plan_has_the_variance_and_the_freedom_of_the_study() {
        let variances = Variances { seed: 4e-4, problem: 0.02, rest: 0.01 };
        let (few, many) = (planned_freedom(&variances, 3, 80), planned_freedom(&variances, 10, 80));
        assert!((4.0..=8.0).contains(&few) && many > few, "{few} {many}");
        let none = Variances { seed: 0.0, ..variances };
        assert_eq!(planned_freedom(&none, 3, 80), 8.0);
    }
}
