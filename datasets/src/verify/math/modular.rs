//! Rational functions modulo primes, where equality is decided by evaluation at random points (Schwartz-Zippel).

use std::collections::BTreeMap;

use dashu_base::Sign;
use dashu_int::UBig;
use dashu_ratio::RBig;

use super::exact::{integer, is_series, rational, series, size};
use super::fuel::Fuel;
use super::tree::Expr;
use NoValue::NotRational;

/// Largest number whose factorial is computed modulo a prime.
const MAX_MODULAR_FACTORIAL: u64 = 20_000;

/// Primes of 61 bits that rational functions are compared modulo.
pub(super) const PRIMES: [u64; 3] =
    [2_305_843_009_213_693_951, 2_305_843_009_213_693_921, 2_305_843_009_213_693_907];

/// Largest product of nested exponents. Beyond it a power may be 1 modulo a prime for its exponent alone: those count
/// modulo p - 1.
pub(super) const MAX_EXPONENT: u64 = u64::MAX;

/// A prime of 60 bits that belongs to two expressions, so that neither can be made for it, as one with a coefficient
/// that all of [`PRIMES`] divide. Composite with a chance below 10^-10, after one round of Miller and Rabin's test.
pub(super) fn prime_of(a: &Expr, b: &Expr) -> u64 {
    let text = format!("{a:?} {b:?}");
    let seed = text.bytes().fold(0, |seed, byte| mixed(seed ^ u64::from(byte)));
    let first = (seed >> 4) | 1 << 59 | 1;
    (first..).step_by(2).find(|candidate| is_probable_prime(*candidate)).unwrap_or(PRIMES[0])
}

/// Whether an odd number passes Miller and Rabin's test in base 2.
fn is_probable_prime(number: u64) -> bool {
    if [3, 5, 7, 11, 13, 17, 19, 23].into_iter().any(|small| number.is_multiple_of(small)) {
        return false;
    }
    let twos = (number - 1).trailing_zeros();
    let mut power = raise(2, (number - 1) >> twos, number);
    if power == 1 {
        return true;
    }
    for _ in 0..twos {
        if power == number - 1 {
            return true;
        }
        power = multiply(power, power, number);
    }
    false
}

/// A fixed scrambling of 64 bits (splitmix64).
pub(super) fn mixed(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The value of a rational function modulo a prime, with these values of its variables and at most this product of
/// exponents.
pub(super) fn modular(
    expr: &Expr,
    (prime, max_exponent): (u64, u64),
    values: &BTreeMap<String, u64>,
    fuel: &mut Fuel,
) -> Result<u64, NoValue> {
    fuel.spend(1).ok_or(NotRational)?;
    let mut evaluate = |expr: &Expr| modular(expr, (prime, max_exponent), values, fuel);
    Ok(match expr {
        Expr::Number(value, _) => residue(value, prime)?,
        Expr::Variable(name) => *values.get(name).ok_or(NotRational)?,
        Expr::Sum(terms) => {
            terms.iter().try_fold(0, |sum, term| Ok(add(sum, evaluate(term)?, prime)))?
        }
        Expr::Product(factors) => factors
            .iter()
            .try_fold(1, |product, factor| Ok(multiply(product, evaluate(factor)?, prime)))?,
        Expr::Quotient(above, below) => {
            let (above, below) = (evaluate(above)?, evaluate(below)?);
            multiply(above, inverse(below, prime)?, prime)
        }
        Expr::Negative(inner) => negate(evaluate(inner)?, prime),
        Expr::Power(base, exponent) => {
            let exponent = rational(exponent, fuel).filter(RBig::is_int).ok_or(NotRational)?;
            let count = u64::try_from(size(exponent.numerator())).map_err(|_| NotRational)?;
            let left = max_exponent / count.max(1);
            (left > 0).then_some(()).ok_or(NotRational)?;
            let raised = raise(modular(base, (prime, left), values, fuel)?, count, prime);
            match exponent.sign() {
                Sign::Positive => raised,
                Sign::Negative => inverse(raised, prime)?,
            }
        }
        Expr::Factorial(inner) => {
            let n = rational(inner, fuel).and_then(|value| u64::try_from(integer(&value)?).ok());
            let n = n.filter(|n| *n <= MAX_MODULAR_FACTORIAL).ok_or(NotRational)?;
            fuel.spend(n as u32 / 8).ok_or(NotRational)?;
            (2..=n).fold(1, |product, factor| multiply(product, factor, prime))
        }
        Expr::Call(name, arguments) if is_series(name) => {
            let written = series(name, arguments, fuel).ok_or(NotRational)?;
            modular(&written, (prime, max_exponent), values, fuel)?
        }
        Expr::Call(..) => residue(&rational(expr, fuel).ok_or(NotRational)?, prime)?,
        Expr::Constant(_) | Expr::PlusMinus(_) | Expr::Infinity => return Err(NotRational),
    })
}

/// Why an expression has no value modulo a prime.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoValue {
    /// It is not a rational function that can be evaluated within bounds.
    NotRational,
    /// It divides by 0 there.
    Undefined,
}

/// A rational number modulo a prime.
fn residue(value: &RBig, prime: u64) -> Result<u64, NoValue> {
    let above = (size(value.numerator()) % UBig::from(prime)).try_into().unwrap_or(0);
    let below: u64 = (value.denominator() % UBig::from(prime)).try_into().unwrap_or(0);
    let residue = multiply(above, inverse(below, prime)?, prime);
    Ok(if value.sign() == Sign::Negative { negate(residue, prime) } else { residue })
}

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

fn inverse(a: u64, prime: u64) -> Result<u64, NoValue> {
    // Fermat: a^(p - 2) a = 1.
    if a.is_multiple_of(prime) { Err(NoValue::Undefined) } else { Ok(raise(a, prime - 2, prime)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn primes_of_expressions_are_prime() {
        for number in 0..20 {
            let prime = prime_of(&Expr::integer(number), &Expr::integer(7));
            assert!(prime >= 1 << 59);
            // Miller and Rabin's test decides in these bases (Sinclair).
            for base in [2, 325, 9_375, 28_178, 450_775, 9_780_504, 1_795_265_022] {
                assert_eq!(raise(base, prime - 1, prime), 1, "{prime} is not prime");
            }
        }
        assert!(is_probable_prime(PRIMES[1]) && !is_probable_prime(1_000_003 * 1_000_033));
    }
}
