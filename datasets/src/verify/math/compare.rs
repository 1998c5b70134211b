//! Whether an answer is the gold one, by kind. Symmetric, but where an echo could cheat: what only the
//! gold may be is said at each rule.

use dashu_ratio::RBig;

use super::exact::rational;
use super::fuel::Fuel;
use super::names::is_name;
use super::numerals::positional;
use super::pairing::{MAX_MEMBERS, pair_up};
use super::regions::same_region;
use super::relations::chains;
use super::text::{number_word, same_words};
use super::tree::{Answer, Expr, Mark, Relation};
use super::units::{conversion, is_known};
use super::values::{same_value, signs, values};

/// Whether the two are the same answer.
pub(super) fn equal(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    if fuel.spend(1).is_none() {
        return false;
    }
    match (gold, answer) {
        (Answer::Value(a), Answer::Value(b)) => same_value(a, b, fuel),
        (Answer::Marked(..), _) | (_, Answer::Marked(..)) => marked(gold, answer, fuel),
        (Answer::Member(..), Answer::Chain(..)) => same_region(gold, answer, fuel),
        (Answer::Member(_, set), other) => equal(set, other, fuel),
        (other, Answer::Member(_, set)) => equal(other, set, fuel),
        (Answer::Words(a), Answer::Words(b)) => same_words(a, b),
        (Answer::Based(a, p), Answer::Based(b, q)) => {
            (p == q && significant(a).eq_ignore_ascii_case(significant(b)))
                || (p != q && positional(a, *p).is_some() && positional(a, *p) == positional(b, *q))
        }
        // MATH often leaves the base out of the question's answer; the same number in base ten is the
        // question.
        (Answer::Based(a, _), Answer::Value(Expr::Number(b, _))) => {
            positional(a, 10).as_ref() == Some(b)
        }
        (Answer::Value(Expr::Number(a, _)), Answer::Based(b, base)) => {
            positional(b, *base).as_ref() == Some(a)
        }
        (Answer::Ratio(a), Answer::Ratio(b)) => ratios(a, b, fuel),
        (Answer::Ratio(parts), Answer::Value(value))
        | (Answer::Value(value), Answer::Ratio(parts)) => {
            matches!(parts.as_slice(), [Answer::Value(a), Answer::Value(b)]
                if values(&Expr::Quotient(Box::new(a.clone()), Box::new(b.clone())), value, fuel))
        }
        (Answer::Chain(..), _) | (_, Answer::Chain(..)) => chains(gold, answer, equal, fuel),
        _ => collections(gold, answer, fuel),
    }
}

/// Tuples, lists, sets, unions and matrices; and times and words.
fn collections(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    match (gold, answer) {
        (Answer::Tuple(open, a, close), Answer::Tuple(left, b, right)) => {
            // Two entries may be an interval, whose brackets matter.
            let is_same = a.len() != 2
                || ((*open == '[') == (*left == '[') && (*close == ']') == (*right == ']'));
            is_same && in_order(a, b, fuel)
        }
        (Answer::Tuple(_, a, _), Answer::List(b)) => in_order(a, b, fuel),
        (Answer::List(a), Answer::Tuple(_, b, _)) => unordered(a, b, fuel),
        (Answer::Set(a) | Answer::List(a), Answer::Set(b) | Answer::List(b)) => {
            match (assigned(a), assigned(b)) {
                // `x = 1, y = 2` says which is which.
                (Some(a), Some(b)) => by_name(&a, &b, fuel),
                _ => unordered(&expanded(a), &expanded(b), fuel) || same_region(gold, answer, fuel),
            }
        }
        (Answer::Union(a), Answer::Union(b)) => {
            unordered(a, b, fuel) || same_region(gold, answer, fuel)
        }
        (Answer::Without(a, b), Answer::Without(c, d)) => {
            (equal(a, c, fuel) && equal(b, d, fuel)) || same_region(gold, answer, fuel)
        }
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
        (Answer::Time(h, m, half), Answer::Time(i, n, other)) => (h, m, half) == (i, n, other),
        (Answer::Time(hours, minutes, _), Answer::Ratio(parts))
        | (Answer::Ratio(parts), Answer::Time(hours, minutes, _)) => {
            let value = |n: u32| Answer::Value(Expr::integer(n.into()));
            in_order(&[value(*hours), value(*minutes)], parts, fuel)
        }
        (Answer::Words(a), other) | (other, Answer::Words(a)) => {
            letter(other).is_some_and(|b| same_words(a, &b))
                || number_word(a).is_some_and(|a| *other == Answer::Value(Expr::integer(a)))
                || same_region(gold, answer, fuel)
        }
        _ => same_region(gold, answer, fuel),
    }
}

/// Assignments to names that all differ.
fn assigned(items: &[Answer]) -> Option<Vec<(&Answer, &Answer)>> {
    let pairs = items.iter().map(|item| match item {
        Answer::Chain(sides, relations)
            if relations.as_slice() == [Relation::Equal] && is_name(&sides[0]) =>
        {
            Some((&sides[0], &sides[1]))
        }
        _ => None,
    });
    let pairs: Vec<_> = pairs.collect::<Option<_>>()?;
    let differs = |i: usize| pairs[..i].iter().all(|(name, _)| *name != pairs[i].0);
    (pairs.len() <= MAX_MEMBERS && (0..pairs.len()).all(differs)).then_some(pairs)
}

fn by_name(a: &[(&Answer, &Answer)], b: &[(&Answer, &Answer)], fuel: &mut Fuel) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, value)| {
            let other = b.iter().find(|(other, _)| other == name);
            other.is_some_and(|(_, other)| equal(value, other, fuel))
        })
}

/// A single variable as a word: choice letters.
fn letter(answer: &Answer) -> Option<String> {
    match answer {
        Answer::Value(Expr::Variable(name)) => Some(name.clone()),
        _ => None,
    }
}

/// Member by member.
fn in_order(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b, fuel))
}

/// Each of the one has a partner of its own in the other.
fn unordered(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    pair_up(a, b, fuel, equal)
}

/// Members with every plus-minus written out.
fn expanded(items: &[Answer]) -> Vec<Answer> {
    let one = |item: &Answer| match item {
        Answer::Value(expr) => signs(expr).into_iter().map(Answer::Value).collect(),
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
    let is_unit = |answer: &Answer| matches!(answer, Answer::Marked(_, Mark::Unit(_)));
    let ((a, of_gold), (b, of_answer)) = match (is_unit(gold), is_unit(answer)) {
        (true, false) => (split(gold), split(&with_unit(answer))),
        (false, true) => (split(&with_unit(gold)), split(answer)),
        _ => (split(gold), split(answer)),
    };
    match (&of_gold, &of_answer) {
        (Some(Mark::Unit(p)), Some(Mark::Unit(q))) => {
            let Some(factor) = conversion(p, q) else { return false };
            let converted = match b {
                Answer::Value(value) if factor != RBig::ONE => {
                    Answer::Value(Expr::Product(vec![Expr::Number(factor, None), value]))
                }
                other => other,
            };
            return equal(&a, &converted, fuel);
        }
        (Some(Mark::Percent), Some(Mark::Percent)) => return equal(&a, &b, fuel),
        (Some(Mark::Percent), _) => return equal(&a, &b, fuel) || equal(&hundredth(&a), &b, fuel),
        (_, Some(Mark::Percent)) => return equal(&a, &b, fuel) || equal(&a, &hundredth(&b), fuel),
        _ => {}
    }
    equal(&a, &b, fuel)
}

/// `5 m` beside a value with a unit: its letter is a unit too.
fn with_unit(answer: &Answer) -> Answer {
    if let Answer::Value(Expr::Product(factors)) = answer
        && let [value, Expr::Variable(name)] = factors.as_slice()
        && is_known(name)
    {
        return Answer::Marked(Box::new(Answer::Value(value.clone())), Mark::Unit(name.clone()));
    }
    answer.clone()
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

/// Digits without the zeros that change no value: in front, and behind a point.
fn significant(digits: &str) -> &str {
    let digits = digits.trim_start_matches('0');
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
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
