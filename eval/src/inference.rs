//! The uncertainty of a difference between objectives when both seeds and problems are samples.
//!
//! A study draws S training seeds and P problems; every seed meets every problem. With
//! `x_sp = mu + seed_s + problem_p + rest_sp` the mean varies by `var(seed) / S + var(problem) / P + var(rest) / SP`,
//! which the mean squares of the table estimate; Student's t with Satterthwaite's degrees of freedom gives interval
//! and p-value. With one seed the first part cannot be seen: the interval is then about these two runs, and says
//! so.

use serde::{Deserialize, Serialize};

use crate::interval::{quantile_t_of, two_sided};
use crate::number::signed;

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

    /// The same with its interval cut to the range that the quantity has, which excludes nothing that can be true.
    pub fn within(self, least: f64, most: f64) -> Self {
        let inside = |end: f64| end.clamp(least.min(self.value), most.max(self.value));
        Self { low: inside(self.low), high: inside(self.high), ..self }
    }
}

/// Differences whose p-value, adjusted for their table, is below this are marked.
pub const SIGNIFICANT: f64 = 0.05;

/// Most degrees of freedom for each seed but one, by the simulations of the tests: without it intervals of two seeds
/// that differ much cover 91 %.
const FREEDOM_A_SEED: f64 = 2.0;

/// The mean of a table with a row a seed and a column a problem, all rows of one length. Where no problem changed
/// under any seed others may: the interval is then as wide as a change by one in as many problems as the interval of a
/// share of none allows.
pub fn crossed(rows: &[Vec<f64>]) -> Effect {
    let effect = varied(rows);
    if effect.value.is_nan() || effect.high > effect.low {
        return effect;
    }
    let problems = rows.first().map_or(0, Vec::len);
    let most = crate::interval::share(&vec![0.0; problems]).high;
    Effect { low: effect.low - most, high: effect.high + most, ..effect }
}

/// The same, and a point where nothing varies.
fn varied(rows: &[Vec<f64>]) -> Effect {
    let (seeds, problems) = (rows.len(), rows.first().map_or(0, Vec::len));
    debug_assert!(rows.iter().all(|row| row.len() == problems));
    if seeds == 0 || problems == 0 {
        return Effect::NONE;
    }
    let (s, p) = (seeds as f64, problems as f64);
    let of_seeds: Vec<f64> = rows.iter().map(|row| row.iter().sum::<f64>() / p).collect();
    let of_problems: Vec<f64> =
        (0..problems).map(|i| rows.iter().map(|row| row[i]).sum::<f64>() / s).collect();
    let value = of_seeds.iter().sum::<f64>() / s;
    let squares = |means: &[f64]| means.iter().map(|m| (m - value) * (m - value)).sum::<f64>();
    // Mean squares of a two-way table with one value a cell. Their expectations: problems r + s p2, seeds r + p s2,
    // rest r, for the variances p2, s2, r of problem, seed and rest.
    let between_problems = s * squares(&of_problems) / (p - 1.0).max(1.0);
    let (mut numerator, mut doubt) = (between_problems, share(between_problems, p - 1.0));
    if seeds > 1 {
        let mut rest = 0.0;
        for (row, of_seed) in rows.iter().zip(&of_seeds) {
            for (x, of_problem) in row.iter().zip(&of_problems) {
                rest += (x - of_seed - of_problem + value).powi(2);
            }
        }
        let rest = rest / ((s - 1.0) * (p - 1.0).max(1.0));
        // Neither part varies less than nothing, whatever few seeds or problems happen to show.
        let between_seeds = (p * squares(&of_seeds) / (s - 1.0)).max(rest);
        let between_problems = between_problems.max(rest);
        // (MS_seed + MS_problem - MS_rest) / SP has the expectation s2 / S + p2 / P + r / SP: the variance of the mean.
        numerator = between_seeds + between_problems - rest;
        doubt = share(between_seeds, s - 1.0) + share(between_problems, p - 1.0);
    }
    // All alike is no proof that others would be: one more that shows no difference, and it would vary.
    // The variance of P equal values and one 0 about their mean, on the scale of a mean square.
    let least = s * value * value / (p + 1.0);
    if numerator < least * 1e-9 {
        (numerator, doubt) = (least, share(least, p - 1.0));
    }
    if numerator <= 0.0 {
        return Effect { value, low: value, high: value, p_value: 1.0, seeds };
    }
    // Satterthwaite: (sum MS)^2 / sum(MS^2 / df) is the df of a chi-squared with the same mean and variance.
    let freedom = if doubt > 0.0 { numerator * numerator / doubt } else { 1.0 };
    // Few seeds can look alike by luck, and then Satterthwaite's count is far too many.
    let freedom = if seeds > 1 { freedom.min(FREEDOM_A_SEED * (s - 1.0)) } else { freedom };
    let error = (numerator / (s * p)).sqrt();
    let half = quantile_t_of(freedom) * error;
    let p_value = two_sided(value / error, freedom);
    Effect { value, low: value - half, high: value + half, p_value, seeds }
}

/// The share of a mean square in the degrees of freedom of a sum (Satterthwaite 1946).
fn share(square: f64, freedom: f64) -> f64 {
    square * square / freedom.max(1.0)
}

/// The difference of two models on the same problems, one value a problem of each: one run each, so over problems
/// alone.
pub fn paired(first: &[f64], second: &[f64]) -> Effect {
    crossed(&[first.iter().zip(second).map(|(a, b)| a - b).collect()])
}

/// A ratio of two means over problems, `sum a / sum b`, as an effect: each problem stands for how it moves the
/// ratio. One row a seed; `below` is the same for all.
pub fn ratio(above: &[Vec<f64>], below: &[f64]) -> Effect {
    let total: f64 = below.iter().sum();
    if total <= 0.0 || above.is_empty() {
        return Effect::NONE;
    }
    let all: f64 = above.iter().flatten().sum();
    let value = all / (total * above.len() as f64);
    let mean = total / below.len() as f64;
    // Linearised: d(sum a / sum b) = (a - value b) / mean b for each problem, whose mean is 0 (delta method).
    let moved = |row: &Vec<f64>| -> Vec<f64> {
        row.iter().zip(below).map(|(a, b)| value + (a - value * b) / mean).collect()
    };
    crossed(&above.iter().map(moved).collect::<Vec<_>>())
}

/// The mean of the means of several sets of problems, every set with a row a seed: sets count alike, however many
/// problems each has. Seeds and problems vary, the sets are the ones named.
pub fn average(sets: &[Vec<Vec<f64>>]) -> Effect {
    let seeds = sets.first().map_or(0, Vec::len);
    let problems: usize = sets.iter().filter_map(|set| set.first()).map(Vec::len).sum();
    if seeds == 0 || problems == 0 || sets.iter().any(|set| set.iter().any(Vec::is_empty)) {
        return Effect::NONE;
    }
    let mean = |rows: &[Vec<f64>]| {
        let count: usize = rows.iter().map(Vec::len).sum();
        rows.iter().flatten().sum::<f64>() / count as f64
    };
    let value = sets.iter().map(|set| mean(set)).sum::<f64>() / sets.len() as f64;
    // Each problem stands for how it moves the average.
    let mut rows = vec![Vec::with_capacity(problems); seeds];
    for set in sets {
        let centre = mean(set);
        for (row, values) in rows.iter_mut().zip(set) {
            let weight = problems as f64 / (sets.len() * values.len()) as f64;
            row.extend(values.iter().map(|x| value + weight * (x - centre)));
        }
    }
    varied(&rows)
}

/// P-values adjusted for there being several (Holm 1979): one below .05 is wrong in all of the table with chance
/// .05 at most.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut adjusted = vec![1.0; p_values.len()];
    let mut most = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        // The i-th smallest of m times m - i + 1, never below one before it: adjusted values keep the order.
        most = most.max(p_values[index] * (p_values.len() - rank) as f64).min(1.0);
        adjusted[index] = most;
    }
    adjusted
}

/// Which effects of a table are significant among all of the table, by Holm's adjustment. Over one seed none is, unless
/// the models themselves are compared.
pub fn significant(table: &[Vec<Option<Effect>>], compares_models: bool) -> Vec<Vec<bool>> {
    let all: Vec<f64> = table.iter().flatten().flatten().map(|effect| effect.p_value).collect();
    let mut adjusted = holm(&all).into_iter();
    let mut is_sure = |effect: &Option<Effect>| {
        effect.is_some_and(|effect| {
            let is_small = adjusted.next().is_some_and(|p| p < SIGNIFICANT);
            is_small && (compares_models || effect.seeds > 1)
        })
    };
    table.iter().map(|row| row.iter().map(&mut is_sure).collect()).collect()
}

/// A table of effects as cells: the difference with its sign, and a star where it is [`significant`].
pub fn cells(table: &[Vec<Option<Effect>>], compares_models: bool) -> Vec<Vec<String>> {
    written(table, compares_models, |_| String::new())
}

/// The same with the interval of each difference.
pub fn cells_with_intervals(
    table: &[Vec<Option<Effect>>],
    compares_models: bool,
) -> Vec<Vec<String>> {
    let interval = |effect: &Effect| {
        let [low, high] = [effect.low, effect.high].map(|end| signed(end, 3));
        format!(" ({low} to {high})")
    };
    written(table, compares_models, interval)
}

fn written(
    table: &[Vec<Option<Effect>>],
    compares_models: bool,
    after: impl Fn(&Effect) -> String,
) -> Vec<Vec<String>> {
    let cell = |(effect, is_sure): (&Option<Effect>, bool)| {
        let Some(effect) = effect else { return String::new() };
        let star = if is_sure { "*" } else { "" };
        format!("{}{star}{}", signed(effect.value, 3), after(effect))
    };
    let rows = table.iter().zip(significant(table, compares_models));
    rows.map(|(row, sure)| row.iter().zip(sure).map(cell).collect()).collect()
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
        let effect = paired(&better, &hard);
        assert!((effect.value - 0.0195).abs() < 1e-3 && effect.p_value < 1e-3, "{effect:?}");
        let same = paired(&hard, &hard);
        assert_eq!((same.value, same.p_value), (0.0, 1.0));
        // Never 0, never a point, even where every problem says the same.
        let all = paired(&[1.0; 40], &[0.0; 40]);
        assert!(all.p_value > 0.0 && all.low < 1.0 && all.high > 1.0, "{all:?}");
    }

    #[test]
    fn holm_is_bonferroni_step_by_step() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn one_seed_is_not_significant_unless_models_are_compared() {
        let sure = Effect { value: 0.1, low: 0.09, high: 0.11, p_value: 1e-9, seeds: 1 };
        let table = |effect| vec![vec![Some(effect), None]];
        assert_eq!(cells(&table(sure), false), [["+0.100", ""]]);
        assert_eq!(cells(&table(sure), true), [["+0.100*", ""]]);
        let with_intervals = cells_with_intervals(&table(sure), true);
        assert_eq!(with_intervals, [["+0.100* (+0.090 to +0.110)", ""]]);
        assert_eq!(cells(&table(Effect { seeds: 3, ..sure }), false), [["+0.100*", ""]]);
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
                    crossed(&study(&mut draws, (400, 500), k, effect, spread_of_seeds)).value;
                for seeds in [2, 3, 5] {
                    let (mut covered, mut wrong, studies) = (0, 0, 2000);
                    for _ in 0..studies {
                        let rows = study(&mut draws, (seeds, 60), k, effect, spread_of_seeds);
                        let estimate = crossed(&rows);
                        covered += i32::from(estimate.low <= truth && truth <= estimate.high);
                        wrong += i32::from(estimate.p_value < 0.05);
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
            .filter(|_| crossed(&study(&mut draws, (1, 200), 1, 0.0, 0.25)).p_value < 0.05)
            .count();
        assert!(wrong > 150, "{wrong}");
    }
}
