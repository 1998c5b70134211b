//! Whether an answer is the gold one, by kind. Symmetric, but where an echo could cheat: what only the
//! gold may be is said at each rule.

use super::exact::rational;
use super::families::{equal_family, form, half_of_integers, same_points};
use super::fuel::Fuel;
use super::matrix_equality::{
    identity_of, is_multiple_of_identity, is_named_matrix, rows_and_items, vector,
};
use super::members::{self, MAX_MEMBERS, pair_up};
use super::names::{are_indexed, assigned, by_convention, is_name, letter, unnamed};
use super::numerals::positional;
use super::quantities::marked;
use super::regions::{is_rest, same_region};
use super::relations::{chains, congruences};
use super::scan::{begins, folded, is_one_of};
use super::sets::set_in_words;
use super::spelled::spelled;
use super::tree::{Answer, Expr};
use super::values::{same_value, signs, values, variables};
use super::word_meanings::is_infinite;
use super::words::{is_none, is_undefined, same_words};

/// Whether the two are the same answer: one table by the kinds of gold and answer, the first row that fits decides.
pub(super) fn equal(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    if fuel.spend(1).is_none() {
        return false;
    }
    if let Some(is_equal) = by_names(gold, answer, fuel) {
        return is_equal;
    }
    match (gold, answer) {
        (Answer::Value(a), Answer::Value(b)) => same_value(a, b, fuel),
        // "all integers n > 1" and `n \ge 2`, but no interval.
        (Answer::Qualified(a, 'Z', _), b) | (b, Answer::Qualified(a, 'Z', _))
            if half_of_integers(a).is_some() =>
        {
            let other = if let Answer::Qualified(b, 'Z', _) = b { b } else { b };
            half_of_integers(a) == half_of_integers(other)
        }
        // Letters from other sets are other answers; without a set, they are from the gold's.
        (Answer::Qualified(a, of_gold, k), Answer::Qualified(b, of_answer, n)) => {
            of_gold == of_answer && equal_family((a, k.as_ref()), (b, n.as_ref()), equal, fuel)
        }
        (a, Answer::Qualified(b, _, n)) => equal_family((a, None), (b, n.as_ref()), equal, fuel),
        // A bare `2\pi n`, with no other letter, is understood to be of all integers; a bare `n^2` of no set.
        (Answer::Qualified(a, 'Z', k), b)
            if form(b).is_some_and(|(_, form)| variables(form).len() == 1) =>
        {
            equal_family((a, k.as_ref()), (b, None), equal, fuel)
        }
        (Answer::Qualified(a, 'Z' | 'R', k), b) => {
            equal(a, b, fuel) || same_points((a, k.as_ref()), (b, None), equal, fuel)
        }
        (Answer::Qualified(a, ..), b) => equal(a, b, fuel),
        (Answer::Chain(..), Answer::Marked(..)) | (Answer::Marked(..), Answer::Chain(..)) => {
            chains(gold, answer, equal, fuel)
        }
        (Answer::Marked(..), Answer::Set(b) | Answer::List(b)) => {
            unordered(std::slice::from_ref(gold), &expanded(b), fuel)
        }
        // Three hours are no time of day.
        (Answer::Marked(..), Answer::Time(..)) | (Answer::Time(..), Answer::Marked(..)) => false,
        (Answer::Marked(..), _) | (_, Answer::Marked(..)) => marked(gold, answer, equal, fuel),
        (Answer::Signs(a), Answer::Signs(b)) => same_signs(a, b, fuel),
        (Answer::Congruence(..), _) | (_, Answer::Congruence(..)) => {
            congruences(gold, answer, fuel)
        }
        (Answer::Cases(a), Answer::Cases(b)) => cases(a, b, fuel),
        (Answer::Member(_, set), Answer::Chain(sides, _)) => {
            let is_value = matches!(&**set, Answer::Set(_)) && is_name(&sides[0]);
            same_region(gold, answer, fuel)
                || (is_value && chains(&Answer::clone(set), answer, equal, fuel))
        }
        (Answer::Member(a, set), Answer::Member(b, other)) => {
            (is_name(a) && is_name(b) || equal(a, b, fuel)) && equal(set, other, fuel)
        }
        // An interval is no list of its ends.
        (Answer::Member(name, set), other) | (other, Answer::Member(name, set))
            if !is_name(name) && !matches!(**name, Answer::Value(_))
                || matches!((&**set, other), (Answer::Tuple(..), Answer::List(_))) =>
        {
            false
        }
        (Answer::Member(_, set), other) => equal(set, other, fuel),
        (other, Answer::Member(_, set)) => equal(other, set, fuel),
        (Answer::Words(a), Answer::Words(b)) => same_words(a, b),
        (Answer::Based(a, p), Answer::Based(b, q)) => {
            (p == q && significant(a).eq_ignore_ascii_case(significant(b)))
                || (p != q && positional(a, *p).is_some() && positional(a, *p) == positional(b, *q))
        }
        // MATH often leaves out the answer's base; the same number in base ten is the question.
        (Answer::Based(a, _), Answer::Value(Expr::Number(b, _))) => {
            positional(a, 10).as_ref() == Some(b)
        }
        (Answer::Value(Expr::Number(a, _)), Answer::Based(b, base)) => {
            positional(b, *base).as_ref() == Some(a)
        }
        (Answer::Ratio(a), Answer::Ratio(b)) => ratios(a, b, fuel),
        (Answer::Ratio(parts), Answer::Value(value))
        | (Answer::Value(value), Answer::Ratio(parts)) => {
            // A time of day is no quotient.
            let [Answer::Value(a), Answer::Value(b)] = parts.as_slice() else { return false };
            let quotient = || Expr::quotient(a.clone(), b.clone());
            !is_clock(&[a.clone(), b.clone()]) && values(&quotient(), value, fuel)
        }
        (Answer::Chain(..), _) | (_, Answer::Chain(..)) => chains(gold, answer, equal, fuel),
        _ => equal_items(gold, answer, fuel),
    }
}

/// The rows of the table for tuples, lists, sets, unions and matrices, for times and words.
fn equal_items(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> bool {
    match (gold, answer) {
        (Answer::Tuple(open, a, close), Answer::Tuple(left, b, right)) => {
            // Two entries may be an interval, whose brackets matter.
            let brackets = |open: char, close: char| (open == '[', close == ']');
            let is_same = match a.len() {
                2 => brackets(*open, *close) == brackets(*left, *right),
                _ => (*left == '[') == (*right == ']'),
            };
            is_same && same_values(a, b, fuel)
        }
        (Answer::Tuple(open, a, close), Answer::List(b)) => {
            let is_interval = a.len() == 2 && (*open == '[' || *close == ']');
            !is_interval && in_order(a, b, fuel)
        }
        (Answer::List(a), Answer::Tuple(_, b, _)) => unordered(a, b, fuel),
        (Answer::Set(a) | Answer::List(a), Answer::Set(b) | Answer::List(b)) => {
            same_set(gold, answer, (a, b), fuel)
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
            rows_and_items(rows, items, equal, fuel)
        }
        (Answer::Set(items) | Answer::List(items), value @ Answer::Value(_))
        | (value @ Answer::Value(_), Answer::Set(items) | Answer::List(items)) => {
            unordered(&expanded(items), &expanded(std::slice::from_ref(value)), fuel)
        }
        (Answer::Time(..), Answer::Time(..) | Answer::Ratio(_) | Answer::Value(_)) => {
            same_time(gold, answer, fuel)
        }
        (Answer::Ratio(_) | Answer::Value(_), Answer::Time(..)) => same_time(answer, gold, fuel),
        (Answer::Words(a), Answer::Set(items)) | (Answer::Set(items), Answer::Words(a))
            if items.is_empty() =>
        {
            let words = folded(a);
            is_none(&words) && !is_undefined(&words)
        }
        (Answer::Value(Expr::Number(none, _)), Answer::Words(a))
            if none.is_zero() && folded(a) == "none" =>
        {
            true
        }
        (Answer::Words(a), Answer::Value(Expr::Infinity)) if is_infinite(&folded(a)) => true,
        (Answer::Value(Expr::Infinity), Answer::Words(a)) if folded(a) == "infinite" => true,
        (Answer::Matrix(rows), Answer::Words(name))
        | (Answer::Words(name), Answer::Matrix(rows)) => is_named_matrix(rows, name, fuel),
        (Answer::Words(a), other) | (other, Answer::Words(a)) => {
            let spelled = || spelled(a).map(Answer::number);
            letter(other).is_some_and(|b| same_words(a, &b))
                || set_in_words(a).is_some_and(|set| set == *other)
                || spelled().is_some_and(|a| equal(&a, other, fuel))
                || same_region(gold, answer, fuel)
        }
        // `P(4, -1)` and `C(4, -1)` are read as counts: here they are points.
        (Answer::Tuple(_, items, _), Answer::Value(Expr::Call(name, arguments)))
            if matches!(name.as_str(), "perm" | "binom") =>
        {
            let items_of: Vec<Answer> = arguments.iter().cloned().map(Answer::Value).collect();
            in_order(items, &items_of, fuel)
        }
        (Answer::Tuple(_, items, _), Answer::Value(value))
        | (Answer::Value(value), Answer::Tuple(_, items, _)) => vector(items, value, equal, fuel),
        (Answer::Matrix(rows), Answer::Value(value))
        | (Answer::Value(value), Answer::Matrix(rows))
            if identity_of(value).is_some() || *value == Expr::integer(0) =>
        {
            is_multiple_of_identity(rows, value, fuel)
        }
        (Answer::Matrix(rows), Answer::Value(value))
        | (Answer::Value(value), Answer::Matrix(rows)) => {
            vector(&rows.concat(), value, equal, fuel)
        }
        _ => same_region(gold, answer, fuel),
    }
}

/// Whether values and signs are the same, in order; around a sign that has no direction in any.
fn same_signs(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    let is_same = |a: &Answer, b: &Answer, fuel: &mut Fuel| match (a, b) {
        (Answer::Words(a), Answer::Words(b)) => a == b,
        (a, b) => equal(a, b, fuel),
    };
    if members::in_order(a, b, is_same, fuel) {
        return true;
    }
    let [first, sign @ Answer::Words(name), last] = b else { return false };
    let reversed = || [last, sign, first].map(Answer::clone);
    is_one_of(name, "∧|⋁|↔|perp|cong") && members::in_order(a, &reversed(), is_same, fuel)
}

/// Whether two piecewise functions have the same pieces, in any order.
fn cases(a: &[(Answer, Answer)], b: &[(Answer, Answer)], fuel: &mut Fuel) -> bool {
    if a.len() != b.len() || a.len() > MAX_MEMBERS {
        return false;
    }
    let others = |pieces: &[(Answer, Answer)], own: usize| -> Vec<Answer> {
        let others = pieces.iter().enumerate().filter(|(number, _)| *number != own);
        others.map(|(_, (_, condition))| condition.clone()).collect()
    };
    let mut left: Vec<usize> = (0..b.len()).collect();
    a.iter().enumerate().all(|(number, (value, condition))| {
        let place = left.iter().position(|other| {
            let (of_other, its_condition) = &b[*other];
            let is_same = match (is_otherwise(condition), is_otherwise(its_condition)) {
                (true, true) => true,
                (true, false) => is_rest(its_condition, &others(a, number), fuel),
                (false, true) => is_rest(condition, &others(b, *other), fuel),
                (false, false) => equal(condition, its_condition, fuel),
            };
            is_same && equal(value, of_other, fuel)
        });
        place.map(|place| left.swap_remove(place)).is_some()
    })
}

/// Whether a time is another one, the ratio that it is written as, or an hour by its number.
fn same_time(time: &Answer, other: &Answer, fuel: &mut Fuel) -> bool {
    let Answer::Time(hours, minutes, half) = time else { return false };
    let value = |n: u32| Answer::integer(n.into());
    match other {
        Answer::Time(i, n, other) => {
            let is_open = half.is_some() != other.is_some() && hours == i;
            minutes == n && (is_open || of_day(*hours, *half) == of_day(*i, *other))
        }
        Answer::Ratio(parts) => [*hours, of_day(*hours, *half)]
            .iter()
            .any(|hours| in_order(&[value(*hours), value(*minutes)], parts, fuel)),
        other => *minutes == 0 && half.is_none() && *other == value(*hours),
    }
}

/// The hour of a day of 24.
fn of_day(hours: u32, is_after_noon: Option<bool>) -> u32 {
    match is_after_noon {
        Some(true) if hours < 12 => hours + 12,
        Some(false) if hours == 12 => 0,
        _ => hours,
    }
}

/// Values with names: `x = 1, y = 2` says which is which, in any order, as does `(y, x) = (2, 1)`. Against values
/// without names their order counts.
fn by_names(gold: &Answer, answer: &Answer, fuel: &mut Fuel) -> Option<bool> {
    match (assigned(gold), assigned(answer)) {
        (Some(a), Some(b)) => Some(by_name(&a, &b, fuel)),
        (Some(named), None) => {
            // Roots have no order.
            let is_root = |name: String| {
                begins(&name, "lambda_") || named.len() == 2 && begins(&name, "x_|z_")
            };
            let are_roots = are_indexed(&named) && letter(named[0].0).is_some_and(is_root);
            if are_roots && matches!(answer, Answer::List(_) | Answer::Set(_)) {
                return Some(equal(&Answer::List(by_convention(named)), answer, fuel));
            }
            unnamed(answer)?
                .map_or(Some(false), |b| Some(same_values(&by_convention(named), b, fuel)))
        }
        (None, Some(named)) => {
            // The coordinates of a line
            if let Answer::Matrix(rows) = gold {
                let cells: Vec<Answer> = rows.iter().flatten().cloned().collect();
                return Some(in_order(&cells, &by_convention(named), fuel));
            }
            // `x_1 = 3, x_2 = -2` of the roots -2, 3
            if are_indexed(&named) && matches!(gold, Answer::List(_) | Answer::Set(_)) {
                return Some(equal(gold, &Answer::List(by_convention(named)), fuel));
            }
            let items = unnamed(gold)?;
            Some(items.is_some_and(|items| in_order(items, &by_convention(named), fuel)))
        }
        (None, None) => None,
    }
}

fn by_name(a: &[(&Answer, &Answer)], b: &[(&Answer, &Answer)], fuel: &mut Fuel) -> bool {
    a.len() == b.len()
        && a.iter().all(|(name, value)| {
            let other = b.iter().find(|(other, _)| other == name);
            other.is_some_and(|(_, other)| equal(value, other, fuel))
        })
}

/// Whether values with names are the same in order, with any letter for a parameter: `x = 2t, y = t`.
fn same_values(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    in_order(a, b, fuel) || {
        let [line, other] = [a, b].map(|values| Answer::Tuple('(', values.to_vec(), ')'));
        same_points((&line, None), (&other, None), equal, fuel)
    }
}

fn in_order(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    members::in_order(a, b, equal, fuel)
}

/// Each of the one has a partner of its own in the other.
fn unordered(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    pair_up(a, b, fuel, equal)
}

fn is_set(answer: &Answer) -> bool {
    matches!(answer, Answer::Set(_))
}

/// Whether sets or lists have the same members in any order.
fn same_set(
    gold: &Answer,
    answer: &Answer,
    (a, b): (&[Answer], &[Answer]),
    fuel: &mut Fuel,
) -> bool {
    if is_set(gold) && is_set(answer) && a.iter().chain(b).any(is_set) {
        return pair_up(a, b, fuel, same_member);
    }
    // `y = x + 4` may be the line of an equation that is not solved.
    let are_equations = a.iter().chain(b).all(|item| item.equation().is_some());
    unordered(&expanded(a), &expanded(b), fuel)
        || are_equations && unordered(a, b, fuel)
        || same_region(gold, answer, fuel)
}

/// Whether members of sets are equal. A set is another one than its own member: `\{1, \{2\}\}` is not `\{1, 2\}`.
fn same_member(a: &Answer, b: &Answer, fuel: &mut Fuel) -> bool {
    is_set(a) == is_set(b) && equal(a, b, fuel)
}

/// Members with every plus-minus written out.
fn expanded(items: &[Answer]) -> Vec<Answer> {
    let one = |item: &Answer| match item {
        Answer::Value(expr) => signs(expr).into_iter().map(Answer::Value).collect(),
        other => match other.equation().filter(|(name, _)| is_name(name)) {
            Some((_, value)) => expanded(std::slice::from_ref(value)),
            None => vec![other.clone()],
        },
    };
    items.iter().flat_map(one).collect()
}

/// Digits without the zeros that change no value: in front, and behind a point.
fn significant(digits: &str) -> &str {
    let digits = digits.trim_start_matches('0');
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

/// Whether a ratio of golds is a time of day: hours and two digits of minutes that have a common factor.
fn is_clock(parts: &[Expr]) -> bool {
    let [hours, minutes] = parts else { return false };
    let (Some(hours), Some(minutes)) = (hours.as_integer(), minutes.as_integer()) else {
        return false;
    };
    (0..24).contains(&hours)
        && (10..60).contains(&minutes)
        && (2..=hours).any(|d| hours % d == 0 && minutes % d == 0)
}

/// `a : b` and `c : d` are the same when proportional.
fn ratios(a: &[Answer], b: &[Answer], fuel: &mut Fuel) -> bool {
    let numbers = |parts: &[Answer]| -> Option<Vec<Expr>> {
        let number = |part| form(part).filter(|(name, _)| name.is_none());
        parts.iter().map(|part| Some(number(part)?.1.clone())).collect()
    };
    let (Some(a), Some(b)) = (numbers(a), numbers(b)) else { return false };
    let cross = |x: &Expr, y: &Expr| Expr::Product(vec![x.clone(), y.clone()]);
    let is_zero = |parts: &[Expr], fuel: &mut Fuel| {
        parts.iter().any(|part| rational(part, fuel).is_some_and(|value| value.is_zero()))
    };
    // A time of day is no proportion: 12:00 is not 1:00, and 6:30 is not 3:15. Proportions of golds are reduced.
    if is_zero(&a, fuel) || is_zero(&b, fuel) || is_clock(&a) {
        return a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| values(a, b, fuel));
    }
    a.len() == b.len()
        && (1..a.len()).all(|i| values(&cross(&a[0], &b[i]), &cross(&a[i], &b[0]), fuel))
}

/// Whether a condition is that of all other cases.
fn is_otherwise(condition: &Answer) -> bool {
    let is_word =
        |words: &str| matches!(folded(words).as_str(), "otherwise" | "else" | "elsewhere");
    matches!(condition, Answer::Words(words) if is_word(words))
}
