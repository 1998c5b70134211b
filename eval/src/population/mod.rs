//! How often each of many problems was solved -> the population of validities that these problems come from, what
//! a problem with c correct of n is likely to be, and the mean of a function of validity with an interval.
//!
//! The share `c / n` of a problem is not its validity: a problem that was never solved in eight tries may be solved
//! once in twenty or once in a million, and a function that bends (the validity that a KL penalty leads to) differs
//! between the two. The problems together tell more than each alone. With G the distribution of validity over
//! problems, `c ~ Binomial(n, a)` and `a ~ G`:
//!
//! - the **expectation** of a function needs G. It is fitted by maximum marginal likelihood (`fit`): a beta
//!   distribution and a mixture of two, averaged by their Akaike weights. The shape of G below about `1 / n` is the
//!   family's, not the data's.
//! - the **interval** makes no assumption on G's shape: it holds every mean that some distribution leads to whose
//!   likelihood is within the 95 % bound of the best distribution of any shape (a profile likelihood over all
//!   distributions). Where the tries do not tell how rarely unsolved problems are solved, it is wide.
//!
//! Validities are logits on a grid, so that 1e-15 and 1e-3 are as far apart as they are for a KL penalty.

mod fit;

use anyhow::{Result, bail};

/// Half the 95 % quantile of chi-squared with one degree of freedom: how far a log-likelihood may fall.
const LIKELIHOOD_DROP: f64 = 1.920_729;
/// Passes of expectation maximisation for one distribution of any shape.
const PASSES: usize = 800;
/// Halvings in which a bound of an interval is found.
const HALVINGS: usize = 14;

/// How often one problem was solved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Trials {
    /// Number of correct completions.
    pub correct: usize,
    /// Number of completions.
    pub num_samples: usize,
}

impl Trials {
    /// Binomial likelihood of a validity on a grid point, up to a factor.
    fn log_likelihood(self, point: &Point) -> f64 {
        let wrong = self.num_samples - self.correct;
        // Without C(n, c), which no comparison of distributions depends on.
        self.correct as f64 * point.log_right + wrong as f64 * point.log_wrong
    }
}

/// A validity on the grid.
#[derive(Debug, Clone, Copy)]
struct Point {
    logit: f64,
    /// `log a`.
    log_right: f64,
    /// `log(1 - a)`.
    log_wrong: f64,
    /// How much of the axis of logits it stands for.
    width: f64,
}

impl Point {
    fn at(logit: f64, width: f64) -> Self {
        let (log_right, log_wrong) = (-(-logit).exp().ln_1p(), -logit.exp().ln_1p());
        Self { logit, log_right, log_wrong, width }
    }
}

/// Problems with the same trials.
#[derive(Debug, Clone)]
struct Cell {
    trials: Trials,
    /// Number of problems with these trials.
    count: f64,
    /// Likelihood of each grid point, the largest being 1.
    likelihood: Vec<f64>,
}

impl Cell {
    fn new(trials: Trials, count: usize, grid: &[Point]) -> Self {
        // The largest taken out: 0.01^100 underflows.
        let logs: Vec<f64> = grid.iter().map(|point| trials.log_likelihood(point)).collect();
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let likelihood = logs.iter().map(|log| (log - top).exp()).collect();
        Self { trials, count: count as f64, likelihood }
    }
}

/// A validity as a logit, and how much of the population has it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Atom {
    /// `log(a / (1 - a))`.
    pub logit: f64,
    /// Share of the population.
    pub weight: f64,
}

impl Atom {
    /// `1 / (1 + e^-logit)`.
    pub fn validity(&self) -> f64 {
        validity(self.logit)
    }
}

/// The distribution of validity over problems.
#[derive(Debug, Clone)]
pub struct Population {
    grid: Vec<Point>,
    cells: Vec<Cell>,
    /// The fitted share of each grid point.
    density: Vec<f64>,
}

impl Population {
    /// Fits the population that problems with these trials come from.
    ///
    /// # Errors
    /// No problem, a problem without completions.
    pub fn fit(trials: &[Trials]) -> Result<Self> {
        if let Some(one) =
            trials.iter().find(|one| one.num_samples == 0 || one.correct > one.num_samples)
        {
            bail!(
                "{} correct of {} completions says nothing about a problem",
                one.correct,
                one.num_samples
            );
        }
        if trials.is_empty() {
            bail!("no problem was sampled");
        }
        // Fine where samples tell validities apart, coarse where only the shape of the family does.
        let coarse = (0..60).map(|i| Point::at(-40.0 + 0.5 * f64::from(i), 0.5));
        let fine = (0..=200).map(|i| Point::at(-10.0 + 0.1 * f64::from(i), 0.1));
        let grid: Vec<Point> = coarse.chain(fine).collect();
        let cells = cells(trials, &grid);
        let density = fit::density(&grid, &cells);
        Ok(Self { grid, cells, density })
    }

    /// The posterior of the validity of a problem with these trials.
    pub fn posterior(&self, trials: Trials) -> Vec<Atom> {
        let cell = Cell::new(trials, 1, &self.grid);
        // Bayes on the grid: likelihood times the fitted density.
        let mut weights: Vec<f64> =
            cell.likelihood.iter().zip(&self.density).map(|(l, d)| l * d).collect();
        normalise(&mut weights);
        self.atoms(&weights)
    }

    /// The validities of some problems: the mean of their posteriors.
    pub fn of_problems(&self, trials: &[Trials]) -> Vec<Atom> {
        let mut weights = vec![0.0; self.grid.len()];
        for cell in cells(trials, &self.grid) {
            let posterior = self.posterior(cell.trials);
            for (weight, atom) in weights.iter_mut().zip(posterior) {
                *weight += cell.count * atom.weight;
            }
        }
        normalise(&mut weights);
        self.atoms(&weights)
    }

    /// Posterior mean and standard deviation of a function of the logit, for a problem with these trials.
    pub fn moments(&self, trials: Trials, value: &dyn Fn(f64) -> f64) -> (f64, f64) {
        let posterior = self.posterior(trials);
        let centre = mean(&posterior, value);
        let square = mean(&posterior, &|logit| (value(logit) - centre).powi(2));
        (centre, square.sqrt())
    }

    /// A 95 % interval of the population's mean of a function of the logit, for a function between 0 and 1, that
    /// assumes nothing about the population's shape.
    pub fn interval(&self, value: &dyn Fn(f64) -> f64) -> (f64, f64) {
        // Every third of the fine points: neighbours cannot be told apart.
        let grid: Vec<Point> = self.grid.iter().copied().step_by(3).collect();
        let thin = |cell: &Cell| Cell::new(cell.trials, cell.count as usize, &grid);
        let cells: Vec<Cell> = self.cells.iter().map(thin).collect();
        let high: Vec<f64> = grid.iter().map(|point| value(point.logit)).collect();
        let low: Vec<f64> = high.iter().map(|value| 1.0 - value).collect();
        // Wilks: the profile likelihood of a mean falls by half a chi-squared with one degree of freedom at the 95 %
        // bounds.
        let free = tilted(&cells, &high, 0.0);
        let least = log_likelihood(&cells, &free) - LIKELIHOOD_DROP;
        let fitted = dot(&high, &free);
        let most = |value: &[f64], start: f64| -> f64 {
            let problems: f64 = cells.iter().map(|cell| cell.count).sum();
            let (mut below, mut above) = (1e-3_f64.ln(), (20.0 * problems).ln());
            let mut best = start;
            for _ in 0..HALVINGS {
                // In log strength: as it grows the mean of `value` rises and the likelihood falls.
                let middle = 0.5 * (below + above);
                let weights = tilted(&cells, value, middle.exp());
                if log_likelihood(&cells, &weights) >= least {
                    (below, best) = (middle, best.max(dot(value, &weights)));
                } else {
                    above = middle;
                }
            }
            best
        };
        // The lowest mean of f is 1 less the highest mean of 1 - f.
        (1.0 - most(&low, 1.0 - fitted), most(&high, fitted))
    }

    fn atoms(&self, weights: &[f64]) -> Vec<Atom> {
        let atom = |(point, weight): (&Point, &f64)| Atom { logit: point.logit, weight: *weight };
        self.grid.iter().zip(weights).map(atom).collect()
    }
}

/// The mean of a function of the logit.
pub fn mean(atoms: &[Atom], value: &dyn Fn(f64) -> f64) -> f64 {
    atoms.iter().map(|atom| atom.weight * value(atom.logit)).sum()
}

/// `1 / (1 + e^-logit)`.
pub fn validity(logit: f64) -> f64 {
    1.0 / (1.0 + (-logit).exp())
}

fn cells(trials: &[Trials], grid: &[Point]) -> Vec<Cell> {
    let mut sorted = trials.to_vec();
    sorted.sort_unstable();
    sorted.chunk_by(|a, b| a == b).map(|same| Cell::new(same[0], same.len(), grid)).collect()
}

/// The distribution of any shape that maximises `log L + strength log(mean of value)`: expectation maximisation with
/// `strength` further problems whose likelihood is `value`. As strength grows it walks along the distributions of
/// largest mean at each likelihood.
fn tilted(cells: &[Cell], value: &[f64], strength: f64) -> Vec<f64> {
    let points = value.len();
    let total = cells.iter().map(|cell| cell.count).sum::<f64>() + strength;
    let mut weights = vec![1.0 / points as f64; points];
    let mut next = vec![0.0; points];
    for _ in 0..PASSES {
        next.fill(0.0);
        let mut add = |count: f64, likelihood: &[f64]| {
            // Expectation and maximisation in one: w_i becomes w_i times the mean over problems of L_i / sum_j w_j L_j.
            let share = count / dot(likelihood, &weights).max(f64::MIN_POSITIVE);
            for (next, likelihood) in next.iter_mut().zip(likelihood) {
                *next += share * likelihood;
            }
        };
        for cell in cells {
            add(cell.count, &cell.likelihood);
        }
        add(strength, value);
        for (weight, next) in weights.iter_mut().zip(&next) {
            *weight *= next / total;
        }
    }
    weights
}

fn log_likelihood(cells: &[Cell], weights: &[f64]) -> f64 {
    let term =
        |cell: &Cell| cell.count * dot(&cell.likelihood, weights).max(f64::MIN_POSITIVE).ln();
    cells.iter().map(term).sum()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn normalise(weights: &mut [f64]) {
    let total: f64 = weights.iter().sum();
    weights.iter_mut().for_each(|weight| *weight /= total);
}

#[cfg(test)]
mod tests;
