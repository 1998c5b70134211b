//! Maximum marginal likelihood of a beta distribution of validities, and of a mixture of two, averaged by Akaike
//! weights.
//!
//! Parameters are unbounded: `log a, log b` of a part, and the logit of the first part's share. A weak
//! normal prior keeps them finite where problems say nothing (all alike, or none solved). Fisher scoring: the
//! information is the sum over problems of outer products of scores.

use super::{Cell, Point, dot};

/// Mean and standard deviation of the prior of `log a`, of `log b`, and of the share's logit.
const PRIOR: [(f64, f64); 3] = [(-0.5, 2.5), (0.7, 2.5), (0.0, 1.5)];
/// Bounds of `log a` and `log b`: narrower populations than these are narrower than the grid.
const BOUNDS: [(f64, f64); 2] = [(-4.6, 4.1), (-4.6, 7.1)];
/// Most steps, and the gain in log-likelihood below which they end.
const STEPS: usize = 200;
const SMALLEST_GAIN: f64 = 1e-9;
/// Where fits of two parts start: `(a, b)` of each, shares equal.
const STARTS: [[(f64, f64); 2]; 3] =
    [[(1.0, 20.0), (3.0, 3.0)], [(0.5, 2.0), (3.0, 20.0)], [(3.0, 60.0), (5.0, 5.0)]];

/// The share of each grid point.
pub(super) fn density(grid: &[Point], cells: &[Cell]) -> Vec<f64> {
    let one = Fit::from(vec![0.5_f64.ln(), 2.0_f64.ln()], grid, cells);
    let two = STARTS.iter().map(|start| {
        let mut start: Vec<f64> = start.iter().flat_map(|(a, b)| [a.ln(), b.ln()]).collect();
        start.push(0.0);
        Fit::from(start, grid, cells)
    });
    let two = two.max_by(|x, y| x.at.objective.total_cmp(&y.at.objective)).expect("three starts");
    // Akaike: three further parameters cost three units of log-likelihood.
    let evidence = two.at.log_likelihood - one.at.log_likelihood - 3.0;
    // Akaike weights are proportional to e^(log-likelihood - parameters): an average and not a choice, so that no small
    // change of the data makes the result jump.
    let share = 1.0 / (1.0 + (-evidence).exp());
    let (one, two) = (&one.at.density, &two.at.density);
    one.iter().zip(two).map(|(one, two)| (1.0 - share) * one + share * two).collect()
}

/// A point on the way of a fit.
struct At {
    parameters: Vec<f64>,
    density: Vec<f64>,
    parts: Vec<Vec<f64>>,
    log_likelihood: f64,
    /// Log-likelihood plus the logarithm of the prior.
    objective: f64,
}

struct Fit {
    at: At,
}

impl Fit {
    fn from(start: Vec<f64>, grid: &[Point], cells: &[Cell]) -> Self {
        let mut at = At::new(start, grid, cells);
        let mut damping = 1e-2;
        for _ in 0..STEPS {
            let (gradient, information) = at.scores(grid, cells);
            let before = at.objective;
            while damping < 1e12 {
                // Levenberg and Marquardt: from Newton's step to a short one along the gradient, until the objective
                // rises.
                let step = solve(&information, &gradient, damping);
                let there =
                    at.parameters.iter().zip(&step).map(|(x, step)| x + step.clamp(-1.0, 1.0));
                let next = At::new(bounded(there.collect()), grid, cells);
                if next.objective >= at.objective {
                    (at, damping) = (next, (0.3 * damping).max(1e-9));
                    break;
                }
                damping *= 4.0;
            }
            if at.objective - before < SMALLEST_GAIN {
                break;
            }
        }
        Self { at }
    }
}

impl At {
    fn new(parameters: Vec<f64>, grid: &[Point], cells: &[Cell]) -> Self {
        let parts: Vec<Vec<f64>> =
            parameters.chunks_exact(2).map(|ab| part(grid, ab[0].exp(), ab[1].exp())).collect();
        let density = match &parts[..] {
            [one] => one.clone(),
            [first, second, ..] => {
                let share = super::validity(parameters[4]);
                first.iter().zip(second).map(|(x, y)| share * x + (1.0 - share) * y).collect()
            }
            [] => unreachable!("a fit has a part"),
        };
        let log_likelihood = super::log_likelihood(cells, &density);
        let penalty = |(index, x): (usize, &f64)| {
            let (centre, deviation) = prior(index);
            0.5 * ((x - centre) / deviation).powi(2)
        };
        let objective = log_likelihood - parameters.iter().enumerate().map(penalty).sum::<f64>();
        Self { parameters, density, parts, log_likelihood, objective }
    }

    /// The gradient of the objective, and the information.
    fn scores(&self, grid: &[Point], cells: &[Cell]) -> (Vec<f64>, Vec<Vec<f64>>) {
        let count = self.parameters.len();
        let (mut gradient, mut information) = (vec![0.0; count], vec![vec![0.0; count]; count]);
        for (index, x) in self.parameters.iter().enumerate() {
            let (centre, deviation) = prior(index);
            gradient[index] -= (x - centre) / deviation.powi(2);
            information[index][index] += deviation.powi(-2);
        }
        let slopes = self.slopes(grid);
        for cell in cells {
            let chance = dot(&cell.likelihood, &self.density).max(f64::MIN_POSITIVE);
            let scores: Vec<f64> =
                slopes.iter().map(|slope| dot(&cell.likelihood, slope) / chance).collect();
            for (row, score) in scores.iter().enumerate() {
                gradient[row] += cell.count * score;
                for (column, other) in scores.iter().enumerate() {
                    // E[score score^T] is the information: positive definite, and first derivatives are enough.
                    information[row][column] += cell.count * score * other;
                }
            }
        }
        (gradient, information)
    }

    /// The derivative of the density by each parameter.
    fn slopes(&self, grid: &[Point]) -> Vec<Vec<f64>> {
        let share = self.parameters.get(4).map(|logit| super::validity(*logit));
        let mut slopes = Vec::new();
        for (number, part) in self.parts.iter().enumerate() {
            let weight = share.map_or(1.0, |share| if number == 0 { share } else { 1.0 - share });
            let logs: [fn(&Point) -> f64; 2] = [|point| point.log_right, |point| point.log_wrong];
            for (which, log) in logs.iter().enumerate() {
                // d p_i / d(log alpha) = alpha p_i (log a_i - E_p[log a]), from p_i proportional to a_i^alpha (1 -
                // a_i)^beta.
                let centre: f64 = grid.iter().zip(part).map(|(point, p)| p * log(point)).sum();
                let scale = weight * self.parameters[2 * number + which].exp();
                let slope =
                    grid.iter().zip(part).map(|(point, p)| scale * p * (log(point) - centre));
                slopes.push(slope.collect());
            }
        }
        if let Some(share) = share {
            let apart = self.parts[0].iter().zip(&self.parts[1]).map(|(x, y)| x - y);
            slopes.push(apart.map(|apart| share * (1.0 - share) * apart).collect());
        }
        slopes
    }
}

/// A beta distribution's share of each grid point: its density by the logit is `a^a (1 - a)^b`.
fn part(grid: &[Point], a: f64, b: f64) -> Vec<f64> {
    let log = |point: &Point| a * point.log_right + b * point.log_wrong;
    let top = grid.iter().map(log).fold(f64::NEG_INFINITY, f64::max);
    let mut shares: Vec<f64> =
        grid.iter().map(|point| point.width * (log(point) - top).exp()).collect();
    super::normalise(&mut shares);
    shares
}

fn prior(index: usize) -> (f64, f64) {
    PRIOR[if index == 4 { 2 } else { index % 2 }]
}

fn bounded(mut parameters: Vec<f64>) -> Vec<f64> {
    for (index, x) in parameters.iter_mut().enumerate().take(4) {
        let (low, high) = BOUNDS[index % 2];
        *x = x.clamp(low, high);
    }
    parameters
}

/// Solves `(information + damping diagonal) step = gradient` by elimination; the matrix is positive definite.
fn solve(information: &[Vec<f64>], gradient: &[f64], damping: f64) -> Vec<f64> {
    let count = gradient.len();
    let (mut rows, mut step) = (information.to_vec(), gradient.to_vec());
    for (index, row) in rows.iter_mut().enumerate() {
        row[index] *= 1.0 + damping;
    }
    for pivot in 0..count {
        for row in pivot + 1..count {
            let factor = rows[row][pivot] / rows[pivot][pivot];
            let above = rows[pivot].clone();
            for (cell, above) in rows[row].iter_mut().zip(&above) {
                *cell -= factor * above;
            }
            step[row] -= factor * step[pivot];
        }
    }
    for row in (0..count).rev() {
        let known: f64 = (row + 1..count).map(|column| rows[row][column] * step[column]).sum();
        step[row] = (step[row] - known) / rows[row][row];
    }
    step
}
