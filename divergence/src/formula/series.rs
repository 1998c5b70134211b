//! Power series of a tree in `x` around 0, where `t = 1`: exact values where the formula itself cancels.
//!
//! At a kink (`abs(t - 1)`) the series of either side differ: `side` is the sign of `x`.

use anyhow::{Result, bail};

use super::tree::{Function, Node, Tree};

/// Coefficients of 1, x, x^2, ...; as many as are known.
pub(super) type Series = Vec<f64>;

/// Coefficients of every series.
const TERMS: usize = 40;

/// The series of a tree for `x` of the sign `side`.
pub(super) fn series(tree: &Tree, side: f64) -> Result<Series> {
    Ok(match &**tree {
        Node::X => padded(vec![0.0, 1.0]),
        Node::Power(exponent) => {
            // c^n / n!.
            let mut term = 1.0;
            let next = |n: usize| {
                let known = term;
                term *= exponent / (n + 1) as f64;
                known
            };
            (0..TERMS).map(next).collect()
        }
        Node::Sum(constant, terms) => {
            let mut total = padded(vec![*constant]);
            for (by, term) in terms {
                let term = series(term, side)?;
                total.truncate(term.len());
                total.iter_mut().zip(term).for_each(|(all, one)| *all += by * one);
            }
            total
        }
        Node::Product(a, b) => times(&series(a, side)?, &series(b, side)?),
        Node::Quotient(a, b) => over(series(a, side)?, series(b, side)?)?,
        Node::Raise(a, exponent) => raised(&series(a, side)?, *exponent)?,
        Node::Larger(a, b) => {
            let (a, b) = (series(a, side)?, series(b, side)?);
            let is_first = a.iter().zip(&b).map(|(a, b)| a - b);
            if leading(is_first, side) >= 0.0 { a } else { b }
        }
        Node::Apply(function, a) => {
            let a = series(a, side)?;
            match function {
                Function::Exp => grown(&a, libm::exp(a[0])),
                Function::ExpM1 => {
                    let mut all = grown(&a, libm::exp(a[0]));
                    all[0] = libm::expm1(a[0]);
                    all
                }
                Function::Log => logarithm(&a, libm::log(a[0]))?,
                Function::Log1p => {
                    let mut above = a.clone();
                    above[0] += 1.0;
                    logarithm(&above, libm::log1p(a[0]))?
                }
                Function::Root => raised(&a, 0.5)?,
                Function::Abs => {
                    let sign = leading(a.iter().copied(), side);
                    a.iter().map(|one| sign * one).collect()
                }
                Function::Sign => padded(vec![leading(a.iter().copied(), side)]),
                Function::Tanh => {
                    // tanh a = 1 - 2 / (e^2a + 1).
                    let double: Series = a.iter().map(|one| 2.0 * one).collect();
                    let mut below = grown(&double, libm::exp(double[0]));
                    below[0] += 1.0;
                    let mut all = over(padded(vec![-2.0]), below)?;
                    all[0] = libm::tanh(a[0]);
                    all
                }
            }
        }
    })
}

fn padded(mut start: Series) -> Series {
    start.resize(TERMS, 0.0);
    start
}

/// The sign of a series just beside 0.
fn leading(a: impl Iterator<Item = f64>, side: f64) -> f64 {
    let first = a.enumerate().find(|(_, one)| *one != 0.0);
    first.map_or(0.0, |(order, one)| one.signum() * if order % 2 == 1 { side } else { 1.0 })
}

fn times(a: &[f64], b: &[f64]) -> Series {
    let count = a.len().min(b.len());
    (0..count).map(|n| (0..=n).map(|i| a[i] * b[n - i]).sum()).collect()
}

fn over(mut a: Series, mut b: Series) -> Result<Series> {
    // (t - 1) / log(t): zeros of both cancel, and as many coefficients are lost.
    while b.first() == Some(&0.0) {
        if a.first().is_none_or(|first| *first != 0.0) {
            bail!("the formula divides by 0 at t = 1");
        }
        a.remove(0);
        b.remove(0);
    }
    if a.len().min(b.len()) < TERMS / 2 {
        bail!("the formula divides by 0 at t = 1");
    }
    let count = a.len().min(b.len());
    let mut all: Series = Vec::with_capacity(count);
    for n in 0..count {
        let known: f64 = (1..=n).map(|i| b[i] * all[n - i]).sum();
        all.push((a[n] - known) / b[0]);
    }
    Ok(all)
}

/// `e^a`, given its first coefficient: `n e_n = sum i a_i e_{n-i}`.
fn grown(a: &[f64], first: f64) -> Series {
    let mut all = vec![first];
    for n in 1..a.len() {
        let sum: f64 = (1..=n).map(|i| i as f64 * a[i] * all[n - i]).sum();
        all.push(sum / n as f64);
    }
    all
}

/// `log a`, given its first coefficient.
fn logarithm(a: &[f64], first: f64) -> Result<Series> {
    if a[0].is_nan() || a[0] <= 0.0 {
        bail!("the formula takes the logarithm of {} at t = 1", a[0]);
    }
    let mut all = vec![first];
    for n in 1..a.len() {
        let known: f64 = (1..n).map(|i| i as f64 * all[i] * a[n - i]).sum();
        all.push((a[n] - known / n as f64) / a[0]);
    }
    Ok(all)
}

fn raised(a: &[f64], exponent: f64) -> Result<Series> {
    if a[0] == 0.0 {
        // Only whole powers have a series where the base is 0.
        if exponent.fract() != 0.0 || !(1.0..=16.0).contains(&exponent) {
            bail!(
                "the formula has no power series at t = 1, where it takes the power {exponent} of 0; a \
                 divergence needs one on either side"
            );
        }
        return Ok((1..exponent as usize).fold(a.to_vec(), |all, _| times(&all, a)));
    }
    if a[0] < 0.0 && exponent.fract() != 0.0 {
        bail!("the formula takes the power {exponent} of {} at t = 1", a[0]);
    }
    // n a_0 p_n = sum_{i=1}^{n} (i c - (n - i)) a_i p_{n-i}.
    let mut all = vec![libm::pow(a[0], exponent)];
    for n in 1..a.len() {
        let sum: f64 =
            (1..=n).map(|i| (i as f64 * exponent - (n - i) as f64) * a[i] * all[n - i]).sum();
        all.push(sum / (n as f64 * a[0]));
    }
    Ok(all)
}
