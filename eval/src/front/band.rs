//! Simultaneous bands: the level of a single interval at which all of them hold together.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::student::{NORMAL, tail};
use super::variance::Moments;

/// Draws of the largest t.
const DRAWS: usize = 2000;

/// The `alpha` of single intervals with which all columns are covered with chance `confidence`.
///
/// The smallest p-value of correlated t statistics, each with its own degrees of freedom, is drawn; its quantile is the
/// answer (a band that is balanced: every column is missed as often). Between the `alpha` of one interval and
/// Bonferroni's.
pub(super) fn simultaneous(moments: &Moments, columns: &[usize], confidence: f64, key: u64) -> f64 {
    let alpha = 1.0 - confidence;
    let varied: Vec<usize> =
        columns.iter().copied().filter(|c| moments.variance[*c] > 0.0).collect();
    if varied.len() < 2 {
        return alpha;
    }
    let factor = cholesky(
        &varied
            .iter()
            .map(|a| varied.iter().map(|b| moments.correlation[*a][*b]).collect())
            .collect::<Vec<_>>(),
    );
    let freedom: Vec<usize> =
        varied.iter().map(|c| (moments.freedom[*c].floor() as usize).clamp(1, NORMAL)).collect();
    // A vector for the numerators, and as many as the most degrees of freedom for the denominators.
    let most = freedom.iter().copied().filter(|freedom| *freedom < NORMAL).max().unwrap_or(0);
    let mut rng = ChaCha8Rng::seed_from_u64(key);
    let mut least: Vec<f64> = Vec::with_capacity(DRAWS);
    let mut squares = vec![0.0; varied.len()];
    for _ in 0..DRAWS {
        let above = correlated(&factor, &mut rng);
        squares.fill(0.0);
        for round in 0..most {
            let below = correlated(&factor, &mut rng);
            for (index, x) in below.iter().enumerate().filter(|(i, _)| round < freedom[*i]) {
                squares[index] += x * x;
            }
        }
        let p_value = |index: usize| match freedom[index] {
            NORMAL => tail(above[index], NORMAL),
            freedom => tail(above[index] / (squares[index] / freedom as f64).sqrt(), freedom),
        };
        least.push((0..varied.len()).map(p_value).fold(1.0, f64::min));
    }
    least.sort_by(f64::total_cmp);
    let at = ((DRAWS as f64 * alpha) as usize).min(DRAWS - 1);
    least[at].clamp(alpha / varied.len() as f64, alpha)
}

/// The lower factor of a correlation matrix, which may be singular: equal columns are.
fn cholesky(matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let size = matrix.len();
    let mut factor = vec![vec![0.0; size]; size];
    for i in 0..size {
        for j in 0..=i {
            let sum: f64 = (0..j).map(|k| factor[i][k] * factor[j][k]).sum();
            let left = matrix[i][j] - sum;
            factor[i][j] = match i == j {
                true => left.max(0.0).sqrt(),
                false if factor[j][j] > 1e-6 => left / factor[j][j],
                false => 0.0,
            };
        }
    }
    factor
}

/// Correlated standard normal draws.
fn correlated(factor: &[Vec<f64>], rng: &mut ChaCha8Rng) -> Vec<f64> {
    let mut uniform = || ((rng.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    let independent: Vec<f64> = factor
        .iter()
        .map(|_| {
            let (a, b) = (uniform(), uniform());
            (-2.0 * a.ln()).sqrt() * (std::f64::consts::TAU * b).cos()
        })
        .collect();
    factor.iter().map(|row| row.iter().zip(&independent).map(|(f, z)| f * z).sum()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::result::Variances;

    fn moments(correlation: f64, columns: usize, freedom: f64) -> Moments {
        let correlation = (0..columns)
            .map(|a| (0..columns).map(|b| if a == b { 1.0 } else { correlation }).collect())
            .collect();
        Moments {
            value: vec![0.0; columns],
            variance: vec![1.0; columns],
            freedom: vec![freedom; columns],
            skewness: vec![0.0; columns],
            of_choice: vec![0.0; columns],
            variances: vec![Variances { seed: 0.0, problem: 0.0, rest: 0.0 }; columns],
            correlation,
        }
    }

    #[test]
    fn the_level_is_between_that_of_one_and_bonferronis() {
        // Independent normal ones: 1 - .95^(1/K), Sidak's.
        let independent = simultaneous(&moments(0.0, 5, 1e6), &[0, 1, 2, 3, 4], 0.95, 1);
        assert!((independent - (1.0 - 0.95_f64.powf(0.2))).abs() < 0.003, "{independent}");
        let equal = simultaneous(&moments(1.0, 5, 1e6), &[0, 1, 2, 3, 4], 0.95, 1);
        assert!((equal - 0.05).abs() < 0.01, "{equal}");
        let some = simultaneous(&moments(0.8, 5, 4.0), &[0, 1, 2, 3, 4], 0.95, 1);
        assert!(some > 0.0105 && some < equal, "{some}");
        assert_eq!(simultaneous(&moments(0.0, 1, 3.0), &[0], 0.95, 1), 1.0 - 0.95);
    }
}
