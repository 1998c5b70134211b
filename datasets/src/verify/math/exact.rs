//! Exact values: rationals of bounded size.

use dashu_base::{Abs, BitTest, Gcd, Sign};
use dashu_int::{IBig, UBig};
use dashu_ratio::RBig;

use super::fuel::Fuel;
use super::tree::Expr;

/// Largest numerator or denominator, in bits.
const MAX_BITS: usize = 8192;
/// Largest number whose factorial is expanded.
const MAX_FACTORIAL: u64 = 600;
/// Most terms of a sum or product that are written out.
const MAX_TERMS: i64 = 1000;

/// The rational value of an expression without variables, roots or functions that leave the
/// rationals; `None` where it has none, or is too large.
pub(super) fn rational(expr: &Expr, fuel: &mut Fuel) -> Option<RBig> {
    fuel.spend(1)?;
    let value = match expr {
        Expr::Number(value, _) => value.clone(),
        Expr::Sum(terms) => terms
            .iter()
            .try_fold(RBig::ZERO, |sum, term| bounded(sum + rational(term, fuel)?, fuel))?,
        Expr::Product(factors) => factors.iter().try_fold(RBig::ONE, |product, factor| {
            bounded(product * rational(factor, fuel)?, fuel)
        })?,
        Expr::Quotient(above, below) => {
            let above = rational(above, fuel)?;
            above / rational(below, fuel).filter(|below| !below.is_zero())?
        }
        Expr::Negative(inner) => -rational(inner, fuel)?,
        Expr::Power(base, exponent) => {
            let exponent = rational(exponent, fuel)?;
            power(&rational(base, fuel)?, &exponent, fuel)?
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
    bounded(value, fuel)
}

/// Whether a call by this name holds a name, two bounds and the terms.
pub(super) fn is_series(name: &str) -> bool {
    matches!(name, "sum" | "prod")
}

/// The sum or product with its terms written out; `None` without integer bounds, or with too many
/// terms.
pub(super) fn series(name: &str, arguments: &[Expr], fuel: &mut Fuel) -> Option<Expr> {
    let [Expr::Variable(index), from, to, body] = arguments else { return None };
    let bound = |expr: &Expr, fuel: &mut Fuel| -> Option<i64> {
        let value = rational(expr, fuel)?;
        value.is_int().then(|| i64::try_from(value.numerator().clone()).ok()).flatten()
    };
    let (from, to) = (bound(from, fuel)?, bound(to, fuel)?);
    let count = to.checked_sub(from)?.checked_add(1)?.max(0);
    (count <= MAX_TERMS).then_some(())?;
    fuel.spend(u32::try_from(count as usize * body.size()).ok()?)?;
    let terms = (from..=to).map(|value| body.with(index, &Expr::integer(value))).collect();
    Some(if name == "sum" { Expr::Sum(terms) } else { Expr::Product(terms) })
}

fn bounded(value: RBig, fuel: &mut Fuel) -> Option<RBig> {
    let bits = value.numerator().bit_len().max(value.denominator().bit_len());
    fuel.spend(bits as u32 / 64)?;
    (bits <= MAX_BITS).then_some(value)
}

fn power(base: &RBig, exponent: &RBig, fuel: &mut Fuel) -> Option<RBig> {
    if !exponent.is_int() {
        // b^(n / d) is the d-th root of b to the n, where that root is rational.
        let degree: u64 = exponent.denominator().try_into().ok()?;
        let root = exact_root(base, degree)?;
        return power(&root, &RBig::from(exponent.numerator().clone()), fuel);
    }
    let times: u64 = size(exponent.numerator()).try_into().ok()?;
    let is_negative = exponent.sign() == Sign::Negative;
    if base.is_zero() && is_negative {
        return None;
    }
    if *base == RBig::ONE || times == 0 {
        return Some(RBig::ONE);
    }
    if base.is_zero() {
        return Some(RBig::ZERO);
    }
    let bits = base.numerator().bit_len().max(base.denominator().bit_len()) as u64;
    (bits.saturating_sub(1).max(1).saturating_mul(times) <= MAX_BITS as u64).then_some(())?;
    fuel.spend((bits.saturating_mul(times) / 16) as u32)?;
    let raised = base.pow(isize::try_from(times).ok()?);
    Some(if is_negative { RBig::ONE / raised } else { raised })
}

/// The size of an integer, whatever its sign.
pub(super) fn size(value: &IBig) -> UBig {
    value.clone().into_parts().1
}

/// The root of a rational where it is rational; odd roots of negative numbers are left alone, as their
/// principal value is complex.
fn exact_root(value: &RBig, degree: u64) -> Option<RBig> {
    (value.sign() != Sign::Negative && degree != 0 && degree <= 64).then_some(())?;
    let root = |x: &UBig| {
        let root = x.nth_root(degree as usize);
        (root.pow(degree as usize) == *x).then_some(root)
    };
    let above = size(value.numerator());
    Some(RBig::from_parts(root(&above)?.into(), root(value.denominator())?))
}

fn factorial(value: &RBig, fuel: &mut Fuel) -> Option<RBig> {
    let n = small(value).filter(|n| *n <= MAX_FACTORIAL)?;
    product(n, 2..=n, fuel)
}

/// The product of factors, of which there are at most `count`.
fn product(count: u64, factors: impl Iterator<Item = u64>, fuel: &mut Fuel) -> Option<RBig> {
    fuel.spend(count as u32)?;
    let product = factors.fold(UBig::ONE, |product, factor| product * UBig::from(factor));
    Some(RBig::from(IBig::from(product)))
}

pub(super) fn integer(value: &RBig) -> Option<UBig> {
    (value.is_int() && value.sign() == Sign::Positive).then(|| size(value.numerator()))
}

fn call(name: &str, values: &[RBig], fuel: &mut Fuel) -> Option<RBig> {
    let [first, rest @ ..] = values else { return None };
    Some(match (name, rest) {
        ("abs", []) => first.clone().abs(),
        ("semifactorial", []) => {
            let n = small(first).filter(|n| *n <= 2 * MAX_FACTORIAL)?;
            product(n, (1..=n).rev().step_by(2), fuel)?
        }
        ("floor", []) => RBig::from(first.floor()),
        ("ceil", []) => RBig::from(first.ceil()),
        ("gcd" | "lcm", rest) => shared(name, first, rest, fuel)?,
        ("perm", [k]) => {
            let (n, k) = (small(first).filter(|n| *n <= MAX_FACTORIAL)?, small(k)?);
            product(n, (0..k.min(n + 1)).map(|i| n - i), fuel)?
        }
        ("max", _) => values.iter().max()?.clone(),
        ("min", _) => values.iter().min()?.clone(),
        ("root", [inner]) => {
            let degree = small(first)?;
            // The cube root of -8 is -2 wherever a root sign stands.
            if inner.sign() == Sign::Negative && degree % 2 == 1 {
                -exact_root(&-inner.clone(), degree)?
            } else {
                exact_root(inner, degree)?
            }
        }
        ("binom", [k]) => binomial(small(first)?, small(k)?, fuel)?,
        ("log", [inner]) => exact_log(first, inner, fuel)?,
        _ => return None,
    })
}

fn small(value: &RBig) -> Option<u64> {
    integer(value)?.try_into().ok()
}

/// The greatest common divisor, or the least common multiple.
fn shared(name: &str, first: &RBig, rest: &[RBig], fuel: &mut Fuel) -> Option<RBig> {
    let mut all = integer(first)?;
    for other in rest {
        let other = integer(other)?;
        // Of two zeros every number is a divisor: by convention the greatest is 0.
        if all.is_zero() && other.is_zero() {
            continue;
        }
        let divisor = (&all).gcd(&other);
        all = if name == "gcd" { divisor } else { all * other / divisor };
        fuel.spend(4 + all.bit_len() as u32 / 16)?;
    }
    Some(RBig::from(IBig::from(all)))
}

fn binomial(n: u64, k: u64, fuel: &mut Fuel) -> Option<RBig> {
    if k > n {
        return Some(RBig::ZERO);
    }
    let k = k.min(n - k);
    (n <= 100_000 && k <= MAX_FACTORIAL).then_some(())?;
    fuel.spend(k as u32)?;
    let mut product = UBig::ONE;
    for i in 0..k {
        // Before this step binomial(n, i): the division leaves no remainder.
        product = product * UBig::from(n - i) / UBig::from(i + 1);
        fuel.spend(product.bit_len() as u32 / 64)?;
    }
    Some(RBig::from(IBig::from(product)))
}

/// The logarithm of an exact power of the base.
fn exact_log(base: &RBig, power: &RBig, fuel: &mut Fuel) -> Option<RBig> {
    let (mut value, mut count) = (power.clone(), 0_i64);
    (*base > RBig::ONE && value >= RBig::ONE).then_some(())?;
    while value > RBig::ONE && count < 512 {
        value /= base.clone();
        count += 1;
        fuel.spend(2)?;
    }
    (value == RBig::ONE).then(|| RBig::from(count))
}
