//! Values with percent signs, degrees and units: equal where they convert, or where only one side says its unit.

use dashu_ratio::RBig;

use super::fuel::Fuel;
use super::members::Equal;
use super::scan::is_one_of;
use super::tree::{Answer, Constant, Expr, Mark, radians};
use super::units::{conversion, is_known, is_unit, temperature};

/// Percent: 50 % is 50 and 0.5 and 1/2. Degrees and units are compared only where both have one.
pub(super) fn marked(gold: &Answer, answer: &Answer, equal: Equal, fuel: &mut Fuel) -> bool {
    let split = |answer: &Answer| match answer {
        Answer::Marked(inner, mark) => ((**inner).clone(), Some(mark.clone())),
        other => (other.clone(), None),
    };
    let is_unit = |answer: &Answer| matches!(answer, Answer::Marked(_, Mark::Unit(_)));
    let ((a, of_gold), (b, of_answer)) = match (is_unit(gold), is_unit(answer)) {
        (true, false) => (split(gold), split(&with_unit(answer))),
        (false, true) => (split(&with_unit(gold)), split(answer)),
        _ => (split(gold), split(answer)),
    };
    match (&of_gold, &of_answer) {
        (Some(Mark::Unit(p)), Some(Mark::Unit(q))) => {
            // "$15 per hour" against a sum of money
            let (p, q) = match (rate(p), rate(q)) {
                (Some(money), None) => (money, q.as_str()),
                (None, Some(money)) => (p.as_str(), money),
                _ => (p.as_str(), q.as_str()),
            };
            return converted(p, q, &b).is_some_and(|converted| equal(&a, &converted, fuel));
        }
        (None, Some(Mark::Unit(unit))) if unit == "bps" => {
            return equal(&a, &b, fuel) || equal(&a, &hundredth(&hundredth(&b)), fuel);
        }
        _ => {}
    }
    let ways = in_one_measure((&a, of_gold.as_ref()), (&b, of_answer.as_ref())).or_else(|| {
        // A percentage is exact but in the gold: 28 % is 28/100, however many decimals it was written with.
        let exact = match (&b, &of_answer) {
            (Answer::Value(Expr::Number(value, _)), Some(Mark::Percent)) => {
                Answer::Value(Expr::Number(value.clone(), None))
            }
            _ => b.clone(),
        };
        let ways = in_one_measure((&exact, of_answer.as_ref()), (&a, of_gold.as_ref()))?;
        Some(ways.into_iter().map(|(b, a)| (a, b)).collect())
    });
    ways.unwrap_or_else(|| vec![(a, b)]).iter().any(|(a, b)| equal(a, b, fuel))
}

/// The currency of a sum for each of something: "dollar per hour".
fn rate(unit: &str) -> Option<&str> {
    let (money, of) = unit.split_once(" per ").or_else(|| unit.split_once('/'))?;
    let is_money = conversion("dollar", money).is_some() || is_one_of(money, "€|£|¥|₹|euro|euros");
    (is_money && (is_unit(of) || !of.contains(' '))).then_some(money)
}

/// Ways in which a value with a mark may be compared with another; no way where the other's mark is of another kind,
/// and `None` where the mark of the first says nothing about it.
fn in_one_measure(
    (a, mark): (&Answer, Option<&Mark>),
    (b, other): (&Answer, Option<&Mark>),
) -> Option<Vec<(Answer, Answer)>> {
    let (as_they_stand, with_b) = ((a.clone(), b.clone()), |a: Answer| vec![(a, b.clone())]);
    Some(match (mark?, other) {
        (Mark::Percent, Some(Mark::Percent)) => vec![as_they_stand],
        (Mark::Percent, Some(Mark::Unit(unit))) if unit == "bps" => {
            vec![(a.clone(), hundredth(b))]
        }
        (Mark::Percent, Some(Mark::Unit(unit))) if of_percent(unit).is_some() => {
            let parts = Expr::integer(of_percent(unit)?);
            let Answer::Value(b) = b else { return Some(vec![]) };
            vec![(a.clone(), Answer::Value(Expr::quotient(b.clone(), parts)))]
        }
        (Mark::Percent, Some(Mark::Unit(unit))) if conversion("dollar", unit).is_some() => vec![],
        (Mark::Percent, _) => vec![as_they_stand, (hundredth(a), b.clone())],
        (Mark::Degree, Some(Mark::Unit(unit))) if is_angle(unit) => with_b(in_radians(a)),
        // 25 degrees may be a temperature.
        (Mark::Degree, Some(Mark::Unit(unit))) if !is_scale(unit) => vec![],
        // A multiple of pi without a unit is an angle in radians.
        (Mark::Degree, None) if has_pi(b) => with_b(in_radians(a)),
        // `1.35x` is a multiple beside one.
        (Mark::Unit(unit), None) if unit == "times" => vec![(a.clone(), without_x(b))],
        _ => return None,
    })
}

/// How many of a unit make a percent.
fn of_percent(unit: &str) -> Option<i64> {
    match unit.to_lowercase().as_str() {
        "per mille" | "per mil" | "permille" | "promille" | "per thousand" | "‰" => Some(10),
        "ppm" | "parts per million" | "per million" => Some(10_000),
        "ppb" | "parts per billion" | "per billion" => Some(10_000_000),
        _ => None,
    }
}

fn in_radians(degrees: &Answer) -> Answer {
    match degrees {
        Answer::Value(value) => Answer::Value(radians(value.clone())),
        other => other.clone(),
    }
}

/// The number of `1.35x`.
fn without_x(answer: &Answer) -> Answer {
    match answer {
        Answer::Value(Expr::Product(factors)) => match factors.as_slice() {
            [number @ Expr::Number(..), Expr::Variable(x)] if x == "x" => {
                Answer::Value(number.clone())
            }
            _ => answer.clone(),
        },
        other => other.clone(),
    }
}

fn is_angle(unit: &str) -> bool {
    conversion("rad", unit).is_some()
}

fn is_scale(unit: &str) -> bool {
    matches!(unit, "celsius" | "fahrenheit")
}

fn has_pi(answer: &Answer) -> bool {
    let is_pi = |expr: &Expr| *expr == Expr::Constant(Constant::Pi);
    matches!(answer, Answer::Value(expr) if expr.holds(&is_pi))
}

/// The answer's value in the gold's unit.
fn converted(gold: &str, answer: &str, value: &Answer) -> Option<Answer> {
    let (factor, more) = match temperature(gold, answer) {
        Some(scale) => scale,
        None => (conversion(gold, answer)?, RBig::ZERO),
    };
    let Answer::Value(expr) = value else {
        return (factor == RBig::ONE && more.is_zero()).then(|| value.clone());
    };
    let number = |value: RBig| Expr::Number(value, None);
    let mut expr = expr.clone();
    if factor != RBig::ONE {
        expr = Expr::Product(vec![number(factor), expr]);
    }
    if !more.is_zero() {
        expr = Expr::Sum(vec![expr, number(more)]);
    }
    Some(Answer::Value(expr))
}

/// `5 m` and `3 m/s` beside a value with a unit: their letters are units too.
fn with_unit(answer: &Answer) -> Answer {
    if let Answer::Value(expr) = answer
        && let Some((value, unit)) = unit_beside(expr)
    {
        return Answer::marked(Answer::Value(value), Mark::Unit(unit));
    }
    answer.clone()
}

/// The number and the unit of a product beside a value with a unit: its letters together may be one, `k P a`, and those
/// that are often variables, `K`, are units too.
pub(super) fn unit_beside(expr: &Expr) -> Option<(Expr, String)> {
    let Expr::Product(factors) = expr else { return unit_of(expr) };
    let name = |factor: &Expr| match factor {
        Expr::Variable(name) if name == "mu" => Some("μ".to_owned()),
        Expr::Variable(name) if name.chars().count() <= 5 => Some(name.clone()),
        Expr::Power(base, exponent) => match (&**base, &**exponent) {
            (Expr::Variable(name), Expr::Number(power, None)) => Some(format!("{name}^{power} ")),
            (Expr::Variable(name), Expr::Negative(power)) => match &**power {
                Expr::Number(power, None) => Some(format!("{name}^-{power} ")),
                _ => None,
            },
            _ => None,
        },
        _ => None,
    };
    let (value, names) = split_units(factors, name);
    let mut ways = [names.concat(), names.join(" ")];
    // `m s^{-2}` is of metres and seconds, `ms` a millisecond.
    if names.iter().any(|name| name.contains('^')) {
        ways.reverse();
    }
    let unit = ways.into_iter().find(|unit| is_unit(unit.trim()))?;
    Some((value?, unit.trim().to_owned()))
}

/// The factors before those at the end that are units, as one value, and the names of the units.
fn split_units(
    factors: &[Expr],
    name: impl Fn(&Expr) -> Option<String>,
) -> (Option<Expr>, Vec<String>) {
    let mut units: Vec<String> = factors.iter().rev().map_while(name).collect();
    units.reverse();
    let value = match &factors[..factors.len() - units.len()] {
        [] => None,
        [one] => Some(one.clone()),
        more => Some(Expr::Product(more.to_vec())),
    };
    (value, units)
}

/// The number and the unit of a product of a number and letters that are units.
pub(super) fn unit_of(expr: &Expr) -> Option<(Expr, String)> {
    let is_known =
        |name: &str| is_known(name) && !matches!(name, "A" | "C" | "F" | "H" | "K" | "T" | "t");
    let power = |expr: &Expr| match expr {
        Expr::Variable(name) if is_known(name) => Some(name.clone()),
        Expr::Power(base, exponent) => match (&**base, &**exponent) {
            (Expr::Variable(name), Expr::Number(power, None)) if is_known(name) => {
                Some(format!("{name}^{power}"))
            }
            _ => None,
        },
        _ => None,
    };
    let power = |expr: &Expr| match expr {
        Expr::Quotient(a, b) => Some(format!("{} per {}", power(a)?, power(b)?)),
        other => power(other),
    };
    match expr {
        Expr::Product(factors) => {
            // `500 nm`: letters that are one symbol.
            let letters: String = factors
                .iter()
                .filter_map(|factor| match factor {
                    Expr::Variable(name) => Some(name.as_str()),
                    _ => None,
                })
                .collect();
            if let [value, _, _] = factors.as_slice()
                && letters.len() == 2
                && is_known(&letters)
            {
                return Some((value.clone(), letters));
            }
            let (value, units) = split_units(factors, power);
            (!units.is_empty()).then(|| Some((value?, units.join(" "))))?
        }
        Expr::Quotient(above, below) => {
            let (value, unit) = unit_of(above)?;
            if let Expr::Number(..) = **below {
                return Some((Expr::Quotient(Box::new(value), below.clone()), unit));
            }
            Some((value, format!("{unit} per {}", power(below)?)))
        }
        Expr::Negative(inner) => {
            let (value, unit) = unit_of(inner)?;
            Some((Expr::negative(value), unit))
        }
        _ => None,
    }
}

fn hundredth(answer: &Answer) -> Answer {
    match answer {
        Answer::Value(expr) => {
            // A decimal has two more digits behind its point: 66.67 % is 0.6667.
            Answer::Value(match expr {
                Expr::Number(value, Some(decimals)) => {
                    Expr::Number(value.clone() / RBig::from(100), Some(decimals + 2))
                }
                other => Expr::quotient(other.clone(), Expr::integer(100)),
            })
        }
        other => other.clone(),
    }
}
