//! Exact values: rationals of bounded size, and rational functions modulo primes, where equality is
//! decided by evaluation at random points (Schwartz-Zippel).

use std::collections::BTreeMap;

use dashu_base::Gcd;
use dashu_base::{BitTest, Sign};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::series::{is_series, series};
use super::tree::Expr;

/// Largest numerator or denominator, in bits.
const MAX_BITS: usize = 8192;
/// Largest number whose factorial is expanded.
const MAX_FACTORIAL: u64 = 600;
/// Largest number whose factorial is computed modulo a prime.
const MAX_MODULAR_FACTORIAL: u64 = 20_000;

/// Work that may still be done; a verdict never depends on a clock.
#[derive(Debug)]
pub(super) struct Fuel {
    left: u32,
    /// Whether something was not done for want of it: what was compared then is not known to differ.
    pub(super) is_out: bool,
}

impl Fuel {
    pub(super) fn new(units: u32) -> Self {
        Self { left: units, is_out: false }
    }

    pub(super) fn spend(&mut self, units: u32) -> Option<()> {
        match self.left.checked_sub(units) {
            Some(left) => self.left = left,
            None => self.is_out = true,
        }
        (!self.is_out).then_some(())
    }
}

/// The rational value of an expression without variables, roots or functions that leave the
/// rationals; `None` where it has none, or is too large.
pub(super) fn rational(expr: &Expr, fuel: &mut Fuel) -> Option<RBig> {
    fuel.spend(1)?;
    let value = match expr {
        Expr::Number(value, _) => value.clone(),
        Expr::Sum(terms) => {
            let mut sum = RBig::ZERO;
            for term in terms {
                sum += rational(term, fuel)?;
                bounded(&sum, fuel)?;
            }
            sum
        }
        Expr::Product(factors) => {
            let mut product = RBig::ONE;
            for factor in factors {
                product *= rational(factor, fuel)?;
                bounded(&product, fuel)?;
            }
            product
        }
        Expr::Quotient(above, below) => {
            let (above, below) = (rational(above, fuel)?, rational(below, fuel)?);
            if below.is_zero() {
                return None;
            }
            above / below
        }
        Expr::Negative(inner) => -rational(inner, fuel)?,
        Expr::Power(base, exponent) => {
            let exponent = rational(exponent, fuel)?;
            let base = rational(base, fuel)?;
            power(&base, &exponent, fuel)?
        }
        Expr::Factorial(inner) => factorial(&rational(inner, fuel)?, fuel)?,
        Expr::Call(name, arguments) if is_series(name) => {
            rational(&series(name, arguments, fuel)?, fuel)?
        }
        Expr::Call(name, arguments) => {
            let values: Vec<RBig> =
                arguments.iter().map(|argument| rational(argument, fuel)).collect::<Option<_>>()?;
            call(name, &values, fuel)?
        }
        Expr::Constant(_) | Expr::Variable(_) | Expr::PlusMinus(_) | Expr::Infinity => return None,
    };
    bounded(&value, fuel)?;
    Some(value)
}

fn bounded(value: &RBig, fuel: &mut Fuel) -> Option<()> {
    let bits = value.numerator().bit_len().max(value.denominator().bit_len());
    fuel.spend(bits as u32 / 64)?;
    (bits <= MAX_BITS).then_some(())
}

fn power(base: &RBig, exponent: &RBig, fuel: &mut Fuel) -> Option<RBig> {
    if !exponent.is_int() {
        let degree: u64 = exponent.denominator().try_into().ok()?;
        let root = exact_root(base, degree)?;
        return power(&root, &RBig::from(exponent.numerator().clone()), fuel);
    }
    let size: u64 = exponent.numerator().clone().unsigned_abs_value().try_into().ok()?;
    let is_negative = exponent.sign() == Sign::Negative;
    if base.is_zero() && is_negative {
        return None;
    }
    if *base == RBig::ONE {
        return Some(RBig::ONE);
    }
    let bits = base.numerator().bit_len().max(base.denominator().bit_len()) as u64;
    if !base.is_zero() && bits.saturating_sub(1).max(1).saturating_mul(size) > MAX_BITS as u64 {
        return None;
    }
    fuel.spend((bits.saturating_mul(size) / 16) as u32)?;
    let raised = base.pow(size as isize);
    Some(if is_negative { RBig::ONE / raised } else { raised })
}

/// The size of an integer, whatever its sign.
trait Size {
    fn unsigned_abs_value(self) -> UBig;
}

impl Size for IBig {
    fn unsigned_abs_value(self) -> UBig {
        self.into_parts().1
    }
}

/// The root of a rational where it is rational; odd roots of negative numbers are left alone, as their
/// principal value is complex.
fn exact_root(value: &RBig, degree: u64) -> Option<RBig> {
    if value.sign() == Sign::Negative || degree == 0 || degree > 64 {
        return None;
    }
    let root = |x: &UBig| {
        let root = x.nth_root(degree as usize);
        (root.pow(degree as usize) == *x).then_some(root)
    };
    let above = value.numerator().clone().unsigned_abs_value();
    Some(RBig::from_parts(root(&above)?.into(), root(value.denominator())?))
}

fn factorial(value: &RBig, fuel: &mut Fuel) -> Option<RBig> {
    let n: u64 = integer(value)?.try_into().ok()?;
    if n > MAX_FACTORIAL {
        return None;
    }
    fuel.spend(n as u32)?;
    let product = (2..=n).fold(UBig::ONE, |product, factor| product * UBig::from(factor));
    Some(RBig::from(IBig::from(product)))
}

fn integer(value: &RBig) -> Option<UBig> {
    (value.is_int() && value.sign() == Sign::Positive)
        .then(|| value.numerator().clone().unsigned_abs_value())
}

fn call(name: &str, values: &[RBig], fuel: &mut Fuel) -> Option<RBig> {
    let [first, rest @ ..] = values else { return None };
    Some(match (name, rest) {
        ("abs", []) => {
            if first.sign() == Sign::Negative {
                -first.clone()
            } else {
                first.clone()
            }
        }
        ("floor", []) => RBig::from(first.floor()),
        ("ceil", []) => RBig::from(first.ceil()),
        ("gcd" | "lcm", rest) => {
            let mut all = integer(first)?;
            for other in rest {
                let other = integer(other)?;
                let shared = (&all).gcd(&other);
                all = if name == "gcd" { shared } else { all * other / shared };
                fuel.spend(4 + all.bit_len() as u32 / 16)?;
            }
            RBig::from(IBig::from(all))
        }
        ("perm", [k]) => {
            let (n, k): (u64, u64) =
                (integer(first)?.try_into().ok()?, integer(k)?.try_into().ok()?);
            if n > MAX_FACTORIAL {
                return None;
            }
            fuel.spend(n as u32)?;
            let product = (0..k.min(n + 1)).fold(UBig::ONE, |p, i| p * UBig::from(n - i));
            RBig::from(IBig::from(product))
        }
        ("max", rest) => rest.iter().fold(first.clone(), |a, b| if *b > a { b.clone() } else { a }),
        ("min", rest) => rest.iter().fold(first.clone(), |a, b| if *b < a { b.clone() } else { a }),
        ("root", [inner]) => {
            let degree: u64 = integer(first)?.try_into().ok()?;
            // The cube root of -8 is -2 wherever a root sign stands.
            if inner.sign() == Sign::Negative && degree % 2 == 1 {
                -exact_root(&-inner.clone(), degree)?
            } else {
                exact_root(inner, degree)?
            }
        }
        ("binom", [k]) => {
            let (n, k): (u64, u64) =
                (integer(first)?.try_into().ok()?, integer(k)?.try_into().ok()?);
            if k > n {
                return Some(RBig::ZERO);
            }
            let k = k.min(n - k);
            if n > 100_000 || k > MAX_FACTORIAL {
                return None;
            }
            fuel.spend(k as u32)?;
            let mut product = UBig::ONE;
            for i in 0..k {
                product = product * UBig::from(n - i) / UBig::from(i + 1);
                fuel.spend(product.bit_len() as u32 / 64)?;
            }
            RBig::from(IBig::from(product))
        }
        ("log", [inner]) => {
            // log_b of an exact power.
            let mut value = inner.clone();
            let mut count = 0_i64;
            if *first <= RBig::ONE || value < RBig::ONE {
                return None;
            }
            while value > RBig::ONE && count < 512 {
                value /= first.clone();
                count += 1;
                fuel.spend(2)?;
            }
            if value != RBig::ONE {
                return None;
            }
            RBig::from(count)
        }
        _ => return None,
    })
}

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
    let mut of = |expr: &Expr| modular(expr, prime, values, fuel);
    macro_rules! value {
        ($expr:expr) => {
            match of($expr)? {
                Some(value) => value,
                None => return Ok(None),
            }
        };
    }
    Ok(Some(match expr {
        Expr::Number(value, _) => {
            let above = (value.numerator().clone().unsigned_abs_value() % UBig::from(prime))
                .try_into()
                .unwrap_or(0);
            let below: u64 = (value.denominator() % UBig::from(prime)).try_into().unwrap_or(0);
            let Some(inverse) = inverse(below, prime) else { return Ok(None) };
            let size = multiply(above, inverse, prime);
            if value.sign() == Sign::Negative { negate(size, prime) } else { size }
        }
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
            let size = exponent.numerator().clone().unsigned_abs_value();
            // Fermat: exponents count modulo p - 1, for a base that is not 0.
            let reduced: u64 = (size % UBig::from(prime - 1)).try_into().unwrap_or(0);
            let raised = raise(base, reduced, prime);
            match exponent.sign() {
                Sign::Positive => raised,
                Sign::Negative => match inverse(raised, prime) {
                    Some(inverse) => inverse,
                    None => return Ok(None),
                },
            }
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
    (!a.is_multiple_of(prime)).then(|| raise(a, prime - 2, prime))
}
