//! Whether two expressions have the same value: exactly for rationals and rational functions, at points
//! for what has roots, functions and constants, within rounding where one side is a decimal.

use std::collections::{BTreeMap, BTreeSet};

use dashu_base::Abs;
use dashu_ratio::RBig;

use super::arrows::{between_points, with_signs_apart};
use super::exact::rational;
use super::families::with_constants_of_integration;
use super::fuel::Fuel;
use super::members::pair_up;
use super::modular::{MAX_EXPONENT, NoValue, PRIMES, mixed, modular, prime_of};
use super::numeric::{agree, approximate, is_real};
use super::quantities::{unit_beside, unit_of};
use super::scan::is_one_of;
use super::tree::{Constant, Expr, VECTOR};
use super::units::conversion;

/// Significant digits from which a decimal answer stands for what it approximates.
const MIN_DIGITS: usize = 4;
/// The same for a decimal gold.
const MIN_GOLD_DIGITS: usize = 3;

/// The variables of an expression.
pub(super) fn variables(expr: &Expr) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        // The names that sums run over are not free.
        if let Expr::Variable(name) = expr
            && !name.starts_with('#')
        {
            names.insert(name.clone());
        }
        open.extend(expr.children());
    }
    names
}

/// Whether two answers that are values are equal: the gold may lack the answer's unit.
pub(super) fn same_value(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    let apart = between_points(gold, answer).or_else(|| with_signs_apart(gold, answer));
    let (gold, answer) = apart.as_ref().map_or((gold, answer), |(gold, answer)| (gold, answer));
    values(gold, answer, fuel)
        || without_unit(gold, answer).is_some_and(|answer| values(gold, &answer, fuel))
        || bold(gold, answer, fuel)
        || in_units(gold, answer, fuel)
        || with_constants_of_integration(gold, answer, fuel)
}

/// Whether both are numbers with letters that are units, `6\mu s` and `6e-6 s`, of one size.
fn in_units(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    let both = unit_beside(gold).zip(unit_beside(answer));
    both.is_some_and(|((a, of_gold), (b, of_answer))| {
        let are_numbers =
            variables(&a).is_empty() && variables(&b).is_empty() && of_gold != of_answer;
        let factor = if are_numbers { conversion(&of_gold, &of_answer) } else { None };
        factor.is_some_and(|factor| {
            values(&a, &Expr::Product(vec![b, Expr::Number(factor, None)]), fuel)
        })
    })
}

/// Whether one is a vector of `\mathbf{i}`, `\mathbf{j}`, `\mathbf{k}` that the other writes with plain letters.
fn bold(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    let has_axes = |expr| variables(expr).iter().any(|name| name.starts_with(VECTOR));
    if has_axes(gold) == has_axes(answer) {
        return false;
    }
    let plain = |expr: &Expr| {
        ["i", "j", "k"].iter().fold(expr.clone(), |expr, letter| {
            let plain = match *letter {
                "i" => Expr::Constant(Constant::I),
                letter => Expr::Variable(letter.to_owned()),
            };
            expr.with(&format!("{VECTOR}{letter}"), &plain)
        })
    };
    values(&plain(gold), &plain(answer), fuel)
}

/// Whether two values are equal: exactly for numbers and rational functions, else at points.
pub(super) fn values(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    if gold == answer {
        return true;
    }
    if has_plus_minus(gold) || has_plus_minus(answer) {
        return pair_up(&signs(gold), &signs(answer), fuel, |a, b, fuel| {
            fuel.spend(1).is_some() && same_value(a, b, fuel)
        });
    }
    match (gold, answer) {
        (Expr::Infinity, _) | (_, Expr::Infinity) => return gold == answer,
        (Expr::Negative(a), Expr::Negative(b))
            if **a == Expr::Infinity || **b == Expr::Infinity =>
        {
            return a == b;
        }
        _ => {}
    }
    let (of_gold, of_answer) = (variables(gold), variables(answer));
    // One may have a variable that cancels, as in sin^2 x + cos^2 x.
    if !of_gold.is_subset(&of_answer) && !of_answer.is_subset(&of_gold) {
        return false;
    }
    let names: BTreeSet<String> = of_gold.union(&of_answer).cloned().collect();
    if names.is_empty() {
        if let (Some(a), Some(b)) = (rational(gold, fuel), rational(answer, fuel)) {
            return a == b || is_rounding(gold, answer, fuel);
        }
        if is_rounding(gold, answer, fuel) {
            return true;
        }
    }
    if !names.is_empty() && (counts(gold) || counts(answer)) {
        return at_integers(gold, answer, &names, fuel);
    }
    match modular_equal(gold, answer, &names, fuel) {
        Ok(is_equal) => is_equal,
        Err(_) => at_points(gold, answer, &names, fuel),
    }
}

/// Equality modulo four primes at a random point each; a difference is certain. Three primes are always the same, and
/// nearly always tell expressions that differ. The last belongs to these two: a completion cannot be made for it.
fn modular_equal(
    a: &Expr,
    b: &Expr,
    names: &BTreeSet<String>,
    fuel: &mut Fuel,
) -> Result<bool, NoValue> {
    for (round, prime) in PRIMES.into_iter().enumerate() {
        if !equal_modulo(prime, round as u64, [a, b], names, fuel)? {
            return Ok(false);
        }
    }
    equal_modulo(prime_of(a, b), PRIMES.len() as u64, [a, b], names, fuel)
}

/// Equality modulo a prime, at a point where both have a value.
fn equal_modulo(
    prime: u64,
    round: u64,
    [a, b]: [&Expr; 2],
    names: &BTreeSet<String>,
    fuel: &mut Fuel,
) -> Result<bool, NoValue> {
    let bounds = (prime, MAX_EXPONENT);
    for attempt in 0..4_u64 {
        let seed = |index: usize| mixed(round << 32 | attempt << 16 | index as u64) % prime;
        let values = names.iter().enumerate().map(|(i, name)| (name.clone(), seed(i))).collect();
        let mut value = |expr: &Expr| match modular(expr, bounds, &values, fuel) {
            Err(NoValue::Undefined) => Ok(None),
            value => value.map(Some),
        };
        if let (Some(a), Some(b)) = (value(a)?, value(b)?) {
            return Ok(a == b);
        }
    }
    Ok(false)
}

/// The number of an answer like `5 m` or `3 m/s` to a gold that has no variables.
fn without_unit(gold: &Expr, answer: &Expr) -> Option<Expr> {
    let (value, _) = unit_of(answer)?;
    variables(gold).is_empty().then_some(value)
}

/// Functions whose arguments are natural numbers.
const COUNTS: &str = "binom|perm|gcd|lcm|semifactorial";

/// Whether a value of a variable stands anywhere in it that is one of integers: a factorial, a floor, `(-1)^n`.
fn counts(expr: &Expr) -> bool {
    expr.holds(&|part| {
        let is_count = match part {
            Expr::Factorial(_) => true,
            Expr::Call(name, _) => is_one_of(name, COUNTS) || is_one_of(name, "floor|ceil|max|min"),
            Expr::Power(base, _) => base.as_integer().is_some_and(|base| base < 0),
            _ => false,
        };
        is_count && !variables(part).is_empty()
    })
}

/// Whether a letter stands for integers: by convention, or as it is counted.
fn is_integer(name: &str, exprs: [&Expr; 2]) -> bool {
    let is_counted = |part: &Expr| match part {
        Expr::Factorial(_) => variables(part).contains(name),
        Expr::Call(function, _) => is_one_of(function, COUNTS) && variables(part).contains(name),
        _ => false,
    };
    is_one_of(name, "n|m|k|j|l|N|M|K|i|p|q|r") || exprs.iter().any(|expr| expr.holds(&is_counted))
}

/// Equality at natural numbers of letters that stand for integers, and at fractions of others. The first numbers are
/// those around the numbers of the expressions, beside which floors change; then all from 2 on and larger ones in turn.
fn at_integers(a: &Expr, b: &Expr, names: &BTreeSet<String>, fuel: &mut Fuel) -> bool {
    // Some points have no value, such as binomials with more below than above.
    const POINTS: u64 = 64;
    const NEEDED: usize = 6;
    let is_costly = |part: &Expr| match part {
        Expr::Factorial(_) => true,
        Expr::Call(name, _) => is_one_of(name, "binom|perm|semifactorial|sum|prod"),
        _ => false,
    };
    let is_wide = ![a, b].iter().any(|expr| expr.holds(&is_costly));
    let is_signed = [a, b].iter().any(|expr| expr.holds(&|part| matches!(part, Expr::Call(..))));
    let enough = if is_wide { 48 } else { 12 };
    let (mut near, mut open) = (BTreeSet::new(), vec![a, b]);
    while let Some(expr) = open.pop().filter(|_| is_wide) {
        near.extend(expr.as_integer().filter(|number| (4..10_000).contains(number)));
        open.extend(expr.children());
    }
    let near: Vec<i64> = near.into_iter().take(6).flat_map(|n| [n - 1, n, n + 1]).collect();
    let value = |point: u64, index: usize, name: &String| {
        let random = mixed(point << 8 | index as u64);
        if !is_integer(name, [a, b]) {
            // Near below integers, and anywhere.
            let sign = if is_signed && point % 4 == 1 { -1 } else { 1 };
            let is_near = point.is_multiple_of(2);
            let (number, below) = if is_near { (1009, 1009_u16) } else { (1, 7) };
            let above = number * (1 + random % 97) as i64 - i64::from(is_near);
            return RBig::from_parts((sign * above).into(), below.into());
        }
        let turn = point.saturating_sub(near.len() as u64);
        RBig::from(match near.get(point as usize) {
            Some(near) if index == 0 => *near,
            None if is_wide && turn % 2 == 1 => 2 + (random % 4999) as i64,
            None if names.len() == 1 => 2 + (turn / if is_wide { 2 } else { 1 }) as i64,
            _ => 2 + (random % 29) as i64,
        })
    };
    let mut agreed = 0;
    for point in 0..POINTS {
        let at = |expr: &Expr| {
            names.iter().enumerate().fold(expr.clone(), |expr, (index, name)| {
                expr.with(name, &Expr::Number(value(point, index, name), None))
            })
        };
        let (a, b) = (at(a), at(b));
        let is_equal = match (rational(&a, fuel), rational(&b, fuel)) {
            (Some(a), Some(b)) => Some(a == b),
            _ => agree(&a, &b, &BTreeMap::new(), fuel),
        };
        match is_equal {
            Some(false) => return false,
            Some(true) if agreed + 1 == enough => return true,
            Some(true) => agreed += 1,
            None => {}
        }
    }
    agreed >= NEEDED
}

/// Equality at points in (0.3, 3), and where both have a value there at a negative one.
fn at_points(a: &Expr, b: &Expr, names: &BTreeSet<String>, fuel: &mut Fuel) -> bool {
    if names.is_empty() {
        return agree(a, b, &BTreeMap::new(), fuel).unwrap_or(false);
    }
    let mut agreed = 0;
    for number in 0..4_u64 {
        let sign = if number == 3 { -1.0 } else { 1.0 };
        let value = |index: usize| {
            sign * (0.3
                + (mixed(number << 8 | index as u64) >> 11) as f64 / (1_u64 << 53) as f64 * 2.7)
        };
        let values = names.iter().enumerate().map(|(i, name)| (name.clone(), value(i))).collect();
        // Roots of negative numbers choose branches, which different spellings choose differently.
        if sign < 0.0 && !(is_real(a, &values, fuel) && is_real(b, &values, fuel)) {
            continue;
        }
        match agree(a, b, &values, fuel) {
            Some(false) => return false,
            Some(true) => agreed += 1,
            None => {}
        }
    }
    agreed >= 2
}

/// Whether exactly one side is a decimal that the other rounds to: a decimal gold at its own digits,
/// a decimal answer from four significant digits on. Integers are never approximate.
fn is_rounding(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    if is_same_float(gold, answer, fuel) {
        return true;
    }
    let (exact, (value, digits)) = match (decimal(gold), decimal(answer)) {
        (Some(decimal), None) if significant(&decimal.0, decimal.1) >= MIN_GOLD_DIGITS => {
            (answer, decimal)
        }
        (None, Some(decimal)) if significant(&decimal.0, decimal.1) >= MIN_DIGITS => {
            (gold, decimal)
        }
        _ => return false,
    };
    // Half a unit of the last decimal that is written.
    let half = RBig::ONE / (power_of_ten(digits) * RBig::from(2));
    if let Some(exact) = rational(exact, fuel) {
        // An integer or a finite decimal is what it is.
        return !exact.is_int()
            && !is_finite_decimal(&exact, digits)
            && distance(&exact, &value) <= half;
    }
    match approximate(exact, fuel) {
        Some(exact) => {
            (exact - value.to_f64().value()).abs() <= half.to_f64().value() * (1.0 + 1e-9)
        }
        None => false,
    }
}

/// Whether a decimal is the other side as a 64-bit number is printed: `2.1999999999999997` for 2.2.
fn is_same_float(gold: &Expr, answer: &Expr, fuel: &mut Fuel) -> bool {
    const FLOAT_DIGITS: std::ops::RangeInclusive<usize> = 16..=18;
    let is_printed = |expr: &Expr| match unsigned(expr) {
        Expr::Number(value, Some(digits)) => FLOAT_DIGITS.contains(&significant(value, *digits)),
        _ => false,
    };
    if is_printed(gold) == is_printed(answer) {
        return false;
    }
    match (rational(gold, fuel), rational(answer, fuel)) {
        (Some(a), Some(b)) => {
            let ulps = RBig::from_parts(1.into(), dashu_int::UBig::ONE << 51);
            let size = distance(&a, &RBig::ZERO);
            distance(&a, &b) <= size * ulps
        }
        _ => false,
    }
}

/// The expression without its sign.
fn unsigned(expr: &Expr) -> &Expr {
    match expr {
        Expr::Negative(inner) => inner,
        other => other,
    }
}

/// A decimal, and the place of its last digit: 5 of `1.73 \cdot 10^{-3}`.
fn decimal(expr: &Expr) -> Option<(RBig, i32)> {
    match expr {
        Expr::Number(value, digits) => Some((value.clone(), (*digits)?)),
        Expr::Negative(inner) => decimal(inner).map(|(value, digits)| (-value, digits)),
        Expr::Product(factors) => {
            let [number, Expr::Power(ten, power)] = factors.as_slice() else { return None };
            let power = power.as_integer().filter(|_| **ten == Expr::integer(10))?;
            let power = i32::try_from(power).ok().filter(|power| (-999..1000).contains(power))?;
            let (value, digits) = decimal(number)?;
            Some((value * power_of_ten(power), digits - power))
        }
        _ => None,
    }
}

fn significant(value: &RBig, digits: i32) -> usize {
    (value.clone() * power_of_ten(digits)).numerator().to_string().trim_start_matches('-').len()
}

/// Whether the value is written exactly with at most this many decimals.
fn is_finite_decimal(value: &RBig, digits: i32) -> bool {
    (value.clone() * power_of_ten(digits)).is_int()
}

fn power_of_ten(digits: i32) -> RBig {
    RBig::from(10).pow(digits as isize)
}

fn distance(a: &RBig, b: &RBig) -> RBig {
    (a.clone() - b.clone()).abs()
}

/// Whether a plus-minus stands anywhere in the expression.
pub(super) fn has_plus_minus(expr: &Expr) -> bool {
    expr.holds(&|part| matches!(part, Expr::PlusMinus(_)))
}

/// The values of an expression: two where it has a plus-minus.
pub(super) fn signs(expr: &Expr) -> Vec<Expr> {
    match has_plus_minus(expr) {
        true => [false, true].map(|is_minus| resolved(expr, is_minus)).to_vec(),
        false => vec![expr.clone()],
    }
}

/// The expression with every plus-minus read as plus, or as minus.
fn resolved(expr: &Expr, is_minus: bool) -> Expr {
    match expr {
        Expr::PlusMinus(inner) if is_minus => Expr::negative(resolved(inner, true)),
        Expr::PlusMinus(inner) => resolved(inner, false),
        other => other.with_children(|inner| resolved(inner, is_minus)),
    }
}
