//! How sure a mean over seeds and problems is, with the choice of checkpoints inside.
//!
//! S seeds of an objective meet the same problems, and both are samples: the crossed analysis of
//! [`crate::inference`], by resampling, since a choice is no mean. With V the variance of the mean over seeds when
//! problems are resampled and checkpoints chosen again, R the part of V in which seeds move apart, and B the variance
//! that the spread of the seeds gives their mean, which has that part in it as it is, the variance is `(V - R)+ +
//! max(B, F)`. F is R with the checkpoints as they were chosen: seeds whose problems vary cannot vary less. For a
//! difference of two objectives V is that of the difference, problem by problem, and each has its own R, B and F:
//! seeds are not paired, since a seed that two objectives share can only make them more alike. Degrees of freedom are
//! Satterthwaite's, limited: few seeds can look alike by luck. Means over few lost problems and choices on few problems
//! are skewed, for which [`super::skewness`] corrects.

use super::result::Variances;
use super::skewness::third_cumulant;

/// Most degrees of freedom for each that the seeds have, by the simulations of the tests: without it intervals of two
/// seeds that differ much cover 89 %, with 2 they cover 92 %.
const FREEDOM_OF_SEEDS: f64 = 1.75;

/// One objective: a row a seed, a column a quantity, and the same in every resample of the problems.
#[derive(Debug, Clone)]
pub(super) struct Rows {
    pub(super) rows: usize,
    pub(super) columns: usize,
    /// Row by row.
    pub(super) values: Vec<f64>,
    /// Likewise, one a resample.
    pub(super) resampled: Vec<Vec<f64>>,
    /// Likewise, with the checkpoints that all problems choose.
    pub(super) fixed: Vec<Vec<f64>>,
    /// A column's mean over rows on each test problem, with the checkpoints that all problems choose.
    pub(super) by_problem: Vec<Vec<f64>>,
}

/// Means, and how sure each is.
#[derive(Debug, Clone)]
pub(super) struct Moments {
    pub(super) value: Vec<f64>,
    pub(super) variance: Vec<f64>,
    pub(super) freedom: Vec<f64>,
    /// Of the estimate, not of one problem, with the checkpoints as they were chosen: see [`super::skewness`].
    pub(super) skewness: Vec<f64>,
    /// What the choice of checkpoints adds to it.
    pub(super) of_choice: Vec<f64>,
    pub(super) variances: Vec<Variances>,
    /// Between columns.
    pub(super) correlation: Vec<Vec<f64>>,
}

/// The spread of the columns of one objective over seeds.
struct Spread {
    /// R: `[column][column]`.
    rest: Vec<Vec<f64>>,
    /// F.
    floor: Vec<f64>,
    /// `max(B, F)`.
    between: Vec<f64>,
    freedom: f64,
}

impl Rows {
    /// Some of the columns, and last their mean.
    pub(super) fn with_mean(&self, columns: &[usize]) -> Self {
        let of = |all: &Vec<f64>| -> Vec<f64> {
            let mut some = Vec::with_capacity(self.rows * (columns.len() + 1));
            for row in all.chunks(self.columns) {
                some.extend(columns.iter().map(|column| row[*column]));
                let sum: f64 = columns.iter().map(|column| row[*column]).sum();
                some.push(sum / columns.len() as f64);
            }
            some
        };
        let mut by_problem: Vec<Vec<f64>> =
            columns.iter().map(|column| self.by_problem[*column].clone()).collect();
        let problems = by_problem.first().map_or(0, Vec::len);
        let mean =
            |i: usize| by_problem.iter().map(|all| all[i]).sum::<f64>() / columns.len() as f64;
        by_problem.push((0..problems).map(mean).collect());
        Self {
            by_problem,
            rows: self.rows,
            columns: columns.len() + 1,
            values: of(&self.values),
            resampled: self.resampled.iter().map(of).collect(),
            fixed: self.fixed.iter().map(of).collect(),
        }
    }

    fn means(&self, values: &[f64]) -> Vec<f64> {
        let mut means = vec![0.0; self.columns];
        for row in values.chunks(self.columns) {
            means.iter_mut().zip(row).for_each(|(mean, x)| *mean += x / self.rows as f64);
        }
        means
    }

    fn spread(&self, scale: f64) -> Spread {
        let (s, columns) = (self.rows as f64, self.columns);
        let freedom = s - 1.0;
        if self.rows < 2 {
            let rest = vec![vec![0.0; columns]; columns];
            return Spread {
                rest,
                floor: vec![0.0; columns],
                between: vec![0.0; columns],
                freedom,
            };
        }
        let means = self.means(&self.values);
        let mut between = vec![0.0; columns];
        for row in self.values.chunks(columns) {
            for (column, x) in row.iter().enumerate() {
                between[column] += (x - means[column]).powi(2) / (freedom * s);
            }
        }
        let scale = scale / (s * freedom);
        let fixed = self.apart(&self.fixed, scale);
        let floor: Vec<f64> = (0..columns).map(|c| fixed[c][c]).collect();
        between.iter_mut().zip(&floor).for_each(|(b, floor)| *b = b.max(*floor));
        Spread { rest: self.apart(&self.resampled, scale), floor, between, freedom }
    }

    /// How rows move apart between resamples: the covariance of their deviations from their mean, summed over rows.
    fn apart(&self, resampled: &[Vec<f64>], scale: f64) -> Vec<Vec<f64>> {
        let columns = self.columns;
        let deviations = |values: &Vec<f64>| -> Vec<f64> {
            let means = self.means(values);
            values.iter().enumerate().map(|(index, x)| x - means[index % columns]).collect()
        };
        let all: Vec<Vec<f64>> = resampled.iter().map(deviations).collect();
        let mut sum = vec![vec![0.0; columns]; columns];
        for row in 0..self.rows {
            let of_row: Vec<&[f64]> =
                all.iter().map(|values| &values[row * columns..(row + 1) * columns]).collect();
            add_covariance(&mut sum, &of_row, scale);
        }
        sum
    }
}

/// Adds the covariance between columns over rows, times `scale`.
fn add_covariance(to: &mut [Vec<f64>], rows: &[&[f64]], scale: f64) {
    let (count, columns) = (rows.len() as f64, to.len());
    let means: Vec<f64> =
        (0..columns).map(|c| rows.iter().map(|row| row[c]).sum::<f64>() / count).collect();
    let scale = scale / (count - 1.0).max(1.0);
    for row in rows {
        let moved: Vec<f64> = row.iter().zip(&means).map(|(x, mean)| x - mean).collect();
        for (line, a) in to.iter_mut().zip(&moved) {
            line.iter_mut().zip(&moved).for_each(|(cell, b)| *cell += scale * a * b);
        }
    }
}

/// The mean of one objective (`[(1, rows)]`) or the difference of two (`[(1, first), (-1, second)]`), over this many
/// problems.
pub(super) fn moments(terms: &[(f64, &Rows)], problems: usize) -> Moments {
    let columns = terms.first().map_or(0, |(_, rows)| rows.columns);
    let p = problems as f64;
    // Resamples of P problems vary like P - 1.
    let scale = p / (p - 1.0).max(1.0);
    let combined = |of: &dyn Fn(&Rows) -> Vec<f64>| {
        let mut sum = vec![0.0; columns];
        for (sign, rows) in terms {
            sum.iter_mut().zip(of(rows)).for_each(|(sum, x)| *sum += sign * x);
        }
        sum
    };
    let value = combined(&|rows| rows.means(&rows.values));
    let resamples = terms.iter().map(|(_, rows)| rows.resampled.len()).min().unwrap_or(0);
    let resampled: Vec<Vec<f64>> =
        (0..resamples).map(|b| combined(&|rows| rows.means(&rows.resampled[b]))).collect();
    let fixed: Vec<Vec<f64>> =
        (0..resamples).map(|b| combined(&|rows| rows.means(&rows.fixed[b]))).collect();
    let mut covariance = vec![vec![0.0; columns]; columns];
    let views: Vec<&[f64]> = resampled.iter().map(Vec::as_slice).collect();
    add_covariance(&mut covariance, &views, scale);
    let spreads: Vec<Spread> = terms.iter().map(|(_, rows)| rows.spread(scale)).collect();
    let seeds = terms.iter().map(|(_, rows)| rows.rows).filter(|rows| *rows > 1).min();
    let s = seeds.unwrap_or(1) as f64;
    let sum = |of: &dyn Fn(&Spread) -> f64| spreads.iter().map(of).sum::<f64>();
    let mut moments = Moments {
        value,
        variance: Vec::with_capacity(columns),
        freedom: Vec::with_capacity(columns),
        skewness: Vec::with_capacity(columns),
        of_choice: Vec::with_capacity(columns),
        variances: Vec::with_capacity(columns),
        correlation: Vec::new(),
    };
    for (c, line) in covariance.iter().enumerate() {
        // Neither part varies less than nothing, whatever few seeds or problems happen to show.
        let of_problems = (line[c] - sum(&|spread| spread.rest[c][c])).max(0.0);
        let (between, floor) = (sum(&|spread| spread.between[c]), sum(&|spread| spread.floor[c]));
        let variance = of_problems + between;
        moments.variance.push(variance);
        // The same problems in both, so that where nothing is chosen anew nothing is added.
        let of_choice = third_moment(&resampled, c) - third_moment(&fixed, c);
        let skewness = |third: f64| if variance > 0.0 { third / variance.powf(1.5) } else { 0.0 };
        moments.skewness.push(skewness(third_cumulant(&by_problem(terms, c))));
        moments.of_choice.push(skewness(of_choice));
        moments.freedom.push(satterthwaite(&spreads, c, of_problems, p));
        moments.variances.push(Variances {
            seed: (between - floor) * s,
            problem: of_problems * p,
            rest: floor * s * p,
        });
    }
    moments.correlation = correlation(covariance, &spreads);
    moments
}

/// The third central moment of column `c` over rows.
fn third_moment(rows: &[Vec<f64>], c: usize) -> f64 {
    let count = rows.len().max(1) as f64;
    let mean = rows.iter().map(|row| row[c]).sum::<f64>() / count;
    rows.iter().map(|row| (row[c] - mean).powi(3)).sum::<f64>() / count
}

/// Column `c` of the mean or difference on each test problem.
fn by_problem(terms: &[(f64, &Rows)], c: usize) -> Vec<f64> {
    let problems = terms.iter().map(|(_, rows)| rows.by_problem[c].len()).min().unwrap_or(0);
    let on = |i: usize| terms.iter().map(|(sign, rows)| sign * rows.by_problem[c][i]).sum();
    (0..problems).map(on).collect()
}

/// How columns go together. How seeds differ along the columns, few seeds do not tell: it is taken to go like what a
/// resampling moves them apart, which many problems tell, and which is wholly common where the same checkpoints are
/// chosen.
fn correlation(mut covariance: Vec<Vec<f64>>, spreads: &[Spread]) -> Vec<Vec<f64>> {
    let columns = covariance.len();
    for Spread { rest, between, .. } in spreads {
        let beyond: Vec<f64> =
            (0..columns).map(|c| (between[c] - rest[c][c]).max(0.0).sqrt()).collect();
        for (a, b) in (0..columns).flat_map(|a| (0..columns).map(move |b| (a, b))) {
            let scale = (rest[a][a] * rest[b][b]).sqrt();
            let together = match a == b {
                true => 1.0,
                false if scale > 0.0 => rest[a][b] / scale,
                false => 0.0,
            };
            covariance[a][b] += together * beyond[a] * beyond[b];
        }
    }
    let scale: Vec<f64> = (0..columns).map(|c| covariance[c][c].sqrt()).collect();
    for (a, line) in covariance.iter_mut().enumerate() {
        for (b, cell) in line.iter_mut().enumerate() {
            let of_both = scale[a] * scale[b];
            *cell = match a == b {
                true => 1.0,
                false if of_both > 0.0 => (*cell / of_both).clamp(-1.0, 1.0),
                false => 0.0,
            };
        }
    }
    covariance
}

/// Degrees of freedom of the variance of column `c` (Satterthwaite 1946), at most so many for each of the seeds'.
fn satterthwaite(spreads: &[Spread], c: usize, of_problems: f64, problems: f64) -> f64 {
    let seeded = || spreads.iter().filter(|spread| spread.freedom > 0.0);
    let total = of_problems + seeded().map(|spread| spread.between[c]).sum::<f64>();
    let doubt: f64 = of_problems * of_problems / (problems - 1.0).max(1.0)
        + seeded().map(|spread| spread.between[c].powi(2) / spread.freedom).sum::<f64>();
    let freedom = if doubt > 0.0 { total * total / doubt } else { problems - 1.0 };
    if seeded().next().is_none() {
        return freedom.max(1.0);
    }
    let excess = |spread: &Spread| spread.between[c] - spread.floor[c];
    let sum: f64 = seeded().map(excess).sum();
    let square: f64 = seeded().map(|spread| excess(spread).powi(2) / spread.freedom).sum();
    let of_seeds = match square > 0.0 {
        true => sum * sum / square,
        false => seeded().map(|spread| spread.freedom).sum(),
    };
    freedom.min(FREEDOM_OF_SEEDS * of_seeds).max(1.0)
}

/// Degrees of freedom that a difference of two objectives with these variances is tested with, half of what seeds add
/// from each.
pub(super) fn planned_freedom(variances: &Variances, seeds: usize, problems: usize) -> f64 {
    let (s, p) = (seeds as f64, problems as f64);
    let spread = || {
        let floor = variances.rest / (2.0 * s * p);
        let between = floor + variances.seed / (2.0 * s);
        Spread { rest: Vec::new(), floor: vec![floor], between: vec![between], freedom: s - 1.0 }
    };
    satterthwaite(&[spread(), spread()], 0, variances.problem / p, p)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choice_adds_the_skewness_of_its_resamples() {
        // Two seeds, one column; in one resample of ten both choose what has .3 more.
        let at = |value: f64| vec![value, value + 0.1];
        let resampled: Vec<Vec<f64>> =
            (0..100).map(|b| at(if b % 10 == 0 { 0.8 } else { 0.5 })).collect();
        let rows = Rows {
            rows: 2,
            columns: 1,
            values: at(0.5),
            fixed: vec![at(0.5); 100],
            resampled,
            by_problem: vec![[0.5, 0.6].repeat(20)],
        };
        let of = moments(&[(1.0, &rows)], 40);
        // A third central moment of p (1 - p) (1 - 2 p) .3^3.
        let third = 0.1 * 0.9 * 0.8 * 0.3_f64.powi(3);
        assert!((of.of_choice[0] * of.variance[0].powf(1.5) - third).abs() < 1e-12, "{of:?}");
        assert!(of.skewness[0].abs() < 1e-9, "{of:?}");
        let difference = moments(&[(1.0, &rows), (-1.0, &rows)], 40);
        assert_eq!((difference.of_choice[0], difference.skewness[0]), (0.0, 0.0));
        let is_fixed = Rows { resampled: rows.fixed.clone(), ..rows };
        assert_eq!(moments(&[(1.0, &is_fixed)], 40).of_choice[0], 0.0);
    }
}
