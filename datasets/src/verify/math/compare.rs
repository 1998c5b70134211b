//! Whether an answer is the gold one, by kind. Symmetric, but where an echo could cheat: what only the
//! gold may be is said at each rule.

use dashu_ratio::RBig;

use super::exact::{Fuel, rational};
use super::relations::{chains, is_name};
use super::text::{same_unit, same_words};
use super::tree::{Answer, Expr, Mark, Relation};
use super::values::{has_plus_minus, resolved, values};

/// Most members of sets that are matched.
const MAX_MEMBERS: usize = 64;

/// Whether the two are the same answer.
pub(super) fn equal(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    if fuel.spend(1).is_none() {
        return false;
    }
    match (gold, answer) {
        (Answer::Value(a), Answer::Value(b)) => values(a, b, fuel),
        (Answer::Marked(..), _) | (_, Answer::Marked(..)) => marked(gold, answer, fuel),
        (Answer::Member(_, set), other) => equal(set, other, fuel),
        (other, Answer::Member(_, set)) => equal(other, set, fuel),
        (Answer::Words(a), Answer::Words(b)) => same_words(a, b),
        (Answer::Based(a, p), Answer::Based(b, q)) => {
            (p == q && a.trim_start_matches('0').eq_ignore_ascii_case(b.trim_start_matches('0')))
                || (p != q && based(a, *p).is_some() && based(a, *p) == based(b, *q))
        }
        // MATH often leaves the base out of the question's answer.
        (Answer::Based(a, base), Answer::Value(Expr::Number(b, None))) => {
            b.to_string() == a.trim_start_matches('0') || based(a, *base).as_ref() == Some(b)
        }
        (Answer::Value(Expr::Number(a, None)), Answer::Based(b, base)) => {
            based(b, *base).as_ref() == Some(a)
        }
        (Answer::Ratio(a), Answer::Ratio(b)) => ratios(a, b, fuel),
        (Answer::Ratio(parts), Answer::Value(value))
        | (Answer::Value(value), Answer::Ratio(parts)) => {
            matches!(parts.as_slice(), [Answer::Value(a), Answer::Value(b)]
                if values(&Expr::Quotient(Box::new(a.clone()), Box::new(b.clone())), value, fuel))
        }
        (Answer::Chain(..), _) | (_, Answer::Chain(..)) => chains(gold, answer, fuel),
        (Answer::Tuple(open, a, close), Answer::Tuple(left, b, right)) => {
            // Two entries may be an interval, whose brackets matter.
            let is_same =
                a.len() != 2 || (kind(*open) == kind(*left) && kind(*close) == kind(*right));
            is_same && in_order(a, b, fuel)
        }
        (Answer::Tuple(_, a, _), Answer::List(b)) => in_order(a, b, fuel),
        (Answer::List(a), Answer::Tuple(_, b, _)) => unordered(a, b, fuel),
        (Answer::Set(a) | Answer::List(a), Answer::Set(b) | Answer::List(b)) => {
            unordered(&expanded(a), &expanded(b), fuel)
        }
        (Answer::Union(a), Answer::Union(b)) => unordered(a, b, fuel),
        (Answer::Matrix(a), Answer::Matrix(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| in_order(a, b, fuel))
        }
        (Answer::Matrix(rows), Answer::Tuple(_, items, _))
        | (Answer::Tuple(_, items, _), Answer::Matrix(rows)) => {
            let is_vector = rows.len() == 1 || rows.iter().all(|row| row.len() == 1);
            let cells: Vec<Answer> = rows.iter().flatten().cloned().collect();
            is_vector && in_order(&cells, items, fuel)
        }
        (Answer::Set(a) | Answer::List(a), Answer::Value(_)) => {
            unordered(&expanded(a), &expanded(std::slice::from_ref(answer)), fuel)
        }
        (Answer::Value(_), Answer::Set(b) | Answer::List(b)) => {
            unordered(&expanded(std::slice::from_ref(gold)), &expanded(b), fuel)
        }
        (Answer::Words(a), other) | (other, Answer::Words(a)) => {
            letter(other).is_some_and(|b| same_words(a, &b))
        }
        _ => false,
    }
}

/// 1 for a bracket that includes its end.
pub(super) fn kind(bracket: char) -> u8 {
    match bracket {
        '[' | ']' => 1,
        _ => 0,
    }
}

/// A single variable as a word: choice letters.
fn letter(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Value(Expr::Variable(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Member by member.
pub(super) fn in_order(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, fuel))
}

/// Each of the one has a partner of its own in the other. Equality of values is transitive, so taking
/// the first partner loses nothing.
pub(super) fn unordered(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    if a.len() > MAX_MEMBERS || b.len() > MAX_MEMBERS {
        return false;
    }
    let (a, b) = (distinct(a, fuel), distinct(b, fuel));
    if a.len() != b.len() {
        return false;
    }
    let mut left = b;
    a.into_iter().all(|a| match left.iter().position(|b| equal(a, b, fuel)) {
        Some(at) => {
            left.swap_remove(at);
            true
        }
        None => false,
    })
}

/// The members, each once.
fn distinct<'a>(items: &'a [Answer], fuel: &mut Fuel) -> Vec<&'a Answer> {
    let mut kept: Vec<&Answer> = Vec::new();
    for item in items {
        if !kept.iter().any(|known| equal(known, item, fuel)) {
            kept.push(item);
        }
    }
    kept
}

/// Members with every plus-minus written out.
pub(super) fn expanded(items: &[Answer]) -> Vec<Answer> {
    let one = |item: &Answer| match item {
        Answer::Value(expr) if has_plus_minus(expr) => {
            [false, true].iter().map(|is_minus| Answer::Value(resolved(expr, *is_minus))).collect()
        }
        Answer::Chain(sides, relations)
            if relations.as_slice() == [Relation::Equal] && is_name(&sides[0]) =>
        {
            expanded(&sides[1..])
        }
        other => vec![other.clone()],
    };
    items.iter().flat_map(one).collect()
}

/// Percent: 50 % is 50 and 0.5 and 1/2. Degrees and units are compared only where both have one.
fn marked(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    let split = |answer: &Answer| match answer {
        Answer::Marked(inner, mark) => ((**inner).clone(), Some(mark.clone())),
        other => (other.clone(), None),
    };
    let ((a, of_gold), (b, of_answer)) = (split(gold), split(answer));
    match (&of_gold, &of_answer) {
        (Some(Mark::Unit(a)), Some(Mark::Unit(b))) if !same_unit(a, b) => return false,
        (Some(Mark::Percent), Some(Mark::Percent)) => return equal(&a, &b, fuel),
        (Some(Mark::Percent), _) => return equal(&a, &b, fuel) || equal(&hundredth(&a), &b, fuel),
        (_, Some(Mark::Percent)) => return equal(&a, &b, fuel) || equal(&a, &hundredth(&b), fuel),
        _ => {}
    }
    equal(&a, &b, fuel)
}

fn hundredth(answer: &Answer) -> Answer {
    match answer {
        Answer::Value(expr) => {
            // Exact again: 28 % is 28/100, however many decimals it was written with.
            let exact = match expr {
                Expr::Number(value, _) => Expr::Number(value.clone(), None),
                other => other.clone(),
            };
            Answer::Value(Expr::Quotient(Box::new(exact), Box::new(Expr::integer(100))))
        }
        other => other.clone(),
    }
}

fn based(digits: &str, base: u32) -> Option<RBig> {
    dashu_int::IBig::from_str_radix(digits, base).ok().map(RBig::from)
}

/// `a : b` and `c : d` are the same when proportional.
fn ratios(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    let numbers = |parts: &[Answer]| -> Option<Vec<Expr>> {
        parts
            .iter()
            .map(|part| if let Answer::Value(expr) = part { Some(expr.clone()) } else { None })
            .collect()
    };
    let (Some(a), Some(b)) = (numbers(a), numbers(b)) else { return false };
    let cross = |x: &Expr, y: &Expr| Expr::Product(vec![x.clone(), y.clone()]);
    let is_zero = |parts: &[Expr], fuel: &mut Fuel| {
        parts.iter().any(|part| rational(part, fuel).is_some_and(|value| value.is_zero()))
    };
    // A time of day is no proportion: 12:00 is not 1:00.
    if is_zero(&a, fuel) || is_zero(&b, fuel) {
        return a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| values(a, b, fuel));
    }
    a.len() == b.len()
        && (1..a.len()).all(|i| values(&cross(&a[0], &b[i]), &cross(&a[i], &b[0]), fuel))
}
