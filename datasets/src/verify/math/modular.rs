//! Rational functions modulo primes, where equality is decided by evaluation at random points (Schwartz-Zippel).

use std::collections::BTreeMap;

use dashu_base::Sign;
use dashu_int::UBig;
use dashu_ratio::RBig;

use super::exact::{Size, integer, is_series, rational, series};
use super::fuel::Fuel;
use super::tree::Expr;

/// Largest number whose factorial is computed modulo a prime.
const MAX_MODULAR_FACTORIAL: u64 = 20_000;

/// Primes of 61 bits that rational functions are compared modulo.
pub(super) const PRIMES: [u64; 3] =
    [2_305_843_009_213_693_951, 2_305_843_009_213_693_921, 2_305_843_009_213_693_907];

/// The value of a rational function modulo a prime, with these values of its variables. `Err` where
/// it is not a rational function or costs too much, `Ok(None)` where it divides by 0.
pub(super) fn modular(
    expr: &Expr,
    prime: u64,
    values: &BTreeMap<String, u64>,
    fuel: &mut Fuel,
) -> Result<Option<u64>, NotRational> {
    fuel.spend(1).ok_or(NotRational)?;
    let mut evaluate = |expr: &Expr| modular(expr, prime, values, fuel);
    macro_rules! value {
        ($expr:expr) => {
            match evaluate($expr)? {
                Some(value) => value,
                None => return Ok(None),
            }
        };
    }
    Ok(Some(match expr {
        Expr::Number(value, _) => return Ok(residue(value, prime)),
        Expr::Variable(name) => *values.get(name).ok_or(NotRational)?,
        Expr::Sum(terms) => {
            let mut sum = 0;
            for term in terms {
                sum = add(sum, value!(term), prime);
            }
            sum
        }
        Expr::Product(factors) => {
            let mut product = 1;
            for factor in factors {
                product = multiply(product, value!(factor), prime);
            }
            product
        }
        Expr::Quotient(above, below) => {
            let (above, below) = (value!(above), value!(below));
            match inverse(below, prime) {
                Some(inverse) => multiply(above, inverse, prime),
                None => return Ok(None),
            }
        }
        Expr::Negative(inner) => negate(value!(inner), prime),
        Expr::Power(base, exponent) => {
            let base = value!(base);
            let exponent = rational(exponent, fuel).ok_or(NotRational)?;
            if !exponent.is_int() {
                return Err(NotRational);
            }
            return Ok(power(base, &exponent, prime));
        }
        Expr::Factorial(inner) => {
            let n = rational(inner, fuel).and_then(|value| integer(&value)).ok_or(NotRational)?;
            let n: u64 = n.try_into().map_err(|_| NotRational)?;
            if n > MAX_MODULAR_FACTORIAL {
                return Err(NotRational);
            }
            fuel.spend(n as u32 / 8).ok_or(NotRational)?;
            (2..=n).fold(1, |product, factor| multiply(product, factor, prime))
        }
        Expr::Call(name, arguments) if is_series(name) => {
            let written = series(name, arguments, fuel).ok_or(NotRational)?;
            return modular(&written, prime, values, fuel);
        }
        Expr::Call(..) => {
            let value = rational(expr, fuel).ok_or(NotRational)?;
            return modular(&Expr::Number(value, None), prime, values, fuel);
        }
        Expr::Constant(_) | Expr::PlusMinus(_) | Expr::Infinity => return Err(NotRational),
    }))
}

/// A rational number modulo a prime; `None` where its denominator is 0 there.
fn residue(value: &RBig, prime: u64) -> Option<u64> {
    let above = (value.numerator().clone().unsigned_abs_value() % UBig::from(prime))
        .try_into()
        .unwrap_or(0);
    let below: u64 = (value.denominator() % UBig::from(prime)).try_into().unwrap_or(0);
    let size = multiply(above, inverse(below, prime)?, prime);
    Some(if value.sign() == Sign::Negative { negate(size, prime) } else { size })
}

/// A power with a whole exponent.
fn power(base: u64, exponent: &RBig, prime: u64) -> Option<u64> {
    let size = exponent.numerator().clone().unsigned_abs_value();
    // Fermat: exponents count modulo p - 1, for a base that is not 0.
    let reduced: u64 = (size % UBig::from(prime - 1)).try_into().unwrap_or(0);
    let raised = raise(base, reduced, prime);
    match exponent.sign() {
        Sign::Positive => Some(raised),
        Sign::Negative => inverse(raised, prime),
    }
}

/// The expression is not a rational function that can be evaluated within bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotRational;

fn add(a: u64, b: u64, prime: u64) -> u64 {
    ((u128::from(a) + u128::from(b)) % u128::from(prime)) as u64
}

fn negate(a: u64, prime: u64) -> u64 {
    if a == 0 { 0 } else { prime - a }
}

fn multiply(a: u64, b: u64, prime: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(prime)) as u64
}

fn raise(base: u64, mut exponent: u64, prime: u64) -> u64 {
    let (mut base, mut result) = (base % prime, 1);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = multiply(result, base, prime);
        }
        base = multiply(base, base, prime);
        exponent >>= 1;
    }
    result
}

fn inverse(a: u64, prime: u64) -> Option<u64> {
    // Fermat: a^(p - 2) a = 1.
    (!a.is_multiple_of(prime)).then(|| raise(a, prime - 2, prime))
}
