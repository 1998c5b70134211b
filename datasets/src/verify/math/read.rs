//! The answer that a text holds: a time of day, a number in words, a value that is given twice, else what the grammar
//! of `parse` reads.

use std::collections::BTreeSet;

use dashu_ratio::RBig;

use super::FUEL;
use super::answer::is_integer;
use super::calendar::time;
use super::compare::equal;
use super::foreign::with_numerals;
use super::fuel::Fuel;
use super::languages::no_solution;
use super::lex::MAX_BYTES;
use super::links::linked;
use super::names::is_name;
use super::numerals::positional;
use super::numeric::approximate;
use super::parse::structure;
use super::relations::{at_point, is_asked};
use super::scan::{each, has_digits, is_one_of, parted, pattern};
use super::sets::set_in_words;
use super::spelled::{is_number_part, spelled};
use super::tree::{Answer, BESIDE, Expr, Mark};
use super::units::is_unit;
use super::values::variables;
use super::wording::in_signs;

/// The answer that a text holds, `None` where it is not mathematics.
pub(super) fn parse(text: &str) -> Option<Answer> {
    // Most answers are digits alone.
    if is_integer(text) && !text.starts_with('0') {
        return positional(text, 10).map(Answer::number);
    }
    rounds(text).then_some(())?;
    let linked = linked(text);
    let text = linked.as_deref().unwrap_or(text);
    // `(f \circ g)(x)` is `f(g(x))`.
    let composed = text.contains(")(") && text.contains("\\circ");
    let composed = composed.then(|| {
        pattern!(r"\(([A-Za-z]) *\\circ *([A-Za-z])\)\(([^()]*)\)").replace_all(text, "$1($2($3))")
    });
    let text = composed.as_deref().unwrap_or(text);
    match in_signs(text) {
        Some(signs) => read(&signs).or_else(|| read(text)),
        None => read(text),
    }
}

/// What stands before the first sign of approximation, and behind the last.
fn sides(text: &str) -> Option<(&str, &str)> {
    let sign = each("≈|\\approx|\\simeq|\\sim").find(|sign| text.contains(sign))?;
    let (exact, value) = (text.split_once(sign)?.0.trim(), text.rsplit_once(sign)?.1.trim());
    Some(exact.strip_suffix('(').zip(value.strip_suffix(')')).unwrap_or((exact, value)))
}

/// The value before the first sign of approximation, and what stands behind the last.
pub(super) fn approximated(text: &str) -> Option<(Expr, &str)> {
    let (exact, value) = sides(text)?;
    Some((number(parse(exact)?)?, value))
}

/// The number of an answer: of its last side, without its unit.
fn number(answer: Answer) -> Option<Expr> {
    match answer {
        Answer::Value(value) => Some(value),
        Answer::Chain(mut sides, _) => number(sides.pop()?),
        Answer::Marked(value, Mark::Unit(_)) => number(*value),
        _ => None,
    }
}

/// Whether what stands behind a sign of approximation rounds what stands before it, or what that names: not in
/// `7 \approx 9` and `x + 1 \approx x - 1`, which are two answers. A decimal may be cut off as well.
pub(super) fn rounds(text: &str) -> bool {
    let Some((exact, value)) = sides(text).filter(|(exact, _)| !exact.is_empty()) else {
        return true;
    };
    let exact = match parse(exact) {
        Some(Answer::Chain(mut sides, _)) => sides.pop(),
        exact => exact,
    };
    let Some(exact) = exact else { return true };
    if is_name(&exact) || is_asked(&exact, false) {
        return true;
    }
    // `3.33 (rounded to two decimals)`
    parse(value).is_none_or(|value| is_rounded(&exact, &value, &mut Fuel::new(FUEL)))
}

/// Whether a value may round another one, member by member; what has no size may.
fn is_rounded(exact: &Answer, value: &Answer, fuel: &mut Fuel) -> bool {
    let mut are = |a: &[Answer], b: &[Answer]| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| is_rounded(a, b, fuel))
    };
    match (exact, value) {
        (Answer::Tuple(_, a, _), Answer::Tuple(_, b, _))
        | (Answer::List(a), Answer::List(b))
        | (Answer::Set(a), Answer::Set(b))
        | (Answer::Union(a), Answer::Union(b))
        | (Answer::Ratio(a), Answer::Ratio(b)) => return are(a, b),
        (Answer::Matrix(a), Answer::Matrix(b)) => return are(&a.concat(), &b.concat()),
        (Answer::Value(a), Answer::Value(b)) => {
            let names: BTreeSet<String> = variables(a).union(&variables(b)).cloned().collect();
            let is_beside = |part: &Expr| matches!(part, Expr::Call(name, _) if name == BESIDE);
            let mut size = |expr: &Expr| approximate(&at_point(expr, &names), fuel);
            if b.holds(&is_beside) {
                return false;
            }
            if !names.is_empty() {
                let sizes = size(a).zip(size(b));
                return sizes.is_none_or(|(a, b)| (a - b).abs() <= 0.02 * a.abs());
            }
        }
        (Answer::Value(_) | Answer::Marked(..), Answer::Value(_) | Answer::Marked(..)) => {}
        _ => return equal(exact, value, fuel),
    }
    size(exact, fuel).zip(size(value, fuel)).is_none_or(|((a, _), (b, place))| {
        let is_cut = place.is_some_and(|place| place < 1.0) && b.abs() < a.abs();
        let place = place.unwrap_or(0.02 * a.abs());
        (a - b).abs() <= if is_cut { place } else { 0.5 * place } * 1.000_001
    })
}

/// The size of a number, and the place of its last digit; an expression has none.
fn size(answer: &Answer, fuel: &mut Fuel) -> Option<(f64, Option<f64>)> {
    let (value, scale) = match answer {
        Answer::Value(value) => {
            let place = match value {
                Expr::Number(_, Some(decimals)) => Some(0.1_f64.powi(*decimals)),
                Expr::Number(value, None) => {
                    let digits = value.to_string();
                    Some(10_f64.powi((digits.len() - digits.trim_end_matches('0').len()) as i32))
                }
                _ => None,
            };
            return Some((approximate(value, fuel)?, place));
        }
        Answer::Chain(sides, _) => return size(sides.last()?, fuel),
        Answer::Marked(value, Mark::Unit(_)) => (value, 1.0),
        Answer::Marked(value, Mark::Percent) => (value, 0.01),
        Answer::Marked(value, Mark::Degree) => (value, std::f64::consts::PI / 180.0),
        _ => return None,
    };
    let (size, place) = size(value, fuel)?;
    Some((size * scale, place.map(|place| place * scale)))
}

fn read(text: &str) -> Option<Answer> {
    if let Some(time) = time(text) {
        return Some(time);
    }
    if let Some(set) = set_in_words(text) {
        return Some(set);
    }
    let may_be_none = !text.contains('\\') && !has_digits(text) && text.len() > 3;
    if may_be_none && no_solution(text) == Some(0) {
        return Some(Answer::Words(text.to_owned()));
    }
    if let Some(number) = spelled_sum(text) {
        let value = Answer::number(number);
        let unit = text.rsplit(' ').next().filter(|unit| is_unit(unit));
        return Some(match unit {
            Some(unit) => Answer::marked(value, Mark::Unit(unit.to_owned())),
            None => value,
        });
    }
    if !text.is_ascii()
        && let Some(number) = with_numerals(text)
    {
        return Some(Answer::number(number));
    }
    // `\frac{4}{5}\ (=80\%)`: the same value again.
    if text.contains('(')
        && let Some((value, again)) = parted(text, "(=|(\\text{or }|(or ")
        && !value.is_empty()
        && !again.contains("(=")
    {
        let again = again.trim().strip_suffix(')')?;
        let (value, again) = (parse(value.trim_end_matches(['\\', ' '])), parse(again)?);
        return value.filter(|value| equal(value, &again, &mut Fuel::new(FUEL)));
    }
    if let Some((value, _)) = restated(text) {
        return Some(value);
    }
    // `9/4 (2.25)`
    if let Some((value, again)) = text.strip_suffix(')').and_then(|text| text.rsplit_once(" ("))
        && again.starts_with(|c: char| c.is_ascii_digit() || c == '\\')
        && value.ends_with(|c: char| c.is_ascii_digit() || c == '}')
        && let (Some(value), Some(again)) = (structure(value), structure(again))
        && equal(&value, &again, &mut Fuel::new(FUEL))
    {
        return Some(value);
    }
    structure(text)
}

/// A value that is given twice, in other words: `275 cents, i.e. $2.75`.
pub(super) fn restated(text: &str) -> Option<(Answer, Answer)> {
    const LINKS: &str = ", i.e. |, i.e., | i.e. |, that is, |, that is |, or equivalently |, or ";
    (text.contains(' ') && text.len() <= MAX_BYTES).then_some(())?;
    let (value, again) = parted(text, LINKS)?;
    let (value, again) = (parse(value)?, parse(again)?);
    equal(&value, &again, &mut Fuel::new(FUEL)).then_some((value, again))
}

/// The number that words around "and" are, which elsewhere separates two answers: `two and a half`; or around a comma
/// behind thousands or millions: `one thousand, two hundred`.
fn spelled_sum(text: &str) -> Option<RBig> {
    if let Some((scale, rest)) = text.split_once(", ") {
        let is_scale =
            scale.len() > 5 && is_one_of(scale.rsplit(' ').next()?, "thousand|million|billion");
        let are_numbers =
            |part: &str| part.split(' ').all(|word| word == "and" || is_number_part(word));
        let is_number = is_scale && rest.contains(' ') && text.split(", ").all(are_numbers);
        return if is_number { spelled(&text.replace(',', "")) } else { None };
    }
    let are_words = text.contains(" and ")
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b' ' || byte == b'-');
    if are_words { spelled(text) } else { None }
}
